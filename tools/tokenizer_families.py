"""The tokenizers of families for compare_tokenizers.py: PyPI's tokenizers with the settings of each family's tokenizer.json, over the vocabulary in a GGUF file
or one that is trained here on generated text."""

import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "golden"))

import tokenizer as golden  # noqa: E402  (tools/golden/tokenizer.py)
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

def pool():
    """Code points assigned in Unicode 12.0, from the database that the compiler's tables are made of."""
    out = []
    for line in pathlib.Path("/usr/share/unicode/DerivedAge.txt").read_text().splitlines():
        fields = line.split("#")[0].split(";")
        if len(fields) == 2 and tuple(map(int, fields[1].strip().split("."))) <= (12, 0):
            first, _, last = fields[0].strip().partition("..")
            out += [c for c in range(int(first, 16), int(last or first, 16) + 1) if c >= 0x80 and not 0xd800 <= c < 0xe000]
    return [c for c in out if c < 0x30000 or c % 64 == 0]


POOL = pool()

UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN35 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + REST
TEKKEN = (rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]*[{LOWER}]+|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]+[{LOWER}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + REST)
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]*[{LOWER}]+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]+[{LOWER}]*{CONTRACTIONS}?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + REST)
NOT_HAN = r"&&[^\p{Han}]"
KIMI = (rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}{NOT_HAN}]*[{LOWER}{NOT_HAN}]+{CONTRACTIONS}?"
        rf"|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}{NOT_HAN}]+[{LOWER}{NOT_HAN}]*{CONTRACTIONS}?|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*" + REST)
DEEPSEEK3 = [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
             r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + REST]
HAN = "[一-龥ࠀ-一가-\ud7ff]+"

ByteLevel, Split, Digits = pre_tokenizers.ByteLevel, pre_tokenizers.Split, pre_tokenizers.Digits
RAW = ByteLevel(add_prefix_space=False, use_regex=False, trim_offsets=False)
GPT2 = ByteLevel(add_prefix_space=False, use_regex=True, trim_offsets=False)


def splits(*patterns):
    return [Split(Regex(p), "isolated") for p in patterns]


def sequence(*parts):
    return pre_tokenizers.Sequence(list(parts))


# ---- vocabularies -----------------------------------------------------------------------------------------------------


def read_gguf(path):
    """The metadata of a GGUF file; arrays of strings as bytes decoded to text."""
    data = pathlib.Path(path).read_bytes()
    at = 24
    formats = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

    def text():
        nonlocal at
        size, = struct.unpack_from("<Q", data, at)
        at += 8 + size
        return data[at - size:at].decode("utf-8", "surrogateescape")

    def value(kind):
        nonlocal at
        if kind == 8:
            return text()
        if kind == 9:
            element, count = struct.unpack_from("<IQ", data, at)
            at += 12
            if element == 8:
                return [text() for _ in range(count)]
            out = struct.unpack_from(f"<{count}{formats[element]}", data, at)
            at += struct.calcsize(formats[element]) * count
            return list(out)
        out, = struct.unpack_from("<" + formats[kind], data, at)
        at += struct.calcsize(formats[kind])
        return out

    keys = {}
    for _ in range(struct.unpack_from("<Q", data, 16)[0]):
        key = text()
        kind, = struct.unpack_from("<I", data, at)
        at += 4
        keys[key] = value(kind)
    return {k.removeprefix("tokenizer.ggml."): v for k, v in keys.items() if k.startswith("tokenizer.ggml.")}


def add_special(tokenizer, gguf, control=(3,), rstrip=()):
    """Control and user-defined tokens of the file, in the order of their ids."""
    for token, kind in zip(gguf["tokens"], gguf["token_type"]):
        if kind in control:
            tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False, rstrip=token in rstrip)])
        elif kind == 4:
            tokenizer.add_tokens([AddedToken(token, normalized=False, rstrip=token in rstrip)])


def bos_template(tokenizer, gguf, key="bos_token_id"):
    bos = gguf["tokens"][gguf[key]]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A $B", special_tokens=[(bos, gguf[key])])


def byte_bpe(gguf, pre, normalizer=None, bos=False, ignore_merges=False):
    vocab = {t: i for i, t in enumerate(gguf["tokens"]) if gguf["token_type"][i] != 5}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(m.split(" ")) for m in gguf["merges"]], ignore_merges=ignore_merges))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    add_special(tokenizer, gguf)
    if bos:
        bos_template(tokenizer, gguf)
    return tokenizer


def scored_merges(vocab, scores):
    """As transformers' converters make them of piece scores."""
    merges = []
    for token, index in vocab.items():
        local = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in vocab and token[i:] in vocab]
        local.sort(key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))
        merges += [(left, right, scores[index]) for left, right in local]
    merges.sort(key=lambda m: (m[2], len(m[0]), len(m[1])), reverse=True)
    return [(left, right) for left, right, _ in merges]


def char_bpe(gguf, prefix, merges=None, rstrip=()):
    vocab = {t: i for i, t in enumerate(gguf["tokens"]) if gguf["token_type"][i] != 5}
    merges = merges or scored_merges(vocab, gguf["scores"])
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    replace = normalizers.Replace(" ", "▁")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace]) if prefix else replace
    if not prefix:
        tokenizer.pre_tokenizer = Split(" ", "merged_with_previous")
    chain = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(chain + ([decoders.Strip(" ", 1, 0)] if prefix else []))
    add_special(tokenizer, gguf, (2, 3), rstrip)
    bos_template(tokenizer, gguf)
    return tokenizer


def metaspace_words(tokenizer):
    tokenizer.pre_tokenizer = sequence(pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace())
    tokenizer.decoder = decoders.Metaspace()


def xlm_roberta(gguf):
    tokenizer = Tokenizer(models.Unigram(list(zip(gguf["tokens"], gguf["scores"])), gguf["unknown_token_id"], False))
    tokenizer.normalizer = normalizers.Precompiled(bytes(b & 255 for b in gguf["precompiled_charsmap"]))
    metaspace_words(tokenizer)
    add_special(tokenizer, gguf, (2, 3))
    bos, eos = (gguf["tokens"][gguf[k]] for k in ("bos_token_id", "eos_token_id"))
    tokenizer.post_processor = processors.RobertaProcessing((eos, gguf["eos_token_id"]), (bos, gguf["bos_token_id"]), trim_offsets=False)
    return tokenizer


def bert(gguf):
    vocab = {}
    for i, (token, kind) in enumerate(zip(gguf["tokens"], gguf["token_type"])):
        brackets = token.startswith("[") and token.endswith("]")
        vocab[token[1:] if token.startswith("▁") else token if kind != 1 or brackets else "##" + token] = i
    tokenizer = Tokenizer(models.WordPiece(vocab=vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    add_special(tokenizer, dict(gguf, tokens=list(vocab)), (2, 3))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", vocab["[SEP]"]), ("[CLS]", vocab["[CLS]"]))
    return tokenizer


def training_texts(step=1):
    """step: of the pool's characters every step-th."""
    rng = random.Random(3)
    yield from golden.corpus()
    for _ in range(20000):
        yield golden.random_text(rng, POOL[::step])


def trained_bytes(pre, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(training_texts(), trainers.BpeTrainer(
        vocab_size=8000, initial_alphabet=sorted(ByteLevel.alphabet()), show_progress=False, special_tokens=["<|begin|>", "<|end|>"]))
    return tokenizer


def t5(gguf):
    """T5's settings; its charsmap is XLM-RoBERTa's: both are SentencePiece's nmt_nfkc."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Precompiled(bytes(b & 255 for b in gguf["precompiled_charsmap"]))
    metaspace_words(tokenizer)
    # A Unigram vocabulary holds every character of its training text.
    tokenizer.train_from_iterator(training_texts(100), trainers.UnigramTrainer(
        vocab_size=4000, unk_token="<unk>", special_tokens=["<pad>", "</s>", "<unk>"], show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return tokenizer


PHI3_RSTRIP = {"</s>", "<|assistant|>", "<|end|>", "<|system|>", "<|user|>", *(f"<|placeholder{i}|>" for i in range(1, 7))}
NFC = normalizers.NFC()
LLAMA3 = sequence(*splits(golden.LLAMA3), RAW)

# Name -> (vocabulary file or none, how it is made of that file's metadata, whether offsets compare, whether llmc reads the file itself).
FAMILIES = {
    "gpt2": ("gpt-2", lambda g: byte_bpe(g, GPT2), True, True),
    "llama3": ("llama-bpe", lambda g: byte_bpe(g, LLAMA3, bos=True, ignore_merges=True), True, True),
    "qwen2": ("qwen2", lambda g: byte_bpe(g, sequence(*splits(golden.QWEN2), RAW), NFC), False, True),
    "qwen3.5": ("qwen35", lambda g: byte_bpe(g, sequence(*splits(QWEN35), RAW), NFC), False, True),
    "smollm": ("smollm2", lambda g: byte_bpe(g, sequence(Digits(True), GPT2)), True, True),
    "gemma": ("gemma-4", lambda g: char_bpe(g, False, [split_merge(m) for m in g["merges"]]), True, True),
    "llama2": ("llama-spm", lambda g: char_bpe(g, True), True, True),
    "phi3": ("phi-3", lambda g: char_bpe(g, True, rstrip=PHI3_RSTRIP), True, True),
    "tekken": (None, lambda g: trained_bytes(sequence(*splits(TEKKEN), RAW), True), True, False),
    "deepseek-llm": ("deepseek-llm", lambda g: byte_bpe(g, sequence(*splits("[\r\n]", LETTERS, r"\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", r"\s+$", HAN), Digits(True), RAW),
                                                        bos=True), True, True),
    "deepseek-coder": ("deepseek-coder", lambda g: byte_bpe(g, sequence(*splits("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN), Digits(True), RAW), bos=True), True, True),
    "deepseek-v3": (None, lambda g: trained_bytes(sequence(*splits(*DEEPSEEK3), RAW)), True, False),
    "falcon": ("falcon", lambda g: byte_bpe(g, sequence(pre_tokenizers.Punctuation("contiguous"), GPT2, Digits(False), Split(Regex("[0-9][0-9][0-9]"), "isolated"))), True, True),
    "command-r": ("command-r", lambda g: byte_bpe(g, sequence(Digits(True), GPT2), NFC, bos=True), False, True),
    "starcoder": ("starcoder", lambda g: byte_bpe(g, sequence(Digits(True), GPT2)), True, True),
    "refact": ("refact", lambda g: byte_bpe(g, sequence(Digits(True), GPT2)), True, True),
    "mpt": ("mpt", lambda g: byte_bpe(g, GPT2, NFC), False, True),
    "gpt-oss": (None, lambda g: trained_bytes(sequence(*splits(O200K), RAW)), True, False),
    "kimi-k2": (None, lambda g: trained_bytes(sequence(*splits(KIMI), RAW)), True, False),
    "bert": ("bert-bge", bert, False, True),
    "xlm-r": ("nomic-bert-moe", xlm_roberta, False, True),
    "t5": ("nomic-bert-moe", t5, False, False),
}


def split_merge(merge):
    """A merge over characters: a part may begin with a space."""
    at = merge.index(" ", 1)
    return merge[:at], merge[at + 1:]


def letters():
    """DeepSeek's first tokenizers list ranges of letters; read from the compiler's table, which states them by number."""
    source = (pathlib.Path(__file__).parents[1] / "frontend/tokenizer_families.cpp").read_text()
    part = source[source.index("kDeepseekLlmLetters ="):source.index("constexpr std::string_view kDeepseekLlmPunctuation")]
    return "".join(line.split('R"(', 1)[1].rsplit(')"', 1)[0] for line in part.splitlines() if 'R"(' in line)


LETTERS = letters()
