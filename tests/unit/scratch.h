/* SPDX-License-Identifier: MIT */
/* A folder for one test: in memory where the system has such a place, because tests that write
 * thousands of files would wait for the disk. */
#ifndef PLM_TEST_SCRATCH_H
#define PLM_TEST_SCRATCH_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { SCRATCH_BYTES = 64 };

/* Makes an empty folder, to be removed by the caller; false when there is no place for it. */
static inline bool scratch_folder(char path[SCRATCH_BYTES])
{
    static const char *const places[] = {"/dev/shm", "/tmp"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, SCRATCH_BYTES, "%s/plimsoll-test-XXXXXX", places[i]);
        if (mkdtemp(path))
            return true;
    }
    return false;
}

#endif
