"""Writes a comparison as a folder: a page that works offline, its plots, and the table as Markdown and JSON."""

from __future__ import annotations

import json
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.base.files import check_writable, replace_file
from chainrule.base.tables import markdown_code, markdown_table
from chainrule.drawing.plots import has_matplotlib, svg_of
from chainrule.errors import OutputError
from chainrule.features.compare.comparison import PLOT_NAMES
from chainrule.features.compare.page import report_page
from chainrule.features.compare.smoothings import SmoothingTable

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from chainrule.features.compare.comparison import Comparison
    from chainrule.features.serve.explorer.shell import Explorer

TABLE, FIGURES, PAGE = "table.md", "table.json", "index.html"
FILES = (TABLE, FIGURES, PAGE, *(f"{name}.svg" for name in PLOT_NAMES))


def check_report_folder(folder: Path, *, overwrite: bool) -> None:
    """Check, before the work, that a report may be written. Raises OutputError."""
    if folder.suffix.lower() in (".html", ".svg", ".png", ".pdf", ".md", ".json") and not folder.is_dir():
        raise OutputError(f"{folder}: a report is a folder with {PAGE} in it; leave {folder.suffix} out")
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: is a file; a report is a folder, so choose another name")
    existing = [name for name in FILES if (folder / name).exists()]
    if existing and not overwrite:
        raise OutputError(
            f"{folder / existing[0]}: exists already; use overwrite=True to replace it, or choose another folder"
        )
    check_writable(folder)


def write_report(
    comparison: Comparison | SmoothingTable,
    folder: str | os.PathLike[str],
    *,
    about: str = "",
    command: Sequence[str] = (),
    explorer: Explorer | None = None,
    overwrite: bool = False,
) -> list[str]:
    """Write a report into a folder, and return the names of its files. Those of an earlier report are removed.

    about: the texts that were trained and measured on. command: the one that made the comparison, for the page.
    explorer: how to look into the models. Raises OutputError. Plots need matplotlib; without it, the page has tables.

    good:  chainrule.write_report(chainrule.compare(["lm/", "net/"], "heldout.txt"), "report/")
    """
    target = Path(folder)
    check_report_folder(target, overwrite=overwrite)
    files = {TABLE: _markdown(comparison, about), FIGURES: json.dumps(comparison.as_json(), indent=2) + "\n"}
    if not isinstance(comparison, SmoothingTable):
        drawn = {plot.name: svg_of(plot.figure()) for plot in comparison.plots()} if has_matplotlib() else {}
        notes = comparison.footnotes()
        files[PAGE] = report_page(comparison, drawn, about=about, command=command, notes=notes, explorer=explorer)
        files |= {f"{name}.svg": svg for name, svg in drawn.items()}
    _write(target, files)
    return list(files)


def _write(folder: Path, files: dict[str, str]) -> None:
    """Write the files of a report into a folder, in place of an older report. Raises OutputError."""
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened_files:
            for name, text in files.items():
                opened_files.enter_context(replace_file(folder / name)).write(text.encode())
        for name in set(FILES) - files.keys():  # of the report that this one replaces
            (folder / name).unlink(missing_ok=True)
    except BaseException as error:
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            raise OutputError(f"{folder}: cannot be created: {error.strerror or error}") from error
        raise


def _markdown(comparison: Comparison | SmoothingTable, about: str) -> str:
    """Return the tables as a Markdown page."""
    footer = "\n".join(f"- {markdown_code(line)}" for line in comparison.footnotes())
    if isinstance(comparison, SmoothingTable):
        tables = [f"## {title}\n\n{markdown_table(comparison.header(), rows)}" for title, rows in comparison.tables()]
        return "\n".join(["# Smoothings compared\n", f"{markdown_code(about)}\n", *tables, footer, ""])
    table = markdown_table(comparison.header(), comparison.rows())
    return f"# Language models compared\n\n{markdown_code(about)}\n\n{table}\n{footer}\n"
