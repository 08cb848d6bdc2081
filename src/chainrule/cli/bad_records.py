"""Bad records of a benchmark: each is named, and the others are measured; with --strict, the first is an error.

So it is where each record counts by itself: minimal pairs, and labelled texts that a classifier is tested on. A bad
record stays an error in what a model is trained or tuned on, since the model would differ without a word; and where
records belong together by their places: parallel texts, n-best lists with their references.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chainrule.cli.screen import note
from chainrule.text.records import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.errors import TextError
    from chainrule.text.records import OnBad

_SHOWN = 10

Strict = Annotated[
    bool, Parameter(negative=(), help="A bad record is an error; otherwise it is named, and the others are measured.")
]


@contextmanager
def bad_records(*, strict: bool) -> Iterator[OnBad]:
    """Gives what to do about each; at the end they are noted."""
    found: list[TextError] = []
    try:
        yield refuse if strict else found.append
    finally:
        for error in found[:_SHOWN]:
            note(str(error))
        if len(found) > _SHOWN:
            note(f"{len(found):,} records are like that in all; --strict stops at the first")
