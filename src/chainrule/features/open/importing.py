"""A checkpoint of others as the parts of a model of ours, of single texts or pairs: settings, arrays, tokenizers, chat.

Settings and arrays come by the tables of its architecture. For pairs, each side has its tokenizer, and its token ids
become ours. What it says of chat is its template, the names of its special tokens, and the ids of conversations.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.bfloat16 import widen
from chainrule.base.memory import release_freed_memory
from chainrule.base.progress import Progress, silent
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.open.architectures import ARCHITECTURES
from chainrule.features.open.identify import architecture_of, text_part
from chainrule.features.open.mapping import Tensors, arrays_of, read_settings, rows_of, untied
from chainrule.features.open.quantised import unpacked
from chainrule.features.open.sentence_encoders import read_pooling, read_prompts
from chainrule.features.open.tokens.sentencepiece import definition_of_file
from chainrule.features.open.tokens.vocabulary import (
    check_ids,
    ends_of,
    numbering_by_markers,
    numbering_of,
    put_around,
    vocabulary_of,
)
from chainrule.features.seq2seq.languages import is_language
from chainrule.features.seq2seq.network.config import Seq2SeqConfig
from chainrule.neural.config import NetworkConfig, settings_of
from chainrule.storage.config_json import CONFIG
from chainrule.storage.hugging_face import (
    SOURCE_PIECES,
    TARGET_PIECES,
    TARGET_VOCABULARY,
    TOKENIZER,
    VOCABULARY,
)
from chainrule.text.tokenization.subword import Subword
from chainrule.text.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy import ndarray

    from chainrule.features.open.architecture import Architecture
    from chainrule.models.files.origin import TokenIdMap
    from chainrule.storage.hugging_face import Checkpoint

    Json = dict[str, Any]


class Imported(NamedTuple):
    """The parts of a model. settings, arrays: as the family's `from_state` takes them."""

    family: str
    settings: Json
    arrays: dict[str, ndarray]
    tokenizer: Tokenizer
    record: Json


def import_checkpoint(checkpoint: Checkpoint, progress: Progress = silent, *, exact: bool = False) -> Imported:
    """Return the parts of the model in a checkpoint.

    exact: whether quantised weights are widened to float32. Raises ModelFormatError, SettingError.
    """
    from chainrule.neural.saving import packable_of, shapes_of

    checkpoint, left_out = text_part(unpacked(checkpoint))
    architecture = architecture_of(checkpoint)
    config, ignored = read_settings(architecture, checkpoint.config, checkpoint.location)
    if not isinstance(config, NetworkConfig):
        raise ModelFormatError(
            f"{checkpoint.location}: is a seq2seq model, a {architecture.model_type}; expected a model of one text"
        )
    tensors = Tensors(architecture, checkpoint)
    config, changes, untied_warnings = untied(architecture, config, tensors)
    assert isinstance(config, NetworkConfig)
    checkpoint = checkpoint._replace(config={**checkpoint.config, **changes})
    splitter = splitter_of(checkpoint)
    numbering, warnings = _numbering_of(checkpoint, architecture, tensors, splitter)
    warnings += [*left_out, *untied_warnings]
    tokenizer = Tokenizer(splitter, vocabulary_of(splitter, numbering))
    splitter.forget_numbers()
    release_freed_memory()  # before weights take more
    pooling = read_pooling(checkpoint, config.context) if architecture.family == "text-encoder" else {}
    config = replace(config, memory="document", **numbering.settings(), **pooling)
    tensors.check_layers(getattr(config, "layers", 0) * max(1, getattr(config, "experts", 0)))
    size = numbering.rows + numbering.theirs().tolist().count(-1)
    shapes = shapes_of(config, size)
    packable = set() if exact else packable_of(config, size)
    arrays: dict[str, ndarray] = {}
    read = arrays_of(architecture, config, {"target": numbering}, shapes, tensors, packable)
    for done, (name, array) in enumerate(read):
        arrays[name] = array
        progress("opening", done + 1, len(shapes))
    release_freed_memory()
    record = record_of(
        checkpoint, {name: shapes[name] for name in arrays}, ignored, warnings, {"tokens": numbering._asdict()}
    )
    record |= read_prompts(checkpoint)
    if any(array.dtype == np.uint8 for array in arrays.values()):
        record["quantised"] = True
    return Imported(architecture.family, {"network": settings_of(config)}, arrays, tokenizer, record)


def record_of(
    checkpoint: Checkpoint, shapes: Mapping[str, Sequence[int]], ignored: list[str], warnings: list[str], tokens: Json
) -> Json:
    """Return the record of a model that was opened.

    shapes: of its arrays. tokens: notes on how its tokens were numbered.
    """
    return {
        "opened_from": checkpoint.location,
        "parameters": sum(math.prod(shape) for shape in shapes.values()),
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


class TakenTensors:
    """The tensors of a checkpoint that has no table, each of which is taken once, under its name without the prefix."""

    def __init__(self, checkpoint: Checkpoint, ignored: str, prefix: str = "") -> None:
        """Store the checkpoint. ignored: a pattern of tensors that are not read. prefix: as in `Architecture`."""
        self._checkpoint = checkpoint
        own = {name.removeprefix(prefix): name for name in checkpoint.tensors}
        self._left = {name: theirs for name, theirs in own.items() if not re.fullmatch(ignored, name)}

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str) -> ndarray:
        """Take a tensor, and return its numbers, widened. Raises ModelFormatError."""
        if name not in self._left:
            raise ModelFormatError(f"{self._checkpoint.location}: lacks the tensor {name!r}")
        array = widen(self._checkpoint.tensors[self._left.pop(name)])
        if not np.isfinite(array).all():
            raise ModelFormatError(
                f"{self._checkpoint.location}: the tensor {name!r} holds numbers that are not finite"
            )
        return array

    def drop(self, beginnings: tuple[str, ...]) -> list[str]:
        """Leave out the tensors whose names begin so, and return these."""
        dropped = sorted(name for name in self._left if name.startswith(beginnings))
        for name in dropped:
            del self._left[name]
        return dropped

    def check_empty(self, what: str) -> None:
        """Raise ModelFormatError where a tensor was not taken. what: the kind of network, which does not have it."""
        if self._left:
            raise ModelFormatError(
                f"{self._checkpoint.location}: has the tensor {min(self._left)!r}, which {what} does not have"
            )


def import_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    """Return the tokenizer of a model, without the model. Raises ModelFormatError, SettingError."""
    checkpoint, _ = text_part(checkpoint)
    architecture = architecture_of(checkpoint)
    if not issubclass(architecture.config, NetworkConfig):
        raise SettingError(f"{checkpoint.location}: has tokenizers of two sides; name a tokenizer.json")
    splitter = splitter_of(checkpoint)
    numbering, _ = _numbering_of(checkpoint, architecture, Tensors(architecture, checkpoint), splitter)
    return Tokenizer(splitter, vocabulary_of(splitter, numbering))


def _numbering_of(
    checkpoint: Checkpoint, architecture: Architecture, tensors: Tensors, splitter: Subword
) -> tuple[TokenIdMap, list[str]]:
    """Return which of the tokens are our markers, with warnings. Raises ModelFormatError."""
    rows = rows_of(architecture, tensors)
    return numbering_of(checkpoint, splitter, rows, is_masked=architecture.is_bidirectional)


def splitter_of(checkpoint: Checkpoint) -> Subword:
    """Return the splitter that tokenizer.json describes. Raises ModelFormatError, SettingError."""
    if checkpoint.tokenizer is None:
        raise ModelFormatError(
            f"{checkpoint.location}: has no {TOKENIZER}, which says how text is tokenized; transformers writes one"
        )
    return Subword(checkpoint.tokenizer, f"{checkpoint.location}: {TOKENIZER}")


class Sides(NamedTuple):
    """The tokenizers of both sides. source, target: the tokenizers; the same one where both sides are tokenized
    alike.
    """

    source: Tokenizer
    target: Tokenizer
    source_numbering: TokenIdMap
    target_numbering: TokenIdMap
    warnings: list[str]


def open_sides(checkpoint: Checkpoint, source_rows: int, target_rows: int) -> Sides:
    """Return the tokenizers of a model's sides. source_rows, target_rows: how many tokens have a vector.

    Raises ModelFormatError, SettingError.
    """
    if checkpoint.sides:
        return _of_sentencepiece(checkpoint, source_rows, target_rows)
    if checkpoint.tokenizer is None and checkpoint.config["model_type"] != "marian":
        splitter_of(checkpoint)
    if checkpoint.tokenizer is None:
        raise ModelFormatError(
            f"{checkpoint.location}: has no {TOKENIZER}, and no {SOURCE_PIECES} with {TARGET_PIECES} and {VOCABULARY}, "
            "which say how text is tokenized"
        )
    if source_rows != target_rows:
        raise ModelFormatError(
            f"{checkpoint.location}: has vectors for {source_rows:,} tokens of sources and {target_rows:,} of targets, "
            f"but one {TOKENIZER}; expected as many"
        )
    splitter = Subword(checkpoint.tokenizer, f"{checkpoint.location}: {TOKENIZER}")
    _check_rows(checkpoint, TOKENIZER, splitter.numbers, target_rows)
    numbering, warnings = _target_numbering(checkpoint, splitter.numbers, splitter.unknown, target_rows)
    tokenizer = Tokenizer(splitter, vocabulary_of(splitter, numbering))
    return Sides(tokenizer, tokenizer, numbering, numbering, warnings)


def _of_sentencepiece(checkpoint: Checkpoint, source_rows: int, target_rows: int) -> Sides:
    """Return the sides of a model with two files of pieces, whose ids are in one or two further files.

    Raises ModelFormatError, SettingError.
    """
    source_ids = target_ids = _ids(checkpoint, VOCABULARY, source_rows)
    is_joint = TARGET_VOCABULARY not in checkpoint.sides
    if not is_joint:
        target_ids = _ids(checkpoint, TARGET_VOCABULARY, target_rows)
    elif source_rows != target_rows:
        raise ModelFormatError(
            f"{checkpoint.location}: has vectors for {source_rows:,} tokens of sources and {target_rows:,} of targets, "
            f"but no {TARGET_VOCABULARY}"
        )
    numbering, warnings = _target_numbering(checkpoint, target_ids, target_ids.get("<unk>"), target_rows)
    source_numbering = numbering
    if not is_joint:
        end = source_ids.get("</s>")
        if end is None:
            raise ModelFormatError(f"{checkpoint.location}: {VOCABULARY}: has no </s>, which sources end with")
        source_numbering = numbering_by_markers(source_rows, source_ids.get("<unk>"), None, [end])
    target = _tokenizer(checkpoint, TARGET_PIECES, target_ids, numbering)
    is_same = is_joint and checkpoint.sides.get(SOURCE_PIECES) == checkpoint.sides.get(TARGET_PIECES)
    source = target if is_same else _tokenizer(checkpoint, SOURCE_PIECES, source_ids, source_numbering)
    return Sides(source, target, source_numbering, numbering, warnings)


def _tokenizer(checkpoint: Checkpoint, name: str, ids: Mapping[str, int], numbering: TokenIdMap) -> Tokenizer:
    """Return the tokenizer of a side. Raises ModelFormatError, SettingError."""
    if name not in checkpoint.sides:
        raise ModelFormatError(f"{checkpoint.location}: has no {name}, which says how text is tokenized")
    languages = [token for token in ids if token.startswith(">>") and token.endswith("<<")]
    source = f"{checkpoint.location}: {name}"
    splitter = Subword(definition_of_file(checkpoint.sides[name], source, languages), source)
    return Tokenizer(splitter, vocabulary_of(splitter, numbering, ids))


def _ids(checkpoint: Checkpoint, name: str, rows: int) -> dict[str, int]:
    """Return the id of each token. Raises ModelFormatError."""
    location = f"{checkpoint.location}: {name}"
    try:
        ids = json.loads(checkpoint.sides.get(name, b"null"))
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"{location}: is no valid JSON: {error}; get or write the file again") from error
    if not isinstance(ids, dict) or not all(type(number) is int and number >= 0 for number in ids.values()):
        raise ModelFormatError(f"{location}: is not there, or not an object of tokens with their ids")
    if len(set(ids.values())) < len(ids):
        raise ModelFormatError(f"{location}: two of its {len(ids):,} tokens have the same id")
    _check_rows(checkpoint, name, ids, rows)
    return ids


def _check_rows(checkpoint: Checkpoint, name: str, ids: Mapping[str, int], rows: int) -> None:
    """Raise ModelFormatError if a file numbers more tokens than the model has vectors for."""
    if (known := 1 + max(ids.values(), default=-1)) > rows:
        raise ModelFormatError(
            f"{checkpoint.location}: {name}: numbers {known:,} tokens, but the model has vectors for {rows:,}; "
            "they do not belong together"
        )


def _target_numbering(
    checkpoint: Checkpoint, ids: Mapping[str, int], unknown: int | None, rows: int
) -> tuple[TokenIdMap, list[str]]:
    """Return which ids are our markers, with warnings. A target begins with decoder_start_token_id.

    Raises ModelFormatError.
    """
    ends, warnings = ends_of(checkpoint, ids)
    name = "decoder_start_token_id"
    said = (checkpoint.generation_config.get(name), checkpoint.config.get(name), checkpoint.config.get("pad_token_id"))
    begin = next((value for value in said if value is not None), None)
    if type(begin) is not int:
        raise ModelFormatError(f"{checkpoint.location}: {name} is {begin!r}; expected the id that targets begin with")
    check_ids(checkpoint.location, rows, eos_token_id=ends, decoder_start_token_id=[begin])
    return numbering_by_markers(rows, unknown, begin, ends), warnings


def _added_tokens(checkpoint: Checkpoint, sides: Sides) -> Json:
    """Return the settings that say what is read before and after each text, beside what ends it: sources as the
    tokenizer has them; targets begin with the forced token, else with what stands before sources (BART's <s>), unless
    that says the language of the source.

    Raises ModelFormatError.
    """
    settings: Json = {}
    before: list[str] = []
    numbers = sides.source.splitter.numbers if isinstance(sides.source.splitter, Subword) else {}
    if checkpoint.tokenizer is not None and not checkpoint.sides:
        before, after = put_around(json.loads(checkpoint.tokenizer).get("post_processor"))
        unknown = [name for name in (*before, *after) if name not in numbers]
        if unknown or (after and numbers[after[0]] != sides.source_numbering.end):
            raise ModelFormatError(
                f"{checkpoint.location}: {TOKENIZER}: puts {', '.join(after)} after a text, and {', '.join(before)} "
                "before it; expected tokens that it numbers, and after a text first the one that ends it"
            )
        ours = sides.source_numbering.ours()
        for name, tokens in (("before_source", before), ("after_source", after[1:])):
            settings[name] = tuple(ours[[numbers[token] for token in tokens]].tolist())
    name = "forced_bos_token_id"
    said = checkpoint.generation_config.get(name), checkpoint.config.get(name)
    forced = next((value for value in said if value is not None), None)
    if forced is None and len(before) == 1 and not is_language(before[0]):
        forced = numbers[before[0]]
    if forced is not None:
        if type(forced) is not int:
            raise ModelFormatError(f"{checkpoint.location}: {name} is {forced!r}; expected the id of a token")
        check_ids(checkpoint.location, sides.target_numbering.rows, forced_bos_token_id=[forced])
        settings["before_target"] = (int(sides.target_numbering.ours()[forced]),)
    return settings


class ImportedPair(NamedTuple):
    """The parts of a seq2seq model.

    settings: the network's. source, target: the tokenizers; the same one where there is only one.
    """

    settings: Json
    arrays: dict[str, ndarray]
    source: Tokenizer
    target: Tokenizer
    record: Json


def is_pair(model_type: object) -> bool:
    """Return whether a model_type of config.json is that of a seq2seq model."""
    return isinstance(model_type, str) and model_type in ARCHITECTURES and _is_pair(ARCHITECTURES[model_type])


def import_pair(checkpoint: Checkpoint, progress: Progress = silent) -> ImportedPair:
    """Return the parts of the seq2seq model in a checkpoint. Raises ModelFormatError, SettingError."""
    from chainrule.features.seq2seq.network.saving import shapes_of_pair

    checkpoint = unpacked(checkpoint)
    architecture = architecture_of(checkpoint)
    if not _is_pair(architecture):
        raise ModelFormatError(
            f"{checkpoint.location}: {CONFIG}: model_type is {architecture.model_type!r}, which is a model of one "
            "text; expected one of a text given another"
        )
    config, ignored = read_settings(architecture, checkpoint.config, checkpoint.location)
    tensors = Tensors(architecture, checkpoint)
    config, changes, untied_warnings = untied(architecture, config, tensors)
    assert isinstance(config, Seq2SeqConfig)
    checkpoint = checkpoint._replace(config={**checkpoint.config, **changes})
    tensors.check_layers(config.encoder_layers + config.decoder_layers)
    rows = _rows(architecture, config, tensors)
    sides = open_sides(checkpoint, *rows)
    config = replace(config, **sides.target_numbering.settings(), **_added_tokens(checkpoint, sides))
    numberings = {"source": sides.source_numbering, "target": sides.target_numbering}
    sizes = sides.source.vocabulary_size, sides.target.vocabulary_size
    shapes = shapes_of_pair(config, sizes)
    arrays: dict[str, ndarray] = {}
    for done, (name, array) in enumerate(arrays_of(architecture, config, numberings, shapes, tensors)):
        arrays[name] = array
        progress("opening", done + 1, len(shapes))
    tokens = {"tokens": sides.target_numbering._asdict(), "source_tokens": sides.source_numbering._asdict()}
    record = record_of(
        checkpoint,
        {name: array.shape for name, array in arrays.items()},
        ignored,
        [*sides.warnings, *untied_warnings],
        tokens,
    )
    return ImportedPair(settings_of(config), arrays, sides.source, sides.target, record)


def _is_pair(architecture: Architecture) -> bool:
    return architecture.family == "conditional"


def _rows(architecture: Architecture, config: Seq2SeqConfig, tensors: Tensors) -> tuple[int, int]:
    """Return how many source tokens and target tokens have a vector. Raises ModelFormatError."""
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
