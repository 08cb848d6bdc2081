"""What `chainrule compare` shows and writes: a table, and a report: a folder with a page that works offline."""

from __future__ import annotations

import json as json_library
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import CycloptsError

from chainrule.base.tables import markdown_code, markdown_table
from chainrule.cli.explore import explorer_of
from chainrule.cli.shared.screen import note, print_json
from chainrule.drawing.plots import has_matplotlib, svg_of
from chainrule.errors import OutputError
from chainrule.evaluation.comparison import PLOT_NAMES
from chainrule.report.comparison import report_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.evaluation.comparison import Comparison

TABLE, FIGURES, PAGE = "table.md", "table.json", "index.html"
PLOTS = tuple(f"{name}.svg" for name in PLOT_NAMES)


def check_report_folder(folder: Path, *, overwrite: bool) -> None:
    """Checks, before the work, that a report may be written. Raises CycloptsError, OutputError."""
    from chainrule.base.files import check_writable

    if folder.suffix.lower() in (".html", ".svg", ".png", ".pdf", ".md", ".json") and not folder.is_dir():
        raise CycloptsError(
            msg=f"--output {folder}: a report is a folder with {PAGE} in it; leave {folder.suffix} out."
        )
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: is a file; a report is a folder, so choose another name")
    existing = [name for name in (TABLE, FIGURES, PAGE, *PLOTS) if (folder / name).exists()]
    if existing and not overwrite:
        raise OutputError(
            f"{folder / existing[0]}: exists already; use --overwrite to replace it, or choose another folder"
        )
    check_writable(folder)


def show_report(
    output: Path | None, about: str, files: dict[str, str], figures: list[dict[str, Any]], shown: str, *, json: bool
) -> None:
    """Writes the files of a report, if it has a folder, and prints the table. Raises OutputError."""
    if output is not None:
        _write(output, files)
    if json:
        print_json(figures)
    else:
        print(f"{about}\n\n{shown}")


def report_files(comparison: Comparison, about: str, models: Sequence[str] = ()) -> dict[str, str]:
    """The files of a report, by name. models: the paths of those that were saved."""
    drawn = {plot.name: svg_of(plot.figure()) for plot in comparison.plots()} if has_matplotlib() else {}
    if not has_matplotlib():
        note("the page has tables instead of plots, which need pip install 'chainrule[report]'")
    command = ["chainrule", *sys.argv[1:]]
    page = report_page(
        comparison, drawn, about=about, command=command, notes=comparison.notes(), explorer=explorer_of(models)
    )
    plots = {f"{name}.svg": svg for name, svg in drawn.items()}
    return {TABLE: _markdown(comparison, about), FIGURES: figures_json(comparison.as_json()), PAGE: page, **plots}


def figures_json(figures: list[dict[str, Any]]) -> str:
    return json_library.dumps(figures, indent=2) + "\n"


def _write(folder: Path, files: dict[str, str]) -> None:
    """Writes the files of a report, and removes those of an earlier one. Raises OutputError."""
    from chainrule.base.files import replace_file

    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened_files:
            for name, text in files.items():
                opened_files.enter_context(replace_file(folder / name)).write(text.encode())
        for name in {TABLE, FIGURES, PAGE, *PLOTS} - files.keys():  # of the report that this one replaces
            (folder / name).unlink(missing_ok=True)
    except BaseException as error:
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            raise OutputError(f"{folder}: cannot be created: {error.strerror or error}") from error
        raise
    print(f"{folder}: {', '.join(files)}", file=sys.stderr)


def _markdown(comparison: Comparison, about: str) -> str:
    """The table as a Markdown page."""
    table = markdown_table(comparison.header(), comparison.rows())
    footer = "\n".join(f"- {markdown_code(line)}" for line in comparison.notes())
    return f"# Language models compared\n\n{markdown_code(about)}\n\n{table}\n{footer}\n"
