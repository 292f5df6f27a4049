"""Perplexity of one model in every weight type, llmc beside llama.cpp (PyPI's llama-cpp-python): a Markdown table.

    tools/venv --peer tools/bench_quality.py SOURCE.gguf [--types q4_0,q4_k_m] [--windows 32] [--text FILE]

SOURCE is a file that llama.cpp's quantiser takes as float (F16, BF16 or F32; tools/derive_gguf.py makes one). For each
type, over the same windows of 512 ids whose first isn't scored:

    exact        llama.cpp on its own quantised file, dequantised to F32 (gguf-py): what the file says
    llama.cpp    llama.cpp on its own quantised file
    llmc         llmc on that file, with its default activations and cache; and how far above "exact" that is
    own          llmc on SOURCE compiled with --quantize TYPE: its own quantiser instead of llama.cpp's

Figures of quality do not depend on the machine. The text is Python's own language reference (pydoc_data.topics, of the
Python that runs this) unless --text names another.
"""

import argparse
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from gguf import GGUFReader

import derive_gguf

WINDOW = 512
FTYPES = {
    "q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q2_k": 10, "q3_k_s": 11, "q3_k_m": 12, "q3_k_l": 13,
    "q4_k_s": 14, "q4_k_m": 15, "q5_k_s": 16, "q5_k_m": 17, "q6_k": 18, "iq4_nl": 25, "iq4_xs": 30,
}  # fmt: skip


def quantize(lib, source, target, kind):
    """llama.cpp's own quantiser, no importance matrix."""
    params = lib.llama_model_quantize_default_params()
    params.ftype, params.nthread = FTYPES[kind], 2
    if lib.llama_model_quantize(str(source).encode(), str(target).encode(), params):
        sys.exit(f"llama.cpp could not quantise to {kind}")


def peer_losses(lib, path, windows, threads):
    """Negative log likelihoods of the scored ids, by llama.cpp."""
    model = lib.llama_model_load_from_file(str(path).encode(), lib.llama_model_default_params())
    if not model:
        sys.exit(f"llama.cpp could not load {path}")
    params = lib.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = WINDOW
    params.n_threads = params.n_threads_batch = threads
    context = lib.llama_init_from_model(model, params)
    vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    batch = lib.llama_batch_init(WINDOW, 0, 1)
    losses = []
    for ids in windows:
        lib.llama_memory_clear(lib.llama_get_memory(context), False)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = token, i, 1, 0, 1
        if lib.llama_decode(context, batch):
            sys.exit("llama_decode failed")
        rows = np.ctypeslib.as_array(lib.llama_get_logits(context), (len(ids), vocab))[:-1].astype(np.float64)
        top = rows.max(axis=1)
        sums = top + np.log(np.exp(rows - top[:, None]).sum(axis=1))
        losses.append(sums - rows[np.arange(len(ids) - 1), ids[1:]])
    lib.llama_batch_free(batch)
    lib.llama_free(context)
    lib.llama_model_free(model)
    return np.concatenate(losses)


def llmc_perplexity(args, model, text, *flags):
    """llmc's own figure over the windows of the text."""
    plan = pathlib.Path(args.scratch) / "model.plan"
    command = [args.llmc, "compile", model, "-o", plan, "--context", str(WINDOW), "--target-cpu", "native", *flags]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    done = subprocess.run(
        [args.run, plan, "--perplexity", text, "--json", "-t", str(args.threads)],
        check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return json.loads(done.stdout)["perplexity"]


def cut_text(args, text):
    """A file with the beginning of the text that is at most --windows windows of ids, and its windows."""
    path = pathlib.Path(args.scratch) / "text"
    want = args.windows * WINDOW

    def ids_of(n):
        path.write_text(text[:n])
        done = subprocess.run([args.llmc, "tokenize", args.source, "-f", path, "--no-special"], check=True, text=True, stdout=subprocess.PIPE)
        return [int(i) for i in done.stdout.strip().split(",")]

    low, high = 0, min(len(text), 8 * want)
    while high - low > 8:
        middle = (low + high) // 2
        low, high = (middle, high) if len(ids_of(middle)) <= want else (low, middle)
    ids = ids_of(low)
    return path, [ids[i : i + WINDOW] for i in range(0, len(ids) - 1, WINDOW)]


def main():
    """Prints the table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--types", default=",".join(FTYPES))
    parser.add_argument("--windows", type=int, default=32)
    parser.add_argument("--text", type=pathlib.Path)
    parser.add_argument("--llmc", default="build/release/llmc")
    parser.add_argument("--run", default="build/release/llmc-run")
    parser.add_argument("-t", "--threads", type=int, default=2)
    args = parser.parse_args()
    import llama_cpp as lib

    silent = lib.llama_log_callback(lambda level, text, data: None)
    lib.llama_log_set(silent, ctypes.c_void_p())
    lib.llama_backend_init()
    if args.text:
        text = args.text.read_text()
    else:
        from pydoc_data.topics import topics

        text = "\n".join(topics[name] for name in sorted(topics))
    with tempfile.TemporaryDirectory() as args.scratch:
        path, windows = cut_text(args, text)
        scored = sum(len(w) - 1 for w in windows)
        print(f"{args.source.name}: {scored} ids scored in {len(windows)} windows; llama-cpp-python {lib.__version__}")
        base = np.exp(peer_losses(lib, args.source, windows, args.threads).mean())
        print(f"source: llama.cpp {base:.3f}, llmc {llmc_perplexity(args, args.source, path):.3f}\n")
        print("| type | exact | llama.cpp | llmc | above exact | own |\n|---|---|---|---|---|---|", flush=True)
        for kind in args.types.split(","):
            quantized, plain = (pathlib.Path(args.scratch) / name for name in ("quantized.gguf", "plain.gguf"))
            quantize(lib, args.source, quantized, kind)
            derive_gguf.derive(quantized, plain, "f32", "f32")
            exact = np.exp(peer_losses(lib, plain, windows, args.threads).mean())
            peer = np.exp(peer_losses(lib, quantized, windows, args.threads).mean())
            ours = llmc_perplexity(args, quantized, path)
            own = llmc_perplexity(args, args.source, path, "--quantize", kind)
            print(f"| {kind} | {exact:.3f} | {peer:.3f} | {ours:.3f} | {100 * (ours / exact - 1):+.2f} % | {own:.3f} |", flush=True)
            quantized.unlink()
            plain.unlink()


if __name__ == "__main__":
    main()
