"""The architectures of GGUF files, each as one of Hugging Face: names of tensors and of fields, and what llama.cpp's
converter had changed in them.

ggml rotates neighbouring pairs of a head where Hugging Face rotates its halves, so the rows of q and k are reordered
for architectures whose converter had reordered them. Gemma's gains, and Qwen 3.5's, are 1 + w there. What a file does
not say, since llama.cpp knows it by the name of the architecture, follows from the defaults of config.json.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from numpy import ndarray

    Json = dict[str, Any]
    Change = Callable[[ndarray, Json], ndarray]  # given a config.json
    More = Callable[[Json, Collection[str]], Json]

# GGUF's names of tensors -> Hugging Face's; those of a block follow blk.0. and so on; .weight or .bias follows them.
TENSORS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_NORMS_AFTER = {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
_GEMMA_NORMS = {**_NORMS_AFTER, "ffn_norm": "pre_feedforward_layernorm"}
# Tensors that hold the rows of all experts, and those of one.
_MIXTRAL = {
    "ffn_gate_inp": "block_sparse_moe.gate",
    "ffn_gate_exps": "block_sparse_moe.experts.{expert}.w1",
    "ffn_up_exps": "block_sparse_moe.experts.{expert}.w3",
    "ffn_down_exps": "block_sparse_moe.experts.{expert}.w2",
}
_QWEN_EXPERTS = {
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.{expert}.gate_proj",
    "ffn_up_exps": "mlp.experts.{expert}.up_proj",
    "ffn_down_exps": "mlp.experts.{expert}.down_proj",
}


class Kind(NamedTuple):
    """An architecture in GGUF. names: of tensors of a block that differ from LLaMA's. top: of other tensors, likewise.

    A name may have its ending, .weight or .bias; then Hugging Face's has none. One that ends with #0, #1 and so on is a
    part of a tensor, and `joins` has a function that makes it of these parts.
    layers: what Hugging Face's names of a block begin with. is_paired: whether the rows of q and k are reordered.
    counts_one: whether gains have 1 added. fields: of config.json that have another name than usual; None for those
    that do not matter. changes: of tensors, by GGUF's names. more: a function that completes a config.json, given
    the names of the tensors. is_encoder: whether it reads a text with a token of its own on either side.
    """

    model_type: str
    names: Mapping[str, str] = {}  # nobody writes to it
    top: Mapping[str, str] = {}
    layers: str = "model.layers.{layer}."
    is_paired: bool = False
    counts_one: bool = False
    fields: Mapping[str, str | None] = {}
    changes: Mapping[str, Change] = {}
    joins: Mapping[str, Callable[[list[ndarray]], ndarray]] = {}
    more: More = lambda config, names: {}
    is_encoder: bool = False


def _query_scale(large: int) -> More:
    """That of Gemma, which is by the width of a head, but in its largest model, which has that many layers."""

    def more(config: Json, names: Collection[str]) -> Json:
        width = config.get("head_dim") or 256
        if config["num_hidden_layers"] == large:
            width = config["hidden_size"] // config["num_attention_heads"]
        return {"query_pre_attn_scalar": width}

    return more


def _tied(config: Json, names: Collection[str]) -> Json:
    return {"tie_word_embeddings": True}


def _of_convolutions(config: Json, names: Collection[str]) -> Json:
    """LFM2's layers without heads of keys have a convolution."""
    heads = config.pop("num_key_value_heads", None)
    said: Json = {"block_auto_adjust_ff_dim": False}
    if isinstance(heads, list):
        said["layer_types"] = ["full_attention" if own else "conv" for own in heads]
        said["num_key_value_heads"] = max(heads, default=None)
    return said


def _of_states(config: Json, names: Collection[str]) -> Json:
    inner = config.pop("ssm.inner_size", 2 * config["hidden_size"])
    return {"expand": inner / config["hidden_size"], "use_bias": False, "use_conv_bias": True}


def _of_heads(config: Json, names: Collection[str]) -> Json:
    """Mamba 2's states by heads."""
    inner, heads = config.pop("ssm.inner_size", 2 * config["hidden_size"]), config.get("num_heads") or 1
    said = {"expand": inner / config["hidden_size"], "head_dim": inner // heads}
    return {**said, "use_bias": False, "use_conv_bias": True}


def _of_delta(config: Json, names: Collection[str]) -> Json:
    """Qwen 3.5's values by heads."""
    inner, heads = config.pop("ssm.inner_size", 0), config.get("linear_num_value_heads") or 1
    return {"linear_value_head_dim": inner // heads}


def _of_falcon(config: Json, names: Collection[str]) -> Json:
    """Without a head of keys for all queries, it is a new decoder, with one norm or two."""
    has_two = "blk.0.attn_norm_2.weight" in names
    is_new = has_two or config.get("num_kv_heads") != 1
    said: Json = {"new_decoder_architecture": is_new, "multi_query": not is_new, "alibi": False}
    return {**said, "num_ln_in_parallel_attn": 1 + has_two if is_new else None, "bias": "blk.0.ffn_up.bias" in names}


def _of_yarn(config: Json, names: Collection[str]) -> Json:
    """gpt-oss does not round the ends of YaRN's ramp to whole pairs."""
    scaling = config.get("rope_scaling")
    return {"rope_scaling": {**scaling, "truncate": False}} if isinstance(scaling, dict) else {}


def _of_neox(config: Json, names: Collection[str]) -> Json:
    return {"rotary_pct": config.pop("partial_rotary_factor", 1.0)}


def _as_it_is(config: Json, names: Collection[str]) -> Json:
    """What an encoder with the settings of BERT has, whatever it was: positions begin at the first row."""
    return {"architectures": ["BertModel"], "hidden_act": "gelu"}


def _as_convolution(rows: ndarray, config: Json) -> ndarray:
    return rows[:, None] if rows.ndim == 2 else rows


def _flat(array: ndarray, config: Json) -> ndarray:
    return array.reshape(-1)


def _transposed(matrix: ndarray, config: Json) -> ndarray:
    return matrix.T


def _matrices_transposed(matrices: ndarray, config: Json) -> ndarray:
    """(E, D, I) -> (E, I, D), or a vector for each expert as it is."""
    return matrices.swapaxes(1, 2) if matrices.ndim == 3 else matrices


def _taking_turns(parts: list[ndarray]) -> ndarray:
    """The gates of gpt-oss's experts, and what they multiply: (E, I, D) twice -> (E, D, 2I), row by row in turn."""
    both = np.stack(parts, 2)  # (E, I, 2, D), or (E, I, 2)
    both = both.reshape(both.shape[0], -1, *both.shape[3:])
    return both.swapaxes(1, 2) if both.ndim == 3 else both


def _by_group(rows: ndarray, config: Json) -> ndarray:
    """Falcon's queries, keys and values one on the other, as (K, H/K + 2, d) rows."""
    heads, groups = config.get("num_attention_heads") or 1, config.get("num_kv_heads") or 1
    width = config["hidden_size"] // heads
    if len(rows) != (heads + 2 * groups) * width or heads % groups:
        return rows  # of another shape than config.json asks for, which is an error of its own
    parts = np.split(rows, [heads * width, (heads + groups) * width])
    grouped = [part.reshape(groups, -1, width, *rows.shape[1:]) for part in parts]
    return np.concatenate(grouped, 1).reshape(rows.shape)


def _by_head(heads_field: str) -> Change:
    """Queries, keys and values one on the other, (3, H, d) rows, as (H, 3, d) rows. heads_field: that says H."""

    def change(rows: ndarray, config: Json) -> ndarray:
        heads = config.get(heads_field) or 1
        if len(rows) % (3 * heads):
            return rows
        return rows.reshape(3, heads, -1, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)

    return change


def _values_by_key(rows: ndarray, config: Json) -> ndarray:
    """Rows of Qwen 3.5's heads of values, in the order of ggml, (H/K, K, d), as (K, H/K, d)."""
    heads, keys = (config.get(f"linear_num_{name}_heads") or 1 for name in ("value", "key"))
    if heads % keys or len(rows) % heads:
        return rows
    return rows.reshape(heads // keys, keys, -1, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)


def _only_values_by_key(rows: ndarray, config: Json) -> ndarray:
    """Queries and keys as they are, then values as above."""
    keys = 2 * (config.get("linear_num_key_heads") or 0) * (config.get("linear_key_head_dim") or 0)
    return np.concatenate([rows[:keys], _values_by_key(rows[keys:], config)])


def _columns_by_key(matrix: ndarray, config: Json) -> ndarray:
    return np.ascontiguousarray(_values_by_key(np.ascontiguousarray(matrix.T), config).T)


def _delta_convolution(rows: ndarray, config: Json) -> ndarray:
    return _as_convolution(_only_values_by_key(rows, config), config)


def _delta_decays(decays: ndarray, config: Json) -> ndarray:
    return _values_by_key(_log_of_negative(decays, config), config)


def _log_of_negative(decays: ndarray, config: Json) -> ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):  # NaN is refused with the tensor's name
        return np.log(-decays)


def _flat_log(decays: ndarray, config: Json) -> ndarray:
    return _log_of_negative(decays, config).reshape(-1)


_GPT2 = {
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
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
    **dict.fromkeys(("context_length", "feed_forward_length", "attention.head_count"), None),
}


KINDS: dict[str, Kind] = {
    "llama": Kind("llama", _MIXTRAL, is_paired=True),
    "qwen2": Kind("qwen2"),
    "qwen3": Kind("qwen3"),
    "qwen3moe": Kind("qwen3_moe", _QWEN_EXPERTS, more=lambda config, names: {"norm_topk_prob": True}),
    "gemma": Kind("gemma", counts_one=True),
    "gemma2": Kind("gemma2", _GEMMA_NORMS, counts_one=True, more=_query_scale(46)),
    "gemma3": Kind("gemma3_text", _GEMMA_NORMS, counts_one=True, more=_query_scale(62)),
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
    "command-r": Kind("cohere", more=_tied),
    "cohere2": Kind("cohere2", more=_tied),
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
    "lfm2": Kind(
        "lfm2",
        {
            "attn_norm": "operator_norm",
            "ffn_norm": "ffn_norm",
            "attn_output": "self_attn.out_proj",
            "attn_q_norm": "self_attn.q_layernorm",
            "attn_k_norm": "self_attn.k_layernorm",
            "ffn_gate": "feed_forward.w1",
            "ffn_up": "feed_forward.w3",
            "ffn_down": "feed_forward.w2",
            "shortconv.conv": "conv.conv",
            "shortconv.in_proj": "conv.in_proj",
            "shortconv.out_proj": "conv.out_proj",
        },
        dict.fromkeys(("token_embd_norm", "output_norm"), "model.embedding_norm"),
        fields={"attention.layer_norm_rms_epsilon": "norm_eps"},
        changes={"shortconv.conv": _as_convolution},
        more=_of_convolutions,
    ),
    "mamba": Kind(
        "mamba",
        {**_MAMBA, "ssm_x": "mixer.x_proj", "ssm_dt": "mixer.dt_proj"},
        _MAMBA_TOP,
        "backbone.layers.{layer}.",
        fields=_OF_MAMBA,
        changes={"ssm_conv1d": _as_convolution, "ssm_a": _log_of_negative},
        more=_of_states,
    ),
    "mamba2": Kind(
        "mamba2",
        {**_MAMBA, "ssm_dt.bias": "mixer.dt_bias", "ssm_norm": "mixer.norm"},
        _MAMBA_TOP,
        "backbone.layers.{layer}.",
        fields={**_OF_MAMBA, "ssm.time_step_rank": "num_heads", "ssm.group_count": "n_groups"},
        changes={"ssm_conv1d": _as_convolution, "ssm_a": _flat_log, "ssm_d": _flat, "ssm_norm": _flat},
        more=_of_heads,
    ),
    "qwen35": Kind(
        "qwen3_5_text",
        _DELTA,
        counts_one=True,
        fields={
            "ssm.conv_kernel": "linear_conv_kernel_dim",
            "ssm.state_size": "linear_key_head_dim",
            "ssm.group_count": "linear_num_key_heads",
            "ssm.time_step_rank": "linear_num_value_heads",
            "ssm.inner_size": "ssm.inner_size",
            "full_attention_interval": "full_attention_interval",
            "rope.dimension_sections": None,  # of texts, all three positions are the same
        },
        changes={
            "attn_qkv": _only_values_by_key,
            "ssm_conv1d": _delta_convolution,
            "ssm_a": _delta_decays,
            "ssm_out": _columns_by_key,
            **dict.fromkeys(("attn_gate", "ssm_beta", "ssm_alpha", "ssm_dt"), _values_by_key),
        },
        more=_of_delta,
    ),
    "gpt-oss": Kind(
        "gpt_oss",
        _OSS,
        fields={"expert_feed_forward_length": "intermediate_size"},
        changes={"ffn_down_exps": _matrices_transposed},
        joins=dict.fromkeys(("mlp.experts.gate_up_proj", "mlp.experts.gate_up_proj_bias"), _taking_turns),
        more=_of_yarn,
    ),
    "gpt2": Kind(
        "gpt2",
        _GPT2,
        {"token_embd": "transformer.wte", "position_embd": "transformer.wpe", "output_norm": "transformer.ln_f"},
        "transformer.h.{layer}.",
        fields=_OF_GPT2,
        changes=dict.fromkeys(("attn_qkv", "attn_output", "ffn_up", "ffn_down"), _transposed),
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
        changes={"attn_qkv": _by_head("num_attention_heads")},
        more=_of_neox,
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
        changes={"attn_qkv": _by_group},
        more=_of_falcon,
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
        changes={"attn_qkv": _by_head("n_head")},
    ),
    "bert": Kind(
        "bert",
        _BERT,
        _BERT_TOP,
        "encoder.layer.{layer}.",
        fields={"attention.head_count_kv": None, "attention.causal": None, "pooling_type": None},
        more=_as_it_is,
        is_encoder=True,
    ),
}
_WITH_TWO_NORMS = KINDS["falcon"]._replace(names={**_FALCON, "attn_norm": "ln_mlp", "attn_norm_2": "ln_attn"})


def kind_of(architecture: str, names: Collection[str]) -> Kind:
    """The kind of a file. names: of its tensors."""
    return _WITH_TWO_NORMS if "blk.0.attn_norm_2.weight" in names else KINDS[architecture]
