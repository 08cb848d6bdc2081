"""What several verbs do with models: open one, and ask whether one may be written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.errors import OutputError
from chainrule.progress import Progress, silent

if TYPE_CHECKING:
    from chainrule.model import Model
    from chainrule.text.vocabulary import Markers


def opened(path: Path, markers: Markers | None, told: Progress = silent) -> Model:
    """A model whose rule for markers is the given one, or its own. Raises ModelFormatError."""
    from chainrule.model import load

    model = load(path, progress=told)
    model.tokenizer.markers = markers or model.tokenizer.markers
    return model


def check_model_target(target: Path, *, overwrite: bool) -> None:
    """Asked before the work: whether a model folder or an ARPA file may be written. Raises OutputError."""
    from chainrule.model import ARPA_SUFFIXES
    from chainrule.store import check_target

    if not target.name.endswith(ARPA_SUFFIXES):
        check_target(target, overwrite=overwrite)
        return
    if target.is_dir():
        raise OutputError(f"{target}: a folder is in the way; an ARPA model is a file, so choose another name")
    if target.exists() and not overwrite:
        raise OutputError(f"{target}: exists already; say --overwrite to replace it, or choose another name")
    if not target.parent.is_dir():
        raise OutputError(f"{target}: there is no folder {target.parent} to write it in; make it first")
    if not os.access(target.parent, os.W_OK):
        raise OutputError(f"{target}: cannot be written, since {target.parent} does not allow it")
