/* SPDX-License-Identifier: MIT */
/* The recorder as bytes: the build makes the array from python/plimsoll_record.py. */
#ifndef PLM_TORCH_RECORD_INTERNAL_H
#define PLM_TORCH_RECORD_INTERNAL_H

#include <stddef.h>

extern const char plm__plimsoll_record_py[]; /* ended by a NUL that is not counted */
extern const size_t plm__plimsoll_record_py_bytes;

#endif
