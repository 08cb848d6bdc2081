"""Writes models as what others open: folders of transformers, adapters of peft and of llama.cpp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.base.files import check_new_file
from chainrule.errors import SettingError
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
from chainrule.storage.hugging_face import check_target, write_folder
from chainrule.storage.model_folder import CARD

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.base.progress import Progress
    from chainrule.features.seq2seq.model import Seq2SeqModel
    from chainrule.models.any_model import AnyModel
    from chainrule.models.model_info import ModelParts


def check_hugging_face(path: Path, *, overwrite: bool) -> None:
    """Check, before the work, that a folder for transformers may be written. Raises OutputError."""
    check_target(path, overwrite=overwrite)


def check_peft(path: Path, *, overwrite: bool) -> None:
    """Check, before the work, that a folder of peft's may be written. Raises OutputError."""
    check_target(path, overwrite=overwrite, config=PEFT_CONFIG)


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
    write_folder(path, files, exported.tensors, overwrite=overwrite, progress=progress)


def _write_pair(model: Seq2SeqModel, path: Path, *, overwrite: bool, progress: Progress) -> None:
    """Save a seq2seq model as a folder for transformers.

    Raises OutputError; SettingError unless the model was opened from a folder with a tokenizer.json.
    """
    from chainrule.neural.saving import arrays_of

    network = model.model.network
    exported = export_pair(network.config, arrays_of(network), model.target, model.record)
    card = model_card(model.info().rows())
    files = {**exported.files, CARD: card.encode("utf-8", "replace")}
    write_folder(path, files, exported.tensors, overwrite=overwrite, progress=progress)


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
    write_folder(path, files, tensors, overwrite=overwrite, progress=progress, names=(PEFT_CONFIG, WEIGHTS))


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
