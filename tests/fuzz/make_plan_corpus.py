#!/usr/bin/env python3
"""Writes the seeds of tests/fuzz/plan_fuzz.cpp: text plans, manifests with step lists, an empty file's header.

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


def place(space, offset):
    return struct.pack("<IQ", space, offset)


# A kernel, a barrier and two products (runtime/plan_steps.cpp): silu(x Wg + bg) * (x Wu + bu) of q4_1 and a8, and one of f32 with a residual.
kernel = struct.pack("<3I2qQ", 1, 2, 1, -1, 9, 64) + b"rms_norm"
gated = struct.pack("<8IQ", 1, 2 | 4 | 1, 1, 1, 9, 5, 2, 1, 32) + place(1, 0) + struct.pack("<QQ", 0, 16) + place(1, 64)
gated += struct.pack("<Q", 640) + place(2, 0) + struct.pack("<Q", 128 + 2 * 32 * 32 * 4 + 128)
head = struct.pack("<8IQ", 1, 1 | 8, 0, 1, 0, 0, 1, 1, 8) + place(1, 0) + struct.pack("<QQ", 0, 16) + place(4, 0)
head += place(1, 64) + place(2, 0) + struct.pack("<Q", 0)
lists = step(0, 4, kernel) + step(0, 3, b"") + step(0, 2, gated) + step(0, 3, b"") + step(0, 2, head)
mixed = b"".join(record(i + 1, text) for i, text in enumerate([b"tiny", b"onednn", b"near", b"fuzz", b"a = 1", b"x"]))
mixed += record(10, struct.pack("<4I3Q", 1, 16, 32, 1, 256, 16384, 1024)) + record(20, struct.pack("<3I", 1, 1, 1))
mixed += record(30, b"x86-64") + record(40, b"") + record(42, struct.pack("<I", 0)) + record(60, struct.pack("<3Q2i", 0, 0, 0, 3, 4))
mixed += record(61, struct.pack("<f2i6f", 1e-6, 1, 5, 1, 2, 3, 4, 5, 6))
(OUT / "steps").write_bytes(b"M" + mixed + b"\xff\xfe-steps-\xfe\xff" + lists)

(OUT / "text_steps").write_text("""Tplan 1.1
model "tiny"
backend "onednn"
numerics "near"
abi 1
vocab 4
context 8
chunk 1
shared 4096
private 32768
phase decode 1 1
  step kernel "rms_norm" one_row constants -1,0,9 words 0,18446744073709551615
  step barrier
  step dnnl blocks one_row rows 1 k 32 x a8 shared+0 w q4_1 weights+64 interleave silu bias weights+4 out 16 shared+64 tiles 2 scratch private+0
  step dnnl bf16 rows 1 k 8 x f32 shared+0 w bf16 weights+0 residual shared+64 out 4 logits+0 tiles 1 scratch private+64
  step dnnl f32 rows 1 k 8 x f32 private+4 w f16 weights+0 out 4 shared+0 out 3 shared+16 out 1 shared+28 tiles 1 scratch private+64
stop_ids none
self_test 1,2 0000000000000000 0000000000000000 0000000000000000
self_test_logits 1e-09 0,3 1.5,-2 0,1e+20 0.25,3
section weights zero 4096
""")

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
