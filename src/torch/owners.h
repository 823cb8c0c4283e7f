/* SPDX-License-Identifier: MIT */
/* Owners of a recording carried over into a trace: stacks, texts, and a name for the call site. */
#ifndef PLM_TORCH_OWNERS_H
#define PLM_TORCH_OWNERS_H

#include "base/text.h"
#include "torch/fold.h"

typedef struct plm_owner_map {
    const plm_fold_store *store;
    plm_trace *trace;
    int32_t *places; /* owner of the store -> its place in the trace + 1, 0 when not carried yet */
    PLM_ARRAY(plm_frame) frames;
    plm_text text;
} plm_owner_map;

/* Begins a map from the store's owners to those of an empty trace; both are borrowed. */
PLM_MUST_USE plm_status plm__owner_map_init(plm_owner_map *map, const plm_fold_store *store,
                                            plm_trace *trace);

void plm__owner_map_fini(plm_owner_map *map);

/* Replaces *owner, a number of the store or PLM_TRACE_NO_OWNER, by its place in the trace. */
PLM_MUST_USE plm_status plm__owner_map_carry(plm_owner_map *map, int32_t *owner);

/* Replaces *text, a text of the document, by an interned string of the trace. */
PLM_MUST_USE plm_status plm__owner_map_carry_text(plm_owner_map *map, uint32_t *text);

#endif
