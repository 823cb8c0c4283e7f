/* SPDX-License-Identifier: MIT */
/* Which set of kernels this machine runs. CMakeLists.txt compiles one set for each row here. */
#include "device/cpu/cpu_internal.h"

extern const plm_cpu_kernels plm__cpu_kernels_baseline;

#if defined(__x86_64__)
extern const plm_cpu_kernels plm__cpu_kernels_x86_64_v3, plm__cpu_kernels_x86_64_v4;

/* The levels of the x86-64 psABI, as far as compilers use them for kernels like ours. */
static bool runs_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

static bool runs_v4(void)
{
    return runs_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

bool plm__cpu_has_fp16(void)
{
    return __builtin_cpu_supports("avx512fp16");
}

const plm_cpu_kernels *plm__cpu_kernels_at(int index)
{
    if (index == 0)
        return &plm__cpu_kernels_baseline;
    if (index == 1 && runs_v3())
        return &plm__cpu_kernels_x86_64_v3;
    return index == 2 && runs_v4() ? &plm__cpu_kernels_x86_64_v4 : NULL;
}
#else
bool plm__cpu_has_fp16(void)
{
    return false;
}

const plm_cpu_kernels *plm__cpu_kernels_at(int index)
{
    return index == 0 ? &plm__cpu_kernels_baseline : NULL;
}
#endif

const plm_cpu_kernels *plm__cpu_best_kernels(void)
{
    int index = 0;
    while (plm__cpu_kernels_at(index + 1))
        index++;
    return plm__cpu_kernels_at(index);
}
