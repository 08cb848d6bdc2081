"""Flags from configurations: each field of a configuration is a flag, with the field's own help.

Each setting is described only once, for the library and all verbs.
"""

from __future__ import annotations

from dataclasses import MISSING, field, fields, make_dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

from cyclopts import Parameter

from chainrule.base.options import is_rare, own_fields_first
from chainrule.cli.shared.arguments import WholeNumber

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import DataclassInstance

_FLAGS = {"output": "--output-layer"}  # fields whose name is that of another flag


def flags_of(config: type[DataclassInstance], prefix: str = "") -> Any:
    """A class of flags for cyclopts: the fields of a configuration, each with its help, all omitted by default.

    prefix: of the flags, without their dashes.
    """
    hints = get_type_hints(config)
    flags = []
    for setting in own_fields_first(config):
        if is_rare(setting):
            continue
        default = None if setting.default is MISSING else setting.default
        kind = hints[setting.name]
        is_several = get_origin(kind) is tuple
        parameter = Parameter(
            name=f"--{prefix}{setting.name.replace('_', '-')}" if prefix else _FLAGS.get(setting.name),
            help=_sentence(setting.metadata["help"]),
            show_default=False if default is None or is_several else partial(_shown, default),
            consume_multiple=is_several or None,
            negative=() if is_several else None,
        )
        is_whole = int in (kind, *get_args(kind)) and float not in get_args(kind)
        marks = (parameter, WholeNumber) if is_whole else (parameter,)
        optional = kind if is_several else kind | None
        flags.append((setting.name, Annotated[optional, *marks], field(default=() if is_several else None)))
    name = config.__name__.removesuffix("Config") + "Flags"
    flag_class = make_dataclass(name, flags, frozen=True, kw_only=True)
    flag_class.__module__ = __name__
    return Parameter(name="*")(flag_class)


def flags_of_any(configs: Sequence[type[DataclassInstance]], prefix: str = "", without: Sequence[str] = ()) -> Any:
    """As `flags_of`, of several configurations of which one will be chosen: the fields of all, each once.

    without: fields that are no flags.
    A default is shown where it is the same in all that have the field; a choice is one of the values of all.
    """
    every: dict[str, tuple[str, Any, Any]] = {}
    defaults: dict[str, set[Any]] = {}
    for config in configs:
        hints = get_type_hints(config)
        for own in own_fields_first(config):
            if own.name in without:
                continue
            defaults.setdefault(own.name, set()).add(own.default)
            shared = own.default if len(defaults[own.name]) == 1 else None
            _, kind, known = every.get(own.name, (own.name, hints[own.name], own))
            metadata = dict(known.metadata)
            if kind != hints[own.name] and str(get_origin(kind)) == "typing.Literal":
                kind = Literal[(*get_args(kind), *get_args(hints[own.name]))]  # which drops what is twice
                if own.metadata["help"] not in metadata["help"]:
                    metadata["help"] = f"{metadata['help']}; {own.metadata['help']}"
            every[own.name] = (own.name, kind, field(default=shared, metadata=metadata))
    return flags_of(make_dataclass("AnyConfig", every.values(), kw_only=True), prefix)


def given_settings(flags: Any) -> dict[str, Any]:
    """The settings that were given on the command line."""
    values = {setting.name: getattr(flags, setting.name) for setting in fields(flags)}
    return {name: value for name, value in values.items() if value not in (None, ())}


def _sentence(text: str) -> str:
    """A help text as a sentence; a value at its start keeps its case."""
    return f"{text if ':' in text.split(' ')[0] else text[0].upper() + text[1:]}."


def _shown(default: Any, _: object) -> str:
    return {True: "yes", False: "no"}[default] if isinstance(default, bool) else str(default)
