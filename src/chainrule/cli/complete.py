"""chainrule complete MODEL: completes text at a prompt as you type, or line by line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from cyclopts import CycloptsError, Parameter

from chainrule.base.tables import printable
from chainrule.cli.shared.arguments import Json, ModelMarkerRule, ModelTokenizerName, WholeNumber
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.screen import finite, print_json, progress_bar
from chainrule.cli.shared.server_options import ModelOrName, ServerOptions
from chainrule.cli.shared.typing_options import TypingOptions
from chainrule.errors import TextError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chainrule.applications.completion import Completing, Completion, LastWordCorrector
    from chainrule.text.tokenization.vocabulary import Markers


def complete(
    model: ModelOrName = None,
    /,
    *,
    server: ServerOptions = ServerOptions(),  # noqa: B008
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
    corrected: that suggestion comes last, as teh -> the. --url asks a chainrule
    server.
    """
    typing.check()
    client = server.client(model)
    if client is None:
        completer, corrector = _open(cast("Path", model), number, tokenizer, markers, typing)
    elif tokenizer is None and markers is None and typing == TypingOptions():
        completer, corrector = client, None
    else:
        raise CycloptsError(msg="With --url, the server tokenizes and completes; leave out the options of the model.")
    if sys.stdin.isatty() and sys.stdout.isatty() and not json:
        from chainrule.cli.terminal.completion_menu import talk

        talk(completer, number, corrector, is_slow=client is not None)
    else:
        _answer(completer, number, _lines(), corrector, json=json)


def _open(
    path: Path, number: int, tokenizer: str | None, markers: Markers | None, typing: TypingOptions
) -> tuple[Completing, LastWordCorrector | None]:
    """A model on this machine. Raises ChainruleError."""
    from chainrule.api.models.language_models import CausalModel

    with progress_bar() as progress:
        model = open_model(path, tokenizer, markers, progress, kind=CausalModel)
        progress("indexing the words", 0, None)
        corrector = typing.corrector(model) if typing.wants_corrector(model) else None
        model.complete("teh ", number, corrector=corrector)  # compiles, so that the first key does not wait
    return model.completer, corrector


def _lines() -> Iterator[str]:
    try:
        for line in sys.stdin:
            yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise TextError(f"standard input: not UTF-8 ({error.reason}); convert it first") from error


def _answer(
    completer: Completing, number: int, lines: Iterable[str], corrector: LastWordCorrector | None, *, json: bool
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
