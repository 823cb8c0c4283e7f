/* SPDX-License-Identifier: MIT */
/*
 * Memory of one input to a fuzz target: the most that was allocated at once, by whomever, libraries
 * too. Counted where the program runs under AddressSanitizer, which tells of each allocation;
 * elsewhere nothing is held to anything.
 */
#ifndef PLM_FUZZ_MEMORY_H
#define PLM_FUZZ_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* The input begins: what is allocated now counts as 0. */
void plm_fuzz_memory_begin(void);

/*
 * The input ends. Stops the program when more than base_bytes + multiple * input_bytes were
 * allocated at once, or when something is allocated still that was not before.
 */
void plm_fuzz_memory_end(size_t base_bytes, size_t multiple, size_t input_bytes);

#endif
