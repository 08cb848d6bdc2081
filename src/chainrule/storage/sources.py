"""Names of models that are elsewhere, such as hf:owner/name@revision:file, which the registry's `sources` fetch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from chainrule.base.arguments import as_path
from chainrule.errors import SettingError
from chainrule.kinds import Lazy, rows

if TYPE_CHECKING:
    from pathlib import Path


def source_of(path: str | os.PathLike[str]) -> Lazy | None:
    """Return the row of the source that a name begins with; None for a path."""
    scheme, colon, _ = os.fspath(path).partition(":")
    return rows("sources").get(scheme) if colon and not os.path.lexists(path) else None


def locate(path: str | os.PathLike[str], **options: Any) -> tuple[Path, str]:
    """Return the path of a model on this machine, and a name that opens the same one later: absolute, or with a commit.

    What is missing is fetched. options: `is_whole`, without which only what tells the kind of model is needed;
    `allow_pickle`, `progress`. Raises TypeError, SettingError; ServerError, ModelFormatError where it is not there.
    """
    local = as_path(path)
    source = source_of(path)
    if source is None:
        return local, os.path.abspath(local)
    located: tuple[Path, str] = source.get()(os.fspath(path).partition(":")[2], **options)
    return located


def local_path(path: str | os.PathLike[str], **options: Any) -> Path:
    """Return the path on this machine alone; as `locate`."""
    return locate(path, **options)[0]


def with_parts(path: str | os.PathLike[str], revision: str | None, file: str | None) -> str | os.PathLike[str]:
    """Return the name of a model with its revision and file in it, where they are given. Raises SettingError."""
    given = "".join(sign + part for sign, part in (("@", revision), (":", file)) if part is not None)
    if given and (source_of(path) is None or {"@", ":"} & {*os.fspath(path).partition(":")[2]}):
        raise SettingError(f"{os.fspath(path)}: takes no revision and file; they are for names such as hf:owner/name")
    return os.fspath(path) + given if given else path


def suggestion(path: str | os.PathLike[str]) -> str:
    """Return the end of a message on a path that does not exist: how it is written if it is a name at a source."""
    owner, _, rest = os.fspath(path).partition("/")
    schemes = rows("sources") if rest and "/" not in rest and owner not in ("", ".", "..", "~") else ()
    return "".join(f". To fetch the model of this name, write {scheme}:{owner}/{rest}" for scheme in schemes)
