"""The metadata of a GGUF file that say what a network is, and the tensors that hold its angles' divisors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chainrule.features.open.gguf.reading import DIVISORS, LONG, SHORT
from chainrule.features.seq2seq.network.config import Seq2SeqConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import ndarray

    from chainrule.features.open.network.config import OpenSettings

    Json = dict[str, Any]

_POOLINGS = {"mean": 1, "first": 2, "last": 3}
_WITH_PATTERN = ("olmo2", "gemma4")  # whose files say which layers have a window; of others, llama.cpp knows it
_WITH_SCALES = ("granite", "granitemoe", "granitehybrid")
_WITHOUT_WINDOWS = ("llama", "starcoder2", "phi3")  # in llama.cpp
_LAYERS_OF_EXAONE = 64  # of the only size that has windows there
WITHOUT_FACTORS: Json = {
    "attention_scale": None,
    **dict.fromkeys(("attention_out_scale", "recurrence_scale", "embedding_scale", "logit_scale"), 1.0),
    **dict.fromkeys(("recurrence_scales", "feed_forward_scales"), ()),
}


def what_llama_cpp_lacks(name: str, config: OpenSettings) -> str | None:
    """Return what of a network llama.cpp would compute otherwise, or not load; None where there is nothing.

    name: of its architecture.
    """
    shared = [layer for layer in range(config.layers) if config.keys_from(layer) is not None]
    owners = config.layers - len(shared)
    biased = "its convolutions" if "convolution" in config.mixers else "Mamba's products"
    reasons = {
        "with biases": config.biases and name in ("ernie4_5", "deepseek2"),
        f"with biases of {biased}": config.is_stateful and config.recurrence_biases,
        "whose heads of keys and of values differ in width": (
            "delta" in config.mixers and config.recurrence_width != config.recurrence_heads * config.state_width
        ),
        "with a norm before the gate": config.recurrence_norm == "before" and "attention_mamba2" in config.mixers,
        "whose output is tied and has another factor": (
            name == "falcon-h1" and config.tied and config.embedding_scale != config.logit_scale
        ),
        "without a vector of queries, but of 26 or 27 layers": (
            name == "deepseek2" and config.query_rank is None and config.layers not in (26, 27)
        ),
        "with fewer heads of keys than of queries": name == "olmoe" and config.key_heads != config.heads,
        "with feed-forward layers beside those of experts": name == "nemotron_h_moe" and bool(config.dense_layers),
        f"with windows, but of {_LAYERS_OF_EXAONE} layers": (
            name == "exaone4" and config.window is not None and config.layers != _LAYERS_OF_EXAONE
        ),
        "whose groups of experts are chosen by the best one": (
            name == "deepseek2" and config.router != "sigmoid" and config.expert_groups > 1
        ),
        "with another amplitude of rotated queries than of scores": (
            name == "deepseek2" and config.rotary_scaling != "none" and config.rotary_amplitude != 1
        ),
        "whose shared keys are not those of the last two layers before": any(
            config.keys_from(layer) != owners - 1 - config.has_window(layer) for layer in shared
        ),
    }
    return next((reason for reason, is_so in reasons.items() if is_so), None)


def what_llama_cpp_ignores(name: str, config: OpenSettings | Seq2SeqConfig) -> str | None:
    """Return what llama.cpp does not compute with, for a warning; None where there is nothing."""
    if isinstance(config, Seq2SeqConfig):
        return (
            "llama.cpp does not scale the tied output of a T5: it finds the same likeliest tokens, at other "
            "probabilities"
            if config.scaled_output
            else None
        )
    if name in _WITHOUT_WINDOWS and config.window is not None and config.window < config.context:
        return (
            f"llama.cpp has no windows of attention for {name}: after {config.window:,} tokens, its numbers differ "
            "from those here"
        )
    return None


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


def pair_metadata(config: Seq2SeqConfig, said: Json) -> Json:
    """Return what the file of a T5 says. said: its config.json."""
    return {
        "context_length": said.get("n_positions", 512),
        "block_count": config.encoder_layers,
        "decoder_block_count": config.decoder_layers,
        "embedding_length": config.width,
        "feed_forward_length": said["d_ff"],
        "attention.head_count": config.heads,
        **{f"attention.{part}_length": said["d_kv"] for part in ("key", "value")},
        **{f"attention.layer_norm_{kind}epsilon": config.norm_epsilon for kind in ("", "rms_")},
        "attention.relative_buckets_count": 32,
        "decoder_start_token_id": said["decoder_start_token_id"],
    }


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
    if config.key_rank is not None:  # whose multiplier is in another field
        return said
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
    half = config.rotated_width // 2  # all three positions of a text are the same
    return {**_of_delta(config), "rope.dimension_sections": [half, 0, 0, 0]}


def _of_delta(config: OpenSettings) -> Json:
    """Return which layers attend, of which all have heads of keys there."""
    every = next((layer + 1 for layer in range(config.layers) if config.attends(layer)), 4)
    return {"full_attention_interval": every, "attention.head_count_kv": config.key_heads}


def _of_lfm2moe(config: OpenSettings) -> Json:
    names = ("feed_forward_length", "leading_dense_block_count", "expert_gating_func")
    return {name: value for name, value in _of_routed(config).items() if name in names}


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
        "final_logit_softcapping": config.logit_cap or 0.0,  # 30 where a file does not say it
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
        "expert_gating_func": 2 if config.router == "sigmoid" else 1,
        "expert_weights_scale": config.routed_scale,
        "expert_weights_norm": config.normalised_experts,
        "expert_group_count": config.expert_groups,
        "expert_group_used_count": config.chosen_groups,
        "nextn_predict_layers": 0,
    }


def _of_nemotron_h(config: OpenSettings) -> Json:
    fed = [config.hidden_width_of(layer) * config.is_fed(layer) for layer in range(config.layers)]
    epsilon = {f"attention.layer_norm_{kind}epsilon": config.epsilon for kind in ("", "rms_")}
    widths = {f"attention.{part}_length": config.width_of_heads for part in ("key", "value")}
    return {"feed_forward_length": fed, **epsilon, **widths, "rope.dimension_count": config.width_of_heads}


def _of_deepseek(config: OpenSettings) -> Json:
    """Return the sizes of latent attention, whose keys are those of one head there."""
    rank = cast("int", config.key_rank)
    said: Json = {
        **_of_routed(config),
        **({} if config.query_rank is None else {"attention.q_lora_rank": config.query_rank}),
        "attention.kv_lora_rank": rank,
        "attention.key_length": rank + config.rotated_width,
        "attention.value_length": rank,
        "attention.key_length_mla": config.width_of_heads,
        "attention.value_length_mla": config.width_of_values,
        "attention.head_count_kv": 1,
    }
    if config.rotary_scaling == "yarn" and config.attention_scale is not None:
        amplitude = math.sqrt(config.attention_scale * math.sqrt(config.width_of_heads))
        said["rope.scaling.yarn_log_multiplier"] = (amplitude - 1) / math.log(config.rotary_factor)
    return said


def _of_falcon_h1(config: OpenSettings) -> Json:
    return {"attention.head_count_kv": config.key_heads}


def _of_granite4(config: OpenSettings) -> Json:
    return {
        "rope.scaling.finetuned": config.positions == "rotary",
        "rope.dimension_count": config.width_of_heads,
        "feed_forward_length": config.hidden_width,
    }


def _parallel(config: OpenSettings) -> Json:
    return {"use_parallel_residual": config.parallel}


def _of_starcoder(config: OpenSettings) -> Json:
    """Return the form of gelu, of which llama.cpp has one alone."""
    form = {"gelu": "gelu_pytorch_tanh", "gelu_exact": "gelu"}.get(config.feed_forward)
    return {} if form is None else {"hidden_activation": form}


_MORE: dict[str, Callable[[OpenSettings], Json]] = {
    "gptneox": _parallel,
    "stablelm": _parallel,
    "command-r": lambda config: {"logit_scale": config.logit_scale},
    "cohere2": lambda config: {"logit_scale": config.logit_scale},
    "qwen35": _of_qwen35,
    "qwen35moe": _of_qwen35,
    "qwen3next": _of_delta,
    "lfm2moe": _of_lfm2moe,
    "gemma4": _of_gemma4,
    "mistral3": lambda config: {
        "attention.temperature_scale": config.query_growth,
        "attention.temperature_length": config.rotary_trained_context,
    },
    "olmoe": lambda config: {"feed_forward_length": config.hidden_width},
    "glm4moe": _of_routed,
    "starcoder": _of_starcoder,
    "mamba": lambda config: {"ssm.dt_b_c_rms": config.selection_epsilon is not None},
    "deepseek2": _of_deepseek,
    "falcon-h1": _of_falcon_h1,
    "granitehybrid": _of_granite4,
    "nemotron_h": _of_nemotron_h,
    "nemotron_h_moe": lambda config: {**_of_routed(config), **_of_nemotron_h(config)},
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
