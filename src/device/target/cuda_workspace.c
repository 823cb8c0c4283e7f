/* SPDX-License-Identifier: MIT */
/* Each formula says whose memory it is. B batch, T positions, H heads of size D. */
#include "device/target/cuda_workspace.h"

#include "base/size.h"

#define PRODUCT_BYTES ((size_t)32 << 20) /* what cuBLASLt's kernels for Hopper ask for at most */

enum {
    PARTIAL_ROWS = 32,  /* rows at least that a block of threads adds up by itself */
    PARTIALS_MAX = 512, /* such blocks at most: four on each of 128 multiprocessors */
    SORT_WORDS = 4      /* an id and its place, each of them twice: from here to there and back */
};

static int64_t elements_of(const plm_operand *operand)
{
    int64_t count = operand->rank > 0; /* absent: none */
    for (int32_t i = 0; i < operand->rank; i++)
        count *= operand->shape[i];
    return count;
}

static int64_t width_of(const plm_operand *operand)
{
    return operand->shape[operand->rank - 1];
}

static int64_t parts_of(int64_t count, int64_t part)
{
    return count / part + (count % part != 0);
}

static plm_status plm__cuda_workspace_none(const plm_launch *launch, size_t *bytes)
{
    (void)launch;
    *bytes = 0;
    return PLM_OK;
}

/* cuBLASLt's, of which it uses what lies beyond the first multiple of 256. Products one after the
 * other in one operation share it. */
static plm_status plm__cuda_workspace_product(const plm_launch *launch, size_t *bytes)
{
    (void)launch;
    *bytes = PRODUCT_BYTES;
    return PLM_OK;
}

static plm_status plm__cuda_workspace_attention(const plm_launch *launch, size_t *bytes)
{
    (void)launch;
    *bytes = PLM_CUDA_GRAPH_BYTES;
    return PLM_OK;
}

plm_status plm__cuda_attention_sums(int64_t heads, int64_t length, int64_t size, size_t *bytes)
{
    size_t rows;
    PLM_TRY(plm__round_up_bytes((size_t)length, PLM_CUDA_SUMS_MULTIPLE, &rows));
    PLM_TRY(plm__mul_bytes(rows, (size_t)heads * sizeof(float), &rows));
    return plm__mul_bytes(rows, (size_t)size, bytes);
}

/* Many blocks add to the gradient of a query: it is summed in fp32 and rounded at the end; beside
 * it the sum of each row of dout out, [B,H,T] fp32, and what cuDNN takes. */
static plm_status plm__cuda_workspace_attention_grad(const plm_launch *launch, size_t *bytes)
{
    size_t sums, rows;
    const plm_operand *qkv = &launch->in[1];
    int64_t heads = qkv->shape[0] * launch->attr.heads;
    PLM_TRY(plm__cuda_attention_sums(heads, qkv->shape[1],
                                     plm__head_size(&launch->attr, width_of(qkv)), &sums));
    PLM_TRY(plm__mul_bytes((size_t)(heads * qkv->shape[1]), sizeof(float), &rows));
    PLM_TRY(plm__add_bytes(sums, rows, &sums));
    return plm__add_bytes(sums, PLM_CUDA_GRAPH_BYTES, bytes);
}

int32_t plm__cuda_row_parts(int64_t rows)
{
    int64_t parts = parts_of(rows, PARTIAL_ROWS);
    return (int32_t)(parts < PARTIALS_MAX ? parts : PARTIALS_MAX);
}

/* Sums over rows in a fixed order: each block of threads sums its rows in fp32, then one sums those
 * sums. `sums` rows of partial sums for each block. */
static plm_status for_each_part(const plm_operand *rows, size_t sums, size_t *bytes)
{
    int64_t width = width_of(rows);
    int32_t parts = width > 0 ? plm__cuda_row_parts(elements_of(rows) / width) : 0;
    PLM_TRY(plm__mul_bytes((size_t)parts * sums * sizeof(float), (size_t)width, bytes));
    return PLM_OK;
}

/* dweight and dbias */
static plm_status plm__cuda_workspace_norm_sums(const plm_launch *launch, size_t *bytes)
{
    return for_each_part(&launch->in[0], 2, bytes);
}

static plm_status plm__cuda_workspace_bias_sums(const plm_launch *launch, size_t *bytes)
{
    return for_each_part(&launch->in[0], 1, bytes);
}

/* A row of the table sums its positions in their order, so the ids are sorted with their places:
 * both twice, and how often each digit occurs in each tile and in all. */
static plm_status plm__cuda_workspace_sort(const plm_launch *launch, size_t *bytes)
{
    size_t words, counts;
    int64_t count = elements_of(&launch->in[0]), tiles = parts_of(count, PLM_CUDA_SORT_TILE);
    PLM_TRY(plm__mul_bytes((size_t)count, SORT_WORDS * sizeof(int32_t), &words));
    PLM_TRY(plm__mul_bytes((size_t)tiles + 1, PLM_CUDA_SORT_DIGITS * sizeof(int32_t), &counts));
    return plm__add_bytes(words, counts, bytes);
}

/* The sum of squares of each chunk in double: chunks are added in their order. */
static plm_status plm__cuda_workspace_chunks(const plm_launch *launch, size_t *bytes)
{
    size_t chunks = 0;
    for (int i = 0; i < PLM_OP_INPUTS_MAX; i++)
        chunks += (size_t)parts_of(elements_of(&launch->in[i]), PLM_NORM_CHUNK);
    return plm__mul_bytes(chunks, sizeof(double), bytes);
}

static plm_status (*const formulas[PLM_OP_COUNT])(const plm_launch *launch, size_t *bytes) = {
#define PLM_KERNEL_CUDA(kind, function, workspace)                                                 \
    [PLM_OP_##kind] = plm__cuda_workspace_##workspace,
#include "device/kernels.def"
};

plm_status plm__cuda_workspace(const plm_launch *launch, size_t *bytes)
{
    PLM_FAIL_IF(!formulas[launch->kind], PLM_ERROR_UNSUPPORTED, "CUDA has no row for %s",
                plm__op_info_of(launch->kind)->text);
    return formulas[launch->kind](launch, bytes);
}
