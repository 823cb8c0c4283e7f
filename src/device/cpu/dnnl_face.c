/* SPDX-License-Identifier: MIT */
/* Describing a matrix product to oneDNN, whichever version is installed. */
#include "device/cpu/dnnl_face.h"

#include <dnnl_version.h>

/* Extents and strides of the four operands, and their types. */
typedef struct layout {
    dnnl_dims_t a, a_strides, b, b_strides, c, c_strides, bias, bias_strides;
    dnnl_data_type_t type, result;
} layout;

static dnnl_data_type_t type_of(plm_dtype dtype)
{
    return dtype == PLM_DTYPE_BF16 ? dnnl_bf16 : dtype == PLM_DTYPE_F16 ? dnnl_f16 : dnnl_f32;
}

static layout layout_of(const plm_product *p)
{
    return (layout){
        .a = {p->m, p->k},
        .a_strides = {p->turned_a ? 1 : p->k, p->turned_a ? p->m : 1},
        .b = {p->k, p->n},
        .b_strides = {p->turned_b ? 1 : p->n, p->turned_b ? p->k : 1},
        .c = {p->m, p->n},
        .c_strides = {p->n, 1},
        .bias = {1, p->n},
        .bias_strides = {p->n, 1},
        .type = type_of(p->type),
        .result = type_of(p->result),
    };
}

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t append_sum(dnnl_post_ops_t post)
{
    return dnnl_post_ops_append_sum(post, 1.0f, 0, dnnl_data_type_undef);
}

static dnnl_status_t create(dnnl_engine_t engine, const plm_product *product,
                            const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *descriptor)
{
    layout at = layout_of(product);
    dnnl_memory_desc_t a = NULL, b = NULL, bias = NULL, c = NULL;
    dnnl_status_t status = dnnl_memory_desc_create_with_strides(&a, 2, at.a, at.type, at.a_strides);
    if (status == dnnl_success && product->packed_b)
        status = dnnl_memory_desc_create_with_tag(&b, 2, at.b, at.type, dnnl_format_tag_any);
    else if (status == dnnl_success)
        status = dnnl_memory_desc_create_with_strides(&b, 2, at.b, at.type, at.b_strides);
    if (status == dnnl_success)
        status = dnnl_memory_desc_create_with_strides(&c, 2, at.c, at.result, at.c_strides);
    if (status == dnnl_success && product->bias)
        status = dnnl_memory_desc_create_with_strides(&bias, 2, at.bias, at.type, at.bias_strides);
    if (status == dnnl_success)
        status = dnnl_matmul_primitive_desc_create(descriptor, engine, a, b, bias, c, attr);
    dnnl_memory_desc_destroy(c);
    dnnl_memory_desc_destroy(bias);
    dnnl_memory_desc_destroy(b);
    dnnl_memory_desc_destroy(a);
    return status;
}

static dnnl_status_t create_packing(dnnl_engine_t engine, const plm_product *product,
                                    const_dnnl_primitive_desc_t descriptor,
                                    const_dnnl_primitive_attr_t attr,
                                    dnnl_primitive_desc_t *packing)
{
    layout at = layout_of(product);
    dnnl_memory_desc_t b = NULL;
    dnnl_status_t status = dnnl_memory_desc_create_with_strides(&b, 2, at.b, at.type, at.b_strides);
    if (status == dnnl_success)
        status = dnnl_reorder_primitive_desc_create(
            packing, b, engine, dnnl_primitive_desc_query_md(descriptor, dnnl_query_weights_md, 0),
            engine, attr);
    dnnl_memory_desc_destroy(b);
    return status;
}

#else

static dnnl_status_t append_sum(dnnl_post_ops_t post)
{
    return dnnl_post_ops_append_sum(post, 1.0f);
}

static dnnl_status_t create(dnnl_engine_t engine, const plm_product *product,
                            const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *descriptor)
{
    layout at = layout_of(product);
    dnnl_memory_desc_t a, b, bias, c;
    dnnl_matmul_desc_t matmul;
    dnnl_status_t status = dnnl_memory_desc_init_by_strides(&a, 2, at.a, at.type, at.a_strides);
    if (status == dnnl_success && product->packed_b)
        status = dnnl_memory_desc_init_by_tag(&b, 2, at.b, at.type, dnnl_format_tag_any);
    else if (status == dnnl_success)
        status = dnnl_memory_desc_init_by_strides(&b, 2, at.b, at.type, at.b_strides);
    if (status == dnnl_success)
        status = dnnl_memory_desc_init_by_strides(&c, 2, at.c, at.result, at.c_strides);
    if (status == dnnl_success)
        status = dnnl_memory_desc_init_by_strides(&bias, 2, at.bias, at.type, at.bias_strides);
    if (status == dnnl_success)
        status = dnnl_matmul_desc_init(&matmul, &a, &b, product->bias ? &bias : NULL, &c);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(descriptor, &matmul, attr, engine, NULL);
    return status;
}

static dnnl_status_t create_packing(dnnl_engine_t engine, const plm_product *product,
                                    const_dnnl_primitive_desc_t descriptor,
                                    const_dnnl_primitive_attr_t attr,
                                    dnnl_primitive_desc_t *packing)
{
    layout at = layout_of(product);
    dnnl_memory_desc_t b;
    dnnl_status_t status = dnnl_memory_desc_init_by_strides(&b, 2, at.b, at.type, at.b_strides);
    if (status == dnnl_success)
        status = dnnl_reorder_primitive_desc_create(
            packing, &b, engine, dnnl_primitive_desc_query_md(descriptor, dnnl_query_weights_md, 0),
            engine, attr);
    return status;
}

#endif

dnnl_status_t plm__dnnl_describe(dnnl_engine_t engine, const plm_product *product,
                                 dnnl_primitive_desc_t *descriptor)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t post = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && product->add)
        status = dnnl_post_ops_create(&post);
    if (status == dnnl_success && product->add)
        status = append_sum(post);
    if (status == dnnl_success && product->add)
        status = dnnl_primitive_attr_set_post_ops(attr, post);
    if (status == dnnl_success)
        status = create(engine, product, attr, descriptor);
    if (post)
        dnnl_post_ops_destroy(post);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return status;
}

dnnl_status_t plm__dnnl_describe_packing(dnnl_engine_t engine, const plm_product *product,
                                         const_dnnl_primitive_desc_t descriptor,
                                         dnnl_primitive_desc_t *packing)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = create_packing(engine, product, descriptor, attr, packing);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return status;
}
