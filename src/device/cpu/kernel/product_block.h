/* SPDX-License-Identifier: MIT */
/*
 * The blocks in which products of 16-bit matrices are made where the processor has no instructions
 * for them: a block of each operand is converted to fp32 in the declared workspace of its thread.
 */
#ifndef PLM_DEVICE_CPU_PRODUCT_BLOCK_H
#define PLM_DEVICE_CPU_PRODUCT_BLOCK_H

enum {
    PLM_PRODUCT_M = 96,    /* rows of a and c at once; each block of b is converted once for them */
    PLM_PRODUCT_N = 192,   /* columns of b and c */
    PLM_PRODUCT_K = 128,   /* columns of a, rows of b */
    PLM_PRODUCT_ROW = 208, /* floats from a row to the next of b's and c's blocks: rows a power of
                              two apart would meet in the cache */
    PLM_PRODUCT_A = PLM_PRODUCT_M * PLM_PRODUCT_K,
    PLM_PRODUCT_B = PLM_PRODUCT_K * PLM_PRODUCT_ROW,
    PLM_PRODUCT_C = PLM_PRODUCT_M * PLM_PRODUCT_ROW,
    /* 236 KB a thread, whatever the shape: it stays in the second-level cache */
    PLM_PRODUCT_FLOATS = PLM_PRODUCT_A + PLM_PRODUCT_B + PLM_PRODUCT_C
};

#endif
