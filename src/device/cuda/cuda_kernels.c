/* SPDX-License-Identifier: MIT */
/*
 * Our own kernels: their module is loaded whole when the device is opened, so that no first use
 * takes memory later, and each operation of kernels.def has its launcher here. A launcher says how
 * many blocks of how many threads, and which operand is which parameter; the kernel's file says
 * what is reckoned.
 */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "device/cuda/cuda_fatbin.h"
#include "base/dtype.h"
#include "device/cuda/cuda_internal.h"
#include "device/target/cuda_workspace.h"

/* Kernels with a form for each type. */
#define TYPED_KERNELS(ROW)                                                                         \
    ROW(gelu)                                                                                      \
    ROW(gelu_exact)                                                                                \
    ROW(add)                                                                                       \
    ROW(gelu_grad)                                                                                 \
    ROW(gelu_exact_grad)                                                                           \
    ROW(cast)                                                                                      \
    ROW(layer_norm)                                                                                \
    ROW(layer_norm_grad_input)                                                                     \
    ROW(norm_parts)                                                                                \
    ROW(bias_parts)                                                                                \
    ROW(join_parts)                                                                                \
    ROW(softmax)                                                                                   \
    ROW(softmax_grad)                                                                              \
    ROW(mask_future)                                                                               \
    ROW(cross_entropy)                                                                             \
    ROW(cross_entropy_grad)                                                                        \
    ROW(embedding)                                                                                 \
    ROW(position)                                                                                  \
    ROW(select_position)                                                                           \
    ROW(position_grad)                                                                             \
    ROW(embedding_grad)                                                                            \
    ROW(squares)                                                                                   \
    ROW(adamw)                                                                                     \
    ROW(sgd)                                                                                       \
    ROW(dropout)                                                                                   \
    ROW(attention)                                                                                 \
    ROW(attention_delta)                                                                           \
    ROW(attention_grad_q)                                                                          \
    ROW(attention_grad_kv)
/* Kernels of one form, and the forms of two types. */
#define SINGLE_KERNELS(ROW)                                                                        \
    ROW(loss_sum)                                                                                  \
    ROW(sort_count)                                                                                \
    ROW(sort_scan)                                                                                 \
    ROW(sort_move)                                                                                 \
    ROW(gradient_norm)                                                                             \
    ROW(gradient_part)                                                                             \
    ROW(init_normal)                                                                               \
    ROW(init_constant)                                                                             \
    ROW(position_grad_bf16_bf16)                                                                   \
    ROW(position_grad_fp16_bf16)                                                                   \
    ROW(embedding_grad_bf16_bf16)                                                                  \
    ROW(embedding_grad_fp16_bf16)

enum { TYPES = 3 };

typedef enum kernel_name {
#define ROW(name) K_##name, K_##name##_bf16, K_##name##_fp16,
    TYPED_KERNELS(ROW)
#undef ROW
#define ROW(name) K_##name,
        SINGLE_KERNELS(ROW)
#undef ROW
            KERNEL_COUNT
} kernel_name;

static const char *const kernel_names[KERNEL_COUNT] = {
#define ROW(name) #name "_fp32", #name "_bf16", #name "_fp16",
    TYPED_KERNELS(ROW)
#undef ROW
#define ROW(name) #name,
        SINGLE_KERNELS(ROW)
#undef ROW
};

struct plm_cuda_kernels {
    CUmodule module;
    CUfunction functions[KERNEL_COUNT];
};

enum { THREADS = 256, WARP = 32, WARPS = THREADS / WARP };

plm_status plm__cuda_kernels_load(plm_cuda *cuda)
{
    PLM_TRY(plm__host_alloc(sizeof *cuda->kernels, &cuda->kernels));
    PLM_CUDA_TRY(cuda, cuModuleLoadData(&cuda->kernels->module, plm__cuda_kernels_fatbin));
    for (int i = 0; i < KERNEL_COUNT; i++) {
        CUfunction *function = &cuda->kernels->functions[i];
        int registers; /* asked for, so that the driver loads the kernel now */
        PLM_CUDA_TRY(cuda, cuModuleGetFunction(function, cuda->kernels->module, kernel_names[i]));
        PLM_CUDA_TRY(cuda, cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, *function));
    }
    return PLM_OK;
}

void plm__cuda_kernels_unload(plm_cuda *cuda)
{
    if (cuda->kernels && cuda->kernels->module)
        cuda->driver.cuModuleUnload(cuda->kernels->module);
    plm__host_free(cuda->kernels);
}

/* ---- shapes ---- */

static int64_t count_of(const plm_operand *operand)
{
    int64_t count = operand->rank > 0;
    for (int32_t i = 0; i < operand->rank; i++)
        count *= operand->shape[i];
    return count;
}

static int32_t width_of(const plm_operand *operand)
{
    return (int32_t)operand->shape[operand->rank - 1];
}

static int64_t rows_of(const plm_operand *operand)
{
    int32_t width = width_of(operand);
    return width > 0 ? count_of(operand) / width : 0;
}

static int64_t parts_of(int64_t count, int64_t part)
{
    return count / part + (count % part != 0);
}

static kernel_name typed(kernel_name name, plm_dtype dtype)
{
    return name + (dtype == PLM_DTYPE_BF16 ? 1 : dtype == PLM_DTYPE_F16 ? 2 : 0);
}

/* The form for gradients in fp32, or that for gradients in bf16, of which `halves` is the first:
 * for activations in bf16; the next is for fp16. */
static kernel_name gradient_kernel(kernel_name plain, plm_dtype gradient, kernel_name halves)
{
    return gradient == PLM_DTYPE_F32 ? plain
                                     : halves + (strstr(kernel_names[plain], "_fp16") != NULL);
}

/* ---- launching ---- */

typedef struct grid {
    int64_t x, y, z;
    int32_t threads;
    int32_t shared_bytes;
} grid;

static plm_status run(plm_cuda *cuda, kernel_name name, grid size, void **parameters)
{
    if (size.x == 0 || size.y == 0 || size.z == 0)
        return PLM_OK; /* an empty tensor */
    PLM_CUDA_TRY(cuda,
                 cuLaunchKernel(cuda->kernels->functions[name], (unsigned)size.x, (unsigned)size.y,
                                (unsigned)size.z, (unsigned)size.threads, 1, 1,
                                (unsigned)size.shared_bytes, cuda->stream, parameters, NULL));
    return PLM_OK;
}

/* Parameters of a kernel, as the driver wants them: addresses of the values. */
#define GIVEN(...) ((void *[]){__VA_ARGS__})

/* Enough blocks to fill the device, no more than there is work for. */
static grid over_elements(const plm_cuda *cuda, int64_t count, int32_t each)
{
    int64_t blocks = parts_of(count, (int64_t)THREADS * each),
            most = (int64_t)cuda->processors * 16;
    return (grid){blocks < most ? blocks : most, 1, 1, THREADS, 0};
}

static grid a_warp_each(int64_t rows)
{
    return (grid){parts_of(rows, WARPS), 1, 1, THREADS, 0};
}

static grid a_block_each(int64_t rows, int32_t threads)
{
    return (grid){rows, 1, 1, threads, 0};
}

static const grid one_block = {1, 1, 1, 1024, 0};

typedef plm_status launcher(plm_cuda *cuda, const plm_launch *launch);

static plm_status run_one(plm_cuda *cuda, const plm_launch *l, kernel_name name)
{
    const plm_operand *x = &l->in[0], *out = &l->out[0];
    int64_t count = count_of(x);
    return run(cuda, typed(name, x->dtype), over_elements(cuda, count, 4),
               GIVEN((void *)&x->data, (void *)&out->data, &count));
}

static plm_status run_two(plm_cuda *cuda, const plm_launch *l, kernel_name name)
{
    const plm_operand *a = &l->in[0], *b = &l->in[1], *out = &l->out[0];
    int64_t count = count_of(a);
    return run(cuda, typed(name, a->dtype), over_elements(cuda, count, 4),
               GIVEN((void *)&a->data, (void *)&b->data, (void *)&out->data, &count));
}

static plm_status plm__cuda_launch_gelu(plm_cuda *cuda, const plm_launch *l)
{
    return run_one(cuda, l, K_gelu);
}

static plm_status plm__cuda_launch_gelu_exact(plm_cuda *cuda, const plm_launch *l)
{
    return run_one(cuda, l, K_gelu_exact);
}

static plm_status plm__cuda_launch_add(plm_cuda *cuda, const plm_launch *l)
{
    return run_two(cuda, l, K_add);
}

static plm_status plm__cuda_launch_gelu_grad(plm_cuda *cuda, const plm_launch *l)
{
    return run_two(cuda, l, K_gelu_grad);
}

static plm_status plm__cuda_launch_gelu_exact_grad(plm_cuda *cuda, const plm_launch *l)
{
    return run_two(cuda, l, K_gelu_exact_grad);
}

static plm_status plm__cuda_launch_cast(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *masters = &l->in[0], *weights = &l->effect[0];
    int64_t count = count_of(masters);
    return run(cuda, typed(K_cast, weights->dtype), over_elements(cuda, count, 1),
               GIVEN((void *)&masters->data, (void *)&weights->data, &count));
}

static plm_status plm__cuda_launch_embedding(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *ids = &l->in[0], *table = &l->in[1], *out = &l->out[0];
    int32_t width = width_of(out);
    return run(cuda, typed(K_embedding, out->dtype), a_block_each(count_of(ids), THREADS),
               GIVEN((void *)&ids->data, (void *)&table->data, (void *)&out->data, &width));
}

static plm_status plm__cuda_launch_position(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *x = &l->in[0], *table = &l->in[1], *out = &l->out[0];
    int64_t length = x->shape[1];
    int32_t width = width_of(x);
    return run(cuda, typed(K_position, x->dtype), a_block_each(rows_of(x), THREADS),
               GIVEN((void *)&x->data, (void *)&table->data, (void *)&out->data, &length, &width));
}

static plm_status plm__cuda_launch_position_grad(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *dy = &l->in[0], *table = &l->effect[0];
    int64_t batch = dy->shape[0], length = dy->shape[1];
    int32_t width = width_of(dy), accumulate = l->attr.accumulate;
    kernel_name name =
        gradient_kernel(typed(K_position_grad, dy->dtype), table->dtype, K_position_grad_bf16_bf16);
    return run(
        cuda, name, a_block_each(table->shape[0], THREADS),
        GIVEN((void *)&dy->data, (void *)&table->data, &batch, &length, &width, &accumulate));
}

static plm_status plm__cuda_launch_select(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *x = &l->in[0], *out = &l->out[0];
    int64_t length = x->shape[1];
    int32_t width = width_of(x);
    return run(cuda, typed(K_select_position, x->dtype), a_block_each(x->shape[0], THREADS),
               GIVEN((void *)&x->data, (void *)&out->data, &length, &width, (void *)&l->step));
}

static plm_status plm__cuda_launch_dropout(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *x = &l->in[0], *out = &l->out[0];
    int64_t count = count_of(x), sample = x->shape[1] * x->shape[2];
    uint32_t site = l->attr.site;
    float probability = l->attr.probability;
    return run(cuda, typed(K_dropout, x->dtype), over_elements(cuda, count + 4, 4),
               GIVEN((void *)&x->data, (void *)&out->data, &count, &sample, &site, &probability,
                     (void *)&l->step));
}

static plm_status plm__cuda_launch_layer_norm(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *x = &l->in[0];
    int64_t rows = rows_of(x);
    int32_t width = width_of(x);
    float epsilon = l->attr.epsilon;
    return run(cuda, typed(K_layer_norm, x->dtype), a_warp_each(rows),
               GIVEN((void *)&x->data, (void *)&l->in[1].data, (void *)&l->in[2].data,
                     (void *)&l->out[0].data, (void *)&l->out[1].data, (void *)&l->out[2].data,
                     &rows, &width, &epsilon));
}

static plm_status plm__cuda_launch_layer_norm_grad_input(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *dy = &l->in[0];
    int64_t rows = rows_of(dy);
    int32_t width = width_of(dy);
    return run(cuda, typed(K_layer_norm_grad_input, dy->dtype), a_warp_each(rows),
               GIVEN((void *)&dy->data, (void *)&l->in[1].data, (void *)&l->in[2].data,
                     (void *)&l->in[3].data, (void *)&l->in[4].data, (void *)&l->out[0].data, &rows,
                     &width));
}

/* effect = or += the parts' sums, the first at `parts`, `stride` elements from part to part */
static plm_status join(plm_cuda *cuda, const float *parts, int32_t count, int64_t stride,
                       const plm_operand *effect, bool adds)
{
    int32_t width = width_of(effect), accumulate = adds;
    return run(cuda, typed(K_join_parts, effect->dtype),
               (grid){parts_of(width, THREADS), 1, 1, THREADS, 0},
               GIVEN(&parts, &count, &stride, (void *)&effect->data, &width, &accumulate));
}

static plm_status plm__cuda_launch_layer_norm_grad_weight(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *dy = &l->in[0];
    int64_t rows = rows_of(dy);
    int32_t width = width_of(dy), parts = plm__cuda_row_parts(rows);
    float *sums = l->workspace;
    PLM_TRY(run(cuda, typed(K_norm_parts, dy->dtype),
                (grid){parts_of(width, THREADS), parts, 1, THREADS, 0},
                GIVEN((void *)&dy->data, (void *)&l->in[1].data, (void *)&l->in[2].data,
                      (void *)&l->in[3].data, &sums, &rows, &width)));
    PLM_TRY(join(cuda, sums, parts, 2 * (int64_t)width, &l->effect[0], l->attr.accumulate));
    return join(cuda, sums + width, parts, 2 * (int64_t)width, &l->effect[1], l->attr.accumulate);
}

static plm_status plm__cuda_launch_linear_grad_bias(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *dy = &l->in[0];
    int64_t rows = rows_of(dy);
    int32_t width = width_of(dy), parts = plm__cuda_row_parts(rows);
    float *sums = l->workspace;
    PLM_TRY(run(cuda, typed(K_bias_parts, dy->dtype),
                (grid){parts_of(width, THREADS), parts, 1, THREADS, 0},
                GIVEN((void *)&dy->data, &sums, &rows, &width)));
    return join(cuda, sums, parts, width, &l->effect[0], l->attr.accumulate);
}

static plm_status plm__cuda_launch_softmax(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *scores = &l->in[0];
    int64_t rows = rows_of(scores);
    int32_t width = width_of(scores);
    return run(cuda, typed(K_softmax, scores->dtype), a_warp_each(rows),
               GIVEN((void *)&scores->data, (void *)&l->out[0].data, &rows, &width));
}

static plm_status plm__cuda_launch_softmax_grad(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *dprobs = &l->in[0];
    int64_t rows = rows_of(dprobs);
    int32_t width = width_of(dprobs);
    return run(cuda, typed(K_softmax_grad, dprobs->dtype), a_warp_each(rows),
               GIVEN((void *)&dprobs->data, (void *)&l->in[1].data, (void *)&l->out[0].data, &rows,
                     &width));
}

plm_status plm__cuda_mask_future(plm_cuda *cuda, void *scores, plm_dtype dtype, int64_t rows,
                                 int32_t width, float value)
{
    return run(cuda, typed(K_mask_future, dtype), a_warp_each(rows),
               GIVEN(&scores, &rows, &width, &value));
}

static plm_status plm__cuda_launch_cross_entropy(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *logits = &l->in[0];
    int64_t width = width_of(logits);
    return run(cuda, typed(K_cross_entropy, logits->dtype), a_block_each(rows_of(logits), 512),
               GIVEN((void *)&logits->data, (void *)&l->in[1].data, (void *)&l->out[0].data,
                     (void *)&l->out[1].data, &width, (void *)&l->attr.columns));
}

static plm_status plm__cuda_launch_cross_entropy_grad(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *logits = &l->in[0];
    int64_t width = width_of(logits);
    return run(cuda, typed(K_cross_entropy_grad, logits->dtype), a_block_each(rows_of(logits), 512),
               GIVEN((void *)&logits->data, (void *)&l->in[1].data, (void *)&l->in[2].data,
                     (void *)&l->out[0].data, &width, (void *)&l->attr.columns, (void *)&l->step));
}

static plm_status plm__cuda_launch_loss_sum(plm_cuda *cuda, const plm_launch *l)
{
    int64_t rows = count_of(&l->in[0]);
    return run(cuda, K_loss_sum, one_block, GIVEN((void *)&l->in[0].data, &rows, (void *)&l->step));
}

/* ---- the embedding's gradient ---- */

/* The ids and their places, twice each, and the counts, as they lie in the workspace. */
static plm_status sort_ids(plm_cuda *cuda, const plm_launch *l, int64_t count, int32_t **ids,
                           int32_t **places)
{
    int64_t tiles = parts_of(count, PLM_CUDA_SORT_TILE), totals = tiles * PLM_CUDA_SORT_DIGITS;
    int32_t *room = l->workspace, *counts = room + 4 * count, *from = l->in[0].data;
    int32_t *from_places = NULL;
    for (int32_t shift = 0, turn = 0; shift == 0 || (l->effect[0].shape[0] - 1) >> shift > 0;
         shift += 8, turn = !turn) {
        int32_t *to = room + turn * 2 * count, *to_places = to + count;
        PLM_TRY(run(cuda, K_sort_count, a_block_each(tiles, PLM_CUDA_SORT_DIGITS),
                    GIVEN(&from, &count, &shift, &counts)));
        PLM_TRY(
            run(cuda, K_sort_scan, a_block_each(1, PLM_CUDA_SORT_DIGITS), GIVEN(&counts, &totals)));
        PLM_TRY(run(cuda, K_sort_move, a_block_each(tiles, WARP),
                    GIVEN(&from, &from_places, &count, &shift, &counts, &to, &to_places)));
        from = to;
        from_places = to_places;
    }
    *ids = from;
    *places = from_places;
    return PLM_OK;
}

static plm_status plm__cuda_launch_embedding_grad(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *dy = &l->in[1], *table = &l->effect[0];
    int64_t count = count_of(&l->in[0]);
    int32_t width = width_of(dy), *ids = NULL, *places = NULL;
    if (!l->attr.accumulate)
        PLM_CUDA_TRY(cuda, cuMemsetD8Async((CUdeviceptr)table->data, 0,
                                           (size_t)count_of(table) * plm__dtype_size(table->dtype),
                                           cuda->stream));
    if (count == 0)
        return PLM_OK;
    PLM_TRY(sort_ids(cuda, l, count, &ids, &places));
    kernel_name name = gradient_kernel(typed(K_embedding_grad, dy->dtype), table->dtype,
                                       K_embedding_grad_bf16_bf16);
    return run(cuda, name, a_block_each(count, THREADS),
               GIVEN(&ids, &places, (void *)&dy->data, (void *)&table->data, &count, &width));
}

/* ---- attention of our own ---- */

typedef struct attention_shape { /* as in kernel/attention.cu */
    int64_t length;
    int32_t heads, key_heads, size, causal;
    float scale;
} attention_shape;

enum { ATTENTION_ROWS = 32 };

static attention_shape shape_of(const plm_launch *l, const plm_operand *qkv)
{
    int32_t size = (int32_t)plm__head_size(&l->attr, qkv->shape[2]);
    return (attention_shape){.length = qkv->shape[1],
                             .heads = l->attr.heads,
                             .key_heads = l->attr.key_heads,
                             .size = size,
                             .causal = l->attr.causal,
                             .scale = 1.0f / sqrtf((float)size)};
}

/* `tiles` tiles of [32, D] floats and two of scores, and 96 floats beside. */
static int32_t shared_of(const attention_shape *s, int32_t tiles)
{
    return (int32_t)sizeof(float) *
           (tiles * ATTENTION_ROWS * (s->size + 1) + 2 * ATTENTION_ROWS * (ATTENTION_ROWS + 1) +
            3 * ATTENTION_ROWS);
}

static plm_status allow_shared(plm_cuda *cuda, kernel_name name, int32_t bytes)
{
    PLM_FAIL_IF(bytes > cuda->shared_bytes, PLM_ERROR_UNSUPPORTED,
                "attention with so large a head wants %d bytes of shared memory, the GPU has %d",
                bytes, cuda->shared_bytes);
    PLM_CUDA_TRY(cuda, cuFuncSetAttribute(cuda->kernels->functions[name],
                                          CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes));
    return PLM_OK;
}

static plm_status plm__cuda_launch_attention(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *qkv = &l->in[0];
    attention_shape s = shape_of(l, qkv);
    grid size = {parts_of(s.length, ATTENTION_ROWS), s.heads, qkv->shape[0], THREADS,
                 shared_of(&s, 3)};
    kernel_name name = typed(K_attention, qkv->dtype);
    PLM_TRY(allow_shared(cuda, name, size.shared_bytes));
    return run(cuda, name, size,
               GIVEN((void *)&qkv->data, (void *)&l->out[0].data, (void *)&l->out[1].data, &s));
}

static plm_status plm__cuda_launch_attention_grad(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *dout = &l->in[0], *qkv = &l->in[1];
    attention_shape s = shape_of(l, qkv);
    int64_t batch = qkv->shape[0], tiles = parts_of(s.length, ATTENTION_ROWS);
    int64_t count = batch * s.length * s.heads;
    float *delta = l->workspace;
    PLM_TRY(run(cuda, typed(K_attention_delta, qkv->dtype), a_warp_each(count),
                GIVEN((void *)&dout->data, (void *)&l->in[2].data, &delta, &count, &s)));
    const kernel_name names[] = {K_attention_grad_q, K_attention_grad_kv};
    for (int i = 0; i < 2; i++) {
        kernel_name name = typed(names[i], qkv->dtype);
        grid size = {tiles, i == 0 ? s.heads : s.key_heads, batch, THREADS, shared_of(&s, 4)};
        PLM_TRY(allow_shared(cuda, name, size.shared_bytes));
        PLM_TRY(run(cuda, name, size,
                    GIVEN((void *)&dout->data, (void *)&qkv->data, (void *)&l->in[3].data, &delta,
                          (void *)&l->out[0].data, &s)));
    }
    return PLM_OK;
}

/* ---- the update ---- */

/* The sums of squares of a tensor's chunks, from `sums` on; *sums moves behind them. */
static plm_status square_chunks(plm_cuda *cuda, const plm_operand *x, double **sums)
{
    int64_t count = count_of(x), chunks = parts_of(count, PLM_NORM_CHUNK);
    PLM_TRY(run(cuda, typed(K_squares, x->dtype), a_block_each(chunks, THREADS),
                GIVEN((void *)&x->data, &count, sums)));
    *sums += chunks;
    return PLM_OK;
}

static plm_status plm__cuda_launch_gradient_norm(plm_cuda *cuda, const plm_launch *l)
{
    double *sums = l->workspace, *end = sums;
    int32_t early = l->attr.early;
    for (int i = 0; i < PLM_OP_INPUTS_MAX; i++)
        if (l->in[i].rank > 0)
            PLM_TRY(square_chunks(cuda, &l->in[i], &end));
    int64_t count = end - sums;
    return run(cuda, K_gradient_norm, one_block, GIVEN(&sums, &count, &early, (void *)&l->step));
}

static plm_status plm__cuda_launch_gradient_part(plm_cuda *cuda, const plm_launch *l)
{
    double *sums = l->workspace, *end = sums;
    PLM_TRY(square_chunks(cuda, &l->in[0], &end));
    int64_t count = end - sums;
    return run(cuda, K_gradient_part, one_block, GIVEN(&sums, &count, (void *)&l->step));
}

static plm_status plm__cuda_launch_adamw(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *grad = &l->in[0];
    int64_t count = count_of(grad);
    int32_t early = l->attr.early, decays = l->attr.decay;
    return run(cuda, typed(K_adamw, grad->dtype), over_elements(cuda, count, 1),
               GIVEN((void *)&grad->data, (void *)&l->effect[0].data, (void *)&l->effect[1].data,
                     (void *)&l->effect[2].data, &count, &early, &decays, (void *)&l->step));
}

static plm_status plm__cuda_launch_sgd(plm_cuda *cuda, const plm_launch *l)
{
    const plm_operand *grad = &l->in[0];
    int64_t count = count_of(grad);
    int32_t decays = l->attr.decay;
    return run(cuda, typed(K_sgd, grad->dtype), over_elements(cuda, count, 1),
               GIVEN((void *)&grad->data, (void *)&l->effect[0].data, (void *)&l->effect[1].data,
                     &count, &decays, (void *)&l->step));
}

static plm_status plm__cuda_launch_init_normal(plm_cuda *cuda, const plm_launch *l)
{
    int64_t count = count_of(&l->effect[0]);
    uint32_t site = l->attr.site;
    float scale = l->attr.scale;
    return run(cuda, K_init_normal, over_elements(cuda, count, 4),
               GIVEN((void *)&l->effect[0].data, &count, &site, &scale, (void *)&l->step));
}

static plm_status plm__cuda_launch_init_constant(plm_cuda *cuda, const plm_launch *l)
{
    int64_t count = count_of(&l->effect[0]);
    float value = l->attr.scale;
    return run(cuda, K_init_constant, over_elements(cuda, count, 1),
               GIVEN((void *)&l->effect[0].data, &count, &value));
}

/* Products are cuBLASLt's: they have no launcher here. */
#define plm__cuda_launch_product NULL

static launcher *const launchers[PLM_OP_COUNT] = {
#define PLM_KERNEL_CUDA(kind, function, workspace) [PLM_OP_##kind] = plm__cuda_launch_##function,
#include "device/kernels.def"
};

bool plm__cuda_kernels_take(const plm_launch *launch)
{
    return launchers[launch->kind] != NULL;
}

plm_status plm__cuda_kernels_launch(plm_cuda *cuda, const plm_launch *launch)
{
    return launchers[launch->kind](cuda, launch);
}
