"""What models of GGUF files answer in transformers, in float64 on their dequantised weights: shared by smollm2.py, gemma3.py.

greedy.json   prompts: text, ids, the ids that follow by argmax, and each step's margin, first minus second logit
gpl3.json     teacher-forced over the first windows of ids of Debian's GPL-3 text, each from position 0: the ids, and
              per position the argmax and its margin (row i predicts id i + 1); the perplexity over all windows, first
              ids unscored
Both are for the file that is named in them by SHA-256.
"""

import argparse
import hashlib
import json
import pathlib

import numpy as np
import torch
from gguf import quants
from transformers import DynamicCache

from exact import float64_everywhere

TEXT = pathlib.Path("/usr/share/common-licenses/GPL-3")
CLOSE = 0.01  # a margin below which either id is right


def value(reader, key):
    """A metadata value of the file."""
    return reader.get_field(key).contents()


def tensors(reader):
    """(name, dequantised values) of each tensor, dims as [out, in]."""
    for tensor in reader.tensors:
        dims = [int(n) for n in reversed(tensor.shape)]
        yield tensor.name, quants.dequantize(tensor.data, tensor.tensor_type).reshape(dims)


def logits(model, ids, cache=None):
    """float64 [len(ids), vocab] of the ids behind those in the cache."""
    with float64_everywhere(), torch.no_grad():
        out = model(input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=cache is not None).logits[0]
    assert out.dtype == torch.float64
    return out


def top(rows):
    """(argmax, margin) lists of rows of logits."""
    two = torch.topk(rows, 2, dim=-1)
    return two.indices[:, 0].tolist(), [float(f"{m:.4g}") for m in (two.values[:, 0] - two.values[:, 1]).tolist()]


def greedy(model, ids, steps):
    """The ids that follow and the margins."""
    cache, out, margins, step = DynamicCache(config=model.config), [], [], ids
    for _ in range(steps):
        best, margin = top(logits(model, step, cache)[-1:])
        out += best
        margins += margin
        step = best
    return out, margins


def lines(fields):
    """JSON with one key a line, lists of dicts with one dict a line."""

    def text(v):
        if isinstance(v, list) and v and isinstance(v[0], dict):
            return "[\n" + ",\n".join("    " + json.dumps(d, ensure_ascii=False) for d in v) + "\n  ]"
        return json.dumps(v, ensure_ascii=False)

    return "{\n" + ",\n".join(f'  "{k}": {text(v)}' for k, v in fields.items()) + "\n}\n"


def write(name, doc, build, prompts, steps, windows, window):
    """Parses the command line and writes both files. build(reader): encode, decode and the model."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("gguf", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data" / name)
    parser.add_argument("--suffix", default="", help="put before .json, for files of other weight types")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    encode, decode, model = build(args.gguf)
    source = {"file_sha256": hashlib.sha256(args.gguf.read_bytes()).hexdigest()}
    args.out.mkdir(parents=True, exist_ok=True)

    runs = []
    for prompt in prompts:
        ids = encode(prompt)
        following, margins = greedy(model, ids, steps)
        runs.append({"text": prompt, "prompt": ids, "greedy": following, "margins": margins})
        close = next((i for i, m in enumerate(margins) if m < CLOSE), steps)
        print(f"{prompt!r} -> {decode(following)!r}; margin < {CLOSE} from step {close}", flush=True)
    (args.out / f"greedy{args.suffix}.json").write_text(lines({**source, "runs": runs}))

    data = TEXT.read_bytes()
    ids = encode(data.decode())
    scored, total = [], 0.0
    for i in range(windows):
        part = ids[i * window : (i + 1) * window]
        rows = logits(model, part)
        best, margins = top(rows)
        total -= torch.log_softmax(rows[:-1], -1)[torch.arange(window - 1), torch.tensor(part[1:])].sum().item()
        scored.append({"ids": part, "argmax": best, "margins": margins})
    perplexity = float(np.exp(total / (windows * (window - 1))))
    print(f"perplexity {perplexity:.6f}")
    (args.out / f"gpl3{args.suffix}.json").write_text(
        lines(
            {
                **source,
                "text": str(TEXT),
                "text_sha256": hashlib.sha256(data).hexdigest(),
                "text_ids": len(ids),
                "perplexity": perplexity,
                "windows": scored,
            }
        )
    )
