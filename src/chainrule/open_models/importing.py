"""A checkpoint of others as the parts of a model of ours: settings and arrays, by the tables of its architecture."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.base.progress import Progress, silent
from chainrule.errors import ModelFormatError, SettingError
from chainrule.neural.config import NetworkConfig
from chainrule.open_models.architectures import ARCHITECTURES
from chainrule.open_models.architectures.bert import BERT, BERT_WITH_PAIRS
from chainrule.open_models.sentence_encoders import output_tensors, read_pooling, without_output
from chainrule.open_models.settings import read_settings
from chainrule.open_models.tensors import Tensors, arrays_of, rows_of
from chainrule.open_models.vocabulary import numbering_of, vocabulary_of
from chainrule.storage.config_json import CONFIG
from chainrule.storage.hugging_face import MODULES, TOKENIZER
from chainrule.text.tokenization.subword import Subword
from chainrule.text.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy import ndarray

    from chainrule.open_models.architecture import Architecture
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

    architecture = architecture_of(checkpoint)
    config, ignored = read_settings(architecture, checkpoint.config, f"{checkpoint.location}: {CONFIG}")
    if not isinstance(config, NetworkConfig):
        raise ModelFormatError(
            f"{checkpoint.location}: is a model of one text given another, a {architecture.model_type}; expected a "
            "model of one text"
        )
    tensors = Tensors(architecture, checkpoint)
    splitter = splitter_of(checkpoint)
    numbering, warnings = _numbering_of(checkpoint, architecture, tensors, splitter)
    pooling = read_pooling(checkpoint, config.context) if architecture.family == "text-encoder" else {}
    config = replace(config, memory="document", **numbering.settings(), **pooling)
    tensors.check_layers(getattr(config, "layers", 0))
    shapes = shapes_of(config, numbering.rows + numbering.theirs().tolist().count(-1))
    arrays: dict[str, ndarray] = {}
    for done, (name, array) in enumerate(arrays_of(architecture, config, {"target": numbering}, shapes, tensors)):
        arrays[name] = array
        progress("opening", done + 1, len(shapes))
    record = record_of(checkpoint, arrays, ignored, warnings, {"tokens": numbering._asdict()})
    tokenizer = Tokenizer(splitter, vocabulary_of(splitter, numbering))
    return Imported(architecture.family, {"network": settings_of(config)}, arrays, tokenizer, record)


def record_of(
    checkpoint: Checkpoint, arrays: Mapping[str, ndarray], ignored: list[str], warnings: list[str], tokens: Json
) -> Json:
    """How a model came about that was opened. tokens: what is to be known of how they were numbered."""
    return {
        "opened_from": checkpoint.location,
        "parameters": sum(array.size for array in arrays.values()),
        "ignored": ignored,
        "warnings": warnings,
        "hugging_face": {
            "config": checkpoint.config,
            "generation_config": checkpoint.generation_config,
            "tokenizer_config": checkpoint.tokenizer_config,
            "chat_template": checkpoint.chat_template,
            **tokens,
            "sentence_files": {
                name: data.decode("utf-8", "replace") for name, data in checkpoint.sentence_files.items()
            },
        },
    }


def import_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    """How a model's text is cut, without the model. Raises ModelFormatError, SettingError."""
    architecture = architecture_of(checkpoint)
    if not issubclass(architecture.config, NetworkConfig):
        raise SettingError(f"{checkpoint.location}: has tokenizers of two sides; name a tokenizer.json")
    splitter = splitter_of(checkpoint)
    numbering, _ = _numbering_of(checkpoint, architecture, Tensors(architecture, checkpoint), splitter)
    return Tokenizer(splitter, vocabulary_of(splitter, numbering))


def _numbering_of(
    checkpoint: Checkpoint, architecture: Architecture, tensors: Tensors, splitter: Subword
) -> tuple[Numbering, list[str]]:
    """Raises ModelFormatError."""
    rows = rows_of(architecture, tensors)
    return numbering_of(checkpoint, splitter, rows, is_masked=architecture.sees_both_sides)


def splitter_of(checkpoint: Checkpoint) -> Subword:
    """Raises ModelFormatError, SettingError."""
    if checkpoint.tokenizer is None:
        raise ModelFormatError(
            f"{checkpoint.location}: has no {TOKENIZER}, which says how text is tokenized; transformers writes one"
        )
    return Subword(checkpoint.tokenizer, f"{checkpoint.location}: {TOKENIZER}")


def architecture_of(checkpoint: Checkpoint) -> Architecture:
    """Raises ModelFormatError."""
    architecture = _named_architecture(checkpoint)
    if not architecture.sees_both_sides:
        if checkpoint.sentence_files:
            masked = ", ".join(each.model_type for each in ARCHITECTURES.values() if each.sees_both_sides)
            raise ModelFormatError(
                f"{checkpoint.location}: {MODULES} makes a sentence encoder of a {architecture.model_type}; here there "
                f"are those of {masked}"
            )
        return architecture
    classes = checkpoint.config.get("architectures") or []
    if not isinstance(classes, list):
        raise ModelFormatError(
            f"{checkpoint.location}: {CONFIG}: architectures is {classes!r:.80}; expected a list of names of classes"
        )
    if architecture is BERT and BERT_WITH_PAIRS.class_name in classes and not checkpoint.sentence_files:
        return BERT_WITH_PAIRS
    has_output = architecture.class_name in classes or bool(
        output_tensors(architecture) & Tensors(architecture, checkpoint).names.keys()
    )
    return architecture if has_output and not checkpoint.sentence_files else without_output(architecture)


def _named_architecture(checkpoint: Checkpoint) -> Architecture:
    """Raises ModelFormatError."""
    name = checkpoint.config.get("model_type")
    if name is None:
        raise ModelFormatError(
            f"{checkpoint.location}: {CONFIG}: lacks model_type, as old ones do; write into it which of these it is: "
            f"{', '.join(ARCHITECTURES)}"
        )
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise ModelFormatError(
            f"{checkpoint.location}: {CONFIG}: model_type is {name!r}, which is not supported; known are "
            f"{', '.join(ARCHITECTURES)}"
        )
    return ARCHITECTURES[name]
