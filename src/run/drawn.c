/* SPDX-License-Identifier: MIT */
/* Drawn ids: the Philox numbers of a site that no network has. */
#include "run/drawn.h"

#include "base/philox.h"
#include "base/size.h"

enum { SITE_IDS = 0x60000001 };

plm_status plm__drawn_window(const plm_session *session, const plm_plan *plan, int32_t **ids)
{
    const plm_plan_summary summary = plm_plan_summarize(plan);
    const uint64_t limit = (uint64_t)plm__session_id_limit(session);
    size_t count, bytes;
    int32_t *drawn = NULL;
    PLM_TRY(plm__mul_bytes((size_t)summary.batch, (size_t)summary.sequence, &count));
    PLM_TRY(plm__mul_bytes(count, 2 * sizeof *drawn, &bytes));
    PLM_TRY(plm__host_alloc(bytes, &drawn));
    for (size_t i = 0; i < 2 * count; i++)
        drawn[i] = (int32_t)(plm__philox_at(1, 0, SITE_IDS, i).word[0] % limit);
    *ids = drawn;
    return PLM_OK;
}

plm_hyper plm__drawn_hyper(const plm_plan *plan)
{
    plm_hyper hyper = plm_hyper_default();
    if (plm_plan_summarize(plan).strategy.update == PLM_UPDATE_EARLY)
        hyper.clip_norm = 0;
    return hyper;
}
