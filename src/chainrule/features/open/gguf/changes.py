"""What llama.cpp's converter changed in tensors, undone; and fields of config.json that a GGUF file does not have.

A `Change` takes a tensor; a `More` takes a config.json so far, from which it may take fields away, and the file's
tensors, and returns further fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.bfloat16 import widen

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import ndarray

    from chainrule.features.open.gguf.file import Tensors

    Json = dict[str, Any]
    Change = Callable[[ndarray, Json], ndarray]  # given a config.json
    More = Callable[[Json, Tensors], Json]


def query_scale(large: int) -> More:
    """Return a function that gives the scale of Gemma's queries: by the width of a head, but in its largest model,
    which has `large` layers, by the width for each head.
    """

    def more(config: Json, tensors: Tensors) -> Json:
        width = config.get("head_dim") or 256
        if config["num_hidden_layers"] == large:
            width = config["hidden_size"] // config["num_attention_heads"]
        return {"query_pre_attn_scalar": width}

    return more


def tied(config: Json, tensors: Tensors) -> Json:
    return {"tie_word_embeddings": True}


def of_convolutions(config: Json, tensors: Tensors) -> Json:
    """Return the kinds of LFM2's layers: those without heads of keys have a convolution."""
    heads = config.pop("num_key_value_heads", None)
    said: Json = {"block_auto_adjust_ff_dim": False}
    if isinstance(heads, list):
        said["layer_types"] = ["full_attention" if own else "conv" for own in heads]
        said["num_key_value_heads"] = max(heads, default=None)
    return said


def of_states(config: Json, tensors: Tensors) -> Json:
    inner = config.pop("ssm.inner_size", 2 * config["hidden_size"])
    return {"expand": inner / config["hidden_size"], "use_bias": False, "use_conv_bias": True}


def of_heads(config: Json, tensors: Tensors) -> Json:
    """Return the sizes of Mamba 2's states, by heads."""
    inner, heads = config.pop("ssm.inner_size", 2 * config["hidden_size"]), config.get("num_heads") or 1
    said = {"expand": inner / config["hidden_size"], "head_dim": inner // heads}
    return {**said, "use_bias": False, "use_conv_bias": True}


def of_delta(config: Json, tensors: Tensors) -> Json:
    """Return the width of Qwen 3.5's values, by heads."""
    inner, heads = config.pop("ssm.inner_size", 0), config.get("linear_num_value_heads") or 1
    return {"linear_value_head_dim": inner // heads}


def of_falcon(config: Json, tensors: Tensors) -> Json:
    """Return the fields of Falcon: without a head of keys for all queries, it is a new decoder, with one norm or
    two.
    """
    has_two = "blk.0.attn_norm_2.weight" in tensors
    is_new = has_two or config.get("num_kv_heads") != 1
    said: Json = {"new_decoder_architecture": is_new, "multi_query": not is_new, "alibi": False}
    return {**said, "num_ln_in_parallel_attn": 1 + has_two if is_new else None, "bias": "blk.0.ffn_up.bias" in tensors}


def of_yarn(config: Json, tensors: Tensors) -> Json:
    """Return the scaling without rounding: gpt-oss does not round the ends of YaRN's ramp to whole pairs."""
    scaling = config.get("rope_scaling")
    return {"rope_scaling": {**scaling, "truncate": False}} if isinstance(scaling, dict) else {}


def of_neox(config: Json, tensors: Tensors) -> Json:
    return {"rotary_pct": config.pop("partial_rotary_factor", 1.0)}


def of_gemma4(config: Json, tensors: Tensors) -> Json:
    """Return Gemma 4's layers that attend to all, those that take keys of others, and the divisors of angles, 1 for
    pairs that turn.

    Raises ValueError where they are of another form.
    """
    types = config.get("layer_types") or ["full_attention"] * config["num_hidden_layers"]
    full = [layer for layer, kind in enumerate(types) if kind == "full_attention"]
    sliding = [layer for layer, kind in enumerate(types) if kind != "full_attention"] or full
    rows = tensors.shapes().get("token_embd.weight", (0,))[0]
    said: Json = {"vocab_size": rows, "vocab_size_per_layer_input": rows, "layer_types": types}
    keys, values = ([f"blk.{layer}.attn_{name}.weight" in tensors for layer in full] for name in "kv")
    said["enable_moe_block"] = bool(config.get("num_experts"))
    said["attention_k_eq_v"] = any(keys) and not any(values)
    heads, widths = config.get("num_key_value_heads"), config.get("intermediate_size")
    if isinstance(heads, list):
        said["num_key_value_heads"] = heads[sliding[0]]
        said["num_global_key_value_heads"] = heads[full[0]] if full else None
    if isinstance(widths, list):
        said |= {"intermediate_size": widths[0], "use_double_wide_mlp": widths[-1] == 2 * widths[0]}
    angles: Json = {"rope_type": "default", "rope_theta": config.pop("rope_theta", 1e6)}
    if (divisors := tensors.get("rope_freqs.weight")) is not None:
        turning = int((divisors == 1).sum())
        if not ((divisors[:turning] == 1).all() and (divisors[turning:] > _STILL).all()):
            raise ValueError("rope_freqs.weight has other divisors than 1 and then those of pairs that do not turn")
        angles |= {"rope_type": "proportional", "partial_rotary_factor": turning / len(divisors)}
    config.pop("rope_scaling", None)
    local = {"rope_type": "default", "rope_theta": config.pop("rope_local_base_freq", 10_000.0)}
    return {**said, "rope_parameters": {"full_attention": angles, "sliding_attention": local}}


_STILL = 1e9  # an angle divided by more than that does not turn


def of_modernbert(config: Json, tensors: Tensors) -> Json:
    """Return the fields of ModernBERT, whose bases have other names."""
    said: Json = {"architectures": ["ModernBertModel"]}
    for name, field in (("rope_theta", "global_rope_theta"), ("rope_local_base_freq", "local_rope_theta")):
        if name in config:
            said[field] = config.pop(name)
    if "sliding_window_pattern" in config:
        said["global_attn_every_n_layers"] = config.pop("sliding_window_pattern")
    return said


def of_t5(config: Json, tensors: Tensors) -> Json:
    """Return T5's feed-forward layers, and whether its output is that of its input, and scaled: in T5 1.0, which has no
    gates.

    A file may have it twice all the same, quantised in two ways; two that were learnt apart have nothing in common.
    """
    is_gated = "enc.blk.0.ffn_gate.weight" in tensors
    is_tied = not is_gated
    if is_tied and tensors.shapes().get("output.weight") == tensors.shapes().get("token_embd.weight"):
        output, shared = (widen(tensors[f"{name}.weight"][:1000]) for name in ("output", "token_embd"))
        is_tied = bool(np.abs(output - shared).mean() < 0.3 * np.abs(shared).mean())
    return {
        "is_encoder_decoder": True,
        "feed_forward_proj": "gated-gelu" if is_gated else "relu",
        "tie_word_embeddings": is_tied,
        "num_decoder_layers": config.get("num_decoder_layers") or config["num_layers"],
    }


def as_it_is(config: Json, tensors: Tensors) -> Json:
    """Return the fields of an encoder with the settings of BERT, whatever it was: positions begin at the first row."""
    return {"architectures": ["BertModel"], "hidden_act": "gelu"}


def as_convolution(rows: ndarray, config: Json) -> ndarray:
    return rows[:, None] if rows.ndim == 2 else rows


def flat(array: ndarray, config: Json) -> ndarray:
    return array.reshape(-1)


def transposed(matrix: ndarray, config: Json) -> ndarray:
    return matrix.T


def matrices_transposed(matrices: ndarray, config: Json) -> ndarray:
    """Return matrices transposed, (E, D, I) -> (E, I, D), or a vector for each expert unchanged."""
    return matrices.swapaxes(1, 2) if matrices.ndim == 3 else matrices


def taking_turns(parts: list[ndarray]) -> ndarray:
    """Return the gates of gpt-oss's experts, and what they multiply: (E, I, D) twice -> (E, D, 2I), row by row in
    turn.
    """
    both = np.stack(parts, 2)  # (E, I, 2, D), or (E, I, 2)
    both = both.reshape(both.shape[0], -1, *both.shape[3:])
    return both.swapaxes(1, 2) if both.ndim == 3 else both


def by_group(rows: ndarray, config: Json) -> ndarray:
    """Return Falcon's queries, keys and values one on the other, as (K, H/K + 2, d) rows."""
    heads, groups = config.get("num_attention_heads") or 1, config.get("num_kv_heads") or 1
    width = config["hidden_size"] // heads
    if len(rows) != (heads + 2 * groups) * width or heads % groups:
        return rows  # of another shape than config.json asks for, which is an error of its own
    parts = np.split(rows, [heads * width, (heads + groups) * width])
    grouped = [part.reshape(groups, -1, width, *rows.shape[1:]) for part in parts]
    return np.concatenate(grouped, 1).reshape(rows.shape)


def by_head(heads_field: str) -> Change:
    """Return queries, keys and values one on the other, (3, H, d) rows, as (H, 3, d) rows. heads_field: that says H."""

    def change(rows: ndarray, config: Json) -> ndarray:
        heads = config.get(heads_field) or 1
        if len(rows) % (3 * heads):
            return rows
        return rows.reshape(3, heads, -1, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)

    return change


def values_by_key(rows: ndarray, config: Json) -> ndarray:
    """Return rows of Qwen 3.5's heads of values, in the order of ggml, (H/K, K, d), as (K, H/K, d)."""
    heads, keys = (config.get(f"linear_num_{name}_heads") or 1 for name in ("value", "key"))
    if heads % keys or len(rows) % heads:
        return rows
    return rows.reshape(heads // keys, keys, -1, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)


def only_values_by_key(rows: ndarray, config: Json) -> ndarray:
    """Return queries and keys unchanged, then values as above."""
    keys = 2 * (config.get("linear_num_key_heads") or 0) * (config.get("linear_key_head_dim") or 0)
    return np.concatenate([rows[:keys], values_by_key(rows[keys:], config)])


def columns_by_key(matrix: ndarray, config: Json) -> ndarray:
    return np.ascontiguousarray(values_by_key(np.ascontiguousarray(matrix.T), config).T)


def delta_convolution(rows: ndarray, config: Json) -> ndarray:
    return as_convolution(only_values_by_key(rows, config), config)


def delta_decays(decays: ndarray, config: Json) -> ndarray:
    return values_by_key(log_of_negative(decays, config), config)


def log_of_negative(decays: ndarray, config: Json) -> ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):  # NaN is refused with the tensor's name
        return np.log(-decays)


def flat_log(decays: ndarray, config: Json) -> ndarray:
    return log_of_negative(decays, config).reshape(-1)
