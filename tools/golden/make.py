"""Writes the golden models: tiny random weights, and logits in float64 by transformers, checked by a second reference.

    tools/venv tools/golden/make.py [--out tests/data/golden] [--only NAME ...] [--list]

Per model, in OUT/NAME:
  config.json                    in the spelling of transformers 4 or 5
  model.safetensors              or shards with model.safetensors.index.json
  golden.json                    described in tests/data/golden/README.md
  logits.npy                     NPY 1.0, f32 [rows, vocab]: float64 rounded once, an NMSE of 1e-15 where tests ask 1e-9
  logits_bf16.npy                of models in bf16: the same with the inputs of matrices rounded to bf16, by numpy alone
"""

import argparse
import json
import pathlib
import shutil

import numpy as np

import reference
import weights
from exact import ExactModel
from variants import VARIANTS, config

AGREEMENT = 1e-12  # largest difference between the two references, relative to the largest logit


def prompt_ids(variant):
    """Ids that visit the whole vocabulary in a fixed scrambled order."""
    vocab = variant.sizes["vocab"]
    rng = np.random.default_rng(len(variant.name) + 1000 * variant.prompt)
    return [int(i) for i in rng.integers(0, vocab, variant.prompt)]


def greedy(model, ids, steps):
    """The ids that follow by argmax and the margin of each choice."""
    out, margins = [], []
    for _ in range(steps):
        last = model.logits(ids + out)[-1]
        second, first = np.sort(last)[-2:]
        out.append(int(np.argmax(last)))
        margins.append(float(first - second))
    return out, margins


def write_npy(path, array):
    """NPY 1.0, little-endian f32, C order."""
    with open(path, "wb") as file:
        np.lib.format.write_array(file, np.ascontiguousarray(array, dtype="<f4"), version=(1, 0), allow_pickle=False)


def bf16_fields(cfg, stored, ids, rows, logits, folder):
    """Writes logits_bf16.npy and returns what golden.json says of it."""
    rounded = reference.forward(cfg, stored, ids, bf16_inputs=True)
    f32 = reference.nmse(reference.forward(cfg, stored, ids, np.float32, bf16_inputs=True), rounded)
    write_npy(folder / "logits_bf16.npy", rounded[rows])
    return {
        "nmse_bf16": float(f"{reference.nmse(rounded, logits):.2g}"),
        "nmse_bf16_f32": float(f"{f32:.2g}"),
    }


def write_golden(variant, cfg, checkpoint, folder, bf16=False):
    """Writes golden.json, logits.npy and, for a model in bf16, logits_bf16.npy of the model in `checkpoint` to `folder`;
    returns a line about it."""
    ids = prompt_ids(variant)
    model = ExactModel(checkpoint)
    logits = model.logits(ids)
    stored = reference.load(checkpoint)
    second = reference.forward(cfg, stored, ids)
    difference = np.abs(logits - second).max() / np.abs(logits).max()
    if not difference <= AGREEMENT:
        raise SystemExit(f"{variant.name}: transformers and numpy differ by {difference:.3g} of the largest logit")

    rows = variant.rows or list(range(len(ids)))
    following, margins = greedy(model, ids, variant.continue_by)
    f32 = reference.nmse(reference.forward(cfg, stored, ids, np.float32), logits)
    f16_cache = reference.nmse(reference.forward(cfg, stored, ids, np.float32, np.float16), logits)
    write_npy(folder / "logits.npy", logits[rows])
    fields = {
        "why": variant.why,
        "prompt": ids,
        "rows": rows,
        "greedy": following,
        "margins": [float(f"{m:.6g}") for m in margins],
        "nmse_f32": float(f"{f32:.2g}"),
        "nmse_f16_cache": float(f"{f16_cache:.2g}"),
    }
    if bf16:
        fields.update(bf16_fields(cfg, stored, ids, rows, logits, folder))
    (folder / "golden.json").write_text(
        "{\n" + ",\n".join(f'  "{k}": {json.dumps(v)}' for k, v in fields.items()) + "\n}\n"
    )
    total = sum(f.stat().st_size for f in folder.iterdir())
    return (
        f"{variant.name:20} {total / 1024:6.0f} KB  references {difference:.1e}  f32 {f32:.1e}  "
        f"f16 cache {f16_cache:.1e}  logits sd {logits.std():.2f}  "
        f"distinct greedy {len(set(following))}/{len(following)}  least margin {min(margins, default=0):.3f}"
    )


def make(variant, folder):
    """Writes one golden model; returns a line about it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    cfg = config(variant)
    (folder / "config.json").write_text(json.dumps(cfg, indent=2) + "\n")
    weights.write(folder, weights.tensors(variant, cfg), variant.shards)
    return write_golden(variant, cfg, folder, folder, variant.dtype == "bfloat16")


def main():
    """Parses the command line and writes the goldens asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data/golden")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="these variants alone")
    parser.add_argument("--list", action="store_true", help="print the variants and stop")
    args = parser.parse_args()
    for variant in VARIANTS:
        if args.only and variant.name not in args.only:
            continue
        if args.list:
            print(f"{variant.name:20} {variant.why}")
        else:
            print(make(variant, args.out / variant.name), flush=True)


if __name__ == "__main__":
    main()
