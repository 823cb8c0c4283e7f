/* SPDX-License-Identifier: MIT */
/* Plans of described models for a device that is not there, as tests want them. */
#ifndef PLM_TEST_FAKE_PLAN_H
#define PLM_TEST_FAKE_PLAN_H

#include "plimsoll/bill.h"
#include "plimsoll/model.h"
#include "engine/fake_device.h"
#include "unit/test.h"

/* A job that trains, evaluates and generates, as `train` runs it. *model must outlive it. */
static inline plm_job job_of(const plm_model *model, int64_t batch, int64_t sequence)
{
    return (plm_job){.network = plm_model_network(model),
                     .batch = batch,
                     .sequence = sequence,
                     .trains = true,
                     .evaluates = true,
                     .generates = true};
}

static inline plm_strategy strategy_of(int64_t micro_batch, plm_attention_form attention)
{
    plm_strategy strategy = plm_strategy_default();
    strategy.micro_batch = micro_batch;
    strategy.attention = attention;
    return strategy;
}

/* The plan of a description at its whole context. */
static inline plm_plan *plan_of(const char *description, int64_t batch, int64_t micro_batch,
                                plm_attention_form attention, fake_device *device)
{
    plm_model model;
    plm_plan *plan = NULL;
    plm_strategy strategy = strategy_of(micro_batch, attention);
    assert_ok(plm_model_parse(description, &model));
    plm_job job = job_of(&model, batch, model.context);
    assert_ok(plm_plan_create(&job, &strategy, &device->head, &plan));
    return plan;
}

#endif
