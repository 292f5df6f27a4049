"""Writes what llama.cpp's samplers make of random logits: tests/data/sampler/llama_cpp.txt.

    tools/venv --peer tools/golden/sampler_llama_cpp.py [--out tests/data/sampler]

The file begins with a small byte-level BPE vocabulary, over which the breakers of DRY are looked up: `token` (hex of its bytes) and `merge` (two ids and what
they become) a line. Then come the logits, `row` (bits of f32 in hex) a line. A case is a few lines: `case`, settings, `history` ids, `logits` (number of the row),
and either `scores` (those that the sampler has changed, id:bits) or `kept` (ids that are left). A case of mirostat has several `step` lines: logits / ids that
are left / the id that was drawn.
Ties, ends of ranges and settings that do nothing are among them.
"""

import argparse
import ctypes
import pathlib
import random
import struct
import tempfile

import gguf
import llama_cpp as l

TOKENS = ["a", "b", "c", "d", "e", "f", "\n", ":", "ab", "bc", "abc", "cd", "xa", "x", "y", "y:", "\n\n", "e\nf", "fa", "de", "cde", "z", "<s>", "</s>"]
MERGES = [("a", "b"), ("b", "c"), ("ab", "c"), ("c", "d"), ("x", "a"), ("y", ":"), ("\n", "\n"), ("f", "a"), ("d", "e"), ("cd", "e")]
BREAKERS = {"line": ["\n"], "colon": [":", "\n"], "long": ["abcd"], "several": ["abc", "cde", "bcx"], "all": ["\n", ":", "abcd", "de"]}
VOCAB = len(TOKENS)


def gpt2_spelling(text):
    """The alphabet in which byte-level BPE writes bytes."""
    return "".join(chr(ord(c) + 256) if c <= " " else c for c in text)


def vocabulary(folder):
    """The vocabulary as llama.cpp loads it."""
    path = folder / "vocabulary.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([gpt2_spelling(t) for t in TOKENS])
    writer.add_token_types([gguf.TokenType.CONTROL if t.startswith("<") else gguf.TokenType.NORMAL for t in TOKENS])
    writer.add_token_merges([f"{gpt2_spelling(a)} {gpt2_spelling(b)}" for a, b in MERGES])
    writer.add_bos_token_id(TOKENS.index("<s>"))
    writer.add_eos_token_id(TOKENS.index("</s>"))
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        write()
    params = l.llama_model_default_params()
    params.vocab_only = True
    model = l.llama_model_load_from_file(str(path).encode(), params)
    return l.llama_model_get_vocab(model)


def bits(values):
    """Hex of f32s."""
    return " ".join(struct.pack(">f", v).hex() for v in values)


def rows_of(rng):
    """Logits that an f32 holds: four rows of distinct ones, four that are nearly flat, two with ties, two of one sign."""
    rows = [[rng.gauss(0, 3) for _ in range(VOCAB)] for _ in range(4)]
    rows += [[1 + rng.random() * 1e-3 for _ in range(VOCAB)] for _ in range(4)]
    rows += [[float(rng.randrange(-4, 5)) for _ in range(VOCAB)] for _ in range(2)]
    rows += [[sign * rng.random() * 9 for _ in range(VOCAB)] for sign in (1, -1)]
    return [[struct.unpack("f", struct.pack("f", v))[0] for v in values] for values in rows]


DISTINCT = 8  # rows without ties: which of equals goes is a sort's affair
ROWS = []


def apply(sampler, logits):
    """(id, logit) of what a sampler leaves, and the id that it picks (None: none)."""
    data = (l.llama_token_data * VOCAB)(*[l.llama_token_data(i, v, 0.0) for i, v in enumerate(logits)])
    array = l.llama_token_data_array(data, VOCAB, -1, False)
    l.llama_sampler_apply(sampler, ctypes.byref(array))
    items = [(array.data[i].id, array.data[i].logit) for i in range(array.size)]
    return items, items[array.selected][0] if array.selected >= 0 else None


def scored(sampler, history, logits):
    """The logits that a sampler which has seen a history changes."""
    for token in history:
        l.llama_sampler_accept(sampler, token)
    items, _ = apply(sampler, logits)
    l.llama_sampler_free(sampler)
    return " ".join(f"{i}:{bits([v])}" for i, v in sorted(items) if v != logits[i]) or "none"


def ids(values):
    """Comma-separated; `none`."""
    return ",".join(map(str, values)) or "none"


def history_of(rng):
    """Random ids of few kinds, so that much is repeated; with breakers now and then."""
    few = rng.sample(range(VOCAB - 2), rng.randrange(2, 6))
    part = [rng.choice(few) for _ in range(rng.randrange(1, 6))]
    history = part * rng.randrange(1, 4) + [rng.choice(few) for _ in range(rng.randrange(0, 6))] + part[: rng.randrange(0, 6)]
    for _ in range(rng.choice([0, 0, 1, 2])):
        history.insert(rng.randrange(len(history) + 1), rng.randrange(VOCAB - 2))
    return history


def penalty_cases(rng):
    """Presence and frequency."""
    for presence, frequency in ((0.5, 0), (0, 0.25), (1.5, 0.75), (-0.5, -0.125), (0.1, 0.3), (0, 0), (100, 0)):
        for last in (0, 1, 4, 100):
            history, number = history_of(rng), rng.randrange(len(ROWS))
            # A history of no length switches llama.cpp's off; 0 is all of it here.
            scores = scored(l.llama_sampler_init_penalties(VOCAB, last or 1000, 1.0, frequency, presence), history, ROWS[number])
            yield f"presence {presence}\nfrequency {frequency}\nlast_n {last}\nhistory {ids(history)}\nlogits {number}\nscores {scores}"


def dry_cases(rng, vocab):
    """DRY, with and without breakers."""
    for _ in range(90):
        multiplier, base, allowed = rng.choice([0.8, 1.0, 0.0, 3.5]), rng.choice([1.75, 1.0, 2.0, 1.1, 1000.0]), rng.choice([1, 2, 2, 3, 5])
        last, breakers = rng.choice([0, 0, 0, 6, 12]), rng.choice(["none", *BREAKERS])
        history, number = history_of(rng), rng.randrange(len(ROWS))
        if rng.random() < 0.1:
            history = [rng.randrange(VOCAB - 2)] * 40  # penalties beyond f32
        texts = [t.encode() for t in BREAKERS.get(breakers, [])]
        array = (ctypes.c_char_p * len(texts))(*texts)
        sampler = l.llama_sampler_init_dry(vocab, multiplier, base, allowed, last or 1000, array, len(texts))
        scores = scored(sampler, history, ROWS[number])
        text = f"dry_multiplier {multiplier}\ndry_base {base}\ndry_allowed_length {allowed}\nlast_n {last}\nhistory {ids(history)}\n"
        if texts:
            text += "breakers " + ",".join(t.hex() for t in texts) + "\n"
        yield f"{text}logits {number}\nscores {scores}"


def xtc_cases(rng):
    """XTC that is always applied."""
    for threshold in (0.0, 0.01, 0.04, 0.1, 0.3, 0.5, 0.51, 1.0):
        for number in range(DISTINCT):
            items, _ = apply(l.llama_sampler_init_xtc(1.0, threshold, 1, 1), ROWS[number])
            yield f"xtc_threshold {threshold}\nlogits {number}\nkept {ids(sorted(i for i, _ in items))}"


def mirostat_cases(rng):
    """Mirostat v2 over some steps."""
    for tau, eta in ((5.0, 0.1), (2.0, 0.1), (1.0, 0.5), (0.25, 1.0), (3.0, 0.0), (0.01, 0.1)):
        sampler = l.llama_sampler_init_mirostat_v2(rng.randrange(1000), tau, eta)
        steps = []
        for _ in range(12):
            number = rng.randrange(DISTINCT)
            items, picked = apply(sampler, ROWS[number])
            steps.append(f"step {number}/{ids(sorted(i for i, _ in items))}/{picked}")
        yield f"mirostat_tau {tau}\nmirostat_eta {eta}\n" + "\n".join(steps)


def main():
    """Writes the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("tests/data/sampler"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(11)
    ROWS.extend(rows_of(rng))
    with tempfile.TemporaryDirectory() as folder:
        vocab = vocabulary(pathlib.Path(folder))
        lines = [f"token {t.encode().hex()}" for t in TOKENS]
        lines += [f"merge {TOKENS.index(a)} {TOKENS.index(b)} {TOKENS.index(a + b)}" for a, b in MERGES]
        lines += [f"row {bits(values)}" for values in ROWS]
        for case in (*penalty_cases(rng), *dry_cases(rng, vocab), *xtc_cases(rng), *mirostat_cases(rng)):
            lines.append("case\n" + case)
    (out / "llama_cpp.txt").write_text("\n".join(lines) + "\n")


main()
