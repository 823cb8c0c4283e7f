/* SPDX-License-Identifier: MIT */
/*
 * How the page holds its numbers: whole numbers of any size in few bytes, and bytes as letters.
 *
 * A packed number is its bits in groups of seven, lowest first, one byte each; the top bit says
 * that another follows. A signed one is folded first (0, -1, 1, -2, ... become 0, 1, 2, 3, ...), so
 * that small differences stay short. Base64 carries the bytes inside a JSON text. Both append to a
 * plm_text, whose first failure sticks.
 */
#ifndef PLM_REPORT_PACKED_H
#define PLM_REPORT_PACKED_H

#include "base/text.h"

void plm__packed_add(plm_text *bytes, uint64_t number);

void plm__packed_add_signed(plm_text *bytes, int64_t number);

/* Appends a JSON text: the packed bytes in base64, quoted. A failure of `bytes` goes over to `out`.
 */
void plm__packed_write(const plm_text *bytes, plm_text *out);

#endif
