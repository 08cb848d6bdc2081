"""Adapted models: a small folder with an adapter, ours or peft's, that names the model that it stands on.

All adapted models of one base that a process opens share its weights.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from chainrule.api.models.model_info import info_of_model
from chainrule.api.tokenizers import tokenizer_entry
from chainrule.base.files import check_new_file
from chainrule.errors import ModelFormatError, SettingError, opening_folder
from chainrule.families.table import FAMILIES
from chainrule.report.model_card import model_card
from chainrule.storage.gguf import write_gguf
from chainrule.storage.hugging_face import write_folder
from chainrule.storage.model_folder import CARD, open_model, save_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chainrule.api.models.model import Model
    from chainrule.api.models.model_info import ModelParts
    from chainrule.base.progress import Progress
    from chainrule.neural.config.adapter import AdapterConfig
    from chainrule.neural.network import Network

_bases: WeakValueDictionary[tuple[str, bool], Model] = WeakValueDictionary()


def adapter_record(network: Network, config: AdapterConfig, base: str) -> dict[str, Any]:
    """What the record of an adapted model says of its adapter. base: the path of the model that it stands on."""
    from chainrule.neural.adapters import describe

    return {"adapter": {**describe(network, config), "base": os.path.abspath(base)}}


def check_no_adapter(model: Model, path: str | os.PathLike[str]) -> None:
    """Raises SettingError where a model has an adapter, for what needs its weights as one."""
    if "adapter" in model.record:
        raise SettingError(f"{path}: is an adapter; chainrule convert merges it with its base, which can be trained")


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
    from chainrule.neural.adapters import adapter_arrays
    from chainrule.open_models.adapters import CONFIG, WEIGHTS, export_peft

    _check_adapted(parts)
    network = parts.engine.network
    arrays, origin = adapter_arrays(network), parts.record.get("hugging_face")
    files, tensors = export_peft(network.config, origin, arrays, parts.record["adapter"])
    files[CARD] = model_card(info_of_model(parts).rows()).encode("utf-8", "replace")
    write_folder(path, files, tensors, overwrite=overwrite, progress=progress, names=(CONFIG, WEIGHTS))


def save_gguf_adapter(parts: ModelParts, path: Path, *, overwrite: bool) -> None:
    """Saves the adapter of a model as a GGUF file, for llama.cpp. Raises as `save_peft`."""
    from chainrule.neural.adapters import adapter_arrays
    from chainrule.open_models.gguf.adapters import export_gguf_adapter

    _check_adapted(parts)
    check_new_file(path, overwrite=overwrite)
    network, origin = parts.engine.network, parts.record.get("hugging_face")
    said = parts.record["adapter"]
    write_gguf(path, *export_gguf_adapter(network.config, origin, adapter_arrays(network), said))


def _check_adapted(parts: ModelParts) -> None:
    """Raises SettingError."""
    if "adapter" not in parts.record:
        raise SettingError("the model has no adapter; chainrule adapt --lora trains one")


def shared_base(path: Path, *, exact: bool) -> Model | None:
    """The model at a path, if it is open as the base of adapters. exact: as for `load`."""
    return _bases.get((os.path.realpath(path), exact))


def share_as_base(path: Path, model: Model, *, exact: bool) -> None:
    """Lets adapters that are opened later stand on a model that is open. exact: as for `load`."""
    if FAMILIES[model.family].embeds and "adapter" not in model.record:
        _bases[os.path.realpath(path), exact] = model


def open_base(path: Path, exact: bool, load: Callable[..., Model]) -> Model:
    """A model to put adapters on; the same one as long as any of its adapters is in use. Raises ModelFormatError."""
    base = shared_base(path, exact=exact)
    if base is None:
        base = load(path, exact=exact)
        check_no_adapter(base, path)
        share_as_base(path, base, exact=exact)
    return base


def adapted(path: Path, base: Model) -> tuple[Any, dict[str, Any]]:
    """The engine of a base with the adapter of a folder, ours or peft's, or of a GGUF file, and its record. It
    shares the base's weights.

    Raises ModelFormatError where the adapter is for another base; SettingError.
    """
    from chainrule.neural.adapters import attach, describe, fingerprint
    from chainrule.neural.config.adapter import AdapterConfig
    from chainrule.neural.saving import engine_of, shapes_in, shared_network
    from chainrule.open_models.adapters import is_peft, read_peft
    from chainrule.open_models.gguf.adapters import is_gguf_adapter, read_gguf_adapter

    if not FAMILIES[base.family].embeds:
        raise SettingError(f"{path}: is an adapter of a network, but its base is of family {base.family!r}")
    network = shared_network(base.engine)
    where = os.fspath(base.record.get("opened_from", ""))
    is_file = is_gguf_adapter(path)
    if is_file or is_peft(path):
        read = read_gguf_adapter if is_file else read_peft
        adapter = read(path, network.config, base.record.get("hugging_face"), shapes_in(network))
        with opening_folder(path):
            attach(network, adapter.scale, adapter.named())
        settings = AdapterConfig(lora=adapter.rank, lora_alpha=adapter.scale * adapter.rank)
        said = {**describe(network, settings), "base": os.path.abspath(where) if where else adapter.base}
        return engine_of(network), {**base.record, "read_from": str(path), "adapter": said}
    entry, arrays, _, _ = open_model(path)
    said = entry.settings["adapter"]
    with opening_folder(path, TypeError, ZeroDivisionError):
        if said["fingerprint"] != fingerprint(network):
            raise ModelFormatError("is the adapter of another model than this base, whose weights differ")
        attach(network, said["alpha"] / said["rank"], arrays)
    return engine_of(network), entry.record
