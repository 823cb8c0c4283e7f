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
 * Forward, a thread takes a block of queries of one head; backward, the heads that share keys and
 * values, whose gradients it sums over heads and blocks in order. Lanes past the last position hold
 * zeros in the turned queries and their results are never stored. Of 16-bit tensors a block is
 * converted where it is used and a result is rounded when its sum is whole.
 */
#include <string.h>

#include "device/cpu/kernel/attention_shape.h"
#include "device/cpu/kernel/attention_tile.h"
#include "device/cpu/kernel/small_product.h"
#include "device/cpu/kernel/turn.h"
#include "device/cpu/kernel/values.h"
#include "device/cpu/kernel/vector_math.h"

enum { LANE_STEP = 16 }; /* queries are rounded up to this; a multiple of every PLM_LANES */

/* to[c, r] = scale from[r, c] for `rows` rows; zero from there to the next LANE_STEP. */
static void turn(const float *from, int64_t row, int64_t rows, int64_t columns, float scale,
                 float *to)
{
    int64_t padded = (rows + LANE_STEP - 1) / LANE_STEP * LANE_STEP;
    plm__turn(from, row, rows, columns, scale, to, PLM_TILE);
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
        run->fade[i] = plm__exp(run->top[i] - top[i]);
        sum[i] = run->sum[i] * run->fade[i];
    }
    for (int64_t j = 0; j < keys; j++)
#pragma omp simd
        for (int64_t i = 0; i < queries; i++) {
            float p = plm__exp(tile[j * PLM_TILE + i] - top[i]);
            tile[j * PLM_TILE + i] = p;
            sum[i] += p;
        }
    memcpy(run->top, top, sizeof top);
    memcpy(run->sum, sum, sizeof sum);
}

static void scale_rows(plm_result rows, int64_t count, int64_t width, const float *by)
{
    for (int64_t r = 0; r < count; r++)
#pragma omp simd
        for (int64_t c = 0; c < width; c++)
            rows.data[r * rows.row + c] *= by[r];
}

/* A thread's workspace, forward. */
typedef struct rooms {
    float *turned, *tile;
    float *rows, *out; /* [64,D] of 16-bit tensors */
} rooms;

/* Weighs the values of the keys from `keys_at` on into `out`; `tile` holds scores, which become
 * probabilities. */
static void attend_tile(const plm_attention_shape *s, const plm_operand *qkv, int64_t values_at,
                        int64_t count, int64_t keys, running *run, const rooms *room,
                        plm_result out, bool opens)
{
    int64_t queries = (count + LANE_STEP - 1) / LANE_STEP * LANE_STEP;
    absorb(run, room->tile, keys, queries);
    if (!opens)
        scale_rows(out, count, s->head_width, run->fade);
    plm_block v = plm__block_values(qkv, values_at, s->packed, keys, s->head_width, room->rows,
                                    s->head_width);
    plm_small_product(count, s->head_width, keys, (plm_view){room->tile, 1, PLM_TILE}, v.data,
                      v.row, out.data, out.row, !opens);
}

/* One block of queries of one head, [first, first + count). q, k and v are its position 0. */
static void attend(const plm_attention_shape *s, const plm_operand *qkv, int64_t q, int64_t k,
                   int64_t v, int64_t first, plm_result out, float *lse, const rooms *room)
{
    int64_t count = plm__min(PLM_TILE, s->positions - first), width = s->head_width;
    int64_t queries = (count + LANE_STEP - 1) / LANE_STEP * LANE_STEP;
    int64_t end = s->causal ? first + count : s->positions, row = s->packed;
    running run;
    for (int i = 0; i < PLM_TILE; i++) {
        run.top[i] = -INFINITY;
        run.sum[i] = 0.0f;
    }
    plm_block rows = plm__block_values(qkv, q + first * row, row, count, width, room->rows, width);
    turn(rows.data, rows.row, count, width, s->scale, room->turned);
    for (int64_t j = 0; j < end; j += PLM_TILE) {
        int64_t keys = plm__min(PLM_TILE, end - j);
        rows = plm__block_values(qkv, k + j * row, row, keys, width, room->rows, width);
        plm_small_product(keys, queries, width, (plm_view){rows.data, rows.row, 1}, room->turned,
                          PLM_TILE, room->tile, PLM_TILE, false);
        if (s->causal && j == first)
            mask_diagonal(room->tile, keys, -INFINITY);
        attend_tile(s, qkv, v + j * row, count, keys, &run, room, out, j == 0);
    }
    for (int64_t i = 0; i < count; i++) {
        lse[i] = run.top[i] + logf(run.sum[i]);
        run.fade[i] = 1.0f / run.sum[i];
    }
    scale_rows(out, count, width, run.fade);
}

void KERNEL(attention)(const plm_launch *launch, int threads)
{
    plm_attention_shape s = plm__attention_shape_of(launch);
    const plm_operand *qkv = &launch->in[0], *out = &launch->out[0]; /* [B,T,Q], [B,T,A] */
    float *lse = launch->out[1].data;                                /* [B,H,T] */
    int64_t blocks = (s.positions + PLM_TILE - 1) / PLM_TILE,
            block_floats = PLM_TILE * s.head_width;
    /* The longest blocks of queries first, so that the threads end together. */
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t task = 0; task < s.batch * s.heads * blocks; task++) {
        int64_t head = task % (s.batch * s.heads), b = head / s.heads, h = head % s.heads;
        int64_t first = (blocks - 1 - task / (s.batch * s.heads)) * PLM_TILE;
        int64_t at = plm__plain_at(&s, b, h) + first * s.width;
        float *scratch = (float *)launch->workspace +
                         omp_get_thread_num() * plm__attention_floats(s.head_width, s.half);
        float *rows = scratch + block_floats + PLM_TILE * PLM_TILE;
        rooms room = {scratch, scratch + block_floats, rows, s.half ? rows + block_floats : NULL};
        plm_result made = plm__block_place(out, at, s.width, room.out, s.head_width);
        attend(&s, qkv, plm__packed_at(&s, b, h, 0), plm__packed_at(&s, b, h, 1),
               plm__packed_at(&s, b, h, 2), first, made, lse + head * s.positions + first, &room);
        plm__block_put(out, at, s.width, plm__min(PLM_TILE, s.positions - first), s.head_width,
                       made);
    }
}

/* One head in the backward: where its position 0 lies, the workspace, and the block of queries at
 * work. */
typedef struct grad_head {
    const plm_operand *dout, *qkv, *out, *dqkv;
    int64_t q, k, v;  /* in [B,T,Q] */
    int64_t plain;    /* in [B,T,A] */
    const float *lse; /* [T] */
    bool opens;       /* the first of those that share k and v */
    float *turned_q, *turned_dout, *probs, *dscores, *delta;
    float *room_q, *room_dout, *room_k, *room_v, *room_dq; /* [64,D] of 16-bit tensors */
    plm_result dk, dv;                                     /* [T,D] */
    plm_block q_rows, dout_rows;                           /* [64,D] */
    plm_result dq;                                         /* [64,D] */
} grad_head;

/* products_i = a_i b_i */
static void row_products(plm_block a, plm_block b, int64_t rows, int64_t width, float *products)
{
    for (int64_t r = 0; r < rows; r++) {
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < width; c++)
            sum += a.data[r * a.row + c] * b.data[r * b.row + c];
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
            p[i] = plm__exp(p[i] - lse[i]);
            ds[i] = p[i] * (ds[i] - delta[i]) * scale;
        }
    }
}

/* The parts of dk, dv and dq that a tile's probabilities give. */
static void grad_products(const plm_attention_shape *s, const grad_head *head, plm_block k,
                          int64_t count, int64_t j, int64_t keys, bool opens_keys)
{
    int64_t width = s->head_width;
    plm_result dk = head->dk, dv = head->dv, dq = head->dq;
    plm_small_product(keys, width, count, (plm_view){head->probs, PLM_TILE, 1},
                      head->dout_rows.data, head->dout_rows.row, dv.data + j * dv.row, dv.row,
                      !opens_keys);
    plm_small_product(keys, width, count, (plm_view){head->dscores, PLM_TILE, 1}, head->q_rows.data,
                      head->q_rows.row, dk.data + j * dk.row, dk.row, !opens_keys);
    plm_small_product(count, width, keys, (plm_view){head->dscores, 1, PLM_TILE}, k.data, k.row,
                      dq.data, dq.row, j > 0);
}

/* The tile of queries from i and keys from j. Its part of dq is the first one when j is 0, and of
 * dk and dv when `opens_keys`; these are written, later ones are added. */
static void grad_tile(const plm_attention_shape *s, const grad_head *head, int64_t i, int64_t j,
                      bool opens_keys)
{
    int64_t count = plm__min(PLM_TILE, s->positions - i),
            keys = plm__min(PLM_TILE, s->positions - j);
    int64_t queries = (count + LANE_STEP - 1) / LANE_STEP * LANE_STEP;
    int64_t width = s->head_width, row = s->packed;
    float lse[PLM_TILE] = {0}, delta[PLM_TILE] = {0};
    memcpy(lse, head->lse + i, (size_t)count * sizeof *lse);
    memcpy(delta, head->delta + i, (size_t)count * sizeof *delta);

    plm_block k =
        plm__block_values(head->qkv, head->k + j * row, row, keys, width, head->room_k, width);
    plm_block v =
        plm__block_values(head->qkv, head->v + j * row, row, keys, width, head->room_v, width);
    plm_small_product(keys, queries, width, (plm_view){k.data, k.row, 1}, head->turned_q, PLM_TILE,
                      head->probs, PLM_TILE, false);
    plm_small_product(keys, queries, width, (plm_view){v.data, v.row, 1}, head->turned_dout,
                      PLM_TILE, head->dscores, PLM_TILE, false);
    if (s->causal && i == j)
        mask_diagonal(head->probs, keys, -INFINITY);
    probabilities(head->probs, head->dscores, lse, delta, s->scale, keys, queries);
    grad_products(s, head, k, count, j, keys, opens_keys);
}

/* A block of queries against all keys that it sees. */
static void grad_queries(const plm_attention_shape *s, grad_head *head, int64_t i)
{
    int64_t count = plm__min(PLM_TILE, s->positions - i), width = s->head_width, row = s->packed;
    int64_t q = head->q + i * row, end = s->causal ? i + count : s->positions;
    head->q_rows = plm__block_values(head->qkv, q, row, count, width, head->room_q, width);
    head->dout_rows = plm__block_values(head->dout, head->plain + i * s->width, s->width, count,
                                        width, head->room_dout, width);
    head->dq = plm__block_place(head->dqkv, q, row, head->room_dq, width);
    turn(head->q_rows.data, head->q_rows.row, count, width, s->scale, head->turned_q);
    turn(head->dout_rows.data, head->dout_rows.row, count, width, 1.0f, head->turned_dout);
    for (int64_t j = 0; j < end; j += PLM_TILE)
        grad_tile(s, head, i, j, head->opens && (s->causal ? i == j : i == 0));
    plm__block_put(head->dqkv, q, row, count, width, head->dq);
}

/* delta_i = dout_i out_i */
static void find_delta(const plm_attention_shape *s, const grad_head *head)
{
    int64_t width = s->head_width;
    for (int64_t i = 0; i < s->positions; i += PLM_TILE) {
        int64_t count = plm__min(PLM_TILE, s->positions - i), at = head->plain + i * s->width;
        plm_block dout =
            plm__block_values(head->dout, at, s->width, count, width, head->room_dout, width);
        plm_block out =
            plm__block_values(head->out, at, s->width, count, width, head->room_k, width);
        row_products(dout, out, count, width, head->delta + i);
    }
}

/* The heads from h on that share keys and values. */
static void grad_sharers(const plm_attention_shape *s, grad_head *head, int64_t b, int64_t h,
                         const float *lse)
{
    for (int64_t i = 0; i < s->sharers; i++) {
        head->q = plm__packed_at(s, b, h + i, 0);
        head->plain = plm__plain_at(s, b, h + i);
        head->lse = lse + (b * s->heads + h + i) * s->positions;
        head->opens = i == 0;
        find_delta(s, head);
        for (int64_t first = 0; first < s->positions; first += PLM_TILE)
            grad_queries(s, head, first);
    }
    plm__block_put(head->dqkv, head->k, s->packed, s->positions, s->head_width, head->dk);
    plm__block_put(head->dqkv, head->v, s->packed, s->positions, s->head_width, head->dv);
}

/* Lays out a thread's workspace; without 16-bit tensors it ends behind delta. */
static void place_rooms(const plm_attention_shape *s, grad_head *head, float *scratch)
{
    int64_t block = PLM_TILE * s->head_width, square = PLM_TILE * PLM_TILE;
    int64_t rounded = (s->positions + PLM_TILE - 1) / PLM_TILE * PLM_TILE;
    bool half = s->half;
    float *first = scratch + 2 * block + 2 * square + rounded;
    head->turned_q = scratch;
    head->turned_dout = scratch + block;
    head->probs = scratch + 2 * block;
    head->dscores = head->probs + square;
    head->delta = head->dscores + square;
    head->room_q = first;
    head->room_dout = half ? first + block : NULL;
    head->room_k = half ? first + 2 * block : NULL;
    head->room_v = half ? first + 3 * block : NULL;
    head->room_dq = half ? first + 4 * block : NULL;
    float *dk = half ? first + 5 * block : NULL;
    float *dv = half ? dk + rounded * s->head_width : NULL;
    head->dk = plm__block_place(head->dqkv, head->k, s->packed, dk, s->head_width);
    head->dv = plm__block_place(head->dqkv, head->v, s->packed, dv, s->head_width);
}

void KERNEL(attention_grad)(const plm_launch *launch, int threads)
{
    plm_attention_shape s = plm__attention_shape_of(launch);
    const float *lse = launch->in[3].data; /* [B,H,T] */
    int64_t floats = plm__attention_grad_floats(s.head_width, s.positions, s.half);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t task = 0; task < s.batch * s.key_heads; task++) {
        int64_t b = task / s.key_heads, h = task % s.key_heads * s.sharers;
        grad_head head = {
            .dout = &launch->in[0],  /* [B,T,A] */
            .qkv = &launch->in[1],   /* [B,T,Q] */
            .out = &launch->in[2],   /* [B,T,A] */
            .dqkv = &launch->out[0], /* [B,T,Q] */
            .k = plm__packed_at(&s, b, h, 1),
            .v = plm__packed_at(&s, b, h, 2),
        };
        place_rooms(&s, &head, (float *)launch->workspace + omp_get_thread_num() * floats);
        grad_sharers(&s, &head, b, h, lse);
    }
}
