"""Random weights of a golden model: names, shapes, scales; safetensors in one file, or shards with an index."""

import hashlib
import json

import numpy as np
import torch
from safetensors.torch import save_file


def head_dim(config):
    """The head size; Qwen3's class has 128 as its default, the other families hidden/heads."""
    if "head_dim" in config:
        return config["head_dim"]
    return 128 if config["model_type"] == "qwen3" else config["hidden_size"] // config["num_attention_heads"]


def tensors(variant, config):
    """Name -> torch tensor in its stored dtype, in the order of the file.

    Scales keep logits spread over several units and attention far from uniform, so that an error anywhere shows; norms
    are not 1.
    """
    seed = int.from_bytes(hashlib.sha256(variant.name.encode()).digest()[:8], "little")
    rng = np.random.default_rng(seed)
    matrix_dtype = getattr(torch, variant.dtype)
    vector_dtype = getattr(torch, variant.norm_dtype or variant.dtype)
    d, ffn, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    size = head_dim(config)
    q, kv = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    family = config["model_type"]
    attention_bias = config.get("attention_bias", False)
    out = {}

    def matrix(name, rows, cols, gain):
        out[name] = torch.from_numpy(rng.standard_normal((rows, cols)) * gain / np.sqrt(cols)).to(matrix_dtype)

    def vector(name, n, mean, scale):
        out[name] = torch.from_numpy(mean + scale * rng.standard_normal(n)).to(vector_dtype)

    def linear(name, rows, cols, gain, biased, mean=0.0):
        matrix(f"{name}.weight", rows, cols, gain)
        if biased:
            vector(f"{name}.bias", rows, mean, variant.bias_scale)

    # A tied head favours the id just read: small rows and a large last norm keep greedy decoding from repeating it.
    own_head = not config["tie_word_embeddings"] or variant.stray_head
    rows = rng.standard_normal((vocab, d)) * (0.5 if own_head else 0.15)
    out["model.embed_tokens.weight"] = torch.from_numpy(rows).to(matrix_dtype)
    for i in range(config["num_hidden_layers"]):
        b = f"model.layers.{i}"
        vector(f"{b}.input_layernorm.weight", d, 1.0, 0.2)
        linear(f"{b}.self_attn.q_proj", q, d, 1.4, attention_bias or family == "qwen2", variant.qk_bias)
        linear(f"{b}.self_attn.k_proj", kv, d, 1.4, attention_bias or family == "qwen2", variant.qk_bias)
        linear(f"{b}.self_attn.v_proj", kv, d, 1.2, attention_bias or family == "qwen2")
        linear(f"{b}.self_attn.o_proj", d, q, 1.2, attention_bias)
        if family == "qwen3":
            vector(f"{b}.self_attn.q_norm.weight", size, 1.2, 0.2)
            vector(f"{b}.self_attn.k_norm.weight", size, 1.2, 0.2)
        vector(f"{b}.post_attention_layernorm.weight", d, 1.0, 0.2)
        mlp_bias = config.get("mlp_bias", False)
        linear(f"{b}.mlp.gate_proj", ffn, d, 1.5, mlp_bias)
        linear(f"{b}.mlp.up_proj", ffn, d, 1.5, mlp_bias)
        linear(f"{b}.mlp.down_proj", d, ffn, 1.5, mlp_bias)
    vector("model.norm.weight", d, 1.0 if own_head else 4.0, 0.2)
    if own_head:
        matrix("lm_head.weight", vocab, d, 3.0)
    return out


def write(folder, out, shards):
    """Writes the tensors: model.safetensors, or `shards` files of about equal size and model.safetensors.index.json."""
    if shards == 1:
        save_file(out, folder / "model.safetensors", metadata={"format": "pt"})
        return
    total = sum(t.numel() * t.element_size() for t in out.values())
    parts, used = [{} for _ in range(shards)], 0
    for name, tensor in out.items():
        parts[min(shards - 1, used * shards // total)][name] = tensor
        used += tensor.numel() * tensor.element_size()
    weight_map = {}
    for i, part in enumerate(parts):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        save_file(part, folder / file, metadata={"format": "pt"})
        weight_map.update({name: file for name in part})
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
