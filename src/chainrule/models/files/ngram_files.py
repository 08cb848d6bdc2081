"""N-gram models in files of other programs: ARPA files are read and written; a model is made of any file's table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from chainrule import __version__
from chainrule.base.files import ARPA_SUFFIXES, ends_in
from chainrule.errors import OutputError, SettingError
from chainrule.models.families.table import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from chainrule.base.progress import Progress
    from chainrule.models.any_model import AnyModel
    from chainrule.models.language_models import CausalModel
    from chainrule.models.model_info import ModelParts
    from chainrule.models.open_options import OpenOptions
    from chainrule.text.tokenization.vocabulary import Vocabulary


def check_ngram_file(path: Path, *, overwrite: bool) -> None:
    """Check, before the work, that a file may be written. Raises OutputError."""
    if path.is_dir():
        raise OutputError(f"{path}: is a folder; choose another name")
    if path.exists() and not overwrite:
        raise OutputError(f"{path}: exists already; use overwrite=True to replace it, or choose another name")


def ngram_parts(model: AnyModel, what: str) -> ModelParts:
    """Return the parts of an n-gram model. what: it is written as, in words. Raises SettingError for others."""
    from chainrule.models.any_model import check_kind
    from chainrule.models.model import Model

    parts = check_kind(model, Model).parts
    if FAMILIES[parts.family].layout(parts.engine) is None:
        raise SettingError(f"a model of family {parts.family!r} cannot be written as {what}; save a model folder")
    return parts


def write_arpa_file(model: AnyModel, path: Path, settings: None, *, overwrite: bool, progress: Progress) -> None:
    """Write an ARPA file. Raises OutputError; SettingError if the model has no such form."""
    from chainrule.ngram.arpa.write import write_arpa
    from chainrule.ngram.layouts import plain_table_model
    from chainrule.ngram.models.sharded_model import ShardedModel

    parts = ngram_parts(model, "ARPA, which holds n-grams")
    check_ngram_file(path, overwrite=overwrite)
    otherwise = "cannot be written as ARPA: other programs would take it for a distribution that begins with one"
    engine = parts.engine
    tables = engine.shards if isinstance(engine, ShardedModel) else [plain_table_model(engine, otherwise).table]
    write_arpa(path, tables, parts.tokenizer.vocabulary, progress)


def is_arpa(path: Path) -> bool:
    """Return whether this is an ARPA file, by its name."""
    return ends_in(path, ARPA_SUFFIXES) and path.is_file()


def open_arpa(path: Path, options: OpenOptions, progress: Progress) -> CausalModel:
    """Read an ARPA file. Raises ModelFormatError, SettingError."""
    from chainrule.ngram.arpa.read import read_arpa
    from chainrule.ngram.models.table_models import NGramModel

    warnings: list[str] = []
    table, vocabulary = read_arpa(path, progress, warnings.append, warnings.append)
    return model_of_file(path, NGramModel(table), table.level_sizes, vocabulary, options, warnings)


def model_of_file(
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
            warnings.append(f"{path}: its tokens look like subwords; set tokenizer to the path of their tokenizer.json")
    else:
        saved = saved_tokenizer(config)
        splitter = splitter_of(os.fspath(config.kind)) if saved is None else saved.splitter
        normaliser = Normaliser(config.normalise) if saved is None else saved.normaliser
        tokenizer = Tokenizer(splitter, vocabulary, normaliser=normaliser)
    record = {"read_from": str(path), "ngrams": list(level_sizes), "warnings": warnings, "chainrule": __version__}
    return CausalModel("ngram", engine, tokenizer, record)
