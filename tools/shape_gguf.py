"""Writes a GGUF file of a model's shape with random blocks for weights: for speed, at sizes that nobody wants to fetch.

    tools/venv --light tools/shape_gguf.py 1b|3b|7b OUT.gguf [--type q4_0]

The shapes are Llama-3.2-1B's, Llama-3.2-3B's and Llama-2-7B's. Scales keep activations near 1, so nothing overflows;
there is no tokenizer. The token embedding is Q8_0 in the 4- and 5-bit types, else of the type itself; q4_k_m and
q5_k_m choose as llama-quantize does. The two small shapes have no head of their own, like the models. OUT is written
under a temporary name and renamed.
"""

import argparse
import os
import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter

# layers, width, feed-forward, heads, kv heads, vocabulary, context, own head
SHAPES = {
    "1b": (16, 2048, 8192, 32, 8, 128256, 131072, False),
    "3b": (28, 3072, 8192, 24, 8, 128256, 131072, False),
    "7b": (32, 4096, 11008, 32, 32, 32000, 16384, True),
}
# Where a block has f16 numbers (byte offset), and what they are times 1 / sqrt(k): codes of unit variance or so.
SCALES = {
    "q4_0": {0: 0.2}, "q4_1": {0: 0.2, 2: -1.5}, "q5_0": {0: 0.1}, "q5_1": {0: 0.1, 2: -1.5}, "q8_0": {0: 0.014},
    "q2_k": {80: 0.06, 82: 0.1}, "q3_k": {108: 0.03}, "q4_k": {0: 0.007, 2: 0.05}, "q5_k": {0: 0.004, 2: 0.06},
    "q6_k": {208: 0.0007}, "iq4_nl": {0: 0.015}, "iq4_xs": {0: 0.0008},
}  # fmt: skip
MIXTURES = {"q4_k_m": "q4_k", "q5_k_m": "q5_k"}
POOL = 1 << 20  # random blocks that matrices are cut out of


def random_matrix(rng, pools, kind, rows, k):
    """Blocks of a matrix [rows, k], as the writer wants them: u8 [rows, bytes], or floats."""
    if kind in ("f32", "f16", "bf16"):
        values = rng.standard_normal(POOL, dtype=np.float32)
        values = np.resize(values, rows * k).reshape(rows, k) * np.float32(k**-0.5)
        if kind == "bf16":
            return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        return values.astype(np.float16) if kind == "f16" else values
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind.upper()]]
    if kind not in pools:
        pools[kind] = rng.integers(0, 256, (POOL // block * 32, size), dtype=np.uint8)
    count = rows * k // block
    blocks = np.take(pools[kind], np.arange(count) + rng.integers(len(pools[kind])), axis=0, mode="wrap")
    for at, scale in SCALES[kind].items():
        blocks[:, at : at + 2] = np.array([scale * k**-0.5], np.float16).view(np.uint8)
    return blocks.reshape(rows, -1)


def more_bits(layer, layers):
    """Whether a mixture gives the layer's attn_v and ffn_down q6_k (llama.cpp, use_more_bits)."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def write_shape(shape, kind, out):
    """Writes `out`: a Llama of the shape with matrices of type `kind`."""
    layers, width, inner, heads, kv_heads, vocab, context, own_head = SHAPES[shape]
    rng, pools = np.random.default_rng(1), {}
    part = out.with_name(f"{out.name}.part.{os.getpid()}")
    writer = GGUFWriter(part, "llama", use_temp_file=False)
    writer.add_name(f"random {shape}")
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(width // heads)
    writer.add_rope_freq_base(500000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(vocab)
    writer.add_tokenizer_model("none")
    embedding = "q8_0" if kind[:2] in ("q2", "q3", "q4", "q5", "iq", "mx") else kind
    kv = width // heads * kv_heads
    base = MIXTURES.get(kind, kind)
    head = "q6_k" if kind in MIXTURES else embedding
    tensors = [("token_embd.weight", base if own_head and kind in MIXTURES else head, vocab, width)]
    for i in range(layers):
        for name, rows, k in (("attn_q", width, width), ("attn_k", kv, width), ("attn_v", kv, width), ("attn_output", width, width),
                              ("ffn_gate", inner, width), ("ffn_up", inner, width), ("ffn_down", width, inner)):  # fmt: skip
            more = kind in MIXTURES and name in ("attn_v", "ffn_down") and more_bits(i, layers)
            tensors.append((f"blk.{i}.{name}.weight", "q6_k" if more else base, rows, k))
        tensors += [(f"blk.{i}.{name}.weight", "gain", width, 1) for name in ("attn_norm", "ffn_norm")]
    tensors.append(("output_norm.weight", "gain", width, 1))
    if own_head:
        tensors.append(("output.weight", head, vocab, width))
    try:
        shapes = {}
        for name, of, rows, k in tensors:
            if of == "gain":
                writer.add_tensor_info(name, [rows], np.dtype(np.float32), rows * 4)
                continue
            block, size = GGML_QUANT_SIZES[GGMLQuantizationType[of.upper()]]
            shapes[name] = [rows, k // block * size]
            writer.add_tensor_info(name, shapes[name], np.dtype(np.uint8), rows * k // block * size, raw_dtype=GGMLQuantizationType[of.upper()])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for _, of, rows, k in tensors:
            data = np.ones(rows, np.float32) if of == "gain" else random_matrix(rng, pools, of, rows, k)
            writer.write_tensor_data(data)
        writer.close()
        part.rename(out)
    finally:
        part.unlink(missing_ok=True)


def main():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--type", choices=["f32", "f16", "bf16", *SCALES, *MIXTURES], default="q4_0")
    args = parser.parse_args()
    write_shape(args.shape, args.type, args.out)


if __name__ == "__main__":
    main()
