"""A second reference: the same models in plain numpy, written from the formulas and not from transformers.

`forward` runs in any float type and can round the cache and the inputs of matrices, which also tells how far an f32 or
f16-cache implementation may be from f64.
"""

import math

import numpy as np
import torch
from safetensors.torch import load_file

from weights import head_dim

DEFAULT_THETA = 10000.0


def load(folder):
    """Name -> float64 array of every tensor in a checkpoint folder."""
    out = {}
    for file in sorted(folder.glob("*.safetensors")):
        out.update({name: tensor.to(torch.float64).numpy() for name, tensor in load_file(file).items()})
    return out


def rope_settings(config):
    """(theta, kind, settings) from either spelling; a nested theta beats the top one, `rope_type` beats `type`."""
    settings = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = settings.get("rope_theta", config.get("rope_theta", DEFAULT_THETA))
    return theta, settings.get("rope_type", settings.get("type", "default")), settings


def rope_table(config, positions):
    """cos and sin, float64 [positions, head_dim / 2], attention factor included."""
    theta, kind, s = rope_settings(config)
    size = head_dim(config)
    inv_freq = np.array([theta ** (-2.0 * i / size) for i in range(size // 2)])
    scale = 1.0
    if kind == "linear":
        inv_freq = inv_freq / s["factor"]
    elif kind == "llama3":
        original, low, high = s["original_max_position_embeddings"], s["low_freq_factor"], s["high_freq_factor"]
        turns = original * inv_freq / (2 * math.pi)  # full turns within the original context
        smooth = np.clip((turns - low) / (high - low), 0.0, 1.0)
        inv_freq = (1 - smooth) * inv_freq / s["factor"] + smooth * inv_freq
    elif kind == "yarn":
        factor, original = s["factor"], s["original_max_position_embeddings"]

        def pair_with(turns):  # the (fractional) pair that makes so many turns within the original context
            return size * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

        low = max(math.floor(pair_with(s.get("beta_fast", 32.0))), 0)
        high = min(math.ceil(pair_with(s.get("beta_slow", 1.0))), size - 1)
        ramp = np.clip((np.arange(size // 2) - low) / ((high if high != low else high + 0.001) - low), 0.0, 1.0)
        inv_freq = inv_freq * (1 - ramp) + inv_freq / factor * ramp
        scale = s.get("attention_factor", 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0)
    elif kind != "default":
        raise ValueError(f"rope kind {kind}")
    angles = np.arange(positions, dtype=np.float64)[:, None] * inv_freq
    return np.cos(angles) * scale, np.sin(angles) * scale


def window(config, layer):
    """The sliding window of a layer, 0 for none."""
    if config["model_type"] == "mistral":
        return config.get("sliding_window") or 0
    if config.get("use_sliding_window"):
        return config["sliding_window"] if layer >= config["max_window_layers"] else 0
    return 0


def to_bf16(x):
    """Values rounded to f32, then to bf16 by torch; in x's type."""
    return torch.from_numpy(x.astype(np.float32)).to(torch.bfloat16).to(torch.float32).numpy().astype(x.dtype)


def forward(config, weights, ids, dtype=np.float64, cache_dtype=None, bf16_inputs=False):
    """Logits [len(ids), vocab] computed in `dtype`, keys and values rounded to `cache_dtype` if given, and the inputs of
    matrices to bf16 if asked for."""
    w = {name: value.astype(dtype) for name, value in weights.items()}
    eps, heads, kv_heads = dtype(config["rms_norm_eps"]), config["num_attention_heads"], config["num_key_value_heads"]
    size, n = head_dim(config), len(ids)
    cos, sin = (t.astype(dtype)[:, None, :] for t in rope_table(config, n))

    def norm(x, gain):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * gain

    def product(x, weight):
        return (to_bf16(x) if bf16_inputs else x) @ weight.T

    def linear(x, name):
        y = product(x, w[f"{name}.weight"])
        return y + w[f"{name}.bias"] if f"{name}.bias" in w else y

    def rotate(x):
        a, b = x[..., : size // 2], x[..., size // 2 :]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    distance = np.arange(n)[:, None] - np.arange(n)[None, :]
    x = w["model.embed_tokens.weight"][np.array(ids)]
    for i in range(config["num_hidden_layers"]):
        b = f"model.layers.{i}"
        h = norm(x, w[f"{b}.input_layernorm.weight"])
        q, k, v = (linear(h, f"{b}.self_attn.{p}_proj").reshape(n, -1, size) for p in "qkv")
        if f"{b}.self_attn.q_norm.weight" in w:
            q, k = norm(q, w[f"{b}.self_attn.q_norm.weight"]), norm(k, w[f"{b}.self_attn.k_norm.weight"])
        q, k = rotate(q), rotate(k)
        if cache_dtype:
            k, v = k.astype(cache_dtype).astype(dtype), v.astype(cache_dtype).astype(dtype)
        span = window(config, i)
        hidden = (distance < 0) | (distance >= span) if span else distance < 0
        out = np.empty((n, heads, size), dtype)
        for head in range(heads):
            shared = head // (heads // kv_heads)
            scores = q[:, head] @ k[:, shared].T / dtype(math.sqrt(size))
            scores[hidden] = -np.inf
            e = np.exp(scores - scores.max(axis=-1, keepdims=True))
            out[:, head] = (e / e.sum(axis=-1, keepdims=True)) @ v[:, shared]
        x = x + linear(out.reshape(n, -1), f"{b}.self_attn.o_proj")
        h = norm(x, w[f"{b}.post_attention_layernorm.weight"])
        gate = linear(h, f"{b}.mlp.gate_proj")
        x = x + linear(gate / (1 + np.exp(-gate)) * linear(h, f"{b}.mlp.up_proj"), f"{b}.mlp.down_proj")
    return product(norm(x, w["model.norm.weight"]), w.get("lm_head.weight", w["model.embed_tokens.weight"]))


def nmse(a, b):
    """The largest over positions of sum (a - b)^2 / sum b^2."""
    return float(np.max(np.sum((a - b) ** 2, axis=-1) / np.sum(b.astype(np.float64) ** 2, axis=-1)))
