/* SPDX-License-Identifier: MIT */
/*
 * Checkpoints: a folder of safetensors files "step-00000040.safetensors", each a whole state by
 * name: every parameter and its moments, the counters, and what the run is (model, seed, batch,
 * sequence, optimizer; not the data, so that a run may go on with another text). Never an image of
 * the arena, so another budget can resume it. The order of the data and the dropout masks are pure
 * functions of seed and step, so the step is all that there is to save of them.
 *
 * A file comes to be whole or not at all; a run killed at any instant leaves the last whole one.
 */
#ifndef PLM_TRAIN_CHECKPOINT_H
#define PLM_TRAIN_CHECKPOINT_H

#include "plimsoll/train.h"

/*
 * Before a run of which `step` updates are done: makes `folder` when it is missing and shows that a
 * file can be written there, so that a run does not end with nowhere to leave its state.
 * PLM_ERROR_ARGUMENT when a checkpoint of more updates lies there: keeping the newest would remove
 * what this run saves.
 */
PLM_MUST_USE plm_status plm__checkpoint_prepare(const char *folder, int64_t step);

/*
 * Saves the state after `step` updates into `folder`, which is made when it is missing, then
 * removes all but the `keep` newest. PLM_ERROR_IO leaves earlier checkpoints as they are.
 */
PLM_MUST_USE plm_status plm__checkpoint_save(const char *folder, int64_t keep,
                                             const plm_train_settings *settings, int64_t step,
                                             plm_session *session);

/*
 * Loads the newest checkpoint of `folder`; *step = its updates. Everything is checked before
 * anything is written: PLM_ERROR_IO for no checkpoint, PLM_ERROR_FORMAT for a damaged one,
 * PLM_ERROR_ARGUMENT for one of another model, seed, batch, sequence or optimizer.
 */
PLM_MUST_USE plm_status plm__checkpoint_load(const char *folder, const plm_train_settings *settings,
                                             plm_session *session, int64_t *step);

#endif
