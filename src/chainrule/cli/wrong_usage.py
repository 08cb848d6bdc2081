"""What is wrong with a command, in one line and in the words of the command line: its options and its arguments."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import CycloptsError, MissingArgumentError, UnknownOptionError, UnusedCliTokensError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from inspect import BoundArguments

    from cyclopts import App, ArgumentCollection

_OPTION = re.compile("--[a-z][a-z-]*(=.*)?")
_NO_FILE = re.compile("There is no option (--[^ ]+) ")  # as file_or_dash says it
_MISSPELT, _ALIKE = 0.9, 0.75  # how like another option one is that is surely it, or perhaps
# Settings of the library whose options have names of their own.
_RENAMED = {"n": "--number", "allowed": "--allow", "banned": "--ban", "validation": "--valid"}
_MODELS = ("model", "models")  # parameters that take models
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
    """What is wrong with the arguments of a verb."""
    if isinstance(error, MissingArgumentError) and error.argument is not None and error.keyword is None:
        greedy = [name for name in _greedy_options(verb) if name in arguments]
        return f"{error.argument.name} is missing{f': put it before {greedy[0]}' if greedy else ''}."
    if isinstance(error, UnknownOptionError):
        return _no_such_option(error.token.keyword or error.token.value, verb)
    if isinstance(error, UnusedCliTokensError):
        unknown = _unknown_options(arguments, verb)
        if unknown:
            return _no_such_option(unknown[0], verb)
        is_prompted = {"PROMPT", "SENTENCE"} & {argument.name for argument in _arguments(verb)}
        advice = "; put quotes around a text of several words" if is_prompted else ""
        return f"There is no use for {' '.join(error.unused_tokens or [])}{advice}."
    message = " ".join(str(error).split())
    misspelt = _NO_FILE.match(message)
    return message if misspelt is None else message + _alike(misspelt[1], _options(verb))


def check_no_option_is_text(bound: BoundArguments, verb: App, arguments: list[str]) -> None:
    """Raises CycloptsError where what was taken for a text is rather a misspelt option."""
    texts = {value for value in bound.arguments.values() if isinstance(value, str) and _OPTION.fullmatch(value)}
    misspelt = next((word for word in _before_dashes(arguments) if word in texts), None)
    if misspelt is not None and misspelt in _unknown_options(arguments, verb):
        raise CycloptsError(msg=f"{_no_such_option(misspelt, verb)} A text that begins like an option stands after --.")


def misplaced_model(bound: BoundArguments) -> str | None:
    """What to say of a command that failed, where a model stands in the place of a text; perhaps they are swapped."""
    of_models = (*_MODELS, "texts") if bound.arguments.get("text") else _MODELS  # compare has models, then
    places = list(_places(bound))
    no_model = next((value for name, value in places if name in of_models and not _is_model(value)), None)
    found = next(
        ((name, value) for name, value in places if name in _TEXTS and name not in of_models and _is_model(value)), None
    )
    if found is None:
        return None
    name, model = found
    if no_model is not None:
        return f"{no_model} is no model, and {model} is one: are they swapped?"
    return None if name in ("prompt", "sentence") else f"{model} is a model, and stands where a text is read."


def in_options(message: str, verb: App) -> str:
    """A message of the library, which names its settings as Python writes them, with the options of a verb.

    top_p is 2              --top-p is 2
    say markers='skip'      say --markers skip
    leave mixed=True out    leave --mixed out
    """
    names = {name.removeprefix("--").replace("-", "_"): name for name in _options(verb)}
    names |= {setting: name for setting, name in _RENAMED.items() if name in names.values()}

    def said(match: re.Match[str]) -> str:
        setting, value = match.groups()
        name = names.get(setting)
        if name is None:
            return match[0]
        if value == "False":
            return f"--no-{name.removeprefix('--')}"
        return name if value in ("True", "...") else f"{name} {value.strip(chr(39))}"

    message = _SAID.sub(said, message)
    message = _SNAKE.sub(lambda match: names.get(match[0], match[0]), message)
    first, verb_of_it, rest = message.partition(" is ")  # most begin so, where a setting is out of its range
    return f"{names.get(first, first)}{verb_of_it}{rest}"


def with_flags(note: str) -> str:
    """A note of the library, whose settings with a value are shown as options: memory='stream' as --memory stream."""
    return _SAID.sub(lambda match: f"--{match[1].replace('_', '-')} {match[2].strip(chr(39))}", note)


# Settings with a value, and those of several words: no part of a path, of a quotation or of an option.
_SAID = re.compile(r"(?<![\w./'\"-])([a-z]\w*)=('[^']*'|True|False|\.\.\.|[\d.]*\d)")
_SNAKE = re.compile(r"(?<![\w./'\"-])[a-z]+(?:_[a-z]+)+(?![\w/'\"=-]|\.\w)")


def _no_such_option(option: str, verb: App) -> str:
    name = option.split("=")[0]
    options = _options(verb)
    positional = {argument.name for argument in _arguments(verb) if not argument.name.startswith("-")}
    if name.strip("-").upper() in positional:
        shown = " ".join(argument.name for argument in _arguments(verb) if argument.name in positional - {"*"})
        return f"There is no option {name}; give {name.strip('-').upper()} by its place, as in {shown}."
    return f"There is no option {name}.{_alike(name, options)}"


def _alike(option: str, options: Iterable[str]) -> str:
    """Which options one that is none may be meant for, as a question, where there are some."""
    known, words = sorted(options), set(option.strip("-").split("-"))
    alike = get_close_matches(option, known, 1, _MISSPELT)
    alike = alike or [each for each in known if words <= set(each.strip("-").split("-"))]
    alike = alike or get_close_matches(option, known, 1, _ALIKE)
    return f" Did you mean {' or '.join(alike)}?" if alike else ""


def _arguments(verb: App) -> ArgumentCollection:
    return verb.assemble_argument_collection()


def _options(verb: App) -> set[str]:
    """Without those that say no."""
    return {name for argument in _arguments(verb) for name in argument.names if name.startswith("--")}


def _greedy_options(verb: App) -> Iterator[str]:
    """Those that take all the words that follow them."""
    for argument in _arguments(verb):
        if argument.parameter.consume_multiple:
            yield from (name for name in argument.names if name.startswith("-"))


def _unknown_options(arguments: list[str], verb: App) -> list[str]:
    negatives = {name for argument in _arguments(verb) for name in argument.negatives}
    options = {"--help", "--version"} | _options(verb) | negatives
    return [word for word in _before_dashes(arguments) if _OPTION.fullmatch(word) and word.split("=")[0] not in options]


def _before_dashes(arguments: list[str]) -> list[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _places(bound: BoundArguments) -> Iterator[tuple[str, str]]:
    """What was given that may be a path, with the names of its parameter."""
    for name, value in bound.arguments.items():
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, str | Path):
                yield name, str(each)


def _is_model(name: str) -> bool:
    from chainrule.cli.models import is_arpa, is_model
    from chainrule.ngram.kenlm.header import is_binary

    path = Path(name)
    try:
        return is_model(path) or (path.is_file() and (is_arpa(path) or is_binary(path)))
    except OSError:  # such as a text that is too long for a name, or a file that may not be read
        return False
