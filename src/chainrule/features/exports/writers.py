"""Writes n-gram models as automata of OpenFst and word lists of Android keyboards.

good:  chainrule.convert("lm/", "lm.fst.txt")
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from chainrule.base.files import FST_SUFFIXES, ending_of
from chainrule.errors import SettingError
from chainrule.features.exports.config import WordListConfig
from chainrule.models.files.ngram_files import check_ngram_file, ngram_parts

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.base.progress import Progress
    from chainrule.models.any_model import AnyModel
    from chainrule.models.model_info import ModelParts
    from chainrule.ngram.models.padded_model import PaddedModel
    from chainrule.ngram.models.table_models import NGramModel


def symbols_path(path: Path) -> Path:
    """Return the file of the symbols of an automaton: lm.syms beside lm.fst.txt."""
    return path.with_name(path.name[: -len(ending_of(path, FST_SUFFIXES))] + ".syms")


def check_automaton(path: Path, *, overwrite: bool) -> None:
    """Check, before the work, that an automaton and its symbols may be written. Raises OutputError."""
    for target in (path, symbols_path(path)):
        check_ngram_file(target, overwrite=overwrite)


def write_automaton(model: AnyModel, path: Path, settings: None, *, overwrite: bool, progress: Progress) -> None:
    """Write an automaton of OpenFst, with its symbols beside it. Raises OutputError, SettingError."""
    import numpy as np

    from chainrule.features.exports.fst import write_fst
    from chainrule.ngram.trie.query_kernels import NO_NODE

    parts = ngram_parts(model, "an automaton of n-grams")
    check_automaton(path, overwrite=overwrite)
    own = _in_one_table(parts, "cannot be written as an automaton")
    [begin] = own.start([np.empty(0, np.int32)])
    begin = begin[begin != NO_NODE]
    write_fst(path, symbols_path(path), own.table, parts.tokenizer.vocabulary, begin, progress)


def write_words(
    model: AnyModel, path: Path, settings: WordListConfig | None, *, overwrite: bool, progress: Progress
) -> None:
    """Write a word list for Android keyboards. Raises OutputError, SettingError."""
    from chainrule.features.exports.word_list import write_word_list
    from chainrule.text.tokenization.splitters import JOINER

    parts = ngram_parts(model, "a word list, which holds words and pairs of words")
    check_ngram_file(path, overwrite=overwrite)
    tokenizer = parts.tokenizer
    if tokenizer.name not in ("word", "whitespace"):
        raise SettingError(
            f"the model's tokens are those of {tokenizer.name}, of which a word list cannot be made; expected words"
        )
    words = [token.decode("utf-8", "replace") for token in tokenizer.vocabulary.tokens()]
    words = ["" if JOINER in word else word for word in words]
    table = _in_one_table(parts, "cannot be written as a word list").table
    write_word_list(
        path, table, words, settings or WordListConfig(), "words of an n-gram model", int(time.time()), progress
    )


def _in_one_table(parts: ModelParts, problem: str) -> NGramModel | PaddedModel:
    """Return the model with its fast table.

    Raises SettingError with the problem of one in shards, or of stupid backoff.
    """
    from chainrule.ngram.layouts import plain_table_model
    from chainrule.ngram.models.padded_model import PaddedModel
    from chainrule.ngram.models.table_models import NGramModel

    engine = parts.engine
    if isinstance(engine, PaddedModel) and isinstance(engine.base, NGramModel):
        return engine
    return NGramModel(plain_table_model(engine, problem).table)
