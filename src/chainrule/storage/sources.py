"""Names of models that are not on this machine yet, such as hf:owner/name: what the registry's `sources` fetch.

A name is `source:name`, perhaps with `@revision`, perhaps with `:file` at its end.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.base.arguments import as_path
from chainrule.errors import SettingError
from chainrule.kinds import Lazy, rows

if TYPE_CHECKING:
    from pathlib import Path


class Located(NamedTuple):
    """A model on this machine. name: what it can be opened by later: its absolute path, or its source and commit."""

    path: Path
    name: str


def source_of(path: str | os.PathLike[str]) -> Lazy | None:
    """Return the row of the source that a name begins with; None for a path."""
    scheme, colon, _ = os.fspath(path).partition(":")
    return rows("sources").get(scheme) if colon and not os.path.lexists(path) else None


def locate(path: str | os.PathLike[str], name: str = "path", **options: Any) -> Located:
    """Return where a model is on this machine. What is named by its source is fetched first, where that is needed.

    name: that of the argument. options: `is_whole`, without which only what tells the kind of model is needed, and
    `allow_pickle` and `progress`, as for `load`. Raises TypeError, SettingError; ServerError, ModelFormatError where it
    cannot be fetched.
    """
    local = as_path(path, name)
    source = source_of(path)
    if source is None:
        return Located(local, os.path.abspath(local))
    located: Located = source.get()(os.fspath(path).partition(":")[2], **options)
    return located


def local_path(path: str | os.PathLike[str], name: str = "path", **options: Any) -> Path:
    """Return the path on this machine alone; as `locate`."""
    return locate(path, name, **options).path


def with_parts(path: str | os.PathLike[str], revision: str | None, file: str | None) -> str | os.PathLike[str]:
    """Return the name of a model with its revision and file in it, where they are given. Raises SettingError."""
    parts = {"revision": ("@", revision), "file": (":", file)}
    given = {name: sign + value for name, (sign, value) in parts.items() if value is not None}
    if given and source_of(path) is None:
        raise SettingError(f"{os.fspath(path)}: is a path, which has no {' and no '.join(given)}; leave it out")
    if given and (odd := [sign for sign in "@:" if sign in os.fspath(path).partition(":")[2]]):
        raise SettingError(f"{os.fspath(path)}: has {odd[0]} already; leave out {' and '.join(given)}")
    return os.fspath(path) + "".join(given.values()) if given else path


def suggestion(path: str | os.PathLike[str]) -> str:
    """Return the end of a message on a path that does not exist: how it is written if it is a name at a source."""
    name = os.fspath(path)
    owner, _, rest = name.partition("/")
    if not rest or "/" in rest or owner in ("", ".", "..", "~"):
        return ""
    return "".join(f". To fetch the model of this name, write {scheme}:{name}" for scheme in rows("sources"))
