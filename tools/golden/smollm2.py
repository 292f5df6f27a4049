"""Writes the references for SmolLM2-135M: what transformers answers in float64 on the GGUF file's dequantised weights.

    tools/venv tools/golden/smollm2.py $(tools/models smollm2) [--out tests/data/smollm2] [--suffix .q8_0]

12 prompts with the 48 ids that follow each, and 4 windows of 512 ids (reference_runs.py). Ids come from PyPI's tokenizers
over the file's own vocabulary and merges, no BOS.
"""

import numpy as np
import torch
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from exact import recompute_frequencies
from reference_runs import tensors, value, write

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
CONTROL = 3  # token_type of tokens that text cannot spell by merging


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
    for name, data in tensors(reader):
        parts = name.split(".")
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


def load(path):
    """Encoder, decoder and model of the file."""
    reader = GGUFReader(path)
    encoder = tokenizer(reader)
    return (
        lambda text: encoder.encode(text).ids,
        lambda ids: encoder.decode(ids, skip_special_tokens=False),
        build(reader),
    )


if __name__ == "__main__":
    write("smollm2", __doc__, load, PROMPTS, steps=48, windows=4, window=512)
