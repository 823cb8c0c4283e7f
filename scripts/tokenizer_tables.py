#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes src/tokens/unicode_table.c: what the `tokenizers` package takes each code point for.

That package stands on several versions of Unicode at once (its regular expressions on one, its
lower case on another, its punctuation and accents on old ones), so no library's tables are its own.
Each property is read off the package's answers for each code point. Needs Python of Unicode 14 or newer and
`tokenizers`; run after a new version of it: scripts/tokenizer_tables.py UNICODE14 where UNICODE14 is
UnicodeData.txt of Unicode 14, the oldest that a PCRE2 in use knows.
"""
import sys

from tokenizers import Regex, normalizers, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
CATEGORIES = ["Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd",
              "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf",
              "Co", "Cs"]
BLOCK = 128


def categories():
    found = {}
    for number, name in enumerate(CATEGORIES):
        if name in ("Cn", "Cs"):
            continue
        split = pre_tokenizers.Split(Regex(r"\p{%s}" % name), "removed")
        found.update((c, number) for c in POINTS if not split.pre_tokenize_str(chr(c)))
    return found


def parted(tokenizer):
    return {c for c in POINTS if len(tokenizer.pre_tokenize_str("a" + chr(c) + "a")) > 1}


def vanishing(normalizer):
    return {c for c in POINTS if normalizer.normalize_str("a" + chr(c)) == "a"}


def categories_of_unicode_14(path):
    """Of UnicodeData.txt, whose ranges are told by their ends."""
    found, first = {}, None
    for line in open(path):
        fields = line.split(";")
        point = int(fields[0], 16)
        if fields[1].endswith("First>"):
            first = point
            continue
        for c in range(point if first is None else first, point + 1):
            found[c] = CATEGORIES.index(fields[2])
        first = None
    return found


def strangers_to_normal_forms(combining, young):
    """Points that the package's normal forms do not know: starters without a decomposition."""
    nfd, nfkd = normalizers.NFD(), normalizers.NFKD()
    import unicodedata
    strange = set()
    for c in POINTS:
        text = chr(c)
        if combining.get(c) and combining[c] < 240 and \
                nfd.normalize_str("a\u0345" + text) == "a\u0345" + text:
            strange.add(c)
        if nfkd.normalize_str(text) == text and \
                (c in young or unicodedata.normalize("NFKD", text) != text):
            strange.add(c)
    return strange | {0x11930, 0x11938}  # a pair that is newer


def runs_of_lower_case():
    """(first, last, step, distance): points `step` apart whose lower case lies `distance` away."""
    lower = normalizers.Lowercase()
    runs = []
    for c in POINTS:
        text = lower.normalize_str(chr(c))
        if text == chr(c) or len(text) != 1:
            continue  # U+0130 alone has two
        distance = ord(text) - c
        if runs and runs[-1][3] == distance:
            first, last, step, _ = runs[-1]
            if c - last in (1, 2) and step in (0, c - last):
                runs[-1] = (first, c, c - last, distance)
                continue
        runs.append((c, c, 0, distance))
    return [(first, last, step or 1, distance) for first, last, step, distance in runs]


def numbers(values, wide=100):
    lines, line = [], "   "
    for value in values:
        word = " %s," % value
        if len(line) + len(word) > wide:
            lines.append(line)
            line = "   "
        line += word
    return "\n".join(lines + [line])


def main():
    old = categories_of_unicode_14(sys.argv[1])
    combining = {}
    for line in open(sys.argv[1]):
        fields = line.split(";")
        if fields[3] != "0":
            combining[int(fields[0], 16)] = int(fields[3])
    category = categories()
    young = {c for c in category if category[c] != old.get(c, 0)}
    space = parted(pre_tokenizers.WhitespaceSplit())
    bert = normalizers.BertNormalizer
    flags = [  # in the order of the bits in unicode.h
        parted(pre_tokenizers.Punctuation("isolated")),
        vanishing(bert(clean_text=False, handle_chinese_chars=False, strip_accents=True,
                       lowercase=False)),
        vanishing(normalizers.StripAccents()),
        parted(pre_tokenizers.Digits(individual_digits=True)),
        vanishing(bert(clean_text=True, handle_chinese_chars=False, strip_accents=False,
                       lowercase=False)),
        {c for c in POINTS
         if len(pre_tokenizers.Whitespace().pre_tokenize_str("a" + chr(c) + "a")) == 1},
        young,
        strangers_to_normal_forms(combining, young),
    ]
    assert len(space) == 25
    kinds, kind_of = [], []
    for c in range(0x110000):
        word = category.get(c, CATEGORIES.index("Cs") if 0xD800 <= c <= 0xDFFF else 0)
        for bit, members in enumerate(flags):
            word |= (c in members) << (5 + bit)
        if word not in kinds:
            kinds.append(word)
        kind_of.append(kinds.index(word))
    blocks, index = [], []
    for at in range(0, 0x110000, BLOCK):
        block = tuple(kind_of[at:at + BLOCK])
        if block not in blocks:
            blocks.append(block)
        index.append(blocks.index(block))
    assert len(kinds) < 256
    runs = runs_of_lower_case()
    with open("src/tokens/unicode_table.c", "w") as out:
        out.write("""/* SPDX-License-Identifier: MIT */
/* Made by scripts/tokenizer_tables.py: unicode.h says what the numbers mean. */
#include "tokens/unicode_internal.h"

/* clang-format off */
const uint16_t plm__unicode_kinds[] = {
%s
};

const uint16_t plm__unicode_blocks[] = {
%s
};

const uint8_t plm__unicode_points[][PLM_UNICODE_BLOCK] = {
""" % (numbers(kinds), numbers(index)))
        for block in blocks:
            out.write("  {\n%s\n  },\n" % numbers(block))
        out.write("""};

const plm_unicode_run plm__unicode_lower[] = {
""")
        for first, last, step, distance in runs:
            out.write("    {0x%x, 0x%x, %d, %d},\n" % (first, last, step, distance))
        out.write("""};
const int plm__unicode_lower_count = %d;
/* clang-format on */
""" % len(runs))
    print("%d kinds, %d blocks, %d runs" % (len(kinds), len(blocks), len(runs)))


if __name__ == "__main__":
    main()
