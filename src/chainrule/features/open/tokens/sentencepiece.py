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
from chainrule.text.tokenization.subword import is_sound_map, library

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    Json = dict[str, Any]

SPACE = "▁"
_HIDING = 0x100000  # private characters, which stand for symbols while a text is normalised
LINE_ENDS: Json = {"type": "Split", "pattern": {"Regex": "\\n+"}, "behavior": "Isolated", "invert": False}
_BPE_DEFAULTS = {"dropout": None, "continuing_subword_prefix": None, "end_of_word_suffix": None}


def merges_of_scores(pieces: Sequence[str], scores: Sequence[float]) -> list[list[str]]:
    """Return the pairs of pieces that make another one, the one with the best score first."""
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
    """Return a tokenizer.json of BPE over characters.

    pieces: by id, with ▁ for spaces. merges: two tokens each, in order of priority. special: ids of tokens that never
    match text. added: ids of tokens that match text unchanged. adds_space: whether a space is put before each text.
    cuts_lines: whether line ends are never merged with other characters.
    """
    replaced, restored = _replacement(" ", SPACE), _replacement(SPACE, " ")
    prepended = [{"type": "Prepend", "prepend": SPACE}] * adds_space
    stripped = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] * adds_space
    return tokenizer_definition(
        special=[(token, pieces[token]) for token in special],
        added=[(token, pieces[token]) for token in added],
        normalizer={"type": "Sequence", "normalizers": [*prepended, replaced]},
        pre_tokenizer=LINE_ENDS if cuts_lines else None,
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
    """Return a tokenizer.json of byte-level BPE.

    merges: two tokens each, in order of priority. unknown: the id for bytes without a piece. special: ids of tokens
    that never match text. added: ids of tokens that match text unchanged. keeps_words: whether a word that is a piece
    is that token, even where the merges lead elsewhere.
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
    unmatched: Collection[int],
    special: Sequence[tuple[int, str]] = (),
    added: Sequence[tuple[int, str]],
    symbols: Sequence[str] = (),
    characters: bytes,
    adds_space: bool,
    drops_spaces: bool,
    names_bytes: bool,
) -> bytes:
    """Return a tokenizer.json of a unigram model. pieces: with log-probabilities.

    unknown: the index of the unknown piece. unmatched: indices of pieces that text never contains. special: ids and
    texts of tokens that never match text. added: of tokens wherever they occur, which separate what is normalised and
    tokenized. symbols: tokens that are not normalised. characters: SentencePiece's table of replaced characters.
    adds_space: whether a space is put before each text. drops_spaces: whether spaces at the ends are removed, and runs
    of spaces become one. names_bytes: whether unknown characters are written as bytes.

    The library's `Strip` and `Metaspace` are not used for spaces: the first removes all white space of Unicode, the
    second puts no ▁ before a text that begins with one.
    """
    hidden = {symbol: chr(_HIDING + i) for i, symbol in enumerate(_replaced(symbols, characters))}
    normalisers = [_replacement(symbol, code) for symbol, code in hidden.items()]
    if characters:
        normalisers.append({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(characters).decode()})
    normalisers += [_replacement(code, symbol) for symbol, code in hidden.items()]
    normalisers += [_removal(r"\A +")] * drops_spaces
    normalisers += [{"type": "Prepend", "prepend": SPACE}] * adds_space
    normalisers += [_replacement({"Regex": " +"} if drops_spaces else " ", SPACE)]
    normalisers += [_removal(rf"{SPACE}+\z")] * drops_spaces
    is_one_word = all(SPACE not in piece[1:] for piece, _ in pieces)
    scheme = {"replacement": SPACE, "prepend_scheme": "never", "split": is_one_word}
    restored = _replacement(SPACE, " ")
    stripped = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] * adds_space
    unmatched = {*unmatched, unknown}
    worst = min((score for i, (_, score) in enumerate(pieces) if i not in unmatched), default=0.0)
    return tokenizer_definition(
        special=special,
        added=added,
        normalizer={"type": "Sequence", "normalizers": normalisers},
        pre_tokenizer={"type": "Metaspace", **scheme},
        decoder={"type": "Sequence", "decoders": [restored, {"type": "ByteFallback"}, {"type": "Fuse"}, *stripped]},
        model={
            "type": "Unigram",
            "unk_id": unknown,
            # The library knows no such pieces. These have a score below that of any sequence of the others.
            "vocab": [
                [piece, min(score, len(piece) * worst - 1) if i in unmatched else score]
                for i, (piece, score) in enumerate(pieces)
            ],
            "byte_fallback": names_bytes,
        },
    )


def _replacement(pattern: str | Json, content: str) -> Json:
    described = {"String": pattern} if isinstance(pattern, str) else pattern
    return {"type": "Replace", "pattern": described, "content": content}


def _removal(pattern: str) -> Json:
    return _replacement({"Regex": pattern}, "")


def _replaced(symbols: Sequence[str], characters: bytes) -> list[str]:
    """Return the symbols that contain replaced characters, the longest first."""
    if not symbols or not is_sound_map(characters):  # `Subword` refuses a damaged table
        return []
    normaliser = library().normalizers.Precompiled(characters)
    return sorted((one for one in symbols if normaliser.normalize_str(one) != one), key=len, reverse=True)


def tokenizer_definition(
    *, special: Sequence[tuple[int, str]], added: Sequence[tuple[int, str]] = (), model: Json, **parts: Json | None
) -> bytes:
    """Return a tokenizer.json.

    special: ids and texts of tokens that never match text. added: of those that match it unchanged. parts: the
    normalizer, pre_tokenizer and decoder.
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
_USER_DEFINED_SCORE = -0.1  # as SentencePiece's, so that it is nearly always better than other pieces
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
    """Return a tokenizer.json of the bytes of a file.

    source: its name, for errors. added: texts that are tokens wherever they occur. Raises ModelFormatError.
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
    own = [
        piece._replace(score=_USER_DEFINED_SCORE)
        if piece.kind == _USER_DEFINED
        else piece._replace(text=f"{piece.text} ")  # no normalised text has a space, so no text matches it
        if piece.kind == _UNKNOWN
        else piece
        for piece in pieces
        if piece.kind in (_NORMAL, _UNKNOWN, _USER_DEFINED, _BYTE)
    ]
    return definition_of_unigrams(
        [(piece.text, piece.score) for piece in own],
        unknown=next(i for i, piece in enumerate(own) if piece.kind == _UNKNOWN),
        unmatched=[i for i, piece in enumerate(own) if piece.kind == _BYTE],
        added=list(enumerate(added, len(own))),
        symbols=[piece.text for piece in own if piece.kind == _USER_DEFINED],
        characters=characters if isinstance(characters, bytes) else b"",
        adds_space=bool(normalising.get(_ADDS_SPACE, 1)),
        drops_spaces=bool(normalising.get(_DROPS_SPACES, 1)),
        names_bytes=any(piece.kind == _BYTE for piece in own),
    )


def _piece(data: bytes) -> _Piece:
    """Return one piece of a model. Raises ValueError."""
    fields = dict(_fields(data))
    text, score, kind = fields.get(_PIECE), fields.get(_SCORE, 0), fields.get(_KIND, _NORMAL)
    if not isinstance(text, bytes) or not text or not isinstance(kind, int):
        raise ValueError("a piece has no text")
    number = struct.unpack("<f", score)[0] if isinstance(score, bytes) else float(score)
    if not abs(number) < 1e30:  # NaN, too
        raise ValueError(f"a piece has the score {number}")
    return _Piece(text.decode(), number, kind)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message. Raises ValueError, IndexError."""
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
    """Return a number in groups of 7 bits, the lowest first, and where the next value is.

    Raises ValueError, IndexError.
    """
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
        if shift > 63:
            raise ValueError(f"a number at byte {position:,} has more than 64 bits")
