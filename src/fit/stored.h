/* SPDX-License-Identifier: MIT */
/* Bytes of elements in the types that weights and caches are stored in. */
#ifndef PLM_FIT_STORED_H
#define PLM_FIT_STORED_H

#include "plimsoll/serve_bill.h"

/* What `elements` take, whole blocks. Not of AS_FILE. */
size_t plm__stored_bytes(plm_stored type, int64_t elements);

/* What a checkpoint's own type is; for AS_FILE. */
plm_stored plm__stored_of(plm_dtype dtype);

/* Bytes of all weights of a GPU of `parallel`, stored as `type`. */
PLM_MUST_USE plm_status plm__stored_weights(const plm_config *config, plm_stored type,
                                            int64_t parallel, size_t *bytes);

#endif
