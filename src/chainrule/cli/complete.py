"""chainrule complete MODEL: completion while typing, at a prompt or line by line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chainrule.cli.arguments import Json, ModelMarkerRule, ModelPath, ModelTokenizerName, WholeNumber
from chainrule.cli.models import opened
from chainrule.cli.screen import finite, print_json, progress
from chainrule.errors import TextError
from chainrule.report.tables import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chainrule.applications.completion import Completer


def complete(
    model: ModelPath,
    /,
    *,
    number: Annotated[int, WholeNumber, Parameter(name=("--number", "-n"), help="How many completions to show.")] = 5,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    json: Json = False,
) -> None:
    """Complete text while you type it: the word at the cursor, or the next ones after a space.

    At a terminal, Tab and the arrows choose, Enter begins a new line, Ctrl-D ends.
    Otherwise each line of standard input gets a line of completions, tabs between them, the likeliest first.
    """
    with progress() as told:
        completer = opened(model, tokenizer, markers, told).completer
        completer.complete("", number)  # so that the first key does not wait for compiled code
    if sys.stdin.isatty() and sys.stdout.isatty() and not json:
        from chainrule.cli.completion_menu import talk

        talk(completer, number)
    else:
        _answer(completer, number, _lines(), json=json)


def _lines() -> Iterator[str]:
    try:
        for line in sys.stdin:
            yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise TextError(f"standard input: not UTF-8 ({error.reason}); convert it first") from error


def _answer(completer: Completer, number: int, lines: Iterable[str], *, json: bool) -> None:
    for line in lines:
        found = completer.complete(line, number)
        if json:
            print_json([{"text": each.text, "added": each.added, "log_prob": finite(each.log_prob)} for each in found])
        else:
            print("\t".join(printable(each.text) for each in found))
        sys.stdout.flush()
