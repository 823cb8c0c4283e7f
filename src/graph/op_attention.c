/* SPDX-License-Identifier: MIT */
/* Self-attention over packed q | k | v, in its fused and its plain form. */
#include <inttypes.h>
#include <stdio.h>

#include "graph/rules.h"

/* Checks qkv [B,T,(H+2G)D]. */
static plm_status check_packed(const plm_shape *qkv, const plm_op_attr *attr)
{
    char wanted[96];
    PLM_FAIL_IF(attr->key_heads < 1 || attr->heads < 1 || attr->heads % attr->key_heads != 0,
                PLM_ERROR_ARGUMENT,
                "attention wanted key-value heads whose number divides that of its heads, found %d "
                "for %d",
                attr->key_heads, attr->heads);
    int64_t parts = attr->heads + 2 * (int64_t)attr->key_heads;
    snprintf(wanted, sizeof wanted, "[batch,length,%" PRId64 " x head size], %d heads and 2 x %d",
             parts, attr->heads, attr->key_heads);
    bool right = qkv->rank == 3 && plm__columns(qkv) % parts == 0;
    return right ? PLM_OK : plm__shape_failed("attention", wanted, qkv);
}

/* [B,T,HD] */
static plm_shape output_shape(const plm_shape *qkv, const plm_op_attr *attr)
{
    int64_t width = attr->heads * plm__head_size(attr, plm__columns(qkv));
    return (plm_shape){qkv->dtype, 3, {qkv->dims[0], qkv->dims[1], width}};
}

/* [B,H,T,T]: never divided by the head size. */
static plm_shape scores_shape(const plm_shape *qkv, const plm_op_attr *attr)
{
    return (plm_shape){qkv->dtype, 4, {qkv->dims[0], attr->heads, qkv->dims[1], qkv->dims[1]}};
}

PLM_SHAPE_RULE(attention)
{
    const plm_shape *qkv = plm__shape(graph, in[0]);
    PLM_TRY(check_packed(qkv, attr));
    out[0] = output_shape(qkv, attr);
    out[1] = (plm_shape){PLM_DTYPE_F32, 3, {qkv->dims[0], attr->heads, qkv->dims[1]}};
    return PLM_OK;
}

PLM_SHAPE_RULE(attention_scores)
{
    const plm_shape *qkv = plm__shape(graph, in[0]);
    PLM_TRY(check_packed(qkv, attr));
    *out = scores_shape(qkv, attr);
    return PLM_OK;
}

PLM_SHAPE_RULE(attention_scores_of_second)
{
    *out = scores_shape(plm__shape(graph, in[1]), attr);
    return PLM_OK;
}

PLM_SHAPE_RULE(attention_apply)
{
    *out = output_shape(plm__shape(graph, in[1]), attr);
    return PLM_OK;
}

PLM_SHAPE_RULE(attention_grad)
{
    (void)attr;
    *out = *plm__shape(graph, in[1]);
    return PLM_OK;
}

plm_tensor plm_attention(plm_graph *graph, plm_tensor qkv, int32_t heads, int32_t key_heads,
                         bool causal)
{
    plm_op_attr attr = {.heads = heads, .key_heads = key_heads, .causal = causal};
    if (graph->strategy.attention == PLM_ATTENTION_FUSED)
        return plm__op_append(graph, PLM_OP_ATTENTION, &attr, &qkv, NULL);
    plm_tensor scores = plm__op_append(graph, PLM_OP_ATTENTION_SCORES, &attr, &qkv, NULL);
    plm_tensor probabilities = plm__op_append(graph, PLM_OP_SOFTMAX, &attr, &scores, NULL);
    return plm__op_append(graph, PLM_OP_ATTENTION_APPLY, &attr, (plm_tensor[]){probabilities, qkv},
                          NULL);
}

/* Keeps qkv, the output and one number a row: the probabilities are made again by blocks. */
PLM_GRADIENT_RULE(attention)
{
    din[0] = plm__op_append(graph, PLM_OP_ATTENTION_GRAD, &op->attr,
                            (plm_tensor[]){dout[0], op->in[0], op->out[0], op->out[1]}, NULL);
}

/*
 * The whole backward of the plain form, emitted at its last step: softmax and scores have no rule
 * of their own. Keeps the probabilities and qkv.
 */
PLM_GRADIENT_RULE(attention_apply)
{
    plm_tensor probabilities = op->in[0], qkv = op->in[1];
    plm_tensor dprobabilities = plm__op_append(graph, PLM_OP_ATTENTION_GRAD_PROBS, &op->attr,
                                               (plm_tensor[]){dout[0], qkv}, NULL);
    plm_tensor dscores = plm__op_append(graph, PLM_OP_SOFTMAX_GRAD, &op->attr,
                                        (plm_tensor[]){dprobabilities, probabilities}, NULL);
    din[1] = plm__op_append(graph, PLM_OP_ATTENTION_GRAD_QKV, &op->attr,
                            (plm_tensor[]){dout[0], qkv, probabilities, dscores}, NULL);
}
