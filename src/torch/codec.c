/* SPDX-License-Identifier: MIT */
/*
 * xz over liblzma, zstd over libzstd, gzip over zlib. Each reads files of several members, tells
 * damage from a cut, and takes bounded memory. libzstd keeps its own memory; the others use ours.
 */
#include "torch/codec.h"

#include <lzma.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

static plm_status cut_off(const plm_stream *stream)
{
    return plm_fail(PLM_ERROR_FORMAT, "'%s' is cut off: its %s data ends early, after %zu bytes",
                    stream->name, stream->codec->name, stream->source_bytes);
}

static plm_status damaged(const plm_stream *stream, const char *detail)
{
    return plm_fail(PLM_ERROR_FORMAT, "'%s' is damaged: its %s data cannot be decoded (%s)",
                    stream->name, stream->codec->name, detail);
}

static plm_status no_memory(const plm_stream *stream)
{
    return plm_fail(PLM_ERROR_HOST_MEMORY, "out of host memory while decoding '%s'", stream->name);
}

/* xz */

typedef struct xz_state {
    lzma_stream coder;
    lzma_allocator memory;
} xz_state;

static void *xz_alloc(void *unused, size_t count, size_t item_bytes)
{
    (void)unused;
    return plm__host_malloc(count * item_bytes); /* liblzma passes 1 as the count */
}

static void xz_free(void *unused, void *block)
{
    (void)unused;
    plm__host_free(block);
}

static plm_status xz_open(plm_stream *stream)
{
    xz_state *state = NULL;
    PLM_TRY(plm__host_alloc(sizeof *state, &state));
    stream->codec_state = state;
    state->memory = (lzma_allocator){.alloc = xz_alloc, .free = xz_free};
    state->coder = (lzma_stream)LZMA_STREAM_INIT;
    state->coder.allocator = &state->memory;
    state->coder.next_in = stream->source;
    state->coder.avail_in = stream->source_bytes;
    if (lzma_stream_decoder(&state->coder, PLM_CODEC_XZ_MEMORY_MAX, LZMA_CONCATENATED) != LZMA_OK)
        return no_memory(stream);
    return PLM_OK;
}

static plm_status xz_decode(plm_stream *stream, uint8_t *out, size_t room, size_t *made)
{
    lzma_stream *coder = &((xz_state *)stream->codec_state)->coder;
    coder->next_out = out;
    coder->avail_out = room;
    lzma_ret result = lzma_code(coder, LZMA_FINISH);
    *made = room - coder->avail_out;
    stream->source_used = stream->source_bytes - coder->avail_in;
    if (result == LZMA_STREAM_END)
        stream->codec_ended = true;
    else if (result == LZMA_MEM_ERROR)
        return no_memory(stream);
    else if (result == LZMA_MEMLIMIT_ERROR)
        return plm_fail(PLM_ERROR_UNSUPPORTED,
                        "'%s' needs more than %d MiB to be decoded: compress it with a smaller "
                        "dictionary",
                        stream->name, PLM_CODEC_XZ_MEMORY_MAX >> 20);
    else if (result == LZMA_BUF_ERROR || (result == LZMA_OK && *made == 0))
        return cut_off(stream);
    else if (result != LZMA_OK)
        return damaged(stream, result == LZMA_FORMAT_ERROR ? "not an xz stream" : "wrong check");
    return PLM_OK;
}

static void xz_close(plm_stream *stream)
{
    xz_state *state = stream->codec_state;
    if (!state)
        return;
    lzma_end(&state->coder);
    plm__host_free(state);
}

/* gzip */

static void *gzip_alloc(void *unused, unsigned count, unsigned item_bytes)
{
    (void)unused;
    return plm__host_malloc((size_t)count * item_bytes);
}

static void gzip_free(void *unused, void *block)
{
    (void)unused;
    plm__host_free(block);
}

static plm_status gzip_open(plm_stream *stream)
{
    z_stream *coder = NULL;
    PLM_TRY(plm__host_alloc(sizeof *coder, &coder));
    coder->zalloc = gzip_alloc;
    coder->zfree = gzip_free;
    if (inflateInit2(coder, 16 + MAX_WBITS) != Z_OK) { /* 16: gzip headers and nothing else */
        plm__host_free(coder);
        return no_memory(stream);
    }
    stream->codec_state = coder;
    return PLM_OK;
}

static plm_status gzip_decode(plm_stream *stream, uint8_t *out, size_t room, size_t *made)
{
    z_stream *coder = stream->codec_state;
    size_t rest = stream->source_bytes - stream->source_used;
    uInt given = rest > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uInt)rest;
    coder->next_in = (z_const Bytef *)stream->source + stream->source_used;
    coder->avail_in = given;
    coder->next_out = out;
    coder->avail_out = room > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uInt)room;
    int result = inflate(coder, Z_NO_FLUSH);
    *made = (size_t)(coder->next_out - out);
    stream->source_used += given - coder->avail_in;
    if (result == Z_STREAM_END) {
        stream->codec_ended = stream->source_used == stream->source_bytes;
        return inflateReset(coder) == Z_OK ? PLM_OK : damaged(stream, "cannot begin a member");
    }
    if (result == Z_MEM_ERROR)
        return no_memory(stream);
    if (result == Z_BUF_ERROR || (result == Z_OK && *made == 0 && rest == given))
        return cut_off(stream);
    return result == Z_OK ? PLM_OK : damaged(stream, coder->msg ? coder->msg : "wrong check");
}

static void gzip_close(plm_stream *stream)
{
    if (!stream->codec_state)
        return;
    inflateEnd(stream->codec_state);
    plm__host_free(stream->codec_state);
}

/* zstd */

static plm_status zstd_open(plm_stream *stream)
{
    ZSTD_DCtx *coder = ZSTD_createDCtx();
    if (!coder)
        return no_memory(stream);
    stream->codec_state = coder;
    ZSTD_DCtx_setParameter(coder, ZSTD_d_windowLogMax, PLM_CODEC_ZSTD_WINDOW_LOG_MAX);
    return PLM_OK;
}

static plm_status zstd_decode(plm_stream *stream, uint8_t *out, size_t room, size_t *made)
{
    ZSTD_inBuffer in = {stream->source, stream->source_bytes, stream->source_used};
    ZSTD_outBuffer made_out = {out, room, 0};
    size_t result = ZSTD_decompressStream(stream->codec_state, &made_out, &in);
    *made = made_out.pos;
    stream->source_used = in.pos;
    if (ZSTD_isError(result))
        return damaged(stream, ZSTD_getErrorName(result));
    if (result == 0 && in.pos == in.size) /* a frame is decoded and flushed, none follows */
        stream->codec_ended = true;
    else if (in.pos == in.size && made_out.pos < room)
        return cut_off(stream);
    return PLM_OK;
}

static void zstd_close(plm_stream *stream)
{
    ZSTD_freeDCtx(stream->codec_state);
}

static const plm_codec codecs[] = {
    {"xz",
     "\xfd"
     "7zXZ",
     6, xz_open, xz_decode, xz_close},
    {"zstd", "\x28\xb5\x2f\xfd", 4, zstd_open, zstd_decode, zstd_close},
    {"gzip", "\x1f\x8b", 2, gzip_open, gzip_decode, gzip_close},
};

const plm_codec *plm__codec_find(const uint8_t *bytes, size_t byte_count)
{
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        if (byte_count >= codecs[i].magic_bytes &&
            memcmp(bytes, codecs[i].magic, codecs[i].magic_bytes) == 0)
            return &codecs[i];
    return NULL;
}
