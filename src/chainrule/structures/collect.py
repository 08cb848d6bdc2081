"""From what a file holds, one structure after another, to a list; bad ones are reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from chainrule.errors import TextError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from chainrule.text.records import OnBad

Placed = TypeVar("Placed")
Read = TypeVar("Read")


def collect(
    structures: Iterable[Placed | TextError], read: Callable[[Placed], Read], on_bad: OnBad, missing: str
) -> list[Read]:
    """What `read` makes of each structure. on_bad: gets each error, of the file or of `read`; it is left out.

    Raises TextError with the message `missing` where none is left.
    """
    kept = []
    for structure in structures:
        try:
            if isinstance(structure, TextError):
                raise structure
            kept.append(read(structure))
        except TextError as error:
            on_bad(error)
    if not kept:
        raise TextError(missing)
    return kept
