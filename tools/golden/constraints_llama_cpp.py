"""Writes which tokens llama.cpp's grammar sampler lets come along random texts of GBNF grammars: tests/data/constraints/gbnf.txt.

    tools/venv --peer tools/golden/constraints_llama_cpp.py [--out tests/data/constraints]

The form is that of masks.txt (constraints.py). The grammars have what llguidance's translation of GBNF lacks: escapes, `.`, terminals that begin one another, repetitions
of what may be empty, rules that go on behind a line end.
"""

import argparse
import ctypes
import pathlib
import random
import tempfile

import gguf
import llama_cpp as l

TOKENS = ["</s>", *[chr(c) for c in (*range(0x20, 0x7F), 10, 9, 13)], "ab", "abc", "ba", "bar", "barfoo", "foo", "foobar", "aa", "aab", "bb", "\n\n", "a\n", "- ", "x\n- ", "12", "3)", "((", "))", "+(", "é", "€", "😀", "é€",
          "x]", "[x", "\"a", "a\"", "\\", "\\n", "A1", "fe", "the ", " th"]
PARTS = [b"\xc3", b"\xa9", b"\xe2", b"\x82\xac", b"\xf0\x9f", b"\x98", b"\x80", b"a\xc3", b"\xa9b"]
GRAMMARS = [
    r'root ::= "\x41\u00e9\U0001F600" [\x61-\x66]{2} "\t\"\\\[\]"?',
    'root ::= (a | b)*\na ::= "foo" | "foobar"\nb ::= "bar" | "ba"',
    "root ::= .{2,5} [\\n]",
    'root ::= ("a" | "ab")+ ("b" | "bb" | "")\n',
    'root ::= ("a"? "b"?){0,4} "x"',
    'root ::= x{2} y{1,} z{0,3}\nx ::= "a" | "b" x\ny ::= [0-9] # digits\nz ::= (")" |\n  "(" )',
    'root ::= e\ne ::= t ("+" e)?\nt ::= [a-f]+ | "(" e ")" | "é" | "€"',
    "root ::= [^a-zA-Z\\n]+ \"\\n\" root?",
    'root ::= "\\"" ([^"\\\\] | "\\\\" ["\\\\n])* "\\""',
    'root ::= pal\npal ::= "a" pal "a" | "b" pal "b" | [ab]',
    "root ::= line+\nline ::= (\"- \" [^\\n]{0,6}\n  | \"the \"\n  [a-z]*) \"\\n\"",
    "root ::= [é-€]+ [😀]?",
]


def spelling(data):
    """Bytes in the alphabet of byte-level BPE."""
    kept = [c for c in range(256) if 33 <= c < 127 or 161 <= c < 173 or c >= 174]
    letters = {c: chr(c) for c in kept} | {c: chr(256 + i) for i, c in enumerate(c for c in range(256) if c not in kept)}
    return "".join(letters[b] for b in data)


def vocabulary(folder, tokens):
    """The tokens as llama.cpp loads them."""
    path = folder / "vocabulary.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([t.decode() if i == 0 else spelling(t) for i, t in enumerate(tokens)])
    writer.add_token_types([gguf.TokenType.CONTROL if i == 0 else gguf.TokenType.NORMAL for i in range(len(tokens))])
    writer.add_token_merges([f"{spelling(b'a')} {spelling(b'b')}"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        write()
    params = l.llama_model_default_params()
    params.vocab_only = True
    return l.llama_model_get_vocab(l.llama_model_load_from_file(str(path).encode(), params))


def allowed(sampler, count):
    """Ids that the sampler doesn't exclude."""
    data = (l.llama_token_data * count)(*[l.llama_token_data(i, 0.0, 0.0) for i in range(count)])
    array = l.llama_token_data_array(data, count, -1, False)
    l.llama_sampler_apply(sampler, ctypes.byref(array))
    return [array.data[i].id for i in range(array.size) if array.data[i].logit != float("-inf")]


def mask(ids, count):
    """A bit an id, as hex."""
    data = bytearray((count + 7) // 8)
    for i in ids:
        data[i // 8] |= 1 << i % 8
    return bytes(data).hex()


def main():
    """Writes the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("tests/data/constraints"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(3)
    tokens = list(dict.fromkeys([t.encode() for t in TOKENS] + PARTS))
    lines = [f"token {t.hex()}" for t in tokens]
    with tempfile.TemporaryDirectory() as folder:
        vocab = vocabulary(pathlib.Path(folder), tokens)
        for text in GRAMMARS:
            lines.append(f"gbnf {text.encode().hex()}")
            for _ in range(3):
                lines.append("walk")
                sampler = l.llama_sampler_init_grammar(vocab, text.encode(), b"root")
                for _ in range(10):
                    ids = allowed(sampler, len(tokens))
                    texts = [i for i in ids if i > 0]
                    if not texts:
                        break
                    token = rng.choices(texts, [len(tokens[i]) ** 2 for i in texts])[0]
                    lines.append(f"{mask(ids, len(tokens))} {token}")
                    l.llama_sampler_accept(sampler, token)
                lines.append(mask(allowed(sampler, len(tokens)), len(tokens)))
                l.llama_sampler_free(sampler)
    (out / "gbnf.txt").write_text("\n".join(lines) + "\n")


main()
