/* SPDX-License-Identifier: MIT */
/*
 * The part of oneDNN whose interface differs between its versions 2 and 3: the description of a
 * matrix product. The rest is the same in both and is used directly.
 */
#ifndef PLM_DEVICE_CPU_DNNL_FACE_H
#define PLM_DEVICE_CPU_DNNL_FACE_H

#include <dnnl.h>
#include <stdbool.h>

#include "plimsoll/dtype.h"

/* c[m,n] (+)= a[m,k] b[k,n] (+ bias[n]); a turned matrix lies as [k,m] or [n,k]. */
typedef struct plm_product {
    int64_t m, n, k;
    bool turned_a, turned_b;
    bool bias;
    bool add;
    bool packed_b;    /* b is multiplied from a copy in the library's own layout */
    plm_dtype type;   /* of a, b and bias */
    plm_dtype result; /* of c; sums are in fp32 whatever they are */
} plm_product;

/* *descriptor = the library's plan for `product` with a scratchpad of the caller's; ended
 * with dnnl_primitive_desc_destroy. */
dnnl_status_t plm__dnnl_describe(dnnl_engine_t engine, const plm_product *product,
                                 dnnl_primitive_desc_t *descriptor);

/* *packing = the library's plan for copying b, as it lies, into the layout that the plan of a
 * product with packed_b wants; ended likewise. */
dnnl_status_t plm__dnnl_describe_packing(dnnl_engine_t engine, const plm_product *product,
                                         const_dnnl_primitive_desc_t descriptor,
                                         dnnl_primitive_desc_t *packing);

#endif
