/* SPDX-License-Identifier: MIT */
/* torch/stream: xz, zstd and gzip give the bytes that went in, or say that they cannot. */
#include "unit/torch.h"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

enum { PLAIN_BYTES = 1300 * 1024 + 17, PACKED_MAX = 4 * 1024 * 1024 };

static uint8_t plain[PLAIN_BYTES], packed[2 * PACKED_MAX];

/* Bytes that compress, but not to nothing. */
static void make_plain(void)
{
    uint32_t state = 1;
    for (size_t i = 0; i < PLAIN_BYTES; i++) {
        state = state * 1664525u + 1013904223u;
        plain[i] = (uint8_t)(state >> 29);
    }
}

static size_t pack_xz(uint8_t *out)
{
    size_t used = 0;
    assert_int_equal(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC32, NULL, plain, PLAIN_BYTES, out,
                                             &used, PACKED_MAX),
                     LZMA_OK);
    return used;
}

static size_t pack_zstd(uint8_t *out)
{
    ZSTD_CCtx *coder = ZSTD_createCCtx();
    assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(coder, ZSTD_c_checksumFlag, 1)));
    size_t used = ZSTD_compress2(coder, out, PACKED_MAX, plain, PLAIN_BYTES);
    ZSTD_freeCCtx(coder);
    assert_false(ZSTD_isError(used));
    return used;
}

static size_t pack_gzip(uint8_t *out)
{
    z_stream coder = {0};
    assert_int_equal(deflateInit2(&coder, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    coder.next_in = plain;
    coder.avail_in = PLAIN_BYTES;
    coder.next_out = out;
    coder.avail_out = PACKED_MAX;
    assert_int_equal(deflate(&coder, Z_FINISH), Z_STREAM_END);
    size_t used = PACKED_MAX - coder.avail_out;
    deflateEnd(&coder);
    return used;
}

static size_t pack_nothing(uint8_t *out)
{
    memcpy(out, plain, PLAIN_BYTES);
    return PLAIN_BYTES;
}

static const struct {
    const char *name;
    size_t (*pack)(uint8_t *out);
} forms[] = {{"plain", pack_nothing}, {"xz", pack_xz}, {"zstd", pack_zstd}, {"gzip", pack_gzip}};

enum { FORM_COUNT = sizeof forms / sizeof *forms };

/* Reads all bytes, `step` at a time, and compares them with `repeats` times the plain ones. */
static void assert_reads_back(const uint8_t *bytes, size_t count, size_t step, size_t repeats)
{
    plm_stream stream;
    assert_ok(plm__stream_over("bytes", bytes, count, &stream));
    size_t at = 0;
    for (;;) {
        assert_ok(plm__stream_fill(&stream, step));
        size_t left = plm__stream_left(&stream), taken = left < step ? left : step;
        if (taken == 0)
            break;
        assert_int_equal(plm__stream_offset(&stream), at);
        for (size_t i = 0; i < taken; i++, at++)
            if (stream.next[i] != plain[at % PLAIN_BYTES])
                fail_msg("byte %zu differs", at);
        stream.next += taken;
    }
    assert_int_equal(at, repeats * PLAIN_BYTES);
    plm__stream_close(&stream);
}

static void every_form_gives_the_bytes_that_went_in(void **state)
{
    (void)state;
    for (int form = 0; form < FORM_COUNT; form++) {
        size_t count = forms[form].pack(packed);
        assert_reads_back(packed, count, 1000, 1);
        assert_reads_back(packed, count, 1200 * 1024, 1); /* more than the buffer */
    }
}

static void files_of_several_members_are_read_to_their_end(void **state)
{
    (void)state;
    for (int form = 1; form < FORM_COUNT; form++) {
        size_t first = forms[form].pack(packed);
        size_t second = forms[form].pack(packed + first);
        assert_reads_back(packed, first + second, 4096, 2);
    }
}

static plm_status read_all(const uint8_t *bytes, size_t count)
{
    plm_stream stream;
    PLM_TRY(plm__stream_over("the bytes", bytes, count, &stream));
    plm_status status;
    while ((status = plm__stream_fill(&stream, 1)) == PLM_OK && plm__stream_left(&stream) > 0)
        stream.next = stream.end;
    plm__stream_close(&stream);
    return status;
}

static void compressed_data_that_is_cut_off_is_refused(void **state)
{
    (void)state;
    for (int form = 1; form < FORM_COUNT; form++) {
        size_t count = forms[form].pack(packed);
        for (size_t cut = 6; cut < count; cut += cut < 40 || cut > count - 12 ? 1 : count / 6) {
            assert_int_equal(read_all(packed, cut), PLM_ERROR_FORMAT);
            assert_message_has("cut off");
            assert_message_has(forms[form].name);
        }
    }
}

static void damaged_data_is_refused(void **state)
{
    (void)state;
    for (int form = 1; form < FORM_COUNT; form++) {
        size_t count = forms[form].pack(packed);
        memset(packed + count / 2, 0x55, 64);
        assert_int_equal(read_all(packed, count), PLM_ERROR_FORMAT);
        assert_message_has("'the bytes' is damaged");
    }
}

static void a_stream_survives_the_failure_of_every_allocation(void **state)
{
    (void)state;
    for (int form = 1; form < FORM_COUNT; form++) {
        size_t count = forms[form].pack(packed);
        int64_t live = plm__host_stats_get().live_count;
        for (int64_t n = 1;; n++) {
            plm__host_fail_at(n, n % 2);
            plm_status status = read_all(packed, count);
            bool fired = plm__host_fail_at(0, false);
            assert_int_equal(plm__host_stats_get().live_count, live);
            assert_int_equal(status, fired ? PLM_ERROR_HOST_MEMORY : PLM_OK);
            if (!fired)
                break;
        }
    }
}

int main(void)
{
    make_plain();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_gives_the_bytes_that_went_in),
        cmocka_unit_test(files_of_several_members_are_read_to_their_end),
        cmocka_unit_test(compressed_data_that_is_cut_off_is_refused),
        cmocka_unit_test(damaged_data_is_refused),
        cmocka_unit_test(a_stream_survives_the_failure_of_every_allocation),
    };
    return run_test_group(tests);
}
