"""Answers a command with names of other programs: what is wrong with it, and the command that does it here."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, NamedTuple

from chainrule.cli.verbs import FAMILIES, VERBS
from chainrule.features.other_names.command_names import COMMANDS, MODELS, NOTES
from chainrule.features.other_names.option_names import OPTIONS, SHORT, VALUES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    OptionsOf = Callable[[Sequence[str]], set[str]]  # of a verb, with its positional arguments

_TRUTHS = ("true", "1", "yes")  # values that others give to switches
_EXAMPLE = "corpus.txt -o {}/"  # for a model of `train`


class Answer(NamedTuple):
    """What is wrong with a command, and the command that does it here. word: the first name of another program."""

    word: str
    problem: str
    command: str

    def __str__(self) -> str:
        note = f": {NOTES[own]}" if (own := _key(self.word)) in NOTES else ""
        return f"{self.problem}{note}. Try: {self.command}"


def answer(arguments: Sequence[str], options_of: OptionsOf) -> Answer | None:
    """Return the answer to a command that has a name of another program; None if it has none that is known."""
    words = list(arguments)
    if words[:1] == ["train"] and len(words) > 1 and words[1] not in FAMILIES:
        return _of_model(words[1], words[2:], options_of)
    if words[:1] != ["train"] and words and words[0] not in VERBS:
        return _of_command(words[0], words[1:], options_of)
    size = 1 + (words[:1] == ["train"])
    return _Rewritten(words[:size], options_of).answer(words[size:])


def called_here(option: str, value: str) -> str | None:
    """Return what a value of an option is called here, where it is one of another program's; else None."""
    own = VALUES.get(option, {}).get(_key(value))
    return None if own == value else own


def _key(word: str) -> str:
    """A word as the tables have it."""
    return word if word[:1] == "-" and len(word) == 2 else word.lower().replace("_", "-").removesuffix(".py")


def _of_model(word: str, rest: list[str], options_of: OptionsOf) -> Answer | None:
    """The answer to `train WORD`."""
    own = MODELS.get(_key(word))
    if own is None:
        return None
    name, *added = own.split()
    rewritten = _Rewritten(["train", name], options_of)
    return rewritten.answer(rest or _EXAMPLE.format(name).split(), added, word, f"There is no model {word}")


def _of_command(word: str, rest: list[str], options_of: OptionsOf) -> Answer | None:
    """The answer to a verb that is none. Arguments are kept where the verb here takes all of them."""
    key, problem = _key(word), f"There is no verb {word}"
    if key in FAMILIES and "-lm" not in rest:
        own = f"train {key} | {_EXAMPLE.format(key)}"
    elif key in COMMANDS:
        own = COMMANDS[key]
    elif key in FAMILIES:  # SRILM's ngram
        own = "evaluate | lm.arpa heldout.txt"
    elif key in MODELS:
        found = _of_model(word, rest, options_of)
        return found and found._replace(problem=problem)
    else:
        return None
    command, bar, example = own.partition(" | ")
    words = shlex.split(command)
    verb, added = words[: 1 + (words[0] == "train")], words[1 + (words[0] == "train") :]
    if not bar:
        return Answer(word, problem, f"chainrule {command}")
    rewritten = _Rewritten(verb, options_of)
    if rest and (found := rewritten.answer(rest, added, word, problem)) and not rewritten.unknown:
        return found
    return Answer(word, problem, " ".join(["chainrule", *verb, example, *added]))


class _Rewritten:
    """A command of ours, as it is written again. unknown: whether it has an option that the verb lacks."""

    def __init__(self, verb: list[str], options_of: OptionsOf) -> None:
        self.verb, self.options = verb, options_of(verb)
        self.models: list[str] = []
        self.texts: list[str] = []
        self.others: list[str] = []
        self.unknown = False
        self.word, self.problem = "", ""

    def answer(self, rest: list[str], added: Sequence[str] = (), word: str = "", problem: str = "") -> Answer | None:
        """Return the answer, if there was a name to replace. added: options that belong to `word`."""
        self.word, self.problem = word, problem
        named = {_key(one.partition("=")[0]) for one in rest}
        left = list(rest)
        while left:
            one = left.pop(0)
            if one == "--":
                self.others += [one, *left]
                break
            self._take(one, left, named)
        if not self.word:
            return None
        kept = [*self.others, *(() if set(added[::2]) & set(self.others) else added)]
        command = shlex.join(["chainrule", *self.verb, *self.models, *self.texts, *kept])
        return Answer(self.word, self.problem, command)

    def _take(self, one: str, left: list[str], named: set[str]) -> None:
        """Takes an argument, and the value after it if that belongs to it."""
        if not one.startswith("-") or one == "-" or one.lstrip("-")[:1].isdigit():
            (self.others if self.others else self.texts).append(one)
            return
        name, is_joined, value = one.partition("=")
        key = _key(name)
        if key in SHORT and SHORT[key][1] & named and SHORT[key][0] in self.options:
            self._replace(name, SHORT[key][0], value if is_joined else None, left, is_noted=False)
        elif name in self.options or (key.startswith("--") and key in self.options):
            self._keep(key if key in self.options else name, value if is_joined else None, left)
        elif (own := self._known(key)) is not None:
            self._replace(name, own, value if is_joined else None, left)
        else:
            self.unknown = True
            self.others.append(one)

    def _known(self, key: str) -> str | None:
        """What the verb has for an option of others, if anything."""
        for own in OPTIONS[key].split(" | ") if key in OPTIONS else ():
            first = own.split()[0].removesuffix("=") if own.strip() else ""
            is_place = first == "MODEL" and "MODEL" in self.options
            is_place |= first == "TEXT" and any(not name.startswith("-") for name in self.options - {"MODEL", "MODELS"})
            if is_place or not first or first in self.options:
                return own
        return None

    def _keep(self, name: str, value: str | None, left: list[str]) -> None:
        """Keeps an option of ours; its value may be one of others."""
        shown = left[0] if value is None and left else value
        own = None if shown is None else called_here(name, shown)
        if own is None:
            self.others += [name if value is None else f"{name}={value}"]
            return
        self._note(str(shown), f"{name} {shown}: there is no such choice")
        if value is None:
            left.pop(0)
        self.others += [name, own]

    def _replace(self, name: str, own: str, value: str | None, left: list[str], *, is_noted: bool = True) -> None:
        """Replaces an option of others by what the table has for it. is_noted: whether it is wrong here."""
        if is_noted:
            self._note(name, f"There is no option {name}")
        is_switch = not own or (" " in own and own[-1] not in " =")
        if value is None and left and not _is_option(left[0]) and (not is_switch or left[0].lower() in _TRUTHS):
            value = left.pop(0)
        if own in ("MODEL", "TEXT"):
            (self.models if own == "MODEL" else self.texts).append(value or own)
            return
        self.others += own.removesuffix("=").split()
        if value is None or is_switch or own.endswith("="):
            return
        last = self.others[-1]
        if last == "--below" and _is_number(value):
            value = f"{math.log2(float(value)):.4g}"
        self.others.append(called_here(last, value) or value)

    def _note(self, word: str, problem: str) -> None:
        if not self.word:
            self.word, self.problem = word, problem


def _is_option(word: str) -> bool:
    return word.startswith("-") and not word.lstrip("-")[:1].isdigit() and word != "-"


def _is_number(value: str) -> bool:
    try:
        return float(value) > 0
    except ValueError:
        return False
