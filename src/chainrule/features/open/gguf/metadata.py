"""The metadata of a GGUF file that say what a network is, and the tensors that hold its angles' divisors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.features.open.gguf.reading import DIVISORS, LONG, SHORT

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import ndarray

    from chainrule.features.open.network.config import OpenSettings

    Json = dict[str, Any]

_POOLINGS = {"mean": 1, "first": 2, "last": 3}
_WITH_PATTERN = ("olmo2", "gemma4")  # whose files say which layers have a window; of others, llama.cpp knows it
_WITH_SCALES = ("granite", "granitehybrid")


def network_metadata(name: str, config: OpenSettings) -> Json:
    """Return what a file says of a network, less the name of the architecture before each. name: that one."""
    said: Json = {
        "block_count": config.layers,
        "context_length": config.context,
        "embedding_length": config.width,
        "feed_forward_length": config.hidden_width,
        "attention.head_count": config.heads,
        "attention.head_count_kv": config.key_heads,
        f"attention.layer_norm_{'rms_' if config.norm == 'rms' else ''}epsilon": config.epsilon,
    }
    if config.positions == "rotary":
        said |= {
            "attention.key_length": config.width_of_heads,
            "attention.value_length": config.width_of_values,
            "rope.dimension_count": config.rotated_width,
            "rope.freq_base": config.rotary_base,
            **_scaling(config),
        }
    if config.window is not None:
        said["attention.sliding_window"] = config.window
        if name in _WITH_PATTERN:
            said["attention.sliding_window_pattern"] = [config.has_window(layer) for layer in range(config.layers)]
        if config.window_rotary_base is not None:
            said["rope.freq_base_swa"] = config.window_rotary_base
    for key, cap in (("attn_logit_softcapping", config.score_cap), ("final_logit_softcapping", config.logit_cap)):
        if cap is not None:
            said[key] = cap
    if name in _WITH_SCALES:
        scale = config.width_of_heads**-0.5 if config.attention_scale is None else config.attention_scale
        said |= {"attention.scale": scale, "logit_scale": 1 / config.logit_scale}
        said |= {"embedding_scale": config.embedding_scale, "residual_scale": config.residual_scale}
    if config.experts:
        said |= _experts(config)
        if name == "llama":
            del said["expert_feed_forward_length"]
    if config.is_bidirectional:
        said["attention.causal"] = False
        said["pooling_type"] = _POOLINGS.get(getattr(config, "text_pooling", "mean"), 1)
    if config.is_stateful:
        said |= _states(config)
    more = _MORE.get(name)
    return said if more is None else {**said, **more(config)}


def _scaling(config: OpenSettings) -> Json:
    kind, amplitude = config.rotary_scaling, config.rotary_amplitude
    if kind == "linear":
        return {"rope.scaling.type": kind, "rope.scaling.factor": config.rotary_factor}
    if kind not in ("yarn", "longrope"):
        return {}
    said: Json = {"rope.scaling.original_context_length": config.rotary_trained_context}
    if kind == "longrope":
        return {**said, "rope.scaling.attn_factor": amplitude}
    said |= {"rope.scaling.type": kind, "rope.scaling.factor": config.rotary_factor}
    said |= {"rope.scaling.yarn_beta_fast": config.rotary_high_factor}
    said |= {"rope.scaling.yarn_beta_slow": config.rotary_low_factor}
    share = amplitude / (1 + 0.1 * math.log(config.rotary_factor))  # of what llama.cpp multiplies by in any case
    return said if math.isclose(share, 1) else {**said, "rope.scaling.attn_factor": share}


def _experts(config: OpenSettings) -> Json:
    said: Json = {
        "expert_count": config.experts,
        "expert_used_count": config.chosen_experts,
        "expert_feed_forward_length": config.expert_width or config.hidden_width,
    }
    if config.shared_expert_width:
        said["expert_shared_feed_forward_length"] = config.shared_expert_width
    return said


def _states(config: OpenSettings) -> Json:
    """Return the sizes of states. Blocks without attention have no heads of keys."""
    has_attention = any(map(config.attends, range(config.layers)))
    heads = [config.key_heads * config.attends(layer) for layer in range(config.layers)]
    said: Json = {"attention.head_count_kv": heads} if has_attention else {"attention.head_count": 0}
    if not has_attention:
        said |= {"attention.head_count_kv": 0, "feed_forward_length": 0}
    if "convolution" in config.mixers:
        return {**said, "shortconv.l_cache": config.recurrence_kernel}
    is_first = "mamba" in config.mixers
    said |= {
        "ssm.conv_kernel": config.recurrence_kernel,
        "ssm.inner_size": config.recurrence_width,
        "ssm.state_size": config.state_width,
        "ssm.time_step_rank": config.step_rank if is_first else config.recurrence_heads,
    }
    return said if is_first else {**said, "ssm.group_count": config.recurrence_key_heads}


def _of_qwen35(config: OpenSettings) -> Json:
    every = next((layer + 1 for layer in range(config.layers) if config.attends(layer)), 4)
    half = config.rotated_width // 2  # all three positions of a text are the same
    sections = {"rope.dimension_sections": [half, 0, 0, 0], "full_attention_interval": every}
    return {**sections, "attention.head_count_kv": config.key_heads}


def _of_gemma4(config: OpenSettings) -> Json:
    full = config.full_head_width or config.width_of_heads
    widths = [config.hidden_width_of(layer) for layer in range(config.layers)]
    heads = [config.key_heads_of(layer) for layer in range(config.layers)]
    return {
        **{f"attention.{part}_length": full for part in ("key", "value")},
        **{f"attention.{part}_length_swa": config.width_of_heads for part in ("key", "value")},
        "rope.dimension_count": full,
        "rope.dimension_count_swa": config.width_of_heads,
        "attention.shared_kv_layers": config.shared_key_layers,
        "embedding_length_per_layer_input": config.layer_input_width,
        "feed_forward_length": widths if len(set(widths)) > 1 else widths[0],
        "attention.head_count_kv": heads if len(set(heads)) > 1 else heads[0],
    }


def _of_routed(config: OpenSettings) -> Json:
    """Return how experts are chosen, which the sigmoid of DeepSeek V3 does in groups."""
    dense = len(config.dense_layers)
    return {
        "feed_forward_length": config.dense_width or config.hidden_width,
        "leading_dense_block_count": dense if config.dense_layers == tuple(range(dense)) else 0,
        "expert_shared_count": config.shared_expert_width // config.hidden_width,
        "expert_gating_func": 2,
        "expert_weights_scale": config.routed_scale,
        "expert_weights_norm": config.normalised_experts,
        "expert_group_count": config.expert_groups,
        "expert_group_used_count": config.chosen_groups,
        "nextn_predict_layers": 0,
    }


def _of_nemotron_h(config: OpenSettings) -> Json:
    fed = [config.hidden_width * config.is_fed(layer) for layer in range(config.layers)]
    epsilon = {f"attention.layer_norm_{kind}epsilon": config.epsilon for kind in ("", "rms_")}
    widths = {f"attention.{part}_length": config.width_of_heads for part in ("key", "value")}
    return {"feed_forward_length": fed, **epsilon, **widths, "rope.dimension_count": config.width_of_heads}


def _parallel(config: OpenSettings) -> Json:
    return {"use_parallel_residual": config.parallel}


_MORE: dict[str, Callable[[OpenSettings], Json]] = {
    "gptneox": _parallel,
    "stablelm": _parallel,
    "command-r": lambda config: {"logit_scale": config.logit_scale},
    "cohere2": lambda config: {"logit_scale": config.logit_scale},
    "qwen35": _of_qwen35,
    "gemma4": _of_gemma4,
    "mistral3": lambda config: {
        "attention.temperature_scale": config.query_growth,
        "attention.temperature_length": config.rotary_trained_context,
    },
    "olmoe": lambda config: {"feed_forward_length": config.hidden_width},
    "glm4moe": _of_routed,
    "mamba": lambda config: {"ssm.dt_b_c_rms": config.selection_epsilon is not None},
    "granitehybrid": lambda config: {
        "rope.scaling.finetuned": config.positions == "rotary",
        "rope.dimension_count": config.width_of_heads,
        "feed_forward_length": config.hidden_width,
    },
    "nemotron_h": _of_nemotron_h,
    "modern-bert": lambda config: {"attention.sliding_window": 2 * ((config.window or 1) - 1)},
}


def angles(config: OpenSettings) -> dict[str, ndarray]:
    """Return the tensors by which angles are divided."""
    if config.positions != "rotary":
        return {}
    if config.rotary_scaling == "longrope":
        both = {LONG: config.rotary_long_divisors, SHORT: config.rotary_divisors}
        return {name: np.array(divisors, np.float32) for name, divisors in both.items()}
    if config.rotary_turning is not None:
        pairs = (config.full_head_width or config.width_of_heads) // 2
        return {DIVISORS: np.where(np.arange(pairs) < config.rotary_turning, 1, 1e30).astype(np.float32)}
    if config.rotary_scaling != "llama3":
        return {}
    waves = config.rotary_base ** -(np.arange(0, config.rotated_width, 2) / config.rotated_width)
    turns = waves * config.rotary_trained_context / (2 * math.pi)
    low, high = config.rotary_low_factor, config.rotary_high_factor
    share = np.clip((turns - low) / (high - low), 0, 1)
    return {DIVISORS: (1 / (share + (1 - share) / config.rotary_factor)).astype(np.float32)}
