/* SPDX-License-Identifier: MIT */
/*
 * Tokens of a text, on one thread.
 *
 *     bench_tokens MODEL TEXT          the best of five, in MB/s: whole, and 20 lines at a time
 *     bench_tokens MODEL IN OUT        for scripts/compare_tokens.py: IN holds texts, each behind
 * its length in 4 bytes; OUT gets of each text the counts and ids with special tokens, then
 * without, and the two decoded texts
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "plimsoll/tokenizer.h"

static void stop(void)
{
    plm_error error;
    plm_error_get(&error);
    fprintf(stderr, "%s\n", error.message);
    exit(1);
}

/* The end of so many lines. */
static size_t lines_end(const char *text, size_t count, size_t at, int lines)
{
    for (const char *found; lines > 0 && at < count; lines--) {
        found = memchr(text + at, '\n', count - at);
        at = found ? (size_t)(found - text) + 1 : count;
    }
    return at;
}

/* The text whole, or so many lines at a time. */
static void measure(const plm_tokenizer *tokenizer, const plm_file *file, int lines)
{
    const char *text = (const char *)file->bytes;
    int64_t best = INT64_MAX, tokens = 0;
    for (int i = 0; i < 5; i++) {
        int64_t start = plm__clock_ns();
        tokens = 0;
        for (size_t at = 0, end; at < file->byte_count; at = end) {
            plm_encoding encoding = {0};
            end = lines ? lines_end(text, file->byte_count, at, lines) : file->byte_count;
            if (plm_tokenizer_encode(tokenizer, text + at, end - at, 0, &encoding) != PLM_OK)
                stop();
            tokens += encoding.count;
            plm_encoding_fini(&encoding);
        }
        int64_t took = plm__clock_ns() - start;
        best = took < best ? took : best;
    }
    printf("%s: %zu bytes, %lld tokens: %.3f s, %.1f MB/s\n",
           lines ? "20 lines at a time" : "whole", file->byte_count, (long long)tokens,
           (double)best / 1e9, (double)file->byte_count / 1e6 / ((double)best / 1e9));
}

static void put(FILE *out, const void *bytes, size_t count, size_t item)
{
    uint32_t length = (uint32_t)count;
    fwrite(&length, sizeof length, 1, out);
    if (count > 0)
        fwrite(bytes, item, count, out);
}

static void put_text(const plm_tokenizer *tokenizer, const char *text, size_t count, FILE *out)
{
    plm_encoding whole = {0}, bare = {0};
    if (plm_tokenizer_encode(tokenizer, text, count, PLM_ENCODE_SPECIAL, &whole) != PLM_OK ||
        plm_tokenizer_encode(tokenizer, text, count, 0, &bare) != PLM_OK) {
        plm_error error;
        plm_error_get(&error);
        fprintf(stderr, "%s\n", error.message);
    }
    put(out, whole.ids, (size_t)whole.count, sizeof *whole.ids);
    put(out, bare.ids, (size_t)bare.count, sizeof *bare.ids);
    for (int skip = 0; skip < 2; skip++) {
        char *decoded = NULL;
        size_t decoded_count = 0;
        if (plm_tokenizer_decode(tokenizer, whole.ids, whole.count, skip, &decoded,
                                 &decoded_count) != PLM_OK)
            stop();
        put(out, decoded, decoded_count, 1);
        plm_free(decoded);
    }
    plm_encoding_fini(&whole);
    plm_encoding_fini(&bare);
}

static void convert(const plm_tokenizer *tokenizer, const plm_file *file, const char *path)
{
    FILE *out = fopen(path, "wb");
    if (!out) {
        perror(path);
        exit(1);
    }
    for (size_t at = 0; at + 4 <= file->byte_count;) {
        uint32_t count;
        memcpy(&count, file->bytes + at, sizeof count);
        at += sizeof count;
        put_text(tokenizer, (const char *)file->bytes + at, count, out);
        at += count;
    }
    fclose(out);
}

int main(int argument_count, char **arguments)
{
    plm_tokenizer *tokenizer = NULL;
    plm_file file = {0};
    if (argument_count < 3) {
        fprintf(stderr, "usage: bench_tokens MODEL TEXT | MODEL IN OUT\n");
        return 2;
    }
    int64_t start = plm__clock_ns();
    if (plm_tokenizer_create(arguments[1], &tokenizer) != PLM_OK ||
        plm__file_map(arguments[2], &file) != PLM_OK)
        stop();
    if (argument_count == 3) {
        printf("read in %.3f s\n", (double)(plm__clock_ns() - start) / 1e9);
        measure(tokenizer, &file, 0);
        measure(tokenizer, &file, 20);
    } else {
        convert(tokenizer, &file, arguments[3]);
    }
    plm__file_unmap(&file);
    plm_tokenizer_destroy(tokenizer);
    return 0;
}
