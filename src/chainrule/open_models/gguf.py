"""Opens GGUF files as Hugging Face checkpoints: fields and tensors, by a table for each architecture.

ggml rotates neighbouring pairs of a head where Hugging Face rotates its halves, so the rows of q and k are reordered
for architectures whose converter had reordered them. Gemma's gains are 1 + w there. What a file does not say, since
llama.cpp knows it by the name of the architecture, follows from the defaults of config.json.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.errors import ModelFormatError
from chainrule.open_models.architectures import ARCHITECTURES
from chainrule.open_models.gguf_tokenizer import definition_of_gguf
from chainrule.storage.gguf import open_gguf
from chainrule.storage.hugging_face import Checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from numpy import ndarray

    from chainrule.storage.gguf import Tensors

    Json = dict[str, Any]

_LAYER = "model.layers.{layer}."
# GGUF's names of tensors -> Hugging Face's; those of a block follow blk.0. and so on; .weight or .bias follows them.
_TENSORS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_BLOCK = {
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
_MOST_EXPERTS = 1024
# Metadata, less the name of the architecture -> fields of config.json.
_FIELDS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.layer_norm_epsilon": "layer_norm_eps",
    "attention.sliding_window": "sliding_window",
    "attention.scale": "attention_multiplier",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier",
    "logit_scale": "logit_scale",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_used_count": "num_experts_per_tok",
    "expert_count": "num_local_experts",
    "rope.freq_base": "rope_theta",
    "shortconv.l_cache": "conv_L_cache",
    "ssm.conv_kernel": "conv_kernel",
    "ssm.state_size": "state_size",
    "ssm.time_step_rank": "time_step_rank",
    "use_parallel_residual": "use_parallel_residual",
    "vocab_size": "vocab_size",
}
_ROTATED, _PATTERN = "rope.dimension_count", "attention.sliding_window_pattern"
_SCALING, _LOCAL_BASE = "rope.scaling.", "rope.freq_base_swa"
_ALSO_KNOWN = {"attention.value_length", "tensor_data_layout", _ROTATED, _PATTERN, _LOCAL_BASE, "expert_weights_norm"}
_LONG, _SHORT, _DIVISORS = "rope_factors_long.weight", "rope_factors_short.weight", "rope_freqs.weight"


class _Kind(NamedTuple):
    """An architecture in GGUF. names: of tensors of a block that differ from LLaMA's. top: of other tensors, likewise.

    is_paired: whether the rows of q and k are reordered. counts_one: whether gains have 1 added. fields: of config.json
    that have another name than in `_FIELDS`; None for those that do not matter. changes: of tensors, by their names.
    more: a function that completes a config.json.
    """

    model_type: str
    names: Mapping[str, str] = {}  # nobody writes to it
    top: Mapping[str, str] = {}
    is_paired: bool = False
    counts_one: bool = False
    fields: Mapping[str, str | None] = {}
    changes: Mapping[str, Callable[[ndarray], ndarray]] = {}
    more: Callable[[Json], Json] = lambda config: {}


def _query_scale(large: int) -> Callable[[Json], Json]:
    """That of Gemma, which is by the width of a head, but in its largest model, which has that many layers."""

    def more(config: Json) -> Json:
        width = config.get("head_dim") or 256
        if config["num_hidden_layers"] == large:
            width = config["hidden_size"] // config["num_attention_heads"]
        return {"query_pre_attn_scalar": width}

    return more


def _tied(config: Json) -> Json:
    return {"tie_word_embeddings": True}


def _of_convolutions(config: Json) -> Json:
    """LFM2's layers without heads of keys have a convolution."""
    heads = config.pop("num_key_value_heads", None)
    said: Json = {"block_auto_adjust_ff_dim": False}
    if isinstance(heads, list):
        said["layer_types"] = ["full_attention" if own else "conv" for own in heads]
        said["num_key_value_heads"] = max(heads, default=None)
    return said


def _of_states(config: Json) -> Json:
    inner = config.pop("ssm.inner_size", 2 * config["hidden_size"])
    return {"expand": inner / config["hidden_size"], "use_bias": False, "use_conv_bias": True}


def _as_convolution(rows: ndarray) -> ndarray:
    return rows[:, None] if rows.ndim == 2 else rows


def _log_of_negative(decays: ndarray) -> ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):  # NaN is refused with the tensor's name
        return np.log(-decays)


_KINDS: dict[str, _Kind] = {
    "llama": _Kind("llama", _MIXTRAL, is_paired=True),
    "qwen2": _Kind("qwen2"),
    "qwen3": _Kind("qwen3"),
    "qwen3moe": _Kind("qwen3_moe", _QWEN_EXPERTS, more=lambda config: {"norm_topk_prob": True}),
    "gemma": _Kind("gemma", counts_one=True),
    "gemma2": _Kind("gemma2", _GEMMA_NORMS, counts_one=True, more=_query_scale(46)),
    "gemma3": _Kind("gemma3_text", _GEMMA_NORMS, counts_one=True, more=_query_scale(62)),
    "smollm3": _Kind("smollm3", is_paired=True),
    "phi2": _Kind(
        "phi",
        {"attn_output": "self_attn.dense", "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"},
        {"output_norm": "model.final_layernorm"},
    ),
    "phi3": _Kind("phi3", {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}),
    "olmo": _Kind("olmo", is_paired=True, fields={"attention.layer_norm_epsilon": None}),
    "olmo2": _Kind("olmo2", _NORMS_AFTER),
    "exaone4": _Kind("exaone4", _NORMS_AFTER),
    "starcoder2": _Kind(
        "starcoder2",
        {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"},
        fields={"attention.layer_norm_epsilon": "norm_epsilon"},
    ),
    "stablelm": _Kind("stablelm"),
    "command-r": _Kind("cohere", more=_tied),
    "cohere2": _Kind("cohere2", more=_tied),
    "granite": _Kind("granite", is_paired=True, fields={"logit_scale": "logits_scaling"}),
    "glm4": _Kind(
        "glm4",
        {
            "ffn_up": "mlp.gate_up_proj",
            "post_attention_norm": "post_self_attn_layernorm",
            "post_ffw_norm": "post_mlp_layernorm",
        },
    ),
    "ernie4_5": _Kind("ernie4_5"),
    "lfm2": _Kind(
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
    "mamba": _Kind(
        "mamba",
        {
            "attn_norm": "norm",
            "ssm_in": "mixer.in_proj",
            "ssm_conv1d": "mixer.conv1d",
            "ssm_x": "mixer.x_proj",
            "ssm_dt": "mixer.dt_proj",
            "ssm_a": "mixer.A_log",
            "ssm_d": "mixer.D",
            "ssm_out": "mixer.out_proj",
        },
        {"token_embd": "backbone.embeddings", "output_norm": "backbone.norm_f"},
        fields={
            "attention.layer_norm_rms_epsilon": "layer_norm_epsilon",
            "ssm.inner_size": "ssm.inner_size",
            **dict.fromkeys(("context_length", "feed_forward_length", "attention.head_count"), None),
        },
        changes={"ssm_conv1d": _as_convolution, "ssm_a": _log_of_negative},
        more=_of_states,
    ),
}


def open_gguf_checkpoint(path: Path) -> Checkpoint:
    """Opens a file of one of the architectures. Raises ModelFormatError."""
    metadata, tensors = open_gguf(path)
    name = metadata.get("general.architecture")
    if not isinstance(name, str) or name not in _KINDS:
        raise ModelFormatError(
            f"{path}: its general.architecture is {name!r}, which is not supported; known are {', '.join(_KINDS)}"
        )
    kind = _KINDS[name]
    config = _config(path, name, kind, metadata, tensors)
    parts = _parts(path, name, kind, config, tensors)
    kinds, template = tensors.kinds(), metadata.get("tokenizer.chat_template")
    return Checkpoint(
        str(path),
        {**config, **_ends(metadata)},
        _Renamed(tensors, parts),
        {name: f"{path} ({kinds[part.source]} {part.source!r})" for name, part in parts.items()},
        definition_of_gguf(path, metadata),
        chat_template=template if isinstance(template, str) else None,
    )


def _ends(metadata: Json) -> Json:
    """The ids that begin and end texts. A conversation's turn may end with a token of its own."""
    ids = [metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos", "eot", "eom")]
    begin, *ends = ids
    ends = list(dict.fromkeys(number for number in ends if number is not None))
    return {"bos_token_id": begin, "eos_token_id": ends[0] if len(ends) == 1 else ends or None}


class _Part(NamedTuple):
    """What a tensor is made of. expert: the number of its rows in the source; None for all."""

    source: str
    expert: int | None = None
    change: Callable[[ndarray], ndarray] | None = None


class _Renamed(Mapping[str, "ndarray"]):
    """Tensors by Hugging Face's names, and in its order. The last one is kept, since experts share one."""

    def __init__(self, tensors: Tensors, parts: Mapping[str, _Part]) -> None:
        self._tensors, self._parts = tensors, parts
        self._last: tuple[str, ndarray] | None = None

    def __getitem__(self, name: str) -> ndarray:
        source, expert, change = self._parts[name]
        if self._last is None or self._last[0] != source:
            self._last = None  # before the next one takes memory
            self._last = source, self._tensors[source]
        tensor = self._last[1] if expert is None else self._last[1][expert]
        return tensor if change is None else change(tensor)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


def deinterleave_rotary(rows: ndarray, heads: int) -> ndarray:
    """Rows (n, d/2, 2), where neighbours rotate together, as (n, 2, d/2); as they are, where they cannot be."""
    if not heads or len(rows) % (2 * heads):
        return rows
    return rows.reshape(heads, -1, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def _parts(path: Path, architecture: str, kind: _Kind, config: Json, tensors: Tensors) -> dict[str, _Part]:
    """All tensors that are weights, by Hugging Face's names. Raises ModelFormatError."""
    heads = config.get("num_attention_heads", 0)
    heads_of = {"attn_q": heads, "attn_k": config.get("num_key_value_heads") or heads} if kind.is_paired else {}
    of_layers = "backbone.layers.{layer}." if kind.model_type == "mamba" else _LAYER
    parts: dict[str, _Part] = {}
    for name, shape in tensors.shapes().items():
        if name in (_LONG, _SHORT, _DIVISORS):
            continue
        match = re.fullmatch(r"(?:blk\.(\d+)\.)?([\w.]+?)(\.weight|\.bias|)", name)
        layer, part, ending = match.groups() if match else (None, "", "")
        stems = {**_TENSORS, **kind.top} if layer is None else {**_BLOCK, **kind.names}
        stem = stems.get(part)
        if stem is None:
            raise ModelFormatError(f"{path}: has the tensor {name!r}, which a {architecture} does not have here")
        full = f"{stem}{ending}" if layer is None else f"{of_layers.format(layer=layer)}{stem}{ending}"
        change = kind.changes.get(part)
        if part in heads_of:
            change = _deinterleaver(heads_of[part])
        elif kind.counts_one and part.endswith("norm"):
            change = _less_one
        if "{expert}" not in full:
            parts[full] = _Part(name, None, change)
            continue
        if len(shape) != 3 or shape[0] > _MOST_EXPERTS:
            raise ModelFormatError(f"{path}: the tensor {name!r} is {list(shape)}; expected a matrix for each expert")
        parts |= {full.format(expert=expert): _Part(name, expert) for expert in range(shape[0])}
    return parts


def _deinterleaver(heads: int) -> Callable[[ndarray], ndarray]:
    return lambda rows: deinterleave_rotary(rows, heads)


def _less_one(gains: ndarray) -> ndarray:
    return gains - gains.dtype.type(1)


def _config(path: Path, architecture: str, kind: _Kind, metadata: Json, tensors: Tensors) -> Json:
    """A config.json. Raises ModelFormatError."""
    own = {name.removeprefix(f"{architecture}."): value for name, value in metadata.items()}
    own = {name: value for name, value in own.items() if f"{architecture}.{name}" in metadata}
    needed = ("embedding_length", "attention.head_count", "block_count")
    for name in (name for name in needed if kind.fields.get(name, name) is not None):
        if type(own.get(name)) is not int or own[name] < 1:
            raise ModelFormatError(f"{path}: {architecture}.{name} is {own.get(name)!r}; expected a number above 0")
    is_tied = "output.weight" not in tensors
    config: Json = {"model_type": kind.model_type, "tie_word_embeddings": is_tied}
    for name, value in own.items():
        field = kind.fields.get(name, _FIELDS.get(name))
        if field is not None:
            config[field] = float(str(np.float32(value))) if isinstance(value, float) else value
        elif name not in _ALSO_KNOWN and name not in kind.fields and not name.startswith(_SCALING) and value:
            raise ModelFormatError(f"{path}: {architecture}.{name} is {value!r:.80}, which is not supported")
    if kind.model_type == "llama" and config.get("num_local_experts"):
        config["model_type"] = "mixtral"
    if kind.model_type == "olmo2" and config.get("sliding_window"):
        config["model_type"] = "olmo3"
    width = config.get("head_dim") or config["hidden_size"] // config.get("num_attention_heads", 1)
    config.pop("head_dim", None)
    said: Json = {"head_dim": width, "attention_bias": "blk.0.attn_q.bias" in tensors}
    said |= {"use_qkv_bias": said["attention_bias"], "mlp_bias": "blk.0.ffn_up.bias" in tensors}
    said["use_bias"] = said["mlp_bias"]
    taken = ARCHITECTURES[config["model_type"]].fields()
    config |= {name: value for name, value in said.items() if name in taken}
    pattern = own.get(_PATTERN)
    if isinstance(pattern, list) and len(pattern) == config["num_hidden_layers"]:
        config["layer_types"] = ["sliding_attention" if is_sliding else "full_attention" for is_sliding in pattern]
    elif pattern is not None:
        config["sliding_window_pattern"] = pattern
    if (rotated := own.get(_ROTATED)) not in (None, width):
        if type(rotated) is not int or not 0 < rotated < width:
            raise ModelFormatError(
                f"{path}: {architecture}.{_ROTATED} is {rotated!r}; expected at most {width}, the width of a head"
            )
        config["partial_rotary_factor"] = rotated / width
    elif rotated is not None:
        config["partial_rotary_factor"] = 1.0
    if (base := own.get(_LOCAL_BASE)) is not None and kind.model_type == "gemma3_text":
        config["rope_local_base_freq"] = base
    if (scaling := _scaling(path, own, config, tensors)) is not None:
        config["rope_scaling"] = scaling
    more = kind.more(config)  # which may take fields away
    return {**config, **more}


def _scaling(path: Path, own: Json, config: Json, tensors: Tensors) -> Json | None:
    """rope_scaling of config.json. Raises ModelFormatError."""
    given = {name.removeprefix(_SCALING): value for name, value in own.items() if name.startswith(_SCALING)}
    trained = {"original_max_position_embeddings": given.get("original_context_length")}
    trained = {name: value for name, value in trained.items() if value}
    if _LONG in tensors and _SHORT in tensors:
        factors = {"long_factor": tensors[_LONG].tolist(), "short_factor": tensors[_SHORT].tolist()}
        amplitude = given.get("attn_factor")
        return {
            "rope_type": "longrope",
            **factors,
            **trained,
            **({} if amplitude is None else {"attention_factor": amplitude}),
        }
    if _DIVISORS in tensors:
        return _of_divisors(path, tensors[_DIVISORS], config)
    kind = given.get("type", "none")
    if kind == "none":
        return None
    scaling: Json = {"rope_type": kind, "factor": given.get("factor"), **trained}
    for name, field in (("yarn_beta_fast", "beta_fast"), ("yarn_beta_slow", "beta_slow")):
        if name in given:
            scaling[field] = given[name]
    return scaling


def _of_divisors(path: Path, divisors: ndarray, config: Json) -> Json:
    """Of a tensor with a divisor for each angle: Llama 3's rule, where it gives these, else LongRoPE's for any length.

    Raises ModelFormatError.
    """
    if not (divisors.ndim == 1 and len(divisors) and (divisors > 0).all()):
        raise ModelFormatError(f"{path}: the tensor {_DIVISORS!r} does not hold numbers above 0; the file is damaged")
    trained, factor, low, high = 8192, float(divisors.max()), 1.0, 4.0
    angles = config.get("rope_theta", 10_000.0) ** -(np.arange(len(divisors)) / len(divisors))
    turns = angles * trained / (2 * math.pi)
    share = np.clip((turns - low) / (high - low), 0, 1)
    if np.allclose(1 / (share + (1 - share) / factor), divisors, rtol=1e-4):
        return {
            "rope_type": "llama3",
            "factor": round(factor, 4),
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": trained,
        }
    numbers = divisors.tolist()
    return {"rope_type": "longrope", "short_factor": numbers, "long_factor": numbers, "attention_factor": 1.0}
