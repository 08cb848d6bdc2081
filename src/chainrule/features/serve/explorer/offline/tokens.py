"""The tokenizer of a model as a record for a page, which rewrites texts as Python does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import SettingError
from chainrule.text.tokenization.config import BUILT_IN
from chainrule.text.tokenization.splitters import SYMBOLS, character_classes
from chainrule.text.units import begins_word

if TYPE_CHECKING:
    from numpy import ndarray

    from chainrule.text.tokenization.tokenizer import Tokenizer

    Arrays = dict[str, ndarray]
    Json = dict[str, Any]


def tokenizer_record(tokenizer: Tokenizer, arrays: Arrays) -> Json:
    """Return what a page needs of a tokenizer; the ranges of Unicode's classes join the arrays where words are split.

    shown: how each token is shown by itself, null where that is how it is written. Raises SettingError where the page
    cannot tokenize so.
    """
    tokens = [token.decode("utf-8", "replace") for token in tokenizer.vocabulary.tokens()]
    shown = tokenizer.shown(list(range(len(tokens))))
    record: Json = {
        "kind": tokenizer.name,
        "normalise": list(tokenizer.normaliser.steps),
        "markers": tokenizer.markers,
        "tokens": tokens,
        "shown": [None if own == token else own for token, own in zip(tokens, shown, strict=True)],
        "symbols": SYMBOLS,
    }
    begins = begins_word(tokenizer)
    if not begins.all():
        record["begins_word"] = np.flatnonzero(begins).tolist()
    if tokenizer.splitter.definition is not None:
        return record | _pieces(tokenizer.splitter.definition, tokenizer.name)
    assert tokenizer.name in BUILT_IN
    if tokenizer.name == "word":
        classes = character_classes()
        starts = np.concatenate([[0], np.flatnonzero(np.diff(classes)) + 1])
        arrays["class_starts"], arrays["classes"] = starts.astype(np.uint32), classes[starts]
    return record


def _pieces(definition: bytes, name: str) -> Json:
    """Return the tokens of a tokenizer.json that cuts bytes as those do that are learned here. Raises SettingError."""
    described = json.loads(definition)
    model, cutter = described["model"], described.get("pre_tokenizer") or {}
    kind = model.get("type") or ("BPE" if "merges" in model else "")
    on_bytes = cutter.get("type") == "ByteLevel" and cutter.get("use_regex", True) and not cutter["add_prefix_space"]
    plain = described.get("normalizer") is None and all(token["special"] for token in described["added_tokens"])
    rare = ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges", "fuse_unk")
    if kind not in ("BPE", "Unigram") or not (on_bytes and plain) or any(model.get(name) for name in rare):
        raise SettingError(
            f"a page cannot tokenize as this model's {name} tokenizer does; it can do so by words, white space, "
            "characters, bytes, and with bpe or unigram pieces as learned here"
        )
    if kind == "BPE":
        merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
        return {"merges": [" ".join(merge) for merge in merges]}
    return {"pieces": [piece for piece, _ in model["vocab"]], "scores": [score for _, score in model["vocab"]]}
