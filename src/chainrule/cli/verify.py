"""chainrule verify MODEL: compares every byte of a model folder with its checksums."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chainrule.cli.shared.screen import progress_bar


def verify(model: Annotated[Path, Parameter(help="A model folder.")], /) -> None:
    """Verify the checksums of a model folder.

        $ chainrule verify lm/

    Reads every byte, config.json and the model card included; the exit status
    is 1 if any differs.
    """
    from chainrule.api.opening import verify as check_folder
    from chainrule.storage.model_folder import CARD

    with progress_bar() as progress:
        checked = check_folder(model, progress=progress)
    card = f", {CARD}" if checked.has_card else f" (without its {CARD})"
    print(f"{model}: intact; config.json{card} and {checked.bytes:,} bytes of data match their checksums")
