/* SPDX-License-Identifier: MIT */
/*
 * Attention in plain steps, whose scores and probabilities are whole tensors [B,H,T,T]: the
 * products before and after the softmax, and their gradients. Work is cut into blocks of BLOCK rows
 * of one head; the gradient of q, k and v into whole heads. Blocks above the diagonal are filled,
 * not multiplied.
 */
#include "device/cpu/kernel/attention_shape.h"
#include "device/cpu/kernel/small_product.h"
#include "device/cpu/kernel/turn.h"

enum { BLOCK = 64 };

_Static_assert(BLOCK *BLOCK <= PLM_STACK_FLOATS, "the turned block lies on the stack");

/* out[i, j] = sum_d a[i, d] b[j, d] over `columns` columns, for at most BLOCK x BLOCK results; b is
 * turned a block of columns at a time. */
static void product_of_rows(int64_t m, int64_t n, int64_t columns, const float *a, int64_t a_row,
                            const float *b, int64_t b_row, float *out, int64_t out_row)
{
    float turned[BLOCK * BLOCK];
    for (int64_t d = 0; d < columns; d += BLOCK) {
        int64_t depth = plm_min(BLOCK, columns - d);
        plm_turn(b + d, b_row, n, depth, 1.0f, turned, BLOCK);
        plm_small_product(m, n, depth, (plm_view){a + d, a_row, 1}, turned, BLOCK, out, out_row,
                          d > 0);
    }
}

static void scale_block(float *block, int64_t row, int64_t rows, int64_t columns, float scale)
{
    for (int64_t r = 0; r < rows; r++)
#pragma omp simd
        for (int64_t c = 0; c < columns; c++)
            block[r * row + c] *= scale;
}

/* The strip [rows, T] of scores from row `first` on: scale a_i b_j, `masked` right of the diagonal.
 */
static void score_strip(const plm_attention_shape *s, int64_t first, const float *a, int64_t a_row,
                        const float *b, float scale, float masked, float *strip)
{
    int64_t rows = plm_min(BLOCK, s->positions - first), b_row = 3 * s->width;
    int64_t end = s->causal ? first + rows : s->positions;
    for (int64_t j = 0; j < end; j += BLOCK)
        product_of_rows(rows, plm_min(BLOCK, end - j), s->head_width, a + first * a_row, a_row,
                        b + j * b_row, b_row, strip + j, s->positions);
    scale_block(strip, s->positions, rows, end, scale);
    for (int64_t i = 0; s->causal && i < rows; i++)
        for (int64_t j = first + i + 1; j < s->positions; j++)
            strip[i * s->positions + j] = masked;
}

void KERNEL(attention_scores)(const plm_launch *launch, int threads)
{
    plm_attention_shape s = plm_attention_shape_of(launch, &launch->in[0]);
    const float *qkv = launch->in[0].data; /* [B,T,3C] */
    float *scores = launch->out[0].data;   /* [B,H,T,T] */
#pragma omp parallel for num_threads(threads) schedule(dynamic) collapse(2)
    for (int64_t head = 0; head < s.batch * s.heads; head++)
        for (int64_t i = 0; i < s.positions; i += BLOCK) {
            int64_t b = head / s.heads, h = head % s.heads;
            score_strip(&s, i, qkv + plm_packed_at(&s, b, h, 0), 3 * s.width,
                        qkv + plm_packed_at(&s, b, h, 1), s.scale, -INFINITY,
                        scores + (head * s.positions + i) * s.positions);
        }
}

/* dprobs = dout v^T */
void KERNEL(attention_grad_probs)(const plm_launch *launch, int threads)
{
    plm_attention_shape s = plm_attention_shape_of(launch, &launch->in[1]);
    const float *dout = launch->in[0].data, *qkv = launch->in[1].data; /* [B,T,C], [B,T,3C] */
    float *dprobs = launch->out[0].data;                               /* [B,H,T,T] */
#pragma omp parallel for num_threads(threads) schedule(dynamic) collapse(2)
    for (int64_t head = 0; head < s.batch * s.heads; head++)
        for (int64_t i = 0; i < s.positions; i += BLOCK) {
            int64_t b = head / s.heads, h = head % s.heads;
            score_strip(&s, i, dout + plm_plain_at(&s, b, h), s.width,
                        qkv + plm_packed_at(&s, b, h, 2), 1.0f, 0.0f,
                        dprobs + (head * s.positions + i) * s.positions);
        }
}

void KERNEL(attention_apply)(const plm_launch *launch, int threads)
{
    plm_attention_shape s = plm_attention_shape_of(launch, &launch->in[1]);
    const float *probs = launch->in[0].data; /* [B,H,T,T] */
    const float *qkv = launch->in[1].data;   /* [B,T,3C] */
    float *out = launch->out[0].data;        /* [B,T,C] */
#pragma omp parallel for num_threads(threads) schedule(dynamic) collapse(2)
    for (int64_t head = 0; head < s.batch * s.heads; head++)
        for (int64_t i = 0; i < s.positions; i += BLOCK) {
            int64_t b = head / s.heads, h = head % s.heads;
            int64_t rows = plm_min(BLOCK, s.positions - i);
            int64_t end = s.causal ? i + rows : s.positions;
            plm_small_product(
                rows, s.head_width, end,
                (plm_view){probs + (head * s.positions + i) * s.positions, s.positions, 1},
                qkv + plm_packed_at(&s, b, h, 2), 3 * s.width,
                out + plm_plain_at(&s, b, h) + i * s.width, s.width, false);
        }
}

/* dv = probs^T dout, dq = dscores k / sqrt(D), dk = dscores^T q / sqrt(D), for one head; qkv and
 * dqkv are at the head's queries, keys and values follow C and 2C later. */
static void grad_qkv_head(const plm_attention_shape *s, const float *dout, const float *qkv,
                          const float *probs, const float *dscores, float *dqkv)
{
    int64_t positions = s->positions, row = 3 * s->width, width = s->head_width;
    const float *q = qkv, *k = qkv + s->width;
    float *dq = dqkv, *dk = dqkv + s->width, *dv = dqkv + 2 * s->width;
    for (int64_t block = 0; block < positions; block += BLOCK) {
        int64_t count = plm_min(BLOCK, positions - block);
        /* As queries, they see the keys up to `end`; as keys, the queries from `begin` see them. */
        int64_t end = s->causal ? block + count : positions, begin = s->causal ? block : 0;
        plm_small_product(count, width, end, (plm_view){dscores + block * positions, positions, 1},
                          k, row, dq + block * row, row, false);
        plm_small_product(count, width, positions - begin,
                          (plm_view){dscores + begin * positions + block, 1, positions},
                          q + begin * row, row, dk + block * row, row, false);
        plm_small_product(count, width, positions - begin,
                          (plm_view){probs + begin * positions + block, 1, positions},
                          dout + begin * s->width, s->width, dv + block * row, row, false);
    }
    scale_block(dq, row, positions, width, s->scale);
    scale_block(dk, row, positions, width, s->scale);
}

void KERNEL(attention_grad_qkv)(const plm_launch *launch, int threads)
{
    plm_attention_shape s = plm_attention_shape_of(launch, &launch->in[1]);
    const float *dout = launch->in[0].data, *qkv = launch->in[1].data;      /* [B,T,C], [B,T,3C] */
    const float *probs = launch->in[2].data, *dscores = launch->in[3].data; /* [B,H,T,T] */
    float *dqkv = launch->out[0].data;                                      /* [B,T,3C] */
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t head = 0; head < s.batch * s.heads; head++) {
        int64_t b = head / s.heads, h = head % s.heads;
        int64_t packed = plm_packed_at(&s, b, h, 0), scores = head * s.positions * s.positions;
        grad_qkv_head(&s, dout + plm_plain_at(&s, b, h), qkv + packed, probs + scores,
                      dscores + scores, dqkv + packed);
    }
}
