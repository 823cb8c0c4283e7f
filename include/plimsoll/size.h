/* SPDX-License-Identifier: MIT */
/*
 * Sizes as people write and read them. Plimsoll counts in bytes everywhere; these two functions
 * stand at its edges. Thread-safe.
 */
#ifndef PLIMSOLL_SIZE_H
#define PLIMSOLL_SIZE_H

#include <stddef.h>

#include "plimsoll/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The unit of placement and of refusal: every storage begins at, and is rounded up to, a multiple.
 */
#define PLM_GRANULE_BYTES ((size_t)64)

/* The longest text that plm_size_format writes, with its end. */
#define PLM_SIZE_TEXT 24

/*
 * Reads "512MiB", "12GiB", "1.5GiB", "12GB", "3k", "4194304": a number with a unit, which only
 * bytes from 1 MiB on can do without (whoever writes "12" means another unit; "12B" is 12 bytes).
 * KiB MiB GiB TiB are powers of 1024, kB MB GB TB powers of 1000, K M G T alone mean the binary
 * form. Case of the unit does not matter. Fails with PLM_ERROR_ARGUMENT on anything else, on 0 and
 * on negative numbers, with PLM_ERROR_OVERFLOW beyond size_t.
 */
PLM_MUST_USE plm_status plm_size_parse(const char *text, size_t *bytes);

/*
 * Writes bytes as "640 B", "12.5 KiB", "384.0 MiB", "1.53 GiB", never as a bare GB, into a buffer
 * of PLM_SIZE_TEXT bytes that the caller owns; returns that buffer.
 */
const char *plm_size_format(size_t bytes, char text[PLM_SIZE_TEXT]);

#ifdef __cplusplus
}
#endif
#endif
