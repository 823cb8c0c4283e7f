/* SPDX-License-Identifier: MIT */
/*
 * Fused attention through cuDNN's graph interface, which is opened at run time. The operation is
 * described as the chain of products, pointwise operations and reductions that attention is; cuDNN
 * recognises it and runs one kernel. Making a plan takes tens of milliseconds and more, so a plan
 * is made once a shape and kept; only the pointers differ from layer to layer.
 *
 *     forward   S = q k^T scale, masked; m = max S; e = exp(S - m); l = sum e;
 *               lse = m + log l; out = (e / l) v
 *     backward  delta = sum dout out; P = exp(S - lse); dv = P^T dout;
 *               dS = (dout v^T - delta) P scale; dk = dS^T q; dq = dS k
 *
 * dq is summed in fp32 by many blocks at once, in whichever order they come: two runs may differ in
 * the last bit. Where the same bits are wanted, or cuDNN cannot or should not, the kernels of
 * kernel/attention.cu run.
 *
 * Tensors are [B,H,T,D] with the strides of the packed qkv [B,T,3HD].
 */
#include <cudnn_graph.h>
#include <dlfcn.h>
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "base/dtype.h"
#include "device/cuda/cuda_internal.h"

#define CUDNN_CALLS(ROW)                                                                           \
    ROW(cudnnCreate)                                                                               \
    ROW(cudnnDestroy)                                                                              \
    ROW(cudnnSetStream)                                                                            \
    ROW(cudnnGetVersion)                                                                           \
    ROW(cudnnGetErrorString)                                                                       \
    ROW(cudnnBackendCreateDescriptor)                                                              \
    ROW(cudnnBackendDestroyDescriptor)                                                             \
    ROW(cudnnBackendSetAttribute)                                                                  \
    ROW(cudnnBackendGetAttribute)                                                                  \
    ROW(cudnnBackendFinalize)                                                                      \
    ROW(cudnnBackendExecute)

typedef cudnnBackendDescriptor_t descriptor;

/* The tensors of a graph by their numbers, which pointers are given for. */
enum { Q = 1, K, V, OUT, LSE, SCALE, MINUS_INF, DOUT, DQ, DK, DV, DELTA, DQ_SUM, ONE, VIRTUAL };

enum {
    NODES_MAX = 64,
    CONFIGS_MAX = 8,
    WORKSPACE_BYTES = 256,      /* beside the sums, as the plan declares */
    GRAPH_REPLAY_FIXED = 91501, /* the first version whose backward may read any length */
    ALIGNED_LENGTH = 128,       /* that versions before may read */
    HEAD_SIZE_MAX = 128
};

/* One plan: of a shape, forward or backward. */
typedef struct attention_plan {
    int64_t batch, length, heads, size;
    plm_dtype dtype;
    bool causal, is_backward;
    descriptor plan;
} attention_plan;

struct plm_cuda_graphs {
    void *library;
    cudnnHandle_t handle;
    size_t version;
    PLM_ARRAY(attention_plan) plans;
#define FIELD(name) __typeof__(name) *name;
    CUDNN_CALLS(FIELD)
#undef FIELD
};

/* A launch made ready: its plan and the pointers of its tensors. */
typedef struct prepared_attention {
    plm_cuda_prepared head;
    descriptor plan, pointers;
    float scale, minus_inf, one;
} prepared_attention;

plm_status plm__cuda_graphs_open(plm_cuda *cuda)
{
    static const char *const names[] = {"libcudnn.so.9", NULL};
    plm_cuda_graphs *dnn = NULL;
    PLM_TRY(plm__host_alloc(sizeof *dnn, &dnn));
    cuda->graphs = dnn;
    dnn->library = plm__cuda_library(names);
    PLM_FAIL_IF(!dnn->library, PLM_ERROR_UNSUPPORTED,
                "cuDNN was not found: wanted libcudnn.so.9; install Debian's libcudnn or pip's "
                "nvidia-cudnn, or put its folder on LD_LIBRARY_PATH");
#define FIND(name)                                                                                 \
    {                                                                                              \
        void *found = dlsym(dnn->library, #name);                                                  \
        PLM_FAIL_IF(!found, PLM_ERROR_UNSUPPORTED, "the cuDNN found lacks %s", #name);             \
        memcpy(&dnn->name, &found, sizeof found);                                                  \
    }
    CUDNN_CALLS(FIND)
#undef FIND
    dnn->version = dnn->cudnnGetVersion();
    cudnnStatus_t result = dnn->cudnnCreate(&dnn->handle);
    if (result == CUDNN_STATUS_SUCCESS)
        result = dnn->cudnnSetStream(dnn->handle, (cudaStream_t)cuda->stream);
    PLM_FAIL_IF(result != CUDNN_STATUS_SUCCESS, PLM_ERROR_DEVICE, "cuDNN refused to begin: %s",
                dnn->cudnnGetErrorString(result));
    return PLM_OK;
}

void plm__cuda_graphs_close(plm_cuda *cuda)
{
    plm_cuda_graphs *dnn = cuda->graphs;
    if (!dnn)
        return;
    for (int64_t i = 0; i < dnn->plans.count; i++)
        dnn->cudnnBackendDestroyDescriptor(dnn->plans.items[i].plan);
    PLM_ARRAY_FREE(&dnn->plans);
    if (dnn->handle)
        dnn->cudnnDestroy(dnn->handle);
    if (dnn->library)
        dlclose(dnn->library);
    plm__host_free(dnn);
}

bool plm__cuda_graphs_take(const plm_cuda *cuda, const plm_launch *launch)
{
    if (launch->kind != PLM_OP_ATTENTION && launch->kind != PLM_OP_ATTENTION_GRAD)
        return false;
    bool is_backward = launch->kind == PLM_OP_ATTENTION_GRAD;
    const plm_operand *qkv = &launch->in[is_backward];
    int64_t length = qkv->shape[1], size = plm__head_size(&launch->attr, qkv->shape[2]);
    if (qkv->dtype == PLM_DTYPE_F32 || qkv->shape[0] == 0 || length == 0)
        return false;
    if (launch->attr.key_heads != launch->attr.heads || size % 8 != 0 || size > HEAD_SIZE_MAX ||
        (is_backward && cuda->deterministic))
        return false;
    return !is_backward || length % ALIGNED_LENGTH == 0 ||
           cuda->graphs->version >= GRAPH_REPLAY_FIXED;
}

/* ---- describing ---- */

/* Descriptors of one graph, all ended together; the first failure stays. */
typedef struct sketch {
    const plm_cuda_graphs *dnn;
    PLM_ARRAY(descriptor) all;
    descriptor nodes[NODES_MAX];
    int64_t node_count;
    int64_t next_virtual;
    cudnnDataType_t type;
    int64_t batch, heads, length, size;
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
    descriptor dq_sum = product(s, ds, k, tensor(s, DQ_SUM, f, sums, false));
    of_two(s, CUDNN_POINTWISE_IDENTITY, dq_sum, NULL, tensor(s, DQ, s->type, packed(s), false));
}

/* ---- plans ---- */

/* *plan = what a configuration becomes; one that wants more than the workspace is not supported. */
static cudnnStatus_t try_plan(const plm_cuda_graphs *dnn, descriptor config, descriptor *plan)
{
    descriptor made = NULL;
    int64_t bytes = 0, count;
    cudnnStatus_t result =
        dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &made);
    if (result != CUDNN_STATUS_SUCCESS)
        return result;
    result = dnn->cudnnBackendSetAttribute(made, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                           CUDNN_TYPE_HANDLE, 1, &dnn->handle);
    if (result == CUDNN_STATUS_SUCCESS)
        result = dnn->cudnnBackendSetAttribute(made, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    if (result == CUDNN_STATUS_SUCCESS)
        result = dnn->cudnnBackendFinalize(made);
    if (result == CUDNN_STATUS_SUCCESS)
        result = dnn->cudnnBackendGetAttribute(made, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                               CUDNN_TYPE_INT64, 1, &count, &bytes);
    if (result == CUDNN_STATUS_SUCCESS && bytes > WORKSPACE_BYTES)
        result = CUDNN_STATUS_NOT_SUPPORTED;
    if (result == CUDNN_STATUS_SUCCESS)
        *plan = made;
    else
        dnn->cudnnBackendDestroyDescriptor(made);
    return result;
}

/* The first of cuDNN's configurations that becomes a plan within the workspace; NULL without one.
 */
static descriptor choose_plan(sketch *s)
{
    const plm_cuda_graphs *dnn = s->dnn;
    cudnnHandle_t handle = dnn->handle;
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    descriptor configs[CONFIGS_MAX], graph = make(s, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    descriptor plan = NULL;
    int64_t found = 0;
    set(s, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set(s, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, s->node_count,
        s->nodes);
    finish(s, graph);
    descriptor wish = make(s, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    link_to(s, wish, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(s, wish, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finish(s, wish);
    for (int i = 0; i < CONFIGS_MAX; i++)
        configs[i] = make(s, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (s->result == CUDNN_STATUS_SUCCESS)
        s->result = dnn->cudnnBackendGetAttribute(wish, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGS_MAX,
                                                  &found, configs);
    if (s->result != CUDNN_STATUS_SUCCESS)
        return NULL;
    for (int64_t i = 0; !plan && i < found && i < CONFIGS_MAX; i++)
        s->result = try_plan(dnn, configs[i], &plan);
    return plan;
}

static plm_status make_plan(plm_cuda_graphs *dnn, attention_plan *wanted)
{
    sketch s = {.dnn = dnn,
                .type = wanted->dtype == PLM_DTYPE_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF,
                .batch = wanted->batch,
                .heads = wanted->heads,
                .length = wanted->length,
                .size = wanted->size};
    if (wanted->is_backward)
        sketch_backward(&s, wanted->causal);
    else
        sketch_forward(&s, wanted->causal);
    wanted->plan = choose_plan(&s);
    for (int64_t i = s.all.count - 1; i >= 0; i--)
        dnn->cudnnBackendDestroyDescriptor(s.all.items[i]);
    PLM_ARRAY_FREE(&s.all);
    PLM_TRY(s.status);
    PLM_FAIL_IF(!wanted->plan, PLM_ERROR_UNSUPPORTED,
                "cuDNN %zu has no plan for the %s of attention, %lld x %lld tokens, %lld heads of "
                "%lld, within %d bytes of workspace (%s)",
                dnn->version, wanted->is_backward ? "backward" : "forward",
                (long long)wanted->batch, (long long)wanted->length, (long long)wanted->heads,
                (long long)wanted->size, WORKSPACE_BYTES, dnn->cudnnGetErrorString(s.result));
    return PLM_OK;
}

static plm_status find_plan(plm_cuda_graphs *dnn, attention_plan wanted, descriptor *plan)
{
    for (int64_t i = 0; i < dnn->plans.count; i++) {
        const attention_plan *p = &dnn->plans.items[i];
        if (p->batch == wanted.batch && p->length == wanted.length && p->heads == wanted.heads &&
            p->size == wanted.size && p->dtype == wanted.dtype && p->causal == wanted.causal &&
            p->is_backward == wanted.is_backward) {
            *plan = p->plan;
            return PLM_OK;
        }
    }
    PLM_TRY(make_plan(dnn, &wanted));
    plm_status status = PLM_ARRAY_PUSH(&dnn->plans, wanted);
    if (status != PLM_OK)
        dnn->cudnnBackendDestroyDescriptor(wanted.plan);
    else
        *plan = wanted.plan;
    return status;
}

/* ---- launches ---- */

/* The places of a launch's tensors. Workspace of the backward: dq in fp32, row sums, cuDNN's. */
static int64_t gather(const plm_launch *l, const attention_plan *shape, prepared_attention *made,
                      int64_t numbers[VIRTUAL], void *pointers[VIRTUAL], void **room)
{
    bool back = shape->is_backward;
    const plm_operand *qkv = &l->in[back];
    size_t part = (size_t)(shape->heads * shape->size) * plm__dtype_size(qkv->dtype);
    char *in = qkv->data, *grad = l->out[0].data, *work = l->workspace;
    int64_t row_count = shape->batch * shape->heads * shape->length;
    float *dq_sum = l->workspace, *delta = dq_sum + row_count * shape->size;
    const struct {
        int64_t number;
        void *pointer;
    } forward[] = {{Q, in},
                   {K, in + part},
                   {V, in + 2 * part},
                   {OUT, grad},
                   {LSE, l->out[1].data},
                   {SCALE, &made->scale},
                   {MINUS_INF, &made->minus_inf}},
      backward[] = {{Q, in},
                    {K, in + part},
                    {V, in + 2 * part},
                    {OUT, l->in[2].data},
                    {LSE, l->in[3].data},
                    {SCALE, &made->scale},
                    {DOUT, l->in[0].data},
                    {DQ, grad},
                    {DK, grad + part},
                    {DV, grad + 2 * part},
                    {DELTA, delta},
                    {DQ_SUM, dq_sum},
                    {ONE, &made->one},
                    {MINUS_INF, &made->minus_inf}};
    int64_t count = back ? sizeof backward / sizeof *backward : sizeof forward / sizeof *forward;
    count -= !shape->causal; /* the last one */
    for (int64_t i = 0; i < count; i++) {
        numbers[i] = back ? backward[i].number : forward[i].number;
        pointers[i] = back ? backward[i].pointer : forward[i].pointer;
    }
    *room = back ? (void *)(delta + row_count) : work;
    return count;
}

static plm_status bind(plm_cuda_graphs *dnn, const plm_launch *l, const attention_plan *shape,
                       prepared_attention *made)
{
    int64_t numbers[VIRTUAL];
    void *pointers[VIRTUAL], *room;
    int64_t count = gather(l, shape, made, numbers, pointers, &room);
    sketch s = {.dnn = dnn};
    descriptor pack = NULL;
    s.result = dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    set(&s, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, numbers);
    set(&s, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers);
    set(&s, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &room);
    finish(&s, pack);
    made->pointers = pack;
    PLM_FAIL_IF(s.result != CUDNN_STATUS_SUCCESS, PLM_ERROR_DEVICE,
                "cuDNN refused the tensors of attention: %s", dnn->cudnnGetErrorString(s.result));
    return PLM_OK;
}

void plm__cuda_graphs_forget(plm_cuda *cuda, void *prepared)
{
    prepared_attention *made = prepared;
    if (made && made->pointers)
        cuda->graphs->cudnnBackendDestroyDescriptor(made->pointers);
    plm__host_free(made);
}

plm_status plm__cuda_graphs_prepare(plm_cuda *cuda, const plm_launch *launch, void **prepared)
{
    bool is_backward = launch->kind == PLM_OP_ATTENTION_GRAD;
    const plm_operand *qkv = &launch->in[is_backward];
    attention_plan shape = {.batch = qkv->shape[0],
                            .length = qkv->shape[1],
                            .heads = launch->attr.heads,
                            .size = plm__head_size(&launch->attr, qkv->shape[2]),
                            .dtype = qkv->dtype,
                            .causal = launch->attr.causal,
                            .is_backward = is_backward};
    prepared_attention *made = NULL;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    *made = (prepared_attention){.head = {plm__cuda_graphs_forget},
                                 .scale = 1.0f / sqrtf((float)shape.size),
                                 .minus_inf = -INFINITY,
                                 .one = 1.0f};
    plm_status status = find_plan(cuda->graphs, shape, &made->plan);
    if (status == PLM_OK)
        status = bind(cuda->graphs, launch, &shape, made);
    if (status != PLM_OK) {
        plm__cuda_graphs_forget(cuda, made);
        return status;
    }
    *prepared = made;
    return PLM_OK;
}

plm_status plm__cuda_graphs_launch(plm_cuda *cuda, const plm_launch *launch, void *prepared)
{
    const plm_cuda_graphs *dnn = cuda->graphs;
    const prepared_attention *made = prepared;
    (void)launch;
    cudnnStatus_t result = dnn->cudnnBackendExecute(dnn->handle, made->plan, made->pointers);
    PLM_FAIL_IF(result != CUDNN_STATUS_SUCCESS, PLM_ERROR_DEVICE, "cuDNN refused attention: %s",
                dnn->cudnnGetErrorString(result));
    return PLM_OK;
}
