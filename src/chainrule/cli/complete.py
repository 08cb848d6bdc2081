"""chainrule complete MODEL: completes text at a prompt as you type, or line by line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chainrule.cli.arguments import Json, ModelMarkerRule, ModelPath, ModelTokenizerName, WholeNumber
from chainrule.cli.models import open_model
from chainrule.cli.screen import finite, print_json, progress_bar
from chainrule.cli.typing_options import TypingOptions
from chainrule.errors import TextError
from chainrule.report.tables import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chainrule.applications.completion import Completer, Completion
    from chainrule.applications.correction.corrector import Corrector


def complete(
    model: ModelPath,
    /,
    *,
    number: Annotated[int, WholeNumber, Parameter(name=("--number", "-n"), help="How many completions to show.")] = 5,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    typing: TypingOptions = TypingOptions(),  # noqa: B008
    json: Json = False,
) -> None:
    """Complete text as you type: the word at the cursor, or the next words after a space.

        $ chainrule complete lm/

    At a terminal, Tab and the arrows choose, Enter starts a new line, Ctrl-D
    quits. Otherwise, prints a line of completions for each line of standard
    input, likeliest first, with tabs between them. The word just typed may be
    corrected: that suggestion comes last, as teh -> the.
    """
    from chainrule.api.causal_model import CausalModel

    typing.check()
    with progress_bar() as progress:
        loaded = open_model(model, tokenizer, markers, progress, kind=CausalModel)
        progress("indexing the words", 0, None)
        corrector = typing.corrector(loaded) if typing.wants_corrector(loaded) else None
        completer = loaded.completer
        completer.complete("teh ", number, corrector=corrector)  # compiles, so that the first key does not wait
    if sys.stdin.isatty() and sys.stdout.isatty() and not json:
        from chainrule.cli.completion_menu import talk

        talk(completer, number, corrector)
    else:
        _answer(completer, number, _lines(), corrector, json=json)


def _lines() -> Iterator[str]:
    try:
        for line in sys.stdin:
            yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise TextError(f"standard input: not UTF-8 ({error.reason}); convert it first") from error


def _answer(
    completer: Completer, number: int, lines: Iterable[str], corrector: Corrector | None, *, json: bool
) -> None:
    for line in lines:
        completions = completer.complete(line, number, corrector=corrector)
        if json:
            print_json(
                [{**completion._asdict(), "log_prob": finite(completion.log_prob)} for completion in completions]
            )
        else:
            print("\t".join(printable(_shown(completion, line)) for completion in completions))
        sys.stdout.flush()


def _shown(completion: Completion, line: str) -> str:
    replaced = line[-completion.replaces :].rstrip() if completion.replaces else ""
    return f"{replaced} -> {completion.text}" if replaced else completion.text
