/* SPDX-License-Identifier: MIT */
/*
 * The corpus: a mapped file in two parts. Nothing is stored about what was drawn, so any sequence
 * of any step can be made again.
 */
#include "plimsoll/data.h"

#include <inttypes.h>
#include <math.h>

#include "base/file.h"
#include "base/philox.h"

enum {
    BYTE_VALUES = 256,
    HELD_OUT_DIVISOR = 10,
    SITE_CORPUS = 0x64617461, /* "data": apart from the sites of a graph, which count from 0 */
    SITE_MASK = 0x6d61736b,   /* "mask" */
    POSITION_BITS = 32        /* of the counter of SITE_MASK, below the sequence */
};

struct plm_corpus {
    plm_file file;
    int64_t training_bytes; /* the held-out part begins here */
    int64_t held_out_bytes;
    int64_t length; /* tokens a sequence */
    int64_t vocab;
};

/* ---- opening ------------------------------------------------------------------------------- */

static plm_status check_length(const char *path, int64_t bytes, int64_t length)
{
    int64_t wanted = HELD_OUT_DIVISOR * (length + 1); /* the smaller part is the held-out one */
    PLM_FAIL_IF(bytes == 0, PLM_ERROR_FORMAT,
                "'%.200s' is empty: wanted at least %" PRId64 " bytes", path, wanted);
    PLM_FAIL_IF(bytes < wanted, PLM_ERROR_FORMAT,
                "'%.200s' is too short: sequences of %" PRId64 " tokens want at least %" PRId64
                " bytes, of which the last tenth is held out; found %" PRId64,
                path, length, wanted, bytes);
    return PLM_OK;
}

static plm_status check_bytes(const char *path, const plm_file *file, int64_t vocab)
{
    if (vocab >= BYTE_VALUES)
        return PLM_OK;
    for (size_t i = 0; i < file->byte_count; i++)
        PLM_FAIL_IF(file->bytes[i] >= vocab, PLM_ERROR_FORMAT,
                    "'%.200s' has the byte %d at offset %zu, beyond a vocabulary of %" PRId64
                    "; a vocabulary of 256 holds every byte",
                    path, file->bytes[i], i, vocab);
    return PLM_OK;
}

plm_status plm_corpus_open(const char *path, int64_t length, int64_t vocab, plm_corpus **corpus)
{
    PLM_FAIL_IF(length < 1 || length > INT64_MAX / HELD_OUT_DIVISOR - 1, PLM_ERROR_ARGUMENT,
                "wanted a sequence length of at least 1, and no more than a file can hold, found "
                "%" PRId64,
                length);
    PLM_FAIL_IF(vocab < 1, PLM_ERROR_ARGUMENT, "wanted a vocabulary of at least 1, found %" PRId64,
                vocab);
    plm_status status;
    plm_corpus *opened = NULL;
    PLM_TRY(plm_host_alloc(sizeof *opened, &opened));
    opened->length = length;
    opened->vocab = vocab;
    PLM_TRY_DONE(plm_file_map(path, &opened->file));
    int64_t bytes = (int64_t)opened->file.byte_count;
    PLM_TRY_DONE(check_length(path, bytes, length));
    PLM_TRY_DONE(check_bytes(path, &opened->file, vocab));
    opened->held_out_bytes = bytes / HELD_OUT_DIVISOR;
    opened->training_bytes = bytes - opened->held_out_bytes;
    *corpus = opened;
    opened = NULL;
done:
    plm_corpus_close(opened);
    return status;
}

void plm_corpus_close(plm_corpus *corpus)
{
    if (!corpus)
        return;
    plm_file_unmap(&corpus->file);
    plm_host_free(corpus);
}

/* ---- sequences ----------------------------------------------------------------------------- */

plm_status plm_corpus_sample(const plm_corpus *corpus, uint64_t seed, int64_t step, int64_t first,
                             int64_t count, int32_t *tokens, int32_t *targets)
{
    PLM_FAIL_IF(step < 0 || step > UINT32_MAX || first < 0 || count < 0, PLM_ERROR_ARGUMENT,
                "wanted a step of 32 bits and sequences from 0, found step %" PRId64
                ", sequence %" PRId64 ", count %" PRId64,
                step, first, count);
    /* A sequence needs length + 1 bytes, so there are so many places where it can begin. The
     * remainder of 64 random bits favours none by more than 2^-20 of its share below 2^44 bytes. */
    uint64_t places = (uint64_t)(corpus->training_bytes - corpus->length);
    for (int64_t i = 0; i < count; i++) {
        plm_philox drawn =
            plm_philox_at(seed, (uint32_t)step, SITE_CORPUS, (uint64_t)first + (uint64_t)i);
        uint64_t wide = (uint64_t)drawn.word[1] << 32 | drawn.word[0];
        const uint8_t *bytes = corpus->file.bytes + wide % places;
        for (int64_t t = 0; t < corpus->length; t++) {
            *tokens++ = bytes[t];
            *targets++ = bytes[t + 1];
        }
    }
    return PLM_OK;
}

static int64_t held_out_windows(const plm_corpus *corpus)
{
    return (corpus->held_out_bytes - 1 + corpus->length - 1) / corpus->length;
}

plm_status plm_corpus_held_out(const plm_corpus *corpus, int64_t first, int64_t count,
                               int32_t *tokens, int32_t *targets)
{
    PLM_FAIL_IF(first < 0 || count < 0, PLM_ERROR_ARGUMENT,
                "no held-out windows from %" PRId64 ", %" PRId64 " of them", first, count);
    const uint8_t *bytes = corpus->file.bytes + corpus->training_bytes;
    int64_t windows = held_out_windows(corpus);
    for (int64_t i = 0; i < count; i++) {
        /* a window after the last begins at the end; the comparison keeps the product in range */
        int64_t start =
            i >= windows - first ? corpus->held_out_bytes : (first + i) * corpus->length;
        for (int64_t t = 0; t < corpus->length; t++) {
            bool inside = start + t + 1 < corpus->held_out_bytes;
            *tokens++ = inside ? bytes[start + t] : 0;
            *targets++ = inside ? bytes[start + t + 1] : PLM_TARGET_IGNORED;
        }
    }
    return PLM_OK;
}

/* ---- hidden tokens ------------------------------------------------------------------------- */

#define CHOSEN_SHARE 0.15f
#define MASK_SHARE   0.8f /* of the chosen; as many as are left are random and kept */
#define RANDOM_SHARE 0.9f

plm_status plm_corpus_check_mask(const plm_corpus *corpus)
{
    PLM_FAIL_IF(corpus->vocab <= PLM_TOKEN_MASK, PLM_ERROR_ARGUMENT,
                "a masked model hides bytes behind token %d: wanted a vocabulary of at least %d, "
                "found %" PRId64,
                PLM_TOKEN_MASK, PLM_TOKEN_MASK + 1, corpus->vocab);
    return PLM_OK;
}

/* One position, by four numbers of its own: chosen, what becomes of it, which byte. */
static void mask_position(plm_philox drawn, int32_t *token, int32_t *target)
{
    if (*target == PLM_TARGET_IGNORED)
        return;
    if (plm_philox_unit(drawn.word[0]) >= CHOSEN_SHARE) {
        *target = PLM_TARGET_IGNORED;
        return;
    }
    float fate = plm_philox_unit(drawn.word[1]);
    *target = *token;
    if (fate < MASK_SHARE)
        *token = PLM_TOKEN_MASK;
    else if (fate < RANDOM_SHARE)
        *token = (int32_t)(drawn.word[2] % BYTE_VALUES);
}

plm_status plm_corpus_mask(const plm_corpus *corpus, uint64_t seed, int64_t step, int64_t first,
                           int64_t count, int32_t *tokens, int32_t *targets)
{
    PLM_FAIL_IF(step < 0 || step > UINT32_MAX || first < 0 || count < 0 ||
                    first > INT32_MAX - count || corpus->length > UINT32_MAX,
                PLM_ERROR_ARGUMENT,
                "wanted a step of 32 bits and sequences from 0, found step %" PRId64
                ", sequence %" PRId64 ", count %" PRId64,
                step, first, count);
    PLM_TRY(plm_corpus_check_mask(corpus));
    for (int64_t i = 0; i < count; i++)
        for (int64_t t = 0; t < corpus->length; t++) {
            uint64_t index = (uint64_t)(first + i) << POSITION_BITS | (uint64_t)t;
            mask_position(plm_philox_at(seed, (uint32_t)step, SITE_MASK, index), tokens++,
                          targets++);
        }
    return PLM_OK;
}

plm_corpus_counts plm_corpus_count(const plm_corpus *corpus)
{
    return (plm_corpus_counts){.training_tokens = corpus->training_bytes,
                               .held_out_tokens = corpus->held_out_bytes,
                               .held_out_windows = held_out_windows(corpus),
                               .held_out_targets = corpus->held_out_bytes - 1};
}

/* ---- what to beat -------------------------------------------------------------------------- */

plm_status plm_corpus_bigram_loss(const plm_corpus *corpus, double *loss)
{
    struct {
        int64_t firsts[BYTE_VALUES];
        int64_t pairs[BYTE_VALUES][BYTE_VALUES];
    } *counts = NULL;
    PLM_TRY(plm_host_alloc(sizeof *counts, &counts));
    const uint8_t *bytes = corpus->file.bytes;
    for (int64_t i = 0; i + 1 < corpus->training_bytes; i++) {
        counts->firsts[bytes[i]] += 1;
        counts->pairs[bytes[i]][bytes[i + 1]] += 1;
    }
    const uint8_t *held_out = bytes + corpus->training_bytes;
    double values = corpus->vocab < BYTE_VALUES ? (double)corpus->vocab : BYTE_VALUES;
    double sum = 0;
    for (int64_t i = 0; i + 1 < corpus->held_out_bytes; i++) {
        double pairs = (double)counts->pairs[held_out[i]][held_out[i + 1]];
        sum -= log((pairs + 1) / ((double)counts->firsts[held_out[i]] + values));
    }
    *loss = sum / (double)(corpus->held_out_bytes - 1);
    plm_host_free(counts);
    return PLM_OK;
}
