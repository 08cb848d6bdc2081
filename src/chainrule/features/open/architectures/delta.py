"""Models with the gated delta rule in three of four layers, and attention with gates in the fourth: Qwen3-Next (Qwen
Team 2025), Qwen 3.5 (2026) with experts and without.

Qwen3-Next has one tensor for what Qwen 3.5 has in two, head of keys by head of keys.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.features.open.architecture import GATED, Change, Rule, Setting, Tensor
from chainrule.features.open.architectures.llama import LLAMA, MIXTRAL, QUERY_KEY_GAINS, sparse
from chainrule.features.open.architectures.llama_kin import with_settings
from chainrule.features.open.architectures.recurrent import mixers
from chainrule.features.open.architectures.shared_experts import QWEN2_MOE
from chainrule.features.open.positions import rotary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy import ndarray

    from chainrule.features.open.network.config import OpenSettings

    Json = dict[str, Any]

_BLOCK, _LAYER = "encoder.blocks.{layer}.", "model.layers.{layer}."
_FED = _BLOCK + "feed_forward."


def _with_gates_apart(tensors: list[ndarray], config: OpenSettings) -> ndarray:
    query, key, value = tensors
    shape = query.shape[1:]
    both = query.reshape(config.heads, 2, config.width_of_heads, *shape)
    return np.concatenate([both[:, 0].reshape(-1, *shape), key, value, both[:, 1].reshape(-1, *shape)])


def _with_gates_beside(array: ndarray, config: OpenSettings) -> list[ndarray]:
    width, keys, shape = config.heads * config.width_of_heads, config.key_heads * config.width_of_heads, array.shape[1:]
    query, key, value, gate = np.split(array, [width, width + keys, width + 2 * keys])
    heads = (config.heads, -1, *shape)
    return [np.stack([query.reshape(heads), gate.reshape(heads)], 1).reshape(-1, *shape), key, value]


# Queries with their gates, head by head, then keys and values -> queries, keys, values, gates.
_GATED_QUERIES = Change(_with_gates_apart, _with_gates_beside)


def _read_delta(config: Json) -> Json:
    heads, width = config.get("linear_num_value_heads", 32), config.get("linear_value_head_dim", 128)
    return {"recurrence_heads": heads, "recurrence_width": heads * width}


def _write_delta(config: OpenSettings) -> Json:
    heads = config.recurrence_heads
    return {"linear_num_value_heads": heads, "linear_value_head_dim": config.recurrence_width // heads}


_DELTA = _LAYER + "linear_attn."

QWEN3_5 = replace(
    LLAMA,
    model_type="qwen3_5_text",
    class_name="Qwen3_5ForCausalLM",
    implied={
        **LLAMA.implied,
        "query_key_norm": True,
        "gains_above_one": True,
        "gated_attention": True,
    },
    settings=(
        Setting("num_hidden_layers", "layers"),
        Setting("hidden_size", "width"),
        Setting("num_attention_heads", "heads"),
        Setting("num_key_value_heads", "key_value_heads", 4),
        Setting("intermediate_size", "feed_forward_width"),
        Setting("max_position_embeddings", "context", 32_768),
        Setting("rms_norm_eps", "norm_epsilon", 1e-6),
        Setting("hidden_act", "feed_forward", "silu", {"silu": GATED["silu"]}),
        Setting("head_dim", "head_width", 256),
        Setting("tie_word_embeddings", "tied", False),
        Setting("linear_num_key_heads", "recurrence_key_heads", 16),
        Setting("linear_key_head_dim", "state_width", 128),
        Setting("linear_conv_kernel_dim", "recurrence_kernel", 4),
        Rule(("linear_num_value_heads", "linear_value_head_dim"), _read_delta, _write_delta),
        mixers(
            "linear_attention",
            "delta",
            lambda config, layer: (layer + 1) % config.get("full_attention_interval", 4) == 0,
            "full_attention_interval",
        ),
        rotary(share=0.25),
    ),
    tensors=(
        *(row for row in LLAMA.tensors if "query_key_value" not in row.ours and not row.ours.endswith(".bias")),
        Tensor(
            _BLOCK + "attention.query_key_value.weight",
            tuple(f"{_LAYER}self_attn.{name}_proj.weight" for name in "qkv"),
            _GATED_QUERIES,
        ),
        *QUERY_KEY_GAINS,
        Tensor(_BLOCK + "recurrence.into.weight", _DELTA + "in_proj_qkv.weight"),
        Tensor(_BLOCK + "recurrence.gate.weight", _DELTA + "in_proj_z.weight"),
        Tensor(_BLOCK + "recurrence.strength.weight", _DELTA + "in_proj_b.weight"),
        Tensor(_BLOCK + "recurrence.decay.weight", _DELTA + "in_proj_a.weight"),
        Tensor(_BLOCK + "recurrence.convolution.weight", _DELTA + "conv1d.weight"),
        Tensor(_BLOCK + "recurrence.decay_bias", _DELTA + "dt_bias"),
        Tensor(_BLOCK + "recurrence.log_decay", _DELTA + "A_log"),
        Tensor(_BLOCK + "recurrence.gain", _DELTA + "norm.weight"),
        Tensor(_BLOCK + "recurrence.out.weight", _DELTA + "out_proj.weight"),
    ),
    fixed={"attention_bias": False, "attn_output_gate": True},
    ignored=(*LLAMA.ignored, "mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"),
    ignored_tensors=(r"mtp\..*",),
)

QWEN3_5_MOE = replace(
    QWEN3_5,
    model_type="qwen3_5_moe_text",
    class_name="Qwen3_5MoeForCausalLM",
    implied={**QWEN3_5.implied, "gated_shared_expert": True, "normalised_experts": True},
    settings=with_settings(
        QWEN3_5.settings,
        sparse(256, 512, 5632),
        Setting("num_key_value_heads", "key_value_heads", 2),
        Setting("shared_expert_intermediate_size", "shared_expert_width", 512),
        Setting("num_experts_per_tok", "chosen_experts", 8),
    ),
    tensors=(
        *(row for row in QWEN3_5.tensors if not row.ours.startswith(_FED)),
        *(row for row in QWEN2_MOE.tensors if row.ours.startswith(_FED)),
    ),
    ignored=(*QWEN3_5.ignored, *MIXTRAL.ignored),
)


def _widths(config: OpenSettings) -> list[int]:
    """Return the rows of queries, keys, values and gates for one head of keys."""
    values = config.recurrence_width // config.recurrence_key_heads
    return [config.state_width, config.state_width, values, values]


def _heads(config: OpenSettings) -> list[int]:
    """Return the rows of strengths and of decays for one head of keys."""
    return [config.recurrence_heads // config.recurrence_key_heads] * 2


def _parts(sizes: Callable[[OpenSettings], list[int]], first: int, last: int) -> Change:
    """Return the change of some parts of a tensor that has all of them for each head of keys.

    sizes: a function that gives the rows of each part. first, last: the first part, and the one after the last.
    """

    def to_ours(tensors: list[ndarray], config: OpenSettings) -> ndarray:
        [array] = tensors
        by_head = array.reshape(config.recurrence_key_heads, -1, *array.shape[1:])
        borders = np.cumsum([0, *sizes(config)]).tolist()[first : last + 1]
        parts = [by_head[:, begin:end] for begin, end in pairwise(borders)]
        return np.concatenate([part.reshape(-1, *array.shape[1:]) for part in parts])

    def to_theirs(array: ndarray, config: OpenSettings) -> list[ndarray]:
        heads = config.recurrence_key_heads
        borders = heads * np.cumsum(sizes(config)[first : last - 1])
        parts = np.split(array, borders.tolist())
        return [np.concatenate([part.reshape(heads, -1, *array.shape[1:]) for part in parts], 1)]

    return Change(to_ours, to_theirs)


_JOINT: Mapping[str, tuple[str, Change]] = {
    "into": ("in_proj_qkvz", _parts(_widths, 0, 3)),
    "gate": ("in_proj_qkvz", _parts(_widths, 3, 4)),
    "strength": ("in_proj_ba", _parts(_heads, 0, 1)),
    "decay": ("in_proj_ba", _parts(_heads, 1, 2)),
}
_OURS = {f"{_BLOCK}recurrence.{name}.weight" for name in _JOINT}

QWEN3_NEXT = replace(
    QWEN3_5_MOE,
    model_type="qwen3_next",
    class_name="Qwen3NextForCausalLM",
    settings=with_settings(
        QWEN3_5_MOE.settings,
        sparse(512, 512, 5632),
        Setting("num_experts_per_tok", "chosen_experts", 10),
        Setting("norm_topk_prob", "normalised_experts", True),
    ),
    tensors=(
        *(row for row in QWEN3_5_MOE.tensors if row.ours not in _OURS),
        *(
            Tensor(f"{_BLOCK}recurrence.{ours}.weight", f"{_DELTA}{theirs}.weight", change, in_groups=True)
            for ours, (theirs, change) in _JOINT.items()
        ),
    ),
    fixed={"attention_bias": False, "use_sliding_window": False},
)
