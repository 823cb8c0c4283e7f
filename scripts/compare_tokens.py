#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the tokenizers of Plimsoll to the `tokenizers` package, text by text.

usage: scripts/compare_tokens.py [--count N] [--seed S] BENCH_TOKENS TOKENIZER...

BENCH_TOKENS is the program build/bench_tokens; a TOKENIZER is a tokenizer.json or a folder with one.
Texts: a fixed list of hard ones and N random ones of many kinds (1000). Compared: ids with special
tokens and without, and both decoded texts. Prints a line a tokenizer; ends with 1 unless all are
equal. Needs Python 3.8 and `tokenizers`.
"""
import argparse
import os
import random
import struct
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer

HARD = [
    "", " ", "  ", "\n", "\t", "\r\n", "\0", "a", "Hello world", "  leading and trailing  ",
    "tabs\tand\nnewlines\n\n\nthree", "I don't, we've, it'S, I'LL, they'RE", "1234567890 12,345.67",
    "über Straße café naïve İstanbul ǅ ß ẞ", "日本語と中文 한국어 한국어", "e\u0301 e\u0323\u0301 \u0301",
    "emoji 😀👩‍👩‍👧‍👦🇩🇪🏽", "ＦＵＬＬ　ｗｉｄｔｈ ｶﾞ ㌀ ﷺ", "null\0byte", "\u200bzero\u200dwidth\ufeff",
    "mixed العربية and עברית", "def f(x):\n    return x**2 # ok\n", "CamelCaseAndSNAKE_CASE",
    "<s>not special?</s>", "<|endoftext|> in <|im_start|>user\nhi<|im_end|>", "[MASK] [CLS][SEP]x[MASK]",
    "𝒳 math 𝔸 and ﬁ ligature ⅷ ² ½", "A" * 300, " " * 300, "\n" * 50, "ab" * 500, "\u0301" * 40,
    "กำลัง नमस्ते ক্ষ", "a\u00a0b\u3000c\u2003d\u180ee\u2028f", "x'ſ 'ſ K's", "▁under▁score ▁▁",
    "\U000323af \U0002ee5d \U00011f05 \U00010d4a\u0897 \u1c89", "\ue000\U0010ffff\ufffd\ufdd0",
    "Ġthe Ċ Ã©", "<0x41><0xE4>", "##ing ##", "a.b,c!d?e;f:g", "http://example.com/?q=1&r=%20",
]
RANGES = [(0x20, 0x7e), (0x20, 0x7e), (0, 0x20), (0xa0, 0x24f), (0x300, 0x36f), (0x370, 0x5ff),
          (0x600, 0x6ff), (0x900, 0x97f), (0xe00, 0xe7f), (0x1100, 0x11ff), (0x1e00, 0x1fff),
          (0x2000, 0x206f), (0x2070, 0x218f), (0x3000, 0x30ff), (0x4e00, 0x9fff), (0xac00, 0xd7a3),
          (0xf900, 0xfaff), (0xfe00, 0xffff), (0x1d400, 0x1d7ff), (0x1f300, 0x1faff), (0, 0x10ffff)]


def character(rng, span):
    while True:
        point = rng.randint(*span)
        if not 0xd800 <= point <= 0xdfff:
            return chr(point)


def random_text(rng, pieces, words):
    kind = rng.random()
    if kind < 0.25:  # one alphabet
        span = rng.choice(RANGES)
        return "".join(character(rng, span) for _ in range(rng.randint(1, 40)))
    if kind < 0.5:  # all of them
        return "".join(character(rng, rng.choice(RANGES)) for _ in range(rng.randint(1, 60)))
    if kind < 0.75:  # what the tokenizer knows, side by side
        return "".join(rng.choice(pieces) for _ in range(rng.randint(1, 20)))
    text = []
    for _ in range(rng.randint(1, 40)):  # words, blanks and marks
        text.append(rng.choice(words))
        text.append(rng.choice([" ", " ", " ", "  ", "\n", ", ", ". ", "", "'s ", "\t", "\n\n   "]))
    return "".join(text)


def texts_for(tokenizer, count, seed):
    rng = random.Random(seed)
    vocabulary = sorted(tokenizer.get_vocab())
    pieces = [p.replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n").replace("##", "")
              for p in rng.sample(vocabulary, min(3000, len(vocabulary)))]
    pieces += [t.content for t in tokenizer.get_added_tokens_decoder().values()][:200]
    words = ["the", "of", "Loading", "tokens", "memory", "Straße", "naïve", "don't", "x1", "3.14",
             "日本", "Привет", "hello", "WORLD", "foo_bar", "==", "->", "(", ")", "2026", "e\u0301",
             "🙂", "the", "and", "a", "in"] + pieces[:100]
    return HARD + [random_text(rng, pieces, words) for _ in range(count)]


def ours(program, path, texts):
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = os.path.join(folder, "in"), os.path.join(folder, "out")
        with open(asked, "wb") as out:
            for text in texts:
                data = text.encode()
                out.write(struct.pack("<I", len(data)) + data)
        subprocess.run([program, path, asked, answered], check=True)
        with open(answered, "rb") as read:
            data = read.read()
    at = 0
    for _ in texts:
        answer = []
        for width in (4, 4, 1, 1):
            count, = struct.unpack_from("<I", data, at)
            at += 4
            piece = data[at:at + width * count]
            at += width * count
            answer.append(list(struct.unpack("<%di" % count, piece)) if width == 4
                          else piece.decode())
        yield answer


def theirs(tokenizer, text):
    whole = tokenizer.encode(text).ids
    return [whole, tokenizer.encode(text, add_special_tokens=False).ids,
            tokenizer.decode(whole, skip_special_tokens=False),
            tokenizer.decode(whole, skip_special_tokens=True)]


def compare(program, path, count, seed):
    file = os.path.join(path, "tokenizer.json") if os.path.isdir(path) else path
    tokenizer = Tokenizer.from_file(file)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    texts = texts_for(tokenizer, count, seed)
    names = ["ids", "ids without special tokens", "decoded", "decoded without special tokens"]
    wrong = {name: 0 for name in names}
    shown = 0
    for text, found in zip(texts, ours(program, file, texts)):
        wanted = theirs(tokenizer, text)
        for name, a, b in zip(names, wanted, found):
            if a != b:
                wrong[name] += 1
                shown += 1
                if shown <= 5:
                    print("  %s of %r:\n    wanted %r\n    found  %r" % (name, text[:200], a, b))
    print("%s: %d texts, %s" % (path, len(texts), ", ".join(
        "%s %d of %d equal" % (name, len(texts) - wrong[name], len(texts)) for name in names)))
    return not any(wrong.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("program")
    parser.add_argument("tokenizers", nargs="+")
    given = parser.parse_args()
    good = [compare(given.program, path, given.count, given.seed) for path in given.tokenizers]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
