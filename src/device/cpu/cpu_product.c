/* SPDX-License-Identifier: MIT */
/*
 * Matrix products through oneDNN's matmul primitive. The library is given its scratchpad, so that
 * it is planned like everything else; a table keeps its size for each product, because the planner
 * asks often and describing a product takes some 60 us. A prepared product has its primitive and
 * its operands bound, so a launch only executes.
 *
 * One kind of product is helped. Where the library reads b as it lies and a row of b is a multiple
 * of a page, the rows meet in the same few sets of the second-level cache, and the product runs at
 * half its rate (3072 columns: the gradients of GPT-2's "mlp.down"). There b is first copied into
 * the layout that the library likes best, in the workspace; it costs a twentieth of the product.
 *
 * 16-bit products are the library's where it has instructions that pay: bf16 with AMX, or with
 * AVX-512's bf16 on processors before those that have AVX-512's fp16 too. These run bf16 at half
 * the rate of fp32 when AMX is hidden from them (43 ms where fp32 takes 25 and converted blocks 29,
 * 1024 x 768 x 2304). All others are made in fp32 of converted blocks, by kernel/product.c.
 *
 * An implementation that takes no scratchpad but allocates by itself (gemm:jit, on machines without
 * AVX-512) is charged as overhead. Which kind this machine has is seen from a first small product;
 * a product that would be of the other kind is refused.
 */
#include <omp.h>
#include <string.h>

#include "base/size.h"
#include "device/cpu/cpu_internal.h"
#include "device/cpu/dnnl_face.h"

enum {
    SIZES_MAX = 2048,               /* products whose scratchpad size is kept; a power of two */
    SIZES_FULL = SIZES_MAX / 4 * 3, /* then the table starts afresh */
    PROBE = 64,                     /* extents of the first product */
    LIBRARY_THREAD_BYTES = 1572864, /* bound on what gemm:jit takes a thread: 1.49 MB measured */
    EXTENT_MAX = INT32_MAX,         /* beyond, the library divides by an extent that became 0 */
    PAGE_FLOATS = 1024,             /* rows of b that are a multiple of this meet in the cache */
    PACKED_M_MIN = 128,             /* fewer rows of c do not pay for the copy */
    PACKED_K_MIN = 256              /* fewer rows of b fit in the cache all the same */
};

/* A product's place in the table, free while m is 0. */
typedef struct known_size {
    plm_product product;
    size_t bytes;
} known_size;

struct plm_products {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    int32_t threads;
    bool self_allocating; /* the library's products take memory of their own */
    bool has_bf16;        /* the processor multiplies bf16 */
    bool use_bf16;        /* and is asked to */
    int32_t known_count;
    known_size known[SIZES_MAX];
};

enum { ARGUMENTS_MAX = 5 };

/* The library's plans for a product; without packed_b there is no packing. */
typedef struct descriptors {
    dnnl_primitive_desc_t product, packing;
} descriptors;

typedef struct bound_primitive {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arguments[ARGUMENTS_MAX];
    int count;
} bound_primitive;

typedef struct prepared_product {
    bound_primitive packing; /* runs first, if it is there */
    bound_primitive product;
} prepared_product;

/* A product with its operands. */
typedef struct job {
    plm_product product;
    void *a, *b, *bias, *c;
} job;

/* The library's instruction sets are bits, one an extension. */
static bool library_has(int isa)
{
    return ((int)dnnl_get_effective_cpu_isa() & isa) == isa;
}

bool plm__products_have(const plm_products *products, plm_dtype dtype)
{
    return dtype == PLM_DTYPE_F32 || (dtype == PLM_DTYPE_BF16 && products->has_bf16);
}

void plm__products_use_silicon(plm_products *products, bool wanted)
{
    products->use_bf16 = wanted && products->has_bf16;
}

bool plm__products_run(plm_op_kind kind)
{
    return plm__op_info_of(kind)->flops.by == PLM_FLOPS_PRODUCT;
}

/* out[R,N] = x[R,K] weight[N,K]^T + bias[N] */
static job linear(const plm_launch *launch)
{
    const plm_operand *x = &launch->in[0], *bias = &launch->in[2];
    return (job){
        .product = {.m = plm__operand_rows(x),
                    .n = launch->in[1].shape[0],
                    .k = plm__operand_width(x),
                    .turned_b = true,
                    .bias = !plm__operand_is_absent(bias),
                    .type = x->dtype,
                    .result = launch->out[0].dtype},
        .a = x->data,
        .b = launch->in[1].data,
        .bias = bias->data,
        .c = launch->out[0].data,
    };
}

/* dx[R,K] = dy[R,N] weight[N,K] */
static job grad_input(const plm_launch *launch)
{
    const plm_operand *dy = &launch->in[0], *weight = &launch->in[1];
    return (job){
        .product = {.m = plm__operand_rows(dy),
                    .n = weight->shape[1],
                    .k = weight->shape[0],
                    .type = dy->dtype,
                    .result = launch->out[0].dtype},
        .a = dy->data,
        .b = weight->data,
        .c = launch->out[0].data,
    };
}

/* dweight[N,K] (+)= dy[R,N]^T x[R,K] */
static job grad_weight(const plm_launch *launch)
{
    const plm_operand *x = &launch->in[0], *dy = &launch->in[1];
    return (job){
        .product = {.m = plm__operand_width(dy),
                    .n = plm__operand_width(x),
                    .k = plm__operand_rows(x),
                    .turned_a = true,
                    .add = launch->attr.accumulate,
                    .type = x->dtype,
                    .result = launch->effect[0].dtype},
        .a = dy->data,
        .b = x->data,
        .c = launch->effect[0].data,
    };
}

/* Whether the library reads b as it lies and its rows meet in the cache. When the columns are a
 * power of two the library makes a copy by itself. */
static bool wants_packing(const plm_product *p)
{
    return p->type == PLM_DTYPE_F32 && !p->turned_b && p->n % PAGE_FLOATS == 0 &&
           (p->n & (p->n - 1)) != 0 && p->m >= PACKED_M_MIN && p->k >= PACKED_K_MIN;
}

static job job_of(const plm_products *products, const plm_launch *launch)
{
    job wanted = launch->kind == PLM_OP_LINEAR              ? linear(launch)
                 : launch->kind == PLM_OP_LINEAR_GRAD_INPUT ? grad_input(launch)
                                                            : grad_weight(launch);
    wanted.product.packed_b = !products->self_allocating && wants_packing(&wanted.product);
    return wanted;
}

bool plm__products_take(const plm_products *products, const plm_launch *launch)
{
    if (!plm__products_run(launch->kind))
        return false;
    job wanted = job_of(products, launch);
    const plm_product *p = &wanted.product;
    bool fp32_in = p->type == PLM_DTYPE_F32, fp32_out = p->result == PLM_DTYPE_F32;
    bool types = fp32_in ? fp32_out : p->type == PLM_DTYPE_BF16 && products->use_bf16;
    return types && p->m > 0 && p->n > 0 && p->k > 0;
}

static plm_status library_failed(dnnl_status_t code, const plm_product *p)
{
    plm_status status = code == dnnl_out_of_memory ? PLM_ERROR_HOST_MEMORY : PLM_ERROR_DEVICE;
    return plm_fail(status, "the product library failed with code %d on %lld x %lld x %lld",
                    (int)code, (long long)p->m, (long long)p->n, (long long)p->k);
}

#define TRY_LIBRARY(expression, product)                                                           \
    do {                                                                                           \
        dnnl_status_t code_ = (expression);                                                        \
        if (code_ != dnnl_success)                                                                 \
            return library_failed(code_, product);                                                 \
    } while (0)

/* Descriptors and runs take the thread count from OpenMP's setting of the calling thread. */
static int use_threads(int32_t threads)
{
    int before = omp_get_max_threads();
    if (before != threads)
        omp_set_num_threads(threads);
    return before;
}

static void forget_descriptors(descriptors *d)
{
    if (d->packing)
        dnnl_primitive_desc_destroy(d->packing);
    if (d->product)
        dnnl_primitive_desc_destroy(d->product);
}

static plm_status describe(const plm_products *products, const plm_product *product,
                           descriptors *out)
{
    descriptors d = {0};
    int before = use_threads(products->threads);
    dnnl_status_t code = plm__dnnl_describe(products->engine, product, &d.product);
    if (code == dnnl_success && product->packed_b)
        code = plm__dnnl_describe_packing(products->engine, product, d.product, &d.packing);
    use_threads(before);
    if (code != dnnl_success)
        forget_descriptors(&d);
    TRY_LIBRARY(code, product);
    *out = d;
    return PLM_OK;
}

static size_t size_in(dnnl_primitive_desc_t descriptor, dnnl_query_t what)
{
    return dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(descriptor, what, 0));
}

/* The packed b stands at the front of the workspace. */
static size_t packed_bytes(const descriptors *d)
{
    return d->packing ? plm__granules(size_in(d->product, dnnl_query_weights_md)) : 0;
}

/* Behind it the scratchpad of both, which run one after the other. */
static size_t scratch_bytes(const descriptors *d)
{
    size_t product = size_in(d->product, dnnl_query_scratchpad_md);
    size_t packing = d->packing ? size_in(d->packing, dnnl_query_scratchpad_md) : 0;
    return product > packing ? product : packing;
}

/* The blocked kernels (brg:...) take all their memory from the scratchpad. */
static bool allocates_itself(dnnl_primitive_desc_t descriptor)
{
    const char *implementation = "";
    dnnl_primitive_desc_query(descriptor, dnnl_query_impl_info_str, 0, &implementation);
    return strncmp(implementation, "brg", 3) != 0;
}

static uint64_t hash_of(const plm_product *p)
{
    uint64_t flags = (uint64_t)p->turned_a | (uint64_t)p->turned_b << 1 | (uint64_t)p->bias << 2 |
                     (uint64_t)p->add << 3 | (uint64_t)p->packed_b << 4 | (uint64_t)p->type << 5 |
                     (uint64_t)p->result << 7;
    uint64_t hash = (uint64_t)p->m * 0x9E3779B97F4A7C15u;
    hash = (hash ^ (uint64_t)p->n) * 0xC2B2AE3D27D4EB4Fu;
    hash = (hash ^ (uint64_t)p->k ^ flags << 48) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

static bool same_product(const plm_product *p, const plm_product *q)
{
    return p->m == q->m && p->n == q->n && p->k == q->k && p->turned_a == q->turned_a &&
           p->turned_b == q->turned_b && p->bias == q->bias && p->add == q->add &&
           p->packed_b == q->packed_b && p->type == q->type && p->result == q->result;
}

/* The product's place, or the free one where it belongs. */
static known_size *find_known(plm_products *products, const plm_product *product)
{
    uint64_t at = hash_of(product) & (SIZES_MAX - 1);
    while (products->known[at].product.m && !same_product(&products->known[at].product, product))
        at = (at + 1) & (SIZES_MAX - 1);
    return &products->known[at];
}

static plm_status learn_size(plm_products *products, const plm_product *product, size_t *bytes)
{
    descriptors d;
    PLM_FAIL_IF(product->m > EXTENT_MAX || product->n > EXTENT_MAX || product->k > EXTENT_MAX,
                PLM_ERROR_OVERFLOW,
                "a product of %lld x %lld x %lld is beyond what the library multiplies; use a "
                "smaller micro-batch or sequence",
                (long long)product->m, (long long)product->n, (long long)product->k);
    PLM_TRY(describe(products, product, &d));
    bool self_allocating = allocates_itself(d.product);
    size_t wanted = packed_bytes(&d) + scratch_bytes(&d);
    forget_descriptors(&d);
    PLM_FAIL_IF(self_allocating && !products->self_allocating, PLM_ERROR_UNSUPPORTED,
                "the product library would take memory of its own for %lld x %lld x %lld",
                (long long)product->m, (long long)product->n, (long long)product->k);
    if (products->known_count == SIZES_FULL) {
        memset(products->known, 0, sizeof products->known);
        products->known_count = 0;
    }
    *find_known(products, product) = (known_size){.product = *product, .bytes = wanted};
    products->known_count++;
    *bytes = wanted;
    return PLM_OK;
}

static plm_status size_of(plm_products *products, const plm_product *product, size_t *bytes)
{
    const known_size *known = find_known(products, product);
    if (!known->product.m)
        return learn_size(products, product, bytes);
    *bytes = known->bytes;
    return PLM_OK;
}

plm_status plm__products_workspace(plm_products *products, const plm_launch *launch, size_t *bytes)
{
    job wanted = job_of(products, launch);
    return size_of(products, &wanted.product, bytes);
}

/* Binds one operand, whose description stands in the primitive's; an earlier failure stays. */
static void bind(bound_primitive *bound, dnnl_engine_t engine, dnnl_primitive_desc_t descriptor,
                 dnnl_query_t what, int query_index, int argument, void *data, dnnl_status_t *code)
{
    dnnl_exec_arg_t *slot = &bound->arguments[bound->count];
    if (*code != dnnl_success)
        return;
    *code = dnnl_memory_create(
        &slot->memory, dnnl_primitive_desc_query_md(descriptor, what, query_index), engine, data);
    if (*code == dnnl_success) {
        slot->arg = argument;
        bound->count++;
    }
}

static dnnl_status_t bind_product(dnnl_engine_t engine, const job *wanted, void *scratch,
                                  dnnl_primitive_desc_t d, bound_primitive *bound)
{
    dnnl_status_t code = dnnl_primitive_create(&bound->primitive, d);
    bind(bound, engine, d, dnnl_query_src_md, 0, DNNL_ARG_SRC, wanted->a, &code);
    bind(bound, engine, d, dnnl_query_weights_md, 0, DNNL_ARG_WEIGHTS, wanted->b, &code);
    bind(bound, engine, d, dnnl_query_dst_md, 0, DNNL_ARG_DST, wanted->c, &code);
    if (wanted->product.bias)
        bind(bound, engine, d, dnnl_query_weights_md, 1, DNNL_ARG_BIAS, wanted->bias, &code);
    if (scratch)
        bind(bound, engine, d, dnnl_query_scratchpad_md, 0, DNNL_ARG_SCRATCHPAD, scratch, &code);
    return code;
}

static dnnl_status_t bind_packing(dnnl_engine_t engine, void *from, void *to, void *scratch,
                                  dnnl_primitive_desc_t d, bound_primitive *bound)
{
    dnnl_status_t code = dnnl_primitive_create(&bound->primitive, d);
    bind(bound, engine, d, dnnl_query_src_md, 0, DNNL_ARG_FROM, from, &code);
    bind(bound, engine, d, dnnl_query_dst_md, 0, DNNL_ARG_TO, to, &code);
    if (scratch)
        bind(bound, engine, d, dnnl_query_scratchpad_md, 0, DNNL_ARG_SCRATCHPAD, scratch, &code);
    return code;
}

static plm_status bind_all(const plm_products *products, const job *wanted, void *workspace,
                           const descriptors *d, prepared_product *prepared)
{
    job packed = *wanted;
    dnnl_status_t code = dnnl_success;
    void *scratch = scratch_bytes(d) > 0 ? (char *)workspace + packed_bytes(d) : NULL;
    if (d->packing) {
        packed.b = workspace;
        code = bind_packing(products->engine, wanted->b, packed.b, scratch, d->packing,
                            &prepared->packing);
    }
    if (code == dnnl_success)
        code = bind_product(products->engine, &packed, scratch, d->product, &prepared->product);
    TRY_LIBRARY(code, &wanted->product);
    return PLM_OK;
}

static plm_status prepare(plm_products *products, const job *wanted, void *workspace,
                          size_t workspace_bytes, void **out)
{
    prepared_product *prepared = NULL;
    descriptors d = {0};
    size_t bytes;
    PLM_TRY(size_of(products, &wanted->product, &bytes));
    PLM_FAIL_IF(workspace_bytes < bytes || (bytes > 0 && !workspace), PLM_ERROR_ARGUMENT,
                "a product wants %zu bytes of workspace, found %zu", bytes, workspace_bytes);
    PLM_TRY(plm__host_alloc(sizeof *prepared, &prepared));
    plm_status status = describe(products, &wanted->product, &d);
    int before = use_threads(products->threads);
    if (status == PLM_OK)
        status = bind_all(products, wanted, workspace, &d, prepared);
    use_threads(before);
    forget_descriptors(&d);
    return PLM_HAND_OVER(status, prepared, plm__products_forget, out);
}

plm_status plm__products_prepare(plm_products *products, const plm_launch *launch, void **prepared)
{
    job wanted = job_of(products, launch);
    return prepare(products, &wanted, launch->workspace, launch->workspace_bytes, prepared);
}

static void unbind(bound_primitive *bound)
{
    for (int i = 0; i < bound->count; i++)
        dnnl_memory_destroy(bound->arguments[i].memory);
    if (bound->primitive)
        dnnl_primitive_destroy(bound->primitive);
}

void plm__products_forget(void *opaque)
{
    prepared_product *prepared = opaque;
    if (!prepared)
        return;
    unbind(&prepared->packing);
    unbind(&prepared->product);
    plm__host_free(prepared);
}

static plm_status execute(const plm_products *products, const plm_product *product,
                          const prepared_product *prepared)
{
    const bound_primitive *first = &prepared->packing, *then = &prepared->product;
    dnnl_status_t code = dnnl_success;
    int before = use_threads(products->threads);
    if (first->primitive)
        code = dnnl_primitive_execute(first->primitive, products->stream, first->count,
                                      first->arguments);
    if (code == dnnl_success)
        code =
            dnnl_primitive_execute(then->primitive, products->stream, then->count, then->arguments);
    if (code == dnnl_success)
        code = dnnl_stream_wait(products->stream);
    use_threads(before);
    TRY_LIBRARY(code, product);
    return PLM_OK;
}

plm_status plm__products_launch(plm_products *products, const plm_launch *launch, void *prepared)
{
    job wanted = job_of(products, launch);
    PLM_BUG_IF(!prepared, "a product was launched without being prepared");
    return execute(products, &wanted.product, prepared);
}

/* Describes and runs the first product, in `memory` that holds its operands and scratchpad. */
static plm_status run_probe(plm_products *products, const plm_product *product, size_t bytes,
                            float *memory)
{
    int64_t each = (int64_t)PROBE * PROBE;
    job wanted = {.product = *product, .a = memory, .b = memory + each, .c = memory + 2 * each};
    void *prepared = NULL;
    PLM_TRY(prepare(products, &wanted, memory + 3 * each, bytes, &prepared));
    plm_status status = execute(products, product, prepared);
    plm__products_forget(prepared);
    return status;
}

static plm_status probe(plm_products *products)
{
    plm_product product = {.m = PROBE, .n = PROBE, .k = PROBE, .turned_b = true};
    descriptors d;
    PLM_TRY(describe(products, &product, &d));
    products->self_allocating = allocates_itself(d.product);
    forget_descriptors(&d);
    size_t bytes;
    float *memory = NULL;
    PLM_TRY(size_of(products, &product, &bytes));
    PLM_TRY(plm__host_alloc(3 * sizeof(float) * PROBE * PROBE + bytes, &memory));
    plm_status status = run_probe(products, &product, bytes, memory);
    plm__host_free(memory);
    return status;
}

plm_status plm__products_create(int32_t threads, plm_products **out)
{
    plm_products *products = NULL;
    PLM_TRY(plm__host_alloc(sizeof *products, &products));
    products->threads = threads;
    products->has_bf16 = library_has(dnnl_cpu_isa_avx512_core_bf16);
    products->use_bf16 =
        products->has_bf16 && (library_has(dnnl_cpu_isa_avx512_core_amx) || !plm__cpu_has_fp16());
    dnnl_status_t code = dnnl_engine_create(&products->engine, dnnl_cpu, 0);
    if (code == dnnl_success)
        code = dnnl_stream_create(&products->stream, products->engine, dnnl_stream_default_flags);
    plm_status status =
        code == dnnl_success
            ? probe(products)
            : plm_fail(PLM_ERROR_DEVICE, "the product library did not start: code %d", (int)code);
    return PLM_HAND_OVER(status, products, plm__products_destroy, out);
}

void plm__products_destroy(plm_products *products)
{
    if (!products)
        return;
    if (products->stream)
        dnnl_stream_destroy(products->stream);
    if (products->engine)
        dnnl_engine_destroy(products->engine);
    plm__host_free(products);
}

size_t plm__products_overhead_bytes(const plm_products *products)
{
    return products->self_allocating ? (size_t)products->threads * LIBRARY_THREAD_BYTES : 0;
}
