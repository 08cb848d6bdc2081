"""chainrule info MODEL: what is known about a model."""

from __future__ import annotations

from chainrule.cli.shared.arguments import Json, ModelPath
from chainrule.cli.shared.screen import print_json, progress_bar


def info(model: ModelPath, /, *, json: Json = False) -> None:
    """Show what is known about a model: size, settings, data, training, validation.

        $ chainrule info lm/

    Prints the model card, the size in bytes, and the model's part of the
    signatures of its figures. --json prints the full record.
    """
    from chainrule.api.opening import info as read_info

    with progress_bar() as progress:
        summary = read_info(model, progress=progress)
    if json:
        print_json({"model": str(model), **summary.as_json()})
    else:
        print(summary)
