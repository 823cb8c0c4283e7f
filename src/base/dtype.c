/* SPDX-License-Identifier: MIT */
/* The dtype and role tables. */
#include "plimsoll/dtype.h"

#include <inttypes.h>
#include <string.h>

#include "base/size.h"
#include "base/dtype.h"

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

size_t plm__dtype_size(plm_dtype dtype)
{
    PLM_ASSERT((unsigned)dtype < PLM_DTYPE_COUNT);
    return dtypes[dtype].block_bytes;
}

bool plm__dtype_is_real(plm_dtype dtype)
{
    return dtype == PLM_DTYPE_F32 || dtype == PLM_DTYPE_BF16 || dtype == PLM_DTYPE_F16;
}

plm_status plm__dtype_parse(const char *text, plm_dtype *dtype)
{
    for (int i = 0; i < PLM_DTYPE_COUNT; i++) {
        if (strcmp(text, dtypes[i].text) == 0) {
            *dtype = (plm_dtype)i;
            return PLM_OK;
        }
    }
    return plm_fail(PLM_ERROR_ARGUMENT, "wanted a type such as fp32, bf16 or fp16, found '%.40s'",
                    text);
}

plm_status plm__dtype_bytes(plm_dtype dtype, int64_t elements, size_t *bytes)
{
    PLM_ASSERT((unsigned)dtype < PLM_DTYPE_COUNT);
    PLM_FAIL_IF(elements < 0 || elements % dtypes[dtype].block_elements != 0, PLM_ERROR_ARGUMENT,
                "wanted a multiple of %" PRId64 " elements of %s, found %" PRId64,
                dtypes[dtype].block_elements, dtypes[dtype].text, elements);
    return plm__mul_bytes((size_t)(elements / dtypes[dtype].block_elements),
                          dtypes[dtype].block_bytes, bytes);
}
