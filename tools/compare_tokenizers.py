"""Compares llmc's tokenizers with PyPI's tokenizers on generated text, family by family.

    tools/venv --light tools/compare_tokenizers.py [--program build/release/tokenize_texts] [--strings 200000] [--family NAME ...]
        [--vocabularies DIR] [--smollm2 FILE.gguf] [--speed] [--parts] [--vectors]

--vocabularies  the folder vendor/llama.cpp/models of PyPI's llama-cpp-python source package (`pip download --no-binary :all: --no-deps
                llama-cpp-python`, unpacked), with the real vocabularies of most families; families without one are trained here on generated text.
--smollm2       the file that `tools/models smollm2` prints.
--vectors       runs the texts and ids beside those vocabularies (*.inp, *.out) instead.
--parts         instead: every code point through each part that has Unicode tables of its own; prints where PyPI's differ.
--speed         instead: MB/s of both on the same English text, one thread.

For each family: ids with special tokens read and as text, decoded text, and offsets where nothing is normalised. Exit status 1 if any differs.
"""

import argparse
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(pathlib.Path(__file__).parent / "golden"))

import tokenizer as golden  # noqa: E402  (tools/golden/tokenizer.py)
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

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
            tokenizer.add_tokens([AddedToken(token, normalized=False)])


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


def training_texts():
    rng = random.Random(3)
    yield from golden.corpus()
    for _ in range(20000):
        yield golden.random_text(rng, POOL)


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
    tokenizer.train_from_iterator(training_texts(), trainers.UnigramTrainer(
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

# ---- comparing --------------------------------------------------------------------------------------------------------


def frames(texts):
    return b"".join(struct.pack("<I", len(t)) + t for t in texts)


def run(program, path, texts):
    """What tokenize_texts says of each text: ids, ids with special tokens as text, offsets, decoded bytes."""
    done = subprocess.run([program, path], input=frames(texts), stdout=subprocess.PIPE, check=True)
    data, at, out = done.stdout, 0, []

    def numbers(count, form="i"):
        nonlocal at
        at += 4 * count
        return list(struct.unpack_from(f"<{count}{form}", data, at - 4 * count))

    for _ in texts:
        ids = numbers(numbers(1)[0])
        plain = numbers(numbers(1)[0])
        offsets = numbers(2 * len(ids), "I")
        size = numbers(1)[0]
        at += size
        out.append((ids, plain, list(zip(offsets[::2], offsets[1::2])), data[at - size:at]))
    return out


def without_second_bos(ids, bos):
    return ids[1:] if bos is not None and ids[:2] == [bos, bos] else ids


def byte_offsets(text, offsets):
    starts = [0]
    for c in text:
        starts.append(starts[-1] + len(c.encode()))
    return [(starts[a], starts[b]) for a, b in offsets]


def compare(name, program, path, tokenizer, bos, texts, offsets):
    """The number of texts that differ; prints the first three."""
    wrong = 0
    got = run(program, path, [t.encode() for t in texts])
    full = tokenizer.encode_batch_fast(texts) if not offsets else tokenizer.encode_batch(texts)
    tokenizer.encode_special_tokens = True
    plain = tokenizer.encode_batch_fast(texts)
    tokenizer.encode_special_tokens = False
    decoded = tokenizer.decode_batch([e.ids for e in full], skip_special_tokens=False)
    for text, (ids, as_text, spans, back), want, want_plain, want_back in zip(texts, got, full, plain, decoded):
        problem = None
        if ids != without_second_bos(want.ids, bos):
            problem = ("ids", ids, want.ids)
        elif as_text != without_second_bos(want_plain.ids, bos):
            problem = ("ids, special tokens as text", as_text, want_plain.ids)
        elif back.decode() != want_back and ids == want.ids:
            problem = ("decoded", back.decode(), want_back)
        elif offsets and ids == want.ids and spans != byte_offsets(text, want.offsets):
            problem = ("offsets", spans, byte_offsets(text, want.offsets))
        if problem:
            wrong += 1
            if wrong <= 3:
                print(f"  {name}: {problem[0]} of {text!r}\n    llmc {problem[1]}\n    PyPI {problem[2]}")
    return wrong


def load_family(name, args):
    """(metadata or none, path, tokenizer), or none when its file is missing."""
    file, make, _, _ = FAMILIES[name]
    path = None
    if file:
        path = args.smollm2 if file == "smollm2" else args.vocabularies and args.vocabularies / f"ggml-vocab-{file}.gguf"
        if not path or not path.exists():
            return None
    gguf = read_gguf(path) if path else {}
    return gguf, path, make(gguf)


def check_family(name, args):
    loaded = load_family(name, args)
    if not loaded:
        print(f"{name}: skipped, its vocabulary isn't there")
        return 0
    gguf, path, tokenizer = loaded
    _, _, offsets, own = FAMILIES[name]
    special = [t.content for t in tokenizer.get_added_tokens_decoder().values()][:12]
    bos = gguf.get("bos_token_id", gguf.get("cls_token_id"))
    rng = random.Random(name)
    wrong = total = 0
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "tokenizer.json"
        file.write_text(tokenizer.to_str())
        while total < args.strings:
            count = min(10000, args.strings - total)
            texts = [golden.random_text(rng, POOL) for _ in range(count)]
            for i in range(0, count, 10):
                if special:
                    cut = rng.randrange(len(texts[i]) + 1)
                    texts[i] = texts[i][:cut] + rng.choice(special) + texts[i][cut:]
            source = path if own and total // 10000 % 2 == 0 else file  # the file itself, and the tokenizer.json, in turn
            wrong += compare(f"{name} ({source.name})", args.program, source, tokenizer, bos, texts, offsets)
            total += count
    print(f"{name}: {total} strings, {wrong} differ", flush=True)
    return wrong


def check_vectors(args):
    """The texts and ids that come with the vocabularies."""
    wrong = 0
    for path in sorted(args.vocabularies.glob("ggml-vocab-*.gguf")):
        inputs = path.with_name(path.name + ".inp")
        name = path.stem.removeprefix("ggml-vocab-")
        if not inputs.exists():
            done = subprocess.run([args.program, path], input=b"", capture_output=True)
            print(f"{name}: no texts; " + (done.stderr.decode().split("error: ")[-1].strip() if done.returncode else "lowered"))
            continue
        texts = inputs.read_bytes().decode().split("\n__ggml_vocab_test__\n")
        rows = [[int(i) for i in line.split()] for line in path.with_name(path.name + ".out").read_text().split("\n")[:len(texts)]]
        got = run(args.program, path, [t.encode() for t in texts])
        gguf = read_gguf(path)
        bad = 0
        for text, (ids, *_), want in zip(texts, got, rows):
            around = {gguf.get(k) for k in ("bos_token_id", "cls_token_id", "seperator_token_id", "eos_token_id")}
            stripped = ids[1:] if ids[:1] and ids[0] in around and ids[:1] != want[:1] else ids
            stripped = stripped[:-1] if stripped[-1:] and stripped[-1] in around and stripped[-1:] != want[-1:] else stripped
            if stripped != want:
                bad += 1
                print(f"  {name}: {text!r}\n    llmc {ids}\n    file {want}")
        print(f"{name}: {len(texts)} texts, {bad} differ", flush=True)
        wrong += bad
    return wrong


def parts():
    """Single parts with Unicode tables of their own, as tokenizers that show what they did to a text."""
    def plain(normalizer=None, pre=None):
        vocabulary = {chr(LETTER): i for i, LETTER in enumerate(sorted(map(ord, ByteLevel.alphabet())))}
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
        if normalizer:
            tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = sequence(*([pre] if pre else []), RAW)
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer

    # A pattern shows itself by what it removes.
    def pattern(text):
        return plain(pre=Split(Regex(text), "removed"))

    yield "Split \\p{L} (Oniguruma)", pattern(r"\p{L}")
    yield "Split \\p{N}", pattern(r"\p{N}")
    yield "Split \\p{P}", pattern(r"\p{P}")
    yield "Split \\p{S}", pattern(r"\p{S}")
    yield "Split \\p{M}", pattern(r"\p{M}")
    yield "Split \\p{Lu}", pattern(r"\p{Lu}")
    yield "Split \\p{Han}", pattern(r"\p{Han}")
    yield "Split \\s", pattern(r"\s")
    yield "Split \\w", pattern(r"\w")
    yield "Split \\d", pattern(r"\d")
    yield "Split (?i:k)", pattern("(?i:[a-z])")
    yield "WhitespaceSplit (Rust)", plain(pre=pre_tokenizers.WhitespaceSplit())
    yield "CharDelimiterSplit", plain(pre=pre_tokenizers.CharDelimiterSplit("é"))
    yield "Punctuation (unicode_categories)", plain(pre=pre_tokenizers.Punctuation("removed"))
    yield "Lowercase (Rust)", plain(normalizers.Lowercase())
    yield "StripAccents (unicode_normalization)", plain(normalizers.StripAccents())
    yield "BertNormalizer (unicode_categories)", plain(normalizers.BertNormalizer(strip_accents=False, lowercase=False))
    yield "BertNormalizer, accents", plain(normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False))
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        yield f"{form} (unicode_normalization)", plain(getattr(normalizers, form)())
    yield "Nmt", plain(normalizers.Nmt())
    yield "Strip", plain(normalizers.Strip())


def ages():
    out = {}
    for line in pathlib.Path("/usr/share/unicode/DerivedAge.txt").read_text().splitlines():
        fields = line.split("#")[0].split(";")
        if len(fields) == 2:
            first, _, last = fields[0].strip().partition("..")
            out.update(dict.fromkeys(range(int(first, 16), int(last or first, 16) + 1), fields[1].strip()))
    return out


def check_parts(args):
    """Prints, for each part, where every code point by itself differs; counts those assigned in Unicode 12.0."""
    age, wrong = ages(), 0
    points = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]
    texts = [chr(c) for c in points]
    with tempfile.TemporaryDirectory() as folder:
        for name, tokenizer in parts():
            file = pathlib.Path(folder) / "tokenizer.json"
            file.write_text(tokenizer.to_str())
            want = tokenizer.encode_batch_fast(texts)
            bad = [c for c, (ids, *_), w in zip(points, run(args.program, file, [t.encode() for t in texts]), want) if ids != w.ids]
            old = [c for c in bad if c in age and tuple(map(int, age[c].split("."))) <= (12, 0)]
            new = sorted({age.get(c, "unassigned") for c in bad} - {age[c] for c in old})
            print(f"{name}: {len(old)} of Unicode 12.0 differ {[hex(c) for c in old[:12]]}, {len(bad) - len(old)} others {new}", flush=True)
            wrong += len(old)
    return wrong


def check_speed(args):
    """MB/s on English text, 1 MB at once for llmc; PyPI's tokenizers gets the same text."""
    text = "".join(pathlib.Path(f"/usr/share/common-licenses/{name}").read_text() for name in ("GPL-3", "GPL-2", "LGPL-2.1", "Apache-2.0", "MPL-2.0"))
    text = (text * (1 + (1 << 20) // len(text)))[:1 << 20]
    for name in args.family or FAMILIES:
        loaded = load_family(name, args)
        if not loaded:
            continue
        _, path, tokenizer = loaded
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "tokenizer.json"
            file.write_text(tokenizer.to_str())
            out = subprocess.run([args.program, file, "--speed"], input=frames([text.encode()] * 10), stdout=subprocess.PIPE, check=True).stdout.split()
        start = time.perf_counter()
        count = len(tokenizer.encode_batch_fast([text])[0].ids)
        seconds = time.perf_counter() - start
        print(f"{name}: llmc {int(out[0]) / float(out[2]) / 1e6:.1f} MB/s, PyPI {len(text) / seconds / 1e6:.1f} MB/s ({count} tokens)", flush=True)
    return 0


def main():
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", type=pathlib.Path, default=pathlib.Path(__file__).parents[1] / "build/release/tokenize_texts")
    parser.add_argument("--strings", type=int, default=200000)
    parser.add_argument("--family", action="append", choices=FAMILIES)
    parser.add_argument("--vocabularies", type=pathlib.Path)
    parser.add_argument("--smollm2", type=pathlib.Path)
    for flag in ("--speed", "--parts", "--vectors"):
        parser.add_argument(flag, action="store_true")
    args = parser.parse_args()
    if args.vectors:
        wrong = check_vectors(args)
    elif args.parts:
        wrong = check_parts(args)
    elif args.speed:
        wrong = check_speed(args)
    else:
        wrong = sum(check_family(name, args) for name in args.family or FAMILIES)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
