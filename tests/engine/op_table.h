/* SPDX-License-Identifier: MIT */
/*
 * The operands of every operation, as words, for tests and benchmarks: a letter an extent, Q and A
 * attention's packed and plain widths; before it # int32, ! fp32, ~ the type of gradients, else the
 * precision. R rows are B T here.
 */
#ifndef PLM_OP_TABLE_H
#define PLM_OP_TABLE_H

#include "base/half.h"
#include "device/device.h"

typedef struct extents {
    int64_t B, T, C, H, V, K, N, P;
    int64_t G, D; /* heads of keys and values, size of a head; 0: as many as H, and C / H */
} extents;

static inline int64_t key_heads_of(const extents *n)
{
    return n->G ? n->G : n->H;
}

static inline int64_t head_size_of(const extents *n)
{
    return n->D ? n->D : n->C / n->H;
}

enum { OPERANDS = PLM_OP_INPUTS_MAX + PLM_OP_OUTPUTS_MAX + PLM_OP_EFFECTS_MAX };

typedef struct op_words {
    const char *in[PLM_OP_INPUTS_MAX], *out[PLM_OP_OUTPUTS_MAX], *effect[PLM_OP_EFFECTS_MAX];
    const char *name;
    int overwrites; /* bits of ops.def */
} op_words;

#define PLM_OP(kind, text, class, inputs, outputs, effects, overwrite, ...)                        \
    enum { OVERWRITES_##kind = (overwrite) };
#include "graph/ops.def"
#undef PLM_OP

#define IN(...)     .in = {__VA_ARGS__}
#define OUT(...)    .out = {__VA_ARGS__}
#define EFFECT(...) .effect = {__VA_ARGS__}
#define ROW(kind, text, ...)                                                                       \
    [PLM_OP_##kind] = {__VA_ARGS__, .name = (text), .overwrites = OVERWRITES_##kind}

static const op_words op_table[PLM_OP_COUNT] = {
    ROW(EMBEDDING, "embedding", IN("#BT", "VC"), OUT("BTC")),
    ROW(POSITION, "position", IN("BTC", "PC"), OUT("BTC")),
    ROW(LAYER_NORM, "layer norm", IN("BTC", "C", "C"), OUT("BTC", "!BT", "!BT")),
    ROW(LINEAR, "linear", IN("BTK", "NK", "N"), OUT("BTN")),
    ROW(GELU, "gelu", IN("BTC"), OUT("BTC")),
    ROW(GELU_EXACT, "exact gelu", IN("BTC"), OUT("BTC")),
    ROW(ADD, "add", IN("BTC", "BTC"), OUT("BTC")),
    ROW(DROPOUT, "dropout", IN("BTC"), OUT("BTC")),
    ROW(ATTENTION, "attention", IN("BTQ"), OUT("BTA", "!BHT")),
    ROW(ATTENTION_SCORES, "attention scores", IN("BTQ"), OUT("BHTT")),
    ROW(SOFTMAX, "softmax", IN("BHTT"), OUT("BHTT")),
    ROW(ATTENTION_APPLY, "attention apply", IN("BHTT", "BTQ"), OUT("BTA")),
    ROW(SELECT, "select", IN("BTC"), OUT("BC")),
    ROW(CROSS_ENTROPY, "cross entropy", IN("BTV", "#BT"), OUT("!BT", "!BT")),
    ROW(LOSS_SUM, "loss sum", IN("!BT")),
    ROW(EMBEDDING_GRAD, "embedding grad", IN("#BT", "BTC"), EFFECT("~VC")),
    ROW(POSITION_GRAD, "position grad", IN("BTC"), EFFECT("~PC")),
    ROW(LAYER_NORM_GRAD_INPUT, "layer norm grad input", IN("BTC", "BTC", "C", "!BT", "!BT"),
        OUT("BTC")),
    ROW(LAYER_NORM_GRAD_WEIGHT, "layer norm grad weight", IN("BTC", "BTC", "!BT", "!BT"),
        EFFECT("~C", "~C")),
    ROW(LINEAR_GRAD_INPUT, "linear grad input", IN("BTN", "NK"), OUT("BTK")),
    ROW(LINEAR_GRAD_WEIGHT, "linear grad weight", IN("BTK", "BTN"), EFFECT("~NK")),
    ROW(LINEAR_GRAD_BIAS, "linear grad bias", IN("BTN"), EFFECT("~N")),
    ROW(GELU_GRAD, "gelu grad", IN("BTC", "BTC"), OUT("BTC")),
    ROW(GELU_EXACT_GRAD, "exact gelu grad", IN("BTC", "BTC"), OUT("BTC")),
    ROW(ATTENTION_GRAD, "attention grad", IN("BTA", "BTQ", "BTA", "!BHT"), OUT("BTQ")),
    ROW(ATTENTION_GRAD_PROBS, "attention grad probs", IN("BTA", "BTQ"), OUT("BHTT")),
    ROW(SOFTMAX_GRAD, "softmax grad", IN("BHTT", "BHTT"), OUT("BHTT")),
    ROW(ATTENTION_GRAD_QKV, "attention grad qkv", IN("BTA", "BTQ", "BHTT", "BHTT"), OUT("BTQ")),
    ROW(CROSS_ENTROPY_GRAD, "cross entropy grad", IN("BTV", "#BT", "!BT"), OUT("BTV")),
    ROW(GRADIENT_NORM, "gradient norm", IN("~VC", "~PC", "~C")),
    ROW(GRADIENT_PART, "gradient part", IN("~VC")),
    ROW(ADAMW, "adamw", IN("~VC"), EFFECT("!VC", "!VC", "!VC")),
    ROW(SGD, "sgd", IN("~VC"), EFFECT("!VC", "!VC")),
    ROW(CAST, "cast", IN("!VC"), EFFECT("VC")),
    ROW(INIT_NORMAL, "init normal", EFFECT("!VC")),
    ROW(INIT_CONSTANT, "init constant", EFFECT("!VC")),
};

#undef IN
#undef OUT
#undef EFFECT
#undef ROW

/* Word and operand number i of OPERANDS: inputs, then outputs, then effects. */
static inline const char *word_at(const op_words *row, int i)
{
    if (i < PLM_OP_INPUTS_MAX)
        return row->in[i];
    i -= PLM_OP_INPUTS_MAX;
    return i < PLM_OP_OUTPUTS_MAX ? row->out[i] : row->effect[i - PLM_OP_OUTPUTS_MAX];
}

static inline plm_operand *operand_at(plm_launch *launch, int i)
{
    if (i < PLM_OP_INPUTS_MAX)
        return &launch->in[i];
    i -= PLM_OP_INPUTS_MAX;
    return i < PLM_OP_OUTPUTS_MAX ? &launch->out[i] : &launch->effect[i - PLM_OP_OUTPUTS_MAX];
}

static inline int64_t extent_of(const extents *n, char letter)
{
    switch (letter) {
    case 'B':
        return n->B;
    case 'T':
        return n->T;
    case 'C':
        return n->C;
    case 'H':
        return n->H;
    case 'V':
        return n->V;
    case 'K':
        return n->K;
    case 'N':
        return n->N;
    case 'Q':
        return (n->H + 2 * key_heads_of(n)) * head_size_of(n);
    case 'A':
        return n->H * head_size_of(n);
    default:
        return n->P;
    }
}

/* What a launch stores its tensors as. */
typedef struct op_types {
    plm_dtype precision, gradient;
} op_types;

static inline plm_dtype dtype_of(op_types types, char mark)
{
    switch (mark) {
    case '#':
        return PLM_DTYPE_I32;
    case '!':
        return PLM_DTYPE_F32;
    default:
        return mark == '~' ? types.gradient : types.precision;
    }
}

/* Shape and contiguous strides from a word; returns the number of elements. */
static inline int64_t shape_operand(const extents *n, op_types types, const char *word,
                                    plm_operand *operand)
{
    *operand = (plm_operand){.dtype = dtype_of(types, *word)};
    int64_t count = 1;
    for (; *word; word++)
        if (*word != '#' && *word != '!' && *word != '~')
            operand->shape[operand->rank++] = extent_of(n, *word);
    for (int i = operand->rank - 1; i >= 0; i--) {
        operand->stride[i] = count;
        count *= operand->shape[i];
    }
    return count;
}

static inline size_t element_bytes(const plm_operand *operand)
{
    return operand->dtype == PLM_DTYPE_BF16 || operand->dtype == PLM_DTYPE_F16 ? 2 : 4;
}

/* Element e, of a floating point type. */
static inline float value_of(const plm_operand *operand, int64_t e)
{
    const uint16_t *halves = operand->data;
    return operand->dtype == PLM_DTYPE_BF16  ? plm__from_bf16(halves[e])
           : operand->dtype == PLM_DTYPE_F16 ? plm__from_fp16(halves[e])
                                             : ((const float *)operand->data)[e];
}

/* Rounds. */
static inline void set_value(const plm_operand *operand, int64_t e, float value)
{
    uint16_t *halves = operand->data;
    if (operand->dtype == PLM_DTYPE_BF16)
        halves[e] = plm__to_bf16(value);
    else if (operand->dtype == PLM_DTYPE_F16)
        halves[e] = plm__to_fp16(value);
    else
        ((float *)operand->data)[e] = value;
}

#endif
