#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/tokenizers: small tokenizers of every part, and what `tokenizers` makes of texts.

Tokenizers that are given as files or folders are taken along; others are trained here on data/text.txt
so that each part of a tokenizer.json is in one of them. NAME.json is the tokenizer, NAME.cases the
texts, one JSON object a line. Needs Python 3.8, `tokenizers` and, for SentencePiece's compiled
replacements, `sentencepiece`.

usage: scripts/tokenizer_cases.py [TOKENIZER...]
"""
import io
import json
import os
import random
import sys
import tempfile
import unicodedata

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

from compare_tokens import texts_for, theirs

OUT = "tests/data/tokenizers"
RANDOM = 30  # texts a tokenizer beside the hard ones
LONGEST = 100  # characters of a text that is kept
GPT4 = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve"
        r"|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lm}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lo}&&[^\p{Han}]]+"
        r"|\p{N}{1,3}|\w+\b|\h{2,}|[^\s\p{L}&&[^#]]++|(?m:x.y)|[a[bc]\u00e9]|\p{^L}|\s+(?!\S)|\S")


def text():
    with open("data/text.txt", encoding="utf-8") as file:
        return [line for line in file.read().split("\n")[:400] if line]


def bpe(**options):
    return Tokenizer(models.BPE(**options))


def train(tokenizer, trainer):
    tokenizer.train_from_iterator(text(), trainer)
    return tokenizer


def bpe_trainer(size=400, **options):
    return trainers.BpeTrainer(vocab_size=size, show_progress=False, **options)


def template(single, specials):
    return processors.TemplateProcessing(single=single, special_tokens=specials)


def roberta():
    t = bpe()
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    train(t, bpe_trainer(size=420, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
                         initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=False)])
    t.add_tokens([AddedToken("lorem", single_word=True), AddedToken(" both ", rstrip=True),
                  AddedToken("Ünder", normalized=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    t.decoder = decoders.ByteLevel()
    return t


def clip():
    t = bpe(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=False)
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "),
                                         normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True),
        pre_tokenizers.WhitespaceSplit()])
    train(t, bpe_trainer(end_of_word_suffix="</w>", special_tokens=["<unk>", "<start>"]))
    t.decoder = decoders.BPEDecoder()
    t.post_processor = template("<start> $A <start>:1", [("<start>", 1)])
    return t


def prefixed():
    t = bpe(unk_token="[UNK]", continuing_subword_prefix="@@")
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(),
                                         normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(),
                                               pre_tokenizers.Digits(individual_digits=True)])
    train(t, bpe_trainer(continuing_subword_prefix="@@", special_tokens=["[UNK]"]))
    t.post_processor = processors.BertProcessing(("[UNK]", 0), ("[UNK]", 0))
    return t


def split(pattern):
    t = bpe(ignore_merges=True)
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    train(t, bpe_trainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.decoder = decoders.ByteLevel()
    return t


def llama_first():
    t = bpe(unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    train(t, bpe_trainer(size=460, special_tokens=["<unk>", "<s>", "</s>"] +
                         ["<0x%02X>" % i for i in range(256)]))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                   decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = template("<s> $A", [("<s>", 1)])
    return t


def spans():
    t = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.Nmt()])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.CharDelimiterSplit("x"),
        pre_tokenizers.Punctuation("merged_with_previous"),
        pre_tokenizers.Split(Regex(r"[aeiou]"), "merged_with_next"),
        pre_tokenizers.Split(Regex(r"(?=[A-Z])"), "contiguous"),
        pre_tokenizers.Split("  ", "merged_with_previous", invert=True),
        pre_tokenizers.Digits(), pre_tokenizers.FixedLength(7)])
    train(t, trainers.WordLevelTrainer(vocab_size=300, special_tokens=["[UNK]"], show_progress=False))
    t.decoder = decoders.CTC(pad_token="[UNK]", word_delimiter_token="e")
    return t


def wordpiece_cased():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=12))
    t.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=True,
                                              handle_chinese_chars=False, clean_text=False)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    train(t, trainers.WordPieceTrainer(vocab_size=300, special_tokens=["[UNK]"], show_progress=False))
    t.decoder = decoders.WordPiece(cleanup=False)
    return t


def sentencepiece_charsmap():
    """Compiled replacements as SentencePiece makes them of a few rules, out of a model that it trains;
    its own rules are as many kilobytes as all else here."""
    import sentencepiece as spm
    from sentencepiece import sentencepiece_model_pb2 as proto
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as rules:
        for point in list(range(0xff01, 0xff5f)) + list(range(0x2150, 0x2190)) + [0xa0, 0x3000, 0xfb01]:
            made = unicodedata.normalize("NFKC", chr(point))
            if made != chr(point):
                rules.write("%X\t%s\n" % (point, " ".join("%X" % ord(c) for c in made)))
        rules.write("1B\t\n65 301\tE9\n41 30A\tC5\n1F468\t1F469\n2581\t20\n")
        rules.flush()
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(text()), model_writer=model, vocab_size=300, minloglevel=2,
            normalization_rule_tsv=rules.name, hard_vocab_limit=False)
    read = proto.ModelProto()
    read.ParseFromString(model.getvalue())
    return read.normalizer_spec.precompiled_charsmap


def xlm_roberta():
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                               pre_tokenizers.Metaspace(prepend_scheme="always")])
    train(t, trainers.UnigramTrainer(vocab_size=300, special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
                                     unk_token="<unk>", show_progress=False))
    t.normalizer = normalizers.Sequence([
        normalizers.Precompiled(sentencepiece_charsmap()), normalizers.Replace(Regex(" {2,}"), " ")])
    t.decoder = decoders.Metaspace()
    t.post_processor = template("<s> $A </s>", [("<s>", 0), ("</s>", 2)])
    return t


MADE = {"roberta": roberta, "clip": clip, "prefixed": prefixed, "gpt4": lambda: split(GPT4),
        "kimi": lambda: split(KIMI), "llama_first": llama_first, "spans": spans,
        "wordpiece_cased": wordpiece_cased, "xlm_roberta": xlm_roberta}


def write(name, tokenizer, seed):
    path = os.path.join(OUT, name)
    compact = json.loads(tokenizer.to_str())
    with open(path + ".json", "w", encoding="utf-8") as out:
        json.dump(compact, out, ensure_ascii=False, separators=(",", ":"))
        out.write("\n")
    with open(path + ".cases", "w", encoding="utf-8") as out:
        cases = [case for case in texts_for(tokenizer, RANDOM, seed) if len(case) <= LONGEST]
        for case in cases:
            ids, bare, decoded, skipped = theirs(tokenizer, case)
            row = {"text": case, "ids": ids, "bare": bare, "decoded": decoded, "skipped": skipped}
            pieces = tokenizer.encode(case).tokens
            if pieces != [tokenizer.id_to_token(i) for i in ids]:
                row["pieces"] = pieces
            out.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
    print("%s: %d tokens, %d cases" % (name, tokenizer.get_vocab_size(), len(cases)))


def main():
    os.makedirs(OUT, exist_ok=True)
    seed = 100
    for path in sys.argv[1:]:
        file = os.path.join(path, "tokenizer.json") if os.path.isdir(path) else path
        tokenizer = Tokenizer.from_file(file)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        write(os.path.basename(path.rstrip("/")).replace(".json", ""), tokenizer, seed)
        seed += 1
    for name in MADE:
        random.seed(seed)
        write(name, MADE[name](), seed)
        seed += 1


if __name__ == "__main__":
    main()
