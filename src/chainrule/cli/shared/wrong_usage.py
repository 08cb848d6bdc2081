"""Error messages in the words of the command line: its options and arguments."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from cyclopts import (
    CycloptsError,
    MissingArgumentError,
    Parameter,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from chainrule.cli.shared.options import FIELD_FLAGS, NO_FLAGS, MayBeEmpty, Needs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from inspect import BoundArguments

    from cyclopts import App, ArgumentCollection

_OPTION = re.compile("--[a-z][a-z_-]*(=.*)?")
_LIKE_AN_OPTION = re.compile("--?[a-zA-Z]")
_NO_FILE = re.compile("There is no option (--[^ ]+) ")  # as file_or_dash words it
_SWAPPED = "{} is not a model, and {} is: are they swapped?"
_MISSPELT, _ALIKE = 0.9, 0.75  # similarity to another option: surely meant, perhaps meant
# Settings of the library whose options are named otherwise.
_RENAMED = {
    "n": "--number",
    "allowed": "--allow",
    "banned": "--ban",
    "validation": "--valid",
    "share": "--lambda",
    "min_count": "--vocabulary-min-count",
    "learned_weight": "--corrector-weight",
}
# The same in errors, where the verb is known: it has the option, and none of the setting's own name.
_RENAMED_IN_ERRORS = {"fields": "--field", "heldout": "--tune", "words": "--cache", "order": "--cache-order"}
_RENAMED_IN_ERRORS |= {name: f"--dynamic-{name}" for name in ("segment", "rate", "decay", "rank")}
_OF_OTHER_VERBS = {"encoding": "--encoding", "allow_pickle": "--allow-pickle", "resume": "--resume"}
_MODELS = ("model", "models")  # parameters for models
_TEXTS = (
    "text",
    "texts",
    "prompt",
    "sentence",
    "target",
    "data",
    "test",
    "tune",
    "heldout",
    "valid",
    "for_text",
    "lists",
)


def usage_message(error: CycloptsError, verb: App, arguments: list[str]) -> str:
    """The message for a wrong argument of a verb."""
    if isinstance(error, UnknownCommandError):
        return _no_such_verb((error.unused_tokens or [""])[0], verb)
    if isinstance(error, MissingArgumentError) and error.argument is not None and error.keyword is None:
        greedy = [name for name in _greedy_options(verb) if name in arguments]
        return f"{error.argument.name} is missing{f'; put it before {greedy[0]}' if greedy else ''}."
    if isinstance(error, UnknownOptionError):
        return _no_such_option(error.token.keyword or error.token.value, verb)
    if isinstance(error, UnusedCliTokensError):
        unknown = _unknown_options(arguments, verb)
        if unknown:
            return _no_such_option(unknown[0], verb)
        return _unused(error.unused_tokens or [], verb, arguments)
    message = " ".join(str(error).split())
    misspelt = _NO_FILE.match(message)
    return message if misspelt is None else message + _alike(misspelt[1], _options(verb))


def _no_such_verb(word: str, parent: App) -> str:
    """The message for an unknown verb, or a model of `train`. parent: the program, or `train`."""
    verbs = [name for name in parent if not name.startswith("-")]
    known = get_close_matches(word.lower(), [*verbs, "help", "version"], 1, _ALIKE)
    alike = [f"--{name}" if name in ("help", "version") else name for name in known]
    question = f" Did you mean {alike[0]}?" if alike else ""
    kind = "model" if parent.name == ("train",) else "verb"
    return f"There is no {kind} {word}.{question} {parent.name[0]} has {', '.join(verbs)}."


def _unused(words: list[str], verb: App, arguments: list[str]) -> str:
    """The message for arguments beyond those that a verb takes."""
    names = {argument.name for argument in _arguments(verb)}
    _, *positional = (word for word in arguments if not word.startswith("-"))  # after the verb
    model = next((word for word in words if is_model(word)), None)
    if "MODEL" in names and model is not None and not is_model(positional[0]):
        return _SWAPPED.format(positional[0], model)
    advice = ""
    if {"PROMPT", "SENTENCE"} & names:
        advice = "; put quotes around a text of several words"
    elif verb.name == ("complete",):
        advice = "; complete reads texts from standard input"
    return f"There is no use for {' '.join(words)}{advice}."


def check_no_option_is_text(bound: BoundArguments, verb: App, arguments: list[str]) -> None:
    """Raises CycloptsError if an argument looks like a misspelt option."""
    texts = {value for value in bound.arguments.values() if isinstance(value, str) and _OPTION.fullmatch(value)}
    misspelt = next((word for word in _before_dashes(arguments) if word in texts), None)
    if misspelt is not None and misspelt in _unknown_options(arguments, verb):
        raise CycloptsError(msg=f"{_no_such_option(misspelt, verb)} Put a text that begins like an option after --.")


def check_values(verb: Callable[..., Any], arguments: list[str]) -> None:
    """Raises CycloptsError if an option that takes several values is given none."""
    words = _before_dashes(arguments)
    for word, following in zip(words, [*words[1:], None], strict=True):
        if word.startswith("--") and (following is None or _LIKE_AN_OPTION.match(following)):
            hints = get_type_hints(verb, include_extras=True)
            if word in _taking_several(hints):
                raise CycloptsError(msg=f"{word} needs one value or more after it.")


def _taking_several(hints: Mapping[str, Any]) -> Iterator[str]:
    """The options that take all values after them, and no word that looks like an option. hints: of parameters."""
    for name, hint in hints.items():
        metadata = getattr(hint, "__metadata__", ())
        marks = [mark for mark in metadata if isinstance(mark, Parameter)]
        kind = getattr(hint, "__origin__", hint) if marks else hint
        if any(isinstance(mark, MayBeEmpty) for mark in metadata):
            continue
        if is_dataclass(kind):
            yield from _taking_several(get_type_hints(kind, include_extras=True))
        elif any(mark.consume_multiple for mark in marks) and not any(mark.allow_leading_hyphen for mark in marks):
            named = [option for mark in marks for option in mark.name or ()]
            yield from named or [f"--{name.replace('_', '-')}"]


def check_needs(bound: BoundArguments, verb: Callable[..., Any]) -> None:
    """Raises CycloptsError if an option is given without the one that it needs."""
    defaults = {name: parameter.default for name, parameter in bound.signature.parameters.items()}
    hints = get_type_hints(verb, include_extras=True)
    given = list(_given(bound.arguments, defaults, hints))
    values = defaults | {name: value for name, value, _ in given}
    names = {name for name, _, _ in given}
    for name, own, marks in given:
        for needed in (mark.name for mark in marks if isinstance(mark, Needs)):
            others, _, value = needed.partition(" ")
            other, *more = others.split("|")
            if str(values.get(other)) != value if value else names.isdisjoint([other, *more]):
                option = _flag(name, marks)
                option = f"--no-{option.removeprefix('--')}" if own is False else option
                needed = next(_flags_of(other, hints), _flag(other, ()))
                raise CycloptsError(msg=f"{option} needs {f'{needed} {value}'.rstrip()}.")


def _flag(name: str, marks: Iterable[Any]) -> str:
    """The option of a parameter with these marks."""
    flags = [flag for mark in marks if isinstance(mark, Parameter) for flag in mark.name or () if flag[:2] == "--"]
    return (flags or [f"--{name.replace('_', '-')}"])[0]


def _flags_of(name: str, hints: Mapping[str, Any]) -> Iterator[str]:
    """The option of a parameter, or of a field of one that is several. hints: of parameters."""
    for own, hint in hints.items():
        if own == name:
            yield _flag(name, getattr(hint, "__metadata__", ()))
        elif is_dataclass(kind := getattr(hint, "__origin__", hint)):
            yield from _flags_of(name, get_type_hints(kind, include_extras=True))


def _given(
    arguments: Mapping[str, Any], defaults: Mapping[str, Any], hints: Mapping[str, Any]
) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """The name, value and marks of each parameter that was given, and of the fields of those that are several."""
    for name, value in arguments.items():
        if value is NO_FLAGS or value == defaults.get(name):
            continue
        if is_dataclass(value) and not isinstance(value, type):
            own = {field.name: field.default for field in fields(value)}
            yield from _given(
                {name: getattr(value, name) for name in own}, own, get_type_hints(type(value), include_extras=True)
            )
        else:
            yield name, value, getattr(hints.get(name), "__metadata__", ())


def misplaced_model(bound: BoundArguments) -> str | None:
    """The message for a command that failed because a model was given as a text, or both were swapped; else None."""
    model_names = (*_MODELS, "texts") if bound.arguments.get("text") else _MODELS  # then compare takes models
    given = list(_paths(bound))
    no_model = next((value for name, value in given if name in model_names and not is_model(value)), None)
    text_names = set(_TEXTS).difference(model_names)
    misplaced = next(((name, value) for name, value in given if name in text_names and is_model(value)), None)
    if misplaced is None:
        return None
    name, model = misplaced
    if no_model is not None:
        return _SWAPPED.format(no_model, model)
    return None if name in ("prompt", "sentence") else f"{model} is a model, where a text is expected."


def in_options(message: str, verb: App) -> str:
    """Translates a message of the library, which names settings as in Python, to the options of a verb.

    top_p is 2              --top-p is 2
    use markers='skip'      use --markers skip
    leave mixed=True out    leave --mixed out
    with Reading(field=...) with --field
    """
    names = {name.removeprefix("--").replace("-", "_"): name for name in _options(verb)}
    names |= {setting: name for setting, name in _RENAMED.items() if name in names.values()} | FIELD_FLAGS
    names = {setting: name for setting, name in _RENAMED_IN_ERRORS.items() if name in names.values()} | names

    def option_of(match: re.Match[str]) -> str:
        setting, value = match.groups()
        name = names.get(setting) or _OF_OTHER_VERBS.get(setting)
        if name is None and not value.startswith("'"):
            return match[0]
        name = name or f"--{setting.replace('_', '-')}"  # of another verb
        if value == "False":
            return f"--no-{name.removeprefix('--')}"
        return name if value in ("True", "...") else f"{name} {value.strip(chr(39))}"

    message = _SETTING.sub(option_of, _READING.sub(r"\1", message))
    message = _SNAKE.sub(lambda match: names.get(match[0], match[0]), message)
    for words in (" is ", " are both given"):  # how most messages about settings begin
        first, found, rest = message.partition(words)
        model, colon, settings = first.rpartition(": ") if found else (message, "", "")
        shown = " and ".join(names.get(setting, setting) for setting in settings.split(" and "))
        message = f"{model}{colon}{shown}{found}{rest}"
    return message


def with_flags(note: str) -> str:
    """A note of the library, whose settings with a value are shown as options: memory='stream' as --memory stream."""

    def option_of(match: re.Match[str]) -> str:
        setting, value = match.groups()
        name = (_RENAMED | FIELD_FLAGS).get(setting, f"--{setting.replace('_', '-')}")
        return name if value in ("True", "...") else f"{name} {value.strip(chr(39))}"

    return _SETTING.sub(option_of, _READING.sub(r"\1", note))


# Settings with a value, and settings of several words; not part of a path, a quotation or an option.
_SETTING = re.compile(r"(?<![\w./'\"-])([a-z]\w*)=('[^']*'|True|False|\.\.\.|[\d.]*\d)")
_READING = re.compile(r"\bReading\(([^()]*)\)")
_SNAKE = re.compile(r"(?<![\w./'\"-])[a-z]+(?:_[a-z]+)+(?![\w/'\"=-]|\.\w)")


def _no_such_option(option: str, verb: App) -> str:
    name = option.split("=")[0]
    options = _options(verb)
    positional = {argument.name for argument in _arguments(verb) if not argument.name.startswith("-")}
    if name.strip("-").upper() in positional:
        shown = " ".join(argument.name for argument in _arguments(verb) if argument.name in positional - {"*"})
        return f"There is no option {name}; give {name.strip('-').upper()} by its position, as in {shown}."
    as_in_python = (_RENAMED | _RENAMED_IN_ERRORS).get(name.strip("-").replace("-", "_"))
    alike = f" Did you mean {as_in_python}?" if as_in_python in options else _alike(name, options)
    return f"There is no option {name}.{alike}"


def _alike(option: str, options: Iterable[str]) -> str:
    """A question naming the options that an unknown one may stand for; empty if there are none."""
    known, words = sorted(options), set(option.strip("-").split("-"))
    alike = get_close_matches(option, known, 1, _MISSPELT)
    alike = alike or [name for name in known if words <= set(name.strip("-").split("-"))]
    alike = alike or get_close_matches(option, known, 1, _ALIKE)
    return f" Did you mean {' or '.join(alike)}?" if alike else ""


_assembled: dict[int, ArgumentCollection] = {}  # by the id of a verb, of which none ends before the program


def _arguments(verb: App) -> ArgumentCollection:
    if id(verb) not in _assembled:  # 50 ms for a verb of a hundred options
        _assembled[id(verb)] = verb.assemble_argument_collection()
    return _assembled[id(verb)]


def names_of(verb: App) -> set[str]:
    """The options of a verb, with their negative forms and those of every verb, and its positional arguments."""
    every = (name for argument in _arguments(verb) for name in (argument.name, *argument.names, *argument.negatives))
    return {"--help", "--threads", *every}


def _options(verb: App) -> set[str]:
    """The options of a verb, without their negative forms."""
    return {name for argument in _arguments(verb) for name in argument.names if name.startswith("--")}


def _greedy_options(verb: App) -> Iterator[str]:
    """Options that take all the words after them."""
    for argument in _arguments(verb):
        if argument.parameter.consume_multiple:
            yield from (name for name in argument.names if name.startswith("-"))


def _unknown_options(arguments: list[str], verb: App) -> list[str]:
    negatives = {name for argument in _arguments(verb) for name in argument.negatives}
    options = {"--help", "--version"} | _options(verb) | negatives
    return [word for word in _before_dashes(arguments) if _OPTION.fullmatch(word) and word.split("=")[0] not in options]


def _before_dashes(arguments: list[str]) -> list[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _paths(bound: BoundArguments) -> Iterator[tuple[str, str]]:
    """The arguments that may be paths, with the names of their parameters."""
    for name, value in bound.arguments.items():
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, str | Path):
                yield name, str(path)


def is_model(name: str) -> bool:
    """Return whether a path has a model: a folder of ours, or what others write."""
    from chainrule.cli.shared import models
    from chainrule.errors import ModelFormatError
    from chainrule.kinds import openers

    path = Path(name)
    try:
        return models.is_model(path) or any(opener.recognises.get()(path) for opener in openers())
    except OSError:  # such as a text that is too long for a name, or a file that may not be read
        return False
    except ModelFormatError:  # it is damaged
        return True
