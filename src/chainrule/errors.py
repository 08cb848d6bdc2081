"""Every error that chainrule raises on purpose.

A message says what was wrong, where, what was expected and what to do. It names settings as Python writes them, top_p
or markers='skip'; the command line shows its options in their place.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class ChainruleError(Exception):
    """The base of all; the command line prints its message in one line and leaves with status 1."""


class TextError(ChainruleError):
    """A text cannot be read as asked: missing, empty, not UTF-8, or with a marker such as <s> in it."""


class ModelFormatError(ChainruleError):
    """A model file is broken, or was written by a version that this one does not know."""


class OutputError(ChainruleError):
    """A result cannot be written where it was asked for."""


class SettingError(ChainruleError, ValueError):
    """A setting is outside its range, or two settings contradict each other."""


class EstimationError(ChainruleError):
    """The data do not suffice for what was to be estimated from them."""


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Puts a name before errors that do not say which of several models they are about, but for those of a text."""
    try:
        yield
    except ChainruleError as error:
        if type(error) is not TextError and not str(error).startswith(name):
            error.args = (f"{name}: {error}",)
        raise
