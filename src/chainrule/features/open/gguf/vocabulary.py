"""A tokenizer.json as the metadata of a GGUF file: the inverse of `tokenizer.py`, which checks what is written.

Pieces with merges become byte-level BPE (gpt2) or pieces with scores (llama), whose order is that of the merges; pieces
of words are written as BERT's (bert), unigrams as T5's (t5).
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.open.gguf.tokenizer import (
    BYTE,
    CONTROL,
    NORMAL,
    PRE_TOKENIZERS,
    UNKNOWN,
    USER_DEFINED,
    WHOLE_WORDS,
    definition_of_gguf,
)
from chainrule.features.open.tokens.sentencepiece import LINE_ENDS, SPACE
from chainrule.text.tokenization.subword import library

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    Json = dict[str, Any]

_UNUSED = 5  # a kind of tokens
# Texts that both tokenizers must cut alike.
_SAMPLES = (
    "The quick brown fox, it's said, couldn't jump over 12,345 lazy dogs!",
    "  Two  spaces,\n\nlines\tand tabs; naïve café, über, Größe, Москва, 東京, emoji 🙂.",
    "def f(x):\n    return x ** 2 + 1  # 0.5e-3",
    "CamelCase snake_case UPPER lower1234567",
)


def vocabulary_metadata(definition: bytes, rows: int, ids: Json, reads: Literal["text", "framed", "source"]) -> Json:
    """Return the metadata of a tokenizer. rows: tokens that the model has vectors for. ids: tokens by their purposes,
    as bos_token_id. reads: as in `Kind`.

    Raises SettingError where a GGUF file has none that tokenizes alike.
    """
    described = json.loads(definition)
    model = described["model"]
    kind = model.get("type")
    write = {"BPE": _pairs, "WordPiece": _word_pieces, "Unigram": _unigrams}.get(kind)
    if write is None:
        raise SettingError(f"a GGUF file has no tokenizer of the kind {kind!r}; expected BPE, WordPiece or Unigram")
    vocabulary = model["vocab"]
    names = {piece: i for i, (piece, _) in enumerate(vocabulary)} if isinstance(vocabulary, list) else dict(vocabulary)
    added = {token["id"]: token for token in described.get("added_tokens") or ()}
    names |= {token["content"]: number for number, token in added.items()}
    pieces = [f"[PAD{number}]" for number in range(rows)]
    types = [_UNUSED] * rows
    for piece, number in names.items():
        pieces[number], types[number] = piece, NORMAL
        if number in added:
            types[number] = CONTROL if added[number]["special"] else USER_DEFINED
    own = write(described, pieces, types)
    known = {name: value for name, value in ids.items() if value is not None}
    metadata = {f"tokenizer.ggml.{name}": value for name, value in {**own, **known}.items()}
    _check(definition, metadata, reads)
    return metadata


def _check(definition: bytes, metadata: Json, reads: Literal["text", "framed", "source"]) -> None:
    """Raise SettingError where the tokenizer that is read from the metadata cuts a text otherwise."""
    try:
        back = definition_of_gguf(Path("model.gguf"), metadata, reads)
        first, second = (library().Tokenizer.from_str(one.decode()) for one in (definition, back))
    except (ModelFormatError, ValueError) as error:
        raise SettingError(f"its tokenizer cannot be written to a GGUF file: {error}") from error
    for text in _SAMPLES:
        ids = [one.encode(text, add_special_tokens=False).ids for one in (first, second)]
        if ids[0] != ids[1]:
            raise SettingError(
                f"a GGUF file has no tokenizer that cuts texts as this one does: {text!r} becomes {len(ids[0])} tokens "
                f"here, and {len(ids[1])} others there"
            )


def _parts(described: Json | None, name: str) -> Iterator[Json]:
    """Yield the parts of a normalizer, pre_tokenizer or decoder, one after the other. name: of lists of parts."""
    if described is not None and described.get("type") == "Sequence":
        for part in described[name]:
            yield from _parts(part, name)
    elif described is not None:
        yield described


def _same_rule(rule: Json | None) -> list[Json]:
    """Return the parts of a pre-tokenizer without what changes no token."""
    usual = {"add_prefix_space": False, "use_regex": True}
    return [
        {name: value for name, value in part.items() if name != "trim_offsets" and usual.get(name, ...) != value}
        for part in _parts(rule, "pretokenizers")
    ]


def _pairs(described: Json, pieces: list[str], types: list[int]) -> Json:
    model, rule = described["model"], described.get("pre_tokenizer")
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    if any(part["type"] == "ByteLevel" for part in _parts(rule, "pretokenizers")):
        whole = bool(model.get("ignore_merges"))
        same = [name for name, own in PRE_TOKENIZERS.items() if _same_rule(own) == _same_rule(rule)]
        name = next((name for name in same if (name in WHOLE_WORDS) == whole), None)
        if name is None:
            raise SettingError(
                "its texts are cut into words by a rule that has no name in GGUF files: "
                f"{json.dumps(rule, ensure_ascii=False):.200}"
            )
        unknown = {"unknown_token_id": pieces.index(model["unk_token"])} if model.get("unk_token") else {}
        return {"model": "gpt2", "pre": name, "tokens": pieces, "token_type": types, "merges": merges, **unknown}
    for number, piece in enumerate(pieces):
        if len(piece) == len("<0x00>") and piece.startswith("<0x") and piece.endswith(">"):
            types[number] = BYTE
    unknown_id = pieces.index(model["unk_token"]) if model.get("unk_token") in pieces else 0
    types[unknown_id] = UNKNOWN
    normalisers = [part["type"] for part in _parts(described.get("normalizer"), "normalizers")]
    starts = [part.get("prepend_scheme") for part in _parts(rule, "pretokenizers") if part["type"] == "Metaspace"]
    adds_space = "Prepend" in normalisers or bool({"always", "first"} & {*starts})
    own: Json = {"tokens": pieces, "token_type": types, "unknown_token_id": unknown_id, "add_space_prefix": adds_space}
    if rule == LINE_ENDS:
        return {"model": "gemma4", **own, "merges": merges}
    ranks: dict[str, int] = {}
    for rank, merge in enumerate(merges):
        ranks.setdefault(merge.replace(" ", "", 1), rank)
    last = len(merges)
    return {"model": "llama", **own, "scores": [-float(ranks.get(piece, last)) for piece in pieces]}


def _word_pieces(described: Json, pieces: list[str], types: list[int]) -> Json:
    model = described["model"]
    unknown = pieces.index(model["unk_token"])
    types[unknown] = UNKNOWN
    names = [
        f"[unused{number}]" if kind == _UNUSED else piece if kind != NORMAL else _as_in_bert(piece)
        for number, (piece, kind) in enumerate(zip(pieces, types, strict=True))
    ]
    return {"model": "bert", "tokens": names, "token_type": types, "unknown_token_id": unknown}


def _as_in_bert(piece: str) -> str:
    """Return a piece with ▁ where a word begins, and without ## elsewhere."""
    return piece.removeprefix("##") if piece.startswith("##") else SPACE + piece


def _unigrams(described: Json, pieces: list[str], types: list[int]) -> Json:
    model, normaliser = described["model"], described.get("normalizer")
    scores = [0.0] * len(pieces)
    for number, (_, score) in enumerate(model["vocab"]):
        scores[number] = float(score)
    if model.get("unk_id") is not None:
        types[model["unk_id"]] = UNKNOWN
    parts = list(_parts(normaliser, "normalizers"))
    maps = [part["precompiled_charsmap"] for part in parts if part["type"] == "Precompiled"]
    characters = list(base64.b64decode(maps[0])) if maps and maps[0] else []
    rules = {part["type"] for part in (*parts, *_parts(described.get("pre_tokenizer"), "pretokenizers"))}
    return {
        "model": "t5",
        "tokens": pieces,
        "token_type": types,
        "scores": scores,
        "unknown_token_id": model.get("unk_id") or 0,
        "add_space_prefix": True,
        "remove_extra_whitespaces": bool(rules & {"Strip", "Replace", "WhitespaceSplit"}),
        **({"precompiled_charsmap": characters} if characters else {}),
    }
