"""gpt-oss (OpenAI 2025): experts with biases and a clamped gate, sinks in attention, and windows in every other layer.

The gates of an expert and what they multiply take turns in one matrix, and the matrices of all experts are one tensor.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.features.open.architecture import TRANSPOSED, Change, Rule, Setting, Tensor, weight_and_bias
from chainrule.features.open.architectures.llama import LLAMA
from chainrule.features.open.positions import layer_types, rotary

if TYPE_CHECKING:
    from numpy import ndarray

    from chainrule.features.open.network.config import OpenSettings

    Json = dict[str, Any]

_BLOCK, _LAYER = "encoder.blocks.{layer}.", "model.layers.{layer}."
_EXPERT, _EXPERTS = _BLOCK + "feed_forward.experts.{expert}.", _LAYER + "mlp.experts."
_ROPE = rotary(base=150_000.0)
_SCALING: Json = {  # where config.json has none
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}


def _read_rope(config: Json) -> Json:
    scaled = any(config.get(name) for name in ("rope_scaling", "rope_parameters"))
    return _ROPE.read(config if scaled else {**config, "rope_scaling": _SCALING})


def _read_biases(config: Json) -> Json:
    return {"without_biases": () if config.get("attention_bias", True) else ("query_key_value", "attention_out")}


def _write_biases(config: OpenSettings) -> Json:
    return {"attention_bias": config.has_biases("attention_out")}


def _first_half(array: ndarray) -> ndarray:
    """Return rows that take turns, as first one kind and then the other."""
    return np.concatenate([array[0::2], array[1::2]])


def _taking_turns(array: ndarray) -> ndarray:
    first, second = np.split(array, 2)
    return np.stack([first, second], 1).reshape(array.shape)


_GATES = Change(lambda tensors, config: _first_half(tensors[0].T), lambda array, config: [_taking_turns(array).T])
_GATE_BIASES = Change(lambda tensors, config: _first_half(tensors[0]), lambda array, config: [_taking_turns(array)])

_OWN = {"rms_norm_eps", "hidden_act", "head_dim", "num_key_value_heads", "max_position_embeddings"}

GPT_OSS = replace(
    LLAMA,
    model_type="gpt_oss",
    class_name="GptOssForCausalLM",
    implied={
        **LLAMA.implied,
        "biases": True,
        "feed_forward": "clamped_swiglu",
        "attention_sinks": True,
        "router_bias": True,
        "normalised_experts": True,
    },
    settings=(
        *(row for row in LLAMA.settings if isinstance(row, Setting) and row.theirs not in _OWN),
        Setting("rms_norm_eps", "norm_epsilon", 1e-5),
        Setting("head_dim", "head_width", 64),
        Setting("num_key_value_heads", "key_value_heads", 8),
        Setting("max_position_embeddings", "context", 131_072),
        Setting("num_local_experts", "experts", 128),
        Setting("num_experts_per_tok", "chosen_experts", 4),
        Rule(("attention_bias",), _read_biases, _write_biases),
        Rule(_ROPE.fields, _read_rope, _ROPE.write),
        layer_types(lambda config, layer: layer % 2 == 0),
    ),
    tensors=(
        *(row for row in LLAMA.tensors if not row.ours.startswith(_BLOCK + "feed_forward.")),
        Tensor(_BLOCK + "attention.sinks", _LAYER + "self_attn.sinks"),
        *weight_and_bias(_BLOCK + "feed_forward.router", _LAYER + "mlp.router"),
        Tensor(_EXPERT + "up.weight", _EXPERTS + "gate_up_proj", _GATES, of_experts=True),
        Tensor(_EXPERT + "up.bias", _EXPERTS + "gate_up_proj_bias", _GATE_BIASES, of_experts=True),
        Tensor(_EXPERT + "down.weight", _EXPERTS + "down_proj", TRANSPOSED, of_experts=True),
        Tensor(_EXPERT + "down.bias", _EXPERTS + "down_proj_bias", of_experts=True),
    ),
    fixed={"hidden_act": "silu", "swiglu_alpha": 1.702, "swiglu_limit": 7.0},
    ignored=(
        *LLAMA.ignored,
        *("output_router_logits", "router_aux_loss_coef", "experts_per_token", "initial_context_length"),
    ),
)
