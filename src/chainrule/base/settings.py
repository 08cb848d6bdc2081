"""Fields of a configuration that carry their help and their bounds, and one check for all of them; free of torch."""

from __future__ import annotations

import math
import types
from dataclasses import MISSING, Field, field, fields
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from chainrule.errors import ModelFormatError, SettingError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def setting(
    default: Any, text: str, *, least: float | None = None, below: float = math.inf, is_rare: bool = False
) -> Any:
    """A field: its default, what it says in a help page, and the numbers that it may be: least <= number < below.

    is_rare: only models trained elsewhere set it: it is no flag, and files leave it out at its default.
    """
    return field(default=default, metadata={"help": text, "least": least, "below": below, "is_rare": is_rare})


def is_rare(each: Field[Any]) -> bool:
    """Whether a field is one that only models trained elsewhere set."""
    return bool(each.metadata.get("is_rare"))


def own_first(config: type[DataclassInstance]) -> list[Field[Any]]:
    """The fields of a configuration, its own before those that it shares with others."""
    return sorted(fields(config), key=lambda each: each.name not in config.__annotations__)


def help_of(config: type[DataclassInstance]) -> dict[str, str]:
    """What each field of a configuration is, by name."""
    return {each.name: each.metadata["help"] for each in own_first(config)}


def check_settings(config: DataclassInstance) -> None:
    """Raises SettingError where a field is of another type than it says, or out of its bounds."""
    hints = get_type_hints(type(config))
    for each in fields(config):
        value = getattr(config, each.name)
        if not _is_a(value, hints[each.name]):
            raise SettingError(f"{each.name} is {value!r}; expected {_in_words(hints[each.name])}")
        least, below = each.metadata["least"], each.metadata["below"]
        for number in value if isinstance(value, tuple) else [value]:
            if least is None or number is None or isinstance(number, bool | str):
                continue
            if not least <= number < below:
                most = "" if below == math.inf else f" and less than {below:,}"
                raise SettingError(f"{each.name} is {number}; expected {least} or more{most}")


def config_from_json(kind: type[DataclassInstance], found: object) -> Any:
    """A configuration, from what its `asdict` became in a JSON file.

    Raises ModelFormatError where a field is unknown, missing, or not what it may be.
    """
    if not isinstance(found, dict):
        raise ModelFormatError(f"the settings of the network are {found!r}; expected an object")
    names = {each.name for each in fields(kind)}
    needed = {each.name for each in fields(kind) if not is_rare(each)}
    if unknown := sorted(map(str, found.keys() - names)):
        raise ModelFormatError(f"the network has a setting {unknown[0]!r}, which this version does not know")
    if missing := sorted(needed - found.keys()):
        raise ModelFormatError(f"the network's setting {missing[0]!r} is missing")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
    try:
        return kind(**values)
    except (SettingError, TypeError) as error:
        raise ModelFormatError(f"a setting of the network cannot be: {error}") from error


def has_default(config: type[DataclassInstance], name: str) -> bool:
    """Whether a field may be left out."""
    return any(each.name == name and each.default is not MISSING for each in fields(config))


def _is_a(value: object, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_is_a(value, each) for each in get_args(hint))
    if origin is tuple:
        return isinstance(value, tuple) and all(_is_a(each, get_args(hint)[0]) for each in value)
    if hint is float:
        return type(value) in (int, float) and math.isfinite(float(value))  # type: ignore[arg-type]
    return type(value) is hint


def _in_words(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is Literal:
        *others, last = get_args(hint)
        return f"{', '.join(others)} or {last}" if others else str(last)
    if origin in (Union, types.UnionType):
        return " or ".join(_in_words(each) for each in get_args(hint))
    if origin is tuple:
        inner = get_args(hint)[0]
        return "a tuple of whole numbers" if inner is int else f"a tuple of {_in_words(inner)}"
    return {int: "a whole number", float: "a number", bool: "True or False", str: "a string", type(None): "nothing"}[
        hint
    ]
