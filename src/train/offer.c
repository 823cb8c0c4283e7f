/* SPDX-License-Identifier: MIT */
/* Out of memory at the start of a run: the record in one line, and what would fit now. */
#include "train/offer.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"
#include "plimsoll/size.h"
#include "device/device.h"

enum { OFFER_BYTES = 240, RECOMPUTE_WIDTH = 60 }; /* so that the whole is one message */

/* "; a budget of 3.1 MiB (...) would fit now, ..." or that none does; "" when that cannot be told.
 */
static void write_offer(const plm_job *job, plm_strategy strategy, plm_device *device,
                        size_t free_bytes, char text[OFFER_BYTES])
{
    size_t overhead = device->table->overhead_bytes(device);
    size_t most = free_bytes <= SIZE_MAX - overhead ? free_bytes + overhead : SIZE_MAX;
    size_t smallest = 0;
    char size[PLM_SIZE_TEXT];
    plm_plan *plan = NULL;
    strategy.micro_batch = 0;
    plm_status status = plm_plan_for_budget(job, &strategy, device, most, &smallest, &plan);
    text[0] = '\0';
    if (status == PLM_OK) {
        plm_plan_summary fits = plm_plan_summarize(plan);
        char recompute[PLM_RECOMPUTE_LIST_TEXT];
        snprintf(text, OFFER_BYTES,
                 "; a budget of %s (%zu bytes) would fit now, with a micro-batch of %" PRId64
                 ", recompute %.*s, head in %" PRId64 " chunk%s",
                 plm_size_format(fits.peak_bytes, size), fits.peak_bytes, fits.strategy.micro_batch,
                 RECOMPUTE_WIDTH, plm_strategy_recompute_format(&fits.strategy, recompute),
                 fits.strategy.head_chunks, fits.strategy.head_chunks == 1 ? "" : "s");
    } else if (status == PLM_ERROR_BUDGET) {
        snprintf(text, OFFER_BYTES, "; nothing fits now: the smallest peak is %s (%zu bytes)",
                 plm_size_format(smallest, size), smallest);
    }
    plm_plan_destroy(plan);
}

plm_status plm__offer_smaller(const plm_job *job, const plm_strategy *strategy, plm_device *device)
{
    plm_error error;
    char offer[OFFER_BYTES], asked[PLM_SIZE_TEXT], live[PLM_SIZE_TEXT], reserved[PLM_SIZE_TEXT],
        budget[PLM_SIZE_TEXT], left[PLM_SIZE_TEXT];
    plm_error_get(&error);
    plm_oom_record *oom = &error.oom;
    snprintf(oom->op, sizeof oom->op, "reserve");
    snprintf(oom->tensor, sizeof oom->tensor, "arena");
    write_offer(job, *strategy, device, oom->largest_free_bytes, offer);
    plm_status status = plm_fail(
        PLM_ERROR_DEVICE_MEMORY,
        "out of memory at the start of the run: %s of the %s asked for %s (%zu bytes), live %s, "
        "reserved %s, budget %s, largest free %s (%zu bytes)%s",
        oom->op, oom->tensor, plm_size_format(oom->asked_bytes, asked), oom->asked_bytes,
        plm_size_format(oom->live_bytes, live), plm_size_format(oom->reserved_bytes, reserved),
        oom->budget_bytes ? plm_size_format(oom->budget_bytes, budget) : "none",
        plm_size_format(oom->largest_free_bytes, left), oom->largest_free_bytes, offer);
    plm__fail_oom(oom);
    return status;
}
