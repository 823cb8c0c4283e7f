/* SPDX-License-Identifier: MIT */
/*
 * Checkpoints: a folder of safetensors files "step-00000040.safetensors", each a whole state by
 * name: every parameter and its moments, the counters, what the run is (model, seed, batch,
 * sequence, optimizer) and which text it learnt from, by length and CRC-32. Never an image of the
 * arena, so another budget can resume it. The order of the data and the dropout masks are pure
 * functions of seed and step, so the step is all that there is to save of them.
 *
 * A file comes to be whole or not at all; a run killed at any instant leaves the last whole one.
 */
#ifndef PLM_TRAIN_CHECKPOINT_H
#define PLM_TRAIN_CHECKPOINT_H

#include "base/file.h"
#include "plimsoll/data.h"
#include "plimsoll/train.h"

/*
 * Before a run of which `step` updates are done: makes `folder` when it is missing, locks it, which
 * plm__file_lock_give ends also after a failure, removes what killed runs left half written, and
 * shows that a file can be written there, so that a run does not end with nowhere to leave its
 * state. PLM_ERROR_ARGUMENT when another run has the lock, and when a checkpoint of more updates
 * lies there: keeping the newest would remove what this run saves.
 */
PLM_MUST_USE plm_status plm__checkpoint_prepare(const char *folder, int64_t step,
                                                plm_file_lock *lock);

/*
 * Saves the state after `step` updates into `folder`, which is made when it is missing, then
 * removes all but the `keep` newest. PLM_ERROR_IO leaves earlier checkpoints as they are. `text` is
 * the one that is trained on.
 */
PLM_MUST_USE plm_status plm__checkpoint_save(const char *folder, int64_t keep,
                                             const plm_train_settings *settings,
                                             const plm_corpus_counts *text, int64_t step,
                                             plm_session *session);

/* Removes all but the `keep` newest, or the one of `step`. A file that will not go is no reason to
 * stop a run. */
PLM_MUST_USE plm_status plm__checkpoint_trim(const char *folder, int64_t keep);
PLM_MUST_USE plm_status plm__checkpoint_drop(const char *folder, int64_t step);

/*
 * Looks at the newest checkpoint of `folder`, before anything is planned for it: PLM_ERROR_IO for
 * no checkpoint, PLM_ERROR_FORMAT for a damaged one, with the newest whole one named,
 * PLM_ERROR_ARGUMENT for one of another model, seed, batch, sequence or optimizer, for one of
 * another text unless settings->other_text (one that names no text is taken), and for one with all
 * of settings->steps.
 */
PLM_MUST_USE plm_status plm__checkpoint_check(const char *folder,
                                              const plm_train_settings *settings,
                                              const plm_corpus_counts *text);

/*
 * Loads the newest checkpoint of `folder`; *step = its updates. Everything is checked, as by
 * plm__checkpoint_check, before anything is written.
 */
PLM_MUST_USE plm_status plm__checkpoint_load(const char *folder, const plm_train_settings *settings,
                                             const plm_corpus_counts *text, plm_session *session,
                                             int64_t *step);

#endif
