#!/usr/bin/env python3
"""Prints how fast each decoder family decodes at one size, as Markdown: bytes read a token, and their share of what the same threads read weights with.

    tools/bench_families.py [--build build/release] [--only NAME ...] [--threads 2] [--rounds 3] [--count 32] [--keep FOLDER]

The size is that of a 1B Llama: width 2048, 16 layers, 32 heads of 64 and 8 of keys, feed-forward 8192 (experts: 8 of 1024, of which a row takes 2), vocabulary
32,768, Q8_0, random weights, int8 activations, an empty context. Of each preset with a golden model (tests/data/golden) the choices are kept and the sizes replaced, in llmc's own
description. Bytes are what `llmc describe --report` says of the first position: weights, and states read and written. The share is those bytes times tokens per second over the bare
loop's rate (`llmc-run --bench`); below 80 % is a fault (exit status 1). Needs no packages, 3 GB of disk and a machine that nobody else uses.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
LEAST = 0.8
D_HEAD = 64
SIZES = {
    "": {"vocab": 32768, "d_model": 2048, "n_layers": 16, "max_context": 512},
    "attention": {"n_heads": 32, "n_kv_heads": 8, "d_head": D_HEAD, "scale": D_HEAD**-0.5},
    "mla": {"n_heads": 32, "kv_lora": 512, "d_nope": D_HEAD, "d_rope": D_HEAD // 2, "d_v": D_HEAD, "scale": (1.5 * D_HEAD) ** -0.5},
    "delta_net": {"n_heads": 32, "d_key": D_HEAD, "d_value": D_HEAD},
    "mamba2": {"n_heads": 64, "d_head": D_HEAD, "n_groups": 1, "d_state": 2 * D_HEAD},
    "gated": {"d_ff": 8192},
    "plain": {"d_ff": 8192},
    "experts": {"d_ff": 1024, "count": 8, "used": 2, "groups": 1, "keep": 1},
}


def run(command):
    """Standard output and error; ends the program if the command fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stderr.strip()}")
    return done.stdout, done.stderr


def resized_block(block):
    """A block with the size's numbers in place of its own."""
    for mixer in ("attention", "mla", "delta_net", "mamba2"):
        if mixer not in block:
            continue
        own = block[mixer]
        if mixer == "attention":
            share = block["position"].get("rotary_dim", own["d_head"]) / own["d_head"]
            rotary = 2 * int(D_HEAD * share / 2)
        if mixer == "mla":
            rotary = SIZES["mla"]["d_rope"]
            own["q_lora"] = own["q_lora"] and 768
        if mixer == "delta_net":
            own["n_key_heads"] = 32 if own["n_key_heads"] == own["n_heads"] else 16
        if mixer in ("attention", "mla") and block["position"]["kind"] == "rope":
            block["position"]["rotary_dim"] = rotary
            if block["position"]["turning"]:
                block["position"]["turning"] = rotary // 4
            if block["position"]["scaling"] == "divisors":  # tables of a model's own: as fast as none
                block["position"]["scaling"] = "none"
        own.update(SIZES[mixer])
    ffn = block["ffn"]
    ffn.update(SIZES.get(ffn["kind"], {}))
    if ffn.get("shared"):
        ffn["shared"] = SIZES["experts"]["d_ff"]
    return block


def resized(description):
    """A description of the size, with the choices of the one given."""
    out = {**description, **SIZES[""], "blocks": {name: resized_block(block) for name, block in description["blocks"].items()}}
    if out["per_layer"]:
        out.update(per_layer=256, per_layer_vocab=out["vocab"])
    for key in ("tensors", "ignored_tensors", "weights"):
        out.pop(key, None)
    return out


def families(compiler, only):
    """(preset's name, a description of the size) of each decoder that has a golden model."""
    found = {}
    for config in sorted((ROOT / "tests" / "data" / "golden").glob("*/config.json")):
        description = json.loads(run([compiler, "describe", config])[0])
        name = description["name"]
        if name not in found and (not only or name in only):
            found[name] = resized(description)
    return found


def bytes_of_token(report):
    """Bytes of weights, and of cache and states, at the first position."""
    line = next(line for line in report.splitlines() if line.startswith("decode, first position"))
    return [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) (?:bytes )?of (?:weights|cache|states)", line)]


def main():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="these presets alone")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=32, metavar="TOKENS")
    options = parser.parse_args()
    compiler, runner = options.build / "llmc", options.build / "llmc-run"
    print("| family | MB of weights a token | of states | tokens/s | GB/s | bare loop, GB/s | share |\n|---|---|---|---|---|---|---|")
    slow, cpu = [], ""
    with tempfile.TemporaryDirectory(dir=options.build) as scratch:
        model, plan = pathlib.Path(scratch) / "model.json", pathlib.Path(scratch) / "model.plan"
        for name, description in families(compiler, options.only).items():
            model.write_text(json.dumps(description))
            flags = ["--weights", "random:1", "--quantize", "q8_0"]
            weights, *states = bytes_of_token(run([compiler, "describe", model, "--report", *flags])[1])
            run([compiler, "compile", model, *flags, "-o", plan, "--target-cpu", "native"])
            out, _ = run([runner, plan, "--bench", "-p", 8, "-n", options.count, "-r", options.rounds, "-t", options.threads, "--json"])
            plan.unlink()
            result = json.loads(out)
            rate, stream, cpu = result["decode_tokens_per_second"], result["stream_bytes_per_second"], result["cpu"]
            moved = rate * (weights + sum(states))
            share = moved / stream
            if share < LEAST:
                slow.append(name)
            print(f"| {name} | {weights / 1e6:.0f} | {sum(states) / 1e6:.2f} | {rate:.1f} | {moved / 1e9:.1f} | {stream / 1e9:.1f} | {share:.0%} |", flush=True)
    print(f"\n{cpu}, {options.threads} threads, {options.count} tokens, medians of {options.rounds} rounds.")
    if slow:
        sys.exit(f"below {LEAST:.0%}: {', '.join(slow)}")


if __name__ == "__main__":
    main()
