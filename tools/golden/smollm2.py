"""Writes the references for SmolLM2-135M: what transformers answers in float64 on the GGUF file's dequantised weights.

    tools/venv tools/golden/smollm2.py $(tools/models smollm2) [--out tests/data/smollm2] [--suffix .q8_0]

greedy.json   12 prompts: text, ids, the 48 ids that follow by argmax, and each step's margin, first minus second logit
gpl3.json     teacher-forced over the first 4 windows of 512 ids of Debian's GPL-3 text, each from position 0: the ids,
              and per position the argmax and its margin (row i predicts id i + 1); the perplexity over all windows,
              first ids unscored
Both are for the file that is named in them by SHA-256. Ids come from PyPI's tokenizers over the file's own vocabulary
and merges, no BOS.
"""

import argparse
import hashlib
import json
import pathlib

import numpy as np
import torch
from gguf import GGUFReader, quants
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from exact import float64_everywhere, recompute_frequencies

PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    "The three laws of motion state that",
    'def fibonacci(n):\n    """Return the n-th Fibonacci number."""\n',
    "Dear Sir or Madam,\n\nI am writing to",
    "Water boils at 100 degrees Celsius because",
    "Q: What is 12 + 30?\nA:",
    "To make a good cup of tea, first",
    "The main difference between a list and a tuple in Python is",
    "In 1969, the first humans",
    "<|im_start|>user\nGive me three colours.<|im_end|>\n<|im_start|>assistant\n",
    "Les élèves de l'école étudient",
]
STEPS = 48
TEXT = pathlib.Path("/usr/share/common-licenses/GPL-3")
WINDOWS, WINDOW = 4, 512
CONTROL = 3  # token_type of tokens that text cannot spell by merging


def value(reader, key):
    """A metadata value of the file."""
    return reader.get_field(key).contents()


def tokenizer(reader):
    """SmolLM2's tokenizer from the file: single digits, then GPT-2's byte-level BPE; control tokens match in text."""
    tokens, kinds = value(reader, "tokenizer.ggml.tokens"), value(reader, "tokenizer.ggml.token_type")
    merges = [tuple(m.split(" ")) for m in value(reader, "tokenizer.ggml.merges")]
    out = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    out.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    out.decoder = decoders.ByteLevel()
    out.add_special_tokens(
        [AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, kinds) if k == CONTROL]
    )
    return out


def half_split(rows, heads):
    """Rows of Q or K as transformers has them: GGUF's llama files hold the two halves of each head interleaved."""
    return rows.reshape(heads, -1, 2, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)


def build(reader):
    """LlamaForCausalLM in float64 with the file's dequantised weights."""
    a = "llama."
    heads, kv_heads = value(reader, a + "attention.head_count"), value(reader, a + "attention.head_count_kv")
    config = LlamaConfig(
        hidden_size=value(reader, a + "embedding_length"),
        intermediate_size=value(reader, a + "feed_forward_length"),
        num_hidden_layers=value(reader, a + "block_count"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        rms_norm_eps=float(np.float32(value(reader, a + "attention.layer_norm_rms_epsilon"))),
        rope_theta=value(reader, a + "rope.freq_base"),
        max_position_embeddings=value(reader, a + "context_length"),
        vocab_size=len(value(reader, "tokenizer.ggml.tokens")),
        tie_word_embeddings=True,
    )
    config._attn_implementation = "eager"
    names = {
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    state = {}
    for tensor in reader.tensors:
        data = quants.dequantize(tensor.data, tensor.tensor_type).reshape([int(n) for n in reversed(tensor.shape)])
        parts = tensor.name.split(".")
        if parts[0] == "blk":
            if parts[2] in ("attn_q", "attn_k"):
                data = half_split(data, heads if parts[2] == "attn_q" else kv_heads)
            name = f"model.layers.{parts[1]}.{names[parts[2]]}.weight"
        else:
            name = {"token_embd": "model.embed_tokens.weight", "output_norm": "model.norm.weight"}[parts[0]]
        state[name] = torch.from_numpy(np.array(data, dtype=np.float64))
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model.load_state_dict(state, assign=True, strict=True)
    recompute_frequencies(model)
    return model.eval()


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


def greedy(model, ids):
    """The ids that follow and the margins."""
    cache, out, margins, step = DynamicCache(), [], [], ids
    for _ in range(STEPS):
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


def main():
    """Parses the command line and writes both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("gguf", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data/smollm2")
    parser.add_argument("--suffix", default="", help="put before .json, for files of other weight types")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    reader = GGUFReader(args.gguf)
    encoder, model = tokenizer(reader), build(reader)
    source = {"file_sha256": hashlib.sha256(args.gguf.read_bytes()).hexdigest()}
    args.out.mkdir(parents=True, exist_ok=True)

    runs = []
    for prompt in PROMPTS:
        ids = encoder.encode(prompt).ids
        following, margins = greedy(model, ids)
        runs.append({"text": prompt, "prompt": ids, "greedy": following, "margins": margins})
        close = next((i for i, m in enumerate(margins) if m < 0.01), STEPS)
        print(
            f"{prompt!r} -> {encoder.decode(following, skip_special_tokens=False)!r}; margin < 0.01 from step {close}",
            flush=True,
        )
    (args.out / f"greedy{args.suffix}.json").write_text(lines({**source, "runs": runs}))

    data = TEXT.read_bytes()
    ids = encoder.encode(data.decode()).ids
    windows, total = [], 0.0
    for i in range(WINDOWS):
        window = ids[i * WINDOW : (i + 1) * WINDOW]
        rows = logits(model, window)
        best, margins = top(rows)
        total -= torch.log_softmax(rows[:-1], -1)[torch.arange(WINDOW - 1), torch.tensor(window[1:])].sum().item()
        windows.append({"ids": window, "argmax": best, "margins": margins})
    perplexity = float(np.exp(total / (WINDOWS * (WINDOW - 1))))
    print(f"perplexity {perplexity:.6f}")
    (args.out / f"gpl3{args.suffix}.json").write_text(
        lines(
            {
                **source,
                "text": str(TEXT),
                "text_sha256": hashlib.sha256(data).hexdigest(),
                "text_ids": len(ids),
                "perplexity": perplexity,
                "windows": windows,
            }
        )
    )


if __name__ == "__main__":
    main()
