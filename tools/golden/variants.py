"""The golden models: one entry per variant, as its config.json spells it, plus how to store it.

Every entry exists for a reason, given in `why`. Sizes are tiny: a model is 20 to 130 KB. Keys that no family needs
for the arithmetic (`use_cache`, `initializer_range`, ...) are written too, since real files carry them.
"""

from dataclasses import dataclass, field

# What each family writes besides the sizes, as its published config files do.
FAMILIES = {
    "llama": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "rms_norm_eps": 1e-05, "pretraining_tp": 1},
    "mistral": {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "rms_norm_eps": 1e-05},
    "qwen2": {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "rms_norm_eps": 1e-06},
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "rms_norm_eps": 1e-06},
}
COMMON = {
    "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "initializer_range": 0.02,
    "max_position_embeddings": 512, "use_cache": True,
}


@dataclass
class Variant:
    """One golden model. `spelling` is the major version of transformers whose key names config.json uses."""

    name: str
    why: str
    family: str
    sizes: dict  # hidden, ffn, layers, heads, kv, vocab
    keys: dict = field(default_factory=dict)  # further config keys, spelt for `spelling`
    spelling: int = 4
    dtype: str = "float32"  # of the matrices
    norm_dtype: str = ""  # of the vectors, where it differs
    shards: int = 1
    stray_head: bool = False  # an lm_head in the file although the config ties it
    bias_scale: float = 0.3
    qk_bias: float = 0.0  # added to every q and k bias
    prompt: int = 37  # prompt length
    rows: list = field(default_factory=list)  # positions whose logits are kept; all when empty
    continue_by: int = 12  # greedy tokens


def size(hidden=32, ffn=64, layers=2, heads=4, kv=2, vocab=96):
    """Sizes of a variant, by their short names."""
    return dict(hidden=hidden, ffn=ffn, layers=layers, heads=heads, kv=kv, vocab=vocab)


VARIANTS = [
    Variant("llama-mha", "as many KV heads as heads; no rope key at all, so theta is the class default 10000", "llama",
            size(kv=4), {"tie_word_embeddings": False, "rope_scaling": None}),
    Variant("llama-gqa2", "two heads per KV head; tied head; top-level theta; F16", "llama",
            size(), {"tie_word_embeddings": True, "rope_theta": 500000.0}, dtype="float16"),
    Variant("llama-gqa3", "three heads per KV head; BF16; two shards", "llama",
            size(hidden=48, heads=6, kv=2, ffn=96), {"tie_word_embeddings": False, "rope_theta": 10000.0},
            dtype="bfloat16", shards=2),
    Variant("llama-gqa4", "four heads per KV head; newer spelling", "llama",
            size(hidden=64, heads=8, kv=2, ffn=96),
            {"tie_word_embeddings": False, "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0}},
            spelling=5, dtype="float16"),
    Variant("llama-mqa", "one KV head for all; eps 1e-6", "llama",
            size(kv=1), {"tie_word_embeddings": False, "rope_theta": 10000.0, "rms_norm_eps": 1e-06}),
    Variant("llama-odd", "sizes that fill no tile: hidden 40, FFN 52, vocabulary 97, head of 10", "llama",
            size(hidden=40, ffn=52, vocab=97), {"tie_word_embeddings": False, "rope_theta": 10000.0}),
    Variant("llama-head-dim", "head_dim 16 where hidden/heads is 10", "llama",
            size(hidden=40, ffn=72), {"tie_word_embeddings": False, "head_dim": 16, "rope_theta": 10000.0}),
    Variant("llama-bias", "attention_bias (q, k, v, o) and mlp_bias", "llama",
            size(), {"tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True, "rope_theta": 10000.0}),
    Variant("llama-one-layer", "one layer: nothing folds", "llama",
            size(layers=1), {"tie_word_embeddings": False, "rope_theta": 10000.0}, dtype="bfloat16"),
    Variant("llama-deep", "five layers: folds", "llama",
            size(layers=5, ffn=40), {"tie_word_embeddings": False, "rope_theta": 10000.0}, dtype="bfloat16"),
    Variant("llama-tied-own-head", "tied by the config, yet the file has another head: the file's counts", "llama",
            size(hidden=16, ffn=24, layers=1, heads=2, kv=1, vocab=33),
            {"tie_word_embeddings": True, "rope_theta": 10000.0}, stray_head=True),
    Variant("llama-mixed", "BF16 matrices with F32 norms", "llama",
            size(), {"tie_word_embeddings": False, "rope_theta": 10000.0}, dtype="bfloat16", norm_dtype="float32"),
    Variant("llama-linear", "rope linear, by its old key `type`", "llama",
            size(), {"tie_word_embeddings": False, "rope_theta": 10000.0,
                     "rope_scaling": {"type": "linear", "factor": 4.0}}),
    Variant("llama-llama3", "rope llama3 with unchanged, ramped and divided pairs in a head of 16", "llama",
            size(heads=2, kv=1),
            {"tie_word_embeddings": True,
             "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                                 "high_freq_factor": 4.0, "original_max_position_embeddings": 64}}, spelling=5),
    Variant("llama-yarn", "rope yarn, by its old key `type`", "llama",
            size(heads=2, kv=1),
            {"tie_word_embeddings": False, "rope_theta": 10000.0,
             "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}}),
    Variant("llama-long", "rope llama3 at positions up to 3000; theta given twice, the nested one counts", "llama",
            size(heads=2, kv=1),
            {"tie_word_embeddings": False, "max_position_embeddings": 4096, "rope_theta": 10000.0,
             "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0,
                                 "high_freq_factor": 4.0, "original_max_position_embeddings": 1024}},
            spelling=5, prompt=3001, rows=[0, 255, 256, 257, 1023, 1024, 2047, 2999, 3000], continue_by=0),
    Variant("mistral-window8", "sliding window of 8; KV heads halved", "mistral",
            size(ffn=56), {"tie_word_embeddings": False, "rope_theta": 10000.0, "sliding_window": 8}),
    Variant("mistral-window3", "sliding window of 3 in one layer: position 4 sees ids 2, 3 and 4 alone", "mistral",
            size(layers=1),
            {"tie_word_embeddings": False, "sliding_window": 3,
             "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}}, spelling=5, dtype="bfloat16"),
    Variant("mistral-full", "no window (null); head_dim 16 where hidden/heads is 8; sharded", "mistral",
            size(), {"tie_word_embeddings": False, "rope_theta": 1000000.0, "sliding_window": None, "head_dim": 16},
            dtype="float16", shards=3),
    Variant("qwen2-bias", "q, k, v biased, o not, with no key that says so", "qwen2",
            size(), {"tie_word_embeddings": False, "rope_theta": 1000000.0, "sliding_window": 64,
                     "use_sliding_window": False, "max_window_layers": 1}),
    Variant("qwen2-gqa7", "seven heads per KV head; tied; sharded; BF16", "qwen2",
            size(hidden=56, heads=7, kv=1, ffn=64),
            {"tie_word_embeddings": True, "rope_theta": 1000000.0, "sliding_window": 64, "use_sliding_window": False,
             "max_window_layers": 1},
            dtype="bfloat16", shards=2),
    Variant("qwen2-window", "use_sliding_window: layers from max_window_layers on have the window", "qwen2",
            size(layers=3, ffn=40), {"tie_word_embeddings": False, "rope_theta": 10000.0, "sliding_window": 6,
                                     "use_sliding_window": True, "max_window_layers": 1}, dtype="float16"),
    Variant("qwen2-yarn", "rope yarn, newer spelling, with its own betas and attention factor", "qwen2",
            size(heads=2, kv=1),
            {"tie_word_embeddings": False, "use_sliding_window": False, "sliding_window": None, "max_window_layers": 2,
             "layer_types": ["full_attention", "full_attention"],
             "rope_parameters": {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 8.0, "beta_fast": 16.0,
                                 "beta_slow": 2.0, "attention_factor": 1.25, "original_max_position_embeddings": 64}},
            spelling=5),
    Variant("qwen2-bias300", "q and k biases near 300: scores beyond f16's range must not overflow", "qwen2",
            size(layers=1), {"tie_word_embeddings": False, "rope_theta": 10000.0, "use_sliding_window": False,
                             "sliding_window": 64, "max_window_layers": 1}, qk_bias=300.0),
    Variant("qwen3-norm", "QK-norm; head_dim 16 where hidden/heads is 8; tied", "qwen3",
            size(), {"tie_word_embeddings": True, "rope_theta": 1000000.0, "head_dim": 16, "attention_bias": False,
                     "sliding_window": None, "use_sliding_window": False, "max_window_layers": 2,
                     "rope_scaling": None}),
    Variant("qwen3-bias", "QK-norm with attention_bias; newer spelling; sharded", "qwen3",
            size(),
            {"tie_word_embeddings": False, "head_dim": 8, "attention_bias": True, "sliding_window": None,
             "use_sliding_window": False, "max_window_layers": 2, "layer_types": ["full_attention", "full_attention"],
             "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}},
            spelling=5, dtype="float16", shards=2),
    Variant("qwen3-bf16", "BF16, as many KV heads as heads, head_dim by the class default 128", "qwen3",
            size(layers=1, heads=2, kv=2),
            {"tie_word_embeddings": False, "rope_theta": 1000000.0, "attention_bias": False, "sliding_window": None,
             "use_sliding_window": False, "max_window_layers": 1},
            dtype="bfloat16"),
]


def config(variant):
    """The config.json of a variant as a dict, in its spelling."""
    sizes = variant.sizes
    out = dict(FAMILIES[variant.family])
    out.update(COMMON)
    out.update({
        "hidden_size": sizes["hidden"], "intermediate_size": sizes["ffn"], "num_hidden_layers": sizes["layers"],
        "num_attention_heads": sizes["heads"], "num_key_value_heads": sizes["kv"], "vocab_size": sizes["vocab"],
    })
    out.update(variant.keys)
    out["torch_dtype" if variant.spelling == 4 else "dtype"] = variant.dtype
    out["transformers_version"] = "4.51.3" if variant.spelling == 4 else "5.0.0"
    return dict(sorted(out.items()))
