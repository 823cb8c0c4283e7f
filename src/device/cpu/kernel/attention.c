/* SPDX-License-Identifier: MIT */
/*
 * Fused attention, forward and backward (Dao, Fu, Ermon, Rudra and Re, "FlashAttention", 2022): the
 * scores exist only as one tile of PLM_TILE queries by PLM_TILE keys, so memory is linear in T.
 *
 * Tiles are held turned, [keys, queries]: a vector spans queries, so the running maximum and sum
 * are plain vector arithmetic, and every product has the form that small_product.h wants. Only the
 * queries (and, backward, the output's gradient) are turned, once for each block of queries; keys
 * and values are read where they lie. Tiles above the diagonal are never made.
 *
 * Forward, a thread takes a block of queries of one head; backward, a whole head, whose key and
 * value gradients it sums over the blocks in order. Lanes past the last position hold zeros in the
 * turned queries and their results are never stored.
 */
#include <string.h>

#include "device/cpu/kernel/attention_shape.h"
#include "device/cpu/kernel/attention_tile.h"
#include "device/cpu/kernel/small_product.h"
#include "device/cpu/kernel/turn.h"
#include "device/cpu/kernel/vector_math.h"

enum { LANE_STEP = 16 }; /* queries are rounded up to this; a multiple of every PLM_LANES */

/* to[c, r] = scale from[r, c] for `rows` rows; zero from there to the next LANE_STEP. */
static void turn(const float *from, int64_t row, int64_t rows, int64_t columns, float scale,
                 float *to)
{
    int64_t padded = (rows + LANE_STEP - 1) / LANE_STEP * LANE_STEP;
    plm_turn(from, row, rows, columns, scale, to, PLM_TILE);
    for (int64_t c = 0; padded > rows && c < columns; c++)
        for (int64_t r = rows; r < padded; r++)
            to[c * PLM_TILE + r] = 0.0f;
}

/* Sets tile[key, query] to `value` where key > query; both blocks begin at the same position. */
static void mask_diagonal(float *tile, int64_t keys, float value)
{
    for (int64_t j = 1; j < keys; j++)
        for (int64_t i = 0; i < j; i++)
            tile[j * PLM_TILE + i] = value;
}

/* Running maximum and sum of each query. */
typedef struct running {
    float top[PLM_TILE];
    float sum[PLM_TILE];
    float fade[PLM_TILE]; /* e^(old maximum - new maximum): what earlier blocks are scaled by */
} running;

/* Takes a tile of scores into the running figures and leaves e^(score - maximum) in it. */
static void absorb(running *run, float *tile, int64_t keys, int64_t queries)
{
    float top[PLM_TILE], sum[PLM_TILE];
    memcpy(top, run->top, sizeof top);
    for (int64_t j = 0; j < keys; j++)
#pragma omp simd
        for (int64_t i = 0; i < queries; i++)
            top[i] = tile[j * PLM_TILE + i] > top[i] ? tile[j * PLM_TILE + i] : top[i];
#pragma omp simd
    for (int64_t i = 0; i < queries; i++) {
        run->fade[i] = plm_exp(run->top[i] - top[i]);
        sum[i] = run->sum[i] * run->fade[i];
    }
    for (int64_t j = 0; j < keys; j++)
#pragma omp simd
        for (int64_t i = 0; i < queries; i++) {
            float p = plm_exp(tile[j * PLM_TILE + i] - top[i]);
            tile[j * PLM_TILE + i] = p;
            sum[i] += p;
        }
    memcpy(run->top, top, sizeof top);
    memcpy(run->sum, sum, sizeof sum);
}

static void scale_rows(float *rows, int64_t row, int64_t count, int64_t width, const float *by)
{
    for (int64_t r = 0; r < count; r++)
#pragma omp simd
        for (int64_t c = 0; c < width; c++)
            rows[r * row + c] *= by[r];
}

/* One block of queries of one head, [first, first + count). */
static void attend(const plm_attention_shape *s, const float *q, const float *k, const float *v,
                   int64_t first, float *out, float *lse, float *scratch)
{
    int64_t count = plm_min(PLM_TILE, s->positions - first);
    int64_t queries = (count + LANE_STEP - 1) / LANE_STEP * LANE_STEP;
    int64_t end = s->causal ? first + count : s->positions, packed_row = 3 * s->width;
    float *turned = scratch, *tile = scratch + PLM_TILE * s->head_width;
    running run;
    for (int i = 0; i < PLM_TILE; i++) {
        run.top[i] = -INFINITY;
        run.sum[i] = 0.0f;
    }
    turn(q + first * packed_row, packed_row, count, s->head_width, s->scale, turned);
    for (int64_t j = 0; j < end; j += PLM_TILE) {
        int64_t keys = plm_min(PLM_TILE, end - j);
        plm_small_product(keys, queries, s->head_width,
                          (plm_view){k + j * packed_row, packed_row, 1}, turned, PLM_TILE, tile,
                          PLM_TILE, false);
        if (s->causal && j == first)
            mask_diagonal(tile, keys, -INFINITY);
        absorb(&run, tile, keys, queries);
        if (j > 0)
            scale_rows(out, s->width, count, s->head_width, run.fade);
        plm_small_product(count, s->head_width, keys, (plm_view){tile, 1, PLM_TILE},
                          v + j * packed_row, packed_row, out, s->width, j > 0);
    }
    for (int64_t i = 0; i < count; i++) {
        lse[i] = run.top[i] + logf(run.sum[i]);
        run.fade[i] = 1.0f / run.sum[i];
    }
    scale_rows(out, s->width, count, s->head_width, run.fade);
}

void KERNEL(attention)(const plm_launch *launch, int threads)
{
    plm_attention_shape s = plm_attention_shape_of(launch, &launch->in[0]);
    const float *qkv = launch->in[0].data; /* [B,T,3C] */
    float *out = launch->out[0].data;      /* [B,T,C] */
    float *lse = launch->out[1].data;      /* [B,H,T] */
    float *workspace = launch->workspace;
    int64_t blocks = (s.positions + PLM_TILE - 1) / PLM_TILE;
    /* The longest blocks of queries first, so that the threads end together. */
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t task = 0; task < s.batch * s.heads * blocks; task++) {
        int64_t head = task % (s.batch * s.heads), b = head / s.heads, h = head % s.heads;
        int64_t first = (blocks - 1 - task / (s.batch * s.heads)) * PLM_TILE;
        attend(&s, qkv + plm_packed_at(&s, b, h, 0), qkv + plm_packed_at(&s, b, h, 1),
               qkv + plm_packed_at(&s, b, h, 2), first,
               out + plm_plain_at(&s, b, h) + first * s.width, lse + head * s.positions + first,
               workspace + omp_get_thread_num() * plm_attention_floats(s.head_width));
    }
}

/* One head's tensors in the backward, each at its position 0. */
typedef struct grad_head {
    const float *q, *k, *v;                                  /* rows of 3C */
    const float *dout;                                       /* rows of C */
    const float *lse;                                        /* [T] */
    float *dq, *dk, *dv;                                     /* rows of 3C */
    float *turned_q, *turned_dout, *probs, *dscores, *delta; /* workspace */
} grad_head;

/* delta_i = dout_i out_i */
static void row_products(const float *a, const float *b, int64_t row, int64_t rows, int64_t width,
                         float *products)
{
    for (int64_t r = 0; r < rows; r++) {
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < width; c++)
            sum += a[r * row + c] * b[r * row + c];
        products[r] = sum;
    }
}

/* probs holds scores and dscores the gradient of the probabilities; afterwards P = e^(s - lse) and
 * dS = P (dP - delta) / sqrt(D). */
static void probabilities(float *probs, float *dscores, const float *lse, const float *delta,
                          float scale, int64_t keys, int64_t queries)
{
    for (int64_t j = 0; j < keys; j++) {
        float *p = probs + j * PLM_TILE, *ds = dscores + j * PLM_TILE;
#pragma omp simd
        for (int64_t i = 0; i < queries; i++) {
            p[i] = plm_exp(p[i] - lse[i]);
            ds[i] = p[i] * (ds[i] - delta[i]) * scale;
        }
    }
}

/* The tile of queries from i and keys from j. Its part of dq is the first one when j is 0, and of
 * dk and dv when `opens_keys`; these are written, later ones are added. */
static void grad_tile(const plm_attention_shape *s, const grad_head *head, int64_t i, int64_t j,
                      bool opens_keys)
{
    int64_t count = plm_min(PLM_TILE, s->positions - i), keys = plm_min(PLM_TILE, s->positions - j);
    int64_t queries = (count + LANE_STEP - 1) / LANE_STEP * LANE_STEP;
    int64_t width = s->head_width, packed_row = 3 * s->width;
    float lse[PLM_TILE] = {0}, delta[PLM_TILE] = {0};
    memcpy(lse, head->lse + i, (size_t)count * sizeof *lse);
    memcpy(delta, head->delta + i, (size_t)count * sizeof *delta);

    plm_small_product(keys, queries, width, (plm_view){head->k + j * packed_row, packed_row, 1},
                      head->turned_q, PLM_TILE, head->probs, PLM_TILE, false);
    plm_small_product(keys, queries, width, (plm_view){head->v + j * packed_row, packed_row, 1},
                      head->turned_dout, PLM_TILE, head->dscores, PLM_TILE, false);
    if (s->causal && i == j)
        mask_diagonal(head->probs, keys, -INFINITY);
    probabilities(head->probs, head->dscores, lse, delta, s->scale, keys, queries);

    plm_small_product(keys, width, count, (plm_view){head->probs, PLM_TILE, 1},
                      head->dout + i * s->width, s->width, head->dv + j * packed_row, packed_row,
                      !opens_keys);
    plm_small_product(keys, width, count, (plm_view){head->dscores, PLM_TILE, 1},
                      head->q + i * packed_row, packed_row, head->dk + j * packed_row, packed_row,
                      !opens_keys);
    plm_small_product(count, width, keys, (plm_view){head->dscores, 1, PLM_TILE},
                      head->k + j * packed_row, packed_row, head->dq + i * packed_row, packed_row,
                      j > 0);
}

static void grad_one_head(const plm_attention_shape *s, const grad_head *head, const float *out)
{
    row_products(head->dout, out, s->width, s->positions, s->head_width, head->delta);
    for (int64_t i = 0; i < s->positions; i += PLM_TILE) {
        int64_t count = plm_min(PLM_TILE, s->positions - i), packed_row = 3 * s->width;
        int64_t end = s->causal ? i + count : s->positions;
        turn(head->q + i * packed_row, packed_row, count, s->head_width, s->scale, head->turned_q);
        turn(head->dout + i * s->width, s->width, count, s->head_width, 1.0f, head->turned_dout);
        for (int64_t j = 0; j < end; j += PLM_TILE)
            grad_tile(s, head, i, j, s->causal ? i == j : i == 0);
    }
}

void KERNEL(attention_grad)(const plm_launch *launch, int threads)
{
    plm_attention_shape s = plm_attention_shape_of(launch, &launch->in[1]);
    const float *dout = launch->in[0].data, *qkv = launch->in[1].data; /* [B,T,C], [B,T,3C] */
    const float *out = launch->in[2].data, *lse = launch->in[3].data;  /* [B,T,C], [B,H,T] */
    float *dqkv = launch->out[0].data;                                 /* [B,T,3C] */
    float *workspace = launch->workspace;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t task = 0; task < s.batch * s.heads; task++) {
        int64_t b = task / s.heads, h = task % s.heads, turned = PLM_TILE * s.head_width;
        float *scratch =
            workspace + omp_get_thread_num() * plm_attention_grad_floats(s.head_width, s.positions);
        grad_head head = {
            .q = qkv + plm_packed_at(&s, b, h, 0),
            .k = qkv + plm_packed_at(&s, b, h, 1),
            .v = qkv + plm_packed_at(&s, b, h, 2),
            .dout = dout + plm_plain_at(&s, b, h),
            .lse = lse + task * s.positions,
            .dq = dqkv + plm_packed_at(&s, b, h, 0),
            .dk = dqkv + plm_packed_at(&s, b, h, 1),
            .dv = dqkv + plm_packed_at(&s, b, h, 2),
            .turned_q = scratch,
            .turned_dout = scratch + turned,
            .probs = scratch + 2 * turned,
            .dscores = scratch + 2 * turned + PLM_TILE * PLM_TILE,
            .delta = scratch + 2 * turned + 2 * PLM_TILE * PLM_TILE,
        };
        grad_one_head(&s, &head, out + plm_plain_at(&s, b, h));
    }
}
