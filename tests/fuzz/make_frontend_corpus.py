#!/usr/bin/env python3
"""Writes the corpora of json_fuzz, safetensors_fuzz, gguf_fuzz and config_fuzz: a few small valid files each.

    tests/fuzz/make_frontend_corpus.py
"""

import json
import pathlib
import struct

FOLDER = pathlib.Path(__file__).resolve().parent / "corpus"
SIZES = {"vocab_size": 8, "hidden_size": 4, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 6,
         "max_position_embeddings": 16}


def write(kind, name, data):
    """One corpus file."""
    (FOLDER / kind).mkdir(parents=True, exist_ok=True)
    (FOLDER / kind / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def text(value):
    """A GGUF string."""
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(keys, tensors, version=3):
    """keys: (name, type, payload); tensors: (name, dims innermost first, type, data)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for name, kind, payload in keys:
        head += text(name) + struct.pack("<I", kind) + payload
    offset = 0
    data = b""
    for name, dims, kind, content in tensors:
        head += text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims) + struct.pack("<IQ", kind, offset)
        data += content + bytes(-len(content) % 32)
        offset = len(data)
    return head + bytes(-len(head) % 32) + data


def safetensors(tensors):
    """tensors: (name, dtype, dims, data)."""
    header = {}
    data = b""
    for name, dtype, dims, content in tensors:
        header[name] = {"dtype": dtype, "shape": dims, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + data


def main():
    """All four."""
    write("json", "all", '{"a": [1, -2.5e3, "\\u00e9\\n", null, true], "b": {"c": {}, "d": []}, "": 18446744073709551615}')
    write("safetensors", "two", safetensors([("a", "F32", [1, 2], bytes(8)), ("b", "BF16", [3], bytes(6))]))
    write("safetensors", "empty", safetensors([]))
    write("safetensors", "mxfp4", safetensors([("w_blocks", "U8", [1, 2, 16], bytes(range(32))), ("w_scales", "U8", [1, 2], b"\x7f\x80")]))

    def u32(value):
        return struct.pack("<I", value)

    sizes = [("llama.embedding_length", 4), ("llama.block_count", 1), ("llama.context_length", 16), ("llama.attention.head_count", 2),
             ("llama.feed_forward_length", 6)]
    keys = [("general.architecture", 8, text("llama"))] + [(k, 4, u32(v)) for k, v in sizes]
    keys += [("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5)), ("general.alignment", 4, u32(32)),
             ("tokenizer.ggml.tokens", 9, u32(8) + struct.pack("<Q", 2) + text("x") + text("yz")),
             ("tokenizer.ggml.token_type", 9, u32(5) + struct.pack("<Q", 2) + struct.pack("<ii", 1, 3)), ("flag", 7, b"\x01")]
    write("gguf", "model", gguf(keys, [("token_embd.weight", [4, 8], 0, bytes(128)), ("q", [32], 8, bytes(34))]))
    write("gguf", "bare", gguf([], [], version=2))

    for family in ("llama", "mistral", "qwen2", "qwen3"):
        write("config", family, json.dumps({"model_type": family, **SIZES, "head_dim": 2}))
    scaled = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8, "beta_fast": 16, "attention_factor": 1.5, "rope_theta": 100.0}
    write("config", "yarn", json.dumps({"model_type": "qwen2", **SIZES, "rope_parameters": scaled, "use_sliding_window": True, "sliding_window": 3,
                                        "layer_types": ["full_attention", "sliding_attention"], "tie_word_embeddings": True}))
    own = {"llmc": 1, "vocab": 8, "d_model": 4, "n_layers": 3, "max_context": 16,
           "blocks": {"a": {"norm": {"eps": 0.5}, "attention": {"n_heads": 2, "qk_norm": "per_head"}, "position": {"pairs": "interleaved"},
                            "ffn": {"d_ff": 6, "bias": True}}, "b": {"like": "a", "attention": {"window": 2}}},
           "layers": ["a", "b"], "tensors": {"embed": {"from": "e", "add": 1}}, "ends": {"tied": True}}
    write("config", "own", json.dumps(own))


main()
