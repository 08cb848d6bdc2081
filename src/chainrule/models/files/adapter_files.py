"""Writes the adapter of an adapted model without its base: a small folder of ours, a folder of peft's, a GGUF file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from chainrule.models.families.table import FAMILIES
from chainrule.models.files.model_card import model_card
from chainrule.models.files.tokenizers import tokenizer_entry
from chainrule.models.model_info import info_of_model
from chainrule.storage.model_folder import save_model

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.base.progress import Progress
    from chainrule.models.model_info import ModelParts


def save_adapter(parts: ModelParts, path: Path, *, overwrite: bool, progress: Progress) -> None:
    """Saves an adapted model as a folder that holds the adapter alone. Raises OutputError."""
    from chainrule.neural.adapters import adapter_arrays

    said = parts.record["adapter"]
    beside = os.path.relpath(said["base"], path.absolute())
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
