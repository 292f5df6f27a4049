"""Writes the goldens of hidden rows: of encoders, models and rows; of decoders that tests/data/golden has, rows alone.

    tools/venv tools/golden/encoders.py [--out tests/data] [--only NAME ...]

Per encoder, in OUT/golden-hidden/NAME: config.json and model.safetensors as transformers saves them, or model.gguf with the
same weights (NAME-gguf); golden.json with ids and token types; hidden.npy, f32 [ids, width], transformers'
last_hidden_state in float64 (exact.py). Per decoder family one hidden.npy, OUT/golden-hidden/decoders/NAME.npy, of the
model and prompt in OUT/golden/NAME.
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
from gguf import MODEL_ARCH_NAMES, GGMLQuantizationType, GGUFWriter, PoolingType, RopeScalingType, get_tensor_name_map, quants
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM

import mxfp4
from encoder_variants import VARIANTS
from exact import float64_everywhere, recompute_frequencies
from families import config_of, values
from make import write_npy

IDS = 37  # more than any window of the tests, and odd


def hidden_rows(model, ids, types=None):
    """float64 [positions, width] behind the final norm."""
    model.eval()
    recompute_frequencies(model)
    more = {"token_type_ids": torch.tensor([types])} if types else {}
    with float64_everywhere(), torch.no_grad():
        out = model(input_ids=torch.tensor([ids]), **more).last_hidden_state[0]
    assert out.dtype == torch.float64
    return out.numpy()


def open_exact(kind, folder):
    """A checkpoint in float64, whose keys are all used but those of heads."""
    model, info = kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager",
                                       output_loading_info=True)
    missing = [k for k in info["missing_keys"] if "pooler" not in k]
    if missing or info["mismatched_keys"]:
        raise SystemExit(f"{folder}: transformers reports {missing}, {info['mismatched_keys']}")
    return model.double()  # some routers ask for float32 where they are made


def build(variant, cfg):
    """The model with random parameters in the stored type."""
    config = AutoConfig.for_model(**copy.deepcopy(cfg))
    config.dtype = torch.float32
    auto = AutoModelForMaskedLM if variant.architecture.endswith("MaskedLM") else AutoModel
    model = auto.from_config(config)
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(variant.name.encode()).digest()[:8], "little"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(values(name, tuple(parameter.shape), variant, rng)))
    assert type(model).__name__ == variant.architecture, type(model).__name__
    return model.to(getattr(torch, variant.dtype))


def metadata(writer, variant, cfg):
    """Keys, as the format's converter writes them; mean pooling."""
    arch = variant.gguf
    offset = cfg["pad_token_id"] + 1 if "roberta" in cfg["model_type"] else 0
    writer.add_context_length(cfg["max_position_embeddings"] - offset)
    writer.add_embedding_length(cfg["hidden_size"])
    writer.add_feed_forward_length(cfg["intermediate_size"])
    writer.add_block_count(cfg["num_hidden_layers"])
    writer.add_head_count(cfg["num_attention_heads"])
    if "num_key_value_heads" in cfg:
        writer.add_head_count_kv(cfg["num_key_value_heads"])
    if "head_dim" in cfg:
        writer.add_key_length(cfg["head_dim"])
        writer.add_value_length(cfg["head_dim"])
    if arch in ("gemma-embedding", "eurobert"):
        writer.add_layer_norm_rms_eps(cfg.get("rms_norm_eps", 1e-6))
    else:
        writer.add_layer_norm_eps(cfg.get("layer_norm_eps", cfg.get("norm_eps")))
    if arch != "gemma-embedding":
        writer.add_causal_attention(False)
    writer.add_pooling_type(PoolingType.MEAN)
    window = cfg.get("local_attention", cfg.get("sliding_window"))
    if window:
        writer.add_sliding_window(window)
    if arch == "modern-bert":
        writer.add_sliding_window_pattern(cfg["global_attn_every_n_layers"])
        writer.add_rope_scaling_type(RopeScalingType.NONE)
        writer.add_rope_freq_base(cfg["global_rope_theta"])
        writer.add_rope_freq_base_swa(cfg["local_rope_theta"])
    elif cfg.get("rope_theta") or cfg.get("rope_parameters"):
        writer.add_rope_freq_base(cfg.get("rope_theta") or cfg["rope_parameters"]["rope_theta"])
    return offset


def write_gguf(path, variant, model, cfg, dense=()):
    """The model as its format's converter writes it: matrices in bf16, vectors in f32; dense: layers behind a pooled row."""
    arch = variant.gguf
    names = get_tensor_name_map(next(k for k, v in MODEL_ARCH_NAMES.items() if v == arch), cfg["num_hidden_layers"])
    writer = GGUFWriter(path, arch)
    offset = metadata(writer, variant, cfg)
    tensors = {}
    for name, tensor in model.state_dict().items():
        if "pooler" in name or "position_ids" in name:
            continue
        value = tensor.float().numpy()
        if offset and "position_embeddings" in name:
            value = value[offset:]
        if variant.gain_offset and "norm" in name:
            value = value + np.float32(variant.gain_offset)
        if arch == "nomic-bert":
            name = nomic_name(name)
        tensors["model." + name if arch in ("gemma-embedding", "eurobert") else name] = value
    for name in [n for n in tensors if n.endswith(".attn.q_proj.weight")]:
        parts = [tensors.pop(name.replace("q_proj", f"{p}_proj")) for p in "qkv"]
        tensors[name.replace("q_proj", "Wqkv")] = np.concatenate(parts)
    for name, value in tensors.items():
        target = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if target is None:
            raise SystemExit(f"{variant.name}: gguf has no name for {name}")
        small = value.ndim == 1 or "token_types" in target or "position_embd" in target
        stored = GGMLQuantizationType.F32 if small else GGMLQuantizationType.BF16
        writer.add_tensor(target, quants.quantize(np.ascontiguousarray(value), stored), raw_dtype=stored)
    for number, value in enumerate(dense, 2):
        writer.add_dense_features_dims(f"dense_{number}", value.shape[1], value.shape[0])
        writer.add_tensor(f"dense_{number}.weight", np.ascontiguousarray(value, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def nomic_name(name):
    """The published name of a tensor of Nomic's that transformers renames, in the words of gguf's table."""
    for here, published in (("layers.", "encoder.layers."), ("self_attn.o_proj", "attn.out_proj"), ("self_attn.", "attn."),
                            ("mlp.up_proj", "mlp.fc11"), ("mlp.gate_proj", "mlp.fc12"), ("mlp.down_proj", "mlp.fc2"),
                            ("post_attention_layernorm", "norm1"), ("post_mlp_layernorm", "norm2"),
                            ("embeddings.LayerNorm", "emb_ln")):
        name = name.replace(here, published)
    return name


def make(variant, out):
    """Writes one encoder's folders; returns a line about each."""
    cfg = config_of(variant)
    folder = out / variant.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = build(variant, cfg)
    model.save_pretrained(folder)
    for extra in folder.iterdir():
        if not extra.name.startswith("model"):
            extra.unlink()
    (folder / "config.json").write_text(json.dumps(cfg, indent=1) + "\n")
    rng = np.random.default_rng(len(variant.name))
    ids = [int(i) for i in rng.integers(5, cfg["vocab_size"], IDS)]  # no padding among them
    typed = cfg.get("type_vocab_size", 0) > 1
    types = [int(i > IDS // 3) for i in range(IDS)] if typed else []
    rows = hidden_rows(open_exact(AutoModel, folder), ids, types)
    return "\n".join(finish(variant, folder, ids, types, rows)) + (gguf_line(variant, out, model, cfg, ids, types, rows))


def finish(variant, folder, ids, types, rows):
    """Writes what is said of the rows."""
    write_npy(folder / "hidden.npy", rows)
    fields = {"why": variant.why, "prompt": ids, "types": types}
    text = "{\n" + ",\n".join(f'  "{k}": {json.dumps(v)}' for k, v in fields.items()) + "\n}\n"
    (folder / "golden.json").write_text(text)
    total = sum(f.stat().st_size for f in folder.iterdir())
    assert total <= 64 * 1024, f"{folder} has {total} bytes"
    distance = np.linalg.norm(rows[1:] - rows[:-1]) / np.linalg.norm(rows)
    yield f"{folder.name:28} {total / 1024:5.1f} KiB  sd {rows.std():6.2f}  neighbours differ by {distance:.2f}"


def gguf_line(variant, out, model, cfg, ids, types, rows):
    """The same model as a GGUF file, where the format has it."""
    if not variant.gguf:
        return ""
    folder = out / f"{variant.name}-gguf"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_gguf(folder / "model.gguf", variant, model, cfg)
    return "\n" + "\n".join(finish(variant, folder, ids, types, rows))


def decoders(out, only):
    """hidden.npy of one model of each decoder family."""
    (out / "golden-hidden/decoders").mkdir(parents=True, exist_ok=True)
    seen = set()
    for folder in sorted((out / "golden").iterdir()):
        family = folder.name.split("-")[0]
        if not (folder / "config.json").exists() or family in seen:
            continue
        seen.add(family)
        if only and not any(folder.name.startswith(name) for name in only):
            continue
        ids = json.loads((folder / "golden.json").read_text())["prompt"]
        with tempfile.TemporaryDirectory() as scratch:
            model = open_exact(AutoModelForCausalLM, mxfp4.plain(folder, pathlib.Path(scratch)))
        rows = hidden_rows(getattr(model, model.base_model_prefix), ids)
        write_npy(out / "golden-hidden/decoders" / f"{folder.name}.npy", rows)
        print(f"decoders/{folder.name:20} sd {rows.std():6.2f}", flush=True)


def main():
    """Parses the command line and writes the goldens asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="those whose names start with these")
    parser.add_argument("--decoders", action="store_true", help="decoders alone")
    args = parser.parse_args()
    for variant in () if args.decoders else VARIANTS:
        if not args.only or any(variant.name.startswith(name) for name in args.only):
            print(make(variant, args.out / "golden-hidden"), flush=True)
    decoders(args.out, args.only)


if __name__ == "__main__":
    main()
