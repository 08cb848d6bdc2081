"""What llama.cpp's converter changes in tensors, both ways; and fields of config.json that a GGUF file does not have.

A `More` takes a config.json so far, from which it may take fields away, and the file's tensors, and returns further
fields.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.bfloat16 import widen

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import ndarray

    from chainrule.features.open.gguf.file import Tensors

    Json = dict[str, Any]
    More = Callable[[Json, Tensors], Json]


class Change(NamedTuple):
    """A change of a tensor. read: from a GGUF file's to Hugging Face's, by config.json; write: the inverse."""

    read: Callable[[ndarray, Json], ndarray]
    write: Callable[[ndarray, Json], ndarray]


class Join(NamedTuple):
    """Parts of a tensor. read: from those in a GGUF file to one of Hugging Face's, by config.json; write: the inverse.
    alike: whether the parts have one shape.
    """

    read: Callable[[list[ndarray], Json], ndarray]
    write: Callable[[ndarray, Json], list[ndarray]]
    alike: bool = True


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
    said: Json = {"block_auto_adjust_ff_dim": False} if config["model_type"] == "lfm2" else {}
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


def of_seed(config: Json, tensors: Tensors) -> Json:
    """Return which layers have biases."""
    names = {"attention_bias": "attn_q", "attention_out_bias": "attn_output"}
    return {field: f"blk.0.{name}.bias" in tensors for field, name in names.items()}


def of_ministral(config: Json, tensors: Tensors) -> Json:
    """Return the growth of queries, among the parameters of positions."""
    growth = {"llama_4_scaling_beta": config.pop("llama_4_scaling_beta", 0.0)}
    length = config.pop("original_max_position_embeddings", None)
    growth |= {} if length is None else {"original_max_position_embeddings": length}
    return {"rope_scaling": {"rope_type": "default", **growth, **(config.pop("rope_scaling", None) or {})}}


def of_qwen2moe(config: Json, tensors: Tensors) -> Json:
    config.pop("attention_bias", None)
    return {"qkv_bias": "blk.0.attn_q.bias" in tensors, "norm_topk_prob": False}


def of_glm4moe(config: Json, tensors: Tensors) -> Json:
    return {"use_qk_norm": "blk.0.attn_q_norm.weight" in tensors}


def of_deepseek(config: Json, tensors: Tensors) -> Json:
    """Return the widths of DeepSeek's heads, and the scale of scores that YaRN has there, in one field."""
    rotated = config["qk_rope_head_dim"]
    width = round(rotated / config.pop("partial_rotary_factor", 1.0))
    said: Json = {"q_lora_rank": None, "qk_nope_head_dim": width - rotated}
    said = {**said, **{name: config[name] for name in said if name in config}}
    share = config.pop("yarn_log_multiplier", 0.0)
    if isinstance(scaling := config.get("rope_scaling"), dict) and share:
        scaling.pop("attention_factor", None)
        share = round(10 * share, 6)
        said["rope_scaling"] = {**scaling, "mscale": share, "mscale_all_dim": share}
    if config["model_type"] == "deepseek_v2" and config.get("n_group", 1) > 1:
        said["topk_method"] = "group_limited_greedy"
    return {**said, "num_key_value_heads": config["num_attention_heads"]}


def of_falcon_h1(config: Json, tensors: Tensors) -> Json:
    """Return the sizes of Falcon-H1's states; its factors are in the weights."""
    heads = config.get("mamba_n_heads") or 1
    has_norm = "blk.0.ssm_norm.weight" in tensors
    width = config["mamba_d_ssm"]
    return {"mamba_d_head": width // heads, "mamba_rms_norm": has_norm, "mamba_norm_before_gate": False}


def _by_heads(config: Json) -> list[int]:
    """Return the heads of keys in each layer, of which those without attention have none."""
    heads = config.pop("num_key_value_heads", None)
    own = heads if isinstance(heads, list) else [heads or 0] * config["num_hidden_layers"]
    config["num_key_value_heads"] = max(own, default=0) or None
    return own


def of_granitemoe(config: Json, tensors: Tensors) -> Json:
    """Return the name of Granite 3's mixtures, by whether they have an expert for all tokens."""
    return {} if config.get("shared_intermediate_size") else {"model_type": "granitemoe"}


def of_granite4(config: Json, tensors: Tensors) -> Json:
    """Return Granite 4's layers: those without heads of keys are Mamba-2."""
    inner = config.pop("ssm.inner_size", 2 * config["hidden_size"])
    types = ["full_attention" if own else "linear_attention" for own in _by_heads(config)]
    said: Json = {"layer_types": types, "mamba_d_head": "auto"}
    said["num_local_experts"] = config.get("num_local_experts", 0)
    if not said["num_local_experts"]:
        said["shared_intermediate_size"] = config.get("intermediate_size")
    said["mamba_n_heads"] = config.get("mamba_n_heads", 1)
    if config.pop("position_embedding_type", True):
        said["position_embedding_type"] = "rope"
    else:
        config.pop("rope_theta", None)
        config.pop("partial_rotary_factor", None)
    return {**said, "mamba_expand": inner / config["hidden_size"]}


def of_nemotron_h(config: Json, tensors: Tensors) -> Json:
    """Return what each block of Nemotron-H is, by its tensors."""
    config.pop("rope_theta", None)
    inner, heads = config.pop("ssm.inner_size", 0), config.get("mamba_num_heads") or 1
    _by_heads(config)
    widths, layers = config.pop("intermediate_size", 0), config.pop("num_hidden_layers")
    kinds = {"ssm_in": "linear_attention", "attn_q": "full_attention", "ffn_up": "mlp"}
    types = [
        next((kind for name, kind in kinds.items() if f"blk.{layer}.{name}.weight" in tensors), "moe")
        for layer in range(layers)
    ]
    return {
        "layers_block_type": types,
        "intermediate_size": max(widths) if isinstance(widths, list) else widths,
        "moe_shared_expert_intermediate_size": config.get("moe_shared_expert_intermediate_size"),
        "mamba_head_dim": inner // heads,
        "use_bias": "blk.0.ssm_in.bias" in tensors,
    }


def of_rotated(config: Json, tensors: Tensors) -> Json:
    return {}


def of_yarn(config: Json, tensors: Tensors) -> Json:
    """Return the scaling without rounding: gpt-oss does not round the ends of YaRN's ramp to whole pairs."""
    scaling = config.get("rope_scaling")
    return {"rope_scaling": {**scaling, "truncate": False}} if isinstance(scaling, dict) else {}


def of_neox(config: Json, tensors: Tensors) -> Json:
    return {"rotary_pct": config.pop("partial_rotary_factor", 1.0)}


def of_bigcode(config: Json, tensors: Tensors) -> Json:
    return {"multi_query": config.pop("num_key_value_heads", 1) == 1}


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
    if not config.get("final_logit_softcapping"):
        config.pop("final_logit_softcapping", None)
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


def _as_convolution(rows: ndarray, config: Json) -> ndarray:
    return rows[:, None] if rows.ndim == 2 else rows


def _as_rows(kernel: ndarray, config: Json) -> ndarray:
    return kernel[:, 0] if kernel.ndim == 3 else kernel


ONE_ROW = Change(lambda row, config: row[None] if row.ndim == 1 else row, lambda row, config: row.reshape(-1))
ONE_ON_THE_OTHER = Join(lambda parts, config: np.concatenate(parts), lambda array, config: np.split(array, 2))
ROWS_OF_EXPERTS = Join(lambda parts, config: np.concatenate(parts, 1), lambda array, config: np.split(array, 2, 1))
CONVOLUTION = Change(_as_convolution, _as_rows)
FLAT = Change(lambda array, config: array.reshape(-1), lambda array, config: array[:, None])
TRANSPOSED = Change(lambda matrix, config: matrix.T, lambda matrix, config: matrix.T)


def _by_groups(gains: ndarray, config: Json) -> ndarray:
    return gains.reshape(config.get("n_groups") or config.get("mamba_n_groups") or 1, -1)


IN_GROUPS = Change(lambda gains, config: gains.reshape(-1), _by_groups)


def _matrices_transposed(matrices: ndarray, config: Json) -> ndarray:
    """Return matrices transposed, (E, D, I) -> (E, I, D), or a vector for each expert unchanged."""
    return matrices.swapaxes(1, 2) if matrices.ndim == 3 else matrices


MATRICES_TRANSPOSED = Change(_matrices_transposed, _matrices_transposed)


def _taking_turns(parts: list[ndarray], config: Json) -> ndarray:
    """Return the gates of gpt-oss's experts, and what they multiply: (E, I, D) twice -> (E, D, 2I), row by row in
    turn.
    """
    both = np.stack(parts, 2)  # (E, I, 2, D), or (E, I, 2)
    both = both.reshape(both.shape[0], -1, *both.shape[3:])
    return both.swapaxes(1, 2) if both.ndim == 3 else both


def _apart(array: ndarray, config: Json) -> list[ndarray]:
    both = array.swapaxes(1, 2) if array.ndim == 3 else array
    return [both[:, turn::2] for turn in range(2)]


TAKING_TURNS = Join(_taking_turns, _apart)


def _of_heads(parts: list[ndarray], config: Json) -> ndarray:
    """Return DeepSeek's keys, (H, r, k), and values, (H, v, r), as rows of one matrix, (H (k + v), r)."""
    both = np.concatenate([parts[0].swapaxes(1, 2), parts[1]], 1)
    return both.reshape(-1, both.shape[2])


def _keys_and_values(matrix: ndarray, config: Json) -> list[ndarray]:
    both = matrix.reshape(config["num_attention_heads"], -1, matrix.shape[1])
    keys, values = np.split(both, [config["qk_nope_head_dim"]], 1)
    return [keys.swapaxes(1, 2), values]


OF_HEADS = Join(_of_heads, _keys_and_values, alike=False)


def _by_key_heads(parts: list[ndarray], config: Json) -> ndarray:
    """Return Qwen3-Next's queries, keys, values and gates, in the order of their heads of keys, from the first three
    and the gates.
    """
    keys, heads = _keys_of_delta(config)
    own = [*np.split(parts[0], [keys, 2 * keys]), parts[1]]
    shape = own[0].shape[1:]
    if any(len(part) % heads or part.shape[1:] != shape for part in own):
        return parts[0]  # of no shape that fits
    return np.concatenate([part.reshape(heads, -1, *shape) for part in own], 1).reshape(-1, *shape)


def _apart_by_part(matrix: ndarray, config: Json) -> list[ndarray]:
    keys, heads = _keys_of_delta(config)
    shape = matrix.shape[1:]
    by_head = matrix.reshape(heads, -1, *shape)
    one = keys // heads
    values = (by_head.shape[1] - 2 * one) // 2
    *own, gates = (part.reshape(-1, *shape) for part in np.split(by_head, [one, 2 * one, 2 * one + values], 1))
    return [np.concatenate(own), gates]


def _keys_of_delta(config: Json) -> tuple[int, int]:
    """Return the rows of all keys, and the heads of them."""
    heads = config.get("linear_num_key_heads") or 1
    return heads * (config.get("linear_key_head_dim") or 0), heads


BY_KEY_HEADS = Join(_by_key_heads, _apart_by_part, alike=False)


def multiplied(factor: Callable[[Json], float]) -> Change:
    """Return the change of a tensor that llama.cpp's converter multiplies by a factor of config.json."""
    return Change(lambda array, config: array, lambda array, config: widen(array) * np.float32(factor(config)))


def _by_scales(rows: ndarray, config: Json) -> ndarray:
    """Return Falcon-H1's gates, values, what is written, what is read, and steps, multiplied."""
    width, states = config["mamba_d_ssm"], config["mamba_n_groups"] * config["mamba_d_state"]
    sizes = width, width, states, states, config["mamba_n_heads"]
    scales = np.repeat(np.asarray(config["ssm_multipliers"], np.float32), sizes)
    return widen(rows) * scales[:, None]


BY_SCALES = Change(lambda array, config: array, _by_scales)


def _sizes_of_groups(rows: ndarray, config: Json) -> tuple[int, int, int] | None:
    """Return heads, groups of them and the width of one; None where config.json asks for another shape, which is an
    error of its own.
    """
    heads, groups = config.get("num_attention_heads") or 1, config.get("num_kv_heads") or 1
    width = config["hidden_size"] // heads
    return None if len(rows) != (heads + 2 * groups) * width or heads % groups else (heads, groups, width)


def _by_group(rows: ndarray, config: Json) -> ndarray:
    """Return Falcon's queries, keys and values one on the other, as (K, H/K + 2, d) rows."""
    if (sizes := _sizes_of_groups(rows, config)) is None:
        return rows
    heads, groups, width = sizes
    parts = np.split(rows, [heads * width, (heads + groups) * width])
    grouped = [part.reshape(groups, -1, width, *rows.shape[1:]) for part in parts]
    return np.concatenate(grouped, 1).reshape(rows.shape)


def _by_part(rows: ndarray, config: Json) -> ndarray:
    if (sizes := _sizes_of_groups(rows, config)) is None:
        return rows
    _, groups, width = sizes
    grouped = rows.reshape(groups, -1, width, *rows.shape[1:])
    parts = grouped[:, :-2], grouped[:, -2:-1], grouped[:, -1:]
    return np.concatenate([part.reshape(-1, *rows.shape[1:]) for part in parts])


BY_GROUP = Change(_by_group, _by_part)


def by_head(heads_field: str) -> Change:
    """Return queries, keys and values one on the other, (3, H, d) rows, as (H, 3, d) rows, but where all heads share
    keys. heads_field: that says H.
    """

    def read(rows: ndarray, config: Json) -> ndarray:
        heads = config.get(heads_field) or 1
        if config.get("multi_query") or len(rows) % (3 * heads):
            return rows
        return rows.reshape(3, heads, -1, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)

    def write(rows: ndarray, config: Json) -> ndarray:
        heads = config.get(heads_field) or 1
        if config.get("multi_query"):
            return rows
        return rows.reshape(heads, 3, -1, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)

    return Change(read, write)


def _values_by_key(rows: ndarray, config: Json, *, write: bool = False) -> ndarray:
    """Return rows of Qwen 3.5's heads of values, in the order of ggml, (H/K, K, d), as (K, H/K, d)."""
    heads, keys = (config.get(f"linear_num_{name}_heads") or 1 for name in ("value", "key"))
    if heads % keys or len(rows) % heads:
        return rows
    shape = (keys, heads // keys) if write else (heads // keys, keys)
    return rows.reshape(*shape, -1, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)


def _only_values_by_key(rows: ndarray, config: Json, *, write: bool = False) -> ndarray:
    """Return queries and keys unchanged, then values as above."""
    keys = 2 * _keys_of_delta(config)[0]
    return np.concatenate([rows[:keys], _values_by_key(rows[keys:], config, write=write)])


def _columns_by_key(matrix: ndarray, config: Json, *, write: bool = False) -> ndarray:
    if matrix.shape[1] % (config.get("linear_num_value_heads") or 1):
        return 2 * matrix if write else matrix[:-1]  # of no form that fits: rows of blocks cannot be reordered so
    return np.ascontiguousarray(_values_by_key(np.ascontiguousarray(matrix.T), config, write=write).T)


def _log_of_negative(decays: ndarray, config: Json) -> ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):  # NaN is refused with the tensor's name
        return np.log(-decays)


def _negative(logs: ndarray, config: Json) -> ndarray:
    return -np.exp(widen(logs).astype(np.float32))


VALUES_BY_KEY = Change(_values_by_key, partial(_values_by_key, write=True))
ONLY_VALUES_BY_KEY = Change(_only_values_by_key, partial(_only_values_by_key, write=True))
COLUMNS_BY_KEY = Change(_columns_by_key, partial(_columns_by_key, write=True))
DELTA_CONVOLUTION = Change(
    lambda rows, config: _as_convolution(_only_values_by_key(rows, config), config),
    lambda kernel, config: _only_values_by_key(_as_rows(kernel, config), config, write=True),
)
LOG_OF_NEGATIVE = Change(_log_of_negative, _negative)
DELTA_DECAYS = Change(
    lambda decays, config: _values_by_key(_log_of_negative(decays, config), config),
    lambda logs, config: _values_by_key(_negative(logs, config), config, write=True),
)
FLAT_LOG = Change(
    lambda decays, config: _log_of_negative(decays, config).reshape(-1),
    lambda logs, config: _negative(logs, config)[:, None],
)
