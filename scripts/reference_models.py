#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/data/reference/models.h: what small GPTs and BERTs compute, in float64, from nothing
but their forward formula.

Gradients are taken by the complex step: for a function that is analytic on the reals,
    df/dx = Im f(x + i h) / h + O(h^2),
and with h = 1e-30 the error term is below float64's rounding, since nothing is subtracted. So there
is no backward here that could share a mistake with the engine's; the price is one forward for each
parameter, some minutes in all.

Parameters, tokens and targets come from an integer hash that the tests repeat exactly; every value
is a multiple of 2^-19 and so the same number in fp32. Needs NumPy. Run from anywhere:

    python3 scripts/reference_models.py
"""
import math
import os

import numpy as np

STEP = 1e-30  # of the complex step
MASK = 0xFFFFFFFF

# name: family, optimizer, layers, width, heads, context, vocabulary, sequences, tokens of each
CASES = {
    "gpt_tiny": ("gpt", "adamw", 1, 8, 2, 5, 7, 4, 5),
    "gpt_two_layers": ("gpt", "adamw", 2, 24, 3, 10, 17, 4, 10),
    "gpt_odd": ("gpt", "adamw", 1, 20, 5, 15, 29, 4, 13),
    "gpt_sgd": ("gpt", "sgd", 1, 8, 2, 5, 7, 4, 5),
    "bert_tiny": ("bert", "adamw", 1, 8, 2, 5, 7, 4, 5),
    "bert_two_layers": ("bert", "adamw", 2, 24, 3, 12, 17, 4, 10),
    "bert_sgd": ("bert", "sgd", 1, 8, 2, 5, 7, 4, 5),
}

UPDATES = 3
WEIGHT_DECAY, BETA1, BETA2, MOMENTUM = 0.125, 0.875, 0.9375, 0.875
# AdamW's steps are as large as its rate, SGD's as its gradients.
LEARNING_RATES = {"adamw": 0.0078125, "sgd": 0.5}
# Large, so that an element whose gradient is zero but for rounding (a bias of keys: softmax does not
# see it) is not blown up to a whole step.
EPSILON = 0.0009765625
CLIP_NORM = 0.5

SALT_TOKENS, SALT_TARGETS, SALT_IGNORED, SALT_TYPES, SALT_DIRECTION = 1000, 1001, 1002, 1003, 2000


def hashed(salt, count, first=0):
    """`count` numbers of 16 bits, from index `first` on."""
    index = np.arange(first, first + count, dtype=np.uint64)
    x = (index * np.uint64(0x85EBCA77) + np.uint64(salt * 0x9E3779B1 & MASK)) & np.uint64(MASK)
    x ^= x >> np.uint64(15)
    x = (x * np.uint64(0xC2B2AE3D)) & np.uint64(MASK)
    x ^= x >> np.uint64(13)
    x = (x * np.uint64(0x27D4EB2F)) & np.uint64(MASK)
    return (x >> np.uint64(16)).astype(np.int64)


def spread(salt, count):
    """Numbers in [-1, 1), multiples of 2^-15."""
    return hashed(salt, count) / 32768.0 - 1.0


def block_rows(block, width):
    return [(block + "ln1.weight", (width,), 1, 4),
            (block + "ln1.bias", (width,), 0, 8),
            (block + "attention.qkv.weight", (3 * width, width), 0, 2),
            (block + "attention.qkv.bias", (3 * width,), 0, 8),
            (block + "attention.out.weight", (width, width), 0, 4),
            (block + "attention.out.bias", (width,), 0, 8),
            (block + "ln2.weight", (width,), 1, 4),
            (block + "ln2.bias", (width,), 0, 8),
            (block + "mlp.up.weight", (4 * width, width), 0, 4),
            (block + "mlp.up.bias", (4 * width,), 0, 8),
            (block + "mlp.down.weight", (width, 4 * width), 0, 4),
            (block + "mlp.down.bias", (width,), 0, 8)]


def parameter_table(family, layers, width, context, vocab):
    """(name, shape, constant, divisor): value = constant + spread / divisor."""
    rows = [("embedding.token.weight", (vocab, width), 0, 2),
            ("embedding.position.weight", (context, width), 0, 4)]
    if family == "bert":
        rows += [("embedding.type.weight", (2, width), 0, 4),
                 ("embedding.ln.weight", (width,), 1, 4),
                 ("embedding.ln.bias", (width,), 0, 8)]
    for i in range(layers):
        rows += block_rows(f"block.{i}.", width)
    if family == "bert":
        rows += [("head.dense.weight", (width, width), 0, 2),
                 ("head.dense.bias", (width,), 0, 8),
                 ("head.decoder.bias", (vocab,), 0, 8)]
    return rows + [("head.ln.weight", (width,), 1, 4), ("head.ln.bias", (width,), 0, 8)]


def layer_norm(x, weight, bias, epsilon):
    # not np.var, which takes absolute values of complex numbers
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred / np.sqrt(variance + epsilon) * weight + bias


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x * x * x)))


def erf(x):
    """Of a complex number too, as far as a step that small goes: erf is the integral of its slope."""
    real = np.vectorize(math.erf)(x.real)
    if x.dtype != complex:
        return real
    return real + 1j * x.imag * 2 / np.sqrt(np.pi) * np.exp(-x.real ** 2)


def gelu_exact(x):
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def attention(qkv, heads, causal):
    batch, length, width = qkv.shape
    depth = width // 3 // heads
    q, k, v = (part.reshape(batch, length, heads, depth).transpose(0, 2, 1, 3)
               for part in np.split(qkv, 3, axis=-1))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(depth)
    hidden = np.triu(np.ones((length, length), bool), 1) & causal
    scores = scores - np.where(hidden, -np.inf, scores.real).max(-1, keepdims=True)
    powers = np.where(hidden, 0, np.exp(np.where(hidden, 0, scores)))
    probabilities = powers / powers.sum(-1, keepdims=True)
    return (probabilities @ v).transpose(0, 2, 1, 3).reshape(batch, length, width // 3)


class Block:
    """One block's parameters, and what both families do with them."""

    def __init__(self, p, i):
        self.p, self.prefix = p, f"block.{i}."

    def linear(self, name, x):
        return x @ self.p[self.prefix + name + ".weight"].T + self.p[self.prefix + name + ".bias"]

    def norm(self, name, x, epsilon):
        name = self.prefix + name
        return layer_norm(x, self.p[name + ".weight"], self.p[name + ".bias"], epsilon)

    def attention(self, x, heads, causal):
        return self.linear("attention.out", attention(self.linear("attention.qkv", x), heads, causal))

    def mlp(self, x, activation):
        return self.linear("mlp.down", activation(self.linear("mlp.up", x)))


def gpt_logits(p, layers, heads, tokens, types):
    del types
    table = p["embedding.token.weight"]
    x = table[tokens] + p["embedding.position.weight"][:tokens.shape[1]]
    for i in range(layers):
        block = Block(p, i)
        x = x + block.attention(block.norm("ln1", x, 1e-5), heads, True)
        x = x + block.mlp(block.norm("ln2", x, 1e-5), gelu)
    return layer_norm(x, p["head.ln.weight"], p["head.ln.bias"], 1e-5) @ table.T


def bert_logits(p, layers, heads, tokens, types):
    table = p["embedding.token.weight"]
    x = table[tokens] + p["embedding.position.weight"][:tokens.shape[1]]
    x = x + p["embedding.type.weight"][types]
    x = layer_norm(x, p["embedding.ln.weight"], p["embedding.ln.bias"], 1e-12)
    for i in range(layers):
        block = Block(p, i)
        x = block.norm("ln1", x + block.attention(x, heads, False), 1e-12)
        x = block.norm("ln2", x + block.mlp(x, gelu_exact), 1e-12)
    x = gelu_exact(x @ p["head.dense.weight"].T + p["head.dense.bias"])
    x = layer_norm(x, p["head.ln.weight"], p["head.ln.bias"], 1e-12)
    return x @ table.T + p["head.decoder.bias"]


LOGITS = {"gpt": gpt_logits, "bert": bert_logits}


def loss_of(p, family, layers, heads, tokens, types, targets):
    """Sum of token losses / counted targets. p: name -> array."""
    logits = LOGITS[family](p, layers, heads, tokens, types)
    logits = logits - logits.real.max(-1, keepdims=True)
    logs = np.log(np.exp(logits).sum(-1))
    counted = targets >= 0
    chosen = np.take_along_axis(logits, np.where(counted, targets, 0)[..., None], -1)[..., 0]
    return np.where(counted, logs - chosen, 0).sum() / counted.sum()


def gradients_of(p, *rest):
    """Of every parameter, by the complex step."""
    found = {}
    for name, value in p.items():
        moved = value.astype(complex)
        gradient = np.empty(value.size)
        for e in range(value.size):
            moved.flat[e] += 1j * STEP
            gradient[e] = loss_of({**p, name: moved}, *rest).imag / STEP
            moved.flat[e] = value.flat[e]
        found[name] = gradient.reshape(value.shape)
    return found


def check_by_differences(p, gradients, *rest):
    """A few elements once more, by central differences: that the complex step is used rightly."""
    for name, value in p.items():
        e, h = value.size // 2, 1e-6
        sides = []
        for sign in (1, -1):
            moved = value.copy()
            moved.flat[e] += sign * h
            sides.append(loss_of({**p, name: moved}, *rest))
        difference = (sides[0] - sides[1]) / (2 * h)
        assert abs(difference - gradients[name].flat[e]) < 1e-8, (name, difference)


def window(batch, length, vocab, update):
    """Tokens, types and targets."""
    shape, count = (batch, length), batch * length
    tokens = hashed(SALT_TOKENS, count, update * count) % vocab
    types = hashed(SALT_TYPES, count, update * count) % 2
    targets = hashed(SALT_TARGETS, count, update * count) % vocab
    ignored = hashed(SALT_IGNORED, count, update * count) % 5 == 0
    return tokens.reshape(shape), types.reshape(shape), np.where(ignored, -1, targets).reshape(shape)


def adamw(rate, update, value, gradient, decay, moment):
    moment[0] = BETA1 * moment[0] + (1 - BETA1) * gradient
    moment[1] = BETA2 * moment[1] + (1 - BETA2) * gradient * gradient
    mean = moment[0] / (1 - BETA1 ** (update + 1))
    spread_of = np.sqrt(moment[1] / (1 - BETA2 ** (update + 1)))
    return value - rate * (mean / (spread_of + EPSILON) + decay * value)


def sgd(rate, update, value, gradient, decay, moment):
    del update
    moment[0] = MOMENTUM * moment[0] + gradient + decay * value
    return value - rate * moment[0]


OPTIMIZERS = {"adamw": adamw, "sgd": sgd}


def train(family, optimizer, layers, width, heads, context, vocab, batch, length):
    """Parameters before and after, first gradients, and loss and norm of every update."""
    rows = parameter_table(family, layers, width, context, vocab)
    start = {name: (constant + spread(salt, int(np.prod(shape))) / divisor).reshape(shape)
             for salt, (name, shape, constant, divisor) in enumerate(rows)}
    p, first, losses, norms = dict(start), None, [], []
    moments = {name: [np.zeros_like(value), np.zeros_like(value)] for name, value in p.items()}
    for update in range(UPDATES):
        rest = (family, layers, heads, *window(batch, length, vocab, update))
        gradients = gradients_of(p, *rest)
        if first is None:
            first = gradients
            check_by_differences(p, gradients, *rest)
        losses.append(loss_of(p, *rest))
        norms.append(np.sqrt(sum((g * g).sum() for g in gradients.values())))
        scale = min(1.0, CLIP_NORM / (norms[-1] + 1e-6))
        for name, value in p.items():
            decay = WEIGHT_DECAY if value.ndim > 1 else 0  # vectors do not decay
            p[name] = OPTIMIZERS[optimizer](LEARNING_RATES[optimizer], update, value,
                                            gradients[name] * scale, decay, moments[name])
        print(f"  update {update}: loss {losses[-1]:.6f}, gradient norm {norms[-1]:.6f}", flush=True)
    return rows, start, first, p, losses, norms


HEAD = """\
/* SPDX-License-Identifier: MIT */
/*
 * Made by scripts/reference_models.py in float64: do not edit. What small models compute. Each
 * array is told by its norm and by its product with a direction of hashed numbers, so that an error
 * in any element shows; of two tiny models every element stands here.
 */
/* clang-format off */
#ifndef PLM_TESTS_REFERENCE_MODELS_H
#define PLM_TESTS_REFERENCE_MODELS_H

#include <stddef.h>
#include <stdint.h>

#include "plimsoll/model.h"

"""

TYPES = """\
typedef struct reference_parameter {
    const char *name;
    int32_t elements;
    float constant, divisor; /* first value of element e: constant + spread(index, e) / divisor */
    double gradient_norm, gradient_product; /* of the first window */
    double change_norm, change_product;     /* last value - first value */
} reference_parameter;

typedef struct reference_case {
    const char *name;
    const char *family;
    plm_optimizer optimizer;
    float learning_rate;
    int32_t layers, width, heads, context, vocab, batch, sequence;
    double loss[REFERENCE_UPDATES], norm[REFERENCE_UPDATES]; /* of the gradient, before clipping */
    int32_t parameter_count;
    const reference_parameter *parameters;
    const double *gradients; /* of every element, parameter after parameter, or NULL */
    const double *changes;
} reference_case;
"""


def number(value):
    return f"{value:.12g}" if value else "0"


def array_text(name, values):
    lines, line = [], "   "
    for value in values:
        word = " " + f"{value:.9g}" + ","
        if len(line) + len(word) > 100:
            lines.append(line)
            line = "   "
        line += word
    return f"static const double {name}[] = {{\n" + "\n".join(lines + [line]) + "\n};\n\n"


def case_text(name, shape):
    rows, start, first, last, losses, norms = train(*shape)
    change = {n: last[n] - start[n] for n in last}
    text, whole = "", ("NULL", "NULL")
    if shape[1:4] == ("adamw", 1, 8):
        whole = (name + "_gradients", name + "_changes")
        for array, values in zip(whole, (first, change)):
            text += array_text(array, np.concatenate([values[row[0]].ravel() for row in rows]))
    text += f"static const reference_parameter {name}_parameters[] = {{\n"
    for salt, (parameter, _, constant, divisor) in enumerate(rows):
        figures = []
        for values in (first[parameter], change[parameter]):
            direction = spread(SALT_DIRECTION + salt, values.size)
            figures += [number(np.sqrt((values * values).sum())),
                        number((values.ravel() * direction).sum())]
        text += (f'    {{"{parameter}", {first[parameter].size}, {constant}, {divisor},'
                 f' {", ".join(figures)}}},\n')
    text += "};\n\n"
    family, optimizer, *figures = shape
    figures = ", ".join(str(n) for n in figures)
    row = (f'    {{"{name}", "{family}", PLM_OPTIMIZER_{optimizer.upper()},'
           f' {LEARNING_RATES[optimizer]}f, {figures},\n'
           f'     {{{", ".join(number(v) for v in losses)}}},'
           f' {{{", ".join(number(v) for v in norms)}}},\n'
           f"     {len(rows)}, {name}_parameters, {whole[0]}, {whole[1]}}},\n")
    return text, row


def main():
    constants = "".join(f"#define REFERENCE_{key} {value}\n" for key, value in (
        ("UPDATES", UPDATES), ("WEIGHT_DECAY", f"{WEIGHT_DECAY}f"), ("BETA1", f"{BETA1}f"),
        ("BETA2", f"{BETA2}f"), ("EPSILON", f"{EPSILON}f"), ("MOMENTUM", f"{MOMENTUM}f"),
        ("CLIP_NORM", f"{CLIP_NORM}f"), ("SALT_TOKENS", SALT_TOKENS),
        ("SALT_TARGETS", SALT_TARGETS), ("SALT_IGNORED", SALT_IGNORED),
        ("SALT_TYPES", SALT_TYPES), ("SALT_DIRECTION", SALT_DIRECTION)))
    text, table = HEAD + constants + "\n" + TYPES + "\n", ""
    for name, shape in CASES.items():
        print(name, flush=True)
        part, row = case_text(name, shape)
        text += part
        table += row
    text += f"static const reference_case reference_cases[] = {{\n{table}}};\n\n#endif\n"
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/data/reference")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "models.h"), "w", encoding="utf-8") as out:
        out.write(text)


if __name__ == "__main__":
    main()
