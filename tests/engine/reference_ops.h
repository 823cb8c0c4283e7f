/* SPDX-License-Identifier: MIT */
/*
 * Every operation of graph/ops.def once more, in double precision and as naive as its formula: the
 * truth that kernels are tested against. Shapes are given by one set of extents.
 */
#ifndef PLM_REFERENCE_OPS_H
#define PLM_REFERENCE_OPS_H

#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "engine/op_table.h"

typedef struct reference {
    extents n;
    plm_op_attr attr;
    plm_step_record step;
    double *in[PLM_OP_INPUTS_MAX];
    const int32_t *ids[PLM_OP_INPUTS_MAX]; /* in their place where an input is int32 */
    int64_t in_count[PLM_OP_INPUTS_MAX];   /* elements */
    double *out[PLM_OP_OUTPUTS_MAX];
    int64_t out_count[PLM_OP_OUTPUTS_MAX];
    double *effect[PLM_OP_EFFECTS_MAX];
    int64_t effect_count[PLM_OP_EFFECTS_MAX];
} reference;

typedef void reference_op(reference *r);

/* An effect that sums: adds when accumulate, writes when not. */
static inline void ref_begin_effect(reference *r, int index)
{
    if (!r->attr.accumulate)
        memset(r->effect[index], 0, (size_t)r->effect_count[index] * sizeof(double));
}

static inline void ref_embedding(reference *r)
{
    for (int64_t i = 0; i < r->n.B * r->n.T; i++)
        for (int64_t c = 0; c < r->n.C; c++)
            r->out[0][i * r->n.C + c] = r->in[1][r->ids[0][i] * r->n.C + c];
}

static inline void ref_position(reference *r)
{
    for (int64_t i = 0; i < r->n.B * r->n.T; i++)
        for (int64_t c = 0; c < r->n.C; c++)
            r->out[0][i * r->n.C + c] =
                r->in[0][i * r->n.C + c] + r->in[1][i % r->n.T * r->n.C + c];
}

static inline void ref_layer_norm(reference *r)
{
    int64_t C = r->n.C;
    for (int64_t i = 0; i < r->n.B * r->n.T; i++) {
        const double *x = r->in[0] + i * C;
        double mean = 0, var = 0;
        for (int64_t c = 0; c < C; c++)
            mean += x[c] / (double)C;
        for (int64_t c = 0; c < C; c++)
            var += (x[c] - mean) * (x[c] - mean) / (double)C;
        double rstd = 1 / sqrt(var + (double)r->attr.epsilon);
        for (int64_t c = 0; c < C; c++)
            r->out[0][i * C + c] = (x[c] - mean) * rstd * r->in[1][c] + r->in[2][c];
        r->out[1][i] = mean;
        r->out[2][i] = rstd;
    }
}

static inline void ref_linear(reference *r)
{
    for (int64_t i = 0; i < r->n.B * r->n.T; i++)
        for (int64_t n = 0; n < r->n.N; n++) {
            double sum = r->in[2] ? r->in[2][n] : 0;
            for (int64_t k = 0; k < r->n.K; k++)
                sum += r->in[0][i * r->n.K + k] * r->in[1][n * r->n.K + k];
            r->out[0][i * r->n.N + n] = sum;
        }
}

static inline void ref_gelu(reference *r)
{
    for (int64_t i = 0; i < r->in_count[0]; i++) {
        double x = r->in[0][i];
        r->out[0][i] = x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    }
}

static inline void ref_gelu_exact(reference *r)
{
    for (int64_t i = 0; i < r->in_count[0]; i++)
        r->out[0][i] = r->in[0][i] / 2 * (1 + erf(r->in[0][i] / sqrt(2)));
}

static inline void ref_add(reference *r)
{
    for (int64_t i = 0; i < r->in_count[0]; i++)
        r->out[0][i] = r->in[0][i] + r->in[1][i];
}

static inline void ref_dropout(reference *r)
{
    for (int64_t b = 0; b < r->n.B; b++)
        for (int64_t t = 0; t < r->n.T; t++)
            for (int64_t c = 0; c < r->n.C; c++) {
                int64_t at = (b * r->n.T + t) * r->n.C + c;
                uint64_t e =
                    (uint64_t)((r->step.sample_offset + b) * r->n.T + t) * (uint64_t)r->n.C +
                    (uint64_t)c;
                uint32_t word =
                    plm__philox_at(r->step.seed, r->step.step, r->attr.site, e / 4).word[e % 4];
                bool keep = plm__philox_unit(word) >= r->attr.probability;
                r->out[0][at] = keep ? r->in[0][at] / (1 - (double)r->attr.probability) : 0;
            }
}

/* Places in packed [B,T,(H+2G)D], of the queries (part 0) of head h or of the keys (1) or values
 * (2) that it shares, and in [B,T,HD]. */
static inline int64_t ref_packed(const reference *r, int64_t b, int64_t t, int part, int64_t h,
                                 int64_t d)
{
    int64_t D = head_size_of(&r->n), H = r->n.H, G = key_heads_of(&r->n);
    int64_t begin = part == 0 ? 0 : part == 1 ? H : H + G;
    return ((b * r->n.T + t) * (H + 2 * G) + begin + (part == 0 ? h : h * G / H)) * D + d;
}

static inline int64_t ref_plain(const reference *r, int64_t b, int64_t t, int64_t h, int64_t d)
{
    return ((b * r->n.T + t) * r->n.H + h) * head_size_of(&r->n) + d;
}

static inline double ref_score(const reference *r, const double *qkv, int64_t b, int64_t h,
                               int64_t i, int64_t j)
{
    int64_t D = head_size_of(&r->n);
    if (r->attr.causal && j > i)
        return -INFINITY;
    double sum = 0;
    for (int64_t d = 0; d < D; d++)
        sum += qkv[ref_packed(r, b, i, 0, h, d)] * qkv[ref_packed(r, b, j, 1, h, d)];
    return sum / sqrt((double)D);
}

static inline void ref_attention(reference *r)
{
    int64_t T = r->n.T, D = head_size_of(&r->n);
    for (int64_t b = 0; b < r->n.B; b++)
        for (int64_t h = 0; h < r->n.H; h++)
            for (int64_t i = 0; i < T; i++) {
                double sum = 0;
                for (int64_t j = 0; j < T; j++)
                    sum += exp(ref_score(r, r->in[0], b, h, i, j));
                r->out[1][(b * r->n.H + h) * T + i] = log(sum);
                for (int64_t d = 0; d < D; d++)
                    r->out[0][ref_plain(r, b, i, h, d)] = 0;
                for (int64_t j = 0; j < T; j++) {
                    double prob = exp(ref_score(r, r->in[0], b, h, i, j)) / sum;
                    for (int64_t d = 0; d < D; d++)
                        r->out[0][ref_plain(r, b, i, h, d)] +=
                            prob * r->in[0][ref_packed(r, b, j, 2, h, d)];
                }
            }
}

static inline void ref_attention_scores(reference *r)
{
    double *to = r->out[0];
    for (int64_t b = 0; b < r->n.B; b++)
        for (int64_t h = 0; h < r->n.H; h++)
            for (int64_t i = 0; i < r->n.T; i++)
                for (int64_t j = 0; j < r->n.T; j++)
                    *to++ = ref_score(r, r->in[0], b, h, i, j);
}

/* Rows as long as the last extent of a square tensor [B,H,T,T]. */
static inline void ref_softmax(reference *r)
{
    int64_t N = r->n.T;
    for (int64_t row = 0; N > 0 && row < r->in_count[0] / N; row++) {
        const double *x = r->in[0] + row * N;
        double top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < N; i++)
            top = fmax(top, x[i]);
        for (int64_t i = 0; i < N; i++)
            sum += exp(x[i] - top);
        for (int64_t i = 0; i < N; i++)
            r->out[0][row * N + i] = exp(x[i] - top) / sum;
    }
}

static inline void ref_attention_apply(reference *r)
{
    int64_t T = r->n.T;
    for (int64_t b = 0; b < r->n.B; b++)
        for (int64_t h = 0; h < r->n.H; h++)
            for (int64_t i = 0; i < T; i++)
                for (int64_t d = 0; d < head_size_of(&r->n); d++) {
                    double sum = 0;
                    for (int64_t j = 0; j < T; j++)
                        sum += r->in[0][((b * r->n.H + h) * T + i) * T + j] *
                               r->in[1][ref_packed(r, b, j, 2, h, d)];
                    r->out[0][ref_plain(r, b, i, h, d)] = sum;
                }
}

static inline void ref_select(reference *r)
{
    for (int64_t b = 0; b < r->n.B; b++)
        for (int64_t c = 0; c < r->n.C; c++)
            r->out[0][b * r->n.C + c] = r->in[0][(b * r->n.T + r->step.position) * r->n.C + c];
}

static inline void ref_cross_entropy(reference *r)
{
    for (int64_t i = 0; i < r->n.B * r->n.T; i++) {
        const double *x = r->in[0] + i * r->n.V;
        double sum = 0;
        for (int64_t v = 0; v < r->attr.columns; v++)
            sum += exp(x[v]);
        r->out[1][i] = log(sum);
        r->out[0][i] = r->ids[1][i] < 0 ? 0 : log(sum) - x[r->ids[1][i]];
    }
}

static inline void ref_loss_sum(reference *r)
{
    for (int64_t i = 0; i < r->in_count[0]; i++)
        r->step.loss_sum += r->in[0][i];
}

static inline void ref_embedding_grad(reference *r)
{
    ref_begin_effect(r, 0);
    for (int64_t i = 0; i < r->n.B * r->n.T; i++)
        for (int64_t c = 0; c < r->n.C; c++)
            r->effect[0][r->ids[0][i] * r->n.C + c] += r->in[1][i * r->n.C + c];
}

static inline void ref_position_grad(reference *r)
{
    ref_begin_effect(r, 0);
    for (int64_t i = 0; i < r->n.B * r->n.T; i++)
        for (int64_t c = 0; c < r->n.C; c++)
            r->effect[0][i % r->n.T * r->n.C + c] += r->in[0][i * r->n.C + c];
}

static inline void ref_layer_norm_grad_input(reference *r)
{
    int64_t C = r->n.C;
    for (int64_t i = 0; i < r->n.B * r->n.T; i++) {
        const double *dy = r->in[0] + i * C, *x = r->in[1] + i * C;
        double mean = r->in[3][i], rstd = r->in[4][i], mean_g = 0, mean_xhat = 0;
        for (int64_t c = 0; c < C; c++) {
            mean_g += dy[c] * r->in[2][c] / (double)C;
            mean_xhat += dy[c] * r->in[2][c] * (x[c] - mean) * rstd / (double)C;
        }
        for (int64_t c = 0; c < C; c++)
            r->out[0][i * C + c] =
                rstd * (dy[c] * r->in[2][c] - mean_g - (x[c] - mean) * rstd * mean_xhat);
    }
}

static inline void ref_layer_norm_grad_weight(reference *r)
{
    int64_t C = r->n.C;
    ref_begin_effect(r, 0);
    ref_begin_effect(r, 1);
    for (int64_t i = 0; i < r->n.B * r->n.T; i++)
        for (int64_t c = 0; c < C; c++) {
            double dy = r->in[0][i * C + c];
            r->effect[0][c] += dy * (r->in[1][i * C + c] - r->in[2][i]) * r->in[3][i];
            r->effect[1][c] += dy;
        }
}

static inline void ref_linear_grad_input(reference *r)
{
    for (int64_t i = 0; i < r->n.B * r->n.T; i++)
        for (int64_t k = 0; k < r->n.K; k++) {
            double sum = 0;
            for (int64_t n = 0; n < r->n.N; n++)
                sum += r->in[0][i * r->n.N + n] * r->in[1][n * r->n.K + k];
            r->out[0][i * r->n.K + k] = sum;
        }
}

static inline void ref_linear_grad_weight(reference *r)
{
    ref_begin_effect(r, 0);
    for (int64_t i = 0; i < r->n.B * r->n.T; i++)
        for (int64_t n = 0; n < r->n.N; n++)
            for (int64_t k = 0; k < r->n.K; k++)
                r->effect[0][n * r->n.K + k] += r->in[1][i * r->n.N + n] * r->in[0][i * r->n.K + k];
}

static inline void ref_linear_grad_bias(reference *r)
{
    ref_begin_effect(r, 0);
    for (int64_t i = 0; i < r->n.B * r->n.T; i++)
        for (int64_t n = 0; n < r->n.N; n++)
            r->effect[0][n] += r->in[0][i * r->n.N + n];
}

static inline void ref_gelu_grad(reference *r)
{
    for (int64_t i = 0; i < r->in_count[0]; i++) {
        double x = r->in[1][i], slope = sqrt(2 / M_PI);
        double th = tanh(slope * (x + 0.044715 * x * x * x));
        r->out[0][i] = r->in[0][i] *
                       ((1 + th) / 2 + x / 2 * (1 - th * th) * slope * (1 + 3 * 0.044715 * x * x));
    }
}

static inline void ref_gelu_exact_grad(reference *r)
{
    for (int64_t i = 0; i < r->in_count[0]; i++) {
        double x = r->in[1][i];
        r->out[0][i] =
            r->in[0][i] * ((1 + erf(x / sqrt(2))) / 2 + x * exp(-x * x / 2) / sqrt(2 * M_PI));
    }
}

/* dq, dk and dv of one pair of positions, given its probability and its score's gradient. */
static inline void ref_attention_pair(reference *r, const double *dout, const double *qkv,
                                      int64_t b, int64_t h, int64_t i, int64_t j, double prob,
                                      double dscore)
{
    int64_t D = head_size_of(&r->n);
    double scale = 1 / sqrt((double)D), *d_qkv = r->out[0];
    for (int64_t d = 0; d < D; d++) {
        d_qkv[ref_packed(r, b, j, 2, h, d)] += prob * dout[ref_plain(r, b, i, h, d)];
        d_qkv[ref_packed(r, b, i, 0, h, d)] += scale * dscore * qkv[ref_packed(r, b, j, 1, h, d)];
        d_qkv[ref_packed(r, b, j, 1, h, d)] += scale * dscore * qkv[ref_packed(r, b, i, 0, h, d)];
    }
}

static inline void ref_attention_grad(reference *r)
{
    const double *dout = r->in[0], *qkv = r->in[1], *out = r->in[2], *lse = r->in[3];
    int64_t D = head_size_of(&r->n), T = r->n.T;
    memset(r->out[0], 0, (size_t)r->out_count[0] * sizeof(double));
    for (int64_t row = 0; row < r->n.B * r->n.H * T; row++) {
        int64_t b = row / (r->n.H * T), h = row / T % r->n.H, i = row % T;
        double delta = 0;
        for (int64_t d = 0; d < D; d++)
            delta += dout[ref_plain(r, b, i, h, d)] * out[ref_plain(r, b, i, h, d)];
        for (int64_t j = 0; j < T; j++) {
            double prob = exp(ref_score(r, qkv, b, h, i, j) - lse[row]), dprob = 0;
            for (int64_t d = 0; d < D; d++)
                dprob += dout[ref_plain(r, b, i, h, d)] * qkv[ref_packed(r, b, j, 2, h, d)];
            ref_attention_pair(r, dout, qkv, b, h, i, j, prob, prob * (dprob - delta));
        }
    }
}

static inline void ref_attention_grad_probs(reference *r)
{
    int64_t T = r->n.T;
    for (int64_t row = 0; row < r->n.B * r->n.H * T; row++)
        for (int64_t j = 0; j < T; j++) {
            int64_t b = row / (r->n.H * T), h = row / T % r->n.H, i = row % T;
            double sum = 0;
            for (int64_t d = 0; d < head_size_of(&r->n); d++)
                sum += r->in[0][ref_plain(r, b, i, h, d)] * r->in[1][ref_packed(r, b, j, 2, h, d)];
            r->out[0][row * T + j] = r->attr.causal && j > i ? 0 : sum;
        }
}

static inline void ref_softmax_grad(reference *r)
{
    int64_t N = r->n.T;
    for (int64_t row = 0; N > 0 && row < r->in_count[0] / N; row++) {
        double sum = 0;
        for (int64_t i = 0; i < N; i++)
            sum += r->in[0][row * N + i] * r->in[1][row * N + i];
        for (int64_t i = 0; i < N; i++)
            r->out[0][row * N + i] = r->in[1][row * N + i] * (r->in[0][row * N + i] - sum);
    }
}

static inline void ref_attention_grad_qkv(reference *r)
{
    int64_t T = r->n.T;
    memset(r->out[0], 0, (size_t)r->out_count[0] * sizeof(double));
    for (int64_t row = 0; row < r->n.B * r->n.H * T; row++)
        for (int64_t j = 0; j < T; j++)
            ref_attention_pair(r, r->in[0], r->in[1], row / (r->n.H * T), row / T % r->n.H, row % T,
                               j, r->in[2][row * T + j], r->in[3][row * T + j]);
}

static inline void ref_cross_entropy_grad(reference *r)
{
    for (int64_t i = 0; i < r->n.B * r->n.T; i++)
        for (int64_t v = 0; v < r->n.V; v++) {
            double p = exp(r->in[0][i * r->n.V + v] - r->in[2][i]);
            double grad =
                (double)(r->step.loss_scale * r->step.inverse_count) * (p - (r->ids[1][i] == v));
            bool counts = r->ids[1][i] >= 0 && v < r->attr.columns;
            r->out[0][i * r->n.V + v] = counts ? grad : 0;
        }
}

static inline void ref_gradient_norm(reference *r)
{
    double sum = 0;
    for (int input = 0; input < PLM_OP_INPUTS_MAX; input++)
        for (int64_t i = 0; r->in[input] && i < r->in_count[input]; i++)
            sum += r->in[input][i] * r->in[input][i];
    double clip = (double)r->step.clip_norm, norm = sqrt(sum) / (double)r->step.loss_scale;
    r->step.gradient_norm = (float)norm;
    r->step.clip_scale = clip > 0 ? (float)fmin(1, clip / (norm + 1e-6)) : 1;
    r->step.gradient_factor = r->step.clip_scale / r->step.loss_scale;
    r->step.update_count++;
}

static inline void ref_gradient_part(reference *r)
{
    for (int64_t i = 0; i < r->in_count[0]; i++)
        r->step.square_sum += r->in[0][i] * r->in[0][i];
}

static inline void ref_adamw(reference *r)
{
    const plm_step_record *s = &r->step;
    double beta1 = (double)s->beta1, beta2 = (double)s->beta2;
    for (int64_t i = 0; i < r->in_count[0]; i++) {
        double g = (double)s->gradient_factor * r->in[0][i];
        double *p = r->effect[0] + i, *m = r->effect[1] + i, *v = r->effect[2] + i;
        *m = beta1 * *m + (1 - beta1) * g;
        *v = beta2 * *v + (1 - beta2) * g * g;
        double step = *m / (1 - pow(beta1, s->update_count)) /
                      (sqrt(*v / (1 - pow(beta2, s->update_count))) + (double)s->epsilon);
        double decay = r->attr.decay ? (double)s->weight_decay : 0;
        *p -= (double)s->learning_rate * (step + decay * *p);
    }
}

static inline void ref_sgd(reference *r)
{
    const plm_step_record *s = &r->step;
    double decay = r->attr.decay ? (double)s->weight_decay : 0;
    for (int64_t i = 0; i < r->in_count[0]; i++) {
        double *p = r->effect[0] + i, *m = r->effect[1] + i;
        *m = (double)s->momentum * *m + (double)s->gradient_factor * r->in[0][i] + decay * *p;
        *p -= (double)s->learning_rate * *m;
    }
}

static inline void ref_cast(reference *r)
{
    for (int64_t i = 0; i < r->in_count[0]; i++)
        r->effect[0][i] = r->in[0][i];
}

static inline void ref_init_normal(reference *r)
{
    for (int64_t e = 0; e < r->effect_count[0]; e++) {
        plm_philox four = plm__philox_at(r->step.seed, 0, r->attr.site, (uint64_t)e / 4);
        const uint32_t *pair = four.word + e % 4 / 2 * 2;
        double radius = sqrt(-2 * log(1 - (double)plm__philox_unit(pair[0])));
        double angle = 2 * M_PI * (double)plm__philox_unit(pair[1]);
        r->effect[0][e] = (double)r->attr.scale * radius * (e % 2 ? sin(angle) : cos(angle));
    }
}

static inline void ref_init_constant(reference *r)
{
    for (int64_t e = 0; e < r->effect_count[0]; e++)
        r->effect[0][e] = (double)r->attr.scale;
}

#endif
