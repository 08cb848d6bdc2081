"""chainrule complete MODEL: completes text at a prompt as you type, or line by line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import Json, ModelMarkerRule, ModelPath, ModelTokenizerName, WholeNumber
from chainrule.cli.models import open_model
from chainrule.cli.screen import finite, print_json, progress_bar
from chainrule.errors import TextError
from chainrule.report.tables import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chainrule.api.model import Model
    from chainrule.applications.completion import Completer, Completion
    from chainrule.applications.correction.corrector import Corrector


def complete(
    model: ModelPath,
    /,
    *,
    number: Annotated[int, WholeNumber, Parameter(name=("--number", "-n"), help="How many completions to show.")] = 5,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    correct: Annotated[
        bool | None,
        Parameter(
            negative="--no-correct",
            help="Also suggest a correction of the word just typed; by default if the model's tokens are words.",
        ),
    ] = None,
    channel: Annotated[
        str | None, Parameter(help="Errors to correct: keyboard (the default), ocr, or a file of train channel.")
    ] = None,
    lexicon: Annotated[
        Path | None, Parameter(help="The correct words, one on each line, perhaps with counts; by default the model's.")
    ] = None,
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

    if correct is False and (channel is not None or lexicon is not None):
        raise CycloptsError(msg="--channel and --lexicon are for corrections; leave out --no-correct.")
    with progress_bar() as progress:
        loaded = open_model(model, tokenizer, markers, progress, kind=CausalModel)
        wanted = correct or channel is not None or lexicon is not None
        progress("indexing the words", 0, None)
        corrector = _corrector(loaded, channel, lexicon, wanted=wanted) if correct is not False else None
        completer = loaded.completer
        completer.complete("teh ", number, corrector=corrector)  # compiles, so that the first key does not wait
    if sys.stdin.isatty() and sys.stdout.isatty() and not json:
        from chainrule.cli.completion_menu import talk

        talk(completer, number, corrector)
    else:
        _answer(completer, number, _lines(), corrector, json=json)


def _corrector(model: Model, channel: str | None, lexicon: Path | None, *, wanted: bool) -> Corrector | None:
    """What corrects the word just typed; None if the model's tokens are no words and nobody asked."""
    from chainrule.api.correct import corrector, has_words

    if not wanted and not has_words(model):
        return None
    errors: Any = "keyboard" if channel is None else channel if channel in ("keyboard", "ocr") else Path(channel)
    return corrector(model, errors, lexicon=lexicon)


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
