"""Saves models: as folders, which `load_model.py` opens, for transformers, or as ARPA files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.api.models.model_info import info_of_model
from chainrule.api.tokenizers import tokenizer_entry
from chainrule.errors import OutputError, SettingError
from chainrule.families.table import FAMILIES
from chainrule.report.model_card import model_card
from chainrule.storage.hugging_face import write_folder
from chainrule.storage.model_folder import CARD, SPELLER_ARRAYS, TOKENIZER, VOCABULARY_ARRAYS, save_model

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.api.models.model_contents import ModelParts
    from chainrule.base.progress import Progress


def save_folder(parts: ModelParts, path: Path, *, overwrite: bool, progress: Progress) -> None:
    """Saves a model folder. Raises OutputError."""
    tokenizer = parts.tokenizer
    settings, arrays = FAMILIES[parts.family].take_apart(parts.engine)
    vocabulary = {VOCABULARY_ARRAYS + name: array for name, array in tokenizer.vocabulary.arrays().items()}
    speller = {SPELLER_ARRAYS + name: array for name, array in parts.speller.arrays().items()}
    definition = tokenizer.splitter.definition
    arrays = {**arrays, **vocabulary, **speller}
    size = sum(array.nbytes for array in arrays.values()) + len(definition or b"")
    save_model(
        path,
        family=parts.family,
        settings=settings,
        tokenizer=tokenizer_entry(tokenizer),
        arrays=arrays,
        record=parts.record,
        card=model_card(info_of_model(parts, size=size).rows()),
        texts={} if definition is None else {TOKENIZER: definition},
        overwrite=overwrite,
        progress=progress,
    )


def save_hugging_face(parts: ModelParts, path: Path, *, overwrite: bool, progress: Progress) -> None:
    """Saves a folder that transformers opens. Raises OutputError; SettingError if it has no such model."""
    family = FAMILIES[parts.family]
    if family.job not in ("continue", "fill", "embed") or not family.embeds:
        raise SettingError(
            f"a model of family {parts.family!r} cannot be written for transformers, which opens networks; save a "
            "model folder"
        )
    from chainrule.open_models.exporting import export_model

    _, arrays = family.take_apart(parts.engine)
    exported = export_model(parts.engine.network.config, arrays, parts.tokenizer, parts.record)
    files = {**exported.files, CARD: model_card(info_of_model(parts).rows()).encode("utf-8", "replace")}
    write_folder(path, files, exported.tensors, overwrite=overwrite, progress=progress)


def save_arpa(parts: ModelParts, path: Path, *, overwrite: bool, progress: Progress) -> None:
    """Saves an ARPA file. Raises OutputError; SettingError if the model has no ARPA form."""
    from chainrule.ngram.arpa.write import write_arpa
    from chainrule.ngram.layouts import plain_table_model
    from chainrule.ngram.models.sharded_model import ShardedModel

    if FAMILIES[parts.family].layout(parts.engine) is None:
        raise SettingError(
            f"a model of family {parts.family!r} cannot be written as ARPA, which holds n-grams; save a model folder"
        )
    if path.exists() and not overwrite:
        raise OutputError(f"{path}: exists already; use overwrite=True to replace it, or choose another name")
    otherwise = "cannot be written as ARPA: other programs would take it for a distribution that begins with one"
    engine = parts.engine
    tables = engine.shards if isinstance(engine, ShardedModel) else [plain_table_model(engine, otherwise).table]
    write_arpa(path, tables, parts.tokenizer.vocabulary, progress)
