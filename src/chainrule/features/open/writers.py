"""Writes models as what others open: folders of transformers, adapters of peft and of llama.cpp."""

from __future__ import annotations

import os
import secrets
import shutil
from typing import TYPE_CHECKING

from chainrule.base.files import check_new_file, check_writable, sync_folder
from chainrule.errors import OutputError, SettingError, os_errors_as
from chainrule.features.open.adapters import CONFIG as PEFT_CONFIG
from chainrule.features.open.adapters import WEIGHTS, export_peft
from chainrule.features.open.exporting import export_model, export_pair
from chainrule.features.open.gguf.adapters import export_gguf_adapter
from chainrule.features.open.gguf.output import in_float32, write_gguf
from chainrule.models.any_model import check_kind
from chainrule.models.families.table import FAMILIES
from chainrule.models.files.model_card import model_card
from chainrule.models.model import Model
from chainrule.models.model_info import info_of_model
from chainrule.storage.config_json import CONFIG
from chainrule.storage.hugging_face import TENSORS, is_hugging_face
from chainrule.storage.model_folder import CARD
from chainrule.storage.safetensors import write_tensors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.features.seq2seq.model import Seq2SeqModel
    from chainrule.models.any_model import AnyModel
    from chainrule.models.model_info import ModelParts


def check_hugging_face(path: Path, *, overwrite: bool) -> None:
    """Check, before the work, that a folder for transformers may be written. Raises OutputError."""
    _check_target(path, overwrite=overwrite)


def check_peft(path: Path, *, overwrite: bool) -> None:
    """Check, before the work, that a folder of peft's may be written. Raises OutputError."""
    _check_target(path, overwrite=overwrite, config=PEFT_CONFIG)


def write_hugging_face(model: AnyModel, path: Path, settings: None, *, overwrite: bool, progress: Progress) -> None:
    """Save a folder that transformers opens. Raises OutputError; SettingError if it has no such model."""
    from chainrule.features.seq2seq.model import Seq2SeqModel

    if isinstance(model, Seq2SeqModel):
        _write_pair(model, path, overwrite=overwrite, progress=progress)
        return
    alone = check_kind(model, Model).merge()
    parts = (alone.unpack(progress) if alone.is_compact else alone).parts
    family = FAMILIES[parts.family]
    if family.job not in ("continue", "fill", "embed") or not family.embeds:
        raise SettingError(
            f"a model of family {parts.family!r} cannot be written for transformers, which opens networks; save a "
            "model folder"
        )
    _, arrays = family.to_state(parts.engine)
    exported = export_model(parts.engine.network.config, arrays, parts.tokenizer, parts.record)
    files = {**exported.files, CARD: model_card(info_of_model(parts).rows()).encode("utf-8", "replace")}
    _write_folder(path, files, exported.tensors, overwrite=overwrite, progress=progress)


def _write_pair(model: Seq2SeqModel, path: Path, *, overwrite: bool, progress: Progress) -> None:
    """Save a seq2seq model as a folder for transformers.

    Raises OutputError; SettingError unless the model was opened from a folder with a tokenizer.json.
    """
    from chainrule.neural.saving import arrays_of

    network = model.model.network
    exported = export_pair(network.config, arrays_of(network), model.target, model.record)
    card = model_card(model.info().rows())
    files = {**exported.files, CARD: card.encode("utf-8", "replace")}
    _write_folder(path, files, exported.tensors, overwrite=overwrite, progress=progress)


def write_peft(model: AnyModel, path: Path, settings: None, *, overwrite: bool, progress: Progress) -> None:
    """Save the adapter of a model as a folder of peft's.

    Raises OutputError; SettingError where it has none, or its base is no model of transformers.
    """
    from chainrule.neural.adapters import adapter_arrays

    parts = _adapted_parts(model)
    network = parts.engine.network
    arrays, origin = adapter_arrays(network), parts.record.get("hugging_face")
    files, tensors = export_peft(network.config, origin, arrays, parts.record["adapter"])
    files[CARD] = model_card(info_of_model(parts).rows()).encode("utf-8", "replace")
    _write_folder(path, files, tensors, overwrite=overwrite, progress=progress, names=(PEFT_CONFIG, WEIGHTS))


def write_gguf_adapter(model: AnyModel, path: Path, settings: None, *, overwrite: bool, progress: Progress) -> None:
    """Save the adapter of a model as a GGUF file, for llama.cpp. Raises as `write_peft`."""
    from chainrule.neural.adapters import adapter_arrays

    parts = _adapted_parts(model)
    check_new_file(path, overwrite=overwrite)
    network, origin = parts.engine.network, parts.record.get("hugging_face")
    said = parts.record["adapter"]
    metadata, tensors = export_gguf_adapter(network.config, origin, adapter_arrays(network), said)
    write_gguf(path, metadata, {name: in_float32(tensor) for name, tensor in tensors.items()})


def _adapted_parts(model: AnyModel) -> ModelParts:
    """Return the parts of a model with an adapter. Raises SettingError where a model has no adapter."""
    parts = check_kind(model, Model).parts
    if "adapter" not in parts.record:
        raise SettingError("the model has no adapter; chainrule adapt --lora trains one")
    return parts


def _write_folder(
    folder: Path,
    files: Mapping[str, bytes],
    tensors: dict[str, ndarray],
    *,
    overwrite: bool,
    progress: Progress,
    names: tuple[str, str] = (CONFIG, TENSORS),
) -> None:
    """Write a folder that takes the place of `folder` when it is whole.

    names: of the file of settings, which tells such a folder from others, and of that of tensors. A tensor whose name
    begins with a folder, as 2_Dense/linear.weight, is written there. Raises OutputError.
    """
    config, own = names
    _check_target(folder, overwrite=overwrite, config=config)
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
    with os_errors_as(OutputError, folder, "written"):
        try:
            temporary.mkdir(parents=True)
            for name, data in files.items():
                (temporary / name).parent.mkdir(exist_ok=True)
                (temporary / name).write_bytes(data)
            by_part: dict[str, dict[str, ndarray]] = {"": {}}
            for name, tensor in tensors.items():
                part, _, inner = name.rpartition("/")
                by_part.setdefault(part, {})[inner] = tensor
            for part, parts_tensors in by_part.items():
                write_tensors(temporary / part / own, parts_tensors, progress, metadata={"format": "pt"})
            sync_folder(temporary)
            _check_target(folder, overwrite=overwrite, config=config)  # again: another process may have been first
            if folder.exists():
                old = temporary.with_suffix(".old")
                os.replace(folder, old)
                os.replace(temporary, folder)
                shutil.rmtree(old)
            else:
                os.replace(temporary, folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_folder(folder.parent)


def _check_target(folder: Path, *, overwrite: bool, config: str = CONFIG) -> None:
    """Raise OutputError where a folder could not or should not be written. config: the file that such folders have."""
    if not folder.name:
        raise OutputError(f"{folder}: has no name of its own to be replaced under; name a new folder")
    check_writable(folder)
    if folder.is_file():
        raise OutputError(f"{folder}: a file is in the way; a Hugging Face model is a folder, so choose another name")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not (is_hugging_face(folder) if config == CONFIG else (folder / config).is_file()):
        raise OutputError(f"{folder}: this folder has other things in it; choose a new one")
    if not overwrite:
        raise OutputError(
            f"{folder}: there is a model already; use overwrite=True to replace it, or choose another folder"
        )
