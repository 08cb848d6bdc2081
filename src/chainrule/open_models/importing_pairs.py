"""A checkpoint of others as the parts of a model of pairs: settings, arrays, and the tokenizers of both sides."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.base.progress import Progress, silent
from chainrule.errors import ModelFormatError
from chainrule.neural.config import settings_of
from chainrule.neural.config.seq2seq import ConditionalConfig
from chainrule.open_models.architectures import ARCHITECTURES
from chainrule.open_models.importing import architecture_of, record_of
from chainrule.open_models.pair_tokenizers import open_sides
from chainrule.open_models.settings import read_settings
from chainrule.open_models.tensors import Tensors, arrays_of
from chainrule.storage.config_json import CONFIG

if TYPE_CHECKING:
    from numpy import ndarray

    from chainrule.open_models.architecture import Architecture
    from chainrule.storage.hugging_face import Checkpoint
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Json = dict[str, Any]


class ImportedPair(NamedTuple):
    """The parts of a model of pairs. settings: of its network. source, target: the same tokenizer, where it is one."""

    settings: Json
    arrays: dict[str, ndarray]
    source: Tokenizer
    target: Tokenizer
    record: Json


def is_pair(model_type: object) -> bool:
    """Whether a model_type of config.json is that of a model of pairs."""
    return isinstance(model_type, str) and model_type in ARCHITECTURES and _is_pair(ARCHITECTURES[model_type])


def import_pair(checkpoint: Checkpoint, progress: Progress = silent) -> ImportedPair:
    """Raises ModelFormatError, SettingError."""
    from chainrule.neural.saving import shapes_of_pair

    architecture = architecture_of(checkpoint)
    if not _is_pair(architecture):
        raise ModelFormatError(
            f"{checkpoint.location}: {CONFIG}: model_type is {architecture.model_type!r}, which is a model of one "
            "text; expected one of a text given another"
        )
    config, ignored = read_settings(architecture, checkpoint.config, f"{checkpoint.location}: {CONFIG}")
    assert isinstance(config, ConditionalConfig)
    tensors = Tensors(architecture, checkpoint)
    tensors.check_layers(config.encoder_layers + config.decoder_layers)
    rows = _rows(architecture, config, tensors)
    sides = open_sides(checkpoint, *rows)
    config = replace(config, **sides.target_numbering.settings())
    numberings = {"source": sides.source_numbering, "target": sides.target_numbering}
    sizes = sides.source.vocabulary_size, sides.target.vocabulary_size
    shapes = shapes_of_pair(config, sizes)
    arrays: dict[str, ndarray] = {}
    for done, (name, array) in enumerate(arrays_of(architecture, config, numberings, shapes, tensors)):
        arrays[name] = array
        progress("opening", done + 1, len(shapes))
    tokens = {"tokens": sides.target_numbering._asdict(), "source_tokens": sides.source_numbering._asdict()}
    record = record_of(checkpoint, arrays, ignored, sides.warnings, tokens)
    return ImportedPair(settings_of(config), arrays, sides.source, sides.target, record)


def _is_pair(architecture: Architecture) -> bool:
    return architecture.config is ConditionalConfig


def _rows(architecture: Architecture, config: ConditionalConfig, tensors: Tensors) -> tuple[int, int]:
    """How many tokens of sources and of targets have a vector. Raises ModelFormatError."""
    by_token = {
        row.ours: row.names(0)[0]
        for row in architecture.tensors
        if row.by_token and row.ours.endswith("weight") and (row.when is None or row.when(config))
    }
    target = by_token["output.weight"]
    source = by_token.get("source_embedding.weight", target)
    rows = []
    for name, field in ((source, "vocab_size"), (target, "decoder_vocab_size")):
        said, shape = tensors.config.get(field, tensors.config.get("vocab_size")), tensors.sound(name).shape
        if len(shape) != 2 or said not in (None, shape[0]):
            raise ModelFormatError(
                f"{tensors.location}: the tensor {name!r} is {list(shape)}, but {field} in {CONFIG} is {said!r}"
            )
        rows.append(shape[0])
    return rows[0], rows[1]
