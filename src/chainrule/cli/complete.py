"""chainrule complete MODEL: completes text at a prompt as you type, or line by line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chainrule.cli.arguments import Json, ModelMarkerRule, ModelPath, ModelTokenizerName, WholeNumber
from chainrule.cli.models import open_model
from chainrule.cli.screen import finite, print_json, progress_bar
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
    """Complete text as you type: the word at the cursor, or the next words after a space.

        $ chainrule complete lm/

    At a terminal, Tab and the arrows choose, Enter starts a new line, Ctrl-D
    quits. Otherwise, prints a line of completions for each line of standard
    input, likeliest first, with tabs between them.
    """
    from chainrule.api.causal_model import CausalModel

    with progress_bar() as progress:
        completer = open_model(model, tokenizer, markers, progress, kind=CausalModel).completer
        completer.complete("", number)  # compiles, so that the first key does not wait
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
        completions = completer.complete(line, number)
        if json:
            print_json(
                [
                    {"text": completion.text, "added": completion.added, "log_prob": finite(completion.log_prob)}
                    for completion in completions
                ]
            )
        else:
            print("\t".join(printable(completion.text) for completion in completions))
        sys.stdout.flush()
