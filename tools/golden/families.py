"""Writes the golden models of families whose classes say all that their weights need: tests/data/golden/NAME and, where
the format has the family, tests/data/golden-gguf/NAME with the same weights.

    tools/venv tools/golden/families.py [--out tests/data] [--only NAME ...] [--list]

A variant is a config. transformers makes the model from it, random numbers fill its parameters by their names, and the
checkpoint is what transformers saves. Logits are transformers' in float64 (exact.py). Files as make.py writes them.
"""

import argparse
import copy
import hashlib
import json
import pathlib
import shutil
import tempfile

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

import family_gguf
import mxfp4
from exact import ExactModel
from family_variants import VARIANTS
from make import greedy, write_npy

PROMPT = 37  # ids: more than any window or chunk of the tests, and odd
GREEDY = 8


def config_of(variant):
    """config.json in the variant's spelling."""
    out = dict(variant.config)
    out["architectures"] = [variant.architecture]
    out["torch_dtype" if variant.spelling == 4 else "dtype"] = variant.dtype
    out["transformers_version"] = "4.51.3" if variant.spelling == 4 else "5.0.0"
    return dict(sorted(out.items()))


def values(name, shape, variant, rng):
    """Numbers for a parameter: logits spread over several units, attention far from uniform, gains that are not 1."""
    noise = rng.standard_normal(shape)
    leaf = name.rsplit(".", 2)[-2] if "." in name else name
    is_norm = "norm" in name.lower() or leaf.startswith("ln_") or leaf == "ln_f" or ".norms." in name
    if name.endswith("bias"):
        return 0.3 * noise
    if name.endswith("A_log"):  # memories of one to some twenty rows
        return -1.5 + 0.8 * noise
    if name.endswith(("linear_attn.norm.weight", "mamba.norm.weight", "mixer.norm.weight")):  # no offset, and not the last norm
        return 1.0 + 0.2 * noise
    if is_norm:
        last = leaf in ("norm", "norm_f", "ln_f", "final_layernorm", "final_layer_norm", "embedding_norm") and ".layers." not in name
        usual = variant.qk_gain if leaf in ("q_norm", "k_norm") else 1.0
        mean = (4.0 if last and variant.tied else usual) - variant.gain_offset
        return mean + 0.2 * noise
    if len(shape) < 2:
        return 0.5 + 0.2 * noise
    if any(part in name for part in ("embed", "wte", "wpe")):
        return noise * (0.15 if variant.tied or "wpe" in name else 0.5)
    fan_in = shape[0] if variant.transposed and "lm_head" not in name else shape[-1]
    gain = 3.0 if "lm_head" in name or "embed_out" in name else 1.4
    return noise * gain / np.sqrt(fan_in)


def build(variant, cfg):
    """The model with random parameters in the stored type."""
    config = AutoConfig.for_model(**copy.deepcopy(cfg))
    config.dtype = torch.float32
    model = AutoModelForCausalLM.from_config(config)
    seed = int.from_bytes(hashlib.sha256(variant.name.encode()).digest()[:8], "little")
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(values(name, tuple(parameter.shape), variant, rng)))
        for name, buffer in model.named_buffers():  # biases on the choice of experts, in some classes
            if name.endswith(("e_score_correction_bias", "expert_bias", "layer_scalar")):
                buffer.copy_(torch.from_numpy(values(name, tuple(buffer.shape), variant, rng)))
        if variant.blocks:
            for name, parameter in model.named_parameters():
                parameter.copy_(torch.from_numpy(family_gguf.as_blocks(name, parameter.numpy(), cfg)))
        if variant.mxfp4:
            for name, parameter in model.named_parameters():
                if mxfp4.is_packed(name):
                    parameter.copy_(torch.from_numpy(mxfp4.rounded(parameter.numpy())))
    return model.to(getattr(torch, variant.dtype))


def logits_of(folder, ids):
    """float64 [positions, vocabulary], and the ids and margins that follow."""
    model = ExactModel(folder)
    return model.logits(ids), *greedy(model, ids, GREEDY)


def make(variant, out):
    """Writes one variant's folders; returns a line about each."""
    cfg = config_of(variant)
    scratch = tempfile.TemporaryDirectory()
    folder = (out / "golden" if variant.files else pathlib.Path(scratch.name)) / variant.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = build(variant, cfg)
    model.save_pretrained(folder)
    for extra in folder.iterdir():
        if not extra.name.startswith("model"):
            extra.unlink()
    (folder / "config.json").write_text(json.dumps(cfg, indent=1) + "\n")
    ids = [int(i) for i in np.random.default_rng(len(variant.name)).integers(0, cfg["vocab_size"], PROMPT)]
    logits, following, margins = logits_of(folder, ids)
    if variant.mxfp4:
        mxfp4.pack(folder / "model.safetensors")
        packed = dict(sorted({**cfg, "quantization_config": mxfp4.CONFIG}.items()))
        (folder / "config.json").write_text(json.dumps(packed, indent=1) + "\n")
    write_npy(folder / "logits.npy", logits)
    fields = {
        "why": variant.why,
        "prompt": ids,
        "rows": list(range(PROMPT)),
        "greedy": following,
        "margins": [float(f"{m:.6g}") for m in margins],
    }
    text = "{\n" + ",\n".join(f'  "{k}": {json.dumps(v)}' for k, v in fields.items()) + "\n}\n"
    (folder / "golden.json").write_text(text)
    lines = [describe(folder, logits, following, margins)] if variant.files else []
    if variant.gguf:
        target = out / "golden-gguf" / variant.name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        family_gguf.write(target / "model.gguf", variant, model, cfg)
        (target / "golden.json").write_text(text)
        write_npy(target / "logits.npy", logits)
        lines.append(describe(target, logits, following, margins))
    return "\n".join(lines)


def describe(folder, logits, following, margins):
    """What a folder weighs and how its logits look."""
    total = sum(f.stat().st_size for f in folder.iterdir())
    experts = any(k in (folder / "config.json").read_text() for k in ("num_experts", "num_local_experts")) \
        if (folder / "config.json").exists() else True
    assert total <= (96 if experts else 64) * 1024, f"{folder} has {total} bytes"
    return (
        f"{folder.parent.name + '/' + folder.name:36} {total / 1024:5.1f} KiB  sd {logits.std():6.2f}  "
        f"distinct greedy {len(set(following))}/{len(following)}  least margin {min(margins):.3f}"
    )


def main():
    """Parses the command line and writes the goldens asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="variants whose names start with these")
    parser.add_argument("--list", action="store_true", help="print the variants and stop")
    args = parser.parse_args()
    for variant in VARIANTS:
        if args.only and not any(variant.name.startswith(name) for name in args.only):
            continue
        print(f"{variant.name:24} {variant.why}" if args.list else make(variant, args.out), flush=True)


if __name__ == "__main__":
    main()
