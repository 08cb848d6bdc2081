"""The prompt of `chainrule chat` at a terminal: prompt_toolkit's.

A separate file, so that no other verb waits for that library.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession

from chainrule.base.tables import printable_lines
from chainrule.cli.shared.screen import note
from chainrule.errors import ChainruleError

if TYPE_CHECKING:
    from chainrule.cli.terminal.chat_session import ChatSession


def talk(session: ChatSession) -> None:
    """Reads messages from a terminal and streams the answers, until end of input. Nothing is kept after that."""
    terminal: PromptSession[str] = PromptSession()
    print("/help lists the commands; Ctrl-C stops an answer, Ctrl-D quits.")
    while not session.is_over:
        try:
            line = terminal.prompt("> ")
        except KeyboardInterrupt:  # only the line is given up
            continue
        except EOFError:
            return
        if line.strip():
            show_answer(session, line)


def show_answer(session: ChatSession, line: str) -> None:
    """Streams the answer to a line. Ctrl-C stops it; an error is shown, and ends nothing."""
    shown = False
    try:
        for piece in session.respond(line):
            print(printable_lines(piece), end="", flush=True)
            shown = True
    except KeyboardInterrupt:
        print(" ...", end="")
        shown = True
    except ChainruleError as error:
        note(str(error))
    if shown:
        print()
    for report in session.take_reports():
        print(report, file=sys.stderr)
