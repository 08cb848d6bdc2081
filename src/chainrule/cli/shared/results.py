"""The options that say where results go, and the one place that shows them: as text, as JSON or in a table file."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.base.results import Itemised, Noted
from chainrule.cli.shared.options import Json, Overwrite
from chainrule.cli.shared.screen import note, print_json

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from chainrule.base.results import Result


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ResultOptions:
    """Where results go."""

    output: Annotated[
        Path | None,
        Parameter(name=("--output", "-o"), help="Write a table instead: .csv, .tsv, .jsonl or .parquet."),
    ] = None
    overwrite: Overwrite = False
    json: Json = False

    @property
    def in_rows(self) -> bool:
        """Whether programs read the results, which then have all that is known."""
        return self.json or self.output is not None

    def check(self, *inputs: str | os.PathLike[str]) -> None:
        """Checks, before the work, that the table may be written. inputs: files to read, which it must not replace.

        Raises CycloptsError, OutputError.
        """
        if self.output is not None and self.json:
            raise CycloptsError(msg="Give either --output or --json; a name that ends in .jsonl gives JSON lines.")
        check_table(self.output, *inputs, overwrite=self.overwrite)

    def show(self, *results: Result) -> None:
        """Shows results. Raises OutputError."""
        self.show_all(results)

    def show_all(self, results: Iterable[Result]) -> None:
        """Shows results as they come. Raises OutputError."""
        with self.showing() as show:
            for result in results:
                show(result)

    @contextmanager
    def showing(self) -> Iterator[Callable[[Result], None]]:
        """A function that shows a result; a table appears if all goes well. Raises OutputError."""
        if self.output is None:
            yield self._print
            return
        with table_rows(self.output) as write:

            def write_rows(result: Result) -> None:
                is_written = bool(write(result.to_records()))
                if (not is_written or isinstance(result, Itemised)) and (text := str(result)):
                    print(text)
                _note(result)

            yield write_rows

    def _print(self, result: Result) -> None:
        if self.json:
            print_json(result.as_json())
        else:
            print(result)
        sys.stdout.flush()  # who waits for one answer gets it before the next
        _note(result)


TO_SCREEN = ResultOptions()


def check_table(path: Path | None, *inputs: str | os.PathLike[str], overwrite: bool) -> None:
    """Checks, before the work, that a table may be written, if there is a name for it. Raises OutputError."""
    if path is None:
        return
    from chainrule.base.files import check_new_file
    from chainrule.text.corpus.writing import check_table_format

    check_table_format(path)
    check_new_file(path, overwrite=overwrite, inputs=inputs)


def write_table(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Writes records as a table, of the kind that the name says. Raises OutputError."""
    with table_rows(path) as write:
        write(records)


@contextmanager
def table_rows(path: Path) -> Iterator[Callable[[Iterable[Mapping[str, Any]]], int]]:
    """A function that writes records as rows of a table, and returns how many there were."""
    from chainrule.text.corpus.writing import table_file

    with table_file(path) as write:

        def write_rows(records: Iterable[Mapping[str, Any]]) -> int:
            rows = 0
            for record in records:
                write({name: [value] for name, value in record.items()})
                rows += 1
            return rows

        yield write_rows


def check_page(option: str, path: Path, *, overwrite: bool) -> None:
    """Checks, before the work, that a page may be written. Raises CycloptsError, OutputError."""
    from chainrule.base.files import check_new_file

    if path.suffix.lower() != ".html":
        raise CycloptsError(msg=f"{option} {path}: its name must end in .html.")
    check_new_file(path, overwrite=overwrite)


def check_plot(option: str, path: Path, *inputs: str | os.PathLike[str], overwrite: bool) -> None:
    """Checks, before the work, that a plot may be drawn. inputs: files to read, which it must not replace.

    Raises CycloptsError, OutputError, SettingError.
    """
    from chainrule.base.files import check_new_file
    from chainrule.drawing.plots import SUFFIXES, check_matplotlib

    if path.suffix.lower() not in SUFFIXES:
        raise CycloptsError(msg=f"{option} {path}: its name must end in .pdf, .png or .svg.")
    check_matplotlib()
    check_new_file(path, overwrite=overwrite, inputs=inputs)


def is_table(path: Path | None) -> bool:
    """Whether the name is that of a table; of verbs that write other files, too."""
    if path is None:
        return False
    from chainrule.text.corpus.reading import TABLES, text_suffix

    return text_suffix(str(path)) in TABLES


def _note(result: Result) -> None:
    if isinstance(result, Noted):
        for message in result.notes():
            note(message)
