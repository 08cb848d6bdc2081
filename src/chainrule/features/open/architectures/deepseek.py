"""DeepSeek V2 and V3 (DeepSeek-AI 2024), GLM 4 MoE Lite (Z.ai 2026): latent attention, and mixtures of experts in all
layers but the first ones.

Positions rotate the last numbers of a head, neighbours together; ours rotate the first ones, halves together.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.features.open.architecture import Change, Rule, Setting, Tensor, weight_and_bias
from chainrule.features.open.architectures.llama import LLAMA, WITH_DENSE_LAYERS, biases
from chainrule.features.open.architectures.llama_kin import with_defaults, with_settings
from chainrule.features.open.architectures.shared_experts import (
    IGNORED,
    NEXT,
    ROUTED,
    SHIFT,
    SIGMOID,
    after_dense,
    shared_expert,
)
from chainrule.features.open.positions import ROPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import ndarray

    from chainrule.features.open.network.config import OpenSettings

    Json = dict[str, Any]

_ATTENTION, _THEIRS = "encoder.blocks.{layer}.attention.", "model.layers.{layer}.self_attn."


def _halves(rows: ndarray) -> ndarray:
    """Return (n, r) rows of which neighbours rotate together, as halves."""
    return rows.reshape(len(rows), -1, 2, *rows.shape[2:]).swapaxes(1, 2).reshape(rows.shape)


def _neighbours(rows: ndarray) -> ndarray:
    return rows.reshape(len(rows), 2, -1, *rows.shape[2:]).swapaxes(1, 2).reshape(rows.shape)


def _rotated_first(tensors: list[ndarray], config: OpenSettings) -> ndarray:
    heads = tensors[0].reshape(config.heads, config.width_of_heads, *tensors[0].shape[1:])
    rest, rotated = np.split(heads, [config.width_of_heads - config.rotated_width], 1)
    return np.concatenate([_halves(rotated), rest], 1).reshape(tensors[0].shape)


def _rotated_last(array: ndarray, config: OpenSettings) -> list[ndarray]:
    heads = array.reshape(config.heads, config.width_of_heads, *array.shape[1:])
    rotated, rest = np.split(heads, [config.rotated_width], 1)
    return [np.concatenate([rest, _neighbours(rotated)], 1).reshape(array.shape)]


def _last(array: ndarray, config: OpenSettings, turn: Callable[[ndarray], ndarray]) -> ndarray:
    """Return rows of which the last ones, what rotates in all heads, are reordered."""
    short, rotated = np.split(array, [-config.rotated_width])
    return np.concatenate([short, turn(rotated[None])[0]])


_QUERY = Change(_rotated_first, _rotated_last)
_DOWN = Change(
    lambda tensors, config: _last(tensors[0], config, _halves),
    lambda array, config: [_last(array, config, _neighbours)],
)
_RANKS = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "num_key_value_heads")


def _read_widths(config: Json) -> Json:
    heads, keys = config["num_attention_heads"], config.get("num_key_value_heads")
    if keys not in (None, heads):
        raise ValueError(f"there are {keys} heads of keys; expected {heads}, as of queries")
    rotated = config.get("qk_rope_head_dim", 64)
    return {
        "query_rank": config.get("q_lora_rank", 1536),
        "key_rank": config.get("kv_lora_rank", 512),
        "head_width": config.get("qk_nope_head_dim", 128) + rotated,
        "rotary_width": rotated,
        "value_width": config.get("v_head_dim", 128),
    }


def _write_widths(config: OpenSettings) -> Json:
    rest = config.width_of_heads - config.rotated_width
    values = config.query_rank, config.key_rank, rest, config.rotated_width, config.width_of_values, config.heads
    return dict(zip(_RANKS, values, strict=True))


def _given(config: Json) -> Json:
    return config.get("rope_parameters") or config.get("rope_scaling") or {}


def _read_rope(config: Json) -> Json:
    """Return positions, and the scale of scores, in which YaRN's amplitude is squared."""
    settings = ROPE.read(config)
    if (share := _given(config).get("partial_rotary_factor") or config.get("partial_rotary_factor")) not in (None, 1):
        raise ValueError(f"partial_rotary_factor is {share!r}; expected 1, since qk_rope_head_dim says how many rotate")
    width = config.get("qk_nope_head_dim", 128) + config.get("qk_rope_head_dim", 64)
    factor, share = settings.get("rotary_factor", 1.0), _given(config).get("mscale_all_dim")
    amplitude = 1 + 0.1 * share * math.log(factor) if share and factor > 1 else 1.0
    return {**settings, "attention_scale": width**-0.5 * amplitude**2}


def _write_rope(config: OpenSettings) -> Json:
    written = ROPE.write(replace(config, rotary_width=None, key_rank=None, query_rank=None, value_width=None))
    scale, parameters = config.attention_scale, dict(written["rope_parameters"])
    for name in (parameters, written):
        name.pop("partial_rotary_factor", None)
    if scale is not None and config.rotary_factor > 1 and config.rotary_scaling != "none":
        amplitude = math.sqrt(scale * math.sqrt(config.width_of_heads))
        parameters["mscale_all_dim"] = round((amplitude - 1) / (0.1 * math.log(config.rotary_factor)), 9)
    scaling = parameters if config.rotary_scaling != "none" else None
    return {**written, "rope_parameters": parameters, "rope_scaling": scaling}


_BIASED = biases({"query_key_value": ("attention_bias", False), "attention_out": ("attention_bias", False)})

DEEPSEEK_V3 = replace(
    LLAMA,
    model_type="deepseek_v3",
    class_name="DeepseekV3ForCausalLM",
    implied={**LLAMA.implied, **SIGMOID},
    settings=(
        *with_settings(
            LLAMA.settings,
            Rule(_RANKS, _read_widths, _write_widths),
            Rule(ROPE.fields, _read_rope, _write_rope),
            after_dense(3, 256, 2048, 18_432, 1),
            _BIASED,
            leave_out=("head_dim",),
        ),
        *with_defaults(ROUTED, {"routed_scaling_factor": 2.5, "n_group": 8, "topk_group": 4}),
    ),
    tensors=(
        *(row for row in WITH_DENSE_LAYERS if "query_key_value" not in row.ours),
        *shared_expert("mlp.shared_experts"),
        SHIFT,
        *weight_and_bias(_ATTENTION + "query_down", _THEIRS + "q_a_proj"),
        Tensor(_ATTENTION + "query_norm.weight", _THEIRS + "q_a_layernorm.weight"),
        Tensor(
            *(_ATTENTION + "query.weight", _THEIRS + "q_b_proj.weight", _QUERY),
            when=lambda config: config.query_rank is not None,
        ),
        Tensor(
            *(_ATTENTION + "query.weight", _THEIRS + "q_proj.weight", _QUERY),
            when=lambda config: config.query_rank is None,
        ),
        *weight_and_bias(_ATTENTION + "down", _THEIRS + "kv_a_proj_with_mqa", _DOWN),
        Tensor(_ATTENTION + "key_norm.weight", _THEIRS + "kv_a_layernorm.weight"),
        Tensor(_ATTENTION + "key_value.weight", _THEIRS + "kv_b_proj.weight"),
    ),
    fixed={"rope_interleave": True, "moe_layer_freq": 1, "scoring_func": "sigmoid", "topk_method": "noaux_tc"},
    ignored=(*IGNORED, "qk_head_dim", "head_dim", "aux_loss_alpha", "seq_aux", "ep_size"),
    ignored_tensors=(*LLAMA.ignored_tensors, NEXT),
)

_GROUPS = ("topk_method", "n_group", "topk_group")


def _read_groups(config: Json) -> Json:
    method = config.get("topk_method", "greedy")
    if method not in ("greedy", "group_limited_greedy"):
        raise ValueError(f"{method!r} is not supported; expected greedy or group_limited_greedy")
    if method == "greedy":
        return {"expert_groups": 1, "chosen_groups": 1}
    return {"expert_groups": config["n_group"], "chosen_groups": config["topk_group"]}


def _write_groups(config: OpenSettings) -> Json:
    method = "greedy" if config.expert_groups == 1 else "group_limited_greedy"
    return dict(zip(_GROUPS, (method, config.expert_groups, config.chosen_groups), strict=True))


DEEPSEEK_V2 = replace(
    DEEPSEEK_V3,
    model_type="deepseek_v2",
    class_name="DeepseekV2ForCausalLM",
    implied={**LLAMA.implied, "normalised_experts": False},
    settings=with_settings(
        DEEPSEEK_V3.settings,
        after_dense(0, 64, 1407, 11_008, 2),
        Setting("routed_scaling_factor", "routed_scale", 1.0),
        Rule(_GROUPS, _read_groups, _write_groups),
        leave_out=("norm_topk_prob",),
    ),
    tensors=tuple(row for row in DEEPSEEK_V3.tensors if row is not SHIFT),
    fixed={"norm_topk_prob": False, "moe_layer_freq": 1, "scoring_func": "softmax", "mlp_bias": False},
)

_DENSE_FIRST = after_dense(1, 64, 1536, 10_240, 1)
_DEFAULTS = {"rms_norm_eps": 1e-5, "max_position_embeddings": 202_752, "num_experts_per_tok": 4}
_DEFAULTS |= {"routed_scaling_factor": 1.8, "n_group": 1, "topk_group": 1}


def _read_layers(config: Json) -> Json:
    """Return which layers have experts, by their types where config.json has these."""
    types = config.get("mlp_layer_types")
    if types is None:
        return _DENSE_FIRST.read(config)
    if len(types) != config["num_hidden_layers"] or not set(types) <= {"dense", "sparse"}:
        raise ValueError(f"they name {len(types)} layers, or other types than dense and sparse")
    dense = tuple(layer for layer, kind in enumerate(types) if kind == "dense")
    said = _DENSE_FIRST.read({**config, "first_k_dense_replace": len(dense)})
    return {**said, "dense_layers": dense}


def _write_layers(config: OpenSettings) -> Json:
    types = ["dense" if layer in config.dense_layers else "sparse" for layer in range(config.layers)]
    return {**_DENSE_FIRST.write(config), "mlp_layer_types": types}


GLM4_MOE_LITE = replace(
    DEEPSEEK_V3,
    model_type="glm4_moe_lite",
    class_name="Glm4MoeLiteForCausalLM",
    settings=with_settings(
        with_defaults(DEEPSEEK_V3.settings, _DEFAULTS),
        Rule((*_DENSE_FIRST.fields, "mlp_layer_types"), _read_layers, _write_layers),
    ),
)
