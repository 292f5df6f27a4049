#!/usr/bin/env python3
"""Writes the corpora of pattern_fuzz, sentencepiece_fuzz and tokenizer_section_fuzz: published patterns with a text, small models, small sections.

    tests/fuzz/make_tokenizer_corpus.py [--seeds build/dev-clang/tokenizer_section_seeds]

Without the program the sections stay as they are.
"""

import argparse
import pathlib
import struct
import subprocess

FOLDER = pathlib.Path(__file__).resolve().parent / "corpus"
PATTERNS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+|\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+(?!\S)",
    "han": r"[\p{Han}]+|[\p{Lu}\p{M}&&[^\p{Han}]]*[\p{Ll}]+|\s*[\r\n]+|.",
    "possessive": r"a++b|[^b]*+b|c?+c|(?=x)x{2,3}?$|\d",
}


def varint(value):
    """A base-128 number."""
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    """A field with an integer."""
    return varint(field << 3) + varint(value)


def data(field, payload):
    """A field with bytes."""
    return varint(field << 3 | 2) + varint(len(payload)) + payload


def piece(text, kind):
    """One piece, score 0."""
    return data(1, data(1, text.encode()) + varint(2 << 3 | 5) + struct.pack("<f", 0) + number(3, kind))


def main():
    """Writes everything."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=pathlib.Path)
    args = parser.parse_args()
    if args.seeds:
        (FOLDER / "tokenizer_section").mkdir(parents=True, exist_ok=True)
        subprocess.run([args.seeds, FOLDER / "tokenizer_section"], check=True)
    for name, pattern in PATTERNS.items():
        (FOLDER / "pattern").mkdir(parents=True, exist_ok=True)
        (FOLDER / "pattern" / name).write_bytes(pattern.encode() + b"\0" + "Don't  aab 1234\n 你好 xx".encode())
    (FOLDER / "sentencepiece").mkdir(parents=True, exist_ok=True)
    model = piece("<unk>", 2) + piece("<s>", 3) + piece("</s>", 3) + piece("<0x61>", 6)
    model += b"".join(piece(t, 1) for t in ("▁a", "ab", "▁", "a", "b", "▁ab"))
    (FOLDER / "sentencepiece" / "bpe").write_bytes(model + data(2, number(3, 2) + number(35, 1)) + data(3, number(3, 1)))
    (FOLDER / "sentencepiece" / "unigram").write_bytes(model + piece("user", 4) + data(2, number(3, 1) + number(40, 0)) + data(3, number(3, 1) + number(4, 1)))


if __name__ == "__main__":
    main()
