"""A checkpoint of others as the parts of a model of ours: settings and arrays, by the tables of its architecture."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.base.bfloat16 import has_nan
from chainrule.base.progress import Progress, silent
from chainrule.errors import ModelFormatError
from chainrule.open_models.architectures import ARCHITECTURES
from chainrule.open_models.sentence_encoders import output_tensors, read_pooling, without_output
from chainrule.open_models.settings import read_settings
from chainrule.open_models.vocabulary import numbering_of, rows_by_ours, vocabulary_of
from chainrule.storage.config_json import CONFIG
from chainrule.storage.hugging_face import MODULES, TOKENIZER
from chainrule.text.subword import Subword
from chainrule.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy import ndarray

    from chainrule.neural.config import NetworkConfig
    from chainrule.open_models.mapping import Architecture
    from chainrule.open_models.vocabulary import Numbering
    from chainrule.storage.hugging_face import Checkpoint

    Json = dict[str, Any]


class Imported(NamedTuple):
    """The parts of a model. settings, arrays: as the family puts them together."""

    family: str
    settings: Json
    arrays: dict[str, ndarray]
    tokenizer: Tokenizer
    record: Json


def import_checkpoint(checkpoint: Checkpoint, progress: Progress = silent) -> Imported:
    """Raises ModelFormatError, SettingError."""
    from chainrule.neural.config import settings_of
    from chainrule.neural.saving import shapes_of

    place = checkpoint.place
    architecture = _architecture_of(checkpoint)
    config, ignored = read_settings(architecture, checkpoint.config, f"{place}: {CONFIG}")
    tensors = _Tensors(architecture, checkpoint)
    splitter = _splitter_of(checkpoint)
    numbering, warnings = _numbering_of(checkpoint, architecture, tensors, splitter)
    pooling = read_pooling(checkpoint, config.context) if architecture.family == "text-encoder" else {}
    config = replace(config, memory="document", **numbering.settings(), **pooling)
    layers: int = getattr(config, "layers", 0)
    if layers > len(tensors.names):
        raise ModelFormatError(f"{place}: {CONFIG}: asks for {layers:,} layers, but has {len(tensors.names)} tensors")
    shapes = shapes_of(config, numbering.rows + numbering.theirs().tolist().count(-1))
    arrays: dict[str, ndarray] = {}
    for done, (name, array) in enumerate(_arrays(architecture, config, numbering, shapes, tensors)):
        arrays[name] = array
        progress("opening", done + 1, len(shapes))
    record: Json = {
        "opened_from": place,
        "parameters": sum(array.size for array in arrays.values()),
        "ignored": ignored,
        "warnings": warnings,
        "hugging_face": {
            "config": checkpoint.config,
            "generation_config": checkpoint.generation_config,
            "tokenizer_config": checkpoint.tokenizer_config,
            "chat_template": checkpoint.chat_template,
            "tokens": numbering._asdict(),
            "sentence_files": {
                name: data.decode("utf-8", "replace") for name, data in checkpoint.sentence_files.items()
            },
        },
    }
    tokenizer = Tokenizer(splitter, vocabulary_of(splitter, numbering))
    return Imported(architecture.family, {"network": settings_of(config)}, arrays, tokenizer, record)


def import_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    """How a model's text is cut, without the model. Raises ModelFormatError, SettingError."""
    architecture, splitter = _architecture_of(checkpoint), _splitter_of(checkpoint)
    numbering, _ = _numbering_of(checkpoint, architecture, _Tensors(architecture, checkpoint), splitter)
    return Tokenizer(splitter, vocabulary_of(splitter, numbering))


def _numbering_of(
    checkpoint: Checkpoint, architecture: Architecture, tensors: _Tensors, splitter: Subword
) -> tuple[Numbering, list[str]]:
    """Raises ModelFormatError."""
    rows = _rows(architecture, tensors)
    return numbering_of(checkpoint, splitter, rows, is_masked=architecture.sees_both_sides)


def _splitter_of(checkpoint: Checkpoint) -> Subword:
    """Raises ModelFormatError, SettingError."""
    if checkpoint.tokenizer is None:
        raise ModelFormatError(
            f"{checkpoint.place}: has no {TOKENIZER}, which says how text is cut; transformers writes one"
        )
    return Subword(checkpoint.tokenizer, f"{checkpoint.place}: {TOKENIZER}")


def _architecture_of(checkpoint: Checkpoint) -> Architecture:
    """Raises ModelFormatError."""
    architecture = _named_architecture(checkpoint)
    if not architecture.sees_both_sides:
        if checkpoint.sentence_files:
            masked = ", ".join(each.model_type for each in ARCHITECTURES.values() if each.sees_both_sides)
            raise ModelFormatError(
                f"{checkpoint.place}: {MODULES} makes a sentence encoder of a {architecture.model_type}; here there "
                f"are those of {masked}"
            )
        return architecture
    classes = checkpoint.config.get("architectures") or []
    has_output = architecture.class_name in classes or bool(
        output_tensors(architecture) & _Tensors(architecture, checkpoint).names.keys()
    )
    return architecture if has_output and not checkpoint.sentence_files else without_output(architecture)


def _named_architecture(checkpoint: Checkpoint) -> Architecture:
    """Raises ModelFormatError."""
    name = checkpoint.config.get("model_type")
    if name is None:
        raise ModelFormatError(
            f"{checkpoint.place}: {CONFIG}: lacks model_type, as old ones do; write into it which of these it is: "
            f"{', '.join(ARCHITECTURES)}"
        )
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise ModelFormatError(
            f"{checkpoint.place}: {CONFIG}: model_type is {name!r}, which is not known here; known are "
            f"{', '.join(ARCHITECTURES)}"
        )
    return ARCHITECTURES[name]


class _Tensors:
    """The tensors of a checkpoint that are weights, by their full names."""

    def __init__(self, architecture: Architecture, checkpoint: Checkpoint) -> None:
        """Raises ModelFormatError where a name stands twice, with a prefix and without."""
        self.place, self.config, self._checkpoint = checkpoint.place, checkpoint.config, checkpoint
        self.names: dict[str, str] = {}  # as they are in the file
        prefix, own = architecture.prefix, {name for row in architecture.tensors for name in row.names(0)}
        for name in checkpoint.tensors:
            full = name
            for old, new in architecture.old_endings.items():
                full = full.removesuffix(old) + new if full.endswith(old) else full
            if prefix and full not in own and not full.startswith(prefix):
                full = prefix + full
            if any(re.fullmatch(pattern, full) for pattern in architecture.ignored_tensors):
                continue
            if full in self.names:
                raise ModelFormatError(f"{checkpoint.files[name]}: has the tensor {full!r} with and without {prefix!r}")
            self.names[full] = name

    def sound(self, name: str) -> ndarray:
        """A tensor that is there and holds numbers. Raises ModelFormatError."""
        if name not in self.names:
            raise ModelFormatError(f"{self.place}: lacks the tensor {name!r}")
        tensor = self._checkpoint.tensors[self.names[name]]
        place = self._checkpoint.files.get(self.names[name], self.place)
        if tensor.dtype.kind not in "fV" or tensor.dtype.itemsize > 4:
            raise ModelFormatError(
                f"{place}: the tensor {name!r} is {tensor.dtype}; expected float32, float16 or bfloat16"
            )
        if has_nan(tensor):
            raise ModelFormatError(f"{place}: the tensor {name!r} holds NaN, which is no number; the file is damaged")
        return tensor


def _rows(architecture: Architecture, tensors: _Tensors) -> int:
    """How many tokens have a vector. Raises ModelFormatError."""
    [name] = next(row for row in architecture.tensors if row.by_token).names(0)
    said, shape = tensors.config.get("vocab_size"), tensors.sound(name).shape
    if len(shape) != 2 or said not in (None, shape[0]):
        raise ModelFormatError(
            f"{tensors.place}: the tensor {name!r} is {list(shape)}, but vocab_size in {CONFIG} is {said!r}"
        )
    return shape[0]


def _arrays(
    architecture: Architecture,
    config: NetworkConfig,
    numbering: Numbering,
    shapes: Mapping[str, tuple[int, ...]],
    tensors: _Tensors,
) -> Iterator[tuple[str, ndarray]]:
    """Each array of ours with its name. Raises ModelFormatError where a tensor is missing, is none, or is left over."""
    used: set[str] = set()
    layers: int = getattr(config, "layers", 0)
    for row in architecture.tensors:
        for layer in range(layers if "{layer}" in row.ours else 1):
            name = row.ours.format(layer=layer)
            if name not in shapes:
                continue
            sources = row.names(layer)
            used |= set(sources)
            parts = [tensors.sound(source) for source in sources]
            try:
                array = row.change.to_ours(parts, config)
                array = rows_by_ours(array, numbering) if row.by_token else array
                fits = array.shape == shapes[name]
            except (ValueError, IndexError):
                fits = False
            if not fits:
                found = [f"{source!r} {list(part.shape)}" for source, part in zip(sources, parts, strict=True)]
                raise ModelFormatError(
                    f"{tensors.place}: {' and '.join(found)} do not have the shapes that {CONFIG} asks for: "
                    f"they should make {list(shapes[name])}"
                )
            yield name, array
    tied = {name for row in architecture.tensors if row.by_token and row.ours not in shapes for name in row.names(0)}
    if left := sorted(tensors.names.keys() - used - tied):
        raise ModelFormatError(
            f"{tensors.place}: has the tensor {left[0]!r}, which a {architecture.model_type} with the settings "
            f"of its {CONFIG} does not have"
        )
