/* SPDX-License-Identifier: MIT */
/* The dtype and role tables. */
#include "plimsoll/dtype.h"

#include <inttypes.h>

#include "base/size.h"

static const struct {
    const char *text;
    int64_t block_elements;
    size_t block_bytes;
} dtypes[PLM_DTYPE_COUNT] = {
#define DTYPE_ROW(name, text_, elements, bytes) [PLM_DTYPE_##name] = {text_, elements, bytes},
    PLM_DTYPE_MAP(DTYPE_ROW)
#undef DTYPE_ROW
};

static const char *const roles[PLM_ROLE_COUNT] = {
#define ROLE_ROW(name, text_) [PLM_ROLE_##name] = text_,
    PLM_ROLE_MAP(ROLE_ROW)
#undef ROLE_ROW
};

const char *plm_dtype_text(plm_dtype dtype)
{
    return (unsigned)dtype < PLM_DTYPE_COUNT ? dtypes[dtype].text : "unknown";
}

const char *plm_role_text(plm_role role)
{
    return (unsigned)role < PLM_ROLE_COUNT ? roles[role] : "unknown";
}

plm_status plm_dtype_bytes(plm_dtype dtype, int64_t elements, size_t *bytes)
{
    PLM_ASSERT((unsigned)dtype < PLM_DTYPE_COUNT);
    PLM_FAIL_IF(elements < 0 || elements % dtypes[dtype].block_elements != 0, PLM_ERROR_ARGUMENT,
                "wanted a multiple of %" PRId64 " elements of %s, found %" PRId64,
                dtypes[dtype].block_elements, dtypes[dtype].text, elements);
    return plm_mul_bytes((size_t)(elements / dtypes[dtype].block_elements),
                         dtypes[dtype].block_bytes, bytes);
}
