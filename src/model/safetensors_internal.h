/* SPDX-License-Identifier: MIT */
/* What reading and writing of safetensors share. */
#ifndef PLM_MODEL_SAFETENSORS_INTERNAL_H
#define PLM_MODEL_SAFETENSORS_INTERNAL_H

#include "model/safetensors.h"

#define PLM__SAFETENSORS_METADATA "__metadata__"
#define PLM__SAFETENSORS_CHECKSUM "plimsoll.crc32"

enum { PLM__SAFETENSORS_LENGTH_BYTES = 8, PLM__SAFETENSORS_CHECKSUM_BYTES = 4 };

/* The format's names of our dtypes. */
extern const char *const plm__safetensors_dtypes[PLM_DTYPE_COUNT];

/* CRC-32 of `sum`'s bytes and these behind them; 0 to begin. */
uint32_t plm__safetensors_checksum(uint32_t sum, const void *bytes, size_t byte_count);

/* Little endian. */
void plm__safetensors_checksum_bytes(uint32_t sum, uint8_t bytes[PLM__SAFETENSORS_CHECKSUM_BYTES]);

#endif
