/* SPDX-License-Identifier: MIT */
/* The largest value that fits, by bisection between two ends that were both tried. */
#include "script/script.h"

plm_status plm__bisect_largest(int64_t least, int64_t most, plm_fits_function *fits, void *user,
                               int64_t *largest)
{
    bool good;
    PLM_FAIL_IF(least > most, PLM_ERROR_ARGUMENT,
                "wanted a range from low to high, found %lld..%lld", (long long)least,
                (long long)most);
    PLM_TRY(fits(user, least, &good));
    if (!good || least == most) {
        *largest = good ? least : least - 1;
        return PLM_OK;
    }
    PLM_TRY(fits(user, most, &good));
    int64_t below = good ? most : least; /* fits */
    int64_t above = most;                /* does not, unless it is the same */
    while (above - below > 1) {
        const int64_t middle = below + (above - below) / 2;
        PLM_TRY(fits(user, middle, &good));
        if (good)
            below = middle;
        else
            above = middle;
    }
    *largest = below;
    return PLM_OK;
}
