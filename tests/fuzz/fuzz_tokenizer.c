/* SPDX-License-Identifier: MIT */
/*
 * Any bytes given as a tokenizer.json, and behind a NUL a text, end in a tokenizer whose ids name
 * tokens, whose pieces lie inside the text and whose decoded text is UTF-8, or in a refusal that is
 * told in one line and leaves nothing. Serves libFuzzer, and run_corpus.c, which gives it the kept
 * inputs.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "fuzz/memory.h"
#include "fuzz/told.h"
#include "plimsoll/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* A normalizer may make 64 bytes of one, each with its source, in two passages and two lists of
 * words, and each may be a token with a piece; the words seen before have a fixed room. */
enum { MEMORY_MULTIPLE = 64 * 256, MEMORY_BASE_BYTES = 32 * 1024 * 1024 };

static void check_utf8(const char *text, size_t count)
{
    for (size_t at = 0; at < count;) {
        int length = plm__utf8_decode(text + at, (int64_t)(count - at), NULL);
        if (length == 0)
            abort();
        at += (size_t)length;
    }
}

static void check_encoding(const plm_tokenizer *tokenizer, const plm_encoding *encoding,
                           size_t text_count)
{
    for (int64_t i = 0; i < encoding->count; i++) {
        const plm_piece *piece = &encoding->pieces[i];
        if (encoding->ids[i] < 0 || piece->start > piece->end || piece->end > text_count ||
            piece->text[piece->byte_count] != '\0')
            abort();
    }
    char *text = NULL, *line = NULL;
    size_t count = 0;
    plm_status status =
        plm_tokenizer_decode(tokenizer, encoding->ids, encoding->count, false, &text, &count);
    if (status == PLM_OK)
        check_utf8(text, count);
    else if (!is_told_in_one_line(status))
        abort();
    if (plm_encoding_json(encoding, &line) != PLM_OK)
        abort();
    plm_free(text);
    plm_free(line);
}

static void encode(const plm_tokenizer *tokenizer, const char *text, size_t count)
{
    plm_encoding encoding = {0};
    plm_status status = plm_tokenizer_encode(tokenizer, text, count,
                                             PLM_ENCODE_SPECIAL | PLM_ENCODE_PIECES, &encoding);
    if (status == PLM_OK)
        check_encoding(tokenizer, &encoding, count);
    else if (!is_told_in_one_line(status) || encoding.ids)
        abort();
    plm_encoding_fini(&encoding);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char text[] = "Hello <s> w\xc3\xb6rld, \xe4\xb8\x96\xe7\x95\x8c 123   e\xcc\x81!";
    plm_fuzz_memory_begin();
    const uint8_t *end = count ? memchr(bytes, '\0', count) : NULL;
    size_t json_count = end ? (size_t)(end - bytes) : count;
    plm_tokenizer *tokenizer = NULL;
    plm_status status = plm_tokenizer_create_from_memory("input", bytes, json_count, &tokenizer);
    if (status == PLM_OK) {
        encode(tokenizer, text, sizeof text - 1);
        if (end)
            encode(tokenizer, (const char *)end + 1, count - json_count - 1);
    } else if (tokenizer || !is_told_in_one_line(status)) {
        abort();
    }
    plm_tokenizer_destroy(tokenizer);
    plm_fuzz_memory_end(MEMORY_BASE_BYTES, MEMORY_MULTIPLE, count);
    return 0;
}
