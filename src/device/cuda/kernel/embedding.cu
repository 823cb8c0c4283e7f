/* SPDX-License-Identifier: MIT */
/*
 * Tables looked up by ids and by positions, their gradients, and the choice of one position.
 *
 * The gradient of a table row is the sum over the positions that hold its id. To add them in the
 * order of the positions whatever block comes first, the positions are sorted by id: a radix sort
 * of 8 bits a pass, each pass stable. Example with ids 7 2 7 5: sorted ids 2 5 7 7, places 1 3 0 2;
 * row 7 is then dy[0] + dy[2].
 */
#include "graph/step_record.h"
#include "device/cuda/kernel/values.cuh"

enum { TILE = 4096, DIGITS = 256 }; /* as device/target/cuda_workspace.c reckons with */

/* out[r,:] = table[ids[r],:]    ids [R], table [V,C] -> [R,C]; one block a row */
template <typename T>
__device__ static void embedding(const int32_t *ids, const T *table, T *out, int width)
{
    int64_t row = blockIdx.x;
    table += (int64_t)ids[row] * width;
    out += row * width;
    for (int c = threadIdx.x; c < width; c += blockDim.x)
        out[c] = table[c];
}

/* out[b,t,:] = x[b,t,:] + table[t,:]    x [B,T,C], table [P,C]; one block a row */
template <typename T>
__device__ static void position(const T *x, const T *table, T *out, int64_t length, int width)
{
    int64_t row = blockIdx.x;
    table += row % length * width;
    x += row * width;
    out += row * width;
    for (int c = threadIdx.x; c < width; c += blockDim.x)
        out[c] = put<T>(get(x[c]) + get(table[c]));
}

/* dtable[t,:] = or += sum_b dy[b,t,:]; rows from T on unchanged, or 0    dy [B,T,C], dtable [P,C]
 */
template <typename T, typename G>
__device__ static void position_grad(const T *dy, G *dtable, int64_t batch, int64_t length,
                                     int width, int accumulate)
{
    int64_t t = blockIdx.x;
    dtable += t * width;
    for (int c = threadIdx.x; c < width; c += blockDim.x) {
        float sum = 0.0f;
        for (int64_t b = 0; b < batch && t < length; b++)
            sum += get(dy[(b * length + t) * width + c]);
        if (!accumulate)
            dtable[c] = put<G>(sum);
        else if (t < length)
            dtable[c] = put<G>(get(dtable[c]) + sum);
    }
}

/* out[b,:] = x[b,step.position,:]    x [B,T,C] -> [B,C]; one block a row */
template <typename T>
__device__ static void select_position(const T *x, T *out, int64_t length, int width,
                                       const plm_step_record *step)
{
    int64_t row = blockIdx.x;
    x += (row * length + step->position) * width;
    out += row * width;
    for (int c = threadIdx.x; c < width; c += blockDim.x)
        out[c] = x[c];
}

/* ---- the sort ---- */

/* counts[d, tile] = how often digit d occurs in the tile; blocks of 256 threads, one a tile */
extern "C" __global__ void sort_count(const int32_t *ids, int64_t count, int shift, int32_t *counts)
{
    __shared__ int32_t seen[DIGITS];
    int64_t first = (int64_t)blockIdx.x * TILE;
    seen[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t i = first + threadIdx.x; i < first + TILE && i < count; i += blockDim.x)
        atomicAdd(&seen[ids[i] >> shift & (DIGITS - 1)], 1);
    __syncthreads();
    counts[(int64_t)threadIdx.x * gridDim.x + blockIdx.x] = seen[threadIdx.x];
}

/* Each count becomes the sum of those before it; one block of 256 threads, each with its share. */
extern "C" __global__ void sort_scan(int32_t *counts, int64_t count)
{
    __shared__ int32_t sums[DIGITS];
    int64_t each = (count + DIGITS - 1) / DIGITS, first = threadIdx.x * each;
    int32_t sum = 0;
    for (int64_t i = first; i < first + each && i < count; i++)
        sum += counts[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    int32_t before = 0;
    for (int t = 0; t < (int)threadIdx.x; t++)
        before += sums[t];
    for (int64_t i = first; i < first + each && i < count; i++) {
        int32_t here = counts[i];
        counts[i] = before;
        before += here;
    }
}

/*
 * Each id and its place go behind all smaller digits and behind the equal ones before them. One
 * warp a tile, 32 ids at a time, in order: lanes of one digit find each other and keep their order.
 * places_in NULL: the first pass, whose places are 0, 1, 2, ...
 */
extern "C" __global__ void sort_move(const int32_t *ids_in, const int32_t *places_in, int64_t count,
                                     int shift, const int32_t *counts, int32_t *ids_out,
                                     int32_t *places_out)
{
    __shared__ int32_t next[DIGITS];
    int lane = threadIdx.x;
    int64_t first = (int64_t)blockIdx.x * TILE;
    for (int d = lane; d < DIGITS; d += 32)
        next[d] = counts[(int64_t)d * gridDim.x + blockIdx.x];
    __syncwarp();
    for (int64_t i = first + lane; i - lane < first + TILE && i - lane < count; i += 32) {
        bool is_there = i < count;
        int32_t id = is_there ? ids_in[i] : 0;
        int digit = is_there ? id >> shift & (DIGITS - 1) : DIGITS;
        unsigned alike = __match_any_sync(0xffffffffu, digit);
        int before = __popc(alike & ((1u << lane) - 1));
        if (is_there) {
            int32_t to = next[digit] + before;
            ids_out[to] = id;
            places_out[to] = places_in ? places_in[i] : (int32_t)i;
        }
        __syncwarp();
        if (is_there && before == 0)
            next[digit] += __popc(alike);
        __syncwarp();
    }
}

/* dtable[id,:] += the rows of dy that hold it, in order; a block a place, which works only where a
   run of equal ids begins    ids, places [R] sorted, dy [R,C]; effect dtable [V,C] */
template <typename T, typename G>
__device__ static void embedding_grad(const int32_t *ids, const int32_t *places, const T *dy,
                                      G *dtable, int64_t count, int width)
{
    int64_t first = blockIdx.x;
    int32_t id = ids[first];
    if (first > 0 && ids[first - 1] == id)
        return;
    dtable += (int64_t)id * width;
    for (int c = threadIdx.x; c < width; c += blockDim.x) {
        float sum = 0.0f;
        for (int64_t i = first; i < count && ids[i] == id; i++)
            sum += get(dy[(int64_t)places[i] * width + c]);
        dtable[c] = put<G>(get(dtable[c]) + sum);
    }
}

#define EMBEDDING(T) (const int32_t *ids, const T *table, T *out, int width)
#define POSITION(T)  (const T *x, const T *table, T *out, int64_t length, int width)
#define SELECT(T)    (const T *x, T *out, int64_t length, int width, const plm_step_record *step)
TYPED(embedding, EMBEDDING, (ids, table, out, width))
TYPED(position, POSITION, (x, table, out, length, width))
TYPED(select_position, SELECT, (x, out, length, width, step))

/* For activations of one type and gradients in fp32, or in the same type. */
#define GRADIENTS(name, T, suffix)                                                                 \
    extern "C" __global__ void position_grad_##suffix(const T *dy, name *dtable, int64_t batch,    \
                                                      int64_t length, int width, int accumulate)   \
    {                                                                                              \
        position_grad<T, name>(dy, dtable, batch, length, width, accumulate);                      \
    }                                                                                              \
    extern "C" __global__ void embedding_grad_##suffix(const int32_t *ids, const int32_t *places,  \
                                                       const T *dy, name *dtable, int64_t count,   \
                                                       int width)                                  \
    {                                                                                              \
        embedding_grad<T, name>(ids, places, dy, dtable, count, width);                            \
    }
GRADIENTS(float, float, fp32)
GRADIENTS(float, bf16, bf16)
GRADIENTS(float, fp16, fp16)
GRADIENTS(bf16, bf16, bf16_bf16)
GRADIENTS(bf16, fp16, fp16_bf16)
