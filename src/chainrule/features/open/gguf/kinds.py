"""The architectures of GGUF files, each as one of Hugging Face: names of tensors and of fields, and what llama.cpp's
converter had changed in them.

ggml rotates neighbouring pairs of a head where Hugging Face rotates its halves, so the rows of q and k are reordered
for architectures whose converter had reordered them. Gemma's gains, and Qwen 3.5's, are 1 + w there. What a file does
not say, since llama.cpp knows it by the name of the architecture, follows from the defaults of config.json.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.features.open.gguf import changes
from chainrule.features.open.gguf.kind import Kind
from chainrule.features.open.gguf.later_kinds import EXPERTS, GRANITE_EXPERTS, LATER

if TYPE_CHECKING:
    from collections.abc import Collection

_NORMS_AFTER = {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
_GEMMA_NORMS = {**_NORMS_AFTER, "ffn_norm": "pre_feedforward_layernorm"}
# Tensors that hold the rows of all experts, and those of one.
_MIXTRAL = {
    "ffn_gate_inp": "block_sparse_moe.gate",
    "ffn_gate_exps": "block_sparse_moe.experts.{expert}.w1",
    "ffn_up_exps": "block_sparse_moe.experts.{expert}.w3",
    "ffn_down_exps": "block_sparse_moe.experts.{expert}.w2",
}


_GPT2 = {
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
_GPT2_TOP = {"token_embd": "transformer.wte", "position_embd": "transformer.wpe", "output_norm": "transformer.ln_f"}
_FALCON = {
    "attn_norm": "input_layernorm",
    "attn_qkv": "self_attention.query_key_value",
    "attn_output": "self_attention.dense",
    "ffn_norm": "post_attention_layernorm",
    "ffn_up": "mlp.dense_h_to_4h",
    "ffn_down": "mlp.dense_4h_to_h",
}
_BERT = {
    "attn_q": "attention.self.query",
    "attn_k": "attention.self.key",
    "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense",
    "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense",
    "ffn_down": "output.dense",
    "layer_output_norm": "output.LayerNorm",
}
_BERT_TOP = {
    "token_embd": "embeddings.word_embeddings",
    "position_embd": "embeddings.position_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "token_embd_norm": "embeddings.LayerNorm",
}
_MODERN = {
    "attn_norm": "attn_norm",
    "attn_qkv": "attn.Wqkv",
    "attn_output": "attn.Wo",
    "ffn_norm": "mlp_norm",
    "ffn_up": "mlp.Wi",
    "ffn_down": "mlp.Wo",
}
_GEMMA4 = {
    "layer_output_scale.weight": "layer_scalar",
    "inp_gate": "per_layer_input_gate",
    "proj": "per_layer_projection",
    "post_norm": "post_per_layer_input_norm",
    "ffn_gate_inp": "router.proj",
    "ffn_gate_inp.scale": "router.scale",
    "ffn_gate_up_exps.weight": "experts.gate_up_proj",
    "ffn_down_exps.weight": "experts.down_proj",
    "ffn_down_exps.scale": "router.per_expert_scale",
    "post_ffw_norm_1": "post_feedforward_layernorm_1",
    "pre_ffw_norm_2": "pre_feedforward_layernorm_2",
    "post_ffw_norm_2": "post_feedforward_layernorm_2",
}
_OF_GEMMA4 = {
    "attention.key_length": "global_head_dim",
    "attention.key_length_swa": "head_dim",
    "attention.shared_kv_layers": "num_kv_shared_layers",
    "embedding_length_per_layer_input": "hidden_size_per_layer_input",
    "expert_count": "num_experts",
    "expert_used_count": "top_k_experts",
    **dict.fromkeys(("attention.value_length_swa", "rope.dimension_count", "rope.dimension_count_swa"), None),
}
# Of a block of either side, and of T5's layers in it; the last is the feed-forward one.
_T5_ATTENTION = {"attn_norm": "layer_norm", **{f"attn_{name}": f"SelfAttention.{name}" for name in "qkvo"}}
_T5_ATTENTION |= {"attn_rel_b": "SelfAttention.relative_attention_bias"}
_T5_CROSS = {"cross_attn_norm": "layer_norm", **{f"cross_attn_{name}": f"EncDecAttention.{name}" for name in "qkvo"}}
_T5_CROSS |= {"cross_attn_rel_b": "EncDecAttention.relative_attention_bias"}
_T5_FED = {"ffn_norm": "layer_norm", "ffn_up": "DenseReluDense.wi", "ffn_down": "DenseReluDense.wo"}
_T5 = {
    f"{side[:3]}.{name}": f"{side}.block.{{layer}}.layer.{number}.{theirs}"
    for side, layers in (("encoder", (_T5_ATTENTION, _T5_FED)), ("decoder", (_T5_ATTENTION, _T5_CROSS, _T5_FED)))
    for number, names in enumerate(layers)
    for name, theirs in names.items()
}
_OF_T5 = {
    "block_count": "num_layers",
    "decoder_block_count": "num_decoder_layers",
    "embedding_length": "d_model",
    "feed_forward_length": "d_ff",
    "context_length": "n_positions",
    "attention.head_count": "num_heads",
    "attention.key_length": "d_kv",
    "attention.layer_norm_rms_epsilon": "layer_norm_epsilon",
    "attention.layer_norm_epsilon": None,
    "attention.relative_buckets_count": "relative_attention_num_buckets",
    "decoder_start_token_id": "decoder_start_token_id",
}
_OSS = {
    "post_attention_norm": "post_attention_layernorm",
    "attn_sinks.weight": "self_attn.sinks",
    "ffn_gate_inp": "mlp.router",
    "ffn_gate_exps.weight": "mlp.experts.gate_up_proj#0",
    "ffn_up_exps.weight": "mlp.experts.gate_up_proj#1",
    "ffn_gate_exps.bias": "mlp.experts.gate_up_proj_bias#0",
    "ffn_up_exps.bias": "mlp.experts.gate_up_proj_bias#1",
    "ffn_down_exps.weight": "mlp.experts.down_proj",
    "ffn_down_exps.bias": "mlp.experts.down_proj_bias",
}
_OF_GPT2 = {
    "block_count": "n_layer",
    "embedding_length": "n_embd",
    "context_length": "n_positions",
    "feed_forward_length": "n_inner",
    "attention.head_count": "n_head",
    "attention.head_count_kv": None,
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
}
_MAMBA = {
    "attn_norm": "norm",
    "ssm_in": "mixer.in_proj",
    "ssm_conv1d": "mixer.conv1d",
    "ssm_a": "mixer.A_log",
    "ssm_d": "mixer.D",
    "ssm_out": "mixer.out_proj",
}
_MAMBA_TOP = {"token_embd": "backbone.embeddings", "output_norm": "backbone.norm_f"}
_OF_MAMBA = {
    "attention.layer_norm_rms_epsilon": "layer_norm_epsilon",
    "ssm.inner_size": "ssm.inner_size",
    **dict.fromkeys(("context_length", "feed_forward_length", "attention.head_count", "attention.head_count_kv"), None),
}


KINDS: dict[str, Kind] = {
    "llama": Kind("llama", _MIXTRAL, is_paired=True),
    "qwen2": Kind("qwen2"),
    "qwen3": Kind("qwen3"),
    "qwen3moe": Kind("qwen3_moe", EXPERTS, more=lambda config, tensors: {"norm_topk_prob": True}),
    "gemma": Kind("gemma", counts_one=True),
    "gemma2": Kind("gemma2", _GEMMA_NORMS, counts_one=True, more=changes.query_scale(46)),
    "gemma3": Kind("gemma3_text", _GEMMA_NORMS, counts_one=True, more=changes.query_scale(62)),
    "gemma4": Kind(
        "gemma4_text",
        {**_GEMMA_NORMS, **_GEMMA4},
        {
            "per_layer_token_embd": "model.embed_tokens_per_layer",
            "per_layer_model_proj": "model.per_layer_model_projection",
            "per_layer_proj_norm": "model.per_layer_projection_norm",
        },
        fields=_OF_GEMMA4,
        more=changes.of_gemma4,
    ),
    "smollm3": Kind("smollm3", is_paired=True),
    "phi2": Kind(
        "phi",
        {"attn_output": "self_attn.dense", "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"},
        {"output_norm": "model.final_layernorm"},
    ),
    "phi3": Kind("phi3", {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}),
    "olmo": Kind("olmo", is_paired=True, fields={"attention.layer_norm_epsilon": None}),
    "olmo2": Kind("olmo2", _NORMS_AFTER),
    "exaone4": Kind("exaone4", _NORMS_AFTER),
    "starcoder2": Kind(
        "starcoder2",
        {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"},
        fields={"attention.layer_norm_epsilon": "norm_epsilon"},
    ),
    "stablelm": Kind("stablelm"),
    "command-r": Kind("cohere", more=changes.tied),
    "cohere2": Kind("cohere2", more=changes.tied),
    "granite": Kind("granite", is_paired=True, fields={"logit_scale": "logits_scaling"}),
    "glm4": Kind(
        "glm4",
        {
            "ffn_up": "mlp.gate_up_proj",
            "post_attention_norm": "post_self_attn_layernorm",
            "post_ffw_norm": "post_mlp_layernorm",
        },
    ),
    "ernie4_5": Kind("ernie4_5"),
    "mamba": Kind(
        "mamba",
        {**_MAMBA, "ssm_x": "mixer.x_proj", "ssm_dt": "mixer.dt_proj"},
        _MAMBA_TOP,
        "backbone.layers.{layer}.",
        fields=_OF_MAMBA,
        changes={"ssm_conv1d": changes.CONVOLUTION, "ssm_a": changes.LOG_OF_NEGATIVE},
        more=changes.of_states,
    ),
    "mamba2": Kind(
        "mamba2",
        {**_MAMBA, "ssm_dt.bias": "mixer.dt_bias", "ssm_norm": "mixer.norm"},
        _MAMBA_TOP,
        "backbone.layers.{layer}.",
        fields={**_OF_MAMBA, "ssm.time_step_rank": "num_heads", "ssm.group_count": "n_groups"},
        changes={
            "ssm_conv1d": changes.CONVOLUTION,
            "ssm_a": changes.FLAT_LOG,
            "ssm_d": changes.FLAT,
            "ssm_norm": changes.IN_GROUPS,
        },
        more=changes.of_heads,
    ),
    "gpt-oss": Kind(
        "gpt_oss",
        _OSS,
        fields={"expert_feed_forward_length": "intermediate_size"},
        changes={"ffn_down_exps": changes.MATRICES_TRANSPOSED},
        joins=dict.fromkeys(("mlp.experts.gate_up_proj", "mlp.experts.gate_up_proj_bias"), changes.TAKING_TURNS),
        more=changes.of_yarn,
    ),
    "starcoder": Kind(
        "gpt_bigcode",
        _GPT2,
        _GPT2_TOP,
        "transformer.h.{layer}.",
        fields={
            **_OF_GPT2,
            "attention.head_count_kv": "num_key_value_heads",
            "hidden_activation": "activation_function",
        },
        changes={"attn_qkv": changes.by_head("n_head")},
        more=changes.of_bigcode,
    ),
    "gpt2": Kind(
        "gpt2",
        _GPT2,
        _GPT2_TOP,
        "transformer.h.{layer}.",
        fields=_OF_GPT2,
        changes=dict.fromkeys(("attn_qkv", "attn_output", "ffn_up", "ffn_down"), changes.TRANSPOSED),
    ),
    "gptneox": Kind(
        "gpt_neox",
        {
            "attn_qkv": "attention.query_key_value",
            "attn_output": "attention.dense",
            "ffn_up": "mlp.dense_h_to_4h",
            "ffn_down": "mlp.dense_4h_to_h",
        },
        {
            "token_embd": "gpt_neox.embed_in",
            "output_norm": "gpt_neox.final_layer_norm",
            "output": "embed_out",
        },
        "gpt_neox.layers.{layer}.",
        fields={"attention.head_count_kv": None},
        changes={"attn_qkv": changes.by_head("num_attention_heads")},
        more=changes.of_neox,
    ),
    "falcon": Kind(
        "falcon",
        _FALCON,
        {"token_embd": "transformer.word_embeddings", "output_norm": "transformer.ln_f"},
        "transformer.h.{layer}.",
        fields={
            "attention.head_count_kv": "num_kv_heads",
            "feed_forward_length": "ffn_hidden_size",
            "attention.layer_norm_epsilon": "layer_norm_epsilon",
        },
        changes={"attn_qkv": changes.BY_GROUP},
        more=changes.of_falcon,
    ),
    "bloom": Kind(
        "bloom",
        _FALCON,
        {
            "token_embd": "transformer.word_embeddings",
            "token_embd_norm": "transformer.word_embeddings_layernorm",
            "output_norm": "transformer.ln_f",
        },
        "transformer.h.{layer}.",
        fields={
            "block_count": "n_layer",
            "context_length": "seq_length",
            "feed_forward_length": None,
            "attention.head_count": "n_head",
            "attention.head_count_kv": None,
            "attention.layer_norm_epsilon": "layer_norm_epsilon",
        },
        changes={"attn_qkv": changes.by_head("n_head")},
    ),
    "bert": Kind(
        "bert",
        _BERT,
        _BERT_TOP,
        "encoder.layer.{layer}.",
        fields={"attention.head_count_kv": None, "attention.causal": None, "pooling_type": None},
        more=changes.as_it_is,
        reads="framed",
    ),
    "modern-bert": Kind(
        "modernbert",
        _MODERN,
        {
            "token_embd": "embeddings.tok_embeddings",
            "token_embd_norm": "embeddings.norm",
            "output_norm": "final_norm",
            "cls": "head.dense",
            "cls.norm": "head.norm",
        },
        "layers.{layer}.",
        fields={
            "attention.sliding_window": "local_attention",
            "hidden_activation": "hidden_activation",
            **dict.fromkeys(("attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon"), "norm_eps"),
            **dict.fromkeys(("attention.head_count_kv", "attention.causal", "pooling_type"), None),
        },
        more=changes.of_modernbert,
        reads="framed",
    ),
    "t5": Kind(
        "t5",
        _T5,
        {
            "token_embd": "shared",
            "output": "lm_head",
            "enc.output_norm": "encoder.final_layer_norm",
            "dec.output_norm": "decoder.final_layer_norm",
        },
        layers="",
        fields=_OF_T5,
        more=changes.of_t5,
        reads="source",
    ),
    **LATER,
}
_WITH_TWO_NORMS = KINDS["falcon"]._replace(names={**_FALCON, "attn_norm": "ln_mlp", "attn_norm_2": "ln_attn"})
_GATED_T5 = KINDS["t5"]._replace(
    names={name: theirs.replace(".wi", ".wi_1") for name, theirs in _T5.items()}
    | {
        name.replace("_up", "_gate"): theirs.replace(".wi", ".wi_0")
        for name, theirs in _T5.items()
        if name.endswith("ffn_up")
    }
)
# Kinds whose tensors have other names where a file has a certain one.
_VARIANTS = (
    ("falcon", "blk.0.attn_norm_2.weight", _WITH_TWO_NORMS),
    ("t5", "enc.blk.0.ffn_gate.weight", _GATED_T5),
    ("granitehybrid", "blk.0.ffn_gate_inp.weight", GRANITE_EXPERTS),
)


def kinds_named(architecture: str) -> tuple[Kind, ...]:
    """Return the kinds of files with this architecture, the usual one first."""
    return (KINDS[architecture], *(kind for name, _, kind in _VARIANTS if name == architecture))


def kind_of(architecture: str, names: Collection[str]) -> Kind:
    """Return the kind of a file. names: of its tensors."""
    for name, tensor, kind in _VARIANTS:
        if architecture == name and tensor in names:
            return kind
    return KINDS[architecture]
