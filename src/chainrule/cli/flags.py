"""Flags from configurations: each field of a configuration is a flag, with the field's own help.

So a setting is described once, and the verbs of all families and the library say the same of it.
"""

from __future__ import annotations

from dataclasses import MISSING, field, fields, make_dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

from cyclopts import Parameter

from chainrule.base.settings import is_rare, own_fields_first
from chainrule.cli.arguments import WholeNumber

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_FLAGS = {"output": "--output-layer"}  # where the name of a field is that of another flag


def flags_of(config: type[DataclassInstance]) -> Any:
    """A class of flags for cyclopts: the fields of a configuration, each with its help, all left out by default."""
    hints = get_type_hints(config)
    made = []
    for each in own_fields_first(config):
        if is_rare(each):
            continue
        default = None if each.default is MISSING else each.default
        kind = hints[each.name]
        is_several = get_origin(kind) is tuple
        parameter = Parameter(
            name=_FLAGS.get(each.name),
            help=_sentence(each.metadata["help"]),
            show_default=False if default is None or is_several else partial(_shown, default),
            consume_multiple=is_several or None,
            negative=() if is_several else None,
        )
        is_whole = int in (kind, *get_args(kind)) and float not in get_args(kind)
        marks = (parameter, WholeNumber) if is_whole else (parameter,)
        optional = kind if is_several else kind | None
        made.append((each.name, Annotated[optional, *marks], field(default=() if is_several else None)))
    name = config.__name__.removesuffix("Config") + "Flags"
    made_class = make_dataclass(name, made, frozen=True, kw_only=True)
    made_class.__module__ = __name__
    return Parameter(name="*")(made_class)


def given_of(flags: Any) -> dict[str, Any]:
    """What was said of a configuration's fields."""
    values = {each.name: getattr(flags, each.name) for each in fields(flags)}
    return {name: value for name, value in values.items() if value not in (None, ())}


def _sentence(text: str) -> str:
    """Of a help text; a value that it begins with stays as it is written."""
    return f"{text if ':' in text.split(' ')[0] else text[0].upper() + text[1:]}."


def _shown(default: Any, _: object) -> str:
    return {True: "yes", False: "no"}[default] if isinstance(default, bool) else str(default)
