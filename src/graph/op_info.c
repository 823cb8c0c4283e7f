/* SPDX-License-Identifier: MIT */
/* The facts of the operation table, for whoever runs or prices operations. The rules are in op.c.
 */
#include <string.h>

#include "graph/op.h"

/* The flops column. A row that leaves it or the bytes out does not compile. */
#define FLOPS_each(n)                                                                              \
    {                                                                                              \
        PLM_FLOPS_EACH, (n), 0                                                                     \
    }
#define FLOPS_product                                                                              \
    {                                                                                              \
        PLM_FLOPS_PRODUCT, 2, 0                                                                    \
    }
#define FLOPS_attention(n, qkv)                                                                    \
    {                                                                                              \
        PLM_FLOPS_ATTENTION, (n), (qkv)                                                            \
    }

static const plm_op_info infos[PLM_OP_COUNT] = {
#define PLM_OP(kind, text, class, inputs, outputs, effects, overwrites, operands, shape_rule,      \
               gradient_rule, flops, bytes, names)                                                 \
    [PLM_OP_##kind] = {#kind,   text,       PLM_CLASS_##class, inputs,        outputs,             \
                       effects, overwrites, operands,          FLOPS_##flops, PLM_BYTES_##bytes,   \
                       names},
#include "graph/ops.def"
#undef PLM_OP
};

const plm_op_info *plm__op_info_of(plm_op_kind kind)
{
    return &infos[kind];
}

const char *plm__op_output_name(plm_op_kind kind, int32_t index)
{
    const char *name = infos[kind].output_names;
    for (int32_t i = 0; i < index; i++)
        name += strlen(name) + 1;
    return name;
}
