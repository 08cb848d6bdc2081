"""Writes small data sets made by rule, for trying things out without a download."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.base.files import check_writable, replace_file
from chainrule.datasets.make import make_data
from chainrule.errors import OutputError

if TYPE_CHECKING:
    import os

    from chainrule.datasets import Name


def data(
    name: Name,
    folder: str | os.PathLike[str],
    *,
    examples: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> dict[str, int]:
    """Writes a data set into a folder, and gives the number of examples by file, or of pictures by class folder.

    name: text, pairs, labels, trees, pictures, captions, minimal-pairs, dates or conversations. examples: how many to
    train on; for validation and testing, a tenth of that each. seed: other examples. overwrite: whether files of the
    same names are replaced. Raises SettingError, OutputError.

    good:  chainrule.data("pairs", "pairs/")
    """
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise OutputError(f"{target}: this is a file; name a folder")
    check_writable(target)
    files = make_data(name, examples, seed)
    existing = next((path for file in files if (path := target / file.name).exists()), None)
    if existing is not None and not overwrite:
        raise OutputError(f"{existing}: exists already; use overwrite=True to replace it, or choose another folder")
    counts: dict[str, int] = {}
    for file in files:
        path = target / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as stream:
            stream.write(file.content)
        shown = path.parent if path.suffix == ".png" else path
        counts[str(shown)] = counts.get(str(shown), 0) + file.examples
    return counts
