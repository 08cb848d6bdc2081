"""The prompt of `chainrule complete` at a terminal: prompt_toolkit's, with a menu below the cursor.

A separate file, so that no other verb waits for that library.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer as Menu
from prompt_toolkit.completion import Completion as MenuEntry

from chainrule.base.tables import printable
from chainrule.errors import ServerError, TextError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    from chainrule.applications.completion import Completing, LastWordCorrector


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
        for completion in completions:  # insert only what is not typed yet
            share = f"{100 * math.exp(completion.log_prob):.1f}%"
            meta = f"correction {share}" if completion.replaces else share
            display = printable(completion.text)
            yield MenuEntry(completion.added, -completion.replaces, display=display, display_meta=meta)


def talk(
    completer: Completing, number: int, corrector: LastWordCorrector | None = None, *, is_slow: bool = False
) -> None:
    """Reads lines from a terminal and completes them, until end of input. corrector: of the word just typed.

    is_slow: whether typing goes on while a completion is computed.
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
