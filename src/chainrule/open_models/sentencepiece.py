"""Tokenizers of SentencePiece, and of pieces with scores as GGUF files have them, as a tokenizer.json.

Reads unigram models of SentencePiece (.spm, .model): a protocol buffer, sentencepiece_model.proto, of fields with a
number, a wire type, and a value. BPE: the neighbours whose merged piece has the best score are merged until none can be
(Sennrich et al. 2016, with scores in place of ranks); characters without a piece become bytes. Unigram: the pieces with
the largest sum of scores (Kudo 2018).
"""

from __future__ import annotations

import base64
import json
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.errors import ModelFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Json = dict[str, Any]

SPACE = "▁"
_LINE_ENDS: Json = {"type": "Split", "pattern": {"Regex": "\\n+"}, "behavior": "Isolated", "invert": False}
_BPE_DEFAULTS = {"dropout": None, "continuing_subword_prefix": None, "end_of_word_suffix": None}


def merges_of_scores(pieces: Sequence[str], scores: Sequence[float]) -> list[list[str]]:
    """The pairs of pieces that make another one, the one with the best score first."""
    ids = set(pieces)
    merges = [
        (scores[i], len(piece[:cut]), (piece[:cut], piece[cut:]))
        for i, piece in enumerate(pieces)
        for cut in range(1, len(piece))
        if piece[:cut] in ids and piece[cut:] in ids
    ]
    merges.sort(key=lambda merge: (-merge[0], merge[1]))
    return [list(pair) for _, _, pair in merges]


def definition_of_merged(
    pieces: Sequence[str],
    merges: Sequence[Sequence[str]],
    *,
    unknown: int,
    special: Sequence[int],
    added: Sequence[int] = (),
    adds_space: bool,
    cuts_lines: bool = False,
) -> bytes:
    """A tokenizer.json of BPE over characters.

    pieces: by id, with ▁ for spaces. merges: two pieces each, in order of priority. special: ids of tokens that never
    match text. added: ids of tokens that match text as they are. adds_space: whether a space is put before each text.
    cuts_lines: whether line ends are never merged with other characters.
    """
    replaced = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    restored = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    prepended = [{"type": "Prepend", "prepend": SPACE}] * adds_space
    stripped = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] * adds_space
    return tokenizer_definition(
        special=[(token, pieces[token]) for token in special],
        added=[(token, pieces[token]) for token in added],
        normalizer={"type": "Sequence", "normalizers": [*prepended, replaced]},
        pre_tokenizer=_LINE_ENDS if cuts_lines else None,
        decoder={"type": "Sequence", "decoders": [restored, {"type": "ByteFallback"}, {"type": "Fuse"}, *stripped]},
        model={
            "type": "BPE",
            "unk_token": pieces[unknown],
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": {piece: i for i, piece in enumerate(pieces)},
            "merges": list(map(list, merges)),
        },
    )


def definition_of_bytes(
    pieces: Sequence[str],
    merges: Sequence[Sequence[str]],
    pre_tokenizer: Json,
    *,
    unknown: int | None,
    special: Sequence[int],
    added: Sequence[int],
    keeps_words: bool = False,
) -> bytes:
    """A tokenizer.json of byte-level BPE.

    merges: two pieces each, in order of priority. unknown: the id for bytes without a piece.
    special: ids of tokens that never match text. added: ids of tokens that match text as they are. keeps_words: whether
    a word that is a piece is that token, even where the merges lead elsewhere.
    """
    return tokenizer_definition(
        special=[(token, pieces[token]) for token in special],
        added=[(token, pieces[token]) for token in added],
        normalizer=None,
        pre_tokenizer=pre_tokenizer,
        decoder={"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        model={
            "type": "BPE",
            "unk_token": None if unknown is None else pieces[unknown],
            "vocab": {piece: i for i, piece in enumerate(pieces)},
            "merges": list(map(list, merges)),
            **({"ignore_merges": True} if keeps_words else {}),
        },
    )


def definition_of_unigrams(
    pieces: Sequence[tuple[str, float]],
    *,
    unknown: int,
    special: Sequence[tuple[int, str]] = (),
    added: Sequence[tuple[int, str]],
    characters: str,
    adds_space: bool,
    drops_spaces: bool,
    names_bytes: bool,
) -> bytes:
    """A tokenizer.json of a unigram model. pieces: with log-probabilities.

    unknown: the index of the unknown piece. special: ids and texts of tokens that never match text. added: of tokens
    wherever they occur. characters: SentencePiece's table of replaced characters, in base 64. adds_space: whether a
    space is put before each text. drops_spaces: whether spaces at the ends are removed, and runs of spaces become one.
    names_bytes: whether unknown characters are written as bytes.
    """
    normalisers: list[Json] = [{"type": "Precompiled", "precompiled_charsmap": characters}] * bool(characters)
    if drops_spaces:
        normalisers += [
            {"type": "Strip", "strip_left": True, "strip_right": True},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        ]
    is_one_word = all(SPACE not in piece[1:] for piece, _ in pieces)
    scheme = {"replacement": SPACE, "prepend_scheme": "always" if adds_space else "never", "split": is_one_word}
    restored = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    stripped = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] * adds_space
    return tokenizer_definition(
        special=special,
        added=added,
        normalizer={"type": "Sequence", "normalizers": normalisers},
        pre_tokenizer={"type": "Metaspace", **scheme},
        decoder={"type": "Sequence", "decoders": [restored, {"type": "ByteFallback"}, {"type": "Fuse"}, *stripped]},
        model={
            "type": "Unigram",
            "unk_id": unknown,
            "vocab": [list(piece) for piece in pieces],
            "byte_fallback": names_bytes,
        },
    )


def tokenizer_definition(
    *, special: Sequence[tuple[int, str]], added: Sequence[tuple[int, str]] = (), model: Json, **parts: Json | None
) -> bytes:
    """A tokenizer.json. special: ids and texts of tokens that never match text. added: of those that match it as they
    are. parts: the normalizer, pre_tokenizer and decoder.
    """
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    tokens: list[Json] = [
        {"id": token, "content": content, **flags, "special": is_special}
        for is_special, listed in ((True, special), (False, added))
        for token, content in listed
    ]
    described = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(tokens, key=lambda token: token["id"]),
        **parts,
        "post_processor": None,
        "model": {**_BPE_DEFAULTS, **model} if model["type"] == "BPE" else model,
    }
    return json.dumps(described, ensure_ascii=False).encode()


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
    added_texts = [*added, *(piece.text for piece in pieces if piece.kind == _USER_DEFINED)]
    return definition_of_unigrams(
        [(piece.text, piece.score) for piece in own],
        unknown=own.index(next(piece for piece in own if piece.kind == _UNKNOWN)),
        added=list(enumerate(added_texts, len(own))),
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
