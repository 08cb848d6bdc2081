"""Adapted models: a small folder with an adapter, ours or peft's, that names the model that it stands on.

All adapted models of one base that a process opens share its weights.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from chainrule.errors import ModelFormatError, SettingError, opening_folder
from chainrule.models.families.table import FAMILIES
from chainrule.models.files.recognition import opener_of
from chainrule.storage.model_folder import open_model
from chainrule.storage.sources import locate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chainrule.models.model import Model
    from chainrule.neural.network import Network
    from chainrule.training.config import AdapterConfig

_bases: WeakValueDictionary[tuple[str, bool], Model] = WeakValueDictionary()


def adapter_record(network: Network, config: AdapterConfig, base: str) -> dict[str, Any]:
    """Return what the record of an adapted model says of its adapter. base: the path of the model that it stands on."""
    from chainrule.neural.adapters import describe

    own = describe(network, config.rank, config.scale)
    return {"adapter": {**own, "settings": asdict(config), "base": locate(base)[1]}}


def check_no_adapter(model: Model, path: str | os.PathLike[str]) -> None:
    """Raise SettingError where a model has an adapter, for what needs its weights as one."""
    if "adapter" in model.record:
        raise SettingError(f"{path}: is an adapter; chainrule convert merges it with its base, which can be trained")


def shared_base(path: Path, *, exact: bool) -> Model | None:
    """Return the model at a path, if it is open as the base of adapters. exact: as for `load`."""
    return _bases.get((os.path.realpath(path), exact))


def share_as_base(path: Path, model: Model, *, exact: bool) -> None:
    """Let adapters that are opened later stand on a model that is open. exact: as for `load`."""
    if FAMILIES[model.family].embeds and "adapter" not in model.record:
        _bases[os.path.realpath(path), exact] = model


def open_base(path: Path, exact: bool, load: Callable[..., Model]) -> Model:
    """Return a model to put adapters on; the same one as long as any of its adapters is in use.

    Raises ModelFormatError.
    """
    base = shared_base(path, exact=exact)
    if base is None:
        base = load(path, exact=exact)
        check_no_adapter(base, path)
        share_as_base(path, base, exact=exact)
    return base


def adapted(path: Path, base: Model) -> tuple[Any, dict[str, Any]]:
    """Return the engine of a base with the adapter of a folder, ours or peft's, or of a GGUF file, and its record.

    It shares the base's weights. Raises ModelFormatError where the adapter is for another base; SettingError.
    """
    from chainrule.neural.adapters import attach, describe, fingerprint
    from chainrule.neural.saving import engine_of, shapes_in, shared_network

    if not FAMILIES[base.family].embeds:
        raise SettingError(f"{path}: is an adapter of a network, but its base is of family {base.family!r}")
    network = shared_network(base.engine)
    where = os.fspath(base.record.get("opened_from", ""))
    opener = opener_of(path)
    if opener is not None:
        if opener.adapter is None:
            raise ModelFormatError(f"{path}: is {opener.title or 'no adapter'}; expected an adapter")
        adapter = opener.adapter.get()(path, network.config, base.record.get("hugging_face"), shapes_in(network))
        with opening_folder(path):
            attach(network, adapter.scale, adapter.named())
        said = {
            **describe(network, adapter.rank, adapter.scale),
            "base": locate(where)[1] if where else adapter.base,
        }
        return engine_of(network), {**base.record, "read_from": str(path), "adapter": said}
    entry, arrays, _, _ = open_model(path)
    said = entry.settings["adapter"]
    with opening_folder(path, TypeError, ZeroDivisionError):
        if said["fingerprint"] != fingerprint(network):
            raise ModelFormatError("is the adapter of another model than this base, whose weights differ")
        attach(network, said["alpha"] / said["rank"], arrays)
    return engine_of(network), entry.record
