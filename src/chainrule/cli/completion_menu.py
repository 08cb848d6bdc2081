"""The prompt of `chainrule complete` at a terminal: prompt_toolkit's, with a menu below the cursor.

A file of its own, so that no other verb waits for that library.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer as Menu
from prompt_toolkit.completion import Completion as Shown

from chainrule.errors import TextError
from chainrule.report.tables import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    from chainrule.applications.completion import Completer


class Suggestions(Menu):
    """The menu below the cursor. `told`: how long the last answer took, or why there was none."""

    def __init__(self, completer: Completer, number: int) -> None:
        self.completer, self.number = completer, number
        self.told = ""

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Shown]:
        began = time.perf_counter()
        try:
            found = self.completer.complete(document.text_before_cursor, self.number)
        except TextError:
            self.told = "<s>, </s> and <unk> are markers of the model, and no words"
            return
        self.told = f"{1000 * (time.perf_counter() - began):.1f} ms"
        for each in found:  # only what is not typed yet is put in: what is typed stays as it is
            share = f"{100 * math.exp(each.log_prob):.1f}%"
            yield Shown(each.added, display=printable(each.text), display_meta=share)


def talk(completer: Completer, number: int) -> None:
    """Takes lines from a terminal and completes them, until the end of input."""
    menu = Suggestions(completer, number)
    session: PromptSession[str] = PromptSession(
        completer=menu,
        complete_while_typing=True,
        bottom_toolbar=lambda: f" Tab: choose   Enter: new line   Ctrl-D: end   {menu.told}",
        reserve_space_for_menu=number + 1,
    )
    while True:
        try:
            session.prompt("> ")
        except EOFError:
            return
