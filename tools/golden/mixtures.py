"""Writes which type llama.cpp's quantiser gives each matrix, for each of its mixtures.

    tools/venv --light tools/golden/mixtures.py [--out tests/data/mixtures.json]

Models of 16 layers with whole blocks of 256 and of 32 alone, one and four query heads to a key head, tied and not;
quantised by llama_model_quantize of llama-cpp-python (`tools/venv --peer`). JSON: a list of {query_group, tied, k,
mixtures: {NAME: {TENSOR: TYPE}}}, tensors by their GGUF names.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np
from gguf import GGUFReader, GGUFWriter

LAYERS = 16
FTYPES = {
    "q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q2_k": 10, "q3_k_s": 11, "q3_k_m": 12, "q3_k_l": 13,
    "q4_k_s": 14, "q4_k_m": 15, "q5_k_s": 16, "q5_k_m": 17, "q6_k": 18, "iq4_nl": 25, "iq4_xs": 30,
    "tq1_0": 36, "tq2_0": 37,
}
QUANTIZE = """
import sys, llama_cpp
for ftype, path in zip(sys.argv[2::2], sys.argv[3::2]):
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.nthread = int(ftype), 1
    if llama_cpp.llama_model_quantize(sys.argv[1].encode(), path.encode(), params):
        sys.exit(f"could not quantise to {ftype}")
"""


def write_model(path, query_group, tied, k):
    """A model whose matrices have few rows: only their rows' length counts."""
    d_head, heads = k // 4, 4
    kv = heads // query_group * d_head
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_block_count(LAYERS)
    writer.add_embedding_length(k)
    writer.add_feed_forward_length(k)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads // query_group)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(32)
    rng = np.random.default_rng(1)

    def matrix(name, rows):
        writer.add_tensor(name, (rng.standard_normal((rows, k)) * 0.05).astype(np.float32))

    matrix("token_embd.weight", 32)
    writer.add_tensor("output_norm.weight", np.ones(k, np.float32))
    if not tied:
        matrix("output.weight", 32)
    for i in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
            matrix(f"blk.{i}.{name}.weight", kv if name in ("attn_k", "attn_v") else k)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{i}.{name}.weight", np.ones(k, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data/mixtures.json")
    args = parser.parse_args()
    peer = subprocess.run([root / "tools/venv", "--peer", "--path"], check=True, text=True, stdout=subprocess.PIPE)
    cases = []
    with tempfile.TemporaryDirectory() as scratch:
        for query_group, tied, k in ((1, True, 256), (4, False, 256), (4, True, 64)):
            source = pathlib.Path(scratch) / "source.gguf"
            write_model(source, query_group, tied, k)
            files = {name: f"{scratch}/{name}.gguf" for name in FTYPES}
            pairs = [text for name, path in files.items() for text in (str(FTYPES[name]), path)]
            python = peer.stdout.strip() + "/bin/python"
            subprocess.run([python, "-c", QUANTIZE, source, *pairs], check=True, stderr=subprocess.DEVNULL)
            mixtures = {
                name: {t.name: t.tensor_type.name.lower() for t in GGUFReader(path).tensors if len(t.shape) > 1}
                for name, path in files.items()
            }
            cases.append({"query_group": query_group, "tied": tied, "k": k, "mixtures": mixtures})
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    args.out.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
