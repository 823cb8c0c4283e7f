/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA's libraries for tests of the CUDA device where there is no card: one library under the
 * names that the module opens (cmake/phantom.cmake). The driver, cuBLASLt and NVML behind it are
 * the stand-in of src/phantom, cuDNN is tests/phantom/attention.c. On the way each call is counted,
 * and any one can be made to fail.
 *
 *     plm_faults *faults = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "plm_all_faults");
 *     faults->calls = 0, faults->fail_at = 7;     the seventh call from here on
 *
 * A call that fails has done nothing, but for those that end something: the driver's answer to
 * these can be an earlier failure, and what they end is gone all the same. What only tells (a
 * version, a text) has no way to fail and is not counted.
 */
#ifndef PLM_TEST_FAULTS_H
#define PLM_TEST_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct plm_faults {
    int64_t calls;      /* since it was last set to 0 */
    int64_t fail_at;    /* the call that fails; 0: none */
    bool persistent;    /* and all that follow */
    bool out_of_memory; /* so the driver answers; else another failure */
    const char *failed; /* the first call that failed; NULL: none did */
    /* How often a function was called since the process began. */
    int64_t (*count)(const char *name);
    /* The function that made something which has not ended; NULL: everything has. */
    const char *(*open)(void);
} plm_faults;

#endif
