"""The variants of encoders.py: every switch that changes arithmetic is on in one of a family's; odd sizes."""

from family_variants import Variant, sizes, v4, v5


def bert(model_type="bert", **more):
    """A config of an encoder in BERT's spelling: 2 layers, 3 heads."""
    out = {
        "model_type": model_type, "vocab_size": 61, "hidden_size": 36, "intermediate_size": 44, "num_hidden_layers": 2,
        "num_attention_heads": 3, "max_position_embeddings": 64, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "pad_token_id": 0, "position_embedding_type": "absolute",
    }
    out.update(more)
    return {k: v for k, v in out.items() if v is not ...}


def modernbert(**more):
    """A config of ModernBERT's spelling: windows of 7 in all, every third layer full."""
    out = {
        "model_type": "modernbert", "vocab_size": 53, "hidden_size": 32, "intermediate_size": 20, "num_hidden_layers": 4,
        "num_attention_heads": 4, "max_position_embeddings": 128, "hidden_activation": "gelu", "norm_eps": 1e-5, "norm_bias": False,
        "attention_bias": False, "mlp_bias": False, "local_attention": 14, "global_attn_every_n_layers": 3,
        "global_rope_theta": 16000.0, "local_rope_theta": 1000.0, "pad_token_id": 0, "bos_token_id": 1, "cls_token_id": 1,
        "eos_token_id": 2, "sep_token_id": 2, "classifier_pooling": "mean", "decoder_bias": True,
    }
    out.update(more)
    return {k: v for k, v in out.items() if v is not ...}


VARIANTS = [
    Variant("bert-types", "two token types, learned positions, norms of sums, GELU by erf", "BertModel", bert(), gguf="bert"),
    Variant("bert-masked", "a checkpoint with its head for masked tokens, which counts for nothing; tanh GELU; odd heads; F32",
            "BertForMaskedLM", bert(hidden_size=35, num_attention_heads=5, intermediate_size=28, vocab_size=41, hidden_act="gelu_new", num_hidden_layers=1, max_position_embeddings=40,
                                    type_vocab_size=3, layer_norm_eps=1e-7), dtype="float32"),
    Variant("roberta-offset", "positions from the padding id on, one token type", "XLMRobertaModel",
            bert("xlm-roberta", pad_token_id=1, bos_token_id=0, eos_token_id=2, max_position_embeddings=66, type_vocab_size=1,
                 layer_norm_eps=1e-5), gguf="bert"),
    Variant("roberta-masked", "another padding id; ReLU; a head that counts for nothing", "RobertaForMaskedLM",
            bert("roberta", pad_token_id=4, bos_token_id=0, eos_token_id=2, max_position_embeddings=50, type_vocab_size=2,
                 hidden_act="relu", layer_norm_eps=1e-5)),
    Variant("nomic-gated", "rope, a gated part without biases, norms of sums", "NomicBertModel",
            bert("nomic_bert", num_attention_heads=3, position_embedding_type=..., hidden_act="silu", **v5(1000.0)), spelling=5,
            gguf="nomic-bert"),
    Variant("nomic-theta", "another theta, one head", "NomicBertModel",
            bert("nomic_bert", num_attention_heads=1, hidden_size=20, intermediate_size=28, num_hidden_layers=3, position_embedding_type=...,
                 hidden_act="gelu", **v5(50.0)), spelling=5),
    Variant("modernbert-local", "windows to both sides, an own table for full layers, no first norm", "ModernBertModel", modernbert(), gguf="modern-bert"),
    Variant("modernbert-bias", "biases everywhere, types of layers listed, the first one windowed", "ModernBertForMaskedLM",
            modernbert(intermediate_size=28, norm_bias=True, attention_bias=True, mlp_bias=True, local_attention=9, global_attn_every_n_layers=...,
                       global_rope_theta=..., local_rope_theta=..., num_hidden_layers=3, hidden_activation="gelu_pytorch_tanh",
                       layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                       rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 9000.0},
                                        "sliding_attention": {"rope_type": "default", "rope_theta": 700.0}}), spelling=5),
    Variant("eurobert-groups", "a Llama that sees everything; grouped heads", "EuroBertModel",
            sizes("eurobert", rms_norm_eps=1e-5, hidden_size=24, num_attention_heads=6, num_key_value_heads=3, **v4(250000.0)), gguf="eurobert"),
    Variant("eurobert-bias", "biases, tanh GELU, a head that counts for nothing", "EuroBertForMaskedLM",
            sizes("eurobert", rms_norm_eps=1e-6, attention_bias=True, mlp_bias=True, hidden_act="gelu_pytorch_tanh",
                  num_key_value_heads=4, **v5(10000.0)), spelling=5),
    Variant("embeddinggemma-window", "windows of half the size to both sides, two tables, scaled embeddings", "Gemma3TextModel",
            sizes("gemma3_text", head_dim=12, num_key_value_heads=1, hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=9,
                  sliding_window=11, num_hidden_layers=3, intermediate_size=28, use_bidirectional_attention=True,
                  tie_word_embeddings=..., layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                  rope_theta=1000000.0, rope_local_base_freq=10000.0), gain_offset=1.0),
    Variant("embeddinggemma-even", "an even window, layers by the pattern", "Gemma3TextModel",
            sizes("gemma3_text", head_dim=8, num_key_value_heads=2, hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=16,
                  sliding_window=6, sliding_window_pattern=2, num_hidden_layers=3, intermediate_size=24,
                  use_bidirectional_attention=True, tie_word_embeddings=...,
                  rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 20000.0},
                                   "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}), spelling=5, gain_offset=1.0),
    Variant("embeddinggemma-six", "as the format has it: every sixth layer full, local theta 10000", "Gemma3TextModel",
            sizes("gemma3_text", head_dim=8, num_key_value_heads=1, num_attention_heads=2, hidden_size=16,
                  hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=8, sliding_window=10, sliding_window_pattern=6,
                  num_hidden_layers=7, intermediate_size=20, use_bidirectional_attention=True, tie_word_embeddings=...,
                  rope_theta=1000000.0, rope_local_base_freq=10000.0), gain_offset=1.0, gguf="gemma-embedding"),
]
