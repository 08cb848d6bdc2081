"""What a path holds, told without opening it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from chainrule.errors import ModelFormatError
from chainrule.kinds import kind_named, kinds, openers, read_plugins
from chainrule.storage.config_json import read_config
from chainrule.storage.model_folder import saved_family
from chainrule.storage.sources import local_path

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from chainrule.kinds import Kind, Opener
    from chainrule.models.any_model import AnyModel


def opener_of(path: Path) -> Opener | None:
    """Return the row of what others write that a path is; None for a folder of ours.

    Raises ModelFormatError where a file is nothing that can be opened.
    """
    if saved_family(path) is not None:
        return None
    ours = openers()
    found = next((opener for opener in ours if opener.recognises.get()(path)), None)
    if found is None and path.is_file():
        read_plugins()
        found = next((opener for opener in openers()[len(ours) :] if opener.recognises.get()(path)), None)
    if found is None and path.is_file():
        *others, last = (opener.title for opener in openers() if opener.title)
        raise ModelFormatError(f"{path}: a model is a folder, {', '.join(others)} or {last}")
    return found


def class_at(path: Path, opener: Opener | None) -> type[AnyModel] | None:
    """Return the class that `load` would give; None where only opening it shows that. opener: as `opener_of` gives it.

    Raises ModelFormatError where a folder of ours is damaged, or of a family that this version does not know.
    """
    if opener is not None:
        return None if opener.model is None else opener.model.get()(path)
    family = read_config(path).family
    kind = kind_named(family)
    if kind is None:
        raise ModelFormatError(
            f"{path}: family {family!r} is not known to this version; expected one of {', '.join(kinds())}, or "
            "the plug-in that brings it; chainrule plugins lists those that are installed"
        )
    own: type[AnyModel] = kind.model.get()
    return own


def model_class_at(path: str | os.PathLike[str]) -> type[AnyModel] | None:
    """Return the class that `load` would give; None where only opening it shows that, or nothing can be opened.

    Raises ModelFormatError where the configuration of a folder is damaged.
    """
    folder = local_path(path)
    with suppress(ModelFormatError):
        opener = opener_of(folder)
        return class_at(folder, opener) if opener is not None or folder.is_dir() else None
    return None


def kind_at(path: str | os.PathLike[str]) -> Kind | None:
    """Return the row of the models that `load` would give; None as `model_class_at`.

    Of what others write, it is the first row with that class.
    """
    with suppress(ModelFormatError):
        family = saved_family(local_path(path))
        if family is not None:
            return kind_named(family)
    own = model_class_at(path)
    return None if own is None else next((kind for kind in kinds().values() if kind.model.names(own)), None)
