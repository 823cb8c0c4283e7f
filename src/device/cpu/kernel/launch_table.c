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
#define PLM_KERNEL_CPU(kind, name, workspace) [PLM_OP_##kind] = KERNEL(name),
#include "device/kernels.def"
        },
};
