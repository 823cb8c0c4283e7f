/* SPDX-License-Identifier: MIT */
/* What an element of each dtype takes, and reading a dtype. Thread-safe. */
#ifndef PLM_BASE_DTYPE_H
#define PLM_BASE_DTYPE_H

#include "plimsoll/dtype.h"

/* Bytes of one block: of one element where a block is one, as of plain numbers. */
size_t plm__dtype_size(plm_dtype dtype);

/* Whether elements are floating point numbers: fp32, bf16, fp16. */
bool plm__dtype_is_real(plm_dtype dtype);

/* The dtype of a text as plm_dtype_text gives; PLM_ERROR_ARGUMENT for any other. */
PLM_MUST_USE plm_status plm__dtype_parse(const char *text, plm_dtype *dtype);

/*
 * *bytes = what `elements` elements take, whole blocks. PLM_ERROR_OVERFLOW beyond size_t,
 * PLM_ERROR_ARGUMENT for a negative count or one that is not a multiple of the block.
 */
PLM_MUST_USE plm_status plm__dtype_bytes(plm_dtype dtype, int64_t elements, size_t *bytes);

#endif
