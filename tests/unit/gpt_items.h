/* SPDX-License-Identifier: MIT */
/*
 * The storages of one training step of a GPT-like network, as items to pack.
 *
 * Time counts operations: the forward of every block, the loss, the backward of the blocks in
 * reverse. What the backward needs is kept from its birth to its last reader; temporaries live a
 * few operations; every matrix product takes a workspace for itself, of a size that has nothing to
 * do with the tokens. Shared by the tests and the benchmark of packing.
 */
#ifndef PLM_TEST_GPT_ITEMS_H
#define PLM_TEST_GPT_ITEMS_H

#include "base/philox.h"
#include "base/size.h"
#include "pack/pack.h"

enum { GPT_ITEMS_A_BLOCK = 64, GPT_ITEMS_A_HEAD = 64 };

typedef struct gpt_shape {
    int layers, batch, tokens, width, heads, vocabulary; /* tokens: length of a sequence */
    int element_bytes;
    int head_chunks;    /* 1: the logits are held whole */
    bool plain;         /* attention holds its probabilities */
    bool in_place;      /* residual adds and the activation's gradient reuse their input */
    bool recompute;     /* a block keeps its input only, its forward runs again in the backward */
    bool weights_first; /* a product's backward makes the weight's gradient before the input's */
    uint32_t work_seed; /* sizes of workspaces */
} gpt_shape;

typedef struct gpt_items {
    plm_pack_item *items; /* count_max long, the caller's */
    int64_t count;
    int32_t now; /* the operation being written down */
    gpt_shape shape;
} gpt_items;

/* What a block keeps for its backward: indices of items. */
typedef struct gpt_kept {
    int64_t input, stats1, norm1, qkv, lse, attention, middle, stats2, norm2, fc, gelu;
} gpt_kept;

static inline int64_t gpt_items_max(const gpt_shape *shape)
{
    return (int64_t)shape->layers * GPT_ITEMS_A_BLOCK +
           (int64_t)(shape->head_chunks + 1) * GPT_ITEMS_A_HEAD;
}

static inline int64_t gpt_born(gpt_items *list, size_t bytes)
{
    list->items[list->count] = (plm_pack_item){list->now, list->now, plm__granules(bytes)};
    return list->count++;
}

/* `width` elements a token. */
static inline int64_t gpt_rows(gpt_items *list, size_t width)
{
    const gpt_shape *shape = &list->shape;
    return gpt_born(list, (size_t)shape->batch * (size_t)shape->tokens * width *
                              (size_t)shape->element_bytes);
}

/* `count` fp32 numbers a token. */
static inline int64_t gpt_stats(gpt_items *list, size_t count)
{
    return gpt_born(list, (size_t)list->shape.batch * (size_t)list->shape.tokens * count * 4);
}

static inline void gpt_used(gpt_items *list, int64_t item)
{
    list->items[item].death = list->now;
}

/* The workspace of a matrix product: 1 KiB to 4 MiB, the same for the same `site` of any block. */
static inline void gpt_work(gpt_items *list, uint32_t site)
{
    plm_philox random = plm__philox_at(list->shape.work_seed, 0, 0, site);
    gpt_born(list, ((size_t)1 << (10 + random.word[0] % 12)) + random.word[1] % 1024);
}

static inline int64_t gpt_probabilities(gpt_items *list)
{
    const gpt_shape *shape = &list->shape;
    return gpt_born(list, (size_t)shape->batch * (size_t)shape->heads * (size_t)shape->tokens *
                              (size_t)shape->tokens * (size_t)shape->element_bytes);
}

/* residual + a matrix product of `input`; the sum is a new storage. */
static inline int64_t gpt_add_product(gpt_items *list, int64_t input, int64_t residual,
                                      uint32_t site)
{
    int64_t product = gpt_rows(list, (size_t)list->shape.width);
    gpt_used(list, input);
    gpt_work(list, site);
    list->now++;
    if (list->shape.in_place)
        return gpt_used(list, residual), product;
    int64_t sum = gpt_rows(list, (size_t)list->shape.width);
    gpt_used(list, product);
    gpt_used(list, residual);
    list->now++;
    return sum;
}

/* All of a block's forward up to the activation; the second product is the caller's. */
static inline gpt_kept gpt_forward(gpt_items *list, int64_t input)
{
    size_t width = (size_t)list->shape.width;
    gpt_kept kept = {.input = input, .stats1 = gpt_stats(list, 2), .norm1 = gpt_rows(list, width)};
    gpt_used(list, input);
    list->now++;
    kept.qkv = gpt_rows(list, 3 * width);
    gpt_used(list, kept.norm1);
    gpt_work(list, 1);
    list->now++;
    if (list->shape.plain) {
        kept.lse = gpt_probabilities(list);
        gpt_used(list, kept.qkv);
        gpt_work(list, 2);
        list->now++;
        gpt_used(list, kept.lse); /* softmax, in place */
        list->now++;
    } else {
        kept.lse = gpt_stats(list, (size_t)list->shape.heads);
    }
    kept.attention = gpt_rows(list, width);
    gpt_used(list, kept.qkv);
    gpt_used(list, kept.lse);
    gpt_work(list, 3);
    list->now++;
    kept.middle = gpt_add_product(list, kept.attention, input, 4);
    kept.stats2 = gpt_stats(list, 2);
    kept.norm2 = gpt_rows(list, width);
    gpt_used(list, kept.middle);
    list->now++;
    kept.fc = gpt_rows(list, 4 * width);
    gpt_used(list, kept.norm2);
    gpt_work(list, 5);
    list->now++;
    kept.gelu = gpt_rows(list, 4 * width);
    gpt_used(list, kept.fc);
    list->now++;
    return kept;
}

/* The gradient of a product's weight, and the sum for its bias. */
static inline void gpt_weight_gradient(gpt_items *list, int64_t gradient, int64_t input,
                                       uint32_t site)
{
    gpt_used(list, gradient);
    gpt_used(list, input);
    gpt_work(list, site);
    list->now++;
    gpt_used(list, gradient);
    gpt_work(list, site + 1);
    list->now++;
}

/* Backward of a matrix product; gives the gradient of its input, `width` wide. */
static inline int64_t gpt_product_backward(gpt_items *list, int64_t gradient, int64_t input,
                                           size_t width, uint32_t site)
{
    if (list->shape.weights_first)
        gpt_weight_gradient(list, gradient, input, site);
    int64_t result = gpt_rows(list, width);
    gpt_used(list, gradient);
    gpt_work(list, site + 2);
    list->now++;
    if (!list->shape.weights_first)
        gpt_weight_gradient(list, gradient, input, site);
    return result;
}

/* Backward of a normalisation and of the residual add beside it. */
static inline int64_t gpt_norm_backward(gpt_items *list, int64_t gradient, int64_t residual,
                                        int64_t input, int64_t stats)
{
    int64_t result = list->shape.in_place ? residual : gpt_rows(list, (size_t)list->shape.width);
    gpt_used(list, gradient);
    gpt_used(list, residual);
    gpt_used(list, input);
    gpt_used(list, stats);
    gpt_work(list, 40);
    list->now++;
    return result;
}

static inline int64_t gpt_attention_backward(gpt_items *list, const gpt_kept *kept,
                                             int64_t gradient)
{
    size_t width = (size_t)list->shape.width;
    int64_t result;
    if (list->shape.plain) {
        int64_t slope = gpt_probabilities(list);
        result = gpt_rows(list, 3 * width);
        gpt_used(list, gradient);
        gpt_work(list, 41);
        list->now++;
        gpt_used(list, slope); /* softmax, in place */
        gpt_used(list, kept->lse);
        list->now++;
        gpt_used(list, slope);
        gpt_work(list, 42);
    } else {
        gpt_stats(list, (size_t)list->shape.heads);
        gpt_stats(list, width); /* the queries' gradient in fp32 */
        result = gpt_rows(list, 3 * width);
        gpt_used(list, gradient);
        gpt_used(list, kept->lse);
        gpt_used(list, kept->attention);
    }
    gpt_used(list, result);
    gpt_used(list, kept->qkv);
    list->now++;
    return result;
}

/* Takes the gradient of a block's output, gives that of its input. */
static inline int64_t gpt_backward(gpt_items *list, const gpt_kept *kept, int64_t gradient)
{
    size_t width = (size_t)list->shape.width;
    int64_t gelu = gpt_product_backward(list, gradient, kept->gelu, 4 * width, 10);
    int64_t fc = list->shape.in_place ? gelu : gpt_rows(list, 4 * width);
    gpt_used(list, gelu);
    gpt_used(list, kept->fc);
    list->now++;
    int64_t norm2 = gpt_product_backward(list, fc, kept->norm2, width, 14);
    int64_t middle = gpt_norm_backward(list, norm2, gradient, kept->middle, kept->stats2);
    int64_t attention = gpt_product_backward(list, middle, kept->attention, width, 18);
    int64_t qkv = gpt_attention_backward(list, kept, attention);
    int64_t norm1 = gpt_product_backward(list, qkv, kept->norm1, width, 22);
    return gpt_norm_backward(list, norm1, middle, kept->input, kept->stats1);
}

/* Head and loss, by chunks of the tokens; gives the gradient of the last block's output. */
static inline int64_t gpt_head(gpt_items *list, int64_t input)
{
    size_t width = (size_t)list->shape.width, chunks = (size_t)list->shape.head_chunks;
    int64_t stats = gpt_stats(list, 2), norm = gpt_rows(list, width);
    gpt_used(list, input);
    list->now++;
    int64_t losses = gpt_stats(list, 1), gradient = gpt_rows(list, width);
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        int64_t logits = gpt_rows(list, (size_t)list->shape.vocabulary / chunks);
        gpt_used(list, norm);
        gpt_work(list, 30);
        list->now++;
        gpt_used(list, losses); /* the loss, and its gradient in place */
        list->now++;
        gpt_used(list, logits);
        gpt_used(list, gradient);
        gpt_work(list, 31);
        list->now++;
        gpt_used(list, logits);
        gpt_used(list, norm);
        gpt_work(list, 32);
        list->now++;
    }
    int64_t result = gpt_rows(list, width);
    gpt_used(list, gradient);
    gpt_used(list, input);
    gpt_used(list, stats);
    list->now++;
    return result;
}

/* Writes the step's items: `items` holds gpt_items_max, `kept` one a layer. Gives the count. */
static inline int64_t gpt_make_items(const gpt_shape *shape, plm_pack_item *items, gpt_kept *kept)
{
    gpt_items list = {.items = items, .shape = *shape};
    int64_t stream = gpt_rows(&list, (size_t)shape->width);
    list.now++;
    for (int layer = 0; layer < shape->layers; layer++) {
        kept[layer] = gpt_forward(&list, stream);
        stream = gpt_add_product(&list, kept[layer].gelu, kept[layer].middle, 6);
    }
    int64_t gradient = gpt_head(&list, stream);
    for (int layer = shape->layers - 1; layer >= 0; layer--) {
        if (shape->recompute)
            kept[layer] = gpt_forward(&list, kept[layer].input);
        gradient = gpt_backward(&list, &kept[layer], gradient);
    }
    gpt_used(&list, gradient);
    return list.count;
}

#endif
