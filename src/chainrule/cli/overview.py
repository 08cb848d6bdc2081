"""The lists of verbs and of models, `chainrule --help` and `chainrule train --help`, without the parser of all other
commands, whose imports take most of a start. Both write the same page.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from chainrule import __version__
from chainrule.cli.verbs import DESCRIPTION, EVERYWHERE, FAMILIES, GROUPS, INSTALL, TRAIN, VERBS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NARROWEST = 60  # columns; below that, the parser's page also folds names
_HELP: tuple[list[str], ...] = ([], ["--help"], ["-h"])


def show() -> bool:
    """Prints what the command line asks for, where that is a list or the version; else returns False."""
    shown = overview(sys.argv[1:]) if sys.stdout is not None else None
    try:
        print(shown or "", end="", flush=True)
    except OSError:  # the parser's page meets it, too, and says so
        return False
    return shown is not None


def overview(arguments: list[str]) -> str | None:
    """The list or the version that the arguments ask for; None where they ask for more, or the terminal is unusual."""
    if arguments == ["--version"]:
        return f"{__version__}\n"
    named = arguments[:1] == ["train"]
    if arguments[named:] not in _HELP or not (sys.stdout.encoding or "").lower().startswith("utf"):
        return None
    on_terminal = sys.stdout.isatty()
    if any(name in os.environ for name in ("FORCE_COLOR", "TTY_COMPATIBLE")) or (on_terminal and os.name == "nt"):
        return None
    terminal = os.environ.get("TERM", "")
    width = _width() if terminal not in ("dumb", "unknown") else 80
    if width < _NARROWEST:
        return None
    is_coloured = on_terminal and terminal not in ("dumb", "unknown") and not os.environ.get("NO_COLOR")
    return page("train" if named else "", width, is_coloured=is_coloured)


def _width() -> int:
    """Columns of the terminal, 80 where there is none."""
    named = os.environ.get("COLUMNS", "")
    if named.isdecimal() and int(named) > 0:
        return int(named)
    for stream in (0, 1, 2):
        try:
            return os.get_terminal_size(stream).columns or 80
        except OSError:
            continue
    return 80


def page(command: str, width: int, *, is_coloured: bool = False) -> str:
    """The list of verbs, or of models where the command is `train`."""
    usage = " ".join(filter(None, ("chainrule", command, "COMMAND")))
    lines = [f"\033[1mUsage: {usage}\033[0m" if is_coloured else f"Usage: {usage}", ""]
    if command:
        lines += [line for paragraph in TRAIN.split("\n\n") for line in (*_folded(paragraph, width), "")]
        lines += _panel("Models", {name: verb.help for name, verb in FAMILIES.items()}, width, is_coloured)
    else:
        lines += [*_folded(DESCRIPTION, width), ""]
        summaries = {"train": TRAIN.split("\n\n")[0]} | {name: verb.help for name, verb in VERBS.items()}
        for title, names in GROUPS.items():
            lines += _panel(title, {name: summaries[name] for name in names}, width, is_coloured)
        options = {
            "--help (-h)": "Display this message and exit.",
            "--install-completion": INSTALL[1],
            "--version": "Display application version.",
        }
        lines += _panel("Options", options, width, is_coloured)
    return "\n".join([*lines, "", *_folded(EVERYWHERE, width), ""])


def _panel(title: str, rows: Mapping[str, str], width: int, is_coloured: bool) -> Iterable[str]:
    """A box with a name and what it does in each row."""
    longest = max(map(len, rows))
    begin, end = ("\033[36m", "\033[0m") if is_coloured else ("", "")
    yield f"╭─ {title} {'─' * (width - len(title) - 5)}╮"
    for name, summary in rows.items():
        for number, line in enumerate(_folded(summary, width - longest - 6)):
            shown = "" if number else name
            yield f"│ {begin}{shown:{longest}}{end}  {line:{width - longest - 6}} │"
    yield f"╰{'─' * (width - 2)}╯"


def _folded(text: str, width: int) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
