"""Writes the golden tokenizers: small byte-level BPE vocabularies, texts, and what PyPI's tokenizers makes of the texts.

    tools/venv --light tools/golden/tokenizer.py [--out tests/data/tokenizer] [--gguf SmolLM2-135M-Instruct.Q4_1.gguf]

In OUT:
  texts.bin       the texts, each a u16 number of bytes (little-endian) and that many bytes of UTF-8; drawn from a seed, mixed scripts
  cases.json      short texts with their ids in every variant, to read
  NAME.json       a tokenizer.json: one vocabulary, trained here on text that this script makes up, under different pre-tokenizers, normalizers, flags
                  and added tokens
  NAME.hashes     u32 a text: FNV-1a over the ids, each as 4 bytes; first for all texts with special tokens recognised, then with special tokens as text;
                  special tokens of the post-processor (BOS) included
  NAME.decoded    u32 a text: FNV-1a over the bytes that decoding its ids gives (special tokens kept)
With --gguf (`tools/models smollm2` prints its path) also smollm2.hashes, smollm2.decoded and smollm2 in cases.json: the vocabulary and merges of that file
under Digits(individual_digits) and ByteLevel, no BOS. transformers' own conversion of the file leaves out the digits.
"""

import argparse
import json
import pathlib
import random
import struct
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")

TEXTS = 3000
SPECIAL = ["<|begin|>", "<|end|>"]

WORDS = """the capital of France is Paris don't I'VE we'll HE'ST they're x'd 'S 's it'M O'Reilly 'ſ ſ Straße naïve café CAFÉ İstanbul ﬁne ﬆ
            привет мир Ελλάδα σας مرحبا שלום नमस्ते हिन्दी สวัสดี 你好，世界 日本語 かな カナ 한국어 안녕 ქართული Việt Việt àéîõü Ångström K Å
            function(){return} foo_bar camelCase x=1; a+b==c // /* */ <p> </p> &amp; https://x.y/z?q=1 #tag @me $5.00 50% ^_^ :-) ... ---- ====""".split()
BLANKS = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\r", "\t", "\t\t", " \n", "\n ", "\u00a0", "\u3000", "\u2028", "\u0085", "\u200b",
          "\ufeff", "\x0b", "\x0c", "\u1680", "\u2009", "    \n  ", "\n   \n"]
NUMBERS = ["0", "7", "42", "123", "1234", "1234567", "3333+777", "1.5", "1,000,000", "٣٤٥", "१२३", "½", "²", "Ⅷ", "㊿", "৪", "𝟘𝟙", "①②③④"]
PIECES = ["👋🏽", "🤗", "👨‍👩‍👧", "🇫🇷", "e\u0301", "a\u0323\u0302", "a\u0302\u0323", "\u0301", "\u0344", "\u0958", "\u0915\u093c", "\u1100\u1161\u11a8",
          "\uac00\u11a8", "\u1100\u1161", "\u212b", "\u2126", "\u2adc", "q\u0307\u0323", "\u09c7\u09be", "\u0b92\u0bd7", "\U000110a5", "\U00011099\U000110ba",
          "\U0001d15e", "\ufb1d", "o\u031b\u0323\u0302", "\x00", "\x01", "\x7f", "\u00ad", "_", "'", "''", "\"", "“", "”", "—", "…", "\U0010fffd", "\ue000",
          "\u0e33", "\u0eb3", "\u0f73", "\u0f71\u0f72", "\u1e9b\u0323", "\u03d3", "\u0340", "\u0374"]
ADDED = ["<M>", "<L>", "<R>", "<LR>", "<W>", "<ab>", "<abc>", "ŕ!", "r\u0301!", "\n\n\n", "  ", "word", *SPECIAL]


def assigned(code):
    """Whether a code point can stand in a text and means the same in all versions of Unicode from 13 on."""
    return unicodedata.category(chr(code)) not in ("Cn", "Cs") and unicodedata.ucd_3_2_0.category(chr(code)) == unicodedata.category(chr(code))


def random_text(rng, pool):
    """One text: fragments of all kinds, some scrambled."""
    kinds = [lambda: rng.choice(WORDS), lambda: rng.choice(WORDS), lambda: rng.choice(BLANKS), lambda: rng.choice(BLANKS), lambda: rng.choice(NUMBERS),
             lambda: rng.choice(PIECES), lambda: rng.choice(ADDED), lambda: chr(rng.choice(pool)), lambda: chr(rng.randrange(0x20, 0x250)),
             lambda: rng.choice("abcdefg ,.'") * rng.randrange(1, 9)]
    weights = [rng.random() for _ in kinds]
    text = "".join(rng.choices(kinds, weights)[0]() for _ in range(rng.randrange(1, 16)))
    if rng.random() < 0.1:
        text = "".join(rng.sample(text, len(text)))
    return text[:400]


def texts():
    """All texts, the same ones in every run."""
    rng = random.Random(20)
    pool = [c for c in range(0x80, 0x30000) if not 0xd800 <= c < 0xe000 and assigned(c)]
    fixed = ["", " ", "\n", *ADDED, *WORDS, *BLANKS, *NUMBERS, *PIECES, "a" * 300, " " * 300, "-" * 300, "\n" * 300, "7" * 300, "e\u0301" * 80,
             "a" + "\u0301\u0323" * 60]
    return fixed + [random_text(rng, pool) for _ in range(TEXTS - len(fixed))]


def corpus():
    """Text to train on: sentences of made-up grammar, code, numbers and other scripts."""
    rng = random.Random(1)
    names, verbs = ["Anna", "the cat", "a small boat", "Paris", "he", "they"], ["sees", "won't find", "likes", "doesn't know", "returned to", "is"]
    for _ in range(4000):
        sentence = f"{rng.choice(names)} {rng.choice(verbs)} {rng.choice(names)}{rng.choice(['.', '!', '?', ', and', ';'])}"
        yield rng.choice([sentence, f"{sentence}\n\n  {sentence}", f"if (x == {rng.randrange(10000)}) {{\n    return;\n}}\n", " ".join(rng.choices(WORDS, k=6))])


def train():
    """A vocabulary of 256 bytes and some hundred merges, as tokenizers' own JSON."""
    tokenizer = Tokenizer(models.BPE())
    # Cut by lines only, so that some merges cross what the pre-tokenizers cut, and some tokens can be reached by ignore_merges alone.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return json.loads(tokenizer.to_str())["model"]


def build(model, pre, normalizer=None, added=(), bos=None, drop=(), **flags):
    """A tokenizer over the trained model, ids of added tokens behind it. drop: bytes whose tokens are missing."""
    vocabulary = dict(model["vocab"])
    merges = [tuple(m) for m in model["merges"]]
    for token in drop:
        merges = [m for m in merges if token not in m[0] + m[1]]
    kept = {a + b for a, b in merges}
    vocabulary = {t: i for t, i in vocabulary.items() if t not in drop and (len(t) == 1 or t in kept or not drop)}
    if flags.get("unk_token"):
        vocabulary[flags["unk_token"]] = len(model["vocab"])
    # Without holes: tokenizers numbers added tokens from the number of tokens on.
    vocabulary = {t: i for i, t in enumerate(sorted(vocabulary, key=vocabulary.get))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, **flags))
    tokenizer.pre_tokenizer = pre
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    tokenizer.add_tokens(list(added))
    if bos:
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))])])
    return tokenizer


def variants():
    """Name -> tokenizer."""
    model = train()
    # What a long word of the texts would be as one token, without a merge that makes it.
    unreachable = dict(model, vocab=dict(model["vocab"], **{"ĠVieá»ĩt": len(model["vocab"]), "ĠStraÃŁe": len(model["vocab"]) + 1}))
    byte_level = pre_tokenizers.ByteLevel

    def split(pattern):
        return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level(False, use_regex=False)])

    def digits(prefix=False):
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(prefix)])

    nfc = normalizers.NFC()
    flags = [AddedToken("<M>"), AddedToken("<L>", lstrip=True, normalized=False), AddedToken("<R>", rstrip=True), AddedToken("<LR>", lstrip=True, rstrip=True),
             AddedToken("<W>", single_word=True), AddedToken("<ab>", normalized=False), AddedToken("<abc>"), AddedToken("r\u0301!", normalized=True),
             AddedToken("\n\n\n", normalized=False), AddedToken("  ", rstrip=True, normalized=False), AddedToken("word", single_word=True, lstrip=True)]
    plain = [AddedToken("<M>", normalized=False), AddedToken("<ab>", normalized=False), AddedToken("<abc>", normalized=False)]
    lost = ["Ã", "Ġ", "a"]
    return {
        "gpt2": build(model, byte_level(False)),
        "gpt2-prefix": build(model, byte_level(True), normalizers.Sequence([nfc]), added=plain),
        "llama3": build(unreachable, split(LLAMA3), ignore_merges=True, bos=SPECIAL[0]),
        "llama3-merges": build(unreachable, split(LLAMA3)),
        "qwen2": build(model, split(QWEN2), nfc, added=plain),
        "qwen2-raw": build(model, split(QWEN2), bos=SPECIAL[0]),
        "smollm": build(model, digits()),
        "smollm-prefix": build(model, digits(True), nfc, added=flags),
        "digit-runs": build(model, pre_tokenizers.Sequence([pre_tokenizers.Digits(False), byte_level(False, use_regex=False)])),
        "added": build(model, split(QWEN2), nfc, added=flags),
        "added-raw": build(model, byte_level(False), added=flags),
        "lost-bytes": build(model, byte_level(False), drop=lost),
        "unk": build(model, byte_level(False), drop=lost, unk_token="<unk>", fuse_unk=False),
        "unk-fused": build(model, split(LLAMA3), drop=lost, unk_token="<unk>", fuse_unk=True, ignore_merges=True),
    }


def smollm2(path):
    """The tokenizer of the GGUF file."""
    import gguf

    fields = gguf.GGUFReader(path).fields
    tokens, merges = (fields[f"tokenizer.ggml.{k}"].contents() for k in ("tokens", "merges"))
    types = fields["tokenizer.ggml.token_type"].contents()
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=[tuple(m.split(" ")) for m in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, kind in zip(tokens, types) if kind == 3])
    return tokenizer


def fnv(data):
    """FNV-1a, 32 bits."""
    value = 0x811c9dc5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xffffffff
    return value


def golden(tokenizer, lines):
    """Contents of NAME.hashes and NAME.decoded."""
    hashes, decoded = [], []
    for as_text in (False, True):
        tokenizer.encode_special_tokens = as_text
        for line in lines:
            ids = tokenizer.encode(line).ids
            hashes.append(fnv(struct.pack(f"<{len(ids)}I", *ids)))
            if not as_text:
                decoded.append(fnv(tokenizer.decode(ids, skip_special_tokens=False).encode()))
    tokenizer.encode_special_tokens = False
    return struct.pack(f"<{len(hashes)}I", *hashes), struct.pack(f"<{len(decoded)}I", *decoded)


CASES = ["What is 3333+777?", "1234567", "HE'ST I'VE it's", "a\r\nb", "a  b", "a   ", "   \n  x", "\n\n\n", "\t\tx", "नमस्ते", "สวัสดี", "你好，世界", "مرحبا",
         "\u00a0x", "\ufeffhi", "e\u0301", "\u0661\u0662\u0663", "🤗", " Việt", "Việt", "<|end|>", "a<|end|>b", "a <M>\n\nb", "x<W>y", "<|im_end|>", "x != y",
         "the word 'social'", "hello !", "", "a\u0000b"]


def main():
    """Writes everything."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "tests/data/tokenizer")
    parser.add_argument("--gguf", type=pathlib.Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    lines = texts()
    (args.out / "texts.bin").write_bytes(b"".join(struct.pack("<H", len(t.encode())) + t.encode() for t in lines))
    tokenizers = variants()
    for name, tokenizer in tokenizers.items():
        (args.out / f"{name}.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
    if args.gguf:
        tokenizers["smollm2"] = smollm2(args.gguf)
    for name, tokenizer in tokenizers.items():
        hashes, decoded = golden(tokenizer, lines)
        (args.out / f"{name}.hashes").write_bytes(hashes)
        (args.out / f"{name}.decoded").write_bytes(decoded)
    old = args.out / "cases.json"
    cases = {name: [t.encode(c).ids for c in CASES] for name, t in tokenizers.items()}
    if not args.gguf and old.exists() and "smollm2" in (kept := json.loads(old.read_text())["ids"]):
        cases["smollm2"] = kept["smollm2"]
    rows = ",\n".join(f" {json.dumps(n)}: {json.dumps(ids, separators=(',', ':'))}" for n, ids in sorted(cases.items()))
    old.write_text(f'{{"texts": {json.dumps(CASES)},\n"ids": {{\n{rows}\n}}}}\n')


if __name__ == "__main__":
    main()
