/* SPDX-License-Identifier: MIT */
/*
 * Copies and fills between host and device. What is small is really copied: scripts decide on such
 * values. What is large is not: no kernel computed it, and gigabytes of nothing would take as many
 * of the host. A large read into host memory gives zeros.
 */
#ifndef PLM_PHANTOM_COPY_H
#define PLM_PHANTOM_COPY_H

#include <stddef.h>

/* Up to here a copy that touches a device is made, and a fill with anything but zero too. */
#define PLM_COPY_MADE_BYTES ((size_t)1 << 20)

/* Both return a status of cudaError_t's values: INVALID_VALUE where the end of a known range would
 * be passed. */
int plm__copy(void *to, const void *from, size_t bytes);
int plm__copy_rows(void *to, size_t to_pitch_bytes, const void *from, size_t from_pitch_bytes,
                   size_t row_bytes, size_t rows);

/* `unit_bytes` (1, 2 or 4) of `value`, over `count` units. */
int plm__fill(void *to, unsigned value, size_t unit_bytes, size_t count);

#endif
