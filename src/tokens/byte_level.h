/* SPDX-License-Identifier: MIT */
/*
 * GPT-2's way to write any byte as a character that can be seen: printable ones of Latin-1 as
 * themselves, the 68 others as U+0100 and up. Thread-safe.
 */
#ifndef PLM_TOKENS_BYTE_LEVEL_H
#define PLM_TOKENS_BYTE_LEVEL_H

#include <stdint.h>

/* The character of a byte. */
uint32_t plm__byte_level_point(uint8_t byte);

/* The byte of a character, -1: it is none of them. */
int plm__byte_level_byte(uint32_t point);

#endif
