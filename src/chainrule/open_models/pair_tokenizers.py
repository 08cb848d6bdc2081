"""How the text of each side of a model of pairs is cut, and which of its token ids is which of ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.errors import ModelFormatError
from chainrule.open_models.sentencepiece_file import definition_of_file
from chainrule.open_models.vocabulary import (
    Numbering,
    check_ids,
    ends_of,
    numbering_by_markers,
    vocabulary_of,
)
from chainrule.storage.hugging_face import SOURCE_PIECES, TARGET_PIECES, TARGET_VOCABULARY, TOKENIZER, VOCABULARY
from chainrule.text.tokenization.subword import Subword
from chainrule.text.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chainrule.storage.hugging_face import Checkpoint

    Json = dict[str, Any]


class Sides(NamedTuple):
    """source, target: the same tokenizer where both sides are cut alike."""

    source: Tokenizer
    target: Tokenizer
    source_numbering: Numbering
    target_numbering: Numbering
    warnings: list[str]


def open_sides(checkpoint: Checkpoint, source_rows: int, target_rows: int) -> Sides:
    """The tokenizers of a model's sides. source_rows, target_rows: how many tokens have a vector.

    Raises ModelFormatError, SettingError.
    """
    if checkpoint.sides:
        return _of_sentencepiece(checkpoint, source_rows, target_rows)
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
    """Of two files of pieces, whose ids are in one more file, or in two. Raises ModelFormatError, SettingError."""
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


def _tokenizer(checkpoint: Checkpoint, name: str, ids: Mapping[str, int], numbering: Numbering) -> Tokenizer:
    """Raises ModelFormatError, SettingError."""
    if name not in checkpoint.sides:
        raise ModelFormatError(f"{checkpoint.location}: has no {name}, which says how text is tokenized")
    languages = [token for token in ids if token.startswith(">>") and token.endswith("<<")]
    source = f"{checkpoint.location}: {name}"
    splitter = Subword(definition_of_file(checkpoint.sides[name], source, languages), source)
    return Tokenizer(splitter, vocabulary_of(splitter, numbering, ids))


def _ids(checkpoint: Checkpoint, name: str, rows: int) -> dict[str, int]:
    """The id of each token. Raises ModelFormatError."""
    location = f"{checkpoint.location}: {name}"
    try:
        ids = json.loads(checkpoint.sides.get(name, b"null"))
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"{location}: is not JSON: {error}; the file is cut off or damaged") from error
    if not isinstance(ids, dict) or not all(type(number) is int and number >= 0 for number in ids.values()):
        raise ModelFormatError(f"{location}: is not there, or not an object of tokens with their ids")
    if len(set(ids.values())) < len(ids):
        raise ModelFormatError(f"{location}: two of its {len(ids):,} tokens have the same id")
    _check_rows(checkpoint, name, ids, rows)
    return ids


def _check_rows(checkpoint: Checkpoint, name: str, ids: Mapping[str, int], rows: int) -> None:
    """Raises ModelFormatError."""
    if (known := 1 + max(ids.values(), default=-1)) > rows:
        raise ModelFormatError(
            f"{checkpoint.location}: {name}: numbers {known:,} tokens, but the model has vectors for {rows:,}; "
            "they do not belong together"
        )


def _target_numbering(
    checkpoint: Checkpoint, ids: Mapping[str, int], unknown: int | None, rows: int
) -> tuple[Numbering, list[str]]:
    """Which ids are our markers, and what there is to warn of. A target begins with decoder_start_token_id.

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
