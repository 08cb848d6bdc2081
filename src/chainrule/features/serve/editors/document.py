r"""A text that an editor has open: its lines, positions and paragraphs; completions and corrections in the protocol.

Knows nothing of models. Lines end as the Language Server Protocol says: at \n, \r\n or \r, and nowhere else.
A change costs as much as the lines that it touches, not as the whole text.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from lsprotocol import types

from chainrule.base.tables import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.decoding.completion import Completion
    from chainrule.features.correct.corrector.spans import Change

Encoding = Literal["utf-8", "utf-16", "utf-32"]

_CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}  # and bytes in a unit
_LINE_END = re.compile(r"\r\n?|\n")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_BEGUN_WORD = re.compile(r"\S*\Z")
_STEP = 1024  # characters, see `_end_of`


class Position(NamedTuple):
    """A position as the protocol counts it. character: the offset in the line, in units of the encoding."""

    line: int
    character: int


class Paragraph(NamedTuple):
    """Lines of a document between blank ones. first: the number of its first line."""

    text: str
    first: int

    def locate(self, offset: int) -> tuple[int, int]:
        """Return the line of an offset in the document, and the index into it."""
        lines = _lines_of(self.text[:offset])
        return self.first + len(lines) - 1, len(lines[-1])


class Document:
    """A text and its version. edited: where the last change ended, as a line and an index into it; or the beginning."""

    def __init__(self, text: str, version: int = 0, encoding: Encoding = "utf-16") -> None:
        """Split the text into lines. encoding: whose units positions count."""
        self.version = version
        self._codec, self._unit = _CODECS[encoding]
        self.lines = _lines_of(_without_surrogates(text))
        self.edited = 0, 0

    def replace(self, start: Position, end: Position, text: str) -> None:
        """Replace a range by a text. Positions outside the document count as the nearest one in it."""
        (first, begin), (last, stop) = self.locate(start), self.locate(end)
        if (last, stop) < (first, begin):
            last, stop = first, begin
        text = _without_surrogates(text)
        before, after = self.lines[first][:begin], self.lines[last][stop:]
        ending = _lines_of(before + text)
        self.edited = first + len(ending) - 1, len(ending[-1])
        if not before and first and self.lines[first - 1].endswith("\r"):  # a \n may now follow, to end the same line
            first -= 1
            before = self.lines[first]
        self.lines[first : last + 1] = _lines_of(before + text + after, is_last=last + 1 == len(self.lines))

    def locate(self, position: Position) -> tuple[int, int]:
        """Return the line of a position and its index in characters, both inside the document."""
        if position.line >= len(self.lines):
            return len(self.lines) - 1, len(self.lines[-1])
        if position.line < 0:
            return 0, 0
        line = self.lines[position.line].rstrip("\r\n")
        units = max(position.character, 0)
        if line.isascii():
            return position.line, min(units, len(line))
        before = line.encode(self._codec)[: units * self._unit]
        return position.line, len(before.decode(self._codec, "ignore"))  # inside a character: before it

    def position(self, line: int, index: int) -> Position:
        """Return the position of an index into a line: the inverse of `locate`."""
        before = self.lines[line][:index]
        units = index if before.isascii() else len(before.encode(self._codec)) // self._unit
        return Position(line, units)

    def begun_word(self, position: Position) -> str:
        """Return the text between a position in a line and the last white space before it."""
        line, index = self.locate(position)
        return _BEGUN_WORD.search(self.lines[line], 0, index).group()  # type: ignore[union-attr]  # it always matches

    def text_before(self, position: Position, most: int, *, is_joined: bool) -> str:
        """Return the text that a model reads before a position: about `most` characters.

        is_joined: whether to take only the position's paragraph, and in one line.
        """
        line, index = self.locate(position)
        whole = self.lines[line][:index]
        parts = [_end_of(whole, most)]
        size = len(parts[0])
        while (
            line
            and size < most
            and len(parts[-1]) == len(whole)
            and not (is_joined and _is_blank(self.lines[line - 1]))
        ):
            line -= 1
            whole = self.lines[line]
            parts.append(_end_of(whole, most))
            size += len(parts[-1])
        parts.reverse()
        if not is_joined:
            return "".join(parts)
        return " ".join([*(part.strip() for part in parts[:-1]), parts[-1].lstrip()])

    def paragraphs(self, most: int) -> list[Paragraph]:
        """Return the paragraphs around the last change, in about `most` characters.

        Where the lines do not fit, the first and the last paragraph are cut; a line that is longer is left out.
        """
        first = last = min(self.edited[0], len(self.lines) - 1)
        room = most
        while first and len(self.lines[first - 1]) <= room - most // 2:  # the other half is for what comes after
            first -= 1
            room -= len(self.lines[first])
        while last < len(self.lines) and len(self.lines[last]) <= room:
            room -= len(self.lines[last])
            last += 1
        paragraphs, begin = [], first
        for line in range(first, last + 1):
            if line == last or _is_blank(self.lines[line]):
                if begin < line:
                    paragraphs.append(Paragraph("".join(self.lines[begin:line]), begin))
                begin = line + 1
        return paragraphs


def _lines_of(text: str, *, is_last: bool = True) -> list[str]:
    """Return the lines of a text with their ends; the last has none, and may be empty.

    is_last: or is left out if empty.
    """
    ends = [match.end() for match in _LINE_END.finditer(text)]
    lines = [text[start:end] for start, end in pairwise([0, *ends])]
    rest = text[ends[-1] :] if ends else text
    return [*lines, rest] if rest or is_last else lines


def _without_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON can write and UTF-8 cannot, by replacement characters."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def _is_blank(line: str) -> bool:
    return not line.strip()


def _end_of(text: str, most: int) -> str:
    """Return the last characters of a text, from a word on.

    The result begins at the same word while the text grows by a few keys.
    """
    if len(text) <= most:
        return text
    begin = -(-(len(text) - most) // _STEP) * _STEP
    space = re.compile(r"\s").search(text, begin)
    return text[space.end() if space else begin :]


SOURCE = "chainrule"
KEEP = "chainrule.keep"  # the command that leaves a word alone


def completion_items(
    document: Document, position: Position, completions: Sequence[Completion]
) -> list[types.CompletionItem]:
    """Return items for a menu. Each replaces the begun word, or what it corrects, in the line of the position."""
    line, index = document.locate(position)
    begun = document.begun_word(position)
    items = []
    for rank, one in enumerate(completions):
        if one.replaces > index:  # it would begin in the line before
            continue
        typed = document.lines[line][index - one.replaces : index] if one.replaces else begun
        text = one.added if one.replaces else begun + one.added
        share = f"{100 * math.exp(one.log_prob):.1f} %"
        start = document.position(line, index - len(typed))
        items.append(
            types.CompletionItem(
                label=printable(text.strip()),
                kind=types.CompletionItemKind.Text,
                detail=f"correction, {share}" if one.replaces else share,
                sort_text=f"{rank:03}",
                filter_text=typed or text,  # editors compare it with what `text_edit` replaces
                text_edit=types.TextEdit(range_of(start, document.position(line, index)), text),
            )
        )
    return items


def inline_items(
    document: Document, position: Position, completions: Sequence[Completion]
) -> list[types.InlineCompletionItem]:
    """Return completions to be shown in grey after the position: the part that is not typed yet.

    Corrections are left out.
    """
    here = document.position(*document.locate(position))
    return [
        types.InlineCompletionItem(insert_text=one.added, range=range_of(here, here))
        for one in completions
        if not one.replaces
    ]


def range_of(start: Position, end: Position) -> types.Range:
    return types.Range(types.Position(*start), types.Position(*end))


def change_range(document: Document, paragraph: Paragraph, change: Change) -> types.Range:
    """Return where a change of a paragraph is in the document."""
    start, end = (document.position(*paragraph.locate(offset)) for offset in (change.start, change.stop))
    return range_of(start, end)


def diagnostic(document: Document, paragraph: Paragraph, change: Change) -> types.Diagnostic:
    """Return a change as a diagnostic, a remark in the text."""
    before, after = printable(change.before), printable(change.after)
    message = f"“{before}”: did you mean “{after}”?" if after else f"“{before}”: leave it out?"
    if not before:
        message = f"insert “{after}”?"
    return types.Diagnostic(
        range=change_range(document, paragraph, change),
        message=f"{message} ({100 * change.prob:.0f} %)",
        severity=types.DiagnosticSeverity.Information,
        source=SOURCE,
    )


def quick_fixes(uri: str, document: Document, paragraph: Paragraph, change: Change) -> list[types.CodeAction]:
    """Return the quick fixes for a change: to make it, or to leave the word alone from now on."""
    remark = diagnostic(document, paragraph, change)
    edit = types.TextEdit(change_range(document, paragraph, change), change.after)
    after = printable(change.after.strip())
    actions = [
        types.CodeAction(
            title=f"Change to “{after}”" if after else f"Leave out “{printable(change.before.strip())}”",
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[remark],
            is_preferred=True,
            edit=types.WorkspaceEdit(changes={uri: [edit]}),
        )
    ]
    word = change.before
    if word and not any(character.isspace() for character in word):
        title = f"Never change “{printable(word)}”"
        command = types.Command(title, KEEP, arguments=[word])
        actions.append(
            types.CodeAction(title=title, kind=types.CodeActionKind.QuickFix, diagnostics=[remark], command=command)
        )
    return actions
