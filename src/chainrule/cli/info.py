"""chainrule info MODEL: what is known of it."""

from __future__ import annotations

from chainrule.cli.arguments import Json, ModelPath
from chainrule.cli.screen import print_json, progress


def info(model: ModelPath, /, *, json: Json = False) -> None:
    """What is known of a model: size, settings, data, training, validation.

    Of any model: its record, as the card has it, with how many bytes it takes
    and the model's side of the signatures of its figures. --json prints all of
    the record.
    """
    from chainrule.api.info import info as known

    with progress() as told:
        found = known(model, progress=told)
    if json:
        print_json({"model": str(model), **found.to_dict()})
    else:
        print(found)
