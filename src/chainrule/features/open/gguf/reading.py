"""Opens GGUF files as Hugging Face checkpoints: fields and tensors, by the table of architectures."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.errors import ModelFormatError
from chainrule.features.open.architectures import ARCHITECTURES
from chainrule.features.open.gguf.file import named_architecture
from chainrule.features.open.gguf.kind import BLOCK, TENSORS
from chainrule.features.open.gguf.kinds import KINDS, kind_of
from chainrule.features.open.gguf.parts import first_part, open_parts
from chainrule.features.open.gguf.tokenizer import adds_begin, definition_of_gguf
from chainrule.features.open.identify import nearest_of
from chainrule.features.open.quantised import StoredMatrix, changed
from chainrule.storage.hugging_face import MODULES, Checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from numpy import ndarray

    from chainrule.features.open.gguf.file import Tensors
    from chainrule.features.open.gguf.kind import Kind

    Json = dict[str, Any]

_MOST_EXPERTS = 1024
_SIGMOID = 2  # a way in which experts are weighted
_QUERIES = ("attn_q", "attn_qkv")
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
_ALSO_KNOWN |= {"ssm.dt_b_c_rms"}
_WITH_LOCAL_BASE = ("gemma3_text", "gemma4_text", "modernbert")
LONG, SHORT, DIVISORS = "rope_factors_long.weight", "rope_factors_short.weight", "rope_freqs.weight"


def open_gguf_checkpoint(path: Path) -> Checkpoint:
    """Open a file of one of the architectures. Raises ModelFormatError."""
    metadata, tensors = open_parts(path)
    name = metadata.get("general.architecture")
    if not isinstance(name, str) or name not in KINDS:
        nearest = nearest_kind(tensors, str(name))
        raise ModelFormatError(
            f"{path}: its general.architecture is {name!r}, which is not supported; "
            f"{f'the nearest is {nearest}; ' if nearest else ''}known are {', '.join(KINDS)}"
        )
    kind = kind_of(name, tensors)
    config = config_of(path, name, kind, metadata, tensors)
    parts = _parts(path, name, kind, config, tensors)
    kinds, template = tensors.kinds(), metadata.get("tokenizer.chat_template")
    renamed = _Renamed(tensors, parts)
    return Checkpoint(
        str(path),
        {**config, **_ends(metadata)},
        renamed,
        {name: f"{path} ({kinds[part.sources[0]]} {part.sources[0]!r})" for name, part in parts.items()},
        definition_of_gguf(path, metadata, kind.reads),
        tokenizer_config={"add_bos_token": adds_begin(metadata)} if kind.reads == "text" else _mask(metadata),
        chat_template=template if isinstance(template, str) else None,
        sentence_files=_pooling(metadata, name) if kind.reads == "framed" else {},
        stored=renamed.stored,
    )


def _mask(metadata: Json) -> Json:
    """Return the name of the token that fills gaps, as tokenizer_config.json has it, where the file says its id."""
    pieces, number = metadata.get("tokenizer.ggml.tokens"), metadata.get("tokenizer.ggml.mask_token_id")
    if not isinstance(pieces, list) or type(number) is not int or not 0 <= number < len(pieces):
        return {}
    return {"mask_token": pieces[number]}


def nearest_kind(names: Iterable[str], architecture: str) -> str:
    """Return the architecture with the most tensors of the same names, for a message; nothing where there is none."""
    known = {
        name: {*({**TENSORS, **kind.top}), *(_in_block(part) for part in ({**BLOCK, **kind.names}))}
        for name, kind in KINDS.items()
    }
    without_endings = {
        name: {part.removesuffix(".weight").removesuffix(".bias") for part in own} for name, own in known.items()
    }
    own = {re.sub(r"(?<=blk\.)\d+", "0", name).removesuffix(".weight").removesuffix(".bias") for name in names}
    return nearest_of(without_endings, own, architecture)


def _in_block(part: str) -> str:
    side, own = part[:4], part[4:]
    return f"{side}blk.0.{own}" if side in ("enc.", "dec.") else f"blk.0.{part}"


def is_gguf_of_sources(path: Path) -> bool:
    """Return whether a GGUF file is a model of targets given sources. Raises ModelFormatError if it is damaged."""
    kind = KINDS.get(named_architecture(first_part(path)))
    return kind is not None and kind.reads == "source"


_POOLINGS = {1: "mean_tokens", 2: "cls_token"}


def _pooling(metadata: Json, architecture: str) -> dict[str, bytes]:
    """Return how vectors of tokens become one of a text, in files of sentence-transformers; the mean, if nothing says
    it.
    """
    kind = _POOLINGS.get(metadata.get(f"{architecture}.pooling_type") or 1, "mean_tokens")
    modules = [{"path": path, "type": f"sentence_transformers.models.{name}"} for path, name in _MODULES]
    return {
        MODULES: json.dumps(modules).encode(),
        f"{_MODULES[1][0]}/config.json": json.dumps({f"pooling_mode_{kind}": True}).encode(),
    }


def _ends(metadata: Json) -> Json:
    """Return the ids that begin and end texts. A conversation's turn may end with a separate token."""
    ids = [metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos", "eot", "eom")]
    begin, *ends = ids
    padding = metadata.get("tokenizer.ggml.padding_token_id")
    ends = list(dict.fromkeys(number for number in ends if number is not None))
    return {
        "bos_token_id": begin,
        "eos_token_id": ends[0] if len(ends) == 1 else ends or None,
        "pad_token_id": padding,  # null, too: defaults of transformers may be beyond the vocabulary
    }


_MODULES = (("", "Transformer"), ("1_Pooling", "Pooling"))


class _Part(NamedTuple):
    """What a tensor is made of. expert: the number of its rows in the sources; None for all. change: of them. alike:
    whether they have one shape.
    """

    sources: tuple[str, ...]
    expert: int | None = None
    change: Callable[[list[ndarray]], ndarray] = lambda tensors: tensors[0]
    alike: bool = True


class _Renamed(Mapping[str, "ndarray"]):
    """Tensors by Hugging Face's names, and in its order. The last one is kept, since experts share one."""

    def __init__(self, tensors: Tensors, parts: Mapping[str, _Part]) -> None:
        self._tensors, self._parts = tensors, parts
        self._last: tuple[str, ndarray] | None = None

    def __getitem__(self, name: str) -> ndarray:
        sources, expert, change, _ = self._parts[name]
        if len(sources) > 1 or expert is None:
            if self._last is None or self._last[0] != name:
                self._last = None  # before the next one takes memory
                self._last = name, change([self._tensors[source] for source in sources])
            return self._last[1]
        if self._last is None or self._last[0] != sources[0]:
            self._last = None
            self._last = sources[0], self._tensors[sources[0]]
        return self._last[1][expert]

    def stored(self, name: str) -> StoredMatrix | None:
        """Return a matrix as it is in the file, if it is quantised in a form that products know, and has only its rows
        in another order.
        """
        from chainrule.neural.packed.layouts import FORMS

        sources, expert, change, _ = self._parts[name]
        matrices = []
        for source in sources:
            kind, blocks = self._tensors.stored(source)
            if expert is not None and blocks.ndim == 4:
                blocks = blocks[expert]
            if kind.name not in FORMS or blocks.ndim != 3:
                return None
            matrices.append(StoredMatrix(((kind, blocks),), np.arange(len(blocks))))
        return matrices[0] if expert is not None else changed(change, matrices)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


def deinterleave_rotary(rows: ndarray, heads: int) -> ndarray:
    """Return rows (n, d/2, 2), where neighbours rotate together, as (n, 2, d/2); unchanged where they cannot be."""
    if not heads or len(rows) % (2 * heads):
        return rows
    return rows.reshape(heads, -1, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def _parts(path: Path, architecture: str, kind: Kind, config: Json, tensors: Tensors) -> dict[str, _Part]:
    """Return all tensors that are weights, by Hugging Face's names. Raises ModelFormatError."""
    heads = config.get("num_attention_heads", 0)
    heads_of = {"attn_q": heads, "attn_k": config.get("num_key_value_heads") or heads} if kind.is_paired else {}
    parts: dict[str, _Part] = {}
    joined: dict[str, dict[str, str]] = {}  # parts of tensors, by the tensor's name and their numbers
    for name, shape in tensors.shapes().items():
        if name in (LONG, SHORT, DIVISORS):
            continue
        match = re.fullmatch(r"(?:(enc\.|dec\.|)blk\.(\d+)\.)?([\w.]+?)(\.weight|\.bias|)", name)
        side, layer, part, ending = match.groups() if match else ("", None, "", "")
        part = (side or "") + part
        stems = {**TENSORS, **kind.top} if layer is None else {**BLOCK, **kind.names}
        stem = stems.get(part + ending) or (f"{stems[part]}{ending}" if part in stems else None)
        if stem is None:
            raise ModelFormatError(f"{path}: has the tensor {name!r}, which a {architecture} does not have here")
        full = stem if layer is None else f"{kind.layers}{stem}".replace("{layer}", layer)
        if "#" in full:
            full, _, number = full.partition("#")
            joined.setdefault(full, {})[number] = name
            sources = tuple(source for _, source in sorted(joined[full].items()))
            join = kind.joins[stem.partition("#")[0]]
            parts[full] = _Part(sources, None, partial(_joined, join.read, config), join.alike)
            continue
        known = kind.changes.get(part)
        change = None if known is None else known.read
        if part in heads_of:
            change = partial(_deinterleaved, heads_of[part])
        elif kind.counts_one and part.endswith("norm") and part != "ssm_norm" and ending != ".bias":
            change = _less_one
        if "{expert}" not in full:
            parts[full] = _Part((name,)) if change is None else _Part((name,), None, partial(_changed, change, config))
            continue
        if len(shape) != 3 or shape[0] > _MOST_EXPERTS:
            raise ModelFormatError(f"{path}: the tensor {name!r} is {list(shape)}; expected a matrix for each expert")
        parts |= {full.format(expert=expert): _Part((name,), expert) for expert in range(shape[0])}
    shapes = tensors.shapes()
    for part in parts.values():
        if part.alike and len({shapes[source] for source in part.sources}) > 1:
            raise ModelFormatError(f"{path}: the tensors {' and '.join(map(repr, part.sources))} differ in shape")
    return parts


def _changed(change: Callable[[ndarray, Json], ndarray], config: Json, tensors: list[ndarray]) -> ndarray:
    return change(tensors[0], config)


def _joined(join: Callable[[list[ndarray], Json], ndarray], config: Json, tensors: list[ndarray]) -> ndarray:
    return join(tensors, config)


def _deinterleaved(heads: int, rows: ndarray, config: Json) -> ndarray:
    return deinterleave_rotary(rows, heads)


def _less_one(gains: ndarray, config: Json) -> ndarray:
    return gains - gains.dtype.type(1)


def config_of(path: Path, architecture: str, kind: Kind, metadata: Json, tensors: Tensors) -> Json:
    """Return a config.json. Raises ModelFormatError."""
    own = {name.removeprefix(f"{architecture}."): value for name, value in metadata.items()}
    own = {name: value for name, value in own.items() if f"{architecture}.{name}" in metadata}
    needed = ("embedding_length", "attention.head_count", "block_count")
    for name in (name for name in needed if kind.fields.get(name, name) is not None):
        if type(own.get(name)) is not int or own[name] < 1:
            raise ModelFormatError(f"{path}: {architecture}.{name} is {own.get(name)!r}; expected a number above 0")
    is_tied = "output.weight" not in tensors
    config: Json = {"model_type": kind.model_type, "tie_word_embeddings": is_tied}
    if rows := tensors.shapes().get("token_embd.weight", ())[:1]:
        config["vocab_size"] = rows[0]  # transformers would take a number of its own
    for name, value in own.items():
        field = kind.fields.get(name, _FIELDS.get(name))
        if field is not None:
            config[field] = float(str(np.float32(value))) if isinstance(value, float) else value
        elif name not in _ALSO_KNOWN and name not in kind.fields and not name.startswith(_SCALING) and value:
            raise ModelFormatError(f"{path}: {architecture}.{name} is {value!r:.80}, which is not supported")
    if kind.model_type == "llama" and config.get("num_local_experts"):
        config["model_type"] = "mixtral"
    elif kind.model_type == "llama" and config.get("sliding_window"):
        config["model_type"] = "mistral"
    if kind.model_type == "deepseek_v3" and own.get("expert_gating_func") != _SIGMOID:
        config["model_type"] = "deepseek_v2"
    if kind.model_type == "mamba" and own.get("ssm.dt_b_c_rms"):
        config["model_type"] = "falcon_mamba"
    if kind.model_type == "olmo2" and config.get("sliding_window"):
        config["model_type"] = "olmo3"
    width = config.pop("head_dim", None) or own["embedding_length"] // (own.get("attention.head_count") or 1)
    said: Json = {"head_dim": width, "attention_bias": any(f"blk.0.{name}.bias" in tensors for name in _QUERIES)}
    said["type_vocab_size"] = tensors.shapes().get("token_types.weight", (0,))[0]
    said |= {"use_qkv_bias": said["attention_bias"], "mlp_bias": "blk.0.ffn_up.bias" in tensors}
    said["use_bias"] = said["mlp_bias"]
    taken = ARCHITECTURES[config["model_type"]].fields()
    config |= {name: value for name, value in said.items() if name in taken}
    pattern = own.get(_PATTERN)
    if isinstance(pattern, list) and len(pattern) == own["block_count"]:
        config["layer_types"] = ["sliding_attention" if is_sliding else "full_attention" for is_sliding in pattern]
    elif pattern is not None:
        config["sliding_window_pattern"] = pattern
    rotated = own.get(_ROTATED) if kind.fields.get(_ROTATED, _ROTATED) else None
    if rotated not in (None, width):
        if type(rotated) is not int or not 0 < rotated < width:
            raise ModelFormatError(
                f"{path}: {architecture}.{_ROTATED} is {rotated!r}; expected at most {width}, the width of a head"
            )
        config["partial_rotary_factor"] = rotated / width
    elif rotated is not None:
        config["partial_rotary_factor"] = 1.0
    if (base := own.get(_LOCAL_BASE)) is not None and kind.model_type in _WITH_LOCAL_BASE:
        config["rope_local_base_freq"] = base
    if (scaling := _scaling(path, own, config, tensors)) is not None:
        config["rope_scaling"] = scaling
    try:
        more = kind.more(config, tensors)  # which may take fields away
    except (ValueError, TypeError, LookupError) as error:
        raise ModelFormatError(f"{path}: its metadata are not those of a {architecture}: {error}") from error
    return {**config, **more}


# Fields of rope.scaling whose numbers are computed with, by its type, or of which llama.cpp makes no use there.
_BETAS = {"yarn_beta_fast", "yarn_beta_slow"}
_SCALING_FIELDS = {
    "none": {"factor", *_BETAS},
    "linear": {"factor", *_BETAS},
    "yarn": {"factor", "attn_factor", *_BETAS},
    "longrope": {"attn_factor", *_BETAS},
}


def _scaling(path: Path, own: Json, config: Json, tensors: Tensors) -> Json | None:
    """Return rope_scaling of config.json. Raises ModelFormatError."""
    given = {name.removeprefix(_SCALING): value for name, value in own.items() if name.startswith(_SCALING)}
    # Without a type, llama.cpp takes a factor for that of a linear scaling; a factor of 0 is none.
    kind = given.get("type", "linear" if given.get("factor") else "none")
    if not isinstance(kind, str) or kind not in _SCALING_FIELDS:
        raise ModelFormatError(f"{path}: {_SCALING}type is {kind!r:.80}; expected one of {', '.join(_SCALING_FIELDS)}")
    has_factors = LONG in tensors and SHORT in tensors
    without_effect: Json = {"attn_factor": 1, "factor": 1, "yarn_log_multiplier": 0, "yarn_attn_factor": 1}
    without_effect["yarn_ext_factor"] = int(kind == "yarn")
    fields = _SCALING_FIELDS["longrope" if has_factors else kind] - ({"factor"} if DIVISORS in tensors else set())
    for name, value in given.items():
        if name in ("type", "original_context_length", "finetuned") or name in config:
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or (value != without_effect.get(name) if name not in fields else value < 0):
            raise ModelFormatError(
                f"{path}: {_SCALING}{name} is {value!r:.80}, which is not supported in a scaling of the type {kind}"
            )
    trained = {"original_max_position_embeddings": given.get("original_context_length")}
    trained = {name: value for name, value in trained.items() if value}
    if LONG in tensors and SHORT in tensors:
        factors = {"long_factor": tensors[LONG].tolist(), "short_factor": tensors[SHORT].tolist()}
        amplitude = given.get("attn_factor")
        return {
            "rope_type": "longrope",
            **factors,
            **trained,
            **({} if amplitude is None else {"attention_factor": amplitude}),
        }
    if DIVISORS in tensors:
        return _of_divisors(path, tensors[DIVISORS], config)
    factor = given.get("factor") or 1.0
    if kind == "none" or (kind == "linear" and factor == 1):
        return None
    scaling: Json = {"rope_type": kind, "factor": factor, **trained}
    if given.get("attn_factor", 1.0) != 1:  # beside YaRN's own
        scaling["attention_factor"] = given["attn_factor"] * (1 + 0.1 * math.log(max(factor, 1.0)))
    for name, field in (("yarn_beta_fast", "beta_fast"), ("yarn_beta_slow", "beta_slow")):
        if name in given:
            scaling[field] = given[name]
    return scaling


def _of_divisors(path: Path, divisors: ndarray, config: Json) -> Json:
    """Return the scaling that a tensor with a divisor for each angle means: Llama 3's rule, where it gives these, else
    LongRoPE's for any length.

    Raises ModelFormatError.
    """
    if not (divisors.ndim == 1 and len(divisors) and (divisors > 0).all()):
        raise ModelFormatError(f"{path}: the tensor {DIVISORS!r} does not hold numbers above 0; the file is damaged")
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
