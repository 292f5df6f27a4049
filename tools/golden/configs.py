"""Writes tests/data/configs: hyper-parameters of published models, as facts, with the number of parameters that
transformers counts for each (a tied head once).

    tools/venv tools/golden/configs.py FOLDER [--out tests/data/configs] [--only NAME ...]

FOLDER has copies of published config.json under names of their own. Of each are kept the keys that are not on the list
of harmless ones. Those whose model_type a preset (frontend/arch) has are counted, in totals.json; the others must be
refused by name.
"""

import argparse
import json
import pathlib

import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
from transformers.utils import logging

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of these classes transformers has none; another one computes the same of mapped keys.
MAPPED = {"minicpm": "granite"}


def is_encoder(preset, presets):
    """Whether a preset, or one that it is like, gives hidden rows."""
    while preset:
        output = preset.get("hf", {}).get("fields", {}).get("ends.output")
        if output:
            return output["value"] == "hidden"
        preset = next((p for p in presets if p["name"] == preset.get("like")), None)
    return False


def count(config, encoder):
    """Parameters, those that are used twice counted once; of an encoder without what stands behind its rows."""
    config = {k: v for k, v in config.items() if k not in ("auto_map", "torch_dtype", "dtype")}
    config["model_type"] = MAPPED.get(config["model_type"], config["model_type"])
    made = AutoConfig.for_model(**config)
    if config["model_type"] == "granite":
        made.tie_word_embeddings = config.get("tie_word_embeddings", True)  # MiniCPM's own default
    with torch.device("meta"):
        model = (AutoModel if encoder else AutoModelForCausalLM).from_config(made)
    return sum({id(p): p.numel() for name, p in model.named_parameters() if not name.startswith("pooler.")}.values())


def main():
    """Writes the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/data/configs")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="these; the others' totals stay as they are")
    args = parser.parse_args()
    logging.set_verbosity_error()
    presets = [json.loads(p.read_text()) for p in (ROOT / "frontend/arch").glob("*.json")]
    types = {}  # model_type -> whether it is an encoder's; one that insists on its class is not what the type says
    for preset in presets:
        if not preset.get("hf", {}).get("only_architectures"):
            types.update({t: is_encoder(preset, presets) for t in preset.get("hf", {}).get("model_types", [])})
    # model_type of a config that keeps the text part in an object -> its key
    wrappers = {t: key for preset in presets for t, key in (preset.get("hf", {}).get("wrappers") or {}).items()}
    harmless = set(json.loads((ROOT / "frontend/config_keys.json").read_text())["hf"]["known"]) - {"model_type", "architectures"}
    args.out.mkdir(parents=True, exist_ok=True)
    totals = json.loads((args.out / "totals.json").read_text()) if args.only else {}
    for path in sorted(args.folder.glob("*.json")):
        if args.only and path.stem not in args.only:
            continue
        config = json.loads(path.read_text())
        kept = {k: v for k, v in sorted(config.items()) if k not in harmless}
        (args.out / path.name).write_text(json.dumps(kept) + "\n")
        config = config.get(wrappers.get(config.get("model_type"), ""), config)  # the text part
        if config.get("model_type") not in types:
            print(f"{path.stem:32} {config.get('model_type')} has no preset", flush=True)
            continue
        totals[path.stem] = count(config, types[config["model_type"]])
        print(f"{path.stem:32} {totals[path.stem]:>16,}", flush=True)
    lines = [f"  {json.dumps(name)}: {total}" for name, total in sorted(totals.items())]
    (args.out / "totals.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
