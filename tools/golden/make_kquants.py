"""Writes golden models in every block type of llama.cpp's quantiser, from one F32 file each.

    tools/venv tools/golden/make_kquants.py [--out tests/data/golden-gguf] [--only NAME ...]

d_model is 256 and d_ff 512, so that every matrix but attn_output (whose rows have 64 elements: the quantiser's stand-ins)
has whole blocks of 256. Quantised by llama.cpp itself (llama_model_quantize of llama-cpp-python, in `tools/venv --peer`);
the logits are transformers' in float64 on the weights that gguf-py reads from the file. A file of such a model has 300
KB, so matrices of layers repeat 16 rows in a scrambled order, and OUT/NAME/model.rows has each row once: u32 count,
count pairs of u32 offset and length, and the bytes that they point into; put together they are the GGUF file.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import torch
from gguf import GGUFReader, quants
from safetensors.torch import save_file

import weights
from make import write_golden
from make_gguf import gguf_name, half_split, write_model
from variants import Variant, config, size

DISTINCT = 16  # rows of a matrix inside a layer

# name -> llama.cpp's ftype, and whether all matrices get its type (else a mixture by its rules)
TYPES = {
    "q2_k": (10, False),
    "q3_k_m": (12, False),
    "q4_k_m": (15, False),
    "q5_k_m": (17, False),
    "q6_k": (18, False),
    "iq4_nl": (25, False),
    "iq4_xs": (30, False),
    "tq1_0": (36, True),
    "tq2_0": (37, True),
    "mxfp4": (38, True),
}
QUANTIZE = """
import sys, llama_cpp
params = llama_cpp.llama_model_quantize_default_params()
params.ftype, params.pure, params.nthread = int(sys.argv[3]), sys.argv[4] == "True", 1
sys.exit(llama_cpp.llama_model_quantize(sys.argv[1].encode(), sys.argv[2].encode(), params))
"""
MODEL = Variant(
    "kquants", "", "llama", size(hidden=256, ffn=512, heads=2, kv=1, layers=1, vocab=40),
    {"tie_word_embeddings": False, "rope_theta": 10000.0, "head_dim": 32},
)


def repeated(tensors):
    """The layers' matrices with DISTINCT rows each, in a scrambled order."""
    rng = np.random.default_rng(10)
    out = {}
    for name, tensor in tensors.items():
        again = tensor.ndim > 1 and ".layers." in name
        out[name] = tensor[torch.from_numpy(rng.integers(0, DISTINCT, len(tensor)))] if again else tensor
    return out


def held(path, cfg):
    """transformers' tensors with the values that gguf-py reads from a GGUF file."""
    heads = {"attn_q": cfg["num_attention_heads"], "attn_k": cfg["num_key_value_heads"]}
    stored = {t.name: t for t in GGUFReader(path).tensors}
    out = {}
    for name in weights.tensors(MODEL, cfg):
        target, role = gguf_name(name)
        tensor = stored[target]
        shape = [int(n) for n in reversed(tensor.shape)]
        values = quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)
        out[name] = torch.from_numpy(np.array(half_split(values, heads[role]) if role in heads else values))
    return out


def write_rows(path, target):
    """Writes the file's distinct rows and the order in which they make it."""
    data = path.read_bytes()
    reader = GGUFReader(path)
    cuts = {0, len(data)}
    for t in reader.tensors:
        row = t.n_bytes // (int(t.shape[1]) if len(t.shape) > 1 else 1)
        cuts.update(range(t.data_offset, t.data_offset + t.n_bytes + 1, row))
    cuts = sorted(cuts)
    places, blob, pieces = {}, bytearray(), []
    for begin, end in zip(cuts, cuts[1:]):
        piece = data[begin:end]
        if piece not in places:
            places[piece] = len(blob)
            blob += piece
        pieces += [places[piece], len(piece)]
    target.write_bytes(np.array([len(pieces) // 2, *pieces], "<u4").tobytes() + bytes(blob))


def main():
    """Parses the command line and writes the goldens asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data/golden-gguf")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="these types alone")
    args = parser.parse_args()
    peer = subprocess.run([root / "tools/venv", "--peer", "--path"], check=True, text=True, stdout=subprocess.PIPE)
    cfg = config(MODEL)
    cfg["rms_norm_eps"] = float(np.float32(cfg["rms_norm_eps"]))
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        source = scratch / "f32.gguf"
        write_model(source, MODEL, cfg, "F32", "F32", repeated(weights.tensors(MODEL, cfg)))
        for name, (ftype, pure) in TYPES.items():
            if args.only and name not in args.only:
                continue
            file = scratch / f"{name}.gguf"
            subprocess.run(
                [peer.stdout.strip() + "/bin/python", "-c", QUANTIZE, source, file, str(ftype), str(pure)],
                check=True, stderr=subprocess.DEVNULL,
            )
            kinds = sorted({t.tensor_type.name for t in GGUFReader(file).tensors})
            folder = args.out / f"llama-{name}"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            write_rows(file, folder / "model.rows")
            checkpoint = scratch / name
            checkpoint.mkdir()
            save_file(held(file, cfg), checkpoint / "model.safetensors", metadata={"format": "pt"})
            (checkpoint / "config.json").write_text(json.dumps(cfg))
            why = f"by llama.cpp's quantiser: {', '.join(kinds)}"
            variant = Variant(f"llama-{name}", why, "llama", MODEL.sizes, MODEL.keys)
            print(write_golden(variant, cfg, checkpoint, folder), flush=True)


if __name__ == "__main__":
    sys.exit(main())
