/* SPDX-License-Identifier: MIT */
/* The training loop and what stands around it: data, budget, plan, evaluation, sampling. */
#include "plimsoll/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/host.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/size.h"
#include "plimsoll/data.h"
#include "plimsoll/device_profile.h"
#include "train/checkpoint.h"
#include "train/offer.h"
#include "train/schedule.h"
#include "device/device.h"

enum {
    SITE_SAMPLE = 0x60000000, /* random numbers of drawn text */
    EVALUATION_SEED = 20      /* of what is hidden in evaluations: the same in every run */
};

struct plm_trainer {
    plm_train_settings settings;
    plm_job job;
    plm_corpus *corpus;
    plm_corpus_counts text; /* of the corpus */
    plm_plan *plan;
    plm_session *session;
    plm_tape *tape;     /* borrowed, NULL: none */
    int32_t *tokens;    /* [batch, T] the window */
    int32_t *targets;   /* [batch, T] */
    plm_file_lock lock; /* of the folder for checkpoints */
    float *logits;      /* [V] of sampling, made when first wanted */
    size_t cap_bytes;   /* of the device, when the trainer took it */
    size_t budget_bytes;
    size_t resident_before; /* just before planning */
    int64_t proven_step;    /* of the last checkpoint after which an update went well, 0: none */
    double bigram_loss;
    bool masked; /* the model learns hidden tokens, not the next one */
};

static bool is_rate(float number)
{
    return number >= 0 && isfinite(number);
}

/* Early updates never see the norm of all gradients. */
static plm_status check_clipping(const plm_train_settings *s)
{
    if (s->strategy.update != PLM_UPDATE_EARLY || !(s->hyper.clip_norm > 0))
        return PLM_OK;
    (void)plm_fail(PLM_ERROR_ARGUMENT,
                   "early updates never see the norm of all gradients and cannot clip at %g; turn "
                   "clipping off, or update late",
                   (double)s->hyper.clip_norm);
    return plm__fail_hint(PLM_HINT_CLIP_NOTHING);
}

static plm_status check_settings(const plm_train_settings *s)
{
    PLM_FAIL_IF(s->batch < 1 || s->batch > PLM_BATCH_MAX, PLM_ERROR_ARGUMENT,
                "wanted a batch of 1 to %d, found %" PRId64, PLM_BATCH_MAX, s->batch);
    PLM_FAIL_IF(
        s->sequence < 1 || s->steps < 1 || s->warmup < 0 || s->eval_every < 0 ||
            s->eval_sequences < 0,
        PLM_ERROR_ARGUMENT,
        "wanted a sequence and steps of 1 or more and no negative count among the settings");
    PLM_FAIL_IF(!(s->hyper.learning_rate > 0) || !isfinite(s->hyper.learning_rate),
                PLM_ERROR_ARGUMENT, "wanted a learning rate over 0, found %g",
                (double)s->hyper.learning_rate);
    PLM_FAIL_IF(!is_rate(s->hyper.clip_norm) || !is_rate(s->hyper.weight_decay), PLM_ERROR_ARGUMENT,
                "wanted clipping and weight decay of 0 or more, found %g and %g",
                (double)s->hyper.clip_norm, (double)s->hyper.weight_decay);
    PLM_TRY(check_clipping(s));
    PLM_FAIL_IF(s->out_folder && s->keep < 1, PLM_ERROR_ARGUMENT,
                "wanted at least 1 checkpoint kept, found %" PRId64, s->keep);
    PLM_FAIL_IF(!(s->hyper.momentum >= 0 && s->hyper.momentum < 1), PLM_ERROR_ARGUMENT,
                "wanted a momentum of at least 0 and under 1, found %g", (double)s->hyper.momentum);
    return PLM_OK;
}

/* Finds the budget, plans, and lets the device hand out no more than the budget leaves it. */
static plm_status plan_run(plm_trainer *trainer)
{
    const plm_train_settings *s = &trainer->settings;
    plm_device *device = s->device;
    trainer->budget_bytes = s->budget_bytes;
    if (trainer->budget_bytes == 0)
        PLM_TRY(device->table->available_bytes(device, &trainer->budget_bytes));
    PLM_TRY(plm_plan_for_budget(&trainer->job, &s->strategy, device, trainer->budget_bytes, NULL,
                                &trainer->plan));
    size_t most = trainer->budget_bytes - device->table->overhead_bytes(device);
    bool is_capped = trainer->cap_bytes > 0 && trainer->cap_bytes < most;
    plm__device_limit(device, is_capped ? trainer->cap_bytes : most);
    return PLM_OK;
}

static plm_status start(plm_trainer *trainer)
{
    plm_train_settings *s = &trainer->settings;
    PLM_TRY(check_settings(s));
    if (s->sequence > s->model.context)
        s->model.context = s->sequence;
    trainer->masked = plm_model_is_masked(&s->model);
    trainer->job = (plm_job){.network = plm_model_network(&s->model),
                             .batch = s->batch,
                             .sequence = s->sequence,
                             .trains = true,
                             .evaluates = true,
                             .generates = !trainer->masked,
                             .optimizer = s->optimizer};
    PLM_TRY(plm_corpus_open(s->data_path, s->sequence, s->model.vocab, &trainer->corpus));
    trainer->text = plm_corpus_count(trainer->corpus);
    if (trainer->masked)
        PLM_TRY(plm_corpus_check_mask(trainer->corpus));
    if (s->resume_folder)
        PLM_TRY(plm__checkpoint_check(s->resume_folder, s, &trainer->text));
    PLM_TRY(plm_corpus_bigram_loss(trainer->corpus, &trainer->bigram_loss));
    PLM_TRY(plm__memory_resident(&trainer->resident_before));
    PLM_TRY(plan_run(trainer));
    size_t count;
    PLM_TRY(plm__mul_bytes((size_t)s->batch, (size_t)s->sequence, &count));
    PLM_TRY(plm__mul_bytes(count, sizeof(int32_t), &count));
    PLM_TRY(plm__host_alloc(count, &trainer->tokens));
    return plm__host_alloc(count, &trainer->targets);
}

plm_status plm_trainer_create(const plm_train_settings *settings, plm_trainer **trainer)
{
    plm_trainer *made = NULL;
    PLM_FAIL_IF(!settings->device, PLM_ERROR_ARGUMENT, "wanted a device to train on, found none");
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    made->settings = *settings;
    made->cap_bytes = settings->device->usage.cap_bytes;
    plm_status status = start(made);
    return PLM_HAND_OVER(status, made, plm_trainer_destroy, trainer);
}

void plm_trainer_destroy(plm_trainer *trainer)
{
    if (!trainer)
        return;
    plm_session_destroy(trainer->session);
    plm_plan_destroy(trainer->plan);
    plm__device_limit(trainer->settings.device, trainer->cap_bytes);
    plm_corpus_close(trainer->corpus);
    plm__file_lock_give(&trainer->lock);
    plm__host_free(trainer->tokens);
    plm__host_free(trainer->targets);
    plm__host_free(trainer->logits);
    plm__host_free(trainer);
}

const plm_plan *plm_trainer_plan(const plm_trainer *trainer)
{
    return trainer->plan;
}

size_t plm_trainer_budget(const plm_trainer *trainer)
{
    return trainer->budget_bytes;
}

/* Fills a step's window with tokens and what is to be told: the next ones, or hidden ones. */
static plm_status draw_window(plm_trainer *trainer, int64_t step)
{
    const plm_train_settings *s = &trainer->settings;
    PLM_TRY(plm_corpus_sample(trainer->corpus, s->seed, step, 0, s->batch, trainer->tokens,
                              trainer->targets));
    if (!trainer->masked)
        return PLM_OK;
    return plm_corpus_mask(trainer->corpus, s->seed, step, 0, s->batch, trainer->tokens,
                           trainer->targets);
}

/* The same of one held-out window, hidden alike in every run so that losses compare. */
static plm_status take_held_out(plm_trainer *trainer, int64_t window, int64_t place)
{
    int32_t *tokens = trainer->tokens + place * trainer->settings.sequence;
    int32_t *targets = trainer->targets + place * trainer->settings.sequence;
    PLM_TRY(plm_corpus_held_out(trainer->corpus, window, 1, tokens, targets));
    if (!trainer->masked)
        return PLM_OK;
    return plm_corpus_mask(trainer->corpus, EVALUATION_SEED, 0, window, 1, tokens, targets);
}

/* Held-out windows, evenly spread when not all are used, a batch at a time. */
static plm_status evaluate(plm_trainer *trainer, double *loss, int64_t *counted)
{
    const plm_train_settings *s = &trainer->settings;
    int64_t windows = trainer->text.held_out_windows;
    int64_t used =
        s->eval_sequences > 0 && s->eval_sequences < windows ? s->eval_sequences : windows;
    double sum = 0;
    *counted = 0;
    for (int64_t done = 0; done < used;) {
        int64_t count = used - done < s->batch ? used - done : s->batch;
        for (int64_t i = 0; i < count; i++)
            PLM_TRY(take_held_out(trainer, (done + i) * windows / used, i));
        double part;
        int64_t part_counted;
        PLM_TRY(plm_session_evaluate(trainer->session, count, trainer->tokens, trainer->targets,
                                     &part, &part_counted));
        sum += part;
        *counted += part_counted;
        done += count;
    }
    *loss = *counted > 0 ? sum / (double)*counted : 0;
    return PLM_OK;
}

static plm_status submit(plm_trainer *trainer, int64_t step)
{
    const plm_train_settings *s = &trainer->settings;
    plm_hyper hyper = s->hyper;
    hyper.learning_rate = plm__schedule_rate(s->hyper.learning_rate, step, s->warmup, s->steps);
    return plm_session_submit(trainer->session, step, &hyper, s->batch, trainer->tokens,
                              trainer->targets);
}

/* What an observer hears after an update: `done` updates of this run took `spent_ns`. */
static plm_train_progress tell(const plm_trainer *trainer, int64_t step, int64_t done,
                               int64_t spent_ns, const plm_step_result *result)
{
    const plm_train_settings *s = &trainer->settings;
    double seconds = (double)spent_ns * 1e-9;
    return (plm_train_progress){
        .step = step + 1,
        .steps = s->steps,
        .loss = result->loss,
        .learning_rate = plm__schedule_rate(s->hyper.learning_rate, step, s->warmup, s->steps),
        .gradient_norm = result->gradient_norm,
        .loss_scale = result->loss_scale,
        .skipped = result->skipped,
        .tokens_per_second = (double)(done * s->batch * s->sequence) / seconds,
        .remaining_seconds = seconds / (double)done * (double)(s->steps - step - 1),
        .used_bytes = s->device->usage.peak_bytes + s->device->table->overhead_bytes(s->device),
        .budget_bytes = trainer->budget_bytes,
    };
}

static plm_status evaluate_now(plm_trainer *trainer, plm_train_progress *progress,
                               plm_train_result *result)
{
    progress->evaluated = true;
    PLM_TRY(evaluate(trainer, &progress->validation_loss, &result->validation_targets));
    result->validation_loss = progress->validation_loss;
    return PLM_OK;
}

/* Whether something that is due every `every` updates, and at the end, is due after this one. */
static bool is_due(int64_t done, int64_t every, int64_t steps)
{
    return done == steps || (every > 0 && done % every == 0);
}

/*
 * Saves when that is due, or when the run stops here. A state that went wrong is not saved, for it
 * would push out a good one; nor does one that is saved, until an update has shown that it is good:
 * an update that ruins the weights has a good loss, the next one has none. Until then one more than
 * `keep` lie there.
 */
static plm_status save_if_due(plm_trainer *trainer, bool stops, plm_train_result *result)
{
    const plm_train_settings *s = &trainer->settings;
    bool due = stops || is_due(result->steps, s->save_every, s->steps);
    if (!s->out_folder || !due || result->diverged || result->saved_step == result->steps)
        return PLM_OK;
    int64_t keep = s->keep + (stops || result->steps == s->steps ? 0 : 1);
    PLM_TRY(plm__checkpoint_save(s->out_folder, keep, s, &trainer->text, result->steps,
                                 trainer->session));
    result->saved_step = result->steps;
    return PLM_OK;
}

/* After an update, the last checkpoint is known to be good, or not to be when the run ends so. */
static plm_status judge_last_saved(plm_trainer *trainer, bool ends, plm_train_result *result)
{
    const plm_train_settings *s = &trainer->settings;
    if (result->saved_step == trainer->proven_step || (result->diverged && !ends))
        return PLM_OK;
    if (!result->diverged) {
        trainer->proven_step = result->saved_step;
        return plm__checkpoint_trim(s->out_folder, s->keep);
    }
    PLM_TRY(plm__checkpoint_drop(s->out_folder, result->saved_step));
    result->saved_step = trainer->proven_step;
    return PLM_OK;
}

/* What cannot be read any more ends the run, not what it has learnt: that is saved first. */
static plm_status end_without_text(plm_trainer *trainer, plm_status status,
                                   plm_train_result *result)
{
    plm_error why;
    plm_error_get(&why);
    if (status != PLM_ERROR_IO || !trainer->settings.out_folder)
        return status;
    PLM_TRY(save_if_due(trainer, result->steps > 0, result));
    if (result->saved_step > 0)
        status = plm_fail(why.status, "%s; the state after %" PRId64 " updates is saved in '%s'",
                          why.message, result->saved_step, trainer->settings.out_folder);
    plm__fail_system(why.system_error);
    return status;
}

/* What an update leaves to be told of the whole run. Where the loss is a number and was scaled, a
 * gradient that is none came of the scale, which was halved: nothing went wrong. */
static void take_update(const plm_step_result *one, plm_train_result *result)
{
    if (result->steps++ == result->resumed_from)
        result->first_loss = one->loss;
    result->last_loss = one->loss;
    result->skipped_steps += one->skipped;
    result->skipped_in_a_row = one->skipped ? result->skipped_in_a_row + 1 : 0;
    result->diverged = !isfinite(one->loss) || (one->skipped && !(one->loss_scale > 1));
}

/* Evaluates and saves where that is due after an update. */
static plm_status look_back(plm_trainer *trainer, plm_train_progress *progress,
                            plm_train_result *result)
{
    const plm_train_settings *s = &trainer->settings;
    PLM_TRY(judge_last_saved(trainer, false, result));
    if (is_due(result->steps, s->eval_every, s->steps)) {
        plm_status status = evaluate_now(trainer, progress, result);
        if (status != PLM_OK)
            return end_without_text(trainer, status, result);
        result->diverged |= !isfinite(progress->validation_loss);
    }
    return save_if_due(trainer, false, result);
}

/*
 * Whether step `next` may begin while those from `oldest` on are in flight: not past an update
 * after which something is due, which is done to the state that this update leaves; nor after one
 * that was skipped, so that a run that diverges ends where it would step by step. A device with one
 * queue would only tell each update later.
 */
static bool may_submit(const plm_trainer *trainer, int64_t next, int64_t oldest,
                       const plm_train_result *result)
{
    const plm_train_settings *s = &trainer->settings;
    bool is_ahead = next > oldest;
    bool is_saved = s->out_folder && is_due(next, s->save_every, s->steps);
    if (next == s->steps || next - oldest == PLM_STEPS_IN_FLIGHT_MAX)
        return false;
    return !is_ahead || (s->device->table->has_copy_queue && result->skipped_in_a_row == 0 &&
                         !is_saved && !is_due(next, s->eval_every, s->steps));
}

/* Begins steps from *next on, as many as may be in flight beside `oldest`. A text that cannot be
 * read is told of the step whose turn it is. */
static plm_status submit_ahead(plm_trainer *trainer, int64_t oldest, int64_t *next,
                               const plm_train_result *result)
{
    const int64_t first = result->resumed_from;
    for (; may_submit(trainer, *next, oldest, result); ++*next) {
        if (*next == first + 1 || trainer->settings.steps == first + 1)
            plm_session_tape(trainer->session, trainer->tape);
        plm_status status = draw_window(trainer, *next);
        if (status != PLM_OK)
            return *next > oldest ? PLM_OK : status;
        PLM_TRY(submit(trainer, *next));
    }
    return PLM_OK;
}

static plm_status loop(plm_trainer *trainer, const plm_train_observer *observer,
                       plm_train_result *result)
{
    const plm_train_settings *s = &trainer->settings;
    int64_t began_ns = plm__clock_ns(), told_ns = began_ns, spent_ns = 0;
    int64_t first = result->resumed_from, next = first;
    bool stops = false;
    result->steps = first;
    for (int64_t step = first; step < (stops ? next : s->steps); step++) {
        plm_step_result one;
        if (next == step) /* what was done since the last update was told is no part of any */
            told_ns = plm__clock_ns();
        plm_status status = stops ? PLM_OK : submit_ahead(trainer, step, &next, result);
        if (status != PLM_OK)
            return end_without_text(trainer, status, result);
        PLM_TRY(plm_session_collect(trainer->session, &one));
        spent_ns += plm__clock_ns() - told_ns;
        told_ns = plm__clock_ns();
        take_update(&one, result);
        plm_train_progress progress = tell(trainer, step, step + 1 - first, spent_ns, &one);
        progress.elapsed_seconds = (double)(plm__clock_ns() - began_ns) * 1e-9;
        PLM_TRY(look_back(trainer, &progress, result));
        result->tokens_per_second = progress.tokens_per_second;
        stops |= observer && observer->progress && !observer->progress(&progress, observer->user);
        stops |= result->skipped_in_a_row >= PLM_SKIPPED_IN_A_ROW_MAX;
    }
    if (stops)
        PLM_TRY(save_if_due(trainer, true, result));
    result->seconds = (double)(plm__clock_ns() - began_ns) * 1e-9;
    return judge_last_saved(trainer, true, result);
}

static plm_status measure(plm_trainer *trainer, plm_train_result *result)
{
    plm_session_measure memory;
    size_t resident;
    PLM_TRY(plm_session_measure_memory(trainer->session, &memory));
    PLM_TRY(plm__memory_resident(&resident));
    result->measured_peak_bytes = memory.peak_bytes;
    result->last_granule_written = memory.last_granule_written;
    result->driver_bytes = memory.driver_bytes;
    result->resident_growth_bytes =
        resident > trainer->resident_before ? resident - trainer->resident_before : 0;
    return PLM_OK;
}

void plm_trainer_use_tape(plm_trainer *trainer, plm_tape *tape)
{
    trainer->tape = tape;
}

plm_status plm_trainer_run(plm_trainer *trainer, const plm_train_observer *observer,
                           plm_train_result *result)
{
    PLM_FAIL_IF(trainer->session, PLM_ERROR_STATE, "this trainer has run already");
    plm_status status = plm_session_create(trainer->plan, trainer->settings.device,
                                           trainer->settings.seed, &trainer->session);
    if (status == PLM_ERROR_DEVICE_MEMORY)
        return plm__offer_smaller(&trainer->job, &trainer->settings.strategy,
                                  trainer->settings.device);
    PLM_TRY(status);
    plm_plan_summary plan = plm_plan_summarize(trainer->plan);
    plm_train_result made = {.validation_loss = NAN, /* until it is measured */
                             .masked = trainer->masked,
                             .bigram_loss = trainer->bigram_loss,
                             .budget_bytes = trainer->budget_bytes,
                             .predicted_peak_bytes = plan.peak_bytes,
                             .optimizer = plan.optimizer,
                             .strategy = plan.strategy};
    const plm_train_settings *s = &trainer->settings;
    if (s->resume_folder) /* looked at when the trainer was made, and again where it is read */
        PLM_TRY(plm__checkpoint_load(s->resume_folder, s, &trainer->text, trainer->session,
                                     &made.resumed_from));
    if (s->out_folder)
        PLM_TRY(plm__checkpoint_prepare(s->out_folder, made.resumed_from, &trainer->lock));
    PLM_TRY(loop(trainer, observer, &made));
    PLM_TRY(measure(trainer, &made));
    *result = made;
    return PLM_OK;
}

/* Draws from softmax(logits / temperature) with a number in [0, 1). */
static int32_t draw(const float *logits, int64_t vocab, double temperature, double unit)
{
    float largest = logits[0];
    for (int64_t i = 1; i < vocab; i++)
        if (logits[i] > largest)
            largest = logits[i];
    double sum = 0, running = 0;
    for (int64_t i = 0; i < vocab; i++)
        sum += exp((logits[i] - largest) / temperature);
    for (int64_t i = 0; i < vocab; i++) {
        running += exp((logits[i] - largest) / temperature) / sum;
        if (unit < running)
            return (int32_t)i;
    }
    return (int32_t)vocab - 1;
}

/* The byte of a token; what a terminal could take for a command becomes '?'. */
static char printable(int32_t token)
{
    bool blank = token == '\n' || token == '\t';
    return (token >= ' ' || blank) && token != 127 && token < 256 ? (char)token : '?';
}

plm_status plm_trainer_sample(plm_trainer *trainer, const char *prompt, int64_t count,
                              double temperature, char *out)
{
    const plm_train_settings *s = &trainer->settings;
    PLM_FAIL_IF(!trainer->session, PLM_ERROR_STATE, "sampling comes after a run");
    PLM_FAIL_IF(trainer->masked, PLM_ERROR_UNSUPPORTED,
                "a masked model cannot continue a text; try a gpt");
    PLM_FAIL_IF(!(temperature > 0), PLM_ERROR_ARGUMENT, "wanted a temperature over 0, found %g",
                temperature);
    if (!trainer->logits)
        PLM_TRY(plm__host_alloc((size_t)s->model.vocab * sizeof(float), &trainer->logits));
    /* The window slides: at most T tokens, the newest last. An empty prompt begins after a line's
     * end. */
    int64_t length = 0, prompt_length = (int64_t)strlen(prompt);
    int32_t *window = trainer->tokens;
    if (prompt_length == 0)
        prompt = "\n", prompt_length = 1;
    for (int64_t i = prompt_length > s->sequence ? prompt_length - s->sequence : 0;
         i < prompt_length; i++)
        window[length++] = (unsigned char)prompt[i];
    for (int64_t i = 0; i < count; i++) {
        PLM_TRY(plm_session_generate(trainer->session, length, window, s->model.vocab,
                                     trainer->logits));
        double unit =
            plm__philox_unit(plm__philox_at(s->seed, 0, SITE_SAMPLE, (uint64_t)i).word[0]);
        int32_t token = draw(trainer->logits, s->model.vocab, temperature, unit);
        out[i] = printable(token);
        if (length == s->sequence)
            memmove(window, window + 1, (size_t)--length * sizeof *window);
        window[length++] = token;
    }
    out[count] = '\0';
    return PLM_OK;
}
