/* SPDX-License-Identifier: MIT */
/* The recorder as bytes: the build makes the array from python/plimsoll_record.py. */
#ifndef PLM_TORCH_RECORD_INTERNAL_H
#define PLM_TORCH_RECORD_INTERNAL_H

#include <stddef.h>

extern const unsigned char plm__record_python[];
extern const size_t plm__record_python_bytes;

#endif
