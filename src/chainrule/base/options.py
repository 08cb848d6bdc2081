"""Configuration fields that carry their help text and bounds, and one check for them all. Does not import torch."""

from __future__ import annotations

import dataclasses
import math
import types
from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from chainrule.errors import ModelFormatError, SettingError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def setting(
    default: Any,
    text: str,
    *,
    least: float | None = None,
    below: float = math.inf,
    is_rare: bool = False,
    is_later: bool = False,
) -> Any:
    """A field with a default, a help text and bounds: least <= value < below.

    is_rare: whether only models trained elsewhere set it: then it is no flag, and files leave it out at its default.
    is_later: whether there are models older than the field: then files leave it out at its default, too.
    """
    metadata = {"help": text, "least": least, "below": below, "is_rare": is_rare, "is_omitted": is_rare or is_later}
    return dataclasses.field(default=default, metadata=metadata)


def is_rare(field: Field[Any]) -> bool:
    """Whether a field is one that only models trained elsewhere set."""
    return bool(field.metadata.get("is_rare"))


def is_omitted(field: Field[Any]) -> bool:
    """Whether files leave a field out at its default."""
    return bool(field.metadata.get("is_omitted"))


def own_fields_first(config: type[DataclassInstance]) -> list[Field[Any]]:
    """The fields of a configuration: its own, then those that it inherits."""
    return sorted(fields(config), key=lambda field: field.name not in config.__annotations__)


def help_of(config: type[DataclassInstance]) -> dict[str, str]:
    """The help text of each field, by name."""
    return {field.name: field.metadata["help"] for field in own_fields_first(config)}


def check_settings(config: DataclassInstance) -> None:
    """Raises SettingError if the value of a field has the wrong type or is out of bounds."""
    hints = get_type_hints(type(config))
    for field in fields(config):
        value = getattr(config, field.name)
        if not _has_type(value, hints[field.name]):
            raise SettingError(f"{field.name} is {value!r}; expected {_describe_type(hints[field.name])}")
        least, below = field.metadata["least"], field.metadata["below"]
        for item in value if isinstance(value, tuple) else [value]:
            if least is None or item is None or isinstance(item, bool | str):
                continue
            if not least <= item < below:
                upper = "" if below == math.inf else f" and less than {below:,}"
                raise SettingError(f"{field.name} is {item}; expected {least} or more{upper}")


def config_from_json(kind: type[DataclassInstance], settings: object) -> Any:
    """A configuration of the given class, from its `asdict` as read from a JSON file.

    Raises ModelFormatError if a field is unknown, missing, or has a wrong value.
    """
    if not isinstance(settings, dict):
        raise ModelFormatError(f"the settings of the network are {settings!r}; expected an object")
    names = {field.name for field in fields(kind)}
    needed = {field.name for field in fields(kind) if not is_omitted(field)}
    if unknown := sorted(map(str, settings.keys() - names)):
        raise ModelFormatError(f"the network has a setting {unknown[0]!r}, which this version does not know")
    if missing := sorted(needed - settings.keys()):
        raise ModelFormatError(f"the network's setting {missing[0]!r} is missing")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    try:
        return kind(**values)
    except (SettingError, TypeError) as error:
        raise ModelFormatError(f"a setting of the network is wrong: {error}") from error


def has_default(config: type[DataclassInstance], name: str) -> bool:
    """Whether a field may be omitted."""
    return any(field.name == name and field.default is not MISSING for field in fields(config))


def _has_type(value: object, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_has_type(value, option) for option in get_args(hint))
    if origin is tuple:
        return isinstance(value, tuple) and all(_has_type(item, get_args(hint)[0]) for item in value)
    if hint is float:
        return type(value) in (int, float) and math.isfinite(float(value))  # type: ignore[arg-type]
    return type(value) is hint


def _describe_type(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is Literal:
        *others, last = get_args(hint)
        return f"{', '.join(others)} or {last}" if others else str(last)
    if origin in (Union, types.UnionType):
        return " or ".join(_describe_type(each) for each in get_args(hint))
    if origin is tuple:
        inner = get_args(hint)[0]
        return "a tuple of whole numbers" if inner is int else f"a tuple of {_describe_type(inner)}"
    return {int: "a whole number", float: "a number", bool: "True or False", str: "a string", type(None): "nothing"}[
        hint
    ]
