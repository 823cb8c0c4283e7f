/* SPDX-License-Identifier: MIT */
/*
 * Fused attention of our own, forward and backward: linear in T, any type, any head size up to 256,
 * the same bits on every run. It runs where cuDNN's is not to be had or not to be trusted; which of
 * the two runs is a pure function of shape, type and versions.
 *
 * A block of threads owns a tile of rows and walks over the tiles of the other side:
 *   forward, dq      a tile of queries against all the keys that they see
 *   dk and dv        a tile of keys against all the queries that see it, of every head that shares
 * it so that each result is summed by one block in one order.
 *
 * qkv [B,T,(H+2G)D], packed q|k|v; head h of q shares the key and value head h / (H / G).
 */
#include "device/cuda/kernel/values.cuh"

enum { ROWS = 32, KEYS = 32, THREADS = 256 };

struct shape {
    int64_t length;       /* T */
    int heads, key_heads; /* H, G */
    int size;             /* D */
    int causal;
    float scale; /* 1 / sqrt(D) */
};

/* Where head `h` of part 0 (q), 1 (k), 2 (v) begins in sequence b, and the step from row to row. */
template <typename T>
__device__ static T *part_of(T *qkv, const shape &s, int64_t b, int part, int h)
{
    int64_t width = (int64_t)(s.heads + 2 * s.key_heads) * s.size;
    int64_t first = part == 0 ? 0 : s.heads + (part - 1) * s.key_heads;
    return qkv + b * s.length * width + (first + h) * s.size;
}

__device__ static int64_t row_step(const shape &s)
{
    return (int64_t)(s.heads + 2 * s.key_heads) * s.size;
}

/* tile[r,d] = from[first + r, d], 0 beyond the end    [rows, D], rows padded by one against banks
 */
template <typename T>
__device__ static void load_tile(float *tile, const T *from, int64_t step, int64_t first, int rows,
                                 int64_t length, int size)
{
    for (int i = threadIdx.x; i < rows * size; i += THREADS) {
        int r = i / size, d = i % size;
        tile[r * (size + 1) + d] = first + r < length ? get(from[(first + r) * step + d]) : 0.0f;
    }
}

/* out[r,c] = sum_d a[r,d] b[c,d]    a [ROWS,D], b [KEYS,D] -> [ROWS,KEYS] */
__device__ static void dot_tiles(float *out, const float *a, const float *b, int size)
{
    for (int i = threadIdx.x; i < ROWS * KEYS; i += THREADS) {
        const float *left = a + i / KEYS * (size + 1), *right = b + i % KEYS * (size + 1);
        float sum = 0.0f;
        for (int d = 0; d < size; d++)
            sum += left[d] * right[d];
        out[i / KEYS * (KEYS + 1) + i % KEYS] = sum;
    }
}

/* out = softmax(mask(q k^T scale)) v, lse = log sum exp    -> out [B,T,HD], lse [B,H,T]
   grid (tiles of queries, H, B) */
template <typename T> __device__ static void attention(const T *qkv, T *out, float *lse, shape s)
{
    extern __shared__ float room[];
    int wide = s.size + 1;
    float *q = room, *kv = q + ROWS * wide, *sum = kv + KEYS * wide, *scores = sum + ROWS * wide;
    float *most = scores + ROWS * (KEYS + 1), *total = most + ROWS, *shrink = total + ROWS;
    int64_t first = (int64_t)blockIdx.x * ROWS, b = blockIdx.z;
    int h = blockIdx.y, shared_head = h / (s.heads / s.key_heads);
    const T *keys = part_of(qkv, s, b, 1, shared_head),
            *values = part_of(qkv, s, b, 2, shared_head);
    load_tile(q, part_of(qkv, s, b, 0, h), row_step(s), first, ROWS, s.length, s.size);
    for (int i = threadIdx.x; i < ROWS * wide; i += THREADS)
        sum[i] = 0.0f;
    for (int r = threadIdx.x; r < ROWS; r += THREADS) {
        most[r] = -INFINITY;
        total[r] = 0.0f;
    }
    int64_t end = s.causal && first + ROWS < s.length ? first + ROWS : s.length;
    for (int64_t key = 0; key < end; key += KEYS) {
        __syncthreads();
        load_tile(kv, keys, row_step(s), key, KEYS, s.length, s.size);
        __syncthreads();
        dot_tiles(scores, q, kv, s.size);
        __syncthreads();
        load_tile(kv, values, row_step(s), key, KEYS, s.length, s.size);
        for (int r = threadIdx.x / 32; r < ROWS; r += THREADS / 32) { /* a warp a row */
            int c = threadIdx.x % 32;
            bool is_seen = key + c < s.length && (!s.causal || key + c <= first + r);
            float score = is_seen ? scores[r * (KEYS + 1) + c] * s.scale : -INFINITY;
            float now = fmaxf(most[r], warp_max(score));
            float p = is_seen ? expf(score - now) : 0.0f;
            scores[r * (KEYS + 1) + c] = p;
            p = warp_sum(p);
            if (c == 0) {
                shrink[r] = now == -INFINITY ? 1.0f : expf(most[r] - now);
                total[r] = total[r] * shrink[r] + p;
                most[r] = now;
            }
        }
        __syncthreads();
        for (int i = threadIdx.x; i < ROWS * s.size; i += THREADS) {
            int r = i / s.size, d = i % s.size;
            float value = sum[r * wide + d] * shrink[r];
            for (int c = 0; c < KEYS; c++)
                value += scores[r * (KEYS + 1) + c] * kv[c * wide + d];
            sum[r * wide + d] = value;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < ROWS * s.size; i += THREADS) {
        int r = i / s.size, d = i % s.size;
        if (first + r < s.length)
            out[((b * s.length + first + r) * s.heads + h) * s.size + d] =
                put<T>(sum[r * wide + d] / total[r]);
    }
    for (int r = threadIdx.x; r < ROWS && first + r < s.length; r += THREADS)
        lse[(b * s.heads + h) * s.length + first + r] = most[r] + logf(total[r]);
}

/* delta[b,h,t] = sum_d dout out    dout, out [B,T,HD]; one warp a (t, h, b) */
template <typename T>
__device__ static void attention_delta(const T *dout, const T *out, float *delta, int64_t count,
                                       shape s)
{
    int64_t i = thread_of_grid() / 32; /* (b T + t) H + h */
    if (i >= count)
        return;
    float sum = 0.0f;
    for (int d = threadIdx.x % 32; d < s.size; d += 32)
        sum += get(dout[i * s.size + d]) * get(out[i * s.size + d]);
    sum = warp_sum(sum);
    int64_t h = i % s.heads, t = i / s.heads % s.length, b = i / s.heads / s.length;
    if (threadIdx.x % 32 == 0)
        delta[(b * s.heads + h) * s.length + t] = sum;
}

/* What makes probabilities and their gradients again for a tile: P = exp(q k^T scale - lse), and
   dS = P (dout v^T - delta); `p` and `ds` [ROWS,KEYS]. */
__device__ static void again(float *p, float *ds, const float *lse, const float *delta, int64_t row,
                             int64_t key, const shape &s)
{
    for (int i = threadIdx.x; i < ROWS * KEYS; i += THREADS) {
        int r = i / KEYS, c = i % KEYS, at = r * (KEYS + 1) + c;
        bool is_seen =
            row + r < s.length && key + c < s.length && (!s.causal || key + c <= row + r);
        float probability = is_seen ? expf(p[at] * s.scale - lse[row + r]) : 0.0f;
        p[at] = probability;
        ds[at] = is_seen ? probability * (ds[at] - delta[row + r]) : 0.0f;
    }
}

/* dq = dS k scale    grid (tiles of queries, H, B) */
template <typename T>
__device__ static void attention_grad_q(const T *dout, const T *qkv, const float *lse,
                                        const float *delta, T *dqkv, shape s)
{
    extern __shared__ float room[];
    int wide = s.size + 1;
    float *q = room, *d_out = q + ROWS * wide, *kv = d_out + ROWS * wide, *sum = kv + KEYS * wide;
    float *p = sum + ROWS * wide, *ds = p + ROWS * (KEYS + 1);
    int64_t first = (int64_t)blockIdx.x * ROWS, b = blockIdx.z;
    int h = blockIdx.y, shared_head = h / (s.heads / s.key_heads);
    const T *keys = part_of(qkv, s, b, 1, shared_head),
            *values = part_of(qkv, s, b, 2, shared_head);
    lse += (b * s.heads + h) * s.length;
    delta += (b * s.heads + h) * s.length;
    load_tile(q, part_of(qkv, s, b, 0, h), row_step(s), first, ROWS, s.length, s.size);
    load_tile(d_out, dout + (b * s.length * s.heads + h) * s.size, (int64_t)s.heads * s.size, first,
              ROWS, s.length, s.size);
    for (int i = threadIdx.x; i < ROWS * wide; i += THREADS)
        sum[i] = 0.0f;
    int64_t end = s.causal && first + ROWS < s.length ? first + ROWS : s.length;
    for (int64_t key = 0; key < end; key += KEYS) {
        __syncthreads();
        load_tile(kv, values, row_step(s), key, KEYS, s.length, s.size);
        __syncthreads();
        dot_tiles(ds, d_out, kv, s.size);
        __syncthreads();
        load_tile(kv, keys, row_step(s), key, KEYS, s.length, s.size);
        __syncthreads();
        dot_tiles(p, q, kv, s.size);
        __syncthreads();
        again(p, ds, lse, delta, first, key, s);
        __syncthreads();
        for (int i = threadIdx.x; i < ROWS * s.size; i += THREADS) {
            int r = i / s.size, d = i % s.size;
            float value = 0.0f;
            for (int c = 0; c < KEYS; c++)
                value += ds[r * (KEYS + 1) + c] * kv[c * wide + d];
            sum[r * wide + d] += value;
        }
    }
    __syncthreads();
    T *dq = part_of(dqkv, s, b, 0, h);
    for (int i = threadIdx.x; i < ROWS * s.size; i += THREADS) {
        int r = i / s.size, d = i % s.size;
        if (first + r < s.length)
            dq[(first + r) * row_step(s) + d] = put<T>(sum[r * wide + d] * s.scale);
    }
}

/* dk = dS^T q scale, dv = P^T dout, over the heads that share them    grid (tiles of keys, G, B) */
template <typename T>
__device__ static void attention_grad_kv(const T *dout, const T *qkv, const float *lse,
                                         const float *delta, T *dqkv, shape s)
{
    extern __shared__ float room[];
    int wide = s.size + 1;
    float *side = room, *kv = side + ROWS * wide, *sum_k = kv + KEYS * wide;
    float *sum_v = sum_k + KEYS * wide, *p = sum_v + KEYS * wide, *ds = p + ROWS * (KEYS + 1);
    int64_t key = (int64_t)blockIdx.x * KEYS, b = blockIdx.z;
    int shared_head = blockIdx.y, group = s.heads / s.key_heads;
    for (int i = threadIdx.x; i < KEYS * wide; i += THREADS)
        sum_k[i] = sum_v[i] = 0.0f;
    for (int h = shared_head * group; h < (shared_head + 1) * group; h++) {
        const T *q = part_of(qkv, s, b, 0, h),
                *d_out = dout + (b * s.length * s.heads + h) * s.size;
        const float *lse_h = lse + (b * s.heads + h) * s.length;
        const float *delta_h = delta + (b * s.heads + h) * s.length;
        for (int64_t row = s.causal ? key / ROWS * ROWS : 0; row < s.length; row += ROWS) {
            __syncthreads();
            load_tile(kv, part_of(qkv, s, b, 1, shared_head), row_step(s), key, KEYS, s.length,
                      s.size);
            load_tile(side, q, row_step(s), row, ROWS, s.length, s.size);
            __syncthreads();
            dot_tiles(p, side, kv, s.size);
            __syncthreads();
            load_tile(kv, part_of(qkv, s, b, 2, shared_head), row_step(s), key, KEYS, s.length,
                      s.size);
            load_tile(side, d_out, (int64_t)s.heads * s.size, row, ROWS, s.length, s.size);
            __syncthreads();
            dot_tiles(ds, side, kv, s.size);
            __syncthreads();
            again(p, ds, lse_h, delta_h, row, key, s);
            __syncthreads();
            for (int i = threadIdx.x; i < KEYS * s.size; i += THREADS) {
                int c = i / s.size, d = i % s.size;
                float value = 0.0f;
                for (int r = 0; r < ROWS; r++)
                    value += p[r * (KEYS + 1) + c] * side[r * wide + d];
                sum_v[c * wide + d] += value;
            }
            __syncthreads();
            load_tile(side, q, row_step(s), row, ROWS, s.length, s.size);
            __syncthreads();
            for (int i = threadIdx.x; i < KEYS * s.size; i += THREADS) {
                int c = i / s.size, d = i % s.size;
                float value = 0.0f;
                for (int r = 0; r < ROWS; r++)
                    value += ds[r * (KEYS + 1) + c] * side[r * wide + d];
                sum_k[c * wide + d] += value;
            }
        }
    }
    __syncthreads();
    T *dk = part_of(dqkv, s, b, 1, shared_head), *dv = part_of(dqkv, s, b, 2, shared_head);
    for (int i = threadIdx.x; i < KEYS * s.size; i += THREADS) {
        int c = i / s.size, d = i % s.size;
        if (key + c >= s.length)
            continue;
        dk[(key + c) * row_step(s) + d] = put<T>(sum_k[c * wide + d] * s.scale);
        dv[(key + c) * row_step(s) + d] = put<T>(sum_v[c * wide + d]);
    }
}

#define ATTENTION(T) (const T *qkv, T *out, float *lse, shape s)
#define DELTA(T)     (const T *dout, const T *out, float *delta, int64_t count, shape s)
#define GRAD(T)                                                                                    \
    (const T *dout, const T *qkv, const float *lse, const float *delta, T *dqkv, shape s)
TYPED(attention, ATTENTION, (qkv, out, lse, s))
TYPED(attention_delta, DELTA, (dout, out, delta, count, s))
TYPED(attention_grad_q, GRAD, (dout, qkv, lse, delta, dqkv, s))
TYPED(attention_grad_kv, GRAD, (dout, qkv, lse, delta, dqkv, s))
