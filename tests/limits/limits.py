#!/usr/bin/env python3
"""Hostile files through llmc-parse under a limit of 128 MiB of address space and 10 seconds of CPU: each must be refused with a message and status 1.

    limits.py PATH/llmc-parse
"""

import json
import os
import resource
import struct
import subprocess
import sys
import tempfile

LIMIT_KIB = 131072
CPU_SECONDS = 10
HUGE = [1 << 63, (1 << 64) - 1, 1 << 32]


def u32(value):
    """Little-endian."""
    return struct.pack("<I", value)


def u64(value):
    """Little-endian."""
    return struct.pack("<Q", value)


def text(value):
    """A GGUF string."""
    data = value.encode()
    return u64(len(data)) + data


def gguf(n_tensors=0, n_keys=0, rest=b""):
    """A GGUF file from its counts and what follows them."""
    return b"GGUF" + u32(3) + u64(n_tensors) + u64(n_keys) + rest


def safetensors(header, data=b"", length=None):
    """A safetensors file, with the header length that it says."""
    return u64(len(header) if length is None else length) + header + data


def entry(name, dims, begin, end):
    """A tensor of a safetensors header."""
    return json.dumps({name: {"dtype": "F32", "shape": dims, "data_offsets": [begin, end]}}).encode()


def config(**changed):
    """A small config with keys changed."""
    keys = {"model_type": "llama", "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24,
            "max_position_embeddings": 64}
    keys.update(changed)
    return json.dumps(keys).encode()


def gguf_tokenizer(tokens, merges, types=b"", n_types=0):
    """GGUF metadata of a tokenizer: (encoded strings, their number) for tokens and for merges."""
    keys = text("tokenizer.ggml.model") + u32(8) + text("gpt2") + text("tokenizer.ggml.pre") + u32(8) + text("gpt-2")
    for name, (strings, count) in (("tokens", tokens), ("merges", merges)):
        keys += text("tokenizer.ggml." + name) + u32(9) + u32(8) + u64(count) + strings
    keys += text("tokenizer.ggml.token_type") + u32(9) + u32(5) + u64(n_types) + types
    return gguf(n_keys=5, rest=keys)


def tokenizer(vocab, **changed):
    """A tokenizer.json with keys changed."""
    keys = {"model": {"type": "BPE", "vocab": vocab, "merges": []}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
            "decoder": {"type": "ByteLevel"}}
    keys.update(changed)
    return json.dumps(keys).encode()


def spm_piece(content, kind=1):
    """A piece of a SentencePiece model."""
    def field(number, data):
        size, out = len(data), bytes([number << 3 | 2])
        while size >= 0x80:
            out, size = out + bytes([size & 0x7f | 0x80]), size >> 7
        return out + bytes([size]) + data
    return field(1, field(1, content) + bytes([3 << 3, kind]))


def cases():
    """(kind, name, bytes or (bytes, size of a sparse file))"""
    for kind, suffix in (("json", "x.json"), ("describe", "x.json")):
        yield kind, suffix, b"[" * 1_000_000
        yield kind, suffix, b'{"a":' * 500_000
        yield kind, suffix, b"[" + b"0," * 1_900_000 + b"0]"
        yield kind, suffix, b"{" + b",".join(b'"%d":{}' % i for i in range(300_000)) + b"}"
        yield kind, suffix, b'"' + b"\\u0041" * 600_000
        yield kind, suffix, (b"[", 1 << 40)
    for size in (1_000_000_000, 1 << 62, -1):
        for key in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size",
                    "max_position_embeddings", "head_dim"):
            if key not in ("vocab_size", "max_position_embeddings") or size != 1_000_000_000:
                yield "describe", "x.json", config(**{key: size})
    yield "describe", "x.json", config(model_type="qwen2", layer_types=["full_attention"] * 100_000, num_hidden_layers=100_000)
    yield "describe", "x.json", b'{"llmc":1,"n_layers":2000,"blocks":{' + b",".join(b'"b%d":{}' % i for i in range(20_000)) + b"}}"

    for length in HUGE + [60 << 20]:
        yield "safetensors", "x.safetensors", safetensors(b"{}", length=length)
        yield "safetensors", "x.safetensors", (safetensors(b"{}", length=length), 64 << 20)
    yield "safetensors", "x.safetensors", (safetensors(b"{", length=16 << 20), 32 << 20)
    yield "safetensors", "x.safetensors", safetensors(entry("a", [1 << 32, 1 << 32], 0, 0))
    yield "safetensors", "x.safetensors", safetensors(entry("a", [1], 0, (1 << 64) - 1), b"data")
    yield "safetensors", "x.safetensors", safetensors(b'{"a":' * 100_000)
    yield "safetensors", "x.safetensors", safetensors(b"{" + b",".join(b'"%d":0' % i for i in range(700_000)) + b"}")
    yield "safetensors", "model.safetensors.index.json", b'{"weight_map":{' + b",".join(b'"%d":"a"' % i for i in range(700_000)) + b"}}"
    yield "safetensors", "model.safetensors.index.json", b'{"weight_map":{' + b",".join(b'"%d":"%d"' % (i, i) for i in range(100_000)) + b"}}"

    for count in HUGE + [1_000_000]:
        yield "gguf", "x.gguf", gguf(n_tensors=count)
        yield "gguf", "x.gguf", gguf(n_keys=count)
        yield "gguf", "x.gguf", (gguf(n_tensors=count), 64 << 20)
        yield "gguf", "x.gguf", (gguf(n_keys=count), 64 << 20)
        yield "gguf", "x.gguf", gguf(n_keys=1, rest=u64(count) + b"k")
        yield "gguf", "x.gguf", gguf(n_keys=1, rest=text("k") + u32(8) + u64(count) + b"v")
        yield "gguf", "x.gguf", gguf(n_keys=1, rest=text("k") + u32(9) + u32(8) + u64(count) + bytes(16))
        yield "gguf", "x.gguf", gguf(n_keys=1, rest=text("k") + u32(9) + u32(10) + u64(count) + bytes(16))
        yield "gguf", "x.gguf", gguf(n_tensors=1, rest=text("t") + u32(2) + u64(count) + u64(count) + u32(0) + u64(0))
    yield "gguf", "x.gguf", gguf(n_tensors=1, rest=text("t") + u32(0xFFFFFFFF) + bytes(64))
    yield "gguf", "x.gguf", gguf(n_keys=500_000, rest=b"".join(text(str(i)) + u32(0) + b"x" for i in range(500_000)))
    yield "gguf", "x.gguf", (gguf(), 1 << 40)

    many = 3_000_000
    yield "gguf", "x.gguf", gguf_tokenizer((u64(0) * many, many), (b"", 0))
    yield "gguf", "x.gguf", gguf_tokenizer((text("a"), 1), (u64(0) * many, many))
    yield "gguf", "x.gguf", gguf_tokenizer((text("a"), 1), (text("a a") * (many // 2), many // 2))
    yield "gguf", "x.gguf", gguf_tokenizer((text("a"), 1), (b"", 0), bytes(4 * many), many)
    yield "gguf", "x.gguf", gguf_tokenizer((text("a" * 1_000_000) * 20, 20), (b"", 0))

    yield "tokenizer", "tokenizer.json", b'{"model":' + b"[" * 1_000_000
    yield "tokenizer", "tokenizer.json", b'{"model":' * 500_000
    yield "tokenizer", "tokenizer.json", (b"{", 1 << 40)
    for number in (-1, 70_000, (1 << 24) - 1, 1 << 32, (1 << 63) - 1, 1 << 64):
        yield "tokenizer", "tokenizer.json", tokenizer({"a": number})
        yield "tokenizer", "tokenizer.json", tokenizer({"a": 0}, added_tokens=[{"content": "b", "id": number}])
    yield "tokenizer", "tokenizer.json", tokenizer({"a": 0}, added_tokens=[{"content": "b" * 1_000_000, "id": 1}])
    yield "tokenizer", "tokenizer.json", tokenizer({str(i): i for i in range(100_000)}, model={"type": "Unigram"})
    yield "tokenizer", "tokenizer.json", tokenizer({}, model={"vocab": {"a": 0}, "merges": ["a a"] * 100_000})
    steps = {"type": "Sequence", "pretokenizers": [{"type": "Digits"}] * 100_000 + [{"type": "ByteLevel", "add_prefix_space": False}]}
    yield "tokenizer", "tokenizer.json", tokenizer({"a": 0}, pre_tokenizer=steps)
    nested = {"type": "Digits"}
    for _ in range(28):
        nested = {"type": "Sequence", "pretokenizers": [nested]}
    yield "tokenizer", "tokenizer.json", tokenizer({"a": 0}, pre_tokenizer=nested)

    yield "tokenizer", "tokenizer.model", b"\x60\x00" * (8 << 20)
    yield "tokenizer", "tokenizer.model", b"\x0a\x00" * (8 << 20)
    yield "tokenizer", "tokenizer.model", b"\x12\xfe\xff\xff\x07" + b"\x60\x00" * (7 << 20)
    yield "tokenizer", "tokenizer.model", (b"\x0a", 1 << 40)
    bpe = b"\x12\x02\x18\x02"  # trainer_spec: BPE
    yield "tokenizer", "tokenizer.model", spm_piece(b"a" * (15 << 20)) + bpe
    yield "tokenizer", "tokenizer.model", b"".join(spm_piece(b"a" * i) for i in range(1, 5000)) + bpe
    yield "tokenizer", "tokenizer.model", b"".join(spm_piece(b"u%d" % i, 4) for i in range(100_000)) + bpe

    yield "ir", "x.ir", b"module @m {\nrepeat i = 0..1000000000 {\nweight $b{i}.w : f32[4]\n}\n}\n"
    yield "ir", "x.ir", b"module @m {" + b"{" * 1_000_000
    yield "ir", "x.ir", b"[" * 4_000_000
    ones = b"1," * 4000 + b"1"
    head = b"module @m\ndim S = 1..4\n"
    yield "ir", "x.ir", head + b"repeat i = 0..65000 {\nstate $b{i}.s : f32[4] {a = [" + ones + b"]}\n}\n"
    yield "ir", "x.ir", head + b"repeat i = 0..65000 {\nweight $b{i}.w : f32[" + ones + b"]\n}\n"
    yield "ir", "x.ir", head + b"repeat i = 0..60000 {\nweight $b{i}.w : f32[4] #" + b"-" * 1_000_000 + b"\n}\n"
    yield "ir", "x.ir", head + b"func @f() {\n" + b"%a," * 2_000_000
    yield "ir", "x.ir", head + b"func @f() {\nrepeat i = 0..65000 {\n" + b",".join(b"%%b{i}.v%d" % i for i in range(3000)) + b" = add : " + (
        b",".join([b"i32[]"] * 3000)) + b"\n}\nreturn %b0.v0\n}\n"
    yield "ir", "x.ir", head + b"func @f(" + b",".join(b"%%a%d: i32[]" % i for i in range(300_000))
    yield "ir", "x.ir", b"module @m {" + b",".join(b"a%d = 1" % i for i in range(300_000)) + b"}"
    yield "ir", "x.ir", b"module @m {a = [" + b"1," * 5_000_000
    yield "ir", "x.ir", b"module @m\n" + b"".join(b"weight $w%d : f32[4]\n" % i for i in range(70_000))


def limit():
    """In the child: address space and CPU."""
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_KIB * 1024, LIMIT_KIB * 1024))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main():
    """Runs all cases."""
    program = sys.argv[1]
    failed = 0
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind, name, content in cases():
            data, size = content if isinstance(content, tuple) else (content, None)
            path = os.path.join(folder, name)
            with open(path, "wb") as file:
                file.write(data)
                if size is not None:
                    file.truncate(size)
            done = subprocess.run([program, kind, path], preexec_fn=limit, capture_output=True, check=False)
            message = done.stderr.decode(errors="replace")
            count += 1
            if done.returncode != 1 or "error: " not in message:
                failed += 1
                print(f"case {count} ({kind}, {data[:60]!r}, {len(data)} bytes, sparse {size}): status {done.returncode}\n  {message[:300]}")
            os.remove(path)
    print(f"{count} hostile files, {failed} not refused as they must be")
    sys.exit(1 if failed else 0)


main()
