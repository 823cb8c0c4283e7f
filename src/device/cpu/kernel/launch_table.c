/* SPDX-License-Identifier: MIT */
/* The kernels of one instruction set, by operation. */
#include "device/cpu/kernel/kernel.h"

#define PLM_ISA_TEXT_(isa) #isa
#define PLM_ISA_TEXT(isa)  PLM_ISA_TEXT_(isa)

extern const plm_cpu_kernels KERNEL(kernels);

const plm_cpu_kernels KERNEL(kernels) = {
    .isa = PLM_ISA_TEXT(PLM_ISA),
    .run =
        {
#define PLM_KERNEL_ROW(kind, name) [PLM_OP_##kind] = KERNEL(name),
            PLM_CPU_KERNEL_MAP(PLM_KERNEL_ROW)
#undef PLM_KERNEL_ROW
        },
};
