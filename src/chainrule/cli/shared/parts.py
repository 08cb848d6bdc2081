"""Parts of verbs that features bring: flags, and what runs in the verb's place if one of them is given."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.cli.shared.options import NO_FLAGS
from chainrule.kinds import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Verb = Callable[..., Any]

_LAST = ("show", "overwrite", "json")  # of a verb's parameters: how and where results are shown


class Part(NamedTuple):
    """A part of a verb.

    flags: the class of its flags, a parameter of the verb. run: gets their value, and all other arguments of the verb
    by name. none: the value of the flags where none is given.
    """

    flags: Any
    run: Verb
    none: Any = NO_FLAGS


def with_flags(flags: Mapping[str, tuple[Any, Any]]) -> Callable[[Verb], Verb]:
    """Give a function whose last parameter is `flags`, a dictionary, a parameter for each of these, as the shell sees.

    flags: by the name of the parameter, its class and its default. They stand before what says where results go.
    """

    def decorate(function: Verb) -> Verb:
        own = inspect.signature(function)
        *shared, _ = own.parameters.values()
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=none, annotation=kind)
            for name, (kind, none) in flags.items()
        ]

        @wraps(function)
        def with_all(*arguments: Any, **keywords: Any) -> None:
            given = {name: keywords.pop(name, none) for name, (_, none) in flags.items()}
            function(*arguments, **keywords, flags=given)

        place = next((i for i, each in enumerate(shared) if each.name in _LAST), len(shared))
        parameters = [*shared[:place], *added, *shared[place:]]
        with_all.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        with_all.__annotations__ = function.__annotations__ | {name: kind for name, (kind, _) in flags.items()}
        return with_all

    return decorate


def parts_of(verb: str) -> dict[str, Part]:
    """Return the parts of a verb, which are rows of the registry."""
    return {name: lazy.get() for name, lazy in rows(verb).items()}


def flags_of_parts(parts: Mapping[str, Part]) -> dict[str, tuple[Any, Any]]:
    """Return the flags of parts, as `with_flags` takes them."""
    return {name: (part.flags, part.none) for name, part in parts.items()}


def run_part(parts: Mapping[str, Part], flags: Mapping[str, Any], **arguments: Any) -> bool:
    """Run the part of which a flag is given, if any; return whether there was one. arguments: the verb's."""
    for name, part in parts.items():
        if flags[name] != part.none:
            part.run(flags[name], **arguments)
            return True
    return False
