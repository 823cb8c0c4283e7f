/* SPDX-License-Identifier: MIT */
/*
 * The operation is described as the chain of products, pointwise operations and reductions that
 * attention is; cuDNN recognises the chain and runs one kernel.
 *
 *     forward   S = q k^T scale, masked; m = max S; e = exp(S - m); l = sum e;
 *               lse = m + log l; out = (e / l) v
 *     backward  delta = sum dout out; P = exp(S - lse); dv = P^T dout;
 *               dS = (dout v^T - delta) P scale; dk = dS^T q; dq = dS k
 *
 * Tensors are [B,H,T,D] with the strides of the packed qkv [B,T,3HD].
 */
#include "device/cuda/cuda_attention_graph.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/size.h"
#include "device/target/cuda_workspace.h"

typedef cudnnBackendDescriptor_t descriptor;

/* The tensors of a graph by their numbers, which pointers are given for. */
enum { Q = 1, K, V, OUT, LSE, SCALE, MINUS_INF, DOUT, DQ, DK, DV, DELTA, DQ_SUM, ONE, VIRTUAL };

enum {
    NODES_MAX = 64,
    GRAPH_REPLAY_FIXED = 91501, /* the first version whose backward may read any length */
    ALIGNED_LENGTH = 128,       /* that versions before may read */
    HEAD_SIZE_MAX = 128
};

plm_status plm__cudnn_find(plm_cudnn *dnn)
{
#define FIND(name)                                                                                 \
    {                                                                                              \
        void *found = dlsym(dnn->library, #name);                                                  \
        PLM_FAIL_IF(!found, PLM_ERROR_UNSUPPORTED, "the cuDNN found lacks %s", #name);             \
        memcpy(&dnn->name, &found, sizeof found);                                                  \
    }
    PLM_CUDNN_CALLS(FIND)
#undef FIND
    dnn->version = dnn->cudnnGetVersion();
    return PLM_OK;
}

bool plm__attention_is_planned(const plm_launch *launch, bool deterministic, size_t version)
{
    if (launch->kind != PLM_OP_ATTENTION && launch->kind != PLM_OP_ATTENTION_GRAD)
        return false;
    bool is_backward = launch->kind == PLM_OP_ATTENTION_GRAD;
    const plm_operand *qkv = &launch->in[is_backward];
    int64_t length = qkv->shape[1], size = plm__head_size(&launch->attr, qkv->shape[2]);
    if (qkv->dtype == PLM_DTYPE_F32 || qkv->shape[0] == 0 || length == 0)
        return false;
    if (launch->attr.key_heads != launch->attr.heads || size % 8 != 0 || size > HEAD_SIZE_MAX ||
        (is_backward && deterministic))
        return false;
    return !is_backward || length % ALIGNED_LENGTH == 0 || version >= GRAPH_REPLAY_FIXED;
}

plm_attention_graph plm__attention_graph_of(const plm_launch *launch)
{
    bool is_backward = launch->kind == PLM_OP_ATTENTION_GRAD;
    const plm_operand *qkv = &launch->in[is_backward];
    return (plm_attention_graph){.batch = qkv->shape[0],
                                 .length = qkv->shape[1],
                                 .heads = launch->attr.heads,
                                 .size = plm__head_size(&launch->attr, qkv->shape[2]),
                                 .dtype = qkv->dtype,
                                 .causal = launch->attr.causal,
                                 .is_backward = is_backward};
}

/* ---- describing ---- */

/* Descriptors of one graph, all ended together; the first failure stays. */
typedef struct sketch {
    const plm_cudnn *dnn;
    PLM_ARRAY(descriptor) all;
    descriptor nodes[NODES_MAX];
    int64_t node_count;
    int64_t next_virtual;
    cudnnDataType_t type;
    int64_t batch, heads, length, size;
    plm_attention_sums sums;
    cudnnStatus_t result;
    plm_status status; /* of host memory */
} sketch;

static descriptor make(sketch *s, cudnnBackendDescriptorType_t type)
{
    descriptor made = NULL;
    if (s->result == CUDNN_STATUS_SUCCESS)
        s->result = s->dnn->cudnnBackendCreateDescriptor(type, &made);
    if (made && s->status == PLM_OK)
        s->status = PLM_ARRAY_PUSH(&s->all, made);
    if (made && s->status != PLM_OK) {
        s->dnn->cudnnBackendDestroyDescriptor(made);
        s->result = CUDNN_STATUS_INTERNAL_ERROR; /* nothing more is described */
        made = NULL;
    }
    return made;
}

static void set(sketch *s, descriptor d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (s->result == CUDNN_STATUS_SUCCESS)
        s->result = s->dnn->cudnnBackendSetAttribute(d, name, type, count, values);
}

static void link_to(sketch *s, descriptor d, cudnnBackendAttributeName_t name, descriptor value)
{
    if (value)
        set(s, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finish(sketch *s, descriptor d)
{
    if (s->result == CUDNN_STATUS_SUCCESS)
        s->result = s->dnn->cudnnBackendFinalize(d);
}

/* Dimensions and strides of a tensor of four. */
typedef struct layout {
    int64_t dims[4], steps[4];
} layout;

static descriptor tensor(sketch *s, int64_t number, cudnnDataType_t type, layout at, bool by_value)
{
    bool is_virtual = number >= VIRTUAL;
    int64_t alignment = 16;
    descriptor d = make(s, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(s, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number);
    set(s, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(s, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, at.dims);
    set(s, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, at.steps);
    set(s, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(s, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    set(s, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    finish(s, d);
    return d;
}

static descriptor between(sketch *s, cudnnDataType_t type, layout at)
{
    return tensor(s, VIRTUAL + s->next_virtual++, type, at, false);
}

static void add_node(sketch *s, descriptor node)
{
    finish(s, node);
    PLM_BUG_IF(s->node_count == NODES_MAX, "attention has more than %d nodes", NODES_MAX);
    s->nodes[s->node_count++] = node;
}

/* y = mode(x, b, t), in `precision`; `axis` for an index, else -1 */
static descriptor point(sketch *s, cudnnPointwiseMode_t mode, cudnnDataType_t precision,
                        int64_t axis, descriptor x, descriptor b, descriptor t, descriptor y)
{
    descriptor what = make(s, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(s, what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(s, what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    if (axis >= 0)
        set(s, what, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    finish(s, what);
    descriptor node = make(s, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    link_to(s, node, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
    link_to(s, node, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    link_to(s, node, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    link_to(s, node, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    link_to(s, node, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add_node(s, node);
    return y;
}

static descriptor of_two(sketch *s, cudnnPointwiseMode_t mode, descriptor x, descriptor b,
                         descriptor y)
{
    return point(s, mode, CUDNN_DATA_FLOAT, -1, x, b, NULL, y);
}

static descriptor product(sketch *s, descriptor a, descriptor b, descriptor out)
{
    cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    descriptor what = make(s, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(s, what, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    finish(s, what);
    descriptor node = make(s, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    link_to(s, node, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    link_to(s, node, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    link_to(s, node, CUDNN_ATTR_OPERATION_MATMUL_CDESC, out);
    link_to(s, node, CUDNN_ATTR_OPERATION_MATMUL_DESC, what);
    add_node(s, node);
    return out;
}

static descriptor reduce(sketch *s, cudnnReduceTensorOp_t mode, descriptor x, descriptor y)
{
    cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    descriptor what = make(s, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(s, what, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
    set(s, what, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    finish(s, what);
    descriptor node = make(s, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    link_to(s, node, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    link_to(s, node, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    link_to(s, node, CUDNN_ATTR_OPERATION_REDUCTION_DESC, what);
    add_node(s, node);
    return y;
}

static descriptor reshape(sketch *s, descriptor x, descriptor y)
{
    descriptor node = make(s, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    link_to(s, node, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    link_to(s, node, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add_node(s, node);
    return y;
}

/* ---- layouts ---- */

/* [B,H,T,D] with `row` elements from token to token. */
static layout rows(const sketch *s, int64_t row)
{
    return (layout){{s->batch, s->heads, s->length, s->size}, {s->length * row, s->size, row, 1}};
}

static layout transposed(layout at)
{
    return (layout){{at.dims[0], at.dims[1], at.dims[3], at.dims[2]},
                    {at.steps[0], at.steps[1], at.steps[3], at.steps[2]}};
}

static layout square(const sketch *s) /* [B,H,T,T] */
{
    int64_t t = s->length;
    return (layout){{s->batch, s->heads, t, t}, {s->heads * t * t, t * t, t, 1}};
}

static layout columns(const sketch *s) /* [B,H,T,1] */
{
    int64_t t = s->length;
    return (layout){{s->batch, s->heads, t, 1}, {s->heads * t, t, 1, 1}};
}

static const layout single = {{1, 1, 1, 1}, {1, 1, 1, 1}};

static layout packed(const sketch *s)
{
    return rows(s, 3 * s->heads * s->size);
}

static layout plain(const sketch *s)
{
    return rows(s, s->heads * s->size);
}

/* ---- the two graphs ---- */

static descriptor value(sketch *s, int64_t number)
{
    return tensor(s, number, CUDNN_DATA_FLOAT, single, true);
}

/* x where the key is not after the query, else -inf */
static descriptor mask(sketch *s, descriptor x)
{
    descriptor row = between(s, CUDNN_DATA_INT32, square(s));
    descriptor column = between(s, CUDNN_DATA_INT32, square(s));
    descriptor is_seen = between(s, CUDNN_DATA_BOOLEAN, square(s));
    descriptor out = between(s, CUDNN_DATA_FLOAT, square(s));
    point(s, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 2, x, NULL, NULL, row);
    point(s, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 3, x, NULL, NULL, column);
    point(s, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, -1, row, column, NULL, is_seen);
    return point(s, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, x, value(s, MINUS_INF),
                 is_seen, out);
}

static descriptor scores(sketch *s, descriptor q, descriptor k_t, descriptor scale)
{
    descriptor raw = product(s, q, k_t, between(s, CUDNN_DATA_FLOAT, square(s)));
    return of_two(s, CUDNN_POINTWISE_MUL, raw, scale, between(s, CUDNN_DATA_FLOAT, square(s)));
}

static void sketch_forward(sketch *s, bool causal)
{
    cudnnDataType_t f = CUDNN_DATA_FLOAT;
    descriptor q = tensor(s, Q, s->type, packed(s), false);
    descriptor k_t = tensor(s, K, s->type, transposed(packed(s)), false);
    descriptor v = tensor(s, V, s->type, packed(s), false);
    descriptor out = tensor(s, OUT, s->type, plain(s), false);
    descriptor lse = tensor(s, LSE, f, columns(s), false);
    descriptor seen = scores(s, q, k_t, value(s, SCALE));
    if (causal)
        seen = mask(s, seen);
    descriptor most = reduce(s, CUDNN_REDUCE_TENSOR_MAX, seen, between(s, f, columns(s)));
    descriptor below = of_two(s, CUDNN_POINTWISE_SUB, seen, most, between(s, f, square(s)));
    descriptor e = of_two(s, CUDNN_POINTWISE_EXP, below, NULL, between(s, f, square(s)));
    descriptor sum = reduce(s, CUDNN_REDUCE_TENSOR_ADD, e, between(s, f, columns(s)));
    descriptor log = of_two(s, CUDNN_POINTWISE_LOG, sum, NULL, between(s, f, columns(s)));
    of_two(s, CUDNN_POINTWISE_ADD, most, log, lse);
    descriptor p = of_two(s, CUDNN_POINTWISE_DIV, e, sum, between(s, s->type, square(s)));
    product(s, p, v, out);
}

/* Sums that are cuDNN's own are virtual, as every tensor that leaves no trace. */
static descriptor sums_of_dq(sketch *s, layout at)
{
    return s->sums == PLM_ATTENTION_SUMS_INSIDE ? between(s, CUDNN_DATA_FLOAT, at)
                                                : tensor(s, DQ_SUM, CUDNN_DATA_FLOAT, at, false);
}

static void sketch_backward(sketch *s, bool causal)
{
    cudnnDataType_t f = CUDNN_DATA_FLOAT;
    layout sums = rows(s, s->size); /* [B,H,T,D] contiguous */
    sums.steps[0] = s->heads * s->length * s->size;
    sums.steps[1] = s->length * s->size;
    descriptor q = tensor(s, Q, s->type, packed(s), false);
    descriptor k_t = tensor(s, K, s->type, transposed(packed(s)), false);
    descriptor v_t = tensor(s, V, s->type, transposed(packed(s)), false);
    descriptor out = tensor(s, OUT, s->type, plain(s), false);
    descriptor dout = tensor(s, DOUT, s->type, plain(s), false);
    descriptor lse = tensor(s, LSE, f, columns(s), false);
    descriptor scale = value(s, SCALE), delta = tensor(s, DELTA, f, columns(s), false);
    descriptor both = of_two(s, CUDNN_POINTWISE_MUL, dout, out, between(s, f, plain(s)));
    descriptor row = reduce(s, CUDNN_REDUCE_TENSOR_ADD, both, between(s, f, columns(s)));
    of_two(s, CUDNN_POINTWISE_MUL, row, value(s, ONE), delta);
    descriptor seen =
        of_two(s, CUDNN_POINTWISE_SUB, scores(s, q, k_t, scale), lse, between(s, f, square(s)));
    if (causal)
        seen = mask(s, seen);
    descriptor p = of_two(s, CUDNN_POINTWISE_EXP, seen, NULL, between(s, f, square(s)));
    descriptor p_t = reshape(s, p, between(s, s->type, transposed(square(s))));
    product(s, p_t, dout, tensor(s, DV, s->type, packed(s), false));
    descriptor dp = product(s, dout, v_t, between(s, f, square(s)));
    descriptor apart = of_two(s, CUDNN_POINTWISE_SUB, dp, delta, between(s, f, square(s)));
    descriptor weighed = of_two(s, CUDNN_POINTWISE_MUL, apart, p, between(s, f, square(s)));
    descriptor ds = of_two(s, CUDNN_POINTWISE_MUL, weighed, scale, between(s, s->type, square(s)));
    descriptor ds_t = reshape(s, ds, between(s, s->type, transposed(square(s))));
    product(s, ds_t, q, tensor(s, DK, s->type, packed(s), false));
    descriptor k = reshape(s, k_t, between(s, s->type, packed(s)));
    descriptor dq_sum = product(s, ds, k, sums_of_dq(s, sums));
    of_two(s, CUDNN_POINTWISE_IDENTITY, dq_sum, NULL, tensor(s, DQ, s->type, packed(s), false));
}
/* ---- offers ---- */

static void ask(sketch *s, plm_attention_card card, plm_attention_offers *offers)
{
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    descriptor graph = make(s, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (card.handle)
        set(s, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &card.handle);
    set(s, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, s->node_count,
        s->nodes);
    finish(s, graph);
    descriptor wish = make(s, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    link_to(s, wish, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    link_to(s, wish, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, card.described);
    set(s, wish, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finish(s, wish);
    for (int i = 0; i < PLM_ATTENTION_OFFERS_MAX; i++)
        offers->configs[i] = make(s, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (s->result == CUDNN_STATUS_SUCCESS)
        s->result = s->dnn->cudnnBackendGetAttribute(
            wish, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            PLM_ATTENTION_OFFERS_MAX, &offers->count, offers->configs);
    if (s->result != CUDNN_STATUS_SUCCESS)
        offers->count = 0;
    if (offers->count > PLM_ATTENTION_OFFERS_MAX)
        offers->count = PLM_ATTENTION_OFFERS_MAX;
}

plm_status plm__attention_ask(const plm_cudnn *dnn, const plm_attention_graph *shape,
                              plm_attention_sums sums, plm_attention_card card,
                              plm_attention_offers *offers)
{
    sketch s = {.dnn = dnn,
                .type = shape->dtype == PLM_DTYPE_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF,
                .batch = shape->batch,
                .heads = shape->heads,
                .length = shape->length,
                .size = shape->size,
                .sums = sums};
    *offers = (plm_attention_offers){0};
    if (shape->is_backward)
        sketch_backward(&s, shape->causal);
    else
        sketch_forward(&s, shape->causal);
    ask(&s, card, offers);
    offers->result = s.result;
    offers->all.items = s.all.items;
    offers->all.count = s.all.count;
    return s.status;
}

void plm__attention_forget_offers(const plm_cudnn *dnn, plm_attention_offers *offers)
{
    for (int64_t i = offers->all.count - 1; i >= 0; i--)
        dnn->cudnnBackendDestroyDescriptor(offers->all.items[i]);
    PLM_ARRAY_FREE(&offers->all);
}

/* ---- plans ---- */

/* The workspace of a launch: cuDNN's own of GRAPH_BYTES; for the backward dq in fp32, which is
 * cuDNN's own too where the sums are inside; the sum of each row of dout out. */
static plm_status sums_bytes(const plm_attention_graph *shape, size_t *bytes)
{
    return plm__cuda_attention_sums(shape->batch * shape->heads, shape->length, shape->size, bytes);
}

plm_status plm__attention_room(const plm_attention_graph *shape, plm_attention_sums sums,
                               size_t *bytes)
{
    size_t inside = 0;
    if (shape->is_backward && sums == PLM_ATTENTION_SUMS_INSIDE)
        PLM_TRY(sums_bytes(shape, &inside));
    return plm__add_bytes(inside, PLM_CUDA_GRAPH_BYTES, bytes);
}

/* *plan = what an offer becomes; one that wants more than the room is not supported. */
static cudnnStatus_t try_plan(const plm_cudnn *dnn, cudnnHandle_t handle, descriptor config,
                              size_t room, descriptor *plan)
{
    descriptor made = NULL;
    int64_t bytes = 0, count;
    cudnnStatus_t result =
        dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &made);
    if (result != CUDNN_STATUS_SUCCESS)
        return result;
    result = dnn->cudnnBackendSetAttribute(made, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                           CUDNN_TYPE_HANDLE, 1, &handle);
    if (result == CUDNN_STATUS_SUCCESS)
        result = dnn->cudnnBackendSetAttribute(made, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    if (result == CUDNN_STATUS_SUCCESS)
        result = dnn->cudnnBackendFinalize(made);
    if (result == CUDNN_STATUS_SUCCESS)
        result = dnn->cudnnBackendGetAttribute(made, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                               CUDNN_TYPE_INT64, 1, &count, &bytes);
    if (result == CUDNN_STATUS_SUCCESS && (bytes < 0 || (size_t)bytes > room))
        result = CUDNN_STATUS_NOT_SUPPORTED;
    if (result == CUDNN_STATUS_SUCCESS)
        *plan = made;
    else
        dnn->cudnnBackendDestroyDescriptor(made);
    return result;
}

/* No offer is no support, however that is said: with a status or with an empty list. */
static cudnnStatus_t refusal_of(cudnnStatus_t result)
{
    bool is_unsupported = CUDNN_STATUS_CATEGORY(result) == CUDNN_STATUS_NOT_SUPPORTED;
    return result == CUDNN_STATUS_SUCCESS || is_unsupported ? CUDNN_STATUS_NOT_SUPPORTED : result;
}

/* *made is NULL and *result says why where cuDNN has no plan. */
static plm_status find_plan(const plm_cudnn *dnn, cudnnHandle_t handle,
                            const plm_attention_graph *shape, plm_attention_sums sums,
                            descriptor *made, cudnnStatus_t *result)
{
    plm_attention_offers offers;
    size_t room;
    *made = NULL;
    PLM_TRY(plm__attention_room(shape, sums, &room));
    plm_status status =
        plm__attention_ask(dnn, shape, sums, (plm_attention_card){.handle = handle}, &offers);
    *result = offers.count > 0 ? offers.result : refusal_of(offers.result);
    for (int64_t i = 0; status == PLM_OK && !*made && i < offers.count; i++)
        *result = refusal_of(try_plan(dnn, handle, offers.configs[i], room, made));
    plm__attention_forget_offers(dnn, &offers);
    return status;
}

static plm_status refuse(const plm_cudnn *dnn, const plm_attention_graph *shape,
                         plm_attention_sums sums, cudnnStatus_t result)
{
    size_t room;
    PLM_TRY(plm__attention_room(shape, sums, &room));
    return plm_fail(PLM_ERROR_UNSUPPORTED,
                    "cuDNN %zu has no plan for the %s of attention, %lld x %lld tokens, %lld heads "
                    "of %lld, within %zu bytes of workspace (%s)",
                    dnn->version, shape->is_backward ? "backward" : "forward",
                    (long long)shape->batch, (long long)shape->length, (long long)shape->heads,
                    (long long)shape->size, room, dnn->cudnnGetErrorString(result));
}

plm_status plm__attention_plan_as(const plm_cudnn *dnn, cudnnHandle_t handle,
                                  const plm_attention_graph *shape, plm_attention_sums sums,
                                  plm_attention_plan *plan)
{
    cudnnStatus_t result;
    descriptor made;
    PLM_TRY(find_plan(dnn, handle, shape, sums, &made, &result));
    if (!made)
        return refuse(dnn, shape, sums, result);
    *plan = (plm_attention_plan){*shape, sums, made};
    return PLM_OK;
}

/* A graph that is described well and has no plan is asked for again with its sums inside. */
plm_status plm__attention_plan(const plm_cudnn *dnn, cudnnHandle_t handle,
                               const plm_attention_graph *shape, plm_attention_plan *plan)
{
    cudnnStatus_t result;
    descriptor made;
    PLM_TRY(find_plan(dnn, handle, shape, PLM_ATTENTION_SUMS_GIVEN, &made, &result));
    if (!made && shape->is_backward && result == CUDNN_STATUS_NOT_SUPPORTED)
        return plm__attention_plan_as(dnn, handle, shape, PLM_ATTENTION_SUMS_INSIDE, plan);
    if (!made)
        return refuse(dnn, shape, PLM_ATTENTION_SUMS_GIVEN, result);
    *plan = (plm_attention_plan){*shape, PLM_ATTENTION_SUMS_GIVEN, made};
    return PLM_OK;
}

/* ---- launches ---- */

/* Numbers and places of a launch's tensors; their count. */
typedef struct places {
    int64_t count, numbers[VIRTUAL];
    void *pointers[VIRTUAL];
} places;

static void place(places *all, int64_t number, void *pointer)
{
    all->numbers[all->count] = number;
    all->pointers[all->count++] = pointer;
}

static void place_forward(places *all, const plm_launch *l)
{
    place(all, OUT, l->out[0].data);
    place(all, LSE, l->out[1].data);
}

static plm_status place_backward(places *all, const plm_launch *l, const plm_attention_plan *plan,
                                 plm_attention_values *values, size_t part)
{
    char *grad = l->out[0].data, *sums = (char *)l->workspace + PLM_CUDA_GRAPH_BYTES;
    size_t bytes;
    PLM_TRY(sums_bytes(&plan->shape, &bytes));
    place(all, OUT, l->in[2].data);
    place(all, LSE, l->in[3].data);
    place(all, DOUT, l->in[0].data);
    place(all, DQ, grad);
    place(all, DK, grad + part);
    place(all, DV, grad + 2 * part);
    place(all, DELTA, sums + bytes);
    place(all, ONE, &values->one);
    if (plan->sums == PLM_ATTENTION_SUMS_GIVEN)
        place(all, DQ_SUM, sums);
    return PLM_OK;
}

static cudnnStatus_t pack_places(const plm_cudnn *dnn, descriptor pack, const places *all,
                                 void *room)
{
    sketch s = {.dnn = dnn};
    set(&s, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, all->count, all->numbers);
    set(&s, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, all->count,
        all->pointers);
    set(&s, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &room);
    finish(&s, pack);
    return s.result;
}

plm_status plm__attention_bind(const plm_cudnn *dnn, const plm_attention_plan *plan,
                               const plm_launch *launch, plm_attention_values *values,
                               descriptor *pointers)
{
    const plm_attention_graph *shape = &plan->shape;
    const plm_operand *qkv = &launch->in[shape->is_backward];
    size_t part = (size_t)(shape->heads * shape->size) * plm__dtype_size(qkv->dtype);
    places all = {0};
    descriptor pack = NULL;
    *values = (plm_attention_values){1.0f / sqrtf((float)shape->size), -INFINITY, 1.0f};
    for (int i = 0; i < 3; i++)
        place(&all, Q + i, (char *)qkv->data + (size_t)i * part);
    place(&all, SCALE, &values->scale);
    if (shape->causal)
        place(&all, MINUS_INF, &values->minus_inf);
    if (shape->is_backward)
        PLM_TRY(place_backward(&all, launch, plan, values, part));
    else
        place_forward(&all, launch);
    cudnnStatus_t result =
        dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (result == CUDNN_STATUS_SUCCESS)
        result = pack_places(dnn, pack, &all, launch->workspace);
    if (result != CUDNN_STATUS_SUCCESS && pack)
        dnn->cudnnBackendDestroyDescriptor(pack);
    PLM_FAIL_IF(result != CUDNN_STATUS_SUCCESS, PLM_ERROR_DEVICE,
                "cuDNN refused the tensors of attention: %s", dnn->cudnnGetErrorString(result));
    *pointers = pack;
    return PLM_OK;
}
