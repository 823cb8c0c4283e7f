/* SPDX-License-Identifier: MIT */
/*
 * Text to train on, as tokens.
 *
 * A corpus is a file read as bytes, each byte a token of its own. Its last tenth is held out: no
 * sequence that is trained on reaches into it. Sequences to train on begin at random places of the
 * rest, drawn by a pure function of (seed, step, index of the sequence in the step's window): the
 * same sequences come whatever the micro-batch, and after a resume. The held-out part is read from
 * front to back in windows that do not overlap.
 *
 * The file is neither copied nor mapped: each window is read when it is wanted, from pages that
 * belong to the page cache and do not count as resident in this process. A file that is cut short
 * while it is open is PLM_ERROR_IO of the call that finds it too short. Reading is thread-safe.
 */
#ifndef PLIMSOLL_DATA_H
#define PLIMSOLL_DATA_H

#include <stdint.h>

#include "plimsoll/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The target of a position that is not to be counted in the loss. */
enum { PLM_TARGET_IGNORED = -1 };

typedef struct plm_corpus plm_corpus;

/*
 * Opens the file at `path`, and reads it through once, for sequences of `length` tokens (1 or more)
 * and a model of `vocab` tokens (1 or more). *corpus is owned by the caller. PLM_ERROR_IO when it
 * cannot be read; PLM_ERROR_FORMAT when it is empty, when one of its two parts is shorter than
 * length + 1 bytes (the message says how long the file must be), or when it has a byte that is not
 * under `vocab` (the message names the byte and its place); PLM_ERROR_ARGUMENT,
 * PLM_ERROR_HOST_MEMORY.
 */
PLM_MUST_USE plm_status plm_corpus_open(const char *path, int64_t length, int64_t vocab,
                                        plm_corpus **corpus);

/* Closes the file; NULL is allowed. */
void plm_corpus_close(plm_corpus *corpus);

/*
 * Fills the sequences `first` .. `first` + `count` - 1 of a step's window:
 * tokens [count, length], targets [count, length], targets being the tokens one place on. Both
 * arrays are the caller's. Never reaches into the held-out part. PLM_ERROR_ARGUMENT for a negative
 * index or count and for a step outside 0 .. 2^32 - 1; PLM_ERROR_IO when the file cannot be read,
 * or has become too short.
 */
PLM_MUST_USE plm_status plm_corpus_sample(const plm_corpus *corpus, uint64_t seed, int64_t step,
                                          int64_t first, int64_t count, int32_t *tokens,
                                          int32_t *targets);

/*
 * Fills the held-out windows `first` .. `first` + `count` - 1, in the same shapes. What lies beyond
 * the text is token 0 with the target PLM_TARGET_IGNORED: the end of the last window, and whole
 * windows after it, so that any count may be asked for. PLM_ERROR_ARGUMENT for a negative index or
 * count; PLM_ERROR_IO as plm_corpus_sample.
 */
PLM_MUST_USE plm_status plm_corpus_held_out(const plm_corpus *corpus, int64_t first, int64_t count,
                                            int32_t *tokens, int32_t *targets);

/*
 * Hiding tokens from a masked model (Devlin et al. 2019). Of the positions whose target is counted
 * 15 in 100 are chosen, each by a pure function of (seed, step, sequence, position). The target of
 * a chosen position becomes its token, which is then replaced: 8 times in 10 by PLM_TOKEN_MASK,
 * once by a byte drawn at random, once by itself. All other targets become PLM_TARGET_IGNORED.
 */
enum { PLM_TOKEN_MASK = 256 }; /* the first id that is no byte */

/*
 * Hides tokens of the sequences `first` .. `first` + `count` - 1, both arrays as filled by
 * plm_corpus_sample or plm_corpus_held_out. PLM_ERROR_ARGUMENT as plm_corpus_check_mask, for a
 * negative index or count and for a step outside 0 .. 2^32 - 1.
 */
PLM_MUST_USE plm_status plm_corpus_mask(const plm_corpus *corpus, uint64_t seed, int64_t step,
                                        int64_t first, int64_t count, int32_t *tokens,
                                        int32_t *targets);

/* PLM_ERROR_ARGUMENT when the vocabulary has no room for PLM_TOKEN_MASK. */
PLM_MUST_USE plm_status plm_corpus_check_mask(const plm_corpus *corpus);

typedef struct plm_corpus_counts {
    int64_t training_tokens; /* bytes of the training part */
    int64_t held_out_tokens; /* bytes of the held-out part */
    int64_t held_out_windows;
    int64_t held_out_targets; /* that are counted, over all windows: held_out_tokens - 1 */
    uint32_t checksum;        /* CRC-32 of the whole text, as it was opened */
} plm_corpus_counts;

plm_corpus_counts plm_corpus_count(const plm_corpus *corpus);

/*
 * *loss = what a bigram model scores on the held-out part: the mean over its targets of
 * -ln((pairs + 1) / (firsts + V)), counted on the training part, V the smaller of vocab and 256.
 * In nats. A model that has learned nothing beyond neighbouring letters does no better.
 * PLM_ERROR_HOST_MEMORY; PLM_ERROR_IO as plm_corpus_sample.
 */
PLM_MUST_USE plm_status plm_corpus_bigram_loss(const plm_corpus *corpus, double *loss);

#ifdef __cplusplus
}
#endif
#endif
