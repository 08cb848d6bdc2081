"""Tokenizers that are pieces with scores, as files of others have them, as a tokenizer.json of Hugging Face's.

Pairs: neighbours whose joint piece has the best score are merged until none is left (Sennrich et al. 2016, with scores
for ranks); characters without a piece are bytes. Unigrams: the pieces whose scores have the largest sum (Kudo 2018).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    Json = dict[str, Any]

SPACE = "▁"
_OF_PAIRS = {"dropout": None, "continuing_subword_prefix": None, "end_of_word_suffix": None}


def definition_of_scored(
    pieces: Sequence[str],
    scores: Sequence[float],
    *,
    unknown: int,
    special: Sequence[int],
    added: Sequence[int] = (),
    adds_space: bool,
) -> bytes:
    """A tokenizer.json. pieces: by id, ▁ for spaces. special: ids of tokens that no text has. added: of those that
    texts have as they are. adds_space: whether a space is put before each text.
    """
    ids = {piece: number for number, piece in enumerate(pieces)}
    merges = [
        (scores[number], len(piece[:cut]), (piece[:cut], piece[cut:]))
        for number, piece in enumerate(pieces)
        for cut in range(1, len(piece))
        if piece[:cut] in ids and piece[cut:] in ids
    ]
    merges.sort(key=lambda merge: (-merge[0], merge[1]))
    replaced = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    restored = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    prepended = [{"type": "Prepend", "prepend": SPACE}] * adds_space
    stripped = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] * adds_space
    return _definition(
        special=[(number, pieces[number]) for number in special],
        added=[(number, pieces[number]) for number in added],
        normalizer={"type": "Sequence", "normalizers": [*prepended, replaced]},
        pre_tokenizer=None,
        decoder={"type": "Sequence", "decoders": [restored, {"type": "ByteFallback"}, {"type": "Fuse"}, *stripped]},
        model={
            "type": "BPE",
            "unk_token": pieces[unknown],
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": ids,
            "merges": [list(pair) for _, _, pair in merges],
        },
    )


def definition_of_bytes(
    pieces: Sequence[str],
    merges: Sequence[str],
    cutter: Json,
    *,
    unknown: int | None,
    special: Sequence[int],
    added: Sequence[int],
) -> bytes:
    """A tokenizer.json of byte-level pairs. merges: two pieces each, with a space between, the first to merge first.

    cutter: the pre-tokenizer. unknown: the id for bytes that have no piece. special: ids of tokens that no text has.
    added: of those that texts have as they are.
    """
    return _definition(
        special=[(number, pieces[number]) for number in special],
        added=[(number, pieces[number]) for number in added],
        normalizer=None,
        pre_tokenizer=cutter,
        decoder={"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        model={
            "type": "BPE",
            "unk_token": None if unknown is None else pieces[unknown],
            "vocab": {piece: number for number, piece in enumerate(pieces)},
            "merges": [merge.split(" ", 1) for merge in merges],
        },
    )


def definition_of_unigrams(
    pieces: Sequence[tuple[str, float]],
    *,
    unknown: int,
    added: Sequence[str],
    characters: str,
    adds_space: bool,
    drops_spaces: bool,
    names_bytes: bool,
) -> bytes:
    """A tokenizer.json of pieces with log-probabilities. unknown: the index of the piece for what is unknown.

    added: texts that are tokens wherever they stand. characters: SentencePiece's table of what characters are replaced
    by, in base 64. adds_space: whether a space is put before each text. drops_spaces: whether runs of spaces become
    one, and those at the ends none. names_bytes: whether unknown characters are written as bytes.
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
    return _definition(
        special=[],
        added=[(len(pieces) + number, text) for number, text in enumerate(added)],
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


def _definition(
    *, special: Sequence[tuple[int, str]], added: Sequence[tuple[int, str]] = (), model: Json, **parts: Json | None
) -> bytes:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    tokens: list[Json] = [
        {"id": number, "content": content, **flags, "special": is_special}
        for is_special, some in ((True, special), (False, added))
        for number, content in some
    ]
    described = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(tokens, key=lambda token: token["id"]),
        **parts,
        "post_processor": None,
        "model": {**_OF_PAIRS, **model} if model["type"] == "BPE" else model,
    }
    return json.dumps(described, ensure_ascii=False).encode()
