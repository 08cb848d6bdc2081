"""Tokenizers that are pieces with scores, as GGUF and llama2.c files have them, as a tokenizer.json of Hugging Face's.

Neighbours whose joint piece has the best score are merged until none is left (Sennrich et al. 2016, with scores for
ranks); characters without a piece are bytes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    Json = dict[str, Any]

SPACE = "▁"


def definition_of_scored(
    pieces: Sequence[str], scores: Sequence[float], *, unknown: int, special: Sequence[int], adds_space: bool
) -> bytes:
    """A tokenizer.json. pieces: by id, ▁ for spaces. special: ids of tokens that no text has. adds_space: whether a
    space is put before each text.
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
        "model": {"dropout": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, **model},
    }
    return json.dumps(described, ensure_ascii=False).encode()
