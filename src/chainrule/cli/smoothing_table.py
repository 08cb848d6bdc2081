"""compare --smoothing: bits per byte and perplexity, a row for each smoothing, a column for each order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import CycloptsError

from chainrule.base.tables import markdown_code, markdown_table
from chainrule.ngram.config import SMOOTHINGS

if TYPE_CHECKING:
    from chainrule.base.progress import Progress
    from chainrule.cli.shared.arguments import TokenizerOptions
    from chainrule.comparison.smoothings import SmoothingTable
    from chainrule.text.corpus.corpus import Source
    from chainrule.text.tokenization.vocabulary import Markers

ALL = "all"


def compare_smoothings(
    train: Source,
    measured: Source,
    names: tuple[str, ...],
    order: int,
    tokenizer: TokenizerOptions,
    markers: Markers,
    progress: Progress,
) -> SmoothingTable:
    """The table, computed. Raises TextError, SettingError, EstimationError; CycloptsError for an unknown name."""
    from chainrule.comparison.smoothings import smoothing_table

    for name in names:
        if name not in (ALL, *SMOOTHINGS):
            raise CycloptsError(msg=f"--smoothing takes all, or some of {', '.join(SMOOTHINGS)}, not {name}.")
    return smoothing_table(
        train,
        measured,
        smoothings=SMOOTHINGS if ALL in names else names,
        order=order,
        tokenizer=tokenizer.config(),
        markers=markers,
        progress=progress,
    )


def markdown_page(table: SmoothingTable, about: str) -> str:
    """The table as a Markdown page."""
    parts = [f"## {title}\n\n{markdown_table(table.header(), rows)}" for title, rows in table.tables()]
    footer = "\n".join(f"- {markdown_code(line)}" for line in table.notes())
    return "\n".join(["# Smoothings compared\n", f"{markdown_code(about)}\n", *parts, footer, ""])
