/* SPDX-License-Identifier: MIT */
/*
 * The corpus: a file in two parts, read window by window as they are wanted: never mapped, so that
 * a text which somebody cuts short while it is trained on is a failure and not the program's end.
 * Nothing is stored about what was drawn, so any sequence of any step can be made again.
 */
#include "plimsoll/data.h"

#include <inttypes.h>
#include <math.h>
#include <zlib.h>

#include "base/file.h"
#include "base/philox.h"

enum {
    BYTE_VALUES = 256,
    HELD_OUT_DIVISOR = 10,
    PIECE_BYTES = 1 << 16,    /* of the text, where it is read from end to end */
    WINDOW_BYTES = 4096,      /* of a sequence, read at once */
    SITE_CORPUS = 0x64617461, /* "data": apart from the sites of a graph, which count from 0 */
    SITE_MASK = 0x6d61736b,   /* "mask" */
    POSITION_BITS = 32        /* of the counter of SITE_MASK, below the sequence */
};

struct plm_corpus {
    plm_file_reader file;
    int64_t training_bytes; /* the held-out part begins here */
    int64_t held_out_bytes;
    int64_t length; /* tokens a sequence */
    int64_t vocab;
    uint32_t checksum; /* CRC-32 of the text */
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

/* Called with the text from `first` to `end`, piece by piece in order; `at` is a piece's place. */
typedef plm_status visit_piece(int64_t at, const uint8_t *bytes, int64_t count, void *user);

static plm_status read_through(const plm_corpus *corpus, int64_t first, int64_t end,
                               visit_piece *visit, void *user)
{
    uint8_t *piece = NULL;
    PLM_TRY(plm__host_alloc(PIECE_BYTES, &piece));
    plm_status status = PLM_OK;
    for (int64_t at = first; status == PLM_OK && at < end; at += PIECE_BYTES) {
        int64_t count = end - at < PIECE_BYTES ? end - at : PIECE_BYTES;
        status = plm__file_read_at(&corpus->file, (size_t)at, piece, (size_t)count);
        if (status == PLM_OK)
            status = visit(at, piece, count, user);
    }
    plm__host_free(piece);
    return status;
}

static plm_status check_piece(int64_t at, const uint8_t *bytes, int64_t count, void *user)
{
    plm_corpus *corpus = user;
    corpus->checksum = (uint32_t)crc32_z(corpus->checksum, bytes, (size_t)count);
    for (int64_t i = 0; corpus->vocab < BYTE_VALUES && i < count; i++)
        PLM_FAIL_IF(bytes[i] >= corpus->vocab, PLM_ERROR_FORMAT,
                    "'%.200s' has the byte %d at offset %" PRId64
                    ", beyond a vocabulary of %" PRId64 "; a vocabulary of 256 holds every byte",
                    corpus->file.path, bytes[i], at + i, corpus->vocab);
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
    PLM_TRY(plm__host_alloc(sizeof *opened, &opened));
    opened->length = length;
    opened->vocab = vocab;
    PLM_TRY_DONE(plm__file_open(path, &opened->file));
    int64_t bytes = (int64_t)opened->file.byte_count;
    PLM_TRY_DONE(check_length(path, bytes, length));
    PLM_TRY_DONE(read_through(opened, 0, bytes, check_piece, opened));
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
    plm__file_close(&corpus->file);
    plm__host_free(corpus);
}

/* ---- sequences ----------------------------------------------------------------------------- */

/* Fills one sequence of `count` tokens and the tokens one place on, from byte `at` of the file. */
static plm_status read_window(const plm_corpus *corpus, int64_t at, int64_t count, int32_t *tokens,
                              int32_t *targets)
{
    uint8_t bytes[WINDOW_BYTES + 1];
    for (int64_t done = 0; done < count; done += WINDOW_BYTES) {
        int64_t part = count - done < WINDOW_BYTES ? count - done : WINDOW_BYTES;
        PLM_TRY(plm__file_read_at(&corpus->file, (size_t)(at + done), bytes, (size_t)part + 1));
        for (int64_t t = 0; t < part; t++) {
            tokens[done + t] = bytes[t];
            targets[done + t] = bytes[t + 1];
        }
    }
    return PLM_OK;
}

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
            plm__philox_at(seed, (uint32_t)step, SITE_CORPUS, (uint64_t)first + (uint64_t)i);
        uint64_t wide = (uint64_t)drawn.word[1] << 32 | drawn.word[0];
        PLM_TRY(read_window(corpus, (int64_t)(wide % places), corpus->length,
                            tokens + i * corpus->length, targets + i * corpus->length));
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
    int64_t windows = held_out_windows(corpus), length = corpus->length;
    for (int64_t i = 0; i < count; i++) {
        /* a window after the last begins at the end; the comparison keeps the product in range */
        int64_t start = i >= windows - first ? corpus->held_out_bytes : (first + i) * length;
        int64_t inside = corpus->held_out_bytes - 1 - start;
        inside = inside < 0 ? 0 : inside < length ? inside : length;
        PLM_TRY(read_window(corpus, corpus->training_bytes + start, inside, tokens, targets));
        for (int64_t t = inside; t < length; t++) {
            tokens[t] = 0;
            targets[t] = PLM_TARGET_IGNORED;
        }
        tokens += length;
        targets += length;
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
    if (plm__philox_unit(drawn.word[0]) >= CHOSEN_SHARE) {
        *target = PLM_TARGET_IGNORED;
        return;
    }
    float fate = plm__philox_unit(drawn.word[1]);
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
            mask_position(plm__philox_at(seed, (uint32_t)step, SITE_MASK, index), tokens++,
                          targets++);
        }
    return PLM_OK;
}

plm_corpus_counts plm_corpus_count(const plm_corpus *corpus)
{
    return (plm_corpus_counts){.training_tokens = corpus->training_bytes,
                               .held_out_tokens = corpus->held_out_bytes,
                               .held_out_windows = held_out_windows(corpus),
                               .held_out_targets = corpus->held_out_bytes - 1,
                               .checksum = corpus->checksum};
}

/* ---- what to beat -------------------------------------------------------------------------- */

/* Counts of neighbouring bytes, and what they make of the bytes after them. */
typedef struct bigrams {
    int64_t firsts[BYTE_VALUES];
    int64_t pairs[BYTE_VALUES][BYTE_VALUES];
    int64_t begin;    /* place of the part's first byte, which has no neighbour before it */
    uint8_t previous; /* last byte of the piece before */
    double values;
    double sum;
} bigrams;

static plm_status count_pairs(int64_t at, const uint8_t *bytes, int64_t count, void *user)
{
    bigrams *b = user;
    for (int64_t i = at == b->begin; i < count; i++) {
        uint8_t first = i > 0 ? bytes[i - 1] : b->previous;
        b->firsts[first] += 1;
        b->pairs[first][bytes[i]] += 1;
    }
    b->previous = bytes[count - 1];
    return PLM_OK;
}

static plm_status score_pairs(int64_t at, const uint8_t *bytes, int64_t count, void *user)
{
    bigrams *b = user;
    for (int64_t i = at == b->begin; i < count; i++) {
        uint8_t first = i > 0 ? bytes[i - 1] : b->previous;
        b->sum -=
            log(((double)b->pairs[first][bytes[i]] + 1) / ((double)b->firsts[first] + b->values));
    }
    b->previous = bytes[count - 1];
    return PLM_OK;
}

plm_status plm_corpus_bigram_loss(const plm_corpus *corpus, double *loss)
{
    bigrams *b = NULL;
    PLM_TRY(plm__host_alloc(sizeof *b, &b));
    b->values = corpus->vocab < BYTE_VALUES ? (double)corpus->vocab : BYTE_VALUES;
    int64_t middle = corpus->training_bytes;
    plm_status status = read_through(corpus, 0, middle, count_pairs, b);
    b->begin = middle;
    if (status == PLM_OK)
        status = read_through(corpus, middle, middle + corpus->held_out_bytes, score_pairs, b);
    if (status == PLM_OK)
        *loss = b->sum / (double)(corpus->held_out_bytes - 1);
    plm__host_free(b);
    return status;
}
