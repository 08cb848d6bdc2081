"""Tables as plain text, and text that is safe to print on a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


# Control characters; line and paragraph separators; characters that change the direction of the text after them
# (Unicode's UAX #9: embeddings, overrides and isolates, which make a line read as another one); lone surrogates.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u206f\ud800-\udfff]")


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns, two spaces apart: the first to the left, the others to the right.

    A wide character counts as two columns, as on a terminal.
    """
    from rich.cells import cell_len

    table = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(cell_len(row[i]) for row in table) for i in range(len(header))]
    lines = []
    for row in table:
        gaps = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = [gap + cell if i else cell + gap for i, (cell, gap) in enumerate(zip(row, gaps, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def printable(text: str) -> str:
    """The text on one line: characters that a terminal obeys instead of showing become escapes, such as \\n.

    Joiners, direction marks, spaces of all widths and characters newer than Python's Unicode stay: Persian, emoji and
    typography need them.
    """
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def printable_lines(text: str) -> str:
    """As `printable`, but line ends stay."""
    return "\n".join(map(printable, text.split("\n")))
