"""Holds llmc's values against transformers', layer by layer.

    tools/venv tools/trace_transformers.py LLMC MODEL_FOLDER --tokens 1,2,3 [--out DIR]

Runs the Hugging Face model in float64 over the ids, writes the stream that enters each layer (b{i}.x), and what
attention (b{i}.att_out) and the feed-forward part (b{i}.ffn_out) add to it, as NPY files named like llmc's values, then
runs `llmc trace MODEL_FOLDER --compare`: it prints max abs and NMSE a value, and names the first that parts.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from transformers import AutoModelForCausalLM


def first(output):
    """A module's tensor: some return tuples."""
    return output[0] if isinstance(output, tuple) else output


def collect(folder, tokens):
    """Name -> float32 array [tokens, width]."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")
    values = {}

    def keep(name):
        def hook(_module, _inputs, output):
            values[name] = first(output)[0].float().numpy()

        return hook

    for i, layer in enumerate(model.base_model.layers):
        layer.register_forward_pre_hook(
            lambda _module, inputs, kwargs, i=i: values.__setitem__(
                f"b{i}.x", (inputs[0] if inputs else kwargs["hidden_states"])[0].float().numpy()
            ),
            with_kwargs=True,
        )
        layer.self_attn.register_forward_hook(keep(f"b{i}.att_out"))
        layer.mlp.register_forward_hook(keep(f"b{i}.ffn_out"))
    with torch.no_grad():
        model(torch.tensor([tokens]))
    return values


def main():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llmc")
    parser.add_argument("model")
    parser.add_argument("--tokens", required=True)
    parser.add_argument("--out", help="keep the NPY files here")
    parser.add_argument("--tolerance", default="1e-9")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(options.out or scratch)
        out.mkdir(parents=True, exist_ok=True)
        for name, array in collect(options.model, [int(t) for t in options.tokens.split(",")]).items():
            np.save(out / f"{name}.npy", np.ascontiguousarray(array))
        command = [options.llmc, "trace", options.model, "--tokens", options.tokens, "--compare", str(out)]
        command += ["--kv-type", "f32", "--no-tokenizer", "--tolerance", options.tolerance]
        sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
