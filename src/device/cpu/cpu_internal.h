/* SPDX-License-Identifier: MIT */
/*
 * The CPU device's own files. cpu_device.c is the table; cpu_memory.c hands out memory; cpu_shape.c
 * checks operands; cpu_product.c runs the matrix products through oneDNN, of which dnnl_face.c
 * hides the version; cpu_isa.c picks among the kernels of kernel/, which are compiled once for each
 * instruction set.
 */
#ifndef PLM_DEVICE_CPU_INTERNAL_H
#define PLM_DEVICE_CPU_INTERNAL_H

#include "device/cpu/kernel/kernel.h"

enum { PLM_CPU_THREADS_MAX = 1024 };

/* PLM_OK when every operand has the dtype and shape that graph/ops.def states and is contiguous;
 * data pointers are not looked at. PLM_ERROR_ARGUMENT, PLM_ERROR_OVERFLOW, PLM_ERROR_UNSUPPORTED
 * (strides; an operation that the CPU does not have). */
PLM_MUST_USE plm_status plm__cpu_check_shapes(const plm_launch *launch);

/* Memory. As reserve and release of the contract. */
PLM_MUST_USE plm_status plm__cpu_reserve(plm_device *device, size_t bytes, void **region);
void plm__cpu_release(plm_device *device, void *region, size_t bytes);

/* Whether the processor has AVX-512's arithmetic in fp16. */
bool plm__cpu_has_fp16(void);

/* The kernels of the best instruction set that this machine runs. */
const plm_cpu_kernels *plm__cpu_best_kernels(void);

/* All sets that this machine runs, the plainest first; NULL past the last one. */
const plm_cpu_kernels *plm__cpu_kernels_at(int index);

/* Runs one set's kernel on an existing CPU device, whatever set that would pick. For tests and
 * measurements. */
void plm__cpu_use_kernels(plm_device *device, const plm_cpu_kernels *kernels);

/* Makes products of 16-bit types in silicon, where there is any, or in converted blocks. For tests
 * and measurements. */
void plm__cpu_use_silicon(plm_device *device, bool wanted);

/* Matrix products. One thread drives a plm_products. */
typedef struct plm_products plm_products;

/* Opens the library and runs one small product, so that it is loaded and its threads exist.
 * PLM_ERROR_DEVICE, PLM_ERROR_HOST_MEMORY. */
PLM_MUST_USE plm_status plm__products_create(int32_t threads, plm_products **products);
void plm__products_destroy(plm_products *products);

/* Bound on what the library allocates by itself. */
size_t plm__products_overhead_bytes(const plm_products *products);

/* Whether the library multiplies this type with instructions made for it. */
bool plm__products_have(const plm_products *products, plm_dtype dtype);

/* Lets the library multiply 16-bit types, where it can, or not. For tests and measurements. */
void plm__products_use_silicon(plm_products *products, bool wanted);

/* Whether the operation is a matrix product. */
bool plm__products_run(plm_op_kind kind);

/* Whether the library runs this product, whose shapes were checked: not where there is nothing to
 * multiply, nor types that it does not have. Then the kernels do. */
bool plm__products_take(const plm_products *products, const plm_launch *launch);

/* As the device's functions of the same names, for launches that are taken. */
PLM_MUST_USE plm_status plm__products_workspace(plm_products *products, const plm_launch *launch,
                                                size_t *bytes);
PLM_MUST_USE plm_status plm__products_prepare(plm_products *products, const plm_launch *launch,
                                              void **prepared);
void plm__products_forget(void *prepared);
PLM_MUST_USE plm_status plm__products_launch(plm_products *products, const plm_launch *launch,
                                             void *prepared);

#endif
