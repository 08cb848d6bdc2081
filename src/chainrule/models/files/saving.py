"""Saves the parts of a model as a folder of ours; of an adapted model, its adapter alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from chainrule.models.families.table import FAMILIES
from chainrule.models.files.model_card import model_card
from chainrule.models.files.tokenizers import tokenizer_entry
from chainrule.models.model_info import info_of_model
from chainrule.storage.model_folder import SPELLER_ARRAYS, TOKENIZER, VOCABULARY_ARRAYS, save_model
from chainrule.storage.sources import source_of

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.base.progress import Progress
    from chainrule.models.model_info import ModelParts


def save_folder(parts: ModelParts, path: Path, *, overwrite: bool, progress: Progress) -> None:
    """Save a model folder; of an adapted model, its adapter alone. Raises OutputError."""
    if "adapter" in parts.record:
        _save_adapter(parts, path, overwrite=overwrite, progress=progress)
        return
    tokenizer = parts.tokenizer
    settings, arrays = FAMILIES[parts.family].to_state(parts.engine)
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


def _save_adapter(parts: ModelParts, path: Path, *, overwrite: bool, progress: Progress) -> None:
    """Save an adapted model as a folder that holds the adapter alone. Raises OutputError."""
    from chainrule.neural.adapters import adapter_arrays

    said = parts.record["adapter"]
    beside = None if source_of(said["base"]) else os.path.relpath(said["base"], path.absolute())
    arrays = adapter_arrays(parts.engine.network)
    settings, _ = FAMILIES[parts.family].to_state(parts.engine)
    size = sum(array.nbytes for array in arrays.values())
    save_model(
        path,
        family=parts.family,
        settings={**settings, "adapter": {**said, "beside": beside}},
        tokenizer=tokenizer_entry(parts.tokenizer),
        arrays=arrays,
        record=parts.record,
        card=model_card(info_of_model(parts, size=size).rows()),
        overwrite=overwrite,
        progress=progress,
    )
