"""Writes golden models as GGUF files: each weight type, each family's names, both rotary layouts, rope scaling by keys.

    tools/venv tools/golden/make_gguf.py [--out tests/data/golden-gguf] [--only NAME ...] [--list]

Per model, in OUT/NAME: model.gguf, and golden.json and logits.npy as in tests/data/golden. The logits are transformers'
in float64 on the weights dequantised from the file's own bytes, checked against the numpy reference. The files have no
tokenizer.
"""

import argparse
import json
import pathlib
import shutil
import tempfile

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter, RopeScalingType, quants
from safetensors.torch import save_file

import weights
from make import write_golden
from variants import Variant, config, size

# transformers' names inside a layer -> GGUF's
LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
TOP_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def llama(name, why, matrix, embedding, **more):
    """A llama model whose matrices have one type and whose embedding (and head) have another."""
    keys = {"tie_word_embeddings": more.pop("tied", True), "rope_theta": 10000.0, **more.pop("keys", {})}
    return Variant(name, why, "llama", more.pop("sizes", size(heads=2, kv=1, layers=1, vocab=64)), keys), matrix, embedding


MODELS = [
    llama("llama-f32", "F32; interleaved pairs; own head", "F32", "F32", tied=False),
    llama("llama-f16", "F16; head_dim given by key_length", "F16", "F16", keys={"head_dim": 24}),
    llama("llama-bf16", "BF16; three heads per KV head", "BF16", "BF16", sizes=size(hidden=48, heads=6, kv=2, layers=1, vocab=64)),
    llama("llama-q8_0", "Q8_0, codes of -128 among them", "Q8_0", "Q8_0"),
    llama("llama-q4_0", "Q4_0 with a Q8_0 embedding", "Q4_0", "Q8_0"),
    llama("llama-q4_1", "Q4_1 with a Q8_0 embedding", "Q4_1", "Q8_0"),
    llama("llama-q5_0", "Q5_0 with a Q5_0 embedding", "Q5_0", "Q5_0"),
    llama("llama-q5_1", "Q5_1 with an F16 embedding; own head", "Q5_1", "F16", tied=False),
    llama(
        "llama-linear", "rope linear by keys; format version 2", "Q4_0", "Q4_0",
        keys={"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    ),
    llama(
        "llama-llama3", "rope llama3 as the tensor rope_freqs.weight of divisors", "Q8_0", "Q8_0",
        keys={"rope_theta": 500000.0, "rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64}},
    ),
    (Variant("qwen2-q4_1", "half-split pairs; q, k, v biases; own head", "qwen2", size(vocab=64),
             {"tie_word_embeddings": False, "rope_theta": 1000000.0, "use_sliding_window": False}), "Q4_1", "Q8_0"),
    (Variant("qwen2-yarn", "rope yarn by keys", "qwen2", size(heads=2, kv=1, layers=1, vocab=64),
             {"tie_word_embeddings": True, "rope_theta": 10000.0, "use_sliding_window": False, "rope_scaling": {
                 "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}}), "Q8_0", "F16"),
    (Variant("qwen3-q8_0", "QK-norm; head_dim 16 where hidden/heads is 8", "qwen3", size(vocab=64),
             {"tie_word_embeddings": True, "rope_theta": 1000000.0, "head_dim": 16, "attention_bias": False,
              "use_sliding_window": False}), "Q8_0", "Q8_0"),
]


def interleaved(rows, heads):
    """Rows of q or k in the order of GGUF's llama files: the two halves of each head interleaved."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def half_split(rows, heads):
    """The inverse of `interleaved`."""
    return rows.reshape(heads, -1, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def gguf_name(name):
    """(GGUF's name, the part of it that says what the tensor is) of transformers' tensor name."""
    stem, suffix = name.rsplit(".", 1)
    if stem in TOP_NAMES:
        return f"{TOP_NAMES[stem]}.{suffix}", TOP_NAMES[stem]
    _, _, layer, inner = stem.split(".", 3)
    return f"blk.{layer}.{LAYER_NAMES[inner]}.{suffix}", LAYER_NAMES[inner]


def add_metadata(writer, cfg):
    """The keys that converters write for these families, without a tokenizer."""
    writer.add_context_length(cfg["max_position_embeddings"])
    writer.add_block_count(cfg["num_hidden_layers"])
    writer.add_embedding_length(cfg["hidden_size"])
    writer.add_feed_forward_length(cfg["intermediate_size"])
    writer.add_head_count(cfg["num_attention_heads"])
    writer.add_head_count_kv(cfg["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(cfg["rms_norm_eps"])
    writer.add_rope_freq_base(cfg["rope_theta"])
    writer.add_vocab_size(cfg["vocab_size"])
    head = weights.head_dim(cfg)
    if head * cfg["num_attention_heads"] != cfg["hidden_size"]:
        writer.add_key_length(head)
        writer.add_value_length(head)
    if cfg["model_type"] == "llama":
        writer.add_rope_dimension_count(head)
    scaling = cfg.get("rope_scaling") or {}
    if scaling.get("rope_type") in ("linear", "yarn"):
        writer.add_rope_scaling_type(RopeScalingType[scaling["rope_type"].upper()])
        writer.add_rope_scaling_factor(scaling["factor"])
    if scaling.get("rope_type") == "yarn":
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])


def llama3_divisors(cfg):
    """rope_freqs.weight: by how much llama3's rule divides each pair's frequency, f32."""
    s = cfg["rope_scaling"]
    head = weights.head_dim(cfg)
    wavelength = 2 * np.pi * cfg["rope_theta"] ** (2 * np.arange(head // 2) / head)
    turns = s["original_max_position_embeddings"] / wavelength
    smooth = np.clip((turns - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"]), 0, 1)
    return (1 / ((1 - smooth) / s["factor"] + smooth)).astype(np.float32)


def encode(values, kind):
    """The bytes of a tensor in type `kind`, and its values read back from them."""
    data = quants.quantize(np.ascontiguousarray(values, dtype=np.float32), kind)
    if kind == GGMLQuantizationType.Q8_0:
        # No quantiser writes -128, yet a file may hold it.
        blocks = data.reshape(-1, 34)
        blocks[::5, 2] = 0x80
    return data, quants.dequantize(data, kind).reshape(values.shape)


def write_model(path, variant, cfg, matrix, embedding, tensors=None):
    """Writes the GGUF file (of `tensors`, else of the variant's own); returns transformers' tensors with the values that
    the file holds."""
    writer = GGUFWriter(path, cfg["model_type"])
    add_metadata(writer, cfg)
    heads = {"attn_q": cfg["num_attention_heads"], "attn_k": cfg["num_key_value_heads"]}
    held = {}
    for name, tensor in (tensors or weights.tensors(variant, cfg)).items():
        values = tensor.to(torch.float32).numpy()
        target, role = gguf_name(name)
        turn = heads[role] if cfg["model_type"] == "llama" and role in heads else 0
        kind = "F32" if values.ndim == 1 else embedding if role in ("token_embd", "output") else matrix
        data, back = encode(interleaved(values, turn) if turn else values, GGMLQuantizationType[kind])
        writer.add_tensor(target, data, raw_dtype=GGMLQuantizationType[kind])
        held[name] = torch.from_numpy(np.array(half_split(back, turn) if turn else back, dtype=np.float32))
    if (cfg.get("rope_scaling") or {}).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(cfg))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if variant.name == "llama-linear":
        with open(path, "r+b") as file:  # versions 2 and 3 differ in this number alone
            file.seek(4)
            file.write((2).to_bytes(4, "little"))
    return held


def main():
    """Parses the command line and writes the goldens asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data/golden-gguf")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="these models alone")
    parser.add_argument("--list", action="store_true", help="print the models and stop")
    args = parser.parse_args()
    for variant, matrix, embedding in MODELS:
        if args.only and variant.name not in args.only:
            continue
        if args.list:
            print(f"{variant.name:20} {variant.why}")
            continue
        folder = args.out / variant.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        cfg = config(variant)
        # GGUF holds eps as f32.
        cfg["rms_norm_eps"] = float(np.float32(cfg["rms_norm_eps"]))
        with tempfile.TemporaryDirectory() as scratch:
            checkpoint = pathlib.Path(scratch)
            save_file(
                write_model(folder / "model.gguf", variant, cfg, matrix, embedding),
                checkpoint / "model.safetensors",
                metadata={"format": "pt"},
            )
            (checkpoint / "config.json").write_text(json.dumps(cfg))
            print(write_golden(variant, cfg, checkpoint, folder, matrix == "BF16"), flush=True)


if __name__ == "__main__":
    main()
