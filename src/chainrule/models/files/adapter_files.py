"""Writes the adapter of an adapted model without its base: a small folder of ours, a folder of peft's, a GGUF file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from chainrule.base.files import check_new_file
from chainrule.errors import SettingError
from chainrule.models.families.table import FAMILIES
from chainrule.models.files.model_card import model_card
from chainrule.models.files.tokenizers import tokenizer_entry
from chainrule.models.model_info import info_of_model
from chainrule.storage.gguf import write_gguf
from chainrule.storage.hugging_face import write_folder
from chainrule.storage.model_folder import CARD, save_model

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


def save_peft(parts: ModelParts, path: Path, *, overwrite: bool, progress: Progress) -> None:
    """Saves the adapter of a model as a folder of peft's. Raises OutputError; SettingError where it has none, or its
    base is no model of transformers.
    """
    from chainrule.features.open.adapters import CONFIG, WEIGHTS, export_peft
    from chainrule.neural.adapters import adapter_arrays

    _check_adapted(parts)
    network = parts.engine.network
    arrays, origin = adapter_arrays(network), parts.record.get("hugging_face")
    files, tensors = export_peft(network.config, origin, arrays, parts.record["adapter"])
    files[CARD] = model_card(info_of_model(parts).rows()).encode("utf-8", "replace")
    write_folder(path, files, tensors, overwrite=overwrite, progress=progress, names=(CONFIG, WEIGHTS))


def save_gguf_adapter(parts: ModelParts, path: Path, *, overwrite: bool) -> None:
    """Saves the adapter of a model as a GGUF file, for llama.cpp. Raises as `save_peft`."""
    from chainrule.features.open.gguf.adapters import export_gguf_adapter
    from chainrule.neural.adapters import adapter_arrays

    _check_adapted(parts)
    check_new_file(path, overwrite=overwrite)
    network, origin = parts.engine.network, parts.record.get("hugging_face")
    said = parts.record["adapter"]
    write_gguf(path, *export_gguf_adapter(network.config, origin, adapter_arrays(network), said))


def _check_adapted(parts: ModelParts) -> None:
    """Raises SettingError."""
    if "adapter" not in parts.record:
        raise SettingError("the model has no adapter; chainrule adapt --lora trains one")
