"""Bad records of a benchmark are reported and left out; with --strict, the first one is an error.

This applies where each record counts by itself: minimal pairs, and labelled texts that test a classifier. In data that
a model is trained or tuned on, a bad record is always an error, since the model would silently differ; likewise where
records are matched by position: parallel texts, n-best lists with their references.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chainrule.cli.shared.screen import note
from chainrule.text.corpus.records import raise_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.errors import TextError
    from chainrule.text.corpus.records import OnBad

_SHOWN = 10

Strict = Annotated[bool, Parameter(negative=(), help="Stop at a bad record; by default it is reported and left out.")]


@contextmanager
def bad_records(*, strict: bool) -> Iterator[OnBad]:
    """A callback for bad records; prints a note about each at the end."""
    errors: list[TextError] = []
    try:
        yield raise_error if strict else errors.append
    finally:
        for error in errors[:_SHOWN]:
            note(str(error))
        if len(errors) > _SHOWN:
            note(f"{len(errors):,} records were left out in all; --strict stops at the first")
