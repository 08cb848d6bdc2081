"""The errors that chainrule raises on purpose.

A message says what is wrong, where, what was expected and what to do. It names settings as Python writes them, top_p
or markers='skip'; the command line replaces them with its options.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator


class ChainruleError(Exception):
    """The base class of them all. The command line prints the message in one line and exits with status 1.

    contents: what else is known of a file that was refused, names with values; `info` fills it in.
    """

    contents: tuple[tuple[str, str], ...] = ()


class TextError(ChainruleError):
    """An input cannot be read: a text that is missing, empty, not UTF-8 or contains a marker such as <s>; a damaged
    picture.

    record: the record of a file that is wrong, if it is one.
    """

    record: Any = None


class ModelFormatError(ChainruleError):
    """A model file is damaged, or from a version that this one cannot read."""


class OutputError(ChainruleError):
    """A result cannot be written to the given path."""


class SettingError(ChainruleError, ValueError):
    """A setting is out of range, or contradicts another."""


class WrongTypeError(SettingError, TypeError):
    """A setting is of the wrong type."""


class WrongModelError(SettingError, AttributeError):
    """A model does not do what is asked of it: a classifier, say, continues no text."""


class ServiceError(ChainruleError):
    """Another process that holds a part of a model does not answer, or not as expected."""


class EstimationError(ChainruleError):
    """There is too little data, or memory, for what was to be estimated."""


class ServerError(ChainruleError):
    """A server cannot be reached, refuses a request, or does not answer as it should."""


@contextmanager
def opening_folder(path: object, *others: type[Exception]) -> Iterator[None]:
    """Turn errors in the contents of a model folder, KeyError for an array and `others`, into a ModelFormatError that
    names the folder.
    """
    kinds: tuple[type[Exception], ...] = (ModelFormatError, SettingError, *others)
    try:
        yield
    except KeyError as error:
        raise ModelFormatError(f"{path}: the array {error} is missing; the model is incomplete") from error
    except kinds as error:
        raise ModelFormatError(f"{path}: {error}") from error


@contextmanager
def prefix_errors(name: str) -> Iterator[None]:
    """Put the name of one of several models before the errors raised inside, except before TextErrors."""
    try:
        yield
    except ChainruleError as error:
        if type(error) is not TextError and not str(error).startswith(name):
            error.args = (f"{name}: {error}",)
        raise


@contextmanager
def os_errors_as(kind: type[ChainruleError], path: str | os.PathLike[str], done: str, then: str = "") -> Iterator[None]:
    """Raise an error of this kind for an OSError inside: `path` cannot be opened, read or written, and why.

    done: opened, read or written. then: what follows from it, or what to do.
    """
    try:
        yield
    except OSError as error:
        reason = f"{error.strerror or error}; {then}" if then else error.strerror or error
        raise kind(f"{path}: cannot be {done}: {reason}") from error


def installing(extra: str) -> str:
    """Return the command that installs an extra: of the installed package, or of the clone that runs without one."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        name = distribution("chainrule").metadata["Name"]
    except PackageNotFoundError:
        name = __file__.partition("/src/chainrule/")[0]
    return f"pip install '{name}[{extra}]'"
