/* SPDX-License-Identifier: MIT */
/* The budget on a device that is planned for. */
#include "choices.h"

/*
 * Of a target's memory, one part in this many stays free where no budget is stated: 2 %, 2.8 GiB of
 * an H200. A profile's overhead was measured once; another driver's context or another library's
 * handles differ by some hundred MiB (on the H200, 527 MiB of 711 MiB are the context alone), and a
 * display or a monitor holds some too. Whoever knows better states a budget, up to all of it.
 */
enum { TARGET_MARGIN_PART = 50 };

size_t cli_target_budget(size_t stated, size_t memory)
{
    if (stated == 0)
        return memory - memory / TARGET_MARGIN_PART;
    return memory > 0 && stated > memory ? memory : stated;
}
