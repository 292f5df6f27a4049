"""Writes the references for Gemma 3 270M: what transformers answers in float64 on the GGUF file's dequantised weights.

    tools/venv tools/golden/gemma3.py $(tools/models gemma3) [--out tests/data/gemma3]

4 prompts with the 200 ids that follow each, and a window of 768 ids, more than the sliding window's 512
(reference_runs.py). Ids come from PyPI's tokenizers, as transformers makes them of the file's vocabulary and scores,
behind a BOS.
"""

import numpy as np
import torch
from gguf import GGUFReader
from transformers import AutoTokenizer, Gemma3ForCausalLM, Gemma3TextConfig

from exact import float64_everywhere, recompute_frequencies
from reference_runs import tensors, value, write

PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    'def fibonacci(n):\n    """Return the n-th Fibonacci number."""\n',
    "Les élèves de l'école étudient",
]
NAMES = {
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def build(reader):
    """Gemma3ForCausalLM in float64 with the file's dequantised weights."""
    a = "gemma3."
    key = value(reader, a + "attention.key_length")
    config = Gemma3TextConfig(
        hidden_size=value(reader, a + "embedding_length"),
        intermediate_size=value(reader, a + "feed_forward_length"),
        num_hidden_layers=value(reader, a + "block_count"),
        num_attention_heads=value(reader, a + "attention.head_count"),
        num_key_value_heads=value(reader, a + "attention.head_count_kv"),
        head_dim=key,
        query_pre_attn_scalar=key,
        rms_norm_eps=float(np.float32(value(reader, a + "attention.layer_norm_rms_epsilon"))),
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": value(reader, a + "rope.freq_base")},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
        sliding_window=value(reader, a + "attention.sliding_window"),
        max_position_embeddings=value(reader, a + "context_length"),
        vocab_size=len(value(reader, "tokenizer.ggml.tokens")),
        tie_word_embeddings=True,
    )
    config._attn_implementation = "eager"
    state = {}
    for name, data in tensors(reader):
        parts = name.split(".")
        data = torch.from_numpy(np.array(data, dtype=np.float64))
        if parts[-2].endswith("norm"):  # the file holds 1 + w
            data = data - 1
        if parts[0] == "blk":
            state[f"model.layers.{parts[1]}.{NAMES[parts[2]]}.weight"] = data
        else:
            state[{"token_embd": "model.embed_tokens.weight", "output_norm": "model.norm.weight"}[parts[0]]] = data
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    with torch.device("meta"):
        model = Gemma3ForCausalLM(config)
    model.load_state_dict(state, assign=True, strict=True)
    with float64_everywhere():  # a buffer that no file has
        model.model.embed_tokens.embed_scale = torch.tensor(config.hidden_size**0.5)
    recompute_frequencies(model)
    return model.eval()


def load(path):
    """Encoder, decoder and model of the file."""
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    bos = tokenizer.bos_token_id

    def encode(text):
        ids = tokenizer.encode(text, add_special_tokens=False)
        return [bos, *ids]

    return encode, tokenizer.decode, build(GGUFReader(path))


if __name__ == "__main__":
    write("gemma3", __doc__, load, PROMPTS, steps=200, windows=1, window=768)
