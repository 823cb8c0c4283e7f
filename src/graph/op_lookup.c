/* SPDX-License-Identifier: MIT */
/* Rows looked up by id or position: embedding, position, select. */
#include "graph/rules.h"
#include "base/dtype.h"

static bool is_table(const plm_shape *shape)
{
    return plm__dtype_is_real(shape->dtype) && shape->rank == 2;
}

PLM_SHAPE_RULE(embedding)
{
    (void)attr;
    const plm_shape *ids = plm__shape(graph, in[0]), *rows = plm__shape(graph, in[1]);
    if (ids->dtype != PLM_DTYPE_I32 || ids->rank != 2)
        return plm__shape_failed("embedding", "ids [batch,length] int32", ids);
    if (!is_table(rows))
        return plm__shape_failed("embedding", "a table [vocabulary,width]", rows);
    *out = (plm_shape){rows->dtype, 3, {ids->dims[0], ids->dims[1], rows->dims[1]}};
    return PLM_OK;
}

plm_tensor plm_embedding(plm_graph *graph, plm_tensor ids, plm_tensor rows)
{
    return plm__op_append(graph, PLM_OP_EMBEDDING, NULL, (plm_tensor[]){ids, rows}, NULL);
}

/* dtable[id] += dy. Keeps the ids. */
PLM_GRADIENT_RULE(embedding)
{
    (void)din;
    plm__emit_weight_gradient(graph, PLM_OP_EMBEDDING_GRAD, op->attr,
                              (plm_tensor[]){op->in[0], dout[0]}, op->in[1], PLM_TENSOR_NONE);
}

PLM_SHAPE_RULE(position)
{
    (void)attr;
    const plm_shape *x = plm__shape(graph, in[0]), *rows = plm__shape(graph, in[1]);
    if (x->rank != 3)
        return plm__shape_failed("position", "[batch,length,width]", x);
    if (!is_table(rows) || rows->dims[0] < x->dims[1] || rows->dims[1] != x->dims[2])
        return plm__shape_failed("position",
                                 "a table with a row for each position and the width of x", rows);
    *out = *x;
    return PLM_OK;
}

plm_tensor plm_position(plm_graph *graph, plm_tensor x, plm_tensor rows)
{
    return plm__op_append(graph, PLM_OP_POSITION, NULL, (plm_tensor[]){x, rows}, NULL);
}

/* dtable[t] += sum over the batch of dy; dx = dy. Keeps nothing. */
PLM_GRADIENT_RULE(position)
{
    plm__emit_weight_gradient(graph, PLM_OP_POSITION_GRAD, op->attr, dout, op->in[1],
                              PLM_TENSOR_NONE);
    din[0] = dout[0];
}

PLM_SHAPE_RULE(select)
{
    (void)attr;
    const plm_shape *x = plm__shape(graph, in[0]);
    if (x->rank != 3)
        return plm__shape_failed("select", "[batch,length,width]", x);
    *out = (plm_shape){x->dtype, 2, {x->dims[0], x->dims[2]}};
    return PLM_OK;
}

plm_tensor plm_select(plm_graph *graph, plm_tensor x)
{
    return plm__op_append(graph, PLM_OP_SELECT, NULL, &x, NULL);
}
