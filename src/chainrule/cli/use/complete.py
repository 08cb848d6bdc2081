"""The verbs complete (as you type, at a prompt or line by line) and lsp (in editors, by the Language Server Protocol).

At a terminal, prompt_toolkit shows a menu below the cursor. Since this module imports it, no other verb may import
this module: it would wait.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import CycloptsError, Parameter
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer as Menu
from prompt_toolkit.completion import Completion as MenuEntry

from chainrule.base.tables import printable
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import (
    NO_FLAGS,
    Flags,
    Json,
    ModelMarkerRule,
    ModelPath,
    ModelTokenizerName,
    WholeNumber,
    given_settings,
)
from chainrule.cli.shared.screen import finite, note, print_json, progress_bar
from chainrule.cli.shared.server_options import ModelOrName, ServerOptions
from chainrule.decoding.options import CHANNELS, CompleteOptions
from chainrule.errors import ServerError, SettingError, TextError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document
    from pygls.lsp.server import LanguageServer

    from chainrule.decoding.completion import Completing, Completion, LastWordCorrector
    from chainrule.features.correct.corrector.corrector import Corrector
    from chainrule.models.model import Model
    from chainrule.text.tokenization.vocabulary import Markers


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TypingOptions:
    """Options for correcting text as it is typed."""

    correct: Annotated[
        bool | None,
        Parameter(
            negative="--no-correct",
            help="Also suggest a correction of the word just typed; by default if the model's tokens are words.",
        ),
    ] = None
    channel: Annotated[
        str | None,
        Parameter(help="Errors to correct: english (the default), keyboard, ocr, or a file of train channel."),
    ] = None
    lexicon: Annotated[
        Path | None, Parameter(help="The correct words, one on each line, perhaps with counts; by default the model's.")
    ] = None

    def check(self) -> None:
        """Raises CycloptsError where options contradict each other."""
        if self.correct is False and (self.channel is not None or self.lexicon is not None):
            raise CycloptsError(msg="--channel and --lexicon are for corrections; leave out --no-correct.")

    def check_files(self) -> None:
        """Raises SettingError where a file that corrections need is not there, before a model is opened."""
        is_named = self.channel in (None, *CHANNELS)
        for name, path in (("--channel", None if is_named else self.channel), ("--lexicon", self.lexicon)):
            if path is not None and not Path(path).is_file():
                raise SettingError(f"{name} {path}: there is no such file")

    def wants_corrector(self, model: Model) -> bool:
        """Whether to correct: not if the model's tokens are no words and nobody asked."""
        from chainrule.features.correct.correct import has_words

        if self.correct is not None:
            return self.correct
        return self.channel is not None or self.lexicon is not None or has_words(model)

    def corrector(self, model: Model, keep: Sequence[str] = ()) -> Corrector:
        """keep: words that are never changed. Raises SettingError, TextError, ModelFormatError."""
        from chainrule.features.correct.correct import corrector

        channel = "english" if self.channel is None else self.channel
        errors: Any = channel if channel in CHANNELS else Path(channel)
        return corrector(model, channel=errors, lexicon=self.lexicon, keep=tuple(keep))


def complete(
    model: ModelOrName = None,
    /,
    *,
    server: ServerOptions = ServerOptions(),  # noqa: B008
    number: Annotated[int, WholeNumber, Parameter(name=("--number", "-n"), help="How many completions to show.")] = 5,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    typing: TypingOptions = TypingOptions(),
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
    elif tokenizer is None and markers is None and typing == TypingOptions() and not given_settings(form):
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
    typing: TypingOptions,
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


_DELAY_OF_NETWORKS = 150  # milliseconds


def lsp(
    model: ModelPath,
    /,
    *,
    number: Annotated[int, WholeNumber, Parameter(name=("--number", "-n"), help="How many completions to offer.")] = 5,
    delay: Annotated[
        int | None,
        WholeNumber,
        Parameter(
            help="Complete once no key has been pressed for this many milliseconds; by default 0, for networks 150."
        ),
    ] = None,
    typing: TypingOptions = TypingOptions(),
    keep: Annotated[
        Path | None,
        Parameter(help="A file of words that are never changed, one on each line; editors can add to it."),
    ] = None,
    tokenizer: ModelTokenizerName = None,
) -> None:
    """Complete and correct in editors, as a language server.

        $ chainrule lsp lm/

    Editors start it, and talk with it by standard input and output: the guide,
    docs/editors.md, has the lines for Neovim, Helix, Emacs and VS Code. It
    completes words and goes on with the next ones; corrections are remarks in
    the text, with quick fixes. It reads what the editor has open, and no file.
    Needs pygls: pip install 'chainrule[lsp]'.
    """
    from chainrule.models.families.table import FAMILIES
    from chainrule.models.language_models import CausalModel

    try:
        from chainrule.features.serve.editors.language_server import language_server
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise SettingError("the language server needs the package pygls: pip install 'chainrule[lsp]'") from None

    typing.check()
    typing.check_files()
    if number < 1:
        raise CycloptsError(msg=f"--number is {number}; give 1 or more.")
    if delay is not None and delay < 0:
        raise CycloptsError(msg=f"--delay is {delay}; give 0 or more milliseconds.")
    kept = _words_in(keep)
    with progress_bar() as progress:
        loaded = open_model(model, tokenizer, "skip", progress, kind=CausalModel)
    if delay is None:
        delay = _DELAY_OF_NETWORKS if FAMILIES[loaded.family].embeds else 0
    wanted = typing.wants_corrector(loaded)
    logging.getLogger("pygls").setLevel(logging.CRITICAL)  # it reports what editors cancel
    if sys.stdin.isatty():
        note("this is for editors, which start it themselves; Ctrl-D ends it")
    build_corrector = (lambda: typing.corrector(loaded, kept)) if wanted else None
    _run(language_server(loaded, number=number, delay=delay / 1000, build_corrector=build_corrector, kept=keep))


def _run(server: LanguageServer) -> None:
    """Talks with the editor until it says goodbye."""
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")  # which the server closes at the end
    with redirect_stdout(sys.stderr):  # standard output is the editor's
        server.start_io(sys.stdin.buffer, output)


def _words_in(file: Path | None) -> list[str]:
    """The words of a file; none if the file does not exist yet. Raises TextError."""
    from chainrule.text.corpus.plain_text import lines_of

    if file is None or not file.exists():
        return []
    return [word for line in lines_of(file) for word in line.split()]


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
