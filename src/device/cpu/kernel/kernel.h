/* SPDX-License-Identifier: MIT */
/*
 * What the kernel files share. Every file of this folder is compiled once for each instruction set
 * (CMakeLists.txt lists them) with PLM_ISA naming it; KERNEL(gelu) is then plm__cpu_gelu_x86_64_v3
 * and so on, and table.c collects the set. The device picks one table when it is created.
 *
 * Rules of a kernel
 * - It takes shapes and contiguity as graph/ops.def states them: cpu_shape.c has checked them.
 * - It reads and writes its operands and its workspace and allocates nothing. Tiles of at most
 *   PLM_STACK_FLOATS may lie on the stack.
 * - Its result does not depend on the number of threads: work is cut into pieces by shape alone,
 *   and a sum is taken in one fixed order.
 * - An output may be one of the inputs that ops.def lets it overwrite, so loops over elements say
 *   `omp simd` and pointers are not `restrict`.
 */
#ifndef PLM_DEVICE_CPU_KERNEL_H
#define PLM_DEVICE_CPU_KERNEL_H

#include <omp.h>

#include "device/device.h"

/* Runs one operation on `threads` threads. */
typedef void plm_cpu_kernel(const plm_launch *launch, int threads);

/* The kernels of one instruction set. */
typedef struct plm_cpu_kernels {
    const char *isa;
    plm_cpu_kernel *run[PLM_OP_COUNT];
} plm_cpu_kernels;

enum {
    PLM_CHUNK = 512,         /* elements that an elementwise kernel hands to a thread at once */
    PLM_SERIAL_COUNT = 8192, /* below so many elements, starting threads costs more than the work */
    PLM_COLUMN_CHUNK = 64,   /* columns of a sum over rows that one thread owns */
    PLM_STACK_FLOATS = 6144  /* of tiles on the stack, in one kernel */
};

#ifdef PLM_ISA
#define PLM_KERNEL_JOIN_(name, isa) plm__cpu_##name##_##isa
#define PLM_KERNEL_JOIN(name, isa)  PLM_KERNEL_JOIN_(name, isa)
#define KERNEL(name)                PLM_KERNEL_JOIN(name, PLM_ISA)

#define PLM_KERNEL_CPU(kind, name, workspace) plm_cpu_kernel KERNEL(name);
#include "device/kernels.def"
#endif

/* Number of elements; 1 for a scalar. Shapes were checked to fit. */
static inline int64_t plm__operand_count(const plm_operand *operand)
{
    int64_t count = 1;
    for (int32_t i = 0; i < operand->rank; i++)
        count *= operand->shape[i];
    return count;
}

/* The last extent: the width of a row. */
static inline int64_t plm__operand_width(const plm_operand *operand)
{
    return operand->shape[operand->rank - 1];
}

/* All extents but the last as one: the rows. */
static inline int64_t plm__operand_rows(const plm_operand *operand)
{
    int64_t rows = 1;
    for (int32_t i = 0; i + 1 < operand->rank; i++)
        rows *= operand->shape[i];
    return rows;
}

/* An operand that may be left out is given with rank 0. */
static inline bool plm__operand_is_absent(const plm_operand *operand)
{
    return operand->rank == 0;
}

static inline int64_t plm__min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
