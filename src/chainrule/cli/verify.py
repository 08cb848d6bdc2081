"""chainrule verify MODEL: every byte of a model folder against its checksums."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chainrule.cli.screen import progress


def verify(model: Annotated[Path, Parameter(help="A model folder.")], /) -> None:
    """Check the checksums of a model folder.

    Reads every byte that was written, config.json and the model card too; the
    exit status is 1 where one differs.
    """
    from chainrule.api.verify import verify as verified
    from chainrule.storage.model_folder import CARD

    with progress() as told:
        found = verified(model, progress=told)
    card = f", {CARD}" if found.has_card else f" (without its {CARD})"
    print(f"{model}: whole; config.json{card} and {found.bytes:,} bytes of data are as they were written")
