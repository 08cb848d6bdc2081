"""Completions and corrections as the Language Server Protocol writes them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lsprotocol import types

from chainrule.report.tables import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.applications.completion import Completion
    from chainrule.applications.correction.changes import Change
    from chainrule.editors.document import Document, Paragraph, Position

SOURCE = "chainrule"
KEEP = "chainrule.keep"  # the command that leaves a word alone


def completion_items(
    document: Document, position: Position, completions: Sequence[Completion]
) -> list[types.CompletionItem]:
    """Items for a menu. Each replaces the begun word, or what it corrects, in the line of the position."""
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
    """What is shown in grey after the position: what is not typed yet. Corrections are left out."""
    here = document.position(*document.locate(position))
    return [
        types.InlineCompletionItem(insert_text=one.added, range=range_of(here, here))
        for one in completions
        if not one.replaces
    ]


def range_of(start: Position, end: Position) -> types.Range:
    return types.Range(types.Position(*start), types.Position(*end))


def change_range(document: Document, paragraph: Paragraph, change: Change) -> types.Range:
    """Where a change of a paragraph is in the document."""
    start, end = (document.position(*paragraph.locate(offset)) for offset in (change.start, change.stop))
    return range_of(start, end)


def diagnostic(document: Document, paragraph: Paragraph, change: Change) -> types.Diagnostic:
    """A change as a remark in the text."""
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
    """What an editor offers for a change: to make it, or to leave the word alone from now on."""
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
