"""Texts of several lines as running text: lines are put together, and changes are given back where they stand.

A hyphen at the end of a line joins the word that it cuts: `mo-` and `tion` are read as `motion`, and come back as two
lines. Empty lines part paragraphs, which are read one by one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.applications.correction.changes import Change

_PARAGRAPH = re.compile(r"\S.*(?:\n(?!\s*(?:\n|\Z)).*)*")
_LINE_BREAK = re.compile(r"(?<=[^\W\d_])-\r?\n[ \t]*(?=[^\W\d_])|[ \t\r]*\n[ \t]*")
_GAP = re.compile(r" |(?<=\w)-(?=\w)")
_WORD_BEFORE, _WORD_AFTER = re.compile(r"[^\W\d_]+$"), re.compile(r"[^\W\d_]+")


class LineBreak(NamedTuple):
    """Where a line ended. position: in running text. is_space: whether a space stands there for it. text: the break."""

    position: int
    is_space: bool
    text: str

    @property
    def stop(self) -> int:
        return self.position + self.is_space

    @property
    def longer(self) -> int:
        """By how many characters the break is longer than what stands for it."""
        return len(self.text) - self.is_space


class RunningText(NamedTuple):
    """A paragraph in one line. start: in characters of the whole text."""

    text: str
    start: int = 0
    breaks: tuple[LineBreak, ...] = ()


def running_texts(text: str, is_word: Callable[[str], bool]) -> list[RunningText]:
    """The paragraphs of a text. is_word: tells known words, and so a word that was cut from one with a hyphen."""
    if "\n" not in text:
        return [RunningText(text)]
    return [_in_one_line(match.group(), match.start(), is_word) for match in _PARAGRAPH.finditer(text)]


def _in_one_line(text: str, start: int, is_word: Callable[[str], bool]) -> RunningText:
    parts: list[str] = []
    breaks: list[LineBreak] = []
    done = size = 0
    for match in _LINE_BREAK.finditer(text):
        is_space = not match.group().startswith("-")
        begin = match.start() + (not is_space and _keeps_hyphen(text, match, is_word))
        size += begin - done
        breaks.append(LineBreak(size, is_space, text[begin : match.end()]))
        size += is_space
        parts.append(text[done:begin] + " " * is_space)
        done = match.end()
    return RunningText("".join([*parts, text[done:]]), start, tuple(breaks))


def _keeps_hyphen(text: str, match: re.Match[str], is_word: Callable[[str], bool]) -> bool:
    """Whether a hyphen at the end of a line belongs to the word: both parts are words, the whole is none."""
    before, after = _WORD_BEFORE.search(text, 0, match.start()), _WORD_AFTER.match(text, match.end())
    if before is None or after is None:
        return False
    left, right = before.group(), after.group()
    return is_word(left) and is_word(right) and not is_word(left + right)


def in_lines(change: Change, running: RunningText, text: str) -> Change:
    """A change of running text as one of the whole text, which keeps its lines."""
    start = running.start + change.start + sum(one.longer for one in running.breaks if one.stop <= change.start)
    stop = running.start + change.stop + sum(one.longer for one in running.breaks if one.position < change.stop)
    after = change.after
    for one in reversed(running.breaks):
        if change.start < one.stop and one.position < change.stop:
            after = _broken(after, one, one.position - change.start)
    if after.endswith("\n"):  # what follows begins the next line
        stop, after = (stop + 1, after) if text[stop : stop + 1].isspace() else (stop, after.removesuffix("\n"))
    return change._replace(start=start, stop=stop, before=text[start:stop], after=after)


def _broken(after: str, line_break: LineBreak, offset: int) -> str:
    """What a change writes, broken at a space or hyphen; in a word at an offset, if the line was broken in one."""
    end = line_break.text.removeprefix("-")
    gaps = [match.start() for match in _GAP.finditer(after)]
    if gaps:
        gap = min(gaps, key=lambda i: abs(i - offset))
        return after[:gap] + after[gap].strip() + end + after[gap + 1 :]
    if line_break.is_space or len(after) < 2:
        return f"{after}\n"
    cut = min(max(offset, 1), len(after) - 1)
    return f"{after[:cut]}-{end}{after[cut:]}"
