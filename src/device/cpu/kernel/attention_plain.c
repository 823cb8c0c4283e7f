/* SPDX-License-Identifier: MIT */
/*
 * Attention in plain steps, whose scores and probabilities are whole tensors [B,H,T,T]: the
 * products before and after the softmax, and their gradients. Work is cut into blocks of BLOCK rows
 * of one head; the gradient of q, k and v into the heads that share k and v. Blocks above the
 * diagonal are filled, not multiplied. Blocks of 16-bit tensors are converted in the workspace,
 * fp32 is used where it lies.
 */
#include "device/cpu/kernel/attention_shape.h"
#include "device/cpu/kernel/attention_tile.h"
#include "device/cpu/kernel/small_product.h"
#include "device/cpu/kernel/turn.h"
#include "device/cpu/kernel/values.h"

enum { BLOCK = PLM_TILE };

_Static_assert(BLOCK *BLOCK <= PLM_STACK_FLOATS, "the turned block lies on the stack");

/* out[i, j] = sum_d a[i, d] b[j, d] over `columns` columns, for at most BLOCK x BLOCK results; b is
 * turned a block of columns at a time. */
static void product_of_rows(int64_t m, int64_t n, int64_t columns, plm_block a, plm_block b,
                            plm_result out)
{
    float turned[BLOCK * BLOCK];
    for (int64_t d = 0; d < columns; d += BLOCK) {
        int64_t depth = plm__min(BLOCK, columns - d);
        plm__turn(b.data + d, b.row, n, depth, 1.0f, turned, BLOCK);
        plm_small_product(m, n, depth, (plm_view){a.data + d, a.row, 1}, turned, BLOCK, out.data,
                          out.row, d > 0);
    }
}

static void scale_block(plm_result block, int64_t rows, int64_t columns, float scale)
{
    for (int64_t r = 0; r < rows; r++)
#pragma omp simd
        for (int64_t c = 0; c < columns; c++)
            block.data[r * block.row + c] *= scale;
}

/* The calling thread's blocks, of 16-bit tensors. */
typedef struct rooms {
    float *square; /* [64,64] */
    float *rows;   /* [64,D] */
    float *more;   /* [64,D] */
} rooms;

static rooms rooms_of(const plm_launch *launch, int64_t head_width)
{
    float *first = launch->workspace;
    if (!first)
        return (rooms){0};
    first += omp_get_thread_num() * plm__attention_plain_floats(head_width);
    return (rooms){first, first + BLOCK * BLOCK, first + BLOCK * (BLOCK + head_width)};
}

/* A product a b^T of rows in tensors, and what stands for it right of the diagonal. */
typedef struct scoring {
    const plm_operand *a, *b;
    int64_t a_at, b_at; /* position 0 of the head */
    int64_t a_row;
    float scale, masked;
    const plm_operand *out; /* [B,H,T,T] */
} scoring;

static void fill(const plm_operand *out, int64_t at, int64_t count, float value, float *room)
{
    for (int64_t piece; count > 0; at += piece, count -= piece) {
        piece = plm__min(BLOCK * BLOCK, count);
        float *to = plm__place(out, at, room);
        for (int64_t i = 0; i < piece; i++)
            to[i] = value;
        plm__put(out, at, piece, to);
    }
}

/* scores of `rows` rows of a and the keys from j on, at `at` of the output; the diagonal begins in
 * the block where j is `first`. */
static void score_block(const plm_attention_shape *s, const scoring *job, plm_block a, int64_t rows,
                        int64_t first, int64_t j, int64_t at, const rooms *room)
{
    int64_t b_row = s->packed, keys = plm__min(BLOCK, s->positions - j);
    plm_block b = plm__block_values(job->b, job->b_at + j * b_row, b_row, keys, s->head_width,
                                    room->more, s->head_width);
    plm_result out = plm__block_place(job->out, at, s->positions, room->square, BLOCK);
    product_of_rows(rows, keys, s->head_width, a, b, out);
    scale_block(out, rows, keys, job->scale);
    for (int64_t i = 0; s->causal && j == first && i < rows; i++)
        for (int64_t key = i + 1; key < keys; key++)
            out.data[i * out.row + key] = job->masked;
    plm__block_put(job->out, at, s->positions, rows, keys, out);
}

/* The strip [rows, T] of a head's scores from row `first` on: scale a_i b_j, `masked` right of the
 * diagonal. */
static void score_strip(const plm_attention_shape *s, const scoring *job, int64_t head,
                        int64_t first, const rooms *room)
{
    int64_t rows = plm__min(BLOCK, s->positions - first);
    int64_t end = s->causal ? first + rows : s->positions;
    int64_t strip = (head * s->positions + first) * s->positions;
    plm_block a = plm__block_values(job->a, job->a_at + first * job->a_row, job->a_row, rows,
                                    s->head_width, room->rows, s->head_width);
    for (int64_t j = 0; j < end; j += BLOCK)
        score_block(s, job, a, rows, first, j, strip + j, room);
    for (int64_t i = 0; i < rows; i++)
        fill(job->out, strip + i * s->positions + end, s->positions - end, job->masked,
             room->square);
}

void KERNEL(attention_scores)(const plm_launch *launch, int threads)
{
    plm_attention_shape s = plm__attention_shape_of(launch);
#pragma omp parallel for num_threads(threads) schedule(dynamic) collapse(2)
    for (int64_t head = 0; head < s.batch * s.heads; head++)
        for (int64_t i = 0; i < s.positions; i += BLOCK) {
            int64_t b = head / s.heads, h = head % s.heads;
            rooms room = rooms_of(launch, s.head_width);
            scoring job = {
                .a = &launch->in[0], /* [B,T,Q] */
                .b = &launch->in[0],
                .a_at = plm__packed_at(&s, b, h, 0),
                .b_at = plm__packed_at(&s, b, h, 1),
                .a_row = s.packed,
                .scale = s.scale,
                .masked = -INFINITY,
                .out = &launch->out[0],
            };
            score_strip(&s, &job, head, i, &room);
        }
}

/* dprobs = dout v^T */
void KERNEL(attention_grad_probs)(const plm_launch *launch, int threads)
{
    plm_attention_shape s = plm__attention_shape_of(launch);
#pragma omp parallel for num_threads(threads) schedule(dynamic) collapse(2)
    for (int64_t head = 0; head < s.batch * s.heads; head++)
        for (int64_t i = 0; i < s.positions; i += BLOCK) {
            int64_t b = head / s.heads, h = head % s.heads;
            rooms room = rooms_of(launch, s.head_width);
            scoring job = {
                .a = &launch->in[0], /* [B,T,A] */
                .b = &launch->in[1], /* [B,T,Q] */
                .a_at = plm__plain_at(&s, b, h),
                .b_at = plm__packed_at(&s, b, h, 2),
                .a_row = s.width,
                .scale = 1.0f,
                .masked = 0.0f,
                .out = &launch->out[0],
            };
            score_strip(&s, &job, head, i, &room);
        }
}

/* Rows of one tensor weighed by a square one: out_i = sum_j square[i,j] rows_j, or square[j,i]. */
typedef struct weighing {
    const plm_operand *square; /* [B,H,T,T] */
    const plm_operand *rows;
    int64_t square_at, rows_at; /* position 0 of the head */
    int64_t rows_row;
    bool turned; /* square[j,i] */
} weighing;

/* The results [count, D] from row i on, over j from `begin` to `end`: fp32 at once, 16-bit tensors
 * a converted block at a time. */
static void weigh(const plm_attention_shape *s, const weighing *job, int64_t i, int64_t begin,
                  int64_t end, bool adds, const rooms *room, plm_result out)
{
    int64_t count = plm__min(BLOCK, s->positions - i), row = s->positions;
    int64_t step = plm__is_half(job->square) ? BLOCK : end - begin;
    for (int64_t j = begin; j < end; j += step) {
        int64_t depth = plm__min(step, end - j);
        plm_block square = job->turned
                               ? plm__block_values(job->square, job->square_at + j * row + i, row,
                                                   depth, count, room->square, BLOCK)
                               : plm__block_values(job->square, job->square_at + i * row + j, row,
                                                   count, depth, room->square, BLOCK);
        plm_view view = job->turned ? (plm_view){square.data, 1, square.row}
                                    : (plm_view){square.data, square.row, 1};
        plm_block rows =
            plm__block_values(job->rows, job->rows_at + j * job->rows_row, job->rows_row, depth,
                              s->head_width, room->rows, s->head_width);
        plm_small_product(count, s->head_width, depth, view, rows.data, rows.row, out.data, out.row,
                          adds || j > begin);
    }
}

void KERNEL(attention_apply)(const plm_launch *launch, int threads)
{
    plm_attention_shape s = plm__attention_shape_of(launch);
    const plm_operand *out = &launch->out[0]; /* [B,T,A] */
#pragma omp parallel for num_threads(threads) schedule(dynamic) collapse(2)
    for (int64_t head = 0; head < s.batch * s.heads; head++)
        for (int64_t i = 0; i < s.positions; i += BLOCK) {
            int64_t b = head / s.heads, h = head % s.heads;
            int64_t rows = plm__min(BLOCK, s.positions - i);
            int64_t at = plm__plain_at(&s, b, h) + i * s.width;
            rooms room = rooms_of(launch, s.head_width);
            weighing job = {
                .square = &launch->in[0],
                .rows = &launch->in[1], /* [B,T,Q] */
                .square_at = head * s.positions * s.positions,
                .rows_at = plm__packed_at(&s, b, h, 2),
                .rows_row = s.packed,
            };
            plm_result made = plm__block_place(out, at, s.width, room.more, s.head_width);
            weigh(&s, &job, i, 0, s.causal ? i + rows : s.positions, false, &room, made);
            plm__block_put(out, at, s.width, rows, s.head_width, made);
        }
}

/* One part of dqkv, `at` its position 0: dq of one head, or dk or dv of `heads` that share them. */
static void grad_part(const plm_attention_shape *s, const weighing *job, int64_t heads,
                      const plm_operand *dqkv, int64_t at, float scale, const rooms *room)
{
    int64_t row = s->packed;
    for (int64_t block = 0; block < s->positions; block += BLOCK) {
        int64_t count = plm__min(BLOCK, s->positions - block), here = at + block * row;
        /* As queries, they see the keys up to `end`; as keys, the queries from `begin` see them. */
        int64_t end = s->causal && !job->turned ? block + count : s->positions;
        int64_t begin = s->causal && job->turned ? block : 0;
        plm_result made = plm__block_place(dqkv, here, row, room->more, s->head_width);
        weighing one = *job;
        for (int64_t h = 0; h < heads; h++) {
            weigh(s, &one, block, begin, end, h > 0, room, made);
            one.square_at += s->positions * s->positions;
            one.rows_at += s->head_width;
        }
        scale_block(made, count, s->head_width, scale);
        plm__block_put(dqkv, here, row, count, s->head_width, made);
    }
}

/* dv = probs^T dout, dq = dscores k / sqrt(D), dk = dscores^T q / sqrt(D), for the heads from h on
 * that share k and v */
static void grad_qkv_sharers(const plm_attention_shape *s, const plm_launch *launch, int64_t b,
                             int64_t h)
{
    const plm_operand *dout = &launch->in[0], *qkv = &launch->in[1];      /* [B,T,A], [B,T,Q] */
    const plm_operand *probs = &launch->in[2], *dscores = &launch->in[3]; /* [B,H,T,T] */
    const plm_operand *dqkv = &launch->out[0];                            /* [B,T,Q] */
    int64_t area = s->positions * s->positions, square = (b * s->heads + h) * area;
    int64_t q = plm__packed_at(s, b, h, 0), k = plm__packed_at(s, b, h, 1);
    rooms room = rooms_of(launch, s->head_width);
    weighing of_k = {dscores, qkv, square, q, s->packed, true};
    weighing of_v = {probs, dout, square, plm__plain_at(s, b, h), s->width, true};
    for (int64_t i = 0; i < s->sharers; i++) {
        weighing of_q = {dscores, qkv, square + i * area, k, s->packed, false};
        grad_part(s, &of_q, 1, dqkv, q + i * s->head_width, s->scale, &room);
    }
    grad_part(s, &of_k, s->sharers, dqkv, k, s->scale, &room);
    grad_part(s, &of_v, s->sharers, dqkv, plm__packed_at(s, b, h, 2), 1.0f, &room);
}

void KERNEL(attention_grad_qkv)(const plm_launch *launch, int threads)
{
    plm_attention_shape s = plm__attention_shape_of(launch);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t task = 0; task < s.batch * s.key_heads; task++)
        grad_qkv_sharers(&s, launch, task / s.key_heads, task % s.key_heads * s.sharers);
}
