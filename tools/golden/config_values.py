"""Writes tests/data/config_values.json: what transformers makes of each key of each family's config when it is absent,
null, false, zero or empty.

    tools/venv tools/golden/config_values.py [--out tests/data/config_values.json]

One config of tests/data/golden (encoders: golden-hidden) per family is the base. Keys are those that the family's preset names (frontend/arch) and
those of the base. A case is "refused" when transformers fails to make the model, else the facts that differ from the
base's, by names of llmc's fields: what a test compares, whatever rules a preset has.
"""

import argparse
import contextlib
import copy
import io
import json
import pathlib

import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
from transformers.utils import logging

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = {"null": None, "false": False, "0": 0, '""': ""}  # by their JSON; 0.0 where a class wants a fraction
# Keys whose meaning is not arithmetic, or which say what the model is.
NOT_WALKED = {"model_type", "architectures", "transformers_version", "torch_dtype", "dtype", "bos_token_id", "eos_token_id", "pad_token_id"}


def preset_keys(name):
    """Keys that a preset's rules name, those of the presets that it is like included."""
    keys = set()

    def collect(rule):
        if isinstance(rule, list):
            for item in rule:
                collect(item)
        elif isinstance(rule, dict):
            for key, value in rule.items():
                if key in ("keys", "present"):
                    keys.update(value)
                elif key in ("types", "listed", "letters"):
                    keys.add(value)
                else:
                    collect(value)

    while name:
        preset = json.loads((ROOT / "frontend/arch" / f"{name}.json").read_text())
        for part in ("fields", "blocks", "layers"):
            collect(preset.get("hf", {}).get(part))
        name = preset.get("like")
    return keys


def with_value(config, key, value, absent=False):
    """The config with `key` (dots go inwards) set, or taken away; None: there is nothing to take away."""
    out = copy.deepcopy(config)
    *outer, last = key.split(".")
    inner = out
    for name in outer:
        inner = inner.get(name)
        if not isinstance(inner, dict):
            return None
    if absent:
        if last not in inner:
            return None
        del inner[last]
    else:
        inner[last] = value
    return out


def number(value):
    """A float as JSON has it, or None."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def model_of(made, encoder):
    """The model of a config without weights. Encoders have no pooling layer here, as in llmc."""
    with torch.device("meta"):
        if not encoder:
            return AutoModelForCausalLM.from_config(made)
        try:
            return AutoModel.from_config(made, add_pooling_layer=False)
        except TypeError:  # the class has none
            return AutoModel.from_config(made)


def facts(config, encoder):
    """What the class makes of a config, by llmc's fields; None: it refuses."""
    try:
        made = AutoConfig.for_model(**copy.deepcopy(config))
        model = model_of(made, encoder)
    except Exception:  # whatever a class raises is a refusal
        return None
    out = {"parameters": sum({id(p): p.numel() for p in model.parameters() if p.requires_grad}.values())}
    layers = next(m for m in model.modules() if isinstance(m, torch.nn.ModuleList))
    if not layers:
        return out
    attentions = [next((m for m in layer.modules() if "attention" in type(m).__name__.lower()), None) for layer in layers]
    widths = [getattr(attention, "head_dim", None) for attention in attentions]
    if number(widths[0]):
        out["attention.d_head"] = widths if None not in widths and len(set(widths)) > 1 else widths[0]
    eps = [getattr(m, "variance_epsilon", getattr(m, "eps", None)) for name, m in layers.named_modules()
           if "norm" in type(m).__name__.lower() and not name.endswith("_a_layernorm")]  # latents have an eps of their own
    if eps and number(eps[0]) is not None:
        out["norm.eps"] = float(eps[0])
    rope = getattr(made, "rope_parameters", None) or {}
    kinds = getattr(made, "layer_types", None)
    per_type = {k: v for k, v in rope.items() if isinstance(v, dict)}
    windows, thetas = [], []
    for i in range(made.num_hidden_layers):
        kind = kinds[i] if kinds else None
        window = getattr(made, "sliding_window", None)
        if kinds:
            window = window if kind == "sliding_attention" else None
        if hasattr(made, "attention_layers"):  # GPT-Neo
            window = made.window_size if made.attention_layers[i] == "local" else None
        windows.append(window or 0)
        thetas.append(number((per_type.get(kind) if per_type else rope or {}).get("rope_theta")))
    if not encoder:  # whose windows are halves, or both sides
        out["attention.window"] = windows
    if all(t is not None for t in thetas) and not rope.get("alpha"):  # alpha scales theta
        out["position.theta"] = thetas
    for field, names in {
        "ends.embed_scale": ["embedding_multiplier"], "wiring.residual": ["residual_multiplier"], "ends.logit_scale": ["logit_scale"],
        "ends.logit_cap": ["final_logit_softcapping"],
    }.items():
        for name in names:
            if hasattr(made, name):
                out[field] = number(getattr(made, name)) or 0.0
    return out


def family(base, encoder):
    """key -> case (its JSON, or "absent") -> "refused", or the facts that differ from the base's."""
    config = json.loads((base / "config.json").read_text())
    presets = [json.loads(p.read_text()) for p in sorted((ROOT / "frontend/arch").glob("*.json"))]
    named = [p for p in presets if (p.get("hf") or {}).get("architectures") and config["architectures"][0] in p["hf"]["architectures"]]
    preset = (named or [p for p in presets if config["model_type"] in (p.get("hf") or {}).get("model_types", [])])[0]["name"]
    expected = facts(config, encoder)
    assert expected is not None, base
    harmless = set(json.loads((ROOT / "frontend/config_keys.json").read_text())["hf"]["known"])
    keys = sorted((preset_keys(preset) | set(config)) - NOT_WALKED - harmless)
    table = {}
    for key in keys:
        cases = {name: with_value(config, key, value) for name, value in CASES.items()}
        cases["absent"] = with_value(config, key, None, absent=True)
        row = {}
        for name, changed in cases.items():
            if changed is None:
                continue
            found = facts(changed, encoder)
            if found is None and name == "0":
                name, found = "0.0", facts(with_value(config, key, 0.0), encoder)
            row[name] = "refused" if found is None else {k: v for k, v in found.items() if expected.get(k) != v}
        if row:
            table[key] = row
    return {"base": f"{base.parent.name}/{base.name}", "facts": expected, "keys": table}


def main():
    """Writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/data/config_values.json")
    parser.add_argument("--only", nargs="*", metavar="TYPE", help="these model types; the others stay as they are")
    args = parser.parse_args()
    logging.set_verbosity_error()
    bases = {}
    for folder in ("golden", "golden-hidden"):
        for config in sorted((ROOT / "tests/data" / folder).glob("*/config.json")):
            kind = json.loads(config.read_text())["model_type"]
            bases.setdefault(kind if folder == "golden" or kind not in bases else f"{kind}, encoder", (config.parent, folder != "golden"))
    out = json.loads(args.out.read_text()) if args.only else {}
    for kind, base in sorted(bases.items()):
        if args.only and kind not in args.only:
            continue
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            out[kind] = family(*base)
        print(kind, len(out[kind]["keys"]), "keys", flush=True)
    lines = [f'"{k}": {json.dumps(v, separators=(",", ":"))}' for k, v in sorted(out.items())]
    args.out.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
