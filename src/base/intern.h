/* SPDX-License-Identifier: MIT */
/*
 * Interning: byte strings become small numbers, equal strings the same number, in order of first
 * sight;
 * "" is always 0. The bytes live in chunks that never move, so a text stays valid until the table
 * ends. Not thread-safe.
 */
#ifndef PLM_BASE_INTERN_H
#define PLM_BASE_INTERN_H

#include "base/array.h"

typedef struct plm_intern_entry {
    const char *bytes; /* NUL-ended */
    uint32_t count;    /* without the NUL */
    uint32_t hash;
} plm_intern_entry;

typedef struct plm_intern {
    PLM_ARRAY(plm_intern_entry) entries;
    PLM_ARRAY(char *) chunks;
    size_t chunk_used;  /* bytes used of the last chunk */
    size_t chunk_bytes; /* its size */
    uint32_t *slots;    /* open addressing: entry + 1, 0 is free */
    int64_t slot_count; /* a power of two */
} plm_intern;

/* Makes an empty table with "" as number 0. On failure there is nothing to end. */
PLM_MUST_USE plm_status plm__intern_init(plm_intern *intern);

void plm__intern_fini(plm_intern *intern);

/* *id = the number of these bytes (any bytes, NUL included). PLM_ERROR_HOST_MEMORY leaves the table
 * whole. */
PLM_MUST_USE plm_status plm__intern_add(plm_intern *intern, const char *bytes, size_t count,
                                        uint32_t *id);

/* The bytes of a number, NUL-ended. Borrowed until the table ends. */
const char *plm__intern_text(const plm_intern *intern, uint32_t id);

#endif
