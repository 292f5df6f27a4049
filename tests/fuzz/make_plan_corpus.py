#!/usr/bin/env python3
"""Writes the seeds of tests/fuzz/plan_fuzz.cpp: a text plan, a manifest with step lists, an empty file's header.

runtime/README.md has the formats.
"""
import pathlib
import struct

OUT = pathlib.Path(__file__).resolve().parent / "corpus" / "plan"
OUT.mkdir(parents=True, exist_ok=True)


def record(tag, payload):
    return struct.pack("<II", tag, len(payload)) + payload + b"\0" * (-len(payload) % 8)


def step(phase, kind, payload):
    return struct.pack("<IIQ", phase, kind, len(payload)) + payload + b"\0" * (-len(payload) % 8)


manifest = b"".join(record(i + 1, text) for i, text in enumerate([b"tiny", b"llvm", b"exact", b"fuzz", b"a = 1", b"x"]))
manifest += record(10, struct.pack("<4I3Q", 1, 16, 32, 4, 256, 64, 1024))
for phase in ((0, 2, 4), (1, 1, 1), (2, 1, 4)):
    manifest += record(20, struct.pack("<3I", *phase))
manifest += record(30, b"x86-64") + record(31, b"sse4_1")
manifest += record(32, struct.pack("<Q", 0) + b"main") + record(33, struct.pack("<2Q", 0, 1) + b"k")
manifest += record(40, struct.pack("<2i", 1, 2)) + record(41, struct.pack("<i", 3)) + record(42, struct.pack("<I", 3))
manifest += record(43, struct.pack("<f", 0.5)) + record(44, struct.pack("<i", 5))
manifest += record(45, struct.pack("<f", 0.9)) + record(46, struct.pack("<f", 0.1))
manifest += record(50, bytes(32) + b"config") + record(60, struct.pack("<3Q2i", 1, 2, 2, 3, 4))
steps = step(0, 1, b"main") + step(1, 1, b"main") + step(2, 1, b"main")
(OUT / "manifest").write_bytes(b"M" + manifest + b"\xff\xfe-steps-\xfe\xff" + steps)

(OUT / "text").write_text("""Tplan 1.0
model "tiny"
backend "llvm"
abi 1
vocab 4
context 8
chunk 2
phase prefill 1 2
  step code "main"
phase decode 1 1
  step 9 "x\\x00\\n"
target "x86-64"
  feature "sse4_1"
  entry "main" 0
  symbol "f" 0 1
stop_ids 1,2
bos 1
temperature 0.5
input "config" 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
self_test 1,2 0000000000000001 0000000000000002 0000000000000002
section weights zero 64
section code hex
  c3 # ret
end
section chat_template text
  "{{ x }}"
end
section tokenizer file "none"
""")
header = b"LLMCPLAN" + struct.pack("<HHIQIIQ", 1, 0, 1, 4096, 0, 0, 0) + bytes(24)
(OUT / "header").write_bytes(b"F" + header + bytes(4096 - len(header)))
