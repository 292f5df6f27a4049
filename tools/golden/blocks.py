"""Writes what gguf-py makes of blocks of every type: the reference for their formats.

    tools/venv --light tools/golden/blocks.py [--out tests/data/blocks]

OUT/TYPE.bin: the bytes of 512 weights (random codes and scales, extremes among them), then their values as 512 f32.
"""

import argparse
import pathlib

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

# type -> where its f16 scales stand in a block
HALVES = {
    Type.Q4_0: [0],
    Type.Q4_1: [0, 2],
    Type.Q5_0: [0],
    Type.Q5_1: [0, 2],
    Type.Q8_0: [0],
    Type.Q2_K: [80, 82],
    Type.Q3_K: [108],
    Type.Q4_K: [0, 2],
    Type.Q5_K: [0, 2],
    Type.Q6_K: [208],
    Type.IQ4_NL: [0],
    Type.IQ4_XS: [0],
    Type.MXFP4: [],
    Type.TQ1_0: [52],
    Type.TQ2_0: [64],
}
WEIGHTS = 512


def blocks(kind, rng):
    """Random blocks; the first has all bits set, the last none, apart from the scales."""
    block, size = GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (WEIGHTS // block, size), dtype=np.uint8)
    raw[0], raw[-1] = 255, 0
    for at in HALVES[kind]:
        scales = (rng.standard_normal(len(raw)) * 0.05).astype(np.float16)
        scales[-1] = np.float16(6e-8)  # the smallest
        raw[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
    if kind == Type.MXFP4:
        raw[:, 0] = np.resize([0, 1, 2, 120, 127, 130, 254], len(raw))
    return raw


def main():
    """Writes one file a type."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data/blocks")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for kind in HALVES:
        raw = blocks(kind, np.random.default_rng(int(kind)))
        values = dequantize(raw, kind).astype(np.float32).reshape(WEIGHTS)
        (args.out / f"{kind.name.lower()}.bin").write_bytes(raw.tobytes() + values.tobytes())


if __name__ == "__main__":
    main()
