"""A family's model as a GGUF file: names by gguf's own table, tensors and keys as its converters change them."""

import functools

import numpy as np
from gguf import MODEL_ARCH_NAMES, ExpertGatingFuncType, GGMLQuantizationType, GGUFWriter, RopeScalingType, get_tensor_name_map, quants

PERMUTED = {"llama", "smollm3", "granite", "granitemoe", "granitehybrid", "olmo", "arcee", "minicpm"}  # rows of q and k: halves of a head interleaved
HALF_BITS = GGMLQuantizationType.BF16
BLOCKS = GGMLQuantizationType.Q8_0


def get(cfg, *names, default=None):
    """The first of these keys that has a value."""
    for name in names:
        if cfg.get(name) is not None:
            return cfg[name]
    return default


def rope(cfg):
    """rope parameters in either spelling."""
    out = dict(cfg.get("rope_scaling") or {})
    out.update(cfg.get("rope_parameters") or {})
    return out


def kv_heads(arch, cfg):
    """Heads of keys and values."""
    return 1 if arch in ("falcon", "starcoder", "deepseek2") else get(cfg, "num_key_value_heads", "num_attention_heads", "n_head")


def full_layers(cfg):
    """Of each layer whether it is attention; nothing where all are."""
    kinds = cfg.get("layer_types")
    if kinds is None and cfg.get("full_attn_idxs") is not None:
        return [i in cfg["full_attn_idxs"] for i in range(cfg["num_hidden_layers"])]
    return kinds and [kind in ("full_attention", "attention") for kind in kinds]


def lfm2_width(cfg):
    """What the class makes of its width."""
    width = get(cfg, "block_ff_dim", "intermediate_size")
    if not cfg.get("block_auto_adjust_ff_dim", True):
        return width
    unit = cfg.get("block_multiple_of", 256)
    return unit * -(-int(cfg.get("block_ffn_dim_multiplier", 1.0) * int(2 * width / 3)) // unit)


def delta_keys(writer, cfg):
    """Sizes of the delta nets."""
    writer.add_ssm_conv_kernel(cfg["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(cfg["linear_key_head_dim"])
    writer.add_ssm_group_count(cfg["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(cfg["linear_num_value_heads"])
    writer.add_ssm_inner_size(cfg["linear_value_head_dim"] * cfg["linear_num_value_heads"])
    writer.add_full_attention_interval(cfg.get("full_attention_interval", 4))


def delta_tensors(arch, name, value, cfg):
    """What the format makes of a delta net's tensor: (name, values) each. Heads of values stand in order of their heads of keys (qwen3next), or tiled."""
    if ".linear_attn." not in name:
        return [(name, value)]
    groups, d_key, d_value = cfg["linear_num_key_heads"], cfg["linear_key_head_dim"], cfg["linear_value_head_dim"]
    each = cfg["linear_num_value_heads"] // groups
    layer, leaf = name.split(".linear_attn.")
    if leaf == "A_log":
        value = -np.exp(value)
    if leaf == "dt_bias":
        name = layer + ".linear_attn.dt_proj.bias"
    if leaf == "conv1d.weight":
        value = value.squeeze(1)
    if leaf == "in_proj_qkvz.weight":
        rows = value.reshape(groups, -1, value.shape[-1])
        q, k, v, z = np.split(rows, np.cumsum([d_key, d_key, each * d_value]), axis=1)
        flat = [part.reshape(-1, value.shape[-1]) for part in (q, k, v, z)]
        return [(layer + ".linear_attn.in_proj_qkv.weight", np.concatenate(flat[:3])), (layer + ".linear_attn.in_proj_z.weight", flat[3])]
    if arch == "qwen3next":
        return [(name, value)]

    def tiled(rows, d):
        return rows.reshape(groups, each, d, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)

    keys_rows = 2 * groups * d_key
    if leaf in ("in_proj_qkv.weight", "conv1d.weight"):
        value = np.concatenate([value[:keys_rows], tiled(value[keys_rows:], d_value)])
    elif leaf == "in_proj_z.weight":
        value = tiled(value, d_value)
    elif leaf in ("in_proj_b.weight", "in_proj_a.weight", "A_log", "dt_bias"):
        value = tiled(value, 1)
    elif leaf == "out_proj.weight":
        value = tiled(value.T, d_value).T
    return [(name, value)]


MAMBA = {"granitehybrid", "falcon-h1", "mamba2", "nemotron_h", "nemotron_h_moe"}  # architectures with state spaces
NEMOTRON = ("nemotron_h", "nemotron_h_moe")


def mamba_sizes(cfg):
    """Taps, states, groups, heads and width of all heads of state spaces."""
    heads = get(cfg, "mamba_n_heads", "mamba_num_heads", "num_heads")
    width = get(cfg, "mamba_d_ssm") or get(cfg, "mamba_head_dim", default=0) * heads or int(get(cfg, "mamba_expand", "expand") * cfg["hidden_size"])
    return (get(cfg, "mamba_d_conv", "conv_kernel"), get(cfg, "mamba_d_state", "state_size", "ssm_state_size"),
            get(cfg, "mamba_n_groups", "n_groups"), heads, width)


def mamba_keys(writer, arch, cfg):
    """Sizes of state spaces."""
    taps, states, groups, heads, width = mamba_sizes(cfg)
    writer.add_ssm_conv_kernel(taps)
    writer.add_ssm_state_size(states)
    writer.add_ssm_group_count(groups)
    writer.add_ssm_inner_size(width)
    writer.add_ssm_time_step_rank(heads)
    if arch == "granitehybrid":
        writer.add_rope_scaling_finetuned(False)


def nemotron_kinds(cfg):
    """Of each layer what it is, by its letter."""
    letters = {"mamba": "M", "linear_attention": "M", "attention": "*", "full_attention": "*", "mlp": "-", "moe": "E"}
    return cfg.get("hybrid_override_pattern") or [letters[kind] for kind in cfg["layers_block_type"]]


def nemotron_keys(writer, cfg):
    """Lists with an entry a layer, and the mixture."""
    kinds = nemotron_kinds(cfg)
    writer.add_head_count_kv([cfg["num_key_value_heads"] if kind == "*" else 0 for kind in kinds])
    width = get(cfg, "moe_intermediate_size", "intermediate_size")
    writer.add_feed_forward_length([width if kind in "-E" else 0 for kind in kinds])
    if "E" in kinds:
        writer.add_expert_shared_feed_forward_length(cfg["moe_shared_expert_intermediate_size"])
        writer.add_expert_shared_count(cfg["n_shared_experts"])
        writer.add_expert_weights_norm(cfg["norm_topk_prob"])
        writer.add_expert_weights_scale(cfg["routed_scaling_factor"])
        writer.add_expert_group_count(1)


def folded(name, value, cfg):
    """A weight with Falcon-H1's multipliers in it; nothing is left to apply."""
    names = {"q_proj": "attention_in_multiplier", "v_proj": "attention_in_multiplier", "o_proj": "attention_out_multiplier",
             "out_proj": "ssm_out_multiplier", "lm_head": "lm_head_multiplier", "embed_tokens": "embedding_multiplier"}
    for part, key in names.items():
        if f"{part}.weight" in name and (part != "o_proj" or "self_attn" in name):
            return value * cfg[key]
    if "k_proj" in name:
        return value * cfg["key_multiplier"] * cfg["attention_in_multiplier"]
    for part, factor in zip(("gate_proj", "down_proj"), cfg["mlp_multipliers"]):
        if part in name:
            return value * factor
    if "in_proj" not in name:
        return value
    _, states, groups, heads, width = mamba_sizes(cfg)
    rows = [width, width, groups * states, groups * states, heads]
    return value * cfg["ssm_in_multiplier"] * np.repeat(cfg["ssm_multipliers"], rows)[:, None]


def mamba_tensors(name, value, cfg):
    """What the format makes of a state space's tensor, or of the part behind it: (name, values) each."""
    if name.endswith("shared_mlp.input_linear.weight"):
        gate, up = np.split(value, 2)
        return [(name.replace("shared_mlp.input_linear", "mlp.gate_proj"), gate), (name.replace("shared_mlp.input_linear", "mlp.up_proj"), up)]
    if name.endswith("shared_mlp.output_linear.weight"):
        return [(name.replace("shared_mlp.output_linear", "mlp.down_proj"), value)]
    if ".mamba." not in name and ".mixer." not in name:
        return [(name, value)]
    if name.endswith("A_log"):
        value = -np.exp(value)[:, None]
    elif name.endswith(".D"):
        value = value[:, None]
    elif name.endswith("dt_bias"):
        name = name.replace("dt_bias", "dt.bias" if cfg["model_type"] == "nemotron_h" else "dt_proj.bias")
    elif name.endswith("conv1d.weight"):
        value = value.squeeze(1)
    elif name.endswith(("mamba.norm.weight", "mixer.norm.weight")):
        value = value.reshape(mamba_sizes(cfg)[2], -1)
    return [(name, value)]


def keys(writer, arch, cfg):
    """Metadata."""
    heads = get(cfg, "num_attention_heads", "n_head", default=0)
    width = get(cfg, "hidden_size", "n_embd")
    writer.add_context_length(get(cfg, "max_position_embeddings", "n_positions", default=2**20))
    writer.add_block_count(get(cfg, "num_hidden_layers", "n_layer"))
    writer.add_embedding_length(width)
    inner = lfm2_width(cfg) if arch == "lfm2" else get(cfg, "intermediate_size", "n_inner", "ffn_hidden_size", default=4 * width)
    if arch not in (*NEMOTRON, "gemma4"):
        writer.add_feed_forward_length(0 if arch == "mamba2" else inner)
    writer.add_head_count(heads)
    kv = kv_heads(arch, cfg)
    if arch in MAMBA:
        mamba_keys(writer, arch, cfg)
    if arch in NEMOTRON:
        nemotron_keys(writer, cfg)
    if arch in ("lfm2", "lfm2moe", "granitehybrid"):
        writer.add_head_count_kv([kv if full else 0 for full in full_layers(cfg)])
    if arch in ("lfm2", "lfm2moe"):
        writer.add_shortconv_l_cache(cfg["conv_L_cache"])
    elif arch not in ("gpt2", "gptneox", "granitehybrid", "mamba2", "gemma4", *NEMOTRON):
        writer.add_head_count_kv(kv)
    d_head = get(cfg, "head_dim", default=width // max(heads, 1))
    if cfg.get("head_dim") and arch not in ("mamba2", "gemma4"):
        writer.add_key_length(d_head)
        writer.add_value_length(d_head)
    if arch in ("gpt2", "gptneox", "starcoder", "starcoder2", "stablelm", "nemotron", "phi2", "command-r", "cohere2", "falcon", "olmo"):
        writer.add_layer_norm_eps(get(cfg, "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps", default=1e-5))
    else:
        writer.add_layer_norm_rms_eps(get(cfg, "rms_norm_eps", "norm_eps", "layer_norm_epsilon", default=1e-6))
    parameters = rope(cfg)
    theta = get(parameters, "rope_theta") or get(cfg, "rope_theta", "rotary_emb_base")
    if arch in ("hunyuan-dense", "hunyuan-moe") and parameters.get("alpha"):
        theta *= parameters["alpha"] ** (d_head / (d_head - 2))
    if theta:
        writer.add_rope_freq_base(theta)
        d_head = get(cfg, "qk_rope_head_dim", default=d_head)
        partial = get(parameters, "partial_rotary_factor") or get(cfg, "partial_rotary_factor", "rotary_pct", default=1.0)
        writer.add_rope_dimension_count(int(d_head * partial))
    stretched = get(parameters, "rope_type", "type")
    if stretched in ("linear", "yarn"):
        writer.add_rope_scaling_type(RopeScalingType[stretched.upper()])
        writer.add_rope_scaling_factor(parameters["factor"])
        if parameters.get("original_max_position_embeddings"):
            writer.add_rope_scaling_orig_ctx_len(parameters["original_max_position_embeddings"])
    window = cfg.get("sliding_window")
    if window is not None and arch in ("gemma2", "gemma3", "phi3", "olmo2", "exaone4", "cohere2", "gpt-oss"):
        writer.add_sliding_window(window)
    if arch == "gemma2":
        writer.add_attn_logit_softcapping(cfg["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(cfg["final_logit_softcapping"])
    if arch in ("granite", "granitehybrid"):
        writer.add_attention_scale(cfg["attention_multiplier"])
        writer.add_embedding_scale(cfg["embedding_multiplier"])
        writer.add_residual_scale(cfg["residual_multiplier"])
        writer.add_logit_scale(cfg["logits_scaling"])
    if arch == "granitemoe":
        writer.add_attention_scale(cfg["attention_multiplier"])
        writer.add_embedding_scale(cfg["embedding_multiplier"])
        writer.add_residual_scale(cfg["residual_multiplier"])
        writer.add_logit_scale(cfg["logits_scaling"])
    experts = get(cfg, "num_experts", "num_local_experts", "n_routed_experts")
    if experts:
        writer.add_expert_count(experts)
    if experts and cfg.get("num_experts_per_tok"):
        writer.add_expert_used_count(cfg["num_experts_per_tok"])
    if arch == "gpt-oss":
        writer.add_expert_feed_forward_length(cfg["intermediate_size"])
    width = cfg.get("moe_intermediate_size")
    if width:
        writer.add_expert_feed_forward_length(width[0] if isinstance(width, list) else width)
    if arch in ("qwen35", "qwen35moe", "qwen3next"):
        delta_keys(writer, cfg)
    if arch in ("qwen35", "qwen35moe"):
        writer.add_rope_dimension_sections([11, 11, 10, 0])
    if arch == "lfm2moe":
        writer.add_leading_dense_block_count(cfg["num_dense_layers"])
        writer.add_expert_gating_func(ExpertGatingFuncType.SIGMOID)
    shared = get(cfg, "shared_expert_intermediate_size", "shared_intermediate_size")
    if shared:
        writer.add_expert_shared_feed_forward_length(shared)
    if arch == "deepseek2":
        latent_keys(writer, cfg, parameters)
        group_keys(writer, cfg)
    if arch == "glm4moe":
        group_keys(writer, cfg)
    if arch == "ernie4_5-moe":
        writer.add_expert_count(cfg["moe_num_experts"])
        writer.add_expert_used_count(cfg["moe_k"])
        writer.add_interleave_moe_layer_step(cfg["moe_layer_interval"])
        writer.add_leading_dense_block_count(cfg["moe_layer_start_index"])
        writer.add_expert_shared_count(cfg["moe_num_shared_experts"])
        writer.add_expert_shared_feed_forward_length(cfg["intermediate_size"] // cfg["num_key_value_heads"])  # whatever the shared experts' width is
    if arch == "hunyuan-moe":
        writer.add_expert_used_count(cfg["moe_topk"][0])
        writer.add_expert_shared_feed_forward_length(cfg["intermediate_size"])
        writer.add_expert_shared_count(1)
        writer.add_rope_scaling_type(RopeScalingType.NONE)
        writer.add_rope_scaling_factor(1)
        writer.add_rope_scaling_orig_ctx_len(cfg["max_position_embeddings"])
    if arch == "gemma4":
        gemma4_keys(writer, cfg, parameters)
    if arch in ("command-r", "cohere2"):
        writer.add_logit_scale(cfg["logit_scale"])
    if arch in ("gptneox", "stablelm"):
        writer.add_parallel_residual(cfg.get("use_parallel_residual", arch == "gptneox"))
    writer.add_vocab_size(cfg["vocab_size"])


def latent_keys(writer, cfg, parameters):
    """Keys of latent attention, which the format has as attention of one kv head, and of its mixtures."""
    latent, rope_dims, nope = cfg["kv_lora_rank"], cfg["qk_rope_head_dim"], cfg["qk_nope_head_dim"]
    writer.add_kv_lora_rank(latent)
    if cfg.get("q_lora_rank"):
        writer.add_q_lora_rank(cfg["q_lora_rank"])
    writer.add_key_length(latent + rope_dims)
    writer.add_value_length(latent)
    writer.add_key_length_mla(nope + rope_dims)
    writer.add_value_length_mla(cfg["v_head_dim"])
    if parameters.get("mscale_all_dim") is not None:
        writer.add_rope_scaling_yarn_log_mul(0.1 * parameters["mscale_all_dim"])


def group_keys(writer, cfg):
    """Keys of a mixture whose experts stand in groups, behind some dense layers."""
    writer.add_leading_dense_block_count(cfg["first_k_dense_replace"])
    writer.add_expert_shared_count(cfg["n_shared_experts"])
    writer.add_expert_weights_scale(cfg["routed_scaling_factor"])
    writer.add_expert_group_count(cfg["n_group"])
    writer.add_expert_group_used_count(cfg["topk_group"])
    sigmoid = cfg["model_type"] != "deepseek_v2"
    writer.add_expert_gating_func(ExpertGatingFuncType.SIGMOID if sigmoid else ExpertGatingFuncType.SOFTMAX)
    if cfg["norm_topk_prob"]:
        writer.add_expert_weights_norm(True)


def gemma4_keys(writer, cfg, parameters):
    """Keys of windows, of heads by kinds of layers, of shared caches and of layers' own vectors. What the format has for full layers has no suffix."""
    windowed = [kind == "sliding_attention" for kind in cfg["layer_types"]]
    writer.add_sliding_window(cfg["sliding_window"])
    writer.add_sliding_window_pattern(windowed)
    writer.add_key_length(cfg["global_head_dim"])
    writer.add_value_length(cfg["global_head_dim"])
    writer.add_key_length_swa(cfg["head_dim"])
    writer.add_value_length_swa(cfg["head_dim"])
    writer.add_rope_dimension_count(cfg["global_head_dim"])
    writer.add_rope_dimension_count_swa(cfg["head_dim"])
    writer.add_rope_freq_base(get(parameters.get("full_attention", {}), "rope_theta", default=1000000.0))
    writer.add_rope_freq_base_swa(get(parameters.get("sliding_attention", {}), "rope_theta", default=10000.0))
    full_heads = cfg.get("num_global_key_value_heads")
    windowed_heads = cfg["num_key_value_heads"]
    writer.add_head_count_kv([windowed_heads if w else full_heads for w in windowed] if full_heads else windowed_heads)
    shared = cfg.get("num_kv_shared_layers", 0)
    writer.add_shared_kv_layers(shared)
    wide = 2 if cfg.get("use_double_wide_mlp") else 1
    own = len(windowed) - shared
    widths = [cfg["intermediate_size"] * (1 if i < own else wide) for i in range(len(windowed))]
    writer.add_feed_forward_length(widths if wide > 1 else cfg["intermediate_size"])
    writer.add_embedding_length_per_layer_input(cfg["hidden_size_per_layer_input"])
    if cfg.get("final_logit_softcapping"):
        writer.add_final_logit_softcapping(cfg["final_logit_softcapping"])


def gemma4_rope(writer, cfg, parameters):
    """What full layers' frequencies are divided by: the pairs behind the first ones don't turn."""
    part = get(parameters.get("full_attention", {}), "partial_rotary_factor", default=0.25)
    pairs = cfg["global_head_dim"] // 2
    turning = int(part * pairs)
    writer.add_tensor("rope_freqs.weight", np.array([1.0] * turning + [1e30] * (pairs - turning), np.float32))


XIELU = ("alpha_p", "alpha_n", "beta", "eps")


def xielu(writer, model):
    """The numbers of each layer's activation, which the format keeps as metadata; what it keeps isn't a tensor."""
    numbers = {n: [] for n in XIELU}
    for name, tensor in model.state_dict().items():
        if ".act_fn." in name:
            numbers[name.rsplit(".", 1)[1]].append(tensor.float().item())
    for name, values in numbers.items():
        if values:
            getattr(writer, f"add_xielu_{name}")(values)


def interleaved(rows, heads):
    """Rows of q or k with the two halves of each head interleaved."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def changed(arch, name, value, cfg, variant):
    """The values of a tensor as the format has them."""
    heads = get(cfg, "num_attention_heads", "n_head")
    kv = kv_heads(arch, cfg)
    if variant.gain_offset and value.ndim == 1 and "norm" in name and name.endswith(".weight") and "linear_attn" not in name:
        return value + np.float32(variant.gain_offset)
    if name.endswith("conv.conv.weight"):
        return value.squeeze(1)
    if arch in PERMUTED and ("q_proj" in name or "k_proj" in name):
        return interleaved(value, heads if "q_proj" in name else kv)
    if variant.transposed and value.ndim == 2 and ".h." in name:
        return value.T
    if arch in ("gptneox", "falcon") and "query_key_value" in name:
        # rows of each group to all q, all k, all v
        groups = heads if arch == "gptneox" else kv
        grouped = value.reshape(groups, heads // groups + 2, -1, *value.shape[1:])
        parts = [grouped[:, :-2], grouped[:, -2:-1], grouped[:, -1:]]
        return np.concatenate([part.reshape(-1, *value.shape[1:]) for part in parts])
    return value


# Where a name ends -> the tensors that it is, rows of each after those of the one before; of experts matrix by matrix.
EXPERTS = {
    "experts.gate_up_proj": ("ffn_gate_exps", "ffn_up_exps"),
    "experts.down_proj": ("ffn_down_exps",),
    "block_sparse_moe.router.weight": ("ffn_gate_inp",),
    "mlp.gate.weight": ("ffn_gate_inp",),
    "mixer.gate.weight": ("ffn_gate_inp",),
    "experts.up_proj": ("ffn_up_exps",),
    "feed_forward.gate.weight": ("ffn_gate_inp",),
    "shared_mlp.input_linear.weight": ("ffn_gate_shexp", "ffn_up_shexp"),
    "shared_mlp.output_linear.weight": ("ffn_down_shexp",),
    "mlp.gate.wg.weight": ("ffn_gate_inp",),
    "shared_mlp.gate_proj.weight": ("ffn_gate_shexp",),
    "shared_mlp.up_proj.weight": ("ffn_up_shexp",),
    "shared_mlp.down_proj.weight": ("ffn_down_shexp",),
    "shared_expert.gate_proj.weight": ("ffn_gate_shexp",),
    "shared_expert.up_proj.weight": ("ffn_up_shexp",),
    "shared_expert.down_proj.weight": ("ffn_down_shexp",),
    "shared_expert_gate.weight": ("ffn_gate_inp_shexp",),
    "shared_experts.gate_proj.weight": ("ffn_gate_shexp",),
    "shared_experts.up_proj.weight": ("ffn_up_shexp",),
    "shared_experts.down_proj.weight": ("ffn_down_shexp",),
}


def add_interleaved(writer, name, value, experts):
    """Writes a tensor of gpt-oss' own kind, matrices [in, out] in type `experts` and gates in even columns; False: it is none."""
    layer = name.split(".layers.")[1].split(".")[0] if ".layers." in name else ""
    columns = value.swapaxes(-1, -2) if value.ndim == 3 else value  # [experts, out, in], and biases [experts, out]
    parts = {
        "experts.gate_up_proj": {"ffn_gate_exps.weight": (0, 2), "ffn_up_exps.weight": (1, 2)},
        "experts.down_proj": {"ffn_down_exps.weight": (0, 1)},
        "experts.gate_up_proj_bias": {"ffn_gate_exps.bias": (0, 2), "ffn_up_exps.bias": (1, 2)},
        "experts.down_proj_bias": {"ffn_down_exps.bias": (0, 1)},
        "mlp.router.weight": {"ffn_gate_inp.weight": (0, 1)},
        "mlp.router.bias": {"ffn_gate_inp.bias": (0, 1)},
        "self_attn.sinks": {"attn_sinks.weight": (0, 1)},
        "post_attention_layernorm.weight": {"post_attention_norm.weight": (0, 1)},
    }
    for end, targets in parts.items():
        if name.endswith(end):
            for target, (first, step) in targets.items():
                part = np.ascontiguousarray(columns[:, first::step] if step > 1 else columns)
                stored = experts if part.ndim == 3 else GGMLQuantizationType.F32
                data = quants.quantize(part.reshape(-1, part.shape[-1]), stored)
                writer.add_tensor(f"blk.{layer}.{target}", data.reshape((*part.shape[:-1], data.shape[-1])), raw_dtype=stored)
            return True
    return False


def add_experts(writer, name, value, matrices):
    """Writes a tensor of a mixture, its matrices as that type; False: it is none. Routers are f32."""
    for end, targets in EXPERTS.items():
        if not name.endswith(end):
            continue
        for target, part in zip(targets, np.split(value, len(targets), axis=-2)):
            stored = GGMLQuantizationType.F32 if "_inp" in target else matrices
            part = np.ascontiguousarray(part)
            data = quants.quantize(part.reshape(-1, part.shape[-1]), stored)
            shape = (*part.shape[:-1], data.shape[-1])
            writer.add_tensor(f"blk.{name.split('.layers.')[1].split('.')[0]}.{target}.weight", data.reshape(shape), raw_dtype=stored)
        return True
    return False


def latent_parts(value, cfg):
    """Rows of a product that makes keys and values of latents: each head's keys transposed, and its values."""
    keys_values = value.reshape(cfg["num_attention_heads"], -1, value.shape[-1])
    nope = cfg["qk_nope_head_dim"]
    return np.ascontiguousarray(keys_values[:, :nope].swapaxes(1, 2)), np.ascontiguousarray(keys_values[:, nope:])


def add_latent(writer, name, value, cfg, stored):
    """Writes such a product as two; False: it is none."""
    if not name.endswith("kv_b_proj.weight"):
        return False
    layer = name.split(".layers.")[1].split(".")[0]
    for target, part in zip(("attn_k_b", "attn_v_b"), latent_parts(value, cfg)):
        data = quants.quantize(part.reshape(-1, part.shape[-1]), stored)
        writer.add_tensor(f"blk.{layer}.{target}.weight", data.reshape(*part.shape[:-1], -1), raw_dtype=stored)
    return True


def rounded(rows):
    """What blocks of q8_0 say of rows."""
    blocks = quants.quantize(np.ascontiguousarray(rows).reshape(-1, rows.shape[-1]), BLOCKS)
    return quants.dequantize(blocks, BLOCKS).reshape(rows.shape)


def as_blocks(name, value, cfg):
    """The values of a matrix whose file has blocks of q8_0; routers and vectors as they are."""
    if value.ndim < 2 or name.endswith("mlp.gate.weight"):
        return value
    if not name.endswith("kv_b_proj.weight"):
        return rounded(value)
    keys, values = latent_parts(value, cfg)
    return np.concatenate([rounded(keys).swapaxes(1, 2), rounded(values)], axis=1).reshape(value.shape)


def write(path, variant, model, cfg):
    """Writes the file: matrices in bf16 or blocks, vectors in f32."""
    arch = variant.gguf
    matrices = BLOCKS if variant.blocks else HALF_BITS
    kind = next(k for k, v in MODEL_ARCH_NAMES.items() if v == arch)
    names = get_tensor_name_map(kind, get(cfg, "num_hidden_layers", "n_layer"))
    writer = GGUFWriter(path, arch)
    keys(writer, arch, cfg)
    xielu(writer, model)
    if arch == "gemma4":
        gemma4_rope(writer, cfg, rope(cfg))
    for name, tensor in model.state_dict().items():
        if (name == "lm_head.weight" and variant.tied) or ".act_fn." in name:
            continue
        if arch == "gpt-oss" and add_interleaved(writer, name, tensor.float().numpy(), GGMLQuantizationType.MXFP4 if variant.mxfp4 else HALF_BITS):
            continue
        values = tensor.float().numpy()
        if (arch != "granitehybrid" and add_experts(writer, name, values, matrices)) or add_latent(writer, name, values, cfg, matrices):
            continue
        if arch in NEMOTRON:
            name = name.replace("model.", "backbone.", 1)
        if arch == "falcon-h1":
            values = folded(name, values, cfg).astype(np.float32)
        if name.endswith("layer_scalar"):
            name += ".weight"
        of_layer = mamba_tensors if arch in MAMBA else functools.partial(delta_tensors, arch)
        bias = name.replace("expert_bias", "expert_bias.bias").replace("correction_bias", "correction.bias").replace("gate.moe_statics", "moe_statics")
        for part, values in of_layer(bias, values, cfg):
            target = names.get_name(part, try_suffixes=(".weight", ".bias"))
            if target is None:
                raise SystemExit(f"{variant.name}: gguf has no name for {part}")
            value = np.ascontiguousarray(changed(arch, part, values, cfg, variant))
            plain = value.ndim == 1 or target.endswith(("conv.weight", "conv1d.weight", "ssm_a", "ssm_d", "ssm_norm.weight"))
            stored = GGMLQuantizationType.F32 if plain else matrices
            writer.add_tensor(target, quants.quantize(value, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
