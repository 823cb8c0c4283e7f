/* SPDX-License-Identifier: MIT */
/* The files that a forecast takes along, as bytes: the build makes the table from the Python files
 * of python/forecast and the stand-in library. */
#ifndef PLM_FORECAST_CARRIED_H
#define PLM_FORECAST_CARRIED_H

#include <stddef.h>

typedef struct plm_carried {
    const char *name; /* of the file; NULL behind the last */
    const char *bytes;
    const size_t *byte_count;
} plm_carried;

extern const plm_carried plm__forecast_carried[];

#endif
