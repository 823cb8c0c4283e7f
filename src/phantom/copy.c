/* SPDX-License-Identifier: MIT */
/*
 * Copies and fills, and the counts that data decides: before an operation whose shape depends on
 * data (nonzero, unique), the Python side works out on the CPU what the device would answer and
 * leaves the numbers here; the next small reads on the same thread get them.
 */
#include "phantom/copy.h"

#include "phantom/memory.h"
#include "phantom/phantom.h"
#include "phantom/space.h"

#include <string.h>

enum { MAX_COUNTS = 64, COUNT_BYTES = 8 };

static __thread struct {
    int64_t values[MAX_COUNTS];
    int count, next;
} counts;

PLM_STANDIN(void, plm_phantom_counts, (const int64_t *values, int count))
{
    if (count < 0 || !values)
        count = 0;
    if (count > MAX_COUNTS)
        plm__phantom_stop("wanted at most %d counts for one operation, found %d", MAX_COUNTS,
                          count);
    if (count > 0)
        memcpy(counts.values, values, (size_t)count * sizeof *values);
    counts.count = count;
    counts.next = 0;
}

PLM_STANDIN(int, plm_phantom_counts_left, (void))
{
    return counts.count - counts.next;
}

struct side {
    bool device;
    bool fits; /* the whole copy lies within the range, where one is known */
};

static struct side look(const void *address, size_t bytes)
{
    struct plm_range range;
    if (!plm__memory_look(address, &range) || !plm__memory_is_device(&range))
        return (struct side){.device = false, .fits = true};
    size_t left_bytes = range.bytes - ((uintptr_t)address - range.address);
    return (struct side){.device = true, .fits = bytes <= left_bytes};
}

int plm__copy(void *to, const void *from, size_t bytes)
{
    struct side target = look(to, bytes), source = look(from, bytes);
    if (bytes == 0)
        return PLM_CUDA_OK;
    if (!target.fits || !source.fits)
        return PLM_CUDA_INVALID_VALUE;
    if (source.device && !target.device && bytes <= COUNT_BYTES && counts.next < counts.count)
        memcpy(to, &counts.values[counts.next++], bytes); /* x86-64: the low bytes come first */
    else if ((!target.device && !source.device) || bytes <= PLM_COPY_MADE_BYTES)
        memmove(to, from, bytes);
    else if (!target.device)
        plm__space_zero(to, bytes);
    return PLM_CUDA_OK;
}

int plm__copy_rows(void *to, size_t to_pitch_bytes, const void *from, size_t from_pitch_bytes,
                   size_t row_bytes, size_t rows)
{
    if (to_pitch_bytes < row_bytes || from_pitch_bytes < row_bytes)
        return PLM_CUDA_INVALID_VALUE;
    if (to_pitch_bytes == row_bytes && from_pitch_bytes == row_bytes)
        return plm__copy(to, from, row_bytes * rows);
    struct side target = look(to, row_bytes), source = look(from, row_bytes);
    bool is_large = row_bytes * rows > PLM_COPY_MADE_BYTES;
    for (size_t i = 0; is_large && source.device && !target.device && i < rows; i++)
        plm__space_zero((char *)to + i * to_pitch_bytes, row_bytes);
    if (is_large && (target.device || source.device))
        return PLM_CUDA_OK;
    for (size_t i = 0; i < rows; i++) {
        int status = plm__copy((char *)to + i * to_pitch_bytes,
                               (const char *)from + i * from_pitch_bytes, row_bytes);
        if (status)
            return status;
    }
    return PLM_CUDA_OK;
}

int plm__fill(void *to, unsigned value, size_t unit_bytes, size_t count)
{
    size_t bytes = unit_bytes * count;
    struct side target = look(to, bytes);
    if (!target.fits)
        return PLM_CUDA_INVALID_VALUE;
    if (value == 0 && bytes > PLM_COPY_MADE_BYTES)
        plm__space_zero(to, bytes);
    else if (bytes > PLM_COPY_MADE_BYTES && target.device)
        return PLM_CUDA_OK;
    else if (unit_bytes == 1)
        memset(to, (int)(value & 0xff), bytes);
    else
        for (size_t i = 0; i < count; i++)
            memcpy((char *)to + i * unit_bytes, &value, unit_bytes);
    return PLM_CUDA_OK;
}
