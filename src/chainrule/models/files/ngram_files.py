"""N-gram models as files of other programs: ARPA, automata of OpenFst, word lists of Android keyboards.

good:  chainrule.load("lm/").save("lm.arpa.gz")
good:  chainrule.convert("lm/", "lm.fst.txt")
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from chainrule import __version__
from chainrule.base.files import ARPA_SUFFIXES, FST_SUFFIXES, ending_of, ends_in
from chainrule.errors import OutputError, SettingError
from chainrule.features.exports.config import WordListConfig
from chainrule.models.families.table import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from chainrule.base.progress import Progress
    from chainrule.models.language_models import CausalModel
    from chainrule.models.model_info import ModelParts
    from chainrule.models.open_options import OpenOptions
    from chainrule.ngram.models.padded_model import PaddedModel
    from chainrule.ngram.models.table_models import NGramModel
    from chainrule.text.tokenization.vocabulary import Vocabulary


def save_ngram_file(
    parts: ModelParts, path: Path, *, overwrite: bool, progress: Progress, word_list: WordListConfig | None = None
) -> None:
    """Saves the file that a name stands for. Raises OutputError; SettingError if the model has no such form."""
    if ends_in(path, ARPA_SUFFIXES):
        _save_arpa(parts, path, overwrite=overwrite, progress=progress)
    elif ends_in(path, FST_SUFFIXES):
        _save_fst(parts, path, overwrite=overwrite, progress=progress)
    else:
        _save_word_list(parts, path, word_list or WordListConfig(), overwrite=overwrite, progress=progress)


def symbols_path(path: Path) -> Path:
    """The file of the symbols of an automaton: lm.syms beside lm.fst.txt."""
    return path.with_name(path.name[: -len(ending_of(path, FST_SUFFIXES))] + ".syms")


def check_ngram_file(path: Path, *, overwrite: bool) -> None:
    """Checks, before the work, that a file may be written. Raises OutputError."""
    for target in (path, symbols_path(path)) if ends_in(path, FST_SUFFIXES) else (path,):
        if target.is_dir():
            raise OutputError(f"{target}: is a folder; choose another name")
        if target.exists() and not overwrite:
            raise OutputError(f"{target}: exists already; use overwrite=True to replace it, or choose another name")


def _check_is_ngram(parts: ModelParts, what: str) -> None:
    if FAMILIES[parts.family].layout(parts.engine) is None:
        raise SettingError(f"a model of family {parts.family!r} cannot be written as {what}; save a model folder")


def _save_arpa(parts: ModelParts, path: Path, *, overwrite: bool, progress: Progress) -> None:
    from chainrule.ngram.arpa.write import write_arpa
    from chainrule.ngram.layouts import plain_table_model
    from chainrule.ngram.models.sharded_model import ShardedModel

    _check_is_ngram(parts, "ARPA, which holds n-grams")
    check_ngram_file(path, overwrite=overwrite)
    otherwise = "cannot be written as ARPA: other programs would take it for a distribution that begins with one"
    engine = parts.engine
    tables = engine.shards if isinstance(engine, ShardedModel) else [plain_table_model(engine, otherwise).table]
    write_arpa(path, tables, parts.tokenizer.vocabulary, progress)


def _save_fst(parts: ModelParts, path: Path, *, overwrite: bool, progress: Progress) -> None:
    import numpy as np

    from chainrule.features.exports.fst import write_fst
    from chainrule.ngram.trie.query_kernels import NO_NODE

    _check_is_ngram(parts, "an automaton of n-grams")
    check_ngram_file(path, overwrite=overwrite)
    model = _in_one_table(parts, "cannot be written as an automaton")
    [begin] = model.start([np.empty(0, np.int32)])
    begin = begin[begin != NO_NODE]
    write_fst(path, symbols_path(path), model.table, parts.tokenizer.vocabulary, begin, progress)


def _save_word_list(
    parts: ModelParts, path: Path, config: WordListConfig, *, overwrite: bool, progress: Progress
) -> None:
    from chainrule.features.exports.word_list import write_word_list
    from chainrule.text.tokenization.splitters import JOINER

    _check_is_ngram(parts, "a word list, which holds words and pairs of words")
    check_ngram_file(path, overwrite=overwrite)
    tokenizer = parts.tokenizer
    if tokenizer.name not in ("word", "whitespace"):
        raise SettingError(
            f"the model's tokens are those of {tokenizer.name}, of which a word list cannot be made; expected words"
        )
    words = [token.decode("utf-8", "replace") for token in tokenizer.vocabulary.tokens()]
    words = ["" if JOINER in word else word for word in words]
    table = _in_one_table(parts, "cannot be written as a word list").table
    write_word_list(path, table, words, config, "words of an n-gram model", int(time.time()), progress)


def _in_one_table(parts: ModelParts, problem: str) -> NGramModel | PaddedModel:
    """The model with its fast table. Raises SettingError with the problem of one in shards, or of stupid backoff."""
    from chainrule.ngram.layouts import plain_table_model
    from chainrule.ngram.models.padded_model import PaddedModel
    from chainrule.ngram.models.table_models import NGramModel

    engine = parts.engine
    if isinstance(engine, PaddedModel) and isinstance(engine.base, NGramModel):
        return engine
    return NGramModel(plain_table_model(engine, problem).table)


def is_arpa(path: Path) -> bool:
    """Return whether this is the name of an ARPA file."""
    return ends_in(path, ARPA_SUFFIXES)


def open_arpa(path: Path, options: OpenOptions, progress: Progress) -> CausalModel:
    """Read an ARPA file. Raises ModelFormatError, SettingError."""
    from chainrule.ngram.arpa.read import read_arpa
    from chainrule.ngram.models.table_models import NGramModel

    warnings: list[str] = []
    table, vocabulary = read_arpa(path, progress, warnings.append, warnings.append)
    return _opened(path, NGramModel(table), table.level_sizes, vocabulary, options, warnings)


def is_kenlm(path: Path) -> bool:
    """Return whether this is a binary file of KenLM's."""
    from chainrule.ngram.kenlm.binary import is_binary

    return path.is_file() and is_binary(path)


def open_kenlm(path: Path, options: OpenOptions, progress: Progress) -> CausalModel:
    """Read a binary file of KenLM's. Raises ModelFormatError, SettingError."""
    from chainrule.ngram.kenlm.read import read_binary

    model, vocabulary = read_binary(path, progress)
    return _opened(path, model, model.level_sizes, vocabulary, options, [])


def _opened(
    path: Path,
    engine: Any,
    level_sizes: Sequence[int],
    vocabulary: Vocabulary,
    options: OpenOptions,
    warnings: list[str],
) -> CausalModel:
    """Return the model of a file, which does not say how its text was split. Raises ModelFormatError, SettingError."""
    from chainrule.models.files.tokenizers import saved_tokenizer
    from chainrule.models.language_models import CausalModel
    from chainrule.text.tokenization.build import splitter_of
    from chainrule.text.tokenization.splitters import Normaliser, splitter_marked_in
    from chainrule.text.tokenization.subword_decoders import looks_like_pieces
    from chainrule.text.tokenization.tokenizer import Tokenizer

    config = options.tokenizer_config
    if config is None:
        tokenizer = Tokenizer(splitter_marked_in(vocabulary.tokens()), vocabulary)
        if tokenizer.name != "whitespace":
            warnings.append(
                f"{path}: its tokens have the marks of the {tokenizer.name} tokenizer, which is used to split texts"
            )
        elif looks_like_pieces(vocabulary.tokens()):
            warnings.append(
                f"{path}: its tokens look like subword pieces; set tokenizer to the path of their tokenizer.json"
            )
    else:
        saved = saved_tokenizer(config)
        splitter = splitter_of(os.fspath(config.kind)) if saved is None else saved.splitter
        normaliser = Normaliser(config.normalise) if saved is None else saved.normaliser
        tokenizer = Tokenizer(splitter, vocabulary, normaliser=normaliser)
    record = {"read_from": str(path), "ngrams": list(level_sizes), "warnings": warnings, "chainrule": __version__}
    return CausalModel("ngram", engine, tokenizer, record)
