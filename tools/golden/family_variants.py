"""The variants of families.py: every switch that changes arithmetic is on in one of a family's; both spellings."""

import dataclasses


@dataclasses.dataclass
class Variant:
    """One golden model."""

    name: str
    why: str
    architecture: str
    config: dict
    spelling: int = 4  # of the config: as transformers 4 or 5 writes it
    dtype: str = "bfloat16"
    gguf: str = ""  # the architecture's name in GGUF files; "": no such golden
    gain_offset: float = 0.0  # what the class adds to its gains
    transposed: bool = False  # matrices are stored [in, out]

    @property
    def tied(self):
        """Whether the head is the embedding; as the class has it where the config does not say."""
        return self.config.get("tie_word_embeddings", False)

def sizes(model_type, **more):
    """A config of small sizes: 2 layers, 4 heads, 2 KV heads."""
    out = {
        "model_type": model_type, "vocab_size": 48, "hidden_size": 32, "intermediate_size": 36, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": False,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
    }
    out.update(more)
    return {k: v for k, v in out.items() if v is not ...}


def v4(theta, **scaling):
    """Rope keys as transformers 4 spells them."""
    return {"rope_theta": theta, "rope_scaling": scaling or None}


def v5(theta, **more):
    """Rope keys as transformers 5 spells them."""
    return {"rope_parameters": {"rope_type": "default", "rope_theta": theta, **more}}


GEMMA = {"gain_offset": 1.0}
VARIANTS = [
    Variant("phi3-plain", "fused q|k|v and gate|up; no window", "Phi3ForCausalLM",
            sizes("phi3", rms_norm_eps=1e-5, sliding_window=None, **v4(10000.0)), gguf="phi3"),
    Variant("phi3-window", "a window of 7 in every layer; three quarters of a head rotate; tied", "Phi3ForCausalLM",
            sizes("phi3", rms_norm_eps=1e-5, sliding_window=7, tie_word_embeddings=True, num_key_value_heads=1,
                  **v5(10000.0, partial_rotary_factor=0.75)), spelling=5),
    Variant("phi3-longrope", "longrope within the original length: the short factors, scaled cosines", "Phi3ForCausalLM",
            sizes("phi3", rms_norm_eps=1e-5, sliding_window=None, original_max_position_embeddings=48, max_position_embeddings=192,
                  **v4(10000.0, type="longrope", short_factor=[1.0, 1.25, 2.5, 4.0], long_factor=[2.0, 5.0, 9.0, 16.0]))),
    Variant("olmo2-post", "norms behind the parts; q and k normed over all heads", "Olmo2ForCausalLM",
            sizes("olmo2", rms_norm_eps=1e-5, **v4(500000.0)), gguf="olmo2"),
    Variant("olmo2-bias", "attention_bias; one KV head; tied", "Olmo2ForCausalLM",
            sizes("olmo2", rms_norm_eps=1e-5, attention_bias=True, num_key_value_heads=1, tie_word_embeddings=True,
                  **v5(10000.0)), spelling=5),
    Variant("olmo3-window", "windows by the class's pattern, old keys: theta and yarn of the full layers alone",
            "Olmo3ForCausalLM",
            sizes("olmo3", rms_norm_eps=1e-5, sliding_window=6, num_hidden_layers=4, intermediate_size=24,
                  **v4(10000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=32.0,
                       beta_slow=1.0, attention_factor=1.1))),
    Variant("olmo3-types", "windows by layer_types, an own table for each type", "Olmo3ForCausalLM",
            sizes("olmo3", rms_norm_eps=1e-5, sliding_window=9, num_hidden_layers=3, intermediate_size=24,
                  layer_types=["full_attention", "sliding_attention", "full_attention"],
                  rope_parameters={"full_attention": {"rope_type": "linear", "rope_theta": 20000.0, "factor": 3.0},
                                   "sliding_attention": {"rope_type": "default", "rope_theta": 700.0}}), spelling=5),
    Variant("smollm3-nope", "every second layer without positions, by the list; tied", "SmolLM3ForCausalLM",
            sizes("smollm3", no_rope_layers=[1, 0, 1], num_hidden_layers=3, intermediate_size=24, tie_word_embeddings=True, use_sliding_window=False, **v4(5000.0))),
    Variant("smollm3-interval", "the class's pattern: the fourth layer without positions; biases", "SmolLM3ForCausalLM",
            sizes("smollm3", num_hidden_layers=4, intermediate_size=24, attention_bias=True, mlp_bias=False, **v5(2000000.0)),
            spelling=5, gguf="smollm3"),
    Variant("exaone4-plain", "norms behind the parts, QK-norm, no windows: positions everywhere", "Exaone4ForCausalLM",
            sizes("exaone4", rms_norm_eps=1e-5, sliding_window=None, head_dim=8, layer_types=["full_attention"] * 2, **v4(10000.0)), gguf="exaone4"),
    Variant("exaone4-window", "full layers without positions between windowed ones", "Exaone4ForCausalLM",
            sizes("exaone4", rms_norm_eps=1e-5, sliding_window=5, sliding_window_pattern=2, head_dim=8,
                  num_hidden_layers=3, intermediate_size=24,
                  layer_types=["sliding_attention", "full_attention", "sliding_attention"], **v5(10000.0)), spelling=5),
    Variant("glm-partial", "half of a head rotates, neighbours as pairs; q, k, v biased; gate|up fused", "GlmForCausalLM",
            sizes("glm", head_dim=8, rms_norm_eps=1.5625e-7, attention_bias=True, partial_rotary_factor=0.5, **v4(10000.0))),
    Variant("glm-nobias", "three quarters rotate; no bias", "GlmForCausalLM",
            sizes("glm", head_dim=16, num_hidden_layers=2, rms_norm_eps=1e-5, attention_bias=False, tie_word_embeddings=True,
                  **v5(10000.0, partial_rotary_factor=0.75)), spelling=5),
    Variant("glm4-sandwich", "norms in front of and behind each part", "Glm4ForCausalLM",
            sizes("glm4", head_dim=8, rms_norm_eps=1e-5, attention_bias=True, partial_rotary_factor=0.5, **v4(10000.0)), gguf="glm4"),
    Variant("glm4-plain", "no bias; tied", "Glm4ForCausalLM",
            sizes("glm4", head_dim=8, rms_norm_eps=1e-6, attention_bias=False, tie_word_embeddings=True,
                  **v5(5000.0, partial_rotary_factor=0.5)), spelling=5),
    Variant("hunyuan-alpha", "QK-norm behind positions; alpha stretches theta", "HunYuanDenseV1ForCausalLM",
            sizes("hunyuan_v1_dense", head_dim=8, rms_norm_eps=1e-5,
                  **v4(10000.0, type="dynamic", alpha=50.0, factor=1.0, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0)),
            gguf="hunyuan-dense"),
    Variant("hunyuan-bias", "biases; no stretching; tied", "HunYuanDenseV1ForCausalLM",
            sizes("hunyuan_v1_dense", head_dim=8, rms_norm_eps=1e-5, attention_bias=True, tie_word_embeddings=True, **v5(10000.0)),
            spelling=5),
    Variant("ernie-plain", "neighbours as pairs; tied", "Ernie4_5ForCausalLM",
            sizes("ernie4_5", head_dim=8, rms_norm_eps=1e-5, tie_word_embeddings=True, use_bias=False, **v4(500000.0)), gguf="ernie4_5"),
    Variant("ernie-bias", "biases everywhere", "Ernie4_5ForCausalLM",
            sizes("ernie4_5", head_dim=12, num_hidden_layers=2, rms_norm_eps=1e-5, use_bias=True, **v5(10000.0)), spelling=5),
    Variant("seed-qkv", "q, k, v biased, o not", "SeedOssForCausalLM",
            sizes("seed_oss", head_dim=8, attention_bias=True, attention_out_bias=False, **v4(10000.0)), gguf="seed_oss"),
    Variant("seed-out", "o biased, q, k, v not", "SeedOssForCausalLM",
            sizes("seed_oss", head_dim=12, num_hidden_layers=2, attention_bias=False, attention_out_bias=True, mlp_bias=True,
                  **v5(10000.0)), spelling=5),
    Variant("gemma-tied", "gains of 1 + w, embedding times sqrt(d); tied", "GemmaForCausalLM",
            sizes("gemma", head_dim=12, hidden_act="gelu_pytorch_tanh", tie_word_embeddings=True, num_key_value_heads=1, **v4(10000.0)),
            gguf="gemma", **GEMMA),
    Variant("gemma-bias", "attention_bias; one kv head a head; no head_dim", "GemmaForCausalLM",
            sizes("gemma", head_dim=8, num_key_value_heads=4, hidden_activation="gelu_pytorch_tanh", attention_bias=True,
                  tie_word_embeddings=True, **v5(10000.0)), spelling=5, **GEMMA),
    Variant("gemma2-caps", "four norms, caps on scores and logits, windows on even layers", "Gemma2ForCausalLM",
            sizes("gemma2", head_dim=8, query_pre_attn_scalar=20, sliding_window=6, attn_logit_softcapping=4.0,
                  final_logit_softcapping=6.0, tie_word_embeddings=True, hidden_activation="gelu_pytorch_tanh", **v4(10000.0)), **GEMMA),
    Variant("gemma2-types", "no caps; windows by layer_types", "Gemma2ForCausalLM",
            sizes("gemma2", head_dim=8, query_pre_attn_scalar=8, sliding_window=7, attn_logit_softcapping=None,
                  final_logit_softcapping=None, tie_word_embeddings=True,
                  num_hidden_layers=3, intermediate_size=24,
                  layer_types=["full_attention", "sliding_attention", "full_attention"], **v5(5000.0)), spelling=5, **GEMMA),
    Variant("gemma2-gguf", "as the format can say it: scale by the head, windows on even layers", "Gemma2ForCausalLM",
            sizes("gemma2", head_dim=8, query_pre_attn_scalar=8, sliding_window=6, attn_logit_softcapping=3.0,
                  final_logit_softcapping=5.0, tie_word_embeddings=True, **v4(10000.0)), gguf="gemma2", **GEMMA),
    Variant("gemma3-old", "QK-norm, two ropes by old keys, the full one stretched", "Gemma3ForCausalLM",
            sizes("gemma3_text", head_dim=8, num_hidden_layers=3, intermediate_size=24, query_pre_attn_scalar=12, sliding_window=6, sliding_window_pattern=3,
                  layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                  tie_word_embeddings=True, rope_local_base_freq=700.0, **v4(20000.0, rope_type="linear", factor=4.0)), **GEMMA),
    Variant("gemma3-new", "two ropes by new keys; a cap on the logits", "Gemma3ForCausalLM",
            sizes("gemma3_text", head_dim=8, query_pre_attn_scalar=8, sliding_window=5, final_logit_softcapping=5.0,
                  num_hidden_layers=3, intermediate_size=24,
                  layer_types=["full_attention", "sliding_attention", "sliding_attention"], tie_word_embeddings=True,
                  rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 9000.0},
                                   "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}}), spelling=5, **GEMMA),
    Variant("gemma3-six", "the class's pattern: the sixth layer sees all", "Gemma3ForCausalLM",
            sizes("gemma3_text", hidden_size=16, intermediate_size=24, head_dim=8, num_attention_heads=2, num_key_value_heads=1,
                  num_hidden_layers=7, query_pre_attn_scalar=8, sliding_window=6, tie_word_embeddings=True,
                  rope_local_base_freq=10000.0, **v4(1000000.0)), gguf="gemma3", **GEMMA),
    Variant("granite-multipliers", "embedding, residual, attention and logits scaled; biases", "GraniteForCausalLM",
            sizes("granite", attention_bias=True, mlp_bias=True, embedding_multiplier=12.0, residual_multiplier=0.22,
                  attention_multiplier=0.0625, logits_scaling=8.0, tie_word_embeddings=True, **v4(10000.0))),
    Variant("granite-plain", "other multipliers; own head", "GraniteForCausalLM",
            sizes("granite", embedding_multiplier=3.0, residual_multiplier=0.5, attention_multiplier=0.25, logits_scaling=0.5,
                  **v5(10000.0)), spelling=5, gguf="granite"),
    Variant("cohere-parallel", "parallel parts under one layer norm, neighbours as pairs, logits scaled", "CohereForCausalLM",
            sizes("cohere", logit_scale=0.25, tie_word_embeddings=True, num_key_value_heads=4, **v4(10000.0)), gguf="command-r"),
    Variant("cohere-qknorm", "an own gain for each head of q and k", "CohereForCausalLM",
            sizes("cohere", logit_scale=0.5, use_qk_norm=True, tie_word_embeddings=True, **v5(500000.0)), spelling=5),
    Variant("cohere2-window", "windows; the fourth layer sees all, without positions", "Cohere2ForCausalLM",
            sizes("cohere2", head_dim=8, num_hidden_layers=4, intermediate_size=24, sliding_window=6, logit_scale=0.25,
                  tie_word_embeddings=True, **v4(10000.0)), gguf="cohere2"),
    Variant("cohere2-types", "by layer_types", "Cohere2ForCausalLM",
            sizes("cohere2", head_dim=12, num_hidden_layers=2, sliding_window=9, logit_scale=1.0, tie_word_embeddings=True,
                  layer_types=["full_attention", "sliding_attention"], **v5(10000.0)), spelling=5),
    Variant("starcoder2-bias", "layer norm, plain feed-forward part, biases everywhere; tied", "Starcoder2ForCausalLM",
            sizes("starcoder2", norm_epsilon=1e-5, use_bias=True, tie_word_embeddings=True, sliding_window=None,
                  hidden_act="gelu_pytorch_tanh", **v4(10000.0)), gguf="starcoder2"),
    Variant("starcoder2-window", "a window, no biases but the norms'", "Starcoder2ForCausalLM",
            sizes("starcoder2", norm_epsilon=1e-5, use_bias=False, sliding_window=8, **v5(10000.0)), spelling=5),
    Variant("gpt2-learned", "learned positions, fused transposed products; tied", "GPT2LMHeadModel",
            {"model_type": "gpt2", "vocab_size": 56, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "n_inner": 44,
             "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "tie_word_embeddings": True,
             "bos_token_id": 1, "eos_token_id": 2}, gguf="gpt2", transposed=True),
    Variant("gpt2-unscaled", "scores without scale; relu; n_inner null", "GPT2LMHeadModel",
            {"model_type": "gpt2", "vocab_size": 40, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 48, "n_inner": None,
             "layer_norm_epsilon": 1e-5, "activation_function": "relu", "scale_attn_weights": False, "tie_word_embeddings": True,
             "bos_token_id": 1, "eos_token_id": 2}, spelling=5, transposed=True),
    Variant("neox-parallel", "two norms of one x; q, k, v fused head by head; a quarter rotates", "GPTNeoXForCausalLM",
            sizes("gpt_neox", num_key_value_heads=..., num_hidden_layers=2, layer_norm_eps=1e-5, rotary_pct=0.25, rotary_emb_base=10000,
                  use_parallel_residual=True, hidden_act="gelu", attention_bias=True), gguf="gptneox"),
    Variant("neox-sequential", "one part behind the other; no attention biases", "GPTNeoXForCausalLM",
            sizes("gpt_neox", num_key_value_heads=..., num_hidden_layers=2, layer_norm_eps=1e-5, use_parallel_residual=False,
                  attention_bias=False, **v5(5000.0, partial_rotary_factor=0.5)), spelling=5),
    Variant("stablelm-plain", "layer norm, a quarter rotates; q, k, v biased", "StableLmForCausalLM",
            sizes("stablelm", layer_norm_eps=1e-5, use_qkv_bias=True, partial_rotary_factor=0.25, **v4(10000.0)), gguf="stablelm"),
    Variant("stablelm-parallel", "parallel parts, an own norm for each head of q and k", "StableLmForCausalLM",
            sizes("stablelm", layer_norm_eps=1e-5, qk_layernorm=True, use_parallel_residual=True,
                  **v5(10000.0, partial_rotary_factor=0.5)), spelling=5),
    Variant("nemotron-plain", "layer norm with gains of 1 + w, relu squared, half rotates", "NemotronForCausalLM",
            sizes("nemotron", head_dim=8, norm_eps=1e-5, hidden_act="relu2", partial_rotary_factor=0.5, **v4(10000.0)),
            gguf="nemotron", gain_offset=1.0),
    Variant("nemotron-bias", "biases; tied", "NemotronForCausalLM",
            sizes("nemotron", head_dim=12, num_hidden_layers=2, norm_eps=1e-5, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                  **v5(10000.0, partial_rotary_factor=0.5)), spelling=5, gain_offset=1.0),
    Variant("phi-parallel", "parallel parts under one layer norm, biases and the head's", "PhiForCausalLM",
            sizes("phi", num_key_value_heads=4, layer_norm_eps=1e-5, hidden_act="gelu_new", partial_rotary_factor=0.5, **v4(10000.0)), gguf="phi2"),
    Variant("phi-qknorm", "layer norm of each head of q and k", "PhiForCausalLM",
            sizes("phi", layer_norm_eps=1e-5, qk_layernorm=True, **v5(10000.0, partial_rotary_factor=0.5)), spelling=5),
    Variant("arcee-relu2", "plain feed-forward part with relu squared", "ArceeForCausalLM",
            sizes("arcee", head_dim=8, rms_norm_eps=1e-5, hidden_act="relu2", **v4(10000.0)), gguf="arcee"),
    Variant("arcee-bias", "biases; yarn with bounds that are no whole numbers", "ArceeForCausalLM",
            sizes("arcee", head_dim=8, rms_norm_eps=1e-5, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                  **v5(10000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=32,
                       truncate=False)), spelling=5),
    Variant("apertus-xielu", "xIELU with numbers of each layer's own; QK-norm", "ApertusForCausalLM",
            sizes("apertus", rms_norm_eps=1e-5, hidden_act="xielu", num_hidden_layers=3, intermediate_size=28,
                  **v5(12000.0)), spelling=5, gguf="apertus"),
    Variant("apertus-bias", "biases, llama3's stretching by old keys; tied", "ApertusForCausalLM",
            sizes("apertus", rms_norm_eps=1e-5, hidden_act="xielu", attention_bias=True, tie_word_embeddings=True,
                  **v4(10000.0, rope_type="llama3", factor=8.0, original_max_position_embeddings=32, low_freq_factor=1.0,
                       high_freq_factor=4.0))),
    Variant("olmo-plain", "layer norm without gain and bias", "OlmoForCausalLM", sizes("olmo", clip_qkv=None, **v4(10000.0)), gguf="olmo"),
    Variant("olmo-clip", "q, k and v clipped; tied", "OlmoForCausalLM",
            sizes("olmo", clip_qkv=0.9, tie_word_embeddings=True, **v5(10000.0)), spelling=5),
    Variant("bitnet-subnorm", "norms in front of o and down, relu squared as gate", "BitNetForCausalLM",
            sizes("bitnet", rms_norm_eps=1e-5, hidden_act="relu2", tie_word_embeddings=True, **v4(500000.0))),
    Variant("bitnet-bias", "attention_bias; silu; own head", "BitNetForCausalLM",
            sizes("bitnet", rms_norm_eps=1e-5, hidden_act="silu", attention_bias=True, **v5(10000.0)), spelling=5),
    Variant("ministral3-growth", "q grows with its position, yarn", "Ministral3ForCausalLM",
            sizes("ministral3", head_dim=8, rms_norm_eps=1e-5, sliding_window=None,
                  rope_parameters={"rope_type": "yarn", "type": "yarn", "rope_theta": 10000.0, "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                   "original_max_position_embeddings": 8, "max_position_embeddings": 128, "mscale": 1.0, "mscale_all_dim": 1.0,
                                   "llama_4_scaling_beta": 0.3}), spelling=5),
    Variant("ministral3-window", "a window; tied", "Ministral3ForCausalLM",
            sizes("ministral3", head_dim=12, num_hidden_layers=2, rms_norm_eps=1e-5, sliding_window=9, tie_word_embeddings=True,
                  rope_parameters={"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 32,
                                   "llama_4_scaling_beta": 0.1}), spelling=5),
    Variant("falcon-mqa", "parallel parts under one norm; rows q.. k v of one KV head", "FalconForCausalLM",
            sizes("falcon", intermediate_size=..., num_key_value_heads=..., ffn_hidden_size=44, layer_norm_epsilon=1e-5, multi_query=True,
                  parallel_attn=True, new_decoder_architecture=False, bias=False, alibi=False, tie_word_embeddings=True, **v4(10000.0)),
            gguf="falcon"),
    Variant("falcon-groups", "two norms of one x; rows q.. k v of each KV head; biases", "FalconForCausalLM",
            sizes("falcon", intermediate_size=..., num_key_value_heads=..., num_kv_heads=2, ffn_hidden_size=44, layer_norm_epsilon=1e-5,
                  new_decoder_architecture=True, bias=True, alibi=False, tie_word_embeddings=True, **v5(10000.0)), spelling=5),
    Variant("falcon-sequential", "one part behind the other, q, k and v of each head", "FalconForCausalLM",
            sizes("falcon", intermediate_size=..., num_key_value_heads=..., num_hidden_layers=2, ffn_hidden_size=None, layer_norm_epsilon=1e-5, multi_query=False,
                  parallel_attn=False, new_decoder_architecture=False, bias=True, alibi=False, tie_word_embeddings=True, **v4(10000.0))),
]
