"""Configuration fields that carry their help text and bounds, and one check for them all. Does not import torch."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
import types
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache, wraps
from inspect import Parameter, signature
from numbers import Number
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    overload,
)

from chainrule.errors import ModelFormatError, SettingError, WrongTypeError
from chainrule.kinds import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from _typeshed import DataclassInstance

P = ParamSpec("P")
Opts = TypeVar("Opts", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
R = TypeVar("R")


def option(
    default: Any,
    text: str,
    *,
    least: float | None = None,
    above: float | None = None,
    below: float = math.inf,
    most: float | None = None,
    is_rare: bool = False,
    is_later: bool = False,
    flag: str | None = "",
    reads: Any = None,
    parse: Callable[[Any], Any] | None = None,
    hyphens: bool = False,
    shown: bool = True,
    is_switch: bool = False,
    needs: str = "",
    served: bool | tuple[Any, ...] = False,
) -> Any:
    """Return a field with a default, a help text and bounds: least <= value < below, or above < value <= most.

    is_rare: only models trained elsewhere set it: it is no flag, and files leave it out at its default.
    is_later: there are models from before it: files leave it out at its default, too.
    flag: its name on the command line, where that is not the field's; None: it has none. reads: its type there, where
    that is not the field's, such as Path; or file: a path, or - for standard input. parse: makes the value of what was
    read there. hyphens: whether it may begin with one there. shown: whether help shows the default.
    is_switch: whether it has no --no-... there. needs: the parameter without which it cannot be given there, perhaps
    with its value: "rank_by wu".
    served: whether requests may set it; or the strings that they may choose from, or their own bounds.

    good:  beam: int = option(4, "How many hypotheses to keep", least=1, most=1024, served=(1, 64))
    """
    bounds = {"least": least, "above": above, "below": below, "most": most}
    doors = {"flag": flag, "reads": reads, "parse": parse, "hyphens": hyphens, "shown": shown}
    doors |= {"is_switch": is_switch, "needs": needs, "served": served}
    metadata = {"help": text, "is_rare": is_rare, "is_omitted": is_rare or is_later, **bounds, **doors}
    return dataclasses.field(default=default, metadata=metadata)


def changed(config: type[DataclassInstance], name: str, default: Any = MISSING, **metadata: Any) -> Any:
    """Return the option of another class, with another default, or other arguments of `option`; its text is `help`.

    good:  size: int = changed(BeamConfig, "size", 8, served=(1, 64))
    """
    [own] = [field for field in fields(config) if field.name == name]
    return dataclasses.field(
        default=own.default if default is MISSING else default, metadata={**own.metadata, **metadata}
    )


@dataclass(frozen=True, kw_only=True)
class Options:
    """Fields that are `option`s; their types and bounds are checked when they are made. A list becomes a tuple, a
    number of NumPy one of Python.

    Raises SettingError, of which a wrong type is a WrongTypeError.
    """

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, list):
                object.__setattr__(self, field.name, tuple(value))
            elif isinstance(value, Number) and hasattr(value, "item"):  # NumPy's
                object.__setattr__(self, field.name, value.item())
        check_settings(self)

    @property
    def given(self) -> dict[str, Any]:
        """The options that were named in the call of a function that `takes` them, or else that are not the default."""
        names = getattr(self, "_named", None)
        if names is None:
            names = [field.name for field in fields(self) if getattr(self, field.name) != field.default]
        return {name: getattr(self, name) for name in names}


class _Takes(Protocol[P, Opts]):
    """A decorator of functions whose last parameter is the options."""

    @overload
    def __call__(self, function: Callable[[Opts], R]) -> Callable[P, R]: ...
    @overload
    def __call__(self, function: Callable[[A, Opts], R]) -> Callable[Concatenate[A, P], R]: ...
    @overload
    def __call__(self, function: Callable[[A, B, Opts], R]) -> Callable[Concatenate[A, B, P], R]: ...
    @overload
    def __call__(self, function: Callable[[A, B, C, Opts], R]) -> Callable[Concatenate[A, B, C, P], R]: ...


def takes(options: Callable[P, Opts]) -> _Takes[P, Opts]:
    """Return a decorator: the keywords of a function are the fields of a class of `Options`, its last parameter.

    Fields before `KW_ONLY` may also stand without their names, after the other arguments. Overloads may take
    subclasses, whose fields have narrower types.

    good:  @takes(CorrectOptions)
           def correct(source: Source, model: Model, options: CorrectOptions) -> Iterator[Corrected]: ...
           correct(source, model, beam=8)  # mypy checks the keyword
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        *leading, last = signature(function).parameters.values()
        names = [parameter.name for parameter in leading]
        of_options = signature(options).parameters
        positional = [name for name, own in of_options.items() if own.kind is Parameter.POSITIONAL_OR_KEYWORD]
        needed = [name for name, own in of_options.items() if own.default is Parameter.empty]
        name = function.__name__

        @wraps(function)
        def with_options(*arguments: Any, **keywords: Any) -> R:
            own, more = arguments[: len(names)], arguments[len(names) :]
            if len(more) > len(positional):
                most = len(names) + len(positional)
                raise TypeError(f"{name}() takes {most} arguments without names; {len(arguments)} were given")
            for field, value in zip(positional, more, strict=False):
                if field in keywords:
                    raise TypeError(f"{name}() got {field} twice, with and without its name")
                keywords[field] = value
            named = {field: keywords.pop(field) for field in names if field in keywords}
            for field in keywords:
                if field not in of_options:
                    has = f"{name}() has no option {field!r}; it has {', '.join(of_options)}"
                    raise TypeError(f"{has}{_in_a_group(options, field)}")
            for field in needed:
                if field not in keywords:
                    raise TypeError(f"{name}() needs {field}; none was given")
            made: Any = options(**keywords)  # type: ignore[call-arg]  # the class says which
            object.__setattr__(made, "_named", tuple(keywords))
            return function(*own, **named, **{last.name: made})

        with_options.__signature__ = signature(function).replace(  # type: ignore[attr-defined]
            parameters=[*leading, *of_options.values()]
        )
        return with_options

    return decorate


def _in_a_group(options: Any, field: str) -> str:
    """Return the end of a message about an unknown option: where it is, if one of the options has it as a setting."""
    for name, hint in hints_of(options).items():
        for kind in get_args(hint):
            if (
                isinstance(kind, type)
                and dataclasses.is_dataclass(kind)
                and field in {own.name for own in fields(kind)}
            ):
                return f". Give it as {name}={kind.__name__}({field}=...)"
    return ""


def is_rare(field: Field[Any]) -> bool:
    """Return whether a field is one that only models trained elsewhere set."""
    return bool(field.metadata.get("is_rare"))


def is_omitted(field: Field[Any]) -> bool:
    """Return whether files leave a field out at its default."""
    return bool(field.metadata.get("is_omitted"))


def own_fields_first(config: type[DataclassInstance]) -> list[Field[Any]]:
    """Return the fields of a configuration: its own, then those that it inherits, from the nearest class on."""
    depth = {
        name: i for i, kind in reversed([*enumerate(config.__mro__)]) for name in vars(kind).get("__annotations__", ())
    }
    return sorted(fields(config), key=lambda field: depth[field.name])


def help_of(config: type[DataclassInstance]) -> dict[str, str]:
    """Return the help text of each field, by name."""
    return {field.name: field.metadata["help"] for field in own_fields_first(config)}


def hints_of(config: Any) -> dict[str, Any]:
    """Return the types of the fields of a dataclass; Any where one is not imported, since it is only for type
    checkers.
    """
    return _hints_of(config)


@cache
def _hints_of(config: Any) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    for kind in reversed(config.__mro__):
        names = vars(sys.modules[kind.__module__])
        for name, hint in vars(kind).get("__annotations__", {}).items():
            try:
                hints[name] = eval(hint, dict(names)) if isinstance(hint, str) else hint
            except NameError:
                hints[name] = Any
    return hints


def check_settings(config: DataclassInstance) -> None:
    """Raise SettingError if the value of a field has the wrong type or is out of bounds."""
    hints = hints_of(type(config))
    for field in fields(config):
        if "help" not in field.metadata:  # not an option
            continue
        value = getattr(config, field.name)
        if isinstance(value, float) and not math.isfinite(value):
            bounds = "" if field.metadata["least"] is field.metadata["above"] is None else ", "
            bounds += describe_bounds(field.metadata) if bounds else ""
            raise SettingError(f"{field.name} is {value}; expected a finite number{bounds}")
        if not _has_type(value, hints[field.name]):
            expected = _expected(hints[field.name], field.metadata)
            raise WrongTypeError(f"{field.name} is {value!r}; expected {expected}{called_here(field.name, value)}")
        for item in value if isinstance(value, tuple) else [value]:
            if isinstance(item, int | float) and not isinstance(item, bool) and not _is_within(item, field.metadata):
                raise SettingError(f"{field.name} is {item}; expected {describe_bounds(field.metadata)}")


def called_here(name: str, value: object) -> str:
    """The end of a message about a wrong choice: what it is called here, if other programs have it by that name."""
    known = rows("other names").get("value")
    own = known.get()(f"--{name.replace('_', '-')}", value) if known is not None and isinstance(value, str) else None
    return f"; {value} is {own!r} here" if own else ""


def _expected(hint: Any, bounds: Mapping[str, Any]) -> str:
    """Return the type of an option and its bounds, in words."""
    if bounds["least"] is bounds["above"] is None:
        return _describe_type(hint)
    kinds = [kind for kind in get_args(hint) if kind is not type(None)] if _is_union(hint) else [hint]
    what = f"{' or '.join(map(_describe_type, kinds))}, {describe_bounds(bounds)}"
    return what if type(None) not in get_args(hint) else f"{what}, or nothing"


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def _is_within(number: float, bounds: Mapping[str, Any]) -> bool:
    least, above, below, most = (bounds[name] for name in ("least", "above", "below", "most"))
    if least is None and above is None:
        return True
    return (
        (least is None or least <= number)
        and (above is None or above < number)
        and (number < below if most is None else number <= most)
    )


def describe_bounds(bounds: Mapping[str, Any]) -> str:
    """Return the bounds in words: least, above, below and most, each None where there is none (below: infinite)."""
    least, above, below, most = (bounds[name] for name in ("least", "above", "below", "most"))
    if least is not None and most is not None:
        return f"{least} to {most:,}"
    lower = f"{least} or more" if above is None else f"more than {above}"
    if most is not None:
        return f"{lower} and at most {most:,}"
    return lower if below == math.inf else f"{lower} and less than {below:,}"


def config_among(kinds: Sequence[type[DataclassInstance]], settings: object) -> Any:
    """Return the settings as an object of the first class that knows them all, else of the one that knows most.

    Raises ModelFormatError as `config_from_json`.
    """
    given = settings.keys() if isinstance(settings, dict) else set()
    kind = max(kinds, key=lambda kind: len(given & {field.name for field in fields(kind)}))
    return config_from_json(kind, settings)


def config_from_json(kind: type[DataclassInstance], settings: object) -> Any:
    """Return a configuration of the given class, from its `asdict` as read from a JSON file.

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


def _has_type(value: object, hint: Any) -> bool:
    origin = get_origin(hint)
    if hint is Any:
        return True
    if origin is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if _is_union(hint):
        return any(_has_type(value, option) for option in get_args(hint))
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        kinds = get_args(hint) if Ellipsis not in get_args(hint) else get_args(hint)[:1] * len(value)
        return len(value) == len(kinds) and all(map(_has_type, value, kinds))
    if origin is os.PathLike:
        return isinstance(value, os.PathLike)
    if hint is float:
        return type(value) in (int, float) and math.isfinite(float(value))  # type: ignore[arg-type]
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return isinstance(value, hint)
    return type(value) is hint


_PLURALS: dict[Any, str] = {int: "whole numbers", float: "numbers", str: "strings"}


def _describe_type(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is Literal:
        *others, last = get_args(hint)
        return f"{', '.join(others)} or {last}" if others else str(last)
    if _is_union(hint):
        return " or ".join(_describe_type(each) for each in get_args(hint))
    if origin is tuple:
        inner = get_args(hint)[0]
        return f"a tuple of {_PLURALS.get(inner) or _describe_type(inner)}"
    if origin is os.PathLike:
        return "a path"
    names = {int: "a whole number", float: "a number", bool: "True or False", str: "a string", type(None): "nothing"}
    return names.get(hint, f"a {hint.__name__}")
