/* SPDX-License-Identifier: MIT */
/*
 * A device that is not there: it answers what a planner asks, by formulas, and can do nothing else.
 * Plans made for it are whole plans, which is how one plans for a machine that one does not have.
 */
#ifndef PLM_TEST_FAKE_DEVICE_H
#define PLM_TEST_FAKE_DEVICE_H

#include "device/device.h"

typedef struct fake_device {
    plm_device head;
    size_t product_bytes; /* workspace of a matrix product, and two rows more of each row of out */
    size_t overhead_bytes;
} fake_device;

static inline bool fake_is_product(plm_op_kind kind)
{
    return kind == PLM_OP_LINEAR || kind == PLM_OP_LINEAR_GRAD_INPUT ||
           kind == PLM_OP_LINEAR_GRAD_WEIGHT;
}

/* Products take what was set; fused attention takes a tile a head; odd sizes on purpose. */
static inline plm_status fake_workspace(plm_device *device, const plm_launch *launch, size_t *bytes)
{
    const fake_device *fake = (const fake_device *)device;
    bool attention = launch->kind == PLM_OP_ATTENTION || launch->kind == PLM_OP_ATTENTION_GRAD;
    *bytes = fake->product_bytes == 0          ? 0
             : fake_is_product(launch->kind)   ? fake->product_bytes + 1
             : attention && launch->attr.heads ? (size_t)launch->attr.heads * 4096 + 4
                                               : 0;
    return PLM_OK;
}

static inline size_t fake_overhead(plm_device *device)
{
    return ((const fake_device *)device)->overhead_bytes;
}

static inline bool fake_has_dtype(const plm_device *device, plm_dtype dtype)
{
    (void)device;
    (void)dtype;
    return true;
}

static const plm_device_table fake_device_table = {.kind = "fake",
                                                   .workspace = fake_workspace,
                                                   .has_dtype = fake_has_dtype,
                                                   .overhead_bytes = fake_overhead};

/* A device whose products take `product_bytes` and a byte (0: no workspaces at all). */
static inline fake_device fake_device_make(size_t product_bytes, size_t overhead_bytes)
{
    return (fake_device){.head = {.table = &fake_device_table, .threads = 1},
                         .product_bytes = product_bytes,
                         .overhead_bytes = overhead_bytes};
}

#endif
