"""Tables as plain text. Cells are strings already; numbers are aligned to the right."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


# Control characters; ends of lines and paragraphs; what turns the direction of the text after it (Unicode's UAX #9:
# embeddings, overrides and isolates, which make a line read as another one) or its shaping; and lone surrogates.
_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u206f\ud800-\udfff]")


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns, two spaces apart: the first to the left, the others to the right.

    Wide characters count as the two columns that they take on a terminal.
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
    """The text in one line: what a terminal would obey and not show is written as an escape, \\n for a newline.

    Joiners, marks of direction, spaces of all widths and characters newer than Python's Unicode stay: Persian, emoji
    and typography are made of them.
    """
    return _OBEYED.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
