"""Architectures of GGUF files since 2024: LLaMAs with a change, hybrids of attention and recurrences, experts for all
tokens, and encoders with rotary positions.
"""

from __future__ import annotations

from chainrule.features.open.gguf import changes
from chainrule.features.open.gguf.kind import Kind

# The rows of all experts, and of one.
EXPERTS = {
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.{expert}.gate_proj",
    "ffn_up_exps": "mlp.experts.{expert}.up_proj",
    "ffn_down_exps": "mlp.experts.{expert}.down_proj",
}
_SHARED = {f"ffn_{part}_shexp": f"mlp.shared_experts.{part}_proj" for part in ("gate", "up", "down")}
_SHARED_GATED = {
    **EXPERTS,
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    **{name: theirs.replace("experts", "expert") for name, theirs in _SHARED.items()},
}
_MAMBA2 = {
    "ssm_in": "in_proj",
    "ssm_conv1d": "conv1d",
    "ssm_dt.bias": "dt_bias",
    "ssm_a": "A_log",
    "ssm_d": "D",
    "ssm_norm": "norm",
    "ssm_out": "out_proj",
}
_OF_MAMBA2 = {
    "ssm_conv1d": changes.CONVOLUTION,
    "ssm_a": changes.FLAT_LOG,
    "ssm_d": changes.FLAT,
    "ssm_norm": changes.IN_GROUPS,
}
_STATES = {
    "ssm.conv_kernel": "mamba_d_conv",
    "ssm.state_size": "mamba_d_state",
    "ssm.time_step_rank": "mamba_n_heads",
    "ssm.group_count": "mamba_n_groups",
}
_ROUTED = {
    "expert_count": "n_routed_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_weights_scale": "routed_scaling_factor",
    "expert_weights_norm": "norm_topk_prob",
    "expert_group_count": "n_group",
    "expert_group_used_count": "topk_group",
    **dict.fromkeys(("expert_gating_func", "nextn_predict_layers"), None),
}
_UP_EXPERTS = {name: theirs.replace("mlp", "mixer") for name, theirs in EXPERTS.items() if name != "ffn_gate_exps"}
_LATENT = {
    "attn_q_a": "self_attn.q_a_proj",
    "attn_q_a_norm": "self_attn.q_a_layernorm",
    "attn_q_b": "self_attn.q_b_proj",
    "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
    "attn_kv_a_norm": "self_attn.kv_a_layernorm",
    "attn_k_b.weight": "self_attn.kv_b_proj.weight#0",
    "attn_v_b.weight": "self_attn.kv_b_proj.weight#1",
}
_OF_LATENT: dict[str, str | None] = {
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "attention.key_length": None,
    "attention.key_length_mla": "head_dim",
    "attention.value_length_mla": "v_head_dim",
    "rope.dimension_count": "qk_rope_head_dim",
}
_AFTER_DENSE = {
    "leading_dense_block_count": "first_k_dense_replace",
    "expert_shared_count": "n_shared_experts",
    "expert_shared_feed_forward_length": None,
}
_OF_GRANITE = {
    "ffn_gate_inp": "block_sparse_moe.router.layer",
    "ffn_gate_exps.weight": "block_sparse_moe.input_linear.weight#0",
    "ffn_up_exps.weight": "block_sparse_moe.input_linear.weight#1",
    "ffn_down_exps": "block_sparse_moe.output_linear",
    "ffn_gate_shexp.weight": "shared_mlp.input_linear.weight#0",
    "ffn_up_shexp.weight": "shared_mlp.input_linear.weight#1",
    "ffn_down_shexp": "shared_mlp.output_linear",
}
_JOINS_OF_GRANITE = {
    "shared_mlp.input_linear.weight": changes.ONE_ON_THE_OTHER,
    "block_sparse_moe.input_linear.weight": changes.ROWS_OF_EXPERTS,
}
_LFM2_PARTS = {"gate": "w1", "up": "w3", "down": "w2"}
_LFM2_TOP = dict.fromkeys(("token_embd_norm", "output_norm"), "model.embedding_norm")
_LFM2 = {
    "attn_norm": "operator_norm",
    "ffn_norm": "ffn_norm",
    "attn_output": "self_attn.out_proj",
    "attn_q_norm": "self_attn.q_layernorm",
    "attn_k_norm": "self_attn.k_layernorm",
    **{f"ffn_{part}": f"feed_forward.{name}" for part, name in _LFM2_PARTS.items()},
    "shortconv.conv": "conv.conv",
    "shortconv.in_proj": "conv.in_proj",
    "shortconv.out_proj": "conv.out_proj",
}
_DELTA = {
    "post_attention_norm": "post_attention_layernorm",
    "attn_qkv": "linear_attn.in_proj_qkv",
    "attn_gate": "linear_attn.in_proj_z",
    "ssm_beta": "linear_attn.in_proj_b",
    "ssm_alpha": "linear_attn.in_proj_a",
    "ssm_conv1d": "linear_attn.conv1d",
    "ssm_dt.bias": "linear_attn.dt_bias",
    "ssm_a": "linear_attn.A_log",
    "ssm_norm": "linear_attn.norm",
    "ssm_out": "linear_attn.out_proj",
}
_CHANGES_OF_DELTA = {
    "attn_qkv": changes.ONLY_VALUES_BY_KEY,
    "ssm_conv1d": changes.DELTA_CONVOLUTION,
    "ssm_a": changes.DELTA_DECAYS,
    "ssm_out": changes.COLUMNS_BY_KEY,
    **dict.fromkeys(("attn_gate", "ssm_beta", "ssm_alpha", "ssm_dt"), changes.VALUES_BY_KEY),
}
_OF_DELTA: dict[str, str | None] = {
    "ssm.conv_kernel": "linear_conv_kernel_dim",
    "ssm.state_size": "linear_key_head_dim",
    "ssm.group_count": "linear_num_key_heads",
    "ssm.time_step_rank": "linear_num_value_heads",
    "ssm.inner_size": "ssm.inner_size",
    "full_attention_interval": "full_attention_interval",
    "expert_count": "num_experts",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "rope.dimension_sections": None,  # of texts, all three positions are the same
}
_ENCODER: dict[str, str | None] = dict.fromkeys(("attention.causal", "pooling_type"))
_POST = {"attn_output_norm": "norm1", "layer_output_norm": "norm2"}
_POST_TOP = {
    "token_embd": "embeddings.word_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "token_embd_norm": "emb_ln",
}

LATER: dict[str, Kind] = {
    "arcee": Kind("arcee", is_paired=True),
    "seed_oss": Kind("seed_oss", {"post_attention_norm": "post_attention_layernorm"}, more=changes.of_seed),
    "nemotron": Kind("nemotron", counts_one=True, fields={"attention.layer_norm_epsilon": "norm_eps"}),
    "hunyuan-dense": Kind(
        "hunyuan_v1_dense", {f"attn_{name[0]}_norm": f"self_attn.{name}_layernorm" for name in ("query", "key")}
    ),
    "mistral3": Kind(
        "ministral3",
        is_paired=True,
        fields={
            "attention.temperature_scale": "llama_4_scaling_beta",
            "attention.temperature_length": "original_max_position_embeddings",
        },
        more=changes.of_ministral,
    ),
    "olmoe": Kind(
        "olmoe", EXPERTS, fields={"expert_feed_forward_length": "intermediate_size", "expert_count": "num_experts"}
    ),
    "qwen2moe": Kind(
        "qwen2_moe",
        _SHARED_GATED,
        fields={
            "expert_count": "num_experts",
            "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
        },
        changes={"ffn_gate_inp_shexp": changes.ONE_ROW},
        more=changes.of_qwen2moe,
    ),
    "lfm2": Kind(
        "lfm2",
        _LFM2,
        _LFM2_TOP,
        fields={"attention.layer_norm_rms_epsilon": "norm_eps"},
        changes={"shortconv.conv": changes.CONVOLUTION},
        more=changes.of_convolutions,
    ),
    "lfm2moe": Kind(
        "lfm2_moe",
        {
            **_LFM2,
            "ffn_gate_inp": "feed_forward.gate",
            **{f"ffn_{part}_exps": f"feed_forward.experts.{{expert}}.{name}" for part, name in _LFM2_PARTS.items()},
            "exp_probs_b.bias": "feed_forward.expert_bias",
        },
        _LFM2_TOP,
        fields={
            "attention.layer_norm_rms_epsilon": "norm_eps",
            "leading_dense_block_count": "num_dense_layers",
            "expert_count": "num_experts",
            "expert_gating_func": None,
        },
        changes={"shortconv.conv": changes.CONVOLUTION},
        more=changes.of_convolutions,
    ),
    "qwen35": Kind(
        "qwen3_5_text",
        _DELTA,
        counts_one=True,
        fields=_OF_DELTA,
        changes=_CHANGES_OF_DELTA,
        more=changes.of_delta,
    ),
    "qwen35moe": Kind(
        "qwen3_5_moe_text",
        {**_DELTA, **_SHARED_GATED},
        counts_one=True,
        fields=_OF_DELTA,
        changes={**_CHANGES_OF_DELTA, "ffn_gate_inp_shexp": changes.ONE_ROW},
        more=changes.of_delta,
    ),
    "qwen3next": Kind(
        "qwen3_next",
        {
            **{name: theirs for name, theirs in _DELTA.items() if ".in_proj_" not in theirs},
            **_SHARED_GATED,
            "attn_qkv.weight": "linear_attn.in_proj_qkvz.weight#0",
            "attn_gate.weight": "linear_attn.in_proj_qkvz.weight#1",
            "ssm_ba": "linear_attn.in_proj_ba",
        },
        counts_one=True,
        fields=_OF_DELTA,
        changes={
            "ssm_conv1d": changes.CONVOLUTION,
            "ssm_a": changes.LOG_OF_NEGATIVE,
            "ffn_gate_inp_shexp": changes.ONE_ROW,
        },
        joins={"linear_attn.in_proj_qkvz.weight": changes.BY_KEY_HEADS},
        more=changes.of_delta,
    ),
    "glm4moe": Kind(
        "glm4_moe",
        {
            **EXPERTS,
            **_SHARED,
            "post_attention_norm": "post_attention_layernorm",
            "exp_probs_b.bias": "mlp.gate.e_score_correction_bias",
        },
        fields={
            **_ROUTED,
            **_AFTER_DENSE,
        },
        more=changes.of_glm4moe,
    ),
    "deepseek2": Kind(
        "deepseek_v3",
        {**EXPERTS, **_SHARED, **_LATENT, "exp_probs_b.bias": "mlp.gate.e_score_correction_bias"},
        fields={**_ROUTED, **_AFTER_DENSE, **_OF_LATENT, "rope.scaling.yarn_log_multiplier": "yarn_log_multiplier"},
        joins={"self_attn.kv_b_proj.weight": changes.OF_HEADS},
        more=changes.of_deepseek,
    ),
    "falcon-h1": Kind(
        "falcon_h1",
        {
            **{name: f"mamba.{theirs}" for name, theirs in _MAMBA2.items()},
            "ffn_norm": "pre_ff_layernorm.weight",
            **{f"ffn_{part}": f"feed_forward.{part}_proj" for part in ("gate", "up", "down")},
        },
        {"output_norm": "model.final_layernorm"},
        fields={**_STATES, "ssm.inner_size": "mamba_d_ssm"},
        changes={
            **_OF_MAMBA2,
            "token_embd": changes.multiplied(lambda config: config["embedding_multiplier"]),
            "output": changes.multiplied(lambda config: config["lm_head_multiplier"]),
            "attn_k": changes.multiplied(lambda config: config["key_multiplier"]),
            "attn_output": changes.multiplied(lambda config: config["attention_out_multiplier"]),
            "ssm_in": changes.BY_SCALES,
            "ssm_out": changes.multiplied(lambda config: config["ssm_out_multiplier"]),
            "ffn_gate": changes.multiplied(lambda config: config["mlp_multipliers"][0]),
            "ffn_down": changes.multiplied(lambda config: config["mlp_multipliers"][1]),
        },
        more=changes.of_falcon_h1,
    ),
    "granitemoe": Kind(
        "granitemoeshared",
        _OF_GRANITE,
        is_paired=True,
        fields={
            "logit_scale": "logits_scaling",
            "expert_shared_feed_forward_length": "shared_intermediate_size",
            "expert_feed_forward_length": None,
        },
        joins=_JOINS_OF_GRANITE,
        more=changes.of_granitemoe,
    ),
    "granitehybrid": Kind(
        "granitemoehybrid",
        {
            **{name: f"mamba.{theirs}" for name, theirs in _MAMBA2.items()},
            "ffn_gate.weight": "shared_mlp.input_linear.weight#0",
            "ffn_up.weight": "shared_mlp.input_linear.weight#1",
            "ffn_down": "shared_mlp.output_linear",
        },
        is_paired=True,
        fields={
            "logit_scale": "logits_scaling",
            "rope.scaling.finetuned": "position_embedding_type",
            "expert_shared_feed_forward_length": "shared_intermediate_size",
            "expert_feed_forward_length": None,
            **_STATES,
            "ssm.inner_size": "ssm.inner_size",
        },
        changes=_OF_MAMBA2,
        joins=_JOINS_OF_GRANITE,
        more=changes.of_granite4,
    ),
    "nemotron_h": Kind(
        "nemotron_h",
        {
            **{name: f"mixer.{theirs}" for name, theirs in _MAMBA2.items()},
            "attn_norm": "norm",
            **{f"attn_{name}": f"mixer.{name}_proj" for name in "qkv"},
            "attn_output": "mixer.o_proj",
            "ffn_up": "mixer.up_proj",
            "ffn_down": "mixer.down_proj",
        },
        {"token_embd": "backbone.embeddings", "output_norm": "backbone.norm_f"},
        "backbone.layers.{layer}.",
        fields={
            "attention.layer_norm_rms_epsilon": "layer_norm_epsilon",
            "ssm.conv_kernel": "conv_kernel",
            "ssm.state_size": "ssm_state_size",
            "ssm.time_step_rank": "mamba_num_heads",
            "ssm.group_count": "n_groups",
            "ssm.inner_size": "ssm.inner_size",
            **dict.fromkeys(("rope.dimension_count", "attention.layer_norm_epsilon"), None),
        },
        changes=_OF_MAMBA2,
        more=changes.of_nemotron_h,
    ),
    "nomic-bert": Kind(
        "nomic_bert",
        {
            **_POST,
            "attn_qkv": "attn.Wqkv",
            "attn_output": "attn.out_proj",
            "ffn_gate": "mlp.fc12",
            "ffn_up": "mlp.fc11",
            "ffn_down": "mlp.fc2",
        },
        _POST_TOP,
        "encoder.layers.{layer}.",
        fields={**_ENCODER, "attention.head_count_kv": None},
        more=changes.of_rotated,
        reads="framed",
    ),
    "jina-bert-v3": Kind(
        "jina_embeddings_v3",
        {
            **_POST,
            "attn_qkv": "mixer.Wqkv",
            "attn_output": "mixer.out_proj",
            "ffn_up": "mlp.fc1",
            "ffn_down": "mlp.fc2",
        },
        _POST_TOP,
        "encoder.layers.{layer}.",
        fields={**_ENCODER, "attention.head_count_kv": None},
        more=changes.of_rotated,
        reads="framed",
    ),
    "eurobert": Kind(
        "eurobert",
        top={"token_embd": "embed_tokens", "output_norm": "norm"},
        layers="layers.{layer}.",
        fields=_ENCODER,
        more=changes.of_rotated,
        reads="framed",
    ),
}
LATER["nemotron_h_moe"] = LATER["nemotron_h"]._replace(
    names={
        **LATER["nemotron_h"].names,
        **_UP_EXPERTS,
        **{name: theirs.replace("mlp", "mixer") for name, theirs in _SHARED.items()},
        "exp_probs_b.bias": "mixer.gate.e_score_correction_bias",
    },
    fields={
        **LATER["nemotron_h"].fields,
        **_ROUTED,
        "expert_shared_count": "n_shared_experts",
        "expert_shared_feed_forward_length": "moe_shared_expert_intermediate_size",
    },
)
# Granite 4 with experts, beside the feed-forward layer that is the only one without.
GRANITE_EXPERTS = LATER["granitehybrid"]._replace(
    names={
        **{name: theirs for name, theirs in LATER["granitehybrid"].names.items() if not name.startswith("ffn")},
        **_OF_GRANITE,
    },
    joins=_JOINS_OF_GRANITE,
)
