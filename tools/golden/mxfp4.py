"""mxfp4 as gpt-oss' checkpoints keep it: two tensors of bytes instead of one of numbers. What they say is transformers' own reading of them."""

import json

import numpy as np
import torch
from gguf import GGMLQuantizationType, quants
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

TYPE = GGMLQuantizationType.MXFP4
CODES = 32  # of a block
CONFIG = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}


def is_packed(name):
    """Whether a parameter is kept so."""
    return name.endswith(("experts.gate_up_proj", "experts.down_proj"))


def pairs(value):
    """Codes [experts, out, in / 32, 16], two neighbours a byte, and exponents [experts, out, in / 32] of a parameter [experts, in, out]."""
    rows = np.ascontiguousarray(value.swapaxes(1, 2), dtype=np.float32)
    blocks = quants.quantize(rows.reshape(-1, rows.shape[-1]), TYPE).reshape(*rows.shape[:-1], -1, 1 + CODES // 2)
    codes = np.concatenate([blocks[..., 1:] & 15, blocks[..., 1:] >> 4], axis=-1)
    return codes[..., ::2] | codes[..., 1::2] << 4, blocks[..., 0]


def numbers(codes, exponents):
    """The parameter [experts, in, out] that transformers makes of them."""
    return convert_moe_packed_tensors(torch.from_numpy(codes), torch.from_numpy(exponents), dtype=torch.float32).numpy()


def rounded(value):
    """A parameter's values as the codes say them."""
    return numbers(*pairs(value))


def plain(folder, scratch):
    """The checkpoint, or one in the folder `scratch` with numbers in place of codes: transformers reads those without a library for devices."""
    config = json.loads((folder / "config.json").read_text())
    if config.pop("quantization_config", None) is None:
        return folder
    tensors = load_file(folder / "model.safetensors")
    for name in [n for n in tensors if n.endswith("_blocks")]:
        base = name.removesuffix("_blocks")
        tensors[base] = torch.from_numpy(numbers(tensors.pop(name).numpy(), tensors.pop(base + "_scales").numpy())).to(torch.bfloat16)
    save_file(tensors, scratch / "model.safetensors", metadata={"format": "pt"})
    (scratch / "config.json").write_text(json.dumps(config))
    return scratch


def pack(path):
    """Replaces the packed parameters of a safetensors file, whose values are rounded, by their codes and exponents."""
    out = {}
    for name, tensor in load_file(path).items():
        if not is_packed(name):
            out[name] = tensor
            continue
        codes, exponents = pairs(tensor.float().numpy())
        assert np.array_equal(numbers(codes, exponents), tensor.float().numpy()), name
        out[name + "_blocks"], out[name + "_scales"] = torch.from_numpy(codes), torch.from_numpy(np.ascontiguousarray(exponents))
    save_file(out, path, metadata={"format": "pt"})
