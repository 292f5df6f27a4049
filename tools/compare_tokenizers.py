"""Compares llmc's tokenizers with PyPI's tokenizers on generated text, family by family.

    tools/venv --light tools/compare_tokenizers.py [--program build/release/tokenize_texts] [--strings 200000] [--family NAME ...]
        [--vocabularies DIR] [--smollm2 FILE.gguf] [--speed] [--parts] [--vectors] [--cases]

--vocabularies  the folder vendor/llama.cpp/models of PyPI's llama-cpp-python source package (`pip download --no-binary :all: --no-deps
                llama-cpp-python`, unpacked), with the real vocabularies of most families; families without one are trained here on generated text.
--smollm2       the file that `tools/models smollm2` prints.
--vectors       instead: the texts and ids beside those vocabularies (*.inp, *.out), which are llama.cpp's; where PyPI's tokenizers give what llmc
                gives, llama.cpp is the one that differs.
--cases         instead: the texts of tools/tokenizer_cases.py, by their ids.
--parts         instead: code points one by one through each part that has Unicode tables of its own; prints where PyPI's differ.
--speed         instead: MB a second of CPU time of both on the same English text (10 times 1 MB; the best of three for PyPI's), one thread.

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
from tokenizer_cases import CASES, RUNS  # noqa: E402  (tools/tokenizer_cases.py)
from tokenizer_families import FAMILIES, POOL, RAW, ByteLevel, Split, read_gguf, sequence  # noqa: E402  (tools/tokenizer_families.py)
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers  # noqa: E402


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


def odd_tokens(tokenizer):
    """Added tokens that a byte-level decoder takes for letters of the byte alphabet, though they stand for themselves; llmc gives them back."""
    if not isinstance(tokenizer.decoder, decoders.ByteLevel):
        return set()
    letters = set(ByteLevel.alphabet())
    return {t.content for t in tokenizer.get_added_tokens_decoder().values() if not t.content.isascii() and set(t.content) <= letters}


def lost_bytes(tokenizer):
    """Bytes without a token in a byte-level vocabulary. Where one is left out, offsets of PyPI's tokenizers count on as if it weren't there; llmc's are the text's."""
    if not isinstance(tokenizer.decoder, decoders.ByteLevel):
        return set()
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    letters = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
    return {b for b, letter in letters.items() if tokenizer.token_to_id(letter) is None}


def compare(name, program, path, tokenizer, bos, texts, offsets):
    """The number of texts that differ; prints the first three."""
    wrong = 0
    odd, lost = odd_tokens(tokenizer), lost_bytes(tokenizer)
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
        elif ids == want.ids and back.decode() != want_back and not (any(o in text for o in odd) and back.decode().endswith(text)):
            problem = ("decoded", back.decode(), want_back)
        elif offsets and ids == want.ids and lost.isdisjoint(text.encode()) and spans != byte_offsets(text, want.offsets):
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
    rng, pool = random.Random(name), pool_of(name, args.program)
    wrong = total = 0
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "tokenizer.json"
        file.write_text(tokenizer.to_str())
        while total < args.strings:
            count = min(10000, args.strings - total)
            texts = [golden.random_text(rng, pool) for _ in range(count)]
            for i in range(0, count, 10):
                if special:
                    cut = rng.randrange(len(texts[i]) + 1)
                    texts[i] = texts[i][:cut] + rng.choice(special) + texts[i][cut:]
            source = path if own and total // 10000 % 2 == 0 else file  # the file itself, and the tokenizer.json, in turn
            wrong += compare(f"{name} ({source.name})", args.program, source, tokenizer, bos, texts, offsets)
            total += count
    print(f"{name}: {total} strings, {wrong} differ", flush=True)
    return wrong


UNNAMED = ("aquila", "gpt-neox")  # byte-level vocabularies that name no pre-tokenizer


def check_vectors(args):
    """The texts and ids that come with the vocabularies."""
    wrong = 0
    families = {file: family for family, (file, _, _, own) in FAMILIES.items() if own}
    for path in sorted(args.vocabularies.glob("ggml-vocab-*.gguf")):
        inputs = path.with_name(path.name + ".inp")
        name = path.stem.removeprefix("ggml-vocab-")
        if not inputs.exists():
            done = subprocess.run([args.program, path], input=b"", capture_output=True)
            print(f"{name}: no texts; " + (done.stderr.decode().split("error: ")[-1].strip() if done.returncode else "lowered"))
            wrong += (done.returncode == 1) != (name in UNNAMED)
            continue
        texts = inputs.read_bytes().decode().split("\n__ggml_vocab_test__\n")
        rows = [[int(i) for i in line.split()] for line in path.with_name(path.name + ".out").read_text().split("\n")[:len(texts)]]
        got = run(args.program, path, [t.encode() for t in texts])
        gguf = read_gguf(path)
        bad = others = 0
        tokenizer = None
        for text, (ids, *_), want in zip(texts, got, rows):
            around = {gguf.get(k) for k in ("bos_token_id", "cls_token_id", "seperator_token_id", "eos_token_id")}
            stripped = ids[1:] if ids[:1] and ids[0] in around and ids[:1] != want[:1] else ids
            stripped = stripped[:-1] if stripped[-1:] and stripped[-1] in around and stripped[-1:] != want[-1:] else stripped
            if stripped != want:
                tokenizer = tokenizer or (FAMILIES[families[name]][1](gguf) if name in families else None)
                if tokenizer and without_second_bos(tokenizer.encode(text).ids, gguf.get("bos_token_id")) == ids:
                    others += 1
                    print(f"  {name}: {text[:40]!r}\n    llmc and PyPI's tokenizers {ids[:10]}\n    llama.cpp {want[:10]}")
                    continue
                bad += 1
                print(f"  {name}: {text!r}\n    llmc {ids}\n    file {want}")
        print(f"{name}: {len(texts)} texts, {bad} differ" + (f", {others} in llama.cpp alone" if others else ""), flush=True)
        wrong += bad
    return wrong


def check_cases(args):
    """Reported texts and long runs, without what the template adds."""
    wrong = 0
    for name, cases in CASES.items():
        path = args.vocabularies / f"ggml-vocab-{FAMILIES[name][0]}.gguf"
        runs = RUNS.get(name, {})
        got = run(args.program, path, [t.encode() for t in cases] + [(t * 4096).encode() for t in runs] + [b""])
        template = len(got[-1][0])  # BOS
        bad = [(t, ids) for (t, want), (ids, *_) in zip(cases.items(), got) if ids[template:] != want]
        bad += [(t + " ...", len(ids)) for (t, want), (ids, *_) in zip(runs.items(), got[len(cases):]) if len(ids) - template != want]
        print(f"{name}: {len(cases) + len(runs)} cases, {len(bad)} differ {bad}", flush=True)
        wrong += len(bad)
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


def differing(program, tokenizer):
    """Code points that one of parts() treats otherwise than llmc does, each by itself: of ideographs, Hangul, private use and what no version assigns every 64th."""
    age = ages()
    many = [(0x3400, 0x9fff), (0xac00, 0xd7af), (0xe000, 0xf8ff), (0x17000, 0x18cff), (0x20000, 0x10ffff)]
    points = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000 and (c % 64 == 0 or (c in age and not any(a <= c <= b for a, b in many)))]
    texts = [chr(c) for c in points]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "tokenizer.json"
        file.write_text(tokenizer.to_str())
        want = tokenizer.encode_batch_fast(texts)
        return [c for c, (ids, *_), w in zip(points, run(program, file, [t.encode() for t in texts]), want) if ids != w.ids]


def pool_of(name, program):
    """What a family's strings are drawn from: BERT's without the code points that its parts' own tables, older than Unicode 12.0, do not know (--parts lists them)."""
    if name != "bert":
        return POOL
    old = {c for part, tokenizer in parts() if part.startswith(("Bert", "Punctuation")) for c in differing(program, tokenizer)}
    return [c for c in POOL if c not in old]


def ages():
    out = {}
    for line in pathlib.Path("/usr/share/unicode/DerivedAge.txt").read_text().splitlines():
        fields = line.split("#")[0].split(";")
        if len(fields) == 2:
            first, _, last = fields[0].strip().partition("..")
            out.update(dict.fromkeys(range(int(first, 16), int(last or first, 16) + 1), fields[1].strip()))
    return out


# Part -> code points of Unicode 12.0 that its tables in tokenizers 0.23.3 don't know as llmc's do.
OLD_TABLES = {"Punctuation (unicode_categories)": 79, "StripAccents (unicode_normalization)": 175, "BertNormalizer (unicode_categories)": 11,
              "BertNormalizer, accents": 260, "NFKC (unicode_normalization)": 1, "NFKD (unicode_normalization)": 1}


def check_parts(args):
    """Prints, for each part, where code points by themselves differ; counts those assigned in Unicode 12.0, and the parts where there are more or fewer than recorded."""
    age, wrong = ages(), 0
    for name, tokenizer in parts():
        bad = differing(args.program, tokenizer)
        old = [c for c in bad if c in age and tuple(map(int, age[c].split("."))) <= (12, 0)]
        new = sorted({age.get(c, "unassigned") for c in bad} - {age[c] for c in old})
        print(f"{name}: {len(old)} of Unicode 12.0 differ {[hex(c) for c in old[:12]]}, {len(bad) - len(old)} others {new}", flush=True)
        wrong += len(old) != OLD_TABLES.get(name, 0)
    return wrong


def check_speed(args):
    """MB/s on English text."""
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
        seconds = float("inf")
        for _ in range(3):
            start = time.process_time()
            count = len(tokenizer.encode_batch_fast([text])[0].ids)
            seconds = min(seconds, time.process_time() - start)
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
    for flag in ("--speed", "--parts", "--vectors", "--cases"):
        parser.add_argument(flag, action="store_true")
    args = parser.parse_args()
    if args.vectors:
        wrong = check_vectors(args)
    elif args.cases:
        wrong = check_cases(args)
    elif args.parts:
        wrong = check_parts(args)
    elif args.speed:
        wrong = check_speed(args)
    else:
        wrong = sum(check_family(name, args) for name in args.family or FAMILIES)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
