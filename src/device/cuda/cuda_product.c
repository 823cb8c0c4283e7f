/* SPDX-License-Identifier: MIT */
/*
 * Matrix products through cuBLASLt, which is opened at run time. Sums are in fp32, without tf32 for
 * fp32 operands, and rounded once. Schemes that add parts in whichever order they come are not
 * allowed, so the same product gives the same bits on every run.
 *
 * cuBLASLt counts columns first. A row-major matrix [rows, columns] is to it the transposed one, so
 * out = a b is asked for as out^T = b^T a^T: what is called a here is its B, and b its A.
 *
 *     LINEAR              out [R,N] = x [R,K] weight^T [K,N] + bias
 *     LINEAR_GRAD_INPUT   dx  [R,K] = dy [R,N] weight [N,K]
 *     LINEAR_GRAD_WEIGHT  dw  [N,K] = dy^T [N,R] x [R,K]
 *
 * Plain attention multiplies inside packed tensors: for each sequence, and each of the H / G query
 * heads that share a key and value head, one batched product over the G heads.
 */
#include <cublasLt.h>
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"
#include "device/cuda/cuda_internal.h"

#define LT_CALLS(ROW)                                                                              \
    ROW(cublasLtCreate)                                                                            \
    ROW(cublasLtDestroy)                                                                           \
    ROW(cublasLtMatmul)                                                                            \
    ROW(cublasLtMatmulDescCreate)                                                                  \
    ROW(cublasLtMatmulDescDestroy)                                                                 \
    ROW(cublasLtMatmulDescSetAttribute)                                                            \
    ROW(cublasLtMatrixLayoutCreate)                                                                \
    ROW(cublasLtMatrixLayoutDestroy)                                                               \
    ROW(cublasLtMatrixLayoutSetAttribute)                                                          \
    ROW(cublasLtMatmulPreferenceCreate)                                                            \
    ROW(cublasLtMatmulPreferenceDestroy)                                                           \
    ROW(cublasLtMatmulPreferenceSetAttribute)                                                      \
    ROW(cublasLtMatmulAlgoGetHeuristic)                                                            \
    ROW(cublasLtGetStatusString)

struct plm_cuda_products {
    void *library;
    cublasLtHandle_t handle;
#define FIELD(name) __typeof__(name) *name;
    LT_CALLS(FIELD)
#undef FIELD
};

enum { WORKSPACE_ALIGNMENT = 256, PRODUCTS_MAX = 3 };

/* A row-major matrix as it is stored, `batch_step` elements from one of a batch to the next. */
typedef struct matrix {
    void *data;
    plm_dtype dtype;
    int64_t rows, columns, row_step, batch_step;
    bool is_transposed; /* before it is multiplied */
} matrix;

/* One product, ready: run `batches` x `groups` times over a sequence and a query head of a group.
 */
typedef struct product {
    cublasLtMatmulDesc_t work;
    cublasLtMatrixLayout_t a, b, out;
    cublasLtMatmulAlgo_t algorithm;
    const char *a_data, *b_data;
    char *out_data;
    float alpha, beta;
    int64_t batches, groups;
    int64_t a_steps[2], b_steps[2],
        out_steps[2]; /* bytes from sequence to sequence, head to head */
    bool sums_groups; /* all heads of a group add up: beta is 1 from the second on */
} product;

typedef struct prepared_products {
    plm_cuda_prepared head;
    int count;
    product of[PRODUCTS_MAX];
} prepared_products;

#define LT_TRY(lt, what, call)                                                                     \
    do {                                                                                           \
        cublasStatus_t result_ = (lt)->call;                                                       \
        if (result_ != CUBLAS_STATUS_SUCCESS)                                                      \
            return plm_fail(PLM_ERROR_DEVICE, "cuBLASLt refused %s: %s", what,                     \
                            (lt)->cublasLtGetStatusString(result_));                               \
    } while (0)

plm_status plm__cuda_products_open(plm_cuda *cuda)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
    plm_cuda_products *lt = NULL;
    PLM_TRY(plm__host_alloc(sizeof *lt, &lt));
    cuda->products = lt;
    lt->library = plm__cuda_library(names);
    PLM_FAIL_IF(!lt->library, PLM_ERROR_UNSUPPORTED,
                "cuBLASLt was not found: wanted libcublasLt.so.13 or .12; install Debian's "
                "libcublas or pip's nvidia-cublas, or put its folder on LD_LIBRARY_PATH");
#define FIND(name)                                                                                 \
    {                                                                                              \
        void *found = dlsym(lt->library, #name);                                                   \
        PLM_FAIL_IF(!found, PLM_ERROR_UNSUPPORTED, "the cuBLASLt found lacks %s", #name);          \
        memcpy(&lt->name, &found, sizeof found);                                                   \
    }
    LT_CALLS(FIND)
#undef FIND
    LT_TRY(lt, "to begin", cublasLtCreate(&lt->handle));
    return PLM_OK;
}

void plm__cuda_products_close(plm_cuda *cuda)
{
    plm_cuda_products *lt = cuda->products;
    if (lt && lt->handle)
        lt->cublasLtDestroy(lt->handle);
    if (lt && lt->library)
        dlclose(lt->library);
    plm__host_free(lt);
}

bool plm__cuda_products_take(const plm_launch *launch)
{
    switch (launch->kind) {
    case PLM_OP_LINEAR:
    case PLM_OP_LINEAR_GRAD_INPUT:
    case PLM_OP_LINEAR_GRAD_WEIGHT:
    case PLM_OP_ATTENTION_SCORES:
    case PLM_OP_ATTENTION_APPLY:
    case PLM_OP_ATTENTION_GRAD_PROBS:
    case PLM_OP_ATTENTION_GRAD_QKV:
        return true;
    default:
        return false;
    }
}

/* ---- one product ---- */

static cudaDataType_t type_of(plm_dtype dtype)
{
    return dtype == PLM_DTYPE_BF16 ? CUDA_R_16BF : dtype == PLM_DTYPE_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static plm_status make_layout(const plm_cuda_products *lt, const matrix *m, int32_t batch,
                              cublasLtMatrixLayout_t *layout)
{
    LT_TRY(lt, "a matrix",
           cublasLtMatrixLayoutCreate(layout, type_of(m->dtype), (uint64_t)m->columns,
                                      (uint64_t)m->rows, m->row_step));
    if (batch == 1)
        return PLM_OK;
    LT_TRY(lt, "a batch",
           cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                            sizeof batch));
    LT_TRY(lt, "a batch",
           cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                            &m->batch_step, sizeof m->batch_step));
    return PLM_OK;
}

/* The largest power of two up to 256 that divides an address and every step from it, in bytes. */
static uint32_t alignment_of(const void *data, int64_t batch_step_bytes, const int64_t steps[2])
{
    uintptr_t all = (uintptr_t)data | (uintptr_t)batch_step_bytes | (uintptr_t)steps[0] |
                    (uintptr_t)steps[1] | WORKSPACE_ALIGNMENT;
    return (uint32_t)(all & (~all + 1));
}

static plm_status choose_algorithm(const plm_cuda_products *lt, product *p, size_t room,
                                   const uint32_t alignments[3])
{
    cublasLtMatmulPreference_t wish;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; /* parts add up in fp32, in order */
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t bytes;
    } wishes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignments[0], sizeof *alignments},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignments[1], sizeof *alignments},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &alignments[2], sizeof *alignments},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignments[2], sizeof *alignments},
    };
    LT_TRY(lt, "preferences", cublasLtMatmulPreferenceCreate(&wish));
    cublasStatus_t result = CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; result == CUBLAS_STATUS_SUCCESS && i < sizeof wishes / sizeof *wishes; i++)
        result = lt->cublasLtMatmulPreferenceSetAttribute(wish, wishes[i].name, wishes[i].value,
                                                          wishes[i].bytes);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = lt->cublasLtMatmulAlgoGetHeuristic(lt->handle, p->work, p->a, p->b, p->out, p->out,
                                                    wish, 1, &found, &count);
    lt->cublasLtMatmulPreferenceDestroy(wish);
    PLM_FAIL_IF(result != CUBLAS_STATUS_SUCCESS || count == 0, PLM_ERROR_UNSUPPORTED,
                "cuBLASLt has no algorithm for a product within %zu bytes of workspace", room);
    p->algorithm = found.algo;
    return PLM_OK;
}

/* Makes a product ready: out = alpha a b, with a bias of out's columns where there is one. */
static plm_status make_product(plm_cuda *cuda, const plm_launch *launch, product *p,
                               const matrix *a, const matrix *b, const matrix *out, int32_t batch,
                               const void *bias)
{
    const plm_cuda_products *lt = cuda->products;
    cublasOperation_t op_a = b->is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t op_b = a->is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    p->a_data = b->data; /* as cuBLASLt calls them from here on */
    p->b_data = a->data;
    p->out_data = out->data;
    LT_TRY(lt, "a product", cublasLtMatmulDescCreate(&p->work, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    LT_TRY(
        lt, "a product",
        cublasLtMatmulDescSetAttribute(p->work, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a));
    LT_TRY(
        lt, "a product",
        cublasLtMatmulDescSetAttribute(p->work, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b));
    if (bias) {
        cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
        LT_TRY(lt, "a bias",
               cublasLtMatmulDescSetAttribute(p->work, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                              sizeof epilogue));
        LT_TRY(lt, "a bias",
               cublasLtMatmulDescSetAttribute(p->work, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                              sizeof bias));
    }
    PLM_TRY(make_layout(lt, b, batch, &p->a));
    PLM_TRY(make_layout(lt, a, batch, &p->b));
    PLM_TRY(make_layout(lt, out, batch, &p->out));
    size_t width = plm__dtype_size(a->dtype), out_width = plm__dtype_size(out->dtype);
    uint32_t alignments[3] = {
        alignment_of(p->a_data, b->batch_step * (int64_t)width, p->a_steps),
        alignment_of(p->b_data, a->batch_step * (int64_t)width, p->b_steps),
        alignment_of(p->out_data, out->batch_step * (int64_t)out_width, p->out_steps)};
    size_t room = launch->workspace_bytes;
    return choose_algorithm(lt, p, room > WORKSPACE_ALIGNMENT ? room - WORKSPACE_ALIGNMENT : 0,
                            alignments);
}

static plm_status run_product(plm_cuda *cuda, const plm_launch *launch, const product *p,
                              int64_t batch, int64_t group)
{
    const plm_cuda_products *lt = cuda->products;
    const char *a = p->a_data + batch * p->a_steps[0] + group * p->a_steps[1];
    const char *b = p->b_data + batch * p->b_steps[0] + group * p->b_steps[1];
    char *out = p->out_data + batch * p->out_steps[0] + group * p->out_steps[1];
    float beta = p->sums_groups && group > 0 ? 1.0f : p->beta;
    uintptr_t begin = (uintptr_t)launch->workspace, end = begin + launch->workspace_bytes;
    uintptr_t aligned = (begin + WORKSPACE_ALIGNMENT - 1) & ~(uintptr_t)(WORKSPACE_ALIGNMENT - 1);
    LT_TRY(lt, "a product",
           cublasLtMatmul(lt->handle, p->work, &p->alpha, a, p->a, b, p->b, &beta, out, p->out, out,
                          p->out, &p->algorithm, (void *)aligned, end > aligned ? end - aligned : 0,
                          (cudaStream_t)cuda->stream));
    return PLM_OK;
}

/* ---- the operations ---- */

static int64_t width_of(const plm_operand *x)
{
    return x->shape[x->rank - 1];
}

static int64_t rows_of(const plm_operand *x)
{
    int64_t rows = 1;
    for (int32_t i = 0; i + 1 < x->rank; i++)
        rows *= x->shape[i];
    return rows;
}

/* A tensor as rows of its last dimension. */
static matrix rows_matrix(const plm_operand *x, bool is_transposed)
{
    return (matrix){x->data, x->dtype, rows_of(x), width_of(x), width_of(x), 0, is_transposed};
}

static plm_status prepare_linear(plm_cuda *cuda, const plm_launch *l, prepared_products *made)
{
    bool is_weight = l->kind == PLM_OP_LINEAR_GRAD_WEIGHT, is_forward = l->kind == PLM_OP_LINEAR;
    const plm_operand *result = is_weight ? &l->effect[0] : &l->out[0];
    /* x, weight; dy, weight; dy, x */
    matrix a = rows_matrix(is_weight ? &l->in[1] : &l->in[0], is_weight);
    matrix b = rows_matrix(is_weight ? &l->in[0] : &l->in[1], is_forward);
    matrix out = rows_matrix(result, false);
    made->count = 1;
    made->of[0] = (product){.alpha = 1.0f,
                            .beta = is_weight && l->attr.accumulate ? 1.0f : 0.0f,
                            .batches = out.rows > 0 ? 1 : 0,
                            .groups = 1};
    return made->of[0].batches == 0 ? PLM_OK
                                    : make_product(cuda, l, &made->of[0], &a, &b, &out, 1,
                                                   is_forward ? l->in[2].data : NULL);
}

/* Heads of attention, and how packed, plain and square tensors are laid out. */
typedef struct heads {
    int64_t batch, length, query, shared, group, size; /* B, T, H, G, H / G, D */
    float scale;                                       /* 1 / sqrt(D) */
} heads;

static heads heads_of(const plm_launch *l, const plm_operand *qkv)
{
    int64_t query = l->attr.heads, shared = l->attr.key_heads;
    int64_t size = plm__head_size(&l->attr, qkv->shape[2]);
    return (heads){.batch = qkv->shape[0],
                   .length = qkv->shape[1],
                   .query = query,
                   .shared = shared,
                   .group = query / shared,
                   .size = size,
                   .scale = 1.0f / sqrtf((float)size)};
}

enum { QUERY, KEY, VALUE };

/* Part q, k or v of the packed tensor as a batch over the G shared heads, [T,D] each. */
static matrix packed_part(const heads *h, const plm_operand *qkv, int part, bool is_transposed)
{
    int64_t width = (h->query + 2 * h->shared) * h->size;
    int64_t first = part == QUERY ? 0 : h->query + (part - 1) * h->shared;
    char *data = (char *)qkv->data + (size_t)(first * h->size) * plm__dtype_size(qkv->dtype);
    int64_t step = part == QUERY ? h->group * h->size : h->size;
    return (matrix){data, qkv->dtype, h->length, h->size, width, step, is_transposed};
}

/* dout or out, [B,T,HD]: likewise over the first query head of each group. */
static matrix plain_part(const heads *h, const plm_operand *x, bool is_transposed)
{
    return (matrix){x->data,      x->dtype,           h->length,
                    h->size,      h->query * h->size, h->group * h->size,
                    is_transposed};
}

/* scores, probabilities and their gradients, [B,H,T,T] */
static matrix square_part(const heads *h, const plm_operand *x, bool is_transposed)
{
    return (matrix){x->data,      x->dtype,  h->length,
                    h->length,    h->length, h->group * h->length * h->length,
                    is_transposed};
}

/* Bytes from one sequence to the next, and from one query head of a group to the next. */
static void steps_of(const heads *h, const matrix *m, bool is_square, bool is_shared,
                     int64_t steps[2])
{
    int64_t width = (int64_t)plm__dtype_size(m->dtype), square = h->length * h->length;
    steps[0] = width * (is_square ? h->query * square : h->length * m->row_step);
    steps[1] = is_shared ? 0 : width * (is_square ? square : h->size);
}

/* What each matrix of a product is: its part of attention. */
typedef struct part {
    matrix m;
    bool is_square, is_shared;
} part;

static plm_status prepare_heads(plm_cuda *cuda, const plm_launch *l, const heads *h, product *p,
                                part a, part b, part out, float alpha, bool sums_groups)
{
    *p = (product){
        .alpha = alpha, .batches = h->batch, .groups = h->group, .sums_groups = sums_groups};
    steps_of(h, &b.m, b.is_square, b.is_shared, p->a_steps);
    steps_of(h, &a.m, a.is_square, a.is_shared, p->b_steps);
    steps_of(h, &out.m, out.is_square, out.is_shared, p->out_steps);
    return make_product(cuda, l, p, &a.m, &b.m, &out.m, (int32_t)h->shared, NULL);
}

static plm_status prepare_attention(plm_cuda *cuda, const plm_launch *l, prepared_products *made)
{
    const plm_operand *in = l->in, *out = &l->out[0];
    const plm_operand *qkv = &in[l->kind == PLM_OP_ATTENTION_SCORES ? 0 : 1];
    heads h = heads_of(l, qkv);
    part q = {packed_part(&h, qkv, QUERY, false), false, false};
    part k = {packed_part(&h, qkv, KEY, false), false, true};
    part v = {packed_part(&h, qkv, VALUE, false), false, true};
    part k_t = k, v_t = v;
    k_t.m.is_transposed = v_t.m.is_transposed = true;
    made->count = 1;
    switch (l->kind) {
    case PLM_OP_ATTENTION_SCORES: /* q k^T scale */
        return prepare_heads(cuda, l, &h, &made->of[0], q, k_t,
                             (part){square_part(&h, out, false), true, false}, h.scale, false);
    case PLM_OP_ATTENTION_APPLY: /* P v */
        return prepare_heads(cuda, l, &h, &made->of[0],
                             (part){square_part(&h, &in[0], false), true, false}, v,
                             (part){plain_part(&h, out, false), false, false}, 1.0f, false);
    case PLM_OP_ATTENTION_GRAD_PROBS: /* dout v^T */
        return prepare_heads(cuda, l, &h, &made->of[0],
                             (part){plain_part(&h, &in[0], false), false, false}, v_t,
                             (part){square_part(&h, out, false), true, false}, 1.0f, false);
    default:
        break;
    }
    part dout = {plain_part(&h, &in[0], false), false, false};
    part probs_t = {square_part(&h, &in[2], true), true, false};
    part dscores = {square_part(&h, &in[3], false), true, false}, dscores_t = dscores;
    part dq = {packed_part(&h, out, QUERY, false), false, false};
    part dk = {packed_part(&h, out, KEY, false), false, true};
    part dv = {packed_part(&h, out, VALUE, false), false, true};
    dscores_t.m.is_transposed = true;
    made->count = 3;
    PLM_TRY(prepare_heads(cuda, l, &h, &made->of[0], dscores, k, dq, h.scale, false));
    PLM_TRY(prepare_heads(cuda, l, &h, &made->of[1], dscores_t, q, dk, h.scale, true));
    return prepare_heads(cuda, l, &h, &made->of[2], probs_t, dout, dv, 1.0f, true);
}

void plm__cuda_products_forget(plm_cuda *cuda, void *prepared)
{
    const plm_cuda_products *lt = cuda->products;
    prepared_products *made = prepared;
    for (int i = 0; made && i < made->count; i++) {
        product *p = &made->of[i];
        if (p->work)
            lt->cublasLtMatmulDescDestroy(p->work);
        if (p->a)
            lt->cublasLtMatrixLayoutDestroy(p->a);
        if (p->b)
            lt->cublasLtMatrixLayoutDestroy(p->b);
        if (p->out)
            lt->cublasLtMatrixLayoutDestroy(p->out);
    }
    plm__host_free(made);
}

static bool is_linear(plm_op_kind kind)
{
    return kind == PLM_OP_LINEAR || kind == PLM_OP_LINEAR_GRAD_INPUT ||
           kind == PLM_OP_LINEAR_GRAD_WEIGHT;
}

plm_status plm__cuda_products_prepare(plm_cuda *cuda, const plm_launch *launch, void **prepared)
{
    prepared_products *made = NULL;
    PLM_TRY(plm__host_alloc(sizeof *made, &made));
    made->head.forget = plm__cuda_products_forget;
    plm_status status = is_linear(launch->kind) ? prepare_linear(cuda, launch, made)
                                                : prepare_attention(cuda, launch, made);
    if (status != PLM_OK) {
        plm__cuda_products_forget(cuda, made);
        return status;
    }
    *prepared = made;
    return PLM_OK;
}

/* Entries of the future are -inf among scores, 0 among gradients of probabilities. */
static plm_status mask(plm_cuda *cuda, const plm_launch *l)
{
    bool is_scores = l->kind == PLM_OP_ATTENTION_SCORES;
    const plm_operand *out = &l->out[0];
    if (!l->attr.causal || (!is_scores && l->kind != PLM_OP_ATTENTION_GRAD_PROBS))
        return PLM_OK;
    return plm__cuda_mask_future(cuda, out->data, out->dtype, rows_of(out), (int32_t)width_of(out),
                                 is_scores ? -INFINITY : 0.0f);
}

plm_status plm__cuda_products_launch(plm_cuda *cuda, const plm_launch *launch, void *prepared)
{
    const prepared_products *made = prepared;
    for (int i = 0; i < made->count; i++)
        for (int64_t b = 0; b < made->of[i].batches; b++)
            for (int64_t g = 0; g < made->of[i].groups; g++)
                PLM_TRY(run_product(cuda, launch, &made->of[i], b, g));
    return mask(cuda, launch);
}
