"""Writes models as GGUF files, for llama.cpp, by the tables that read them.

What a file cannot say is found by reading it back: settings that would then differ are refused by name. Matrices of a
compact model stay in their blocks where a file has only their rows in another order; others are rounded to eight bits.
"""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch

from chainrule.base.bfloat16 import BFLOAT16, widen
from chainrule.base.files import check_new_file
from chainrule.errors import SettingError
from chainrule.features.open.architectures import ARCHITECTURES
from chainrule.features.open.exporting import architecture_for, export_model, export_pair
from chainrule.features.open.gguf.blocks import PackedRows, in_eight_bits
from chainrule.features.open.gguf.kind import BLOCK, TENSORS
from chainrule.features.open.gguf.kinds import KINDS, kinds_named
from chainrule.features.open.gguf.metadata import (
    WITHOUT_FACTORS,
    angles,
    network_metadata,
    pair_metadata,
    what_llama_cpp_ignores,
    what_llama_cpp_lacks,
)
from chainrule.features.open.gguf.output import Written, in_float32, write_gguf
from chainrule.features.open.gguf.reading import DIVISORS, config_of
from chainrule.features.open.gguf.vocabulary import vocabulary_metadata
from chainrule.features.open.mapping import differences, write_settings
from chainrule.features.open.network.config import OpenSettings, opened
from chainrule.features.open.sentence_encoders import without_output
from chainrule.features.open.tokens.vocabulary import put_around
from chainrule.features.seq2seq.model import Seq2SeqModel
from chainrule.features.seq2seq.network.config import Seq2SeqConfig
from chainrule.models.any_model import check_kind
from chainrule.models.families.table import FAMILIES
from chainrule.models.model import Model
from chainrule.neural.layers.matrix_products import unpacked_shape
from chainrule.neural.packed.layouts import matrix_of
from chainrule.neural.saving import arrays_of
from chainrule.storage.config_json import CONFIG
from chainrule.storage.hugging_face import GENERATION_CONFIG, TOKENIZER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.features.open.architecture import Architecture
    from chainrule.features.open.exporting import Exported
    from chainrule.features.open.gguf.file import Tensors
    from chainrule.features.open.gguf.kind import Kind
    from chainrule.models.any_model import AnyModel
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Json = dict[str, Any]

# What llama.cpp has under another name than the kind that reads it.
_AS = {
    "deepseek_v2": "deepseek2",
    "mt5": "t5",
    "mistral": "llama",
    "mixtral": "llama",
    "olmo3": "olmo2",
    "internlm3": "llama",
    "falcon_mamba": "mamba",
    "granitemoe": "granitemoe",
    "glm4_moe_lite": "deepseek2",
}
_AS |= dict.fromkeys(("roberta", "xlm-roberta", "camembert"), "bert")
_PURPOSES = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown", "sep": "seperator", "cls": "cls"}
_PURPOSES |= {"mask": "mask"}
# Matrices that llama.cpp wants in float32, by the endings of their names.
_EXACT = (
    *("ssm_conv1d.weight", "shortconv.conv.weight", "ffn_gate_inp.weight", "ssm_a", "ssm_d", "attn_rel_b.weight"),
    *("_norm.weight", "token_types.weight", "position_embd.weight", "ffn_gate_inp_shexp.weight"),
)
_TYPES = {np.dtype("float16"): "F16", BFLOAT16: "BF16"}
_PATH = Path("x.gguf")  # for messages
_DIGITS = 4096  # rows are told apart by numbers in float32, of two digits to this base


def write_gguf_model(model: AnyModel, path: Path, settings: None, *, overwrite: bool, progress: Progress) -> None:
    """Write a GGUF file. Raises OutputError; SettingError where llama.cpp has no such model."""
    check_new_file(path, overwrite=overwrite)
    file = _of_pair(model) if isinstance(model, Seq2SeqModel) else _of_text_model(check_kind(model, Model).merge())
    metadata = file.metadata()
    if ignored := what_llama_cpp_ignores(file.name, file.config):
        warnings.warn(f"{path}: {ignored}", stacklevel=2)
    tensors: dict[str, Written] = {}
    names = [*file.tensors]
    for done, name in enumerate(names):
        progress("writing", done, len(names))
        tensors[name] = file.written(name)
    write_gguf(path, metadata, tensors)


def _of_text_model(model: Model) -> _File:
    """Return a Transformer as a GGUF file. Raises SettingError."""
    family, parts = FAMILIES[model.family], model.parts
    if family.job not in ("continue", "embed") or not family.embeds:
        raise SettingError(
            f"a model of family {model.family!r} cannot be written for llama.cpp, which opens Transformers that "
            "continue texts or embed them; save a model folder"
        )
    config = opened(parts.engine.network.config)
    if not isinstance(config, OpenSettings):
        raise SettingError("only a Transformer can be written for llama.cpp; save a model folder")
    architecture = architecture_for(config, parts.record.get("hugging_face"))
    if lack := what_llama_cpp_lacks(name := _name_of(architecture, config), config):
        raise SettingError(f"llama.cpp has no {name} {lack}; save a model folder")
    _, arrays = FAMILIES[parts.family].to_state(parts.engine)
    return _File(config, architecture, arrays, parts.tokenizer, parts.record)


def _of_pair(model: Seq2SeqModel) -> _File:
    """Return a T5 as a GGUF file. Raises SettingError."""
    network, origin = model.model.network, model.record.get("hugging_face")
    if origin is None:
        raise SettingError("of models of pairs, llama.cpp has those that were opened as T5; save a model folder")
    architecture = ARCHITECTURES[origin["config"]["model_type"]]
    return _File(network.config, architecture, arrays_of(network), model.target, model.record)


class _Probe(np.ndarray):
    """Numbers of rows, which go through all changes in the place of packed ones."""

    __array_priority__ = 1.0  # above that of other arrays, so that what is joined remains one


class _Part(NamedTuple):
    """A tensor in a file: of those of Hugging Face it is made of, the change and, of experts, how many."""

    sources: tuple[str, ...]
    change: Callable[[list[ndarray]], ndarray]


class _File:
    """A model as a GGUF file."""

    def __init__(
        self,
        config: OpenSettings | Seq2SeqConfig,
        architecture: Architecture,
        arrays: Mapping[str, ndarray],
        tokenizer: Tokenizer,
        record: Json,
    ) -> None:
        """Find the kind and the names of tensors. Raises SettingError."""
        self.config, self.tokenizer, self.record = config, tokenizer, record
        self._arrays = arrays
        self._packed = {name: PackedRows(array) for name, array in arrays.items() if _is_packed(array)}
        if any(rows.has_six_bits for rows in self._packed.values()):
            raise SettingError(
                "a GGUF file has no weights of 6 bits in blocks of 32; quantise to 4, 5 or 8 bits (--bits)"
            )
        self._firsts: dict[str, int] = {}
        self._probed = self._probes()
        self.architecture, self.name = architecture, _name_of(architecture, config)
        self.exported = self._export({**arrays, **self._probed})
        self.json: Json = json.loads(self.exported.files[CONFIG])
        self.written_settings = write_settings(architecture, config)
        self.kind, self.tensors = self._named()

    def _probes(self) -> dict[str, ndarray]:
        """Return, for each packed matrix, numbers of its rows: two digits, and a one that any computation changes."""
        probes: dict[str, ndarray] = {}
        first = 0
        for name, rows in self._packed.items():
            count = _rows(rows.packed)
            numbers = np.arange(first, first + count)
            digits = np.stack((numbers // _DIGITS, numbers % _DIGITS, np.ones(count)), 1)
            probes[name] = digits.astype(np.float32).view(_Probe)
            self._firsts[name] = first
            first += count
        return probes

    def _export(self, arrays: Mapping[str, ndarray]) -> Exported:
        if isinstance(self.config, Seq2SeqConfig):
            return export_pair(self.config, arrays, self.tokenizer, self.record)
        return export_model(self.config, arrays, self.tokenizer, self.record)

    @cached_property
    def _floats(self) -> dict[str, ndarray]:
        """The tensors of Hugging Face with all weights in float32, for those whose rows do not stay."""
        whole = {name: rows.floats(np.arange(_rows(rows.packed))) for name, rows in self._packed.items()}
        tensors: dict[str, ndarray] = self._export({**self._arrays, **whole}).tensors
        return tensors

    def _named(self) -> tuple[Kind, dict[str, _Part]]:
        """Return the kind, of those with this name the first that has all tensors, and these by the file's names.

        Raises SettingError.
        """
        missing = ""
        for kind in kinds_named(self.name):
            parts, missing = _parts_of(kind, self.exported.tensors, self.written_settings, self.config)
            if not missing:
                return kind, parts
        raise SettingError(f"a GGUF file of a {self.name} has no tensor for {missing!r}")

    def metadata(self) -> Json:
        """Return what the file says beside its tensors. Raises SettingError where it cannot say what the model is."""
        config, rows = self.config, self.json["vocab_size"]
        if isinstance(config, Seq2SeqConfig):
            network, extra = pair_metadata(config, self.json), {}
        else:
            if self.kind.model_type == "bert" and config.position_offset:
                config = replace(config, position_offset=0)  # whose rows are left out
            if self.kind.model_type == "falcon_h1":
                config = replace(config, **WITHOUT_FACTORS)  # which are in the weights
            network, extra = network_metadata(self.name, config), angles(config)
        own: Json = {"general.architecture": self.name, "general.type": "model"}
        own |= {f"{self.name}.{key}": value for key, value in network.items()}
        if self.kind.reads != "framed":
            own[f"{self.name}.vocab_size"] = rows
        stub = _Stub({**dict.fromkeys(self.tensors, np.empty(0)), **extra})
        stub.own["token_embd.weight"] = (rows,)
        if (types := "token_types.weight") in self.tensors:
            stub.own[types] = self._whole(types).shape
        if self.kind.reads == "framed":
            own["tokenizer.ggml.token_type_count"] = stub.own.get(types, (1,))[0]
        self.tensors |= {name: _Part((), partial(_constant, values)) for name, values in extra.items()}
        self._check(config, own, stub)
        ids = self._ids()
        return {
            **own,
            **vocabulary_metadata(self.exported.files[TOKENIZER], rows, ids, self.kind.reads),
            **self._chat(),
        }

    def _check(self, config: OpenSettings | Seq2SeqConfig, own: Json, stub: _Stub) -> None:
        """Raise SettingError where reading the file would give other settings."""
        back = config_of(_PATH, self.name, self.kind, own, cast("Tensors", stub))
        architecture = ARCHITECTURES[back["model_type"]]
        if architecture.is_bidirectional:
            architecture = without_output(architecture)
        others = differences(architecture, config, back)
        if architecture.is_bidirectional:  # which has no output
            others = [one for one in others if not one.startswith("tied=")]
        if DIVISORS in stub:  # which say all, whatever the rule that gave them is called
            others = [one for one in others if not one.startswith("rotary_")]
        if others:
            raise SettingError(f"a GGUF file of a {self.name} cannot have {', '.join(others)}")

    def _ids(self) -> Json:
        """Return the ids of tokens by their purposes, as the file names them, and what is put before a text."""
        said = {**self.json, **json.loads(self.exported.files.get(GENERATION_CONFIG, b"{}"))}
        origin = self.record.get("hugging_face") or {}
        names = self._numbers()
        ids: Json = {}
        for purpose, own in _PURPOSES.items():
            value = said.get(f"{purpose}_token_id")
            first, *others = value if isinstance(value, list) and value else [value]
            if type(first) is int:
                ids[f"{own}_token_id"] = first
            if purpose == "eos" and others:
                ids["eot_token_id"] = others[0]
        config = origin.get("tokenizer_config") or {}
        for purpose in ("cls", "sep", "mask") if self.kind.reads == "framed" else ():
            token = config.get(f"{purpose}_token")
            token = token["content"] if isinstance(token, dict) else token
            usual = {"cls": ("[CLS]", "<s>"), "sep": ("[SEP]", "</s>"), "mask": ("[MASK]", "<mask>")}[purpose]
            number = next((names[name] for name in (token, *usual) if name in names), None)
            if number is not None:
                ids[f"{_PURPOSES[purpose]}_token_id"] = number
        if self.kind.reads == "text":
            processor = json.loads(self.exported.files[TOKENIZER]).get("post_processor")
            added = config.get("add_bos_token")
            ids["add_bos_token"] = bool(_puts_begin(processor) if added is None else added)
        return ids

    def _numbers(self) -> dict[str, int]:
        described = json.loads(self.exported.files[TOKENIZER])
        vocabulary = described["model"]["vocab"]
        names = {piece: i for i, (piece, _) in enumerate(vocabulary)} if isinstance(vocabulary, list) else vocabulary
        return {**names, **{token["content"]: token["id"] for token in described.get("added_tokens") or ()}}

    def _chat(self) -> Json:
        template = (self.record.get("hugging_face") or {}).get("chat_template")
        return {"tokenizer.chat_template": template} if isinstance(template, str) else {}

    def _whole(self, name: str) -> ndarray:
        """Return a tensor of the file, of a packed matrix in float32."""
        sources, change = self.tensors[name]
        has_probe = any(source in self._probe_names for source in sources)
        tensors = self._floats if has_probe else self.exported.tensors
        array: ndarray = change([tensors[source] for source in sources])
        return array

    @cached_property
    def _probe_names(self) -> set[str]:
        return {name for name, array in self.exported.tensors.items() if isinstance(array, _Probe)}

    def written(self, name: str) -> Written:
        """Return a tensor for the file."""
        sources, change = self.tensors[name]
        if not sources:
            return in_float32(change([]))
        if any(source in self._probe_names for source in sources) and not name.endswith(_EXACT):
            probe = change([self.exported.tensors[source] for source in sources])
            if (blocks := self._in_blocks(probe)) is not None:
                return blocks
            array = self._whole(name)
            if array.ndim > 1 and array.shape[-1] % 32 == 0:
                rows = np.ascontiguousarray(array, np.float32).reshape(-1, array.shape[-1])
                return Written("Q8_0", array.shape, lambda: in_eight_bits(rows))
        array = self._whole(name)
        if array.ndim < 2 or name.endswith(_EXACT):
            return in_float32(widen(array))
        kind = _TYPES.get(array.dtype, "F32")
        return Written(kind, array.shape, lambda: np.ascontiguousarray(array if kind != "F32" else widen(array)))

    def _in_blocks(self, probe: ndarray) -> Written | None:
        """Return a tensor made of rows of packed matrices, which stay as they are; None where it is not."""
        if probe.shape[-1] != 3 or not (probe[..., 2] == 1).all():
            return None
        rows = np.rint(probe[..., 0].astype(np.float64) * _DIGITS + probe[..., 1]).astype(np.int64)
        firsts = np.array([*self._firsts.values()])
        owners = np.searchsorted(firsts, rows.reshape(-1), "right") - 1
        names = [*self._firsts]
        used = sorted(set(owners.tolist()))
        kinds = {self._packed[names[one]].kind for one in used}
        columns = {_columns(self._packed[names[one]].packed) for one in used}
        if len(columns) != 1:
            return None
        kind, [width] = kinds.pop() if len(kinds) == 1 else "Q8_0", columns

        def data() -> ndarray:
            chunks = list(self._rows_in_blocks(rows.reshape(-1) - firsts[owners], owners, names, kind))
            return np.concatenate(chunks)

        return Written(kind, (*rows.shape, width), data)

    def _rows_in_blocks(self, rows: ndarray, owners: ndarray, names: list[str], kind: str) -> Iterator[ndarray]:
        borders = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(owners)]
        for begin, end in pairwise(borders):
            for first in range(begin, end, _TOGETHER):
                some = slice(first, min(first + _TOGETHER, end))
                yield self._packed[names[owners[first]]].blocks(rows[some], kind)


_TOGETHER = 4096  # rows


class _Stub(dict[str, "ndarray"]):
    """Tensors of a file that is yet to be written, for those who ask which there are."""

    def __init__(self, tensors: Mapping[str, ndarray]) -> None:
        super().__init__(tensors)
        self.own: dict[str, tuple[int, ...]] = {}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes that are asked for."""
        return self.own


def _constant(values: ndarray, nothing: list[ndarray]) -> ndarray:
    return values


def _is_packed(array: ndarray) -> bool:
    return array.dtype == np.uint8 or array.dtype == np.int8


def _rows(packed: ndarray) -> int:
    return matrix_of(packed).rows if packed.dtype == np.uint8 else len(packed)


def _columns(packed: ndarray) -> int:
    if packed.dtype == np.uint8:
        return matrix_of(packed).columns
    return int(unpacked_shape(torch.from_numpy(packed))[1])


def _name_of(architecture: Architecture, config: OpenSettings | Seq2SeqConfig) -> str:
    """Return llama.cpp's name. Raises SettingError."""
    model_type = architecture.model_type
    if model_type in _AS:
        return _AS[model_type]
    name = next((name for name, kind in KINDS.items() if kind.model_type == model_type), None)
    if name is None:
        known = ", ".join(sorted({kind.model_type for kind in KINDS.values()} | {*_AS}))
        raise SettingError(f"llama.cpp has no {model_type}, as far as is known here; GGUF files are written of {known}")
    return f"{name}_moe" if name == "nemotron_h" and isinstance(config, OpenSettings) and config.experts else name


def _puts_begin(processor: Json | None) -> bool:
    """Return whether a token is put before each text."""
    before, _ = put_around(processor)
    return bool(before)


def _parts_of(kind: Kind, tensors: Mapping[str, ndarray], settings: Json, config: Any) -> tuple[dict[str, _Part], str]:
    """Return the tensors of a file by name, and one of Hugging Face's that it has no name for, if there is any.

    settings: fields of config.json, by which tensors are changed.
    """
    layers = kind.layers or "%s.block.{layer}."  # names of a kind with two sides are whole
    pattern = re.compile(
        re.escape(layers).replace(r"\{layer\}", r"(?P<layer>\d+)").replace("%s", "(?:en|de)coder") + "(?P<stem>.+)"
    )
    tops, blocks = (
        _stems({**own, **{name: theirs for name, theirs in usual.items() if name not in own}})
        for own, usual in ((kind.top, TENSORS), (kind.names, BLOCK))
    )
    parts: dict[str, _Part] = {}
    for full in tensors:
        match = pattern.fullmatch(full)
        layer, stem = (None, full) if match is None else (match["layer"], match["stem"])
        if match is not None and not kind.layers:
            stem = f"{full[: match.start('layer')]}{{layer}}{full[match.end('layer') :]}"
        expert = re.sub(r"(?<=experts\.)\d+", "{expert}", stem)
        names = _names_of(expert, tops if layer is None else blocks)
        if not names:
            return {}, full
        for name, number in names:
            change = _change_of(kind, name, settings, config)
            own = name if layer is None else _in_block(name, layer)
            if expert != stem:
                sources = (*(parts[own].sources if own in parts else ()), full)
                parts[own] = _Part(sources, np.stack)
            elif number is None:
                parts[own] = _Part((full,), change)
            else:
                parts[own] = _Part((full,), partial(_joined, kind, stem, number, settings))
    return parts, ""


def _in_block(name: str, layer: str) -> str:
    """Return the name of a tensor of a block, which may have its side first."""
    side, _, rest = name.partition(".")
    return f"{side}.blk.{layer}.{rest}" if side in ("enc", "dec") else f"blk.{layer}.{name}"


def _joined(kind: Kind, stem: str, number: int, settings: Json, tensors: list[ndarray]) -> ndarray:
    return kind.joins[stem].write(tensors[0], settings)[number]


def _stems(names: Mapping[str, str]) -> dict[str, list[tuple[str, int | None]]]:
    """Return a file's names, and numbers of parts, by those of Hugging Face; the first of several names for one."""
    stems: dict[str, list[tuple[str, int | None]]] = {}
    for own, theirs in names.items():
        stem, _, number = theirs.partition("#")
        if stem not in stems or number:
            stems.setdefault(stem, []).append((own, int(number) if number else None))
    return stems


def _names_of(stem: str, stems: Mapping[str, list[tuple[str, int | None]]]) -> list[tuple[str, int | None]]:
    """Return the names of a tensor in a file; with the ending, if the table has none."""
    if stem in stems:
        return stems[stem]
    name, _, ending = stem.rpartition(".")
    if ending in ("weight", "bias") and name in stems:
        return [(f"{own}.{ending}", number) for own, number in stems[name]]
    return []


def _change_of(kind: Kind, name: str, settings: Json, config: Any) -> Callable[[list[ndarray]], ndarray]:
    """Return what the converter of llama.cpp does to a tensor. name: in the file, in a block."""
    part = name.removesuffix(".weight").removesuffix(".bias")
    if kind.is_paired and part in ("attn_q", "attn_k"):
        return partial(_interleaved, config.heads if part == "attn_q" else config.key_heads)
    if kind.counts_one and part.endswith("norm") and part != "ssm_norm" and not name.endswith(".bias"):
        return lambda tensors: widen(tensors[0]) + np.float32(1)
    if part == "position_embd" and kind.model_type == "bert" and config.position_offset:
        return lambda tensors: tensors[0][config.position_offset :]
    change = kind.changes.get(part)
    return (lambda tensors: tensors[0]) if change is None else lambda tensors: change.write(tensors[0], settings)


def _interleaved(heads: int, tensors: list[ndarray]) -> ndarray:
    """Return rows whose halves rotate together, as neighbours, in each head."""
    [rows] = tensors
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)
