/* SPDX-License-Identifier: MIT */
/* Progress and result of a training run as JSON, one object a line. */
#include "base/json.h"
#include "graph/strategy.h"
#include "plimsoll/train.h"

plm_status plm_train_progress_json(const plm_train_progress *progress, char **line)
{
    plm_json_writer w = {0};
    plm__json_begin_object(&w, NULL);
    plm__json_int(&w, "step", progress->step);
    plm__json_int(&w, "steps", progress->steps);
    plm__json_real(&w, "loss", progress->loss);
    plm__json_real(&w, "learning_rate", progress->learning_rate);
    plm__json_real(&w, "gradient_norm", progress->gradient_norm);
    plm__json_real(&w, "loss_scale", progress->loss_scale);
    plm__json_bool(&w, "skipped", progress->skipped);
    plm__json_real(&w, "tokens_per_second", progress->tokens_per_second);
    plm__json_real(&w, "elapsed_seconds", progress->elapsed_seconds);
    plm__json_real(&w, "remaining_seconds", progress->remaining_seconds);
    plm__json_bytes(&w, "used_bytes", progress->used_bytes);
    if (progress->evaluated)
        plm__json_real(&w, "validation_loss", progress->validation_loss);
    return plm__json_finish(&w, line);
}

plm_status plm_train_result_json(const plm_train_result *result, char **line)
{
    plm_json_writer w = {0};
    plm__json_begin_object(&w, NULL);
    plm__json_bytes(&w, "predicted_peak_bytes", result->predicted_peak_bytes);
    plm__json_bytes(&w, "measured_peak_bytes", result->measured_peak_bytes);
    if (result->driver_bytes > 0)
        plm__json_bytes(&w, "driver_bytes", result->driver_bytes);
    plm__json_bytes(&w, "budget_bytes", result->budget_bytes);
    plm__json_bool(&w, "last_granule_written", result->last_granule_written);
    plm__json_bytes(&w, "resident_growth_bytes", result->resident_growth_bytes);
    plm__json_int(&w, "steps", result->steps);
    plm__json_int(&w, "resumed_from", result->resumed_from);
    plm__json_int(&w, "saved_step", result->saved_step);
    plm__json_int(&w, "skipped_steps", result->skipped_steps);
    plm__json_bool(&w, "diverged", result->diverged);
    plm__json_real(&w, "first_loss", result->first_loss);
    plm__json_real(&w, "last_loss", result->last_loss);
    plm__json_real(&w, "validation_loss", result->validation_loss);
    plm__json_int(&w, "validation_targets", result->validation_targets);
    if (!result->masked)
        plm__json_real(&w, "bigram_loss", result->bigram_loss);
    plm__json_real(&w, "tokens_per_second", result->tokens_per_second);
    plm__json_real(&w, "seconds", result->seconds);
    plm__json_text(&w, "optimizer", plm_optimizer_text(result->optimizer));
    plm__strategy_json(&w, "strategy", &result->strategy);
    return plm__json_finish(&w, line);
}
