/* SPDX-License-Identifier: MIT */
/*
 * Choosing the micro-batch for a budget: the divisors of the batch from the largest down, each
 * planned exactly. What fits under a budget fits under a larger one, so the choice is monotone.
 */
#include <inttypes.h>

#include "plan/plan.h"
#include "plimsoll/size.h"

static plm_status refuse(size_t budget_bytes, size_t smallest, int64_t micro_batch)
{
    char wanted[PLM_SIZE_TEXT], found[PLM_SIZE_TEXT];
    plm_oom_record oom = {.asked_bytes = smallest,
                          .rounded_bytes = smallest,
                          .budget_bytes = budget_bytes,
                          .largest_free_bytes = budget_bytes};
    plm_status status = plm_fail(PLM_ERROR_BUDGET,
                                 "a budget of %s (%zu bytes) does not fit this run; the smallest "
                                 "that does is %s (%zu bytes), "
                                 "with a micro-batch of %" PRId64,
                                 plm_size_format(budget_bytes, found), budget_bytes,
                                 plm_size_format(smallest, wanted), smallest, micro_batch);
    plm_fail_oom(&oom);
    return status;
}

typedef struct candidates {
    plm_plan *best;
    size_t smallest;
    int64_t smallest_micro_batch; /* 0: nothing could be planned */
} candidates;

/* Plans one micro-batch; sizes beyond counting do not fit any budget, so that is no failure here.
 */
static plm_status try_micro_batch(const plm_job *job, const plm_strategy *strategy,
                                  plm_device *device, size_t budget_bytes, candidates *search)
{
    plm_plan *plan = NULL;
    PLM_TRY(plm_plan_create(job, strategy, device, &plan));
    size_t peak = plan->summary.peak_bytes;
    if (search->smallest_micro_batch == 0 || peak < search->smallest) {
        search->smallest = peak;
        search->smallest_micro_batch = strategy->micro_batch;
    }
    if (!search->best && peak <= budget_bytes)
        search->best = plan;
    else
        plm_plan_destroy(plan);
    return PLM_OK;
}

static plm_status try_all(const plm_job *job, const plm_strategy *strategy, plm_device *device,
                          size_t budget_bytes, bool want_smallest, candidates *search)
{
    if (strategy->micro_batch != 0)
        return try_micro_batch(job, strategy, device, budget_bytes, search);
    plm_status status = PLM_OK;
    for (int64_t ways = 1; ways <= job->batch; ways++) {
        if (job->batch % ways != 0)
            continue;
        plm_strategy candidate = *strategy;
        candidate.micro_batch = job->batch / ways;
        status = try_micro_batch(job, &candidate, device, budget_bytes, search);
        if (status != PLM_OK && status != PLM_ERROR_OVERFLOW)
            return status;
        if (search->best && !want_smallest)
            return PLM_OK;
    }
    return search->smallest_micro_batch ? PLM_OK : status;
}

plm_status plm_plan_for_budget(const plm_job *job, const plm_strategy *strategy, plm_device *device,
                               size_t budget_bytes, size_t *smallest_budget, plm_plan **plan)
{
    PLM_FAIL_IF(job->batch < 1 || job->batch > PLM_BATCH_MAX, PLM_ERROR_ARGUMENT,
                "wanted a batch of 1 to %d, found %" PRId64, PLM_BATCH_MAX, job->batch);
    candidates search = {0};
    plm_status status =
        try_all(job, strategy, device, budget_bytes, smallest_budget != NULL, &search);
    if (status != PLM_OK) {
        plm_plan_destroy(search.best);
        return status;
    }
    if (smallest_budget)
        *smallest_budget = search.smallest;
    if (!search.best)
        return refuse(budget_bytes, search.smallest, search.smallest_micro_batch);
    *plan = search.best;
    return PLM_OK;
}
