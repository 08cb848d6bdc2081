"""Gemma 4 for texts (Google 2026): no 1 + w; values are normalised, and each token has a vector for each block.

Blocks that attend to all have heads of another width, of which only the first pairs turn; the last blocks take keys and
values of others, have perhaps wider feed-forward layers, and each block's output is multiplied by a number. Beside
feed-forward layers there may be experts.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.features.open.architecture import QUERY_KEY_VALUE, Change, Rule, Setting, Tensor
from chainrule.features.open.architectures.gemma import ACTIVATION, GEMMA2, cap
from chainrule.features.open.architectures.llama import QUERY_KEY_GAINS
from chainrule.features.open.positions import every, layer_types

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import ndarray

    from chainrule.features.open.network.config import OpenSettings

    Json = dict[str, Any]

_BLOCK, _LAYER = "encoder.blocks.{layer}.", "model.layers.{layer}."
_KINDS = ("full_attention", "sliding_attention")
_THETAS = {"full_attention": 1e6, "sliding_attention": 10_000.0}
_WINDOWS = layer_types(every("sliding_window_pattern", 6), keeps=True)
_OF_FULL = ("global_head_dim", "num_global_key_value_heads", "attention_k_eq_v", "per_layer_config")


def _read_windows(config: Json) -> Json:
    """Return the kinds of the layers: the last one attends to all, whatever the pattern."""
    types, layers = config.get("layer_types"), config["num_hidden_layers"]
    if types is None:
        types = [_KINDS[(layer + 1) % 6 != 0] for layer in range(layers)]
    types = [*types[:-1], _KINDS[0]] if isinstance(types, list) and types else types
    return _WINDOWS.read({"sliding_window": 512, **config, "layer_types": types})


def _read_full(config: Json) -> Json:
    """Return the settings of layers that attend to all: per_layer_config of transformers 5.23, or the fields before."""
    types = config.get("layer_types") or []
    alike = bool(config.get("attention_k_eq_v", False))
    width, heads = config.get("global_head_dim", 512), config.get("num_global_key_value_heads") if alike else None
    own = config.get("per_layer_config")
    if own:
        full = [values for layer, values in own.items() if int(layer) < len(types) and types[int(layer)] == _KINDS[0]]
        if len(full) != types.count(_KINDS[0]) or len(full) != len(own) or any(values != full[0] for values in full):
            raise ValueError("layers differ in other ways than by their type, which is not supported")
        if not full[0].keys() <= {"head_dim", "num_key_value_heads"}:
            raise ValueError(f"{', '.join(full[0])} for some layers are not supported; expected head_dim alone")
        width, heads = full[0].get("head_dim", config.get("head_dim", 256)), full[0].get("num_key_value_heads")
    return {"full_head_width": width, "full_key_value_heads": heads, "keys_as_values": alike}


def _write_full(config: OpenSettings) -> Json:
    own: Json = {"head_dim": config.full_head_width or config.width_of_heads}
    if config.full_key_value_heads is not None:
        own["num_key_value_heads"] = config.full_key_value_heads
    full = [str(layer) for layer in range(config.layers) if config.is_full(layer)]
    return {
        "attention_k_eq_v": config.keys_as_values,
        "global_head_dim": own["head_dim"],
        "num_global_key_value_heads": config.full_key_value_heads,
        "per_layer_config": dict.fromkeys(full, own),
    }


def _read_two_ropes(config: Json) -> Json:
    given = config.get("rope_parameters") or {
        _KINDS[0]: {"rope_type": "proportional", "partial_rotary_factor": 0.25},
        _KINDS[1]: {},
    }
    full, sliding = (dict(given.get(kind) or {}) for kind in _KINDS)
    thetas = [float(own.pop("rope_theta", _THETAS[kind])) for own, kind in zip((full, sliding), _KINDS, strict=True)]
    share, kind = full.pop("partial_rotary_factor", 1.0), full.pop("rope_type", "default")
    full.pop("factor", 1.0) if full.get("factor", 1.0) == 1.0 else None
    if full or kind not in ("default", "proportional") or sliding not in ({}, {"rope_type": "default"}):
        raise ValueError("other positions than proportional and default ones are not supported")
    pairs = _read_full(config)["full_head_width"] // 2
    turning = int(share * pairs) if kind == "proportional" else None
    positions = {"positions": "rotary", "rotary_base": thetas[0], "window_rotary_base": thetas[1]}
    return {**positions, "rotary_turning": turning}


def _write_two_ropes(config: OpenSettings) -> Json:
    full: Json = {"rope_type": "default", "rope_theta": config.rotary_base}
    if config.rotary_turning is not None:
        pairs = (config.full_head_width or config.width_of_heads) // 2
        full |= {"rope_type": "proportional", "partial_rotary_factor": config.rotary_turning / pairs}
    base = config.rotary_base if config.window_rotary_base is None else config.window_rotary_base
    return {"rope_parameters": {_KINDS[0]: full, _KINDS[1]: {"rope_type": "default", "rope_theta": base}}}


def _read_layer_inputs(config: Json) -> Json:
    rows, known = config.get("vocab_size_per_layer_input", 262_144), config.get("vocab_size", 262_144)
    width = config.get("hidden_size_per_layer_input", 256) or 0
    if width and rows != known:
        raise ValueError(f"they name {rows!r} tokens, but vocab_size is {known!r}; expected as many")
    return {"layer_input_width": width}


def _write_layer_inputs(config: OpenSettings) -> Json:
    return {"hidden_size_per_layer_input": config.layer_input_width}


_OF_EXPERTS = ("enable_moe_block", "num_experts", "top_k_experts", "moe_intermediate_size")


def _read_experts(config: Json) -> Json:
    if not config.get("enable_moe_block"):
        return {}
    count, chosen, width = (config.get(name) for name in _OF_EXPERTS[1:])
    return {"experts": count, "chosen_experts": chosen, "expert_width": width}


def _write_experts(config: OpenSettings) -> Json:
    if not config.experts:
        return {"enable_moe_block": False}
    values = True, config.experts, config.chosen_experts, config.expert_width
    return dict(zip(_OF_EXPERTS, values, strict=True))


def _split_full(parts: int) -> Callable[[ndarray, OpenSettings], list[ndarray]]:
    """Split the rows of a block that attends to all. parts: how many: queries, keys, and perhaps values."""

    def split(array: ndarray, config: OpenSettings) -> list[ndarray]:
        width = config.full_head_width or config.width_of_heads
        keys = (config.full_key_value_heads or config.key_heads) * width
        borders = np.cumsum([0, config.heads * width, *[keys] * (parts - 1)]).tolist()
        return [array[begin:end] for begin, end in pairwise(borders)]

    return split


def _together(tensors: list[ndarray], config: OpenSettings) -> ndarray:
    return np.concatenate(tensors)


def _has_own(config: OpenSettings, layer: int) -> bool:
    return config.keys_from(layer) is None


def _has_full_keys(config: OpenSettings, layer: int) -> bool:
    return _has_own(config, layer) and config.is_full(layer)


_OURS = _BLOCK + "attention.query_key_value.weight"
_QUERY, _KEY, _VALUE = (f"{_LAYER}self_attn.{name}_proj.weight" for name in "qkv")
_ATTENTION = (
    Tensor(
        _OURS,
        (_QUERY, _KEY, _VALUE),
        QUERY_KEY_VALUE,
        in_layer=lambda config, layer: _has_own(config, layer) and not config.is_full(layer),
    ),
    Tensor(
        _OURS,
        (_QUERY, _KEY, _VALUE),
        Change(_together, _split_full(3)),
        in_layer=lambda config, layer: _has_full_keys(config, layer) and not config.keys_as_values,
    ),
    Tensor(
        _OURS,
        (_QUERY, _KEY),
        Change(_together, _split_full(2)),
        in_layer=lambda config, layer: _has_full_keys(config, layer) and config.keys_as_values,
    ),
    Tensor(_OURS, _QUERY, in_layer=lambda config, layer: not _has_own(config, layer)),
)

_BESIDE = _BLOCK + "experts_beside."
_EXPERTS = (
    Tensor(_BESIDE + "experts.router.weight", _LAYER + "router.proj.weight"),
    Tensor(_BESIDE + "gain", _LAYER + "router.scale"),
    Tensor(_BESIDE + "factors", _LAYER + "router.per_expert_scale"),
    Tensor(_BESIDE + "experts.experts.{expert}.up.weight", _LAYER + "experts.gate_up_proj", of_experts=True),
    Tensor(_BESIDE + "experts.experts.{expert}.down.weight", _LAYER + "experts.down_proj", of_experts=True),
    Tensor(_BESIDE + "norms.0.weight", _LAYER + "post_feedforward_layernorm_1.weight"),
    Tensor(_BESIDE + "norms.1.weight", _LAYER + "pre_feedforward_layernorm_2.weight"),
    Tensor(_BESIDE + "norms.2.weight", _LAYER + "post_feedforward_layernorm_2.weight"),
)

GEMMA4 = replace(
    GEMMA2,
    model_type="gemma4_text",
    class_name="Gemma4ForCausalLM",
    implied={
        **GEMMA2.implied,
        "gains_above_one": False,
        "query_key_norm": True,
        "value_norm": True,
        "attention_scale": 1.0,
        "block_scales": True,
    },
    settings=(
        Setting("num_hidden_layers", "layers", 30),
        Setting("hidden_size", "width", 2304),
        Setting("num_attention_heads", "heads", 8),
        Setting("num_key_value_heads", "key_value_heads", 4),
        Setting("intermediate_size", "feed_forward_width", 9216),
        Setting("max_position_embeddings", "context", 131_072),
        Setting("rms_norm_eps", "norm_epsilon", 1e-6),
        Setting("head_dim", "head_width", 256),
        Setting("tie_word_embeddings", "tied", True),
        Setting("num_kv_shared_layers", "shared_key_layers", 0),
        Setting("use_double_wide_mlp", "wide_shared_blocks", False),
        ACTIVATION,
        Rule(_WINDOWS.fields, _read_windows, _WINDOWS.write),
        Rule(_OF_FULL, _read_full, _write_full),
        Rule(("rope_parameters",), _read_two_ropes, _write_two_ropes),
        Rule(("hidden_size_per_layer_input", "vocab_size_per_layer_input"), _read_layer_inputs, _write_layer_inputs),
        cap("final_logit_softcapping", "logit_cap", None),
        Rule(_OF_EXPERTS, _read_experts, _write_experts),
    ),
    tensors=(
        *(row for row in GEMMA2.tensors if row.ours != _OURS and not row.ours.endswith(".bias")),
        *_ATTENTION,
        *QUERY_KEY_GAINS,
        Tensor("embedding.beside", "model.embed_tokens_per_layer.weight", by_token=True),
        Tensor("encoder.layer_inputs.projection.weight", "model.per_layer_model_projection.weight"),
        Tensor("encoder.layer_inputs.norm.weight", "model.per_layer_projection_norm.weight"),
        Tensor(_BLOCK + "layer_input.gate.weight", _LAYER + "per_layer_input_gate.weight"),
        Tensor(_BLOCK + "layer_input.out.weight", _LAYER + "per_layer_projection.weight"),
        Tensor(_BLOCK + "layer_input.norm.weight", _LAYER + "post_per_layer_input_norm.weight"),
        Tensor(_BLOCK + "block_scale", _LAYER + "layer_scalar"),
        *_EXPERTS,
    ),
    fixed={"attention_bias": False, "use_bidirectional_attention": None},
)
