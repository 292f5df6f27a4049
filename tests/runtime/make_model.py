#!/usr/bin/env python3
"""Writes tests/runtime/model.plan.txt: model.c's machine code (x86-64, no extensions) as a plan in text.

usage: tests/runtime/make_model.py        (from anywhere; needs clang-19, lld-19, llvm-19; the result is committed)
"""
import pathlib
import struct
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VOCAB, CONTEXT, CHUNK, SCORE = 64, 48, 8, 4


def run(*args):
    return subprocess.run(args, check=True, capture_output=True, text=True, cwd=ROOT).stdout


with tempfile.TemporaryDirectory() as folder:
    obj, script, image, flat = (f"{folder}/{n}" for n in ("m.o", "m.ld", "m.so", "m.bin"))
    run("clang-19", "--target=x86_64-pc-linux-gnu", "-O1", "-ffreestanding", "-fno-builtin", "-fPIC",
        "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fcf-protection=none", "-fno-ident",
        "-fno-jump-tables", "-fvisibility=hidden", "-ffp-contract=off", "-Wall", "-Werror", "-I.",
        "-c", "tests/runtime/model.c", "-o", obj)
    pathlib.Path(script).write_text("SECTIONS { . = 0; .text : { *(.text*) *(.rodata*) }\n"
                                    "/DISCARD/ : { *(.note*) *(.comment*) *(.llvm*) } }\n")
    run("ld.lld-19", "-e", "0", "--no-undefined", "-T", script, obj, "-o", image)
    run("llvm-objcopy-19", "-O", "binary", "-j", ".text", image, flat)
    symbols = {}
    for line in run("llvm-nm-19", "-S", image).splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[2] in "tT":
            symbols[fields[3]] = (int(fields[0], 16), int(fields[1], 16))
    code = pathlib.Path(flat).read_bytes()

weights = struct.pack(f"<{VOCAB}f", *[1 + (37 * v % VOCAB) / VOCAB for v in range(VOCAB)])


def hex_block(data):
    return "".join(f"  {data[i:i + 32].hex()}\n" for i in range(0, len(data), 32))


out = f"""# Made by tests/runtime/make_model.py from tests/runtime/model.c.
plan 1.0
model "hash"
backend "llvm"
numerics "exact"
build "tests/runtime/make_model.py"
options ""
passes ""
abi 1
vocab {VOCAB}
context {CONTEXT}
chunk {CHUNK}
shared 0
private 64
states {4 * CONTEXT}
phase prefill 2 {CHUNK}
  step code "prefill"
phase decode 1 1
  step code "decode"
phase score 1 {SCORE}
  step code "score"
target "x86-64"
"""
for name in ("decode", "prefill", "score"):
    out += f'  entry "{name}" {symbols[name][0]}\n'
for name, (offset, size) in sorted(symbols.items()):
    out += f'  symbol "{name}" {offset} {size}\n'
out += f"stop_ids 5\nself_test none {0:016x} {0:016x} {0:016x}\n"
out += f"section weights hex\n{hex_block(weights)}end\nsection code hex\n{hex_block(code)}end\n"
(HERE / "model.plan.txt").write_text(out)
