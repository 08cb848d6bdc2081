"""The command line's parser, so that a thousand commands in one process cost what a process pays once."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cyclopts import App, ArgumentCollection
from cyclopts.argument import _argument

if TYPE_CHECKING:
    import pytest

# By the ids of a verb and of its function, which are kept so that no others get these ids.
_assembled: dict[tuple[int, int, bool], tuple[ArgumentCollection, App, object]] = {}


def assemble_once(patch: pytest.MonkeyPatch) -> None:
    """Puts the options of each verb together once (up to 30 ms), and checks values as a process of its own does.

    There, pydantic is not imported, which would check each value once more.
    """
    assemble = App.assemble_argument_collection

    def assemble_argument_collection(
        verb: App, *, default_parameter: Any = None, parse_docstring: bool = False
    ) -> ArgumentCollection:
        key = id(verb), id(verb.default_command), parse_docstring
        if default_parameter is not None:
            return assemble(verb, default_parameter=default_parameter, parse_docstring=parse_docstring)
        if key not in _assembled:
            _assembled[key] = assemble(verb, parse_docstring=parse_docstring), verb, verb.default_command
        return _unread(_assembled[key][0])

    patch.setattr(App, "assemble_argument_collection", assemble_argument_collection)
    patch.setattr(_argument, "sys", SimpleNamespace(modules={}))


def _unread(arguments: ArgumentCollection) -> ArgumentCollection:
    """Copies that have no words of a command yet, and are each other's parents as the arguments are."""
    copies = {id(argument): copy.copy(argument) for argument in arguments}
    for one in copies.values():
        one.tokens = []
        one.children = ArgumentCollection(copies[id(child)] for child in one.children)
    return ArgumentCollection(copies.values())
