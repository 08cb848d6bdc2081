"""chainrule verify MODEL: every byte of a model folder against its checksums."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chainrule.cli.screen import progress
from chainrule.errors import ModelFormatError


def verify(model: Annotated[Path, Parameter(help="A model folder.")], /) -> None:
    """Check the checksums of a model folder.

    Reads every byte that was written, config.json and the model card too; the
    exit status is 1 where one differs.
    """
    from chainrule.store import CARD, verify_model

    if model.is_file():
        raise ModelFormatError(f"{model}: this is a file; only model folders have checksums")
    with progress() as told:
        entry = verify_model(model, told)
    size = sum(file.bytes for file in entry.files.values())
    card = f", {CARD}" if (model / CARD).exists() else f" (without its {CARD})"
    print(f"{model}: whole; config.json{card} and {size:,} bytes of data are as they were written")
