/* SPDX-License-Identifier: MIT */
/*
 * Rows by index: token and position embedding, the selection of one position, and the gradients of
 * the first two. Each element of a gradient is summed by one thread in the order of the positions,
 * in fp32, and rounded once when the table is 16-bit: an element that many positions add to in
 * turn would lose the small ones.
 */
#include "device/cpu/kernel/id_order.h"
#include "device/cpu/kernel/values.h"

enum { COLUMNS = 1024 }; /* of a row, at once */

void KERNEL(embedding)(const plm_launch *launch, int threads)
{
    const int32_t *ids = launch->in[0].data;                           /* [B,T] */
    const plm_operand *table = &launch->in[1], *out = &launch->out[0]; /* [V,C], [B,T,C] */
    int64_t count = plm__operand_count(&launch->in[0]), width = plm__operand_width(table);
#pragma omp parallel for num_threads(threads) if (count * width > PLM_SERIAL_COUNT)
    for (int64_t r = 0; r < count; r++) {
        PLM_ASSERT(ids[r] >= 0 && ids[r] < table->shape[0]);
        memcpy(plm__value_at(out, r * width), plm__value_at(table, ids[r] * width),
               (size_t)width * plm__value_bytes(out));
    }
}

/* out = x + line, for `count` elements at most COLUMNS */
static void add_line(const plm_operand *x, int64_t at, const plm_operand *table, int64_t line,
                     int64_t count, const plm_operand *out)
{
    float room[COLUMNS], room_line[COLUMNS];
    const float *a = plm__values(x, at, count, room);
    const float *b = plm__values(table, line, count, room_line);
    float *to = plm__place(out, at, room);
#pragma omp simd
    for (int64_t c = 0; c < count; c++)
        to[c] = a[c] + b[c];
    plm__put(out, at, count, to);
}

void KERNEL(position)(const plm_launch *launch, int threads)
{
    const plm_operand *x = &launch->in[0], *table = &launch->in[1]; /* [B,T,C], [P,C], P >= T */
    int64_t positions = x->shape[1], width = x->shape[2], rows = x->shape[0] * positions;
#pragma omp parallel for num_threads(threads) if (rows * width > PLM_SERIAL_COUNT)
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < width; c += COLUMNS)
            add_line(x, r * width + c, table, r % positions * width + c,
                     plm__min(COLUMNS, width - c), &launch->out[0]); /* [B,T,C] */
}

void KERNEL(select)(const plm_launch *launch, int threads)
{
    (void)threads; /* one row a sequence: too little to share */
    const plm_operand *x = &launch->in[0], *out = &launch->out[0]; /* [B,T,C], [B,C] */
    int64_t batch = x->shape[0], positions = x->shape[1], width = x->shape[2];
    int64_t position = launch->step->position;
    PLM_ASSERT(batch * width == 0 || (position >= 0 && position < positions));
    for (int64_t b = 0; b < batch; b++)
        memcpy(plm__value_at(out, b * width), plm__value_at(x, (b * positions + position) * width),
               (size_t)width * plm__value_bytes(x));
}

static void add_row(float *sum, const float *row, int64_t count)
{
#pragma omp simd
    for (int64_t c = 0; c < count; c++)
        sum[c] += row[c];
}

/* An fp32 table holds the sums as they grow; columns are cut between threads. */
static void add_to_table(const plm_launch *launch, int threads)
{
    const int32_t *ids = launch->in[0].data; /* [B,T] */
    const plm_operand *dy = &launch->in[1];  /* [B,T,C] */
    float *dtable = launch->effect[0].data;  /* [V,C] */
    int64_t count = plm__operand_count(&launch->in[0]);
    int64_t vocabulary = launch->effect[0].shape[0], width = launch->effect[0].shape[1];
    if (!launch->attr.accumulate) {
#pragma omp parallel for num_threads(threads) if (vocabulary * width > PLM_SERIAL_COUNT)
        for (int64_t v = 0; v < vocabulary; v++)
            memset(dtable + v * width, 0, (size_t)width * sizeof *dtable);
    }
#pragma omp parallel for num_threads(threads) if (count * width > PLM_SERIAL_COUNT)
    for (int64_t c = 0; c < width; c += PLM_COLUMN_CHUNK)
        for (int64_t r = 0; r < count; r++) {
            float room[PLM_COLUMN_CHUNK];
            int64_t columns = plm__min(PLM_COLUMN_CHUNK, width - c);
            PLM_ASSERT(ids[r] >= 0 && ids[r] < vocabulary);
            add_row(dtable + ids[r] * width + c, plm__values(dy, r * width + c, columns, room),
                    columns);
        }
}

/* Columns [first, first + count), at most COLUMNS, of one row of a 16-bit table: the old values or
 * zero, then every position that `order` names. */
static void sum_line(const plm_launch *launch, const int32_t *order, int64_t positions,
                     int64_t line, int64_t first, int64_t count)
{
    const plm_operand *dy = &launch->in[1], *dtable = &launch->effect[0];
    float sum[COLUMNS], room[COLUMNS];
    int64_t width = dtable->shape[1], at = line * width + first;
    if (launch->attr.accumulate)
        plm__values(dtable, at, count, sum);
    else
        memset(sum, 0, (size_t)count * sizeof *sum);
    for (int64_t i = 0; i < positions; i++)
        add_row(sum, plm__values(dy, order[i] * width + first, count, room), count);
    plm__put(dtable, at, count, sum);
}

/* A 16-bit table's rows are summed one after the other; rows are cut between threads. */
static void sum_by_line(const plm_launch *launch, int threads)
{
    const int32_t *ids = launch->in[0].data; /* [B,T] */
    int64_t vocabulary = launch->effect[0].shape[0], width = launch->effect[0].shape[1];
    plm_id_order by_id =
        plm__order_ids(ids, plm__operand_count(&launch->in[0]), vocabulary, launch->workspace);
#pragma omp parallel for num_threads(threads)                                                      \
    schedule(dynamic, 64) if (vocabulary * width > PLM_SERIAL_COUNT)
    for (int64_t v = 0; v < vocabulary; v++) {
        int64_t begin = v > 0 ? by_id.end[v - 1] : 0, positions = by_id.end[v] - begin;
        for (int64_t c = 0; c < width && (positions > 0 || !launch->attr.accumulate); c += COLUMNS)
            sum_line(launch, by_id.order + begin, positions, v, c, plm__min(COLUMNS, width - c));
    }
}

void KERNEL(embedding_grad)(const plm_launch *launch, int threads)
{
    if (plm__is_half(&launch->effect[0]))
        sum_by_line(launch, threads);
    else
        add_to_table(launch, threads);
}

/* dtable[t, first...] (+)= sum_b dy[b, t, first...], for `count` columns, at most COLUMNS */
static void sum_position(const plm_launch *launch, int64_t t, int64_t first, int64_t count)
{
    const plm_operand *dy = &launch->in[0], *dtable = &launch->effect[0]; /* [B,T,C], [P,C] */
    int64_t positions = dy->shape[1], width = dy->shape[2], at = t * width + first;
    float sum[COLUMNS], room[COLUMNS];
    float *to = plm__place_filled(dtable, at, count, sum);
    if (!launch->attr.accumulate)
        memset(to, 0, (size_t)count * sizeof *to);
    for (int64_t b = 0; t < positions && b < dy->shape[0]; b++)
        add_row(to, plm__values(dy, (b * positions + t) * width + first, count, room), count);
    plm__put(dtable, at, count, to);
}

void KERNEL(position_grad)(const plm_launch *launch, int threads)
{
    int64_t width = launch->in[0].shape[2], table_rows = launch->effect[0].shape[0];
#pragma omp parallel for num_threads(threads) if (plm__operand_count(&launch->in[0]) >             \
                                                  PLM_SERIAL_COUNT)
    for (int64_t t = 0; t < table_rows; t++)
        for (int64_t c = 0; c < width; c += COLUMNS)
            sum_position(launch, t, c, plm__min(COLUMNS, width - c));
}
