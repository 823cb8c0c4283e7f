/* SPDX-License-Identifier: MIT */
/*
 * Element types and the roles that memory plays.
 *
 * A dtype is a row of a table with elements and bytes a block, so that forms which pack several
 * elements into a block (quantised weights) fit beside plain numbers. A role is only a label for
 * people: no decision is ever taken from it.
 *
 * Thread-safe.
 */
#ifndef PLIMSOLL_DTYPE_H
#define PLIMSOLL_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plimsoll/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One row a dtype: name, text, elements a block, bytes a block. */
#define PLM_DTYPE_MAP(ROW)                                                                         \
    ROW(F32, "fp32", 1, 4)                                                                         \
    ROW(BF16, "bf16", 1, 2)                                                                        \
    ROW(F16, "fp16", 1, 2)                                                                         \
    ROW(I32, "int32", 1, 4)                                                                        \
    ROW(U8, "uint8", 1, 1)

typedef enum plm_dtype {
#define PLM_DTYPE_ROW(name, text, elements, bytes) PLM_DTYPE_##name,
    PLM_DTYPE_MAP(PLM_DTYPE_ROW)
#undef PLM_DTYPE_ROW
        PLM_DTYPE_COUNT
} plm_dtype;

/* One row a role: name, text. */
#define PLM_ROLE_MAP(ROW)                                                                          \
    ROW(PARAMETER, "parameter")                                                                    \
    ROW(MASTER, "master")                                                                          \
    ROW(GRADIENT, "gradient")                                                                      \
    ROW(OPTIMIZER, "optimizer")                                                                    \
    ROW(INPUT, "input")                                                                            \
    ROW(ACTIVATION, "activation")                                                                  \
    ROW(TEMPORARY, "temporary")                                                                    \
    ROW(WORKSPACE, "workspace")                                                                    \
    ROW(CACHE, "cache")                                                                            \
    ROW(STATE, "state")

typedef enum plm_role {
#define PLM_ROLE_ROW(name, text) PLM_ROLE_##name,
    PLM_ROLE_MAP(PLM_ROLE_ROW)
#undef PLM_ROLE_ROW
        PLM_ROLE_COUNT
} plm_role;

/* "fp32", "bf16", ...; static. */
const char *plm_dtype_text(plm_dtype dtype);

/* "parameter", "gradient", ...; static. */
const char *plm_role_text(plm_role role);

#ifdef __cplusplus
}
#endif
#endif
