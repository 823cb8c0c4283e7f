/* SPDX-License-Identifier: MIT */
/*
 * Training inside a budget: data, plan, session and loop in one object.
 *
 *     plm_trainer *trainer = NULL;
 *     plm_train_result result;
 *     plm_status status = plm_trainer_create(&settings, &trainer);   (reads the data and plans)
 *     if (status == PLM_OK)
 *         status = plm_trainer_run(trainer, &observer, &result);     (takes the arena and trains)
 *     plm_trainer_destroy(trainer);
 *
 * One thread uses a trainer, and nothing else its device meanwhile. The device hands out no more
 * than the budget until the trainer ends; then its cap is what it was.
 */
#ifndef PLIMSOLL_TRAIN_H
#define PLIMSOLL_TRAIN_H

#include "plimsoll/model.h"
#include "plimsoll/tape.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Updates skipped one after the other, their gradients not finite, after which a run has diverged
 * and ends: one more than the halvings that fp16's loss scale may need from its largest, 2^31,
 * to 1.
 */
enum { PLM_SKIPPED_IN_A_ROW_MAX = 32 };

typedef struct plm_train_settings {
    plm_model model;
    const char *data_path; /* borrowed until the trainer ends */
    plm_device *device;    /* to train on, borrowed until the trainer ends; choices are made by the
                              rates of its profile, where it has one */
    size_t budget_bytes;   /* 0: the memory that the device has available */
    plm_strategy strategy; /* what it leaves open is chosen for the budget */
    int64_t batch;         /* sequences in one update */
    int64_t sequence;      /* tokens of each; longer than the model's context enlarges its table */
    int64_t steps;         /* updates */
    int64_t warmup;        /* updates over which the learning rate rises from 0 */
    plm_optimizer optimizer;
    plm_hyper hyper;        /* learning_rate is the largest; it falls to a tenth along a cosine */
    uint64_t seed;          /* of first values, data order and dropout */
    int64_t eval_every;     /* updates between evaluations, 0: only at the end */
    int64_t eval_sequences; /* held-out windows used, evenly spread; 0: all */
    const char *out_folder; /* where checkpoints go, made when missing; NULL: none. Borrowed */
    int64_t save_every;     /* updates between checkpoints, 0: only the last */
    int64_t keep;           /* newest checkpoints kept, at least 1 */
    const char *resume_folder; /* go on from its newest checkpoint; NULL: from first values */
    bool other_text; /* resume although the checkpoint learnt from another text than this one */
} plm_train_settings;

typedef struct plm_trainer plm_trainer;

/* After each update. */
typedef struct plm_train_progress {
    int64_t step; /* updates done, from 1 */
    int64_t steps;
    double loss; /* mean over the window's counted targets, nats */
    double learning_rate;
    double gradient_norm;     /* unscaled, before clipping */
    double loss_scale;        /* of fp16; 1 in other precisions */
    bool skipped;             /* the gradient was not finite: nothing was changed */
    double tokens_per_second; /* of the updates so far, evaluation not counted */
    double elapsed_seconds;   /* since the first update began */
    double remaining_seconds; /* at the rate so far */
    size_t used_bytes;        /* high water so far, counted by the device, with its overhead */
    size_t budget_bytes;
    bool evaluated;         /* validation_loss was measured after this update */
    double validation_loss; /* nats, of the held-out windows used */
} plm_train_progress;

/* Called on the training thread; false stops the run after this update, or after the next one
 * where the device has begun with it, which is told too; what the run leaves is saved when there is
 * a folder for it. NULL functions are skipped. */
typedef struct plm_train_observer {
    bool (*progress)(const plm_train_progress *progress, void *user);
    void *user;
} plm_train_observer;

typedef struct plm_train_result {
    int64_t steps;        /* updates done in all, those before a resume too */
    int64_t resumed_from; /* updates that the checkpoint had, 0 without one */
    int64_t saved_step;   /* updates that the last good checkpoint of this run has, 0: none */
    double first_loss;    /* of this run */
    double last_loss;
    double validation_loss;
    int64_t validation_targets; /* that it is the mean of */
    bool masked;                /* losses are those of hidden tokens: a bigram's does not compare */
    double bigram_loss;         /* what a bigram model scores on the whole held-out part */
    double tokens_per_second;
    double seconds;
    int64_t skipped_steps;
    int64_t skipped_in_a_row; /* at the end; PLM_SKIPPED_IN_A_ROW_MAX ended the run */
    bool diverged; /* the last loss or gradient is not finite, and no loss scale is to blame */
    size_t budget_bytes;
    size_t predicted_peak_bytes; /* the plan's */
    size_t measured_peak_bytes;  /* counted by the device, never copied from the plan */
    size_t driver_bytes;         /* held at the end by a GPU driver's word; 0: no driver says */
    bool last_granule_written;
    size_t resident_growth_bytes; /* by the operating system: resident now less resident just before
                                     planning */
    plm_optimizer optimizer;
    plm_strategy strategy; /* that ran: given back, it fixes every choice */
} plm_train_result;

/*
 * *trainer = everything up to the reservation. PLM_ERROR_ARGUMENT for settings out of range,
 * PLM_ERROR_IO and PLM_ERROR_FORMAT for the data, then, before anything is planned, PLM_ERROR_IO,
 * PLM_ERROR_FORMAT and PLM_ERROR_ARGUMENT for a checkpoint to resume that is missing, damaged, of
 * another run, of another text (other_text takes it), or that has all the steps already;
 * PLM_ERROR_BUDGET when no allowed micro-batch fits, with the smallest budget named.
 */
PLM_MUST_USE plm_status plm_trainer_create(const plm_train_settings *settings,
                                           plm_trainer **trainer);

/* The plan that will run; borrowed. */
const plm_plan *plm_trainer_plan(const plm_trainer *trainer);

/* The budget that bounds the run: as stated, or found. */
size_t plm_trainer_budget(const plm_trainer *trainer);

/*
 * Before a run: its updates from the second on are timed on *tape, made for the trainer's plan; the
 * first touches all memory for the first time, and is taken only where it is the only one.
 * Borrowed.
 */
void plm_trainer_use_tape(plm_trainer *trainer, plm_tape *tape);

/*
 * Trains; once for each trainer. `observer` may be NULL.
 *
 * PLM_ERROR_DEVICE_MEMORY when the arena is not to be had, because others took the memory since the
 * plan was made: the only moment at which a run can be out of memory, for it takes nothing later.
 * That is an answer (the program ends with status 1, as for a budget that is too small): the error
 * holds the record (asked, live, reserved, budget, largest free, operation and tensor), and its
 * message names the plan that would fit now, its peak as a budget to state and what it chooses, or
 * says that none does.
 * Nothing was taken, and the trainer may be run again when there is room.
 *
 * A run that resumes reaches the same bits as one that was never stopped, on the
 * same machine, thread count and micro-batch; another budget resumes it too.
 * PLM_ERROR_ARGUMENT when another run saves into out_folder, which is locked from here until the
 * trainer is destroyed.
 * PLM_ERROR_IO, PLM_ERROR_FORMAT and PLM_ERROR_ARGUMENT for a checkpoint that has changed since
 * plm_trainer_create looked at it; PLM_ERROR_IO when one cannot be saved, and when the text cannot
 * be read any more, after the state until then is saved, which the message tells.
 *
 * A run that diverges saves nothing more, and leaves the last good checkpoints. It ends early
 * after PLM_SKIPPED_IN_A_ROW_MAX skipped updates: PLM_OK, with result->diverged.
 */
PLM_MUST_USE plm_status plm_trainer_run(plm_trainer *trainer, const plm_train_observer *observer,
                                        plm_train_result *result);

/*
 * After a run: continues `prompt` (bytes, may be empty) by `count` bytes drawn at `temperature` > 0
 * into `out` (`count` + 1 long, NUL-ended; a token beyond a byte becomes '?'). The same seed gives
 * the same text. PLM_ERROR_UNSUPPORTED for a masked model.
 */
PLM_MUST_USE plm_status plm_trainer_sample(plm_trainer *trainer, const char *prompt, int64_t count,
                                           double temperature, char *out);

/* NULL is allowed. */
void plm_trainer_destroy(plm_trainer *trainer);

/* *line = one JSON object on one line, freed with plm_free. PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm_train_progress_json(const plm_train_progress *progress, char **line);
PLM_MUST_USE plm_status plm_train_result_json(const plm_train_result *result, char **line);

#ifdef __cplusplus
}
#endif
#endif
