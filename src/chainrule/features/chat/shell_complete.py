"""The verb complete: completes as you type, at a prompt or line by line.

At a terminal, prompt_toolkit shows a menu below the cursor. Since this module imports it, no other verb may import
this module: it would wait.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from cyclopts import CycloptsError, Parameter
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer as Menu
from prompt_toolkit.completion import Completion as MenuEntry

from chainrule.base.options import Options, changed
from chainrule.base.tables import printable
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import (
    NO_FLAGS,
    Flags,
    Json,
    ModelMarkerRule,
    ModelTokenizerName,
    WholeNumber,
    given_settings,
)
from chainrule.cli.shared.screen import finite, print_json, progress_bar
from chainrule.cli.shared.server_options import ModelOrName, ServerOptions
from chainrule.decoding.config import Limits
from chainrule.errors import ServerError, TextError
from chainrule.kinds import rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    from chainrule.decoding.completion import Completing, Completion, LastWordCorrector
    from chainrule.models.model import Model
    from chainrule.text.tokenization.vocabulary import Markers


@dataclass(frozen=True, kw_only=True)
class CompleteOptions(Options):
    """How texts are completed as they are typed."""

    regex: str | None = changed(Limits, "regex", help="complete to what this regular expression matches, line by line")


@Parameter(name="*")
@dataclass(frozen=True)
class NoTyping:
    """In the place of the options that the feature for corrections brings."""

    correct: ClassVar[bool | None] = None

    def check(self) -> None:
        """There is nothing to check."""

    def wants_corrector(self, model: Model) -> bool:
        """Whether to correct: never."""
        return False


_typing = rows("complete").get("typing")
_Typing: Any = NoTyping if _typing is None else _typing.get()


def complete(
    model: ModelOrName = None,
    /,
    *,
    server: ServerOptions = ServerOptions(),  # noqa: B008
    number: Annotated[int, WholeNumber, Parameter(name=("--number", "-n"), help="How many completions to show.")] = 5,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    typing: _Typing = _Typing(),  # noqa: B008
    form: Flags[CompleteOptions] = NO_FLAGS,
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
        regex = CompleteOptions(**given_settings(form)).regex
        completer, corrector = _open(cast("Path", model), number, tokenizer, markers, typing, regex)
    elif tokenizer is None and markers is None and typing == _Typing() and not given_settings(form):
        completer, corrector = client, None
    else:
        raise CycloptsError(msg="With --url, the server tokenizes and completes; leave out the options of the model.")
    if sys.stdin.isatty() and sys.stdout.isatty() and not json:
        talk(completer, number, corrector, is_slow=client is not None)
    else:
        _answer(completer, number, _lines(), corrector, json=json)


def _open(
    path: Path,
    number: int,
    tokenizer: str | None,
    markers: Markers | None,
    typing: Any,
    regex: str | None,
) -> tuple[Completing, LastWordCorrector | None]:
    """A model on this machine. Raises ChainruleError."""
    from chainrule.decoding.completion import InForm
    from chainrule.decoding.config import Limits
    from chainrule.decoding.form import form_of
    from chainrule.models.language_models import CausalModel

    with progress_bar() as progress:
        model = open_model(path, tokenizer, markers, progress, kind=CausalModel)
        progress("indexing the words", 0, None)
        wanted = typing.wants_corrector(model) and (regex is None or typing.correct is True)
        corrector = typing.corrector(model) if wanted else None
        model.complete("teh ", number, corrector=corrector)  # compiles, so that the first key does not wait
        form = None if regex is None else form_of(Limits(regex=regex), model.tokenizer, "")
    return InForm(model.completer, form), corrector


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


class Suggestions(Menu):
    """The menu below the cursor. status: how long the last answer took, or why there was none."""

    def __init__(self, completer: Completing, number: int, corrector: LastWordCorrector | None = None) -> None:
        self.completer, self.number, self.corrector = completer, number, corrector
        self.status = ""

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[MenuEntry]:
        began = time.perf_counter()
        try:
            completions = self.completer.complete(document.text_before_cursor, self.number, corrector=self.corrector)
        except TextError:
            self.status = "<s>, </s> and <unk> are markers of the model, not words"
            return
        except ServerError as error:
            self.status = str(error)
            return
        self.status = f"{1000 * (time.perf_counter() - began):.1f} ms"
        for completion in completions:  # insert only the part that is not typed yet
            share = f"{100 * math.exp(completion.log_prob):.1f}%"
            meta = f"correction {share}" if completion.replaces else share
            display = printable(completion.text)
            yield MenuEntry(completion.added, -completion.replaces, display=display, display_meta=meta)


def talk(
    completer: Completing, number: int, corrector: LastWordCorrector | None = None, *, is_slow: bool = False
) -> None:
    """Reads lines from a terminal and completes them, until end of input. corrector: of the word just typed.

    is_slow: whether the user can type on while a completion is computed.
    """
    menu = Suggestions(completer, number, corrector)
    session: PromptSession[str] = PromptSession(
        completer=menu,
        complete_while_typing=True,
        complete_in_thread=is_slow,
        bottom_toolbar=lambda: f" Tab: choose   Enter: new line   Ctrl-D: end   {printable(menu.status)}",
        reserve_space_for_menu=number + 2,
    )
    while True:
        try:
            session.prompt("> ")
        except EOFError:
            return
