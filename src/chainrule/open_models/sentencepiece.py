"""Writes tokenizers of pieces with scores, as GGUF and SentencePiece files have them, as a tokenizer.json.

BPE: the neighbours whose merged piece has the best score are merged until none can be (Sennrich et al. 2016, with
scores in place of ranks); characters without a piece become bytes. Unigram: the pieces with the largest sum of scores
(Kudo 2018).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    Json = dict[str, Any]

SPACE = "▁"
_BPE_DEFAULTS = {"dropout": None, "continuing_subword_prefix": None, "end_of_word_suffix": None}


def definition_of_scored(
    pieces: Sequence[str],
    scores: Sequence[float],
    *,
    unknown: int,
    special: Sequence[int],
    added: Sequence[int] = (),
    adds_space: bool,
) -> bytes:
    """A tokenizer.json of BPE with scores.

    pieces: by id, with ▁ for spaces. special: ids of tokens that never match text. added: ids of tokens that match text
    as they are. adds_space: whether a space is put before each text.
    """
    ids = {piece: i for i, piece in enumerate(pieces)}
    merges = [
        (scores[i], len(piece[:cut]), (piece[:cut], piece[cut:]))
        for i, piece in enumerate(pieces)
        for cut in range(1, len(piece))
        if piece[:cut] in ids and piece[cut:] in ids
    ]
    merges.sort(key=lambda merge: (-merge[0], merge[1]))
    replaced = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    restored = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    prepended = [{"type": "Prepend", "prepend": SPACE}] * adds_space
    stripped = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] * adds_space
    return _definition(
        special=[(token, pieces[token]) for token in special],
        added=[(token, pieces[token]) for token in added],
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
    pre_tokenizer: Json,
    *,
    unknown: int | None,
    special: Sequence[int],
    added: Sequence[int],
) -> bytes:
    """A tokenizer.json of byte-level BPE.

    merges: two pieces each, separated by a space, in order of priority. unknown: the id for bytes without a piece.
    special: ids of tokens that never match text. added: ids of tokens that match text as they are.
    """
    return _definition(
        special=[(token, pieces[token]) for token in special],
        added=[(token, pieces[token]) for token in added],
        normalizer=None,
        pre_tokenizer=pre_tokenizer,
        decoder={"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        model={
            "type": "BPE",
            "unk_token": None if unknown is None else pieces[unknown],
            "vocab": {piece: i for i, piece in enumerate(pieces)},
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
    """A tokenizer.json of a unigram model. pieces: with log-probabilities.

    unknown: the index of the unknown piece. added: texts that are tokens wherever they occur. characters:
    SentencePiece's table of replaced characters, in base 64. adds_space: whether a space is put before each text.
    drops_spaces: whether spaces at the ends are removed, and runs of spaces become one. names_bytes: whether unknown
    characters are written as bytes.
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
        added=[(len(pieces) + i, text) for i, text in enumerate(added)],
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
