"""Reads unigram models of SentencePiece (.spm, .model; Kudo 2018) as a tokenizer.json.

The format is a protocol buffer, sentencepiece_model.proto: fields with a number, a wire type, and a value.
"""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, NamedTuple

from chainrule.errors import ModelFormatError
from chainrule.open_models.sentencepiece import definition_of_unigrams

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_PIECES, _TRAINING, _NORMALISING = 1, 2, 3  # fields of a model
_PIECE, _SCORE, _KIND = 1, 2, 3  # of a piece
_NORMAL, _UNKNOWN, _USER_DEFINED, _BYTE = 1, 2, 4, 6  # kinds of pieces; the others are never in a text
_MODEL_TYPE, _AS_SUFFIX = 3, 24  # of training
_CHARACTERS, _ADDS_SPACE, _DROPS_SPACES, _MARKS_SPACES = 2, 3, 4, 5  # of normalising
_UNIGRAM = 1
_TYPES: dict[object, object] = {2: "pairs (BPE)", 3: "words", 4: "characters"}
_MOST_PIECES = 1 << 22


class _Piece(NamedTuple):
    text: str
    score: float
    kind: int


def definition_of_file(data: bytes, source: str, added: Sequence[str] = ()) -> bytes:
    """A tokenizer.json of the bytes of a file. source: its name, for errors. added: texts that are tokens wherever they
    occur. Raises ModelFormatError.
    """
    pieces: list[_Piece] = []
    training: dict[int, int | bytes] = {}
    normalising: dict[int, int | bytes] = {}
    try:
        for field, value in _fields(data):
            if field == _PIECES and isinstance(value, bytes):
                pieces.append(_piece(value))
            elif field == _TRAINING and isinstance(value, bytes):
                training = dict(_fields(value))
            elif field == _NORMALISING and isinstance(value, bytes):
                normalising = dict(_fields(value))
            if len(pieces) > _MOST_PIECES:
                raise ValueError(f"more than {_MOST_PIECES:,} pieces")
    except (ValueError, IndexError, struct.error) as error:  # UnicodeDecodeError is a ValueError
        raise ModelFormatError(f"{source}: is not a SentencePiece file: {error}; it is cut off or damaged") from error
    unknown = [piece.text for piece in pieces if piece.kind == _UNKNOWN]
    if len(unknown) != 1:
        raise ModelFormatError(f"{source}: has {len(unknown)} unknown pieces; expected one")
    kind = training.get(_MODEL_TYPE, _UNIGRAM)
    if kind != _UNIGRAM:
        raise ModelFormatError(
            f"{source}: is a SentencePiece model of {_TYPES.get(kind, kind)}, which is not supported; expected unigrams"
        )
    if training.get(_AS_SUFFIX, 0) or not normalising.get(_MARKS_SPACES, 1):
        raise ModelFormatError(f"{source}: has spaces after words, or unmarked ones, which is not supported")
    characters = normalising.get(_CHARACTERS, b"")
    own = [piece for piece in pieces if piece.kind in (_NORMAL, _UNKNOWN, _BYTE)]
    return definition_of_unigrams(
        [(piece.text, piece.score) for piece in own],
        unknown=own.index(next(piece for piece in own if piece.kind == _UNKNOWN)),
        added=[*added, *(piece.text for piece in pieces if piece.kind == _USER_DEFINED)],
        characters=base64.b64encode(characters).decode() if isinstance(characters, bytes) else "",
        adds_space=bool(normalising.get(_ADDS_SPACE, 1)),
        drops_spaces=bool(normalising.get(_DROPS_SPACES, 1)),
        names_bytes=any(piece.kind == _BYTE for piece in own),
    )


def _piece(data: bytes) -> _Piece:
    """One piece of a model. Raises ValueError."""
    fields = dict(_fields(data))
    text, score, kind = fields.get(_PIECE), fields.get(_SCORE, 0), fields.get(_KIND, _NORMAL)
    if not isinstance(text, bytes) or not text or not isinstance(kind, int):
        raise ValueError("a piece has no text")
    number = struct.unpack("<f", score)[0] if isinstance(score, bytes) else float(score)
    if not abs(number) < 1e30:  # NaN, too
        raise ValueError(f"a piece has the score {number}")
    return _Piece(text.decode(), number, kind)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a message. Raises ValueError, IndexError."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire_type == _BYTES:
            size, position = _varint(data, position)
        elif wire_type in (_FOUR_BYTES, _EIGHT_BYTES):
            size = 4 if wire_type == _FOUR_BYTES else 8
        else:
            raise ValueError(f"byte {position:,} has a value of wire type {wire_type}")
        if position + size > len(data):
            raise ValueError(f"a value at byte {position:,} claims {size:,} bytes, more than there are")
        yield number, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A number in groups of 7 bits, the lowest first, and where the next value is. Raises ValueError, IndexError."""
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
        if shift > 63:
            raise ValueError(f"a number at byte {position:,} has more than 64 bits")
