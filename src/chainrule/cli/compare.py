"""chainrule compare: models side by side on one text, those that are there or those that a text is enough to train."""

from __future__ import annotations

import json as json_library
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import (
    DEFAULT_TOKENIZER,
    Json,
    ModelMarkerRule,
    Output,
    Overwrite,
    TextFile,
    TokenizerOptions,
    WholeNumber,
    file_or_dash,
)
from chainrule.cli.models import opened
from chainrule.cli.plot_option import check_plot_option
from chainrule.cli.screen import note, print_json, progress
from chainrule.cli.smoothing_table import page_of, smoothing_table_of
from chainrule.cli.texts import AS_USUAL, TextOptions, check_read_once, check_text_target, note_repairs, text_for
from chainrule.drawing.plots import check_matplotlib, has_matplotlib, svg_of, write_plot
from chainrule.errors import OutputError
from chainrule.evaluation.plots import PLOT_NAMES
from chainrule.report.page import report_page
from chainrule.report.tables import markdown_code, markdown_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.base.progress import Progress
    from chainrule.evaluation.comparison import Comparison
    from chainrule.text.corpus import Source
    from chainrule.text.vocabulary import Markers

_SHORT = 2.0  # minutes, in which networks show little of what they can
TABLE, FIGURES, PAGE = "table.md", "table.json", "index.html"
PLOTS = tuple(f"{name}.svg" for name in PLOT_NAMES)


def compare(
    *texts: Annotated[
        str,
        Parameter(
            allow_leading_hyphen=True,
            validator=file_or_dash,
            help="Text to train on, as for train; with --text, models: folders or ARPA files.",
        ),
    ],
    text: Annotated[TextFile | None, Parameter(help="Compare models that are there already on this text.")] = None,
    output: Output | None = None,
    plot: Annotated[
        Path | None,
        Parameter(help="Draw learning curves, or without networks bits by position: .pdf, .png or .svg."),
    ] = None,
    heldout: Annotated[
        TextFile | None, Parameter(help="Measure on this text; by default on every tenth part of the others.")
    ] = None,
    order: Annotated[int | None, WholeNumber, Parameter(help="The highest n-gram order; 5 unless said.")] = None,
    minutes: Annotated[
        float | None,
        Parameter(
            help="Train every family of networks, too, so many minutes each, and mix them with the best n-grams."
        ),
    ] = None,
    smoothing: Annotated[
        tuple[str, ...],
        Parameter(
            help="Compare n-gram models of these smoothings, order by order; all: of every one. Texts stand before it.",
            consume_multiple=True,
            negative=(),
        ),
    ] = (),
    tokenizer: TokenizerOptions = DEFAULT_TOKENIZER,
    markers: ModelMarkerRule = None,
    reading: TextOptions = AS_USUAL,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Compare models in one table.

    With --text, models that are there already. Without it, every model is
    trained on the texts, or on Python's own documentation where none is given,
    and measured on what is held out of it. With --minutes, these are networks
    of every family, too, and the best mixture; the best weights of both are
    chosen on a twentieth of the training text, which no model learns from.
    With -o, a page that needs no network (index.html), its plots (.svg) and
    the table (table.md, table.json) are written there. --plot draws for a paper. With --smoothing all,
    the table has a row for each smoothing of n-gram models and a column for
    each order.

    p is of a paired test against the best model: approximate randomisation on
    the documents' bits, 10,000 times. ±95 % is half the bootstrap interval.
    """
    if output is not None:
        _check_report_folder(output, overwrite=overwrite)
    if plot is not None:
        if smoothing:
            raise CycloptsError(msg="--plot is for learning curves and positions; --smoothing gives a table alone.")
        check_plot_option("--plot", plot)
        check_matplotlib()
        check_text_target(plot, None, overwrite=overwrite)
    if text is not None:
        for name, given in (
            ("--heldout", heldout),
            ("--order", order),
            ("--minutes", minutes),
            ("--smoothing", smoothing or None),
        ):
            if given is not None:
                raise CycloptsError(msg=f"{name} is for training models; with --text, they are there already.")
        comparison, about = _contest(texts, text, tokenizer, markers, reading)
    elif smoothing:
        if minutes is not None:
            raise CycloptsError(msg="--minutes is for networks, and --smoothing compares n-gram models alone.")
        with _trained_on(texts, heldout, reading) as (train, measured, told):
            table = smoothing_table_of(
                train, measured, smoothing, 5 if order is None else order, tokenizer, markers or "error", told
            )
        about = _about(train, measured)
        files = {TABLE: page_of(table, about), FIGURES: _json(table.as_json())}
        _show(output, about, files, table.as_json(), str(table), json=json)
        return
    else:
        comparison, about = _ladder(
            texts, heldout, 5 if order is None else order, minutes, tokenizer, markers or "error", reading
        )
    if plot is not None:
        write_plot(comparison.plot(), plot)
        print(f"{plot}: the plot", file=sys.stderr)
    files = {} if output is None else _files(comparison, about)
    _show(output, about, files, comparison.as_json(), str(comparison), json=json)


def _show(
    output: Path | None, about: str, files: dict[str, str], figures: list[dict[str, Any]], shown: str, *, json: bool
) -> None:
    """Writes files where they are wanted, and prints a table. Raises OutputError."""
    if output is not None:
        _write(output, files)
    if json:
        print_json(figures)
    else:
        print(f"{about}\n\n{shown}")


def _contest(
    models: tuple[str, ...], text: str, tokenizer: TokenizerOptions, markers: Markers | None, reading: TextOptions
) -> tuple[Comparison, str]:
    """Models that are there already, and what the table is about."""
    from chainrule.base.files import describe_duplicate
    from chainrule.comparison.saved_models import contest

    if not models:
        raise CycloptsError(msg="MODELS are missing: name the model folders or ARPA files to compare.")
    if text == "-" and len(models) > 1:
        raise CycloptsError(msg="Standard input, -, can be read only once, and each model reads the text.")
    twice = describe_duplicate(models)
    if twice is not None:
        raise CycloptsError(msg=f"MODELS name {twice}; a model is compared with others.")
    source = text_for([Path(name) for name in models], reading, text)
    config = None if tokenizer == DEFAULT_TOKENIZER else tokenizer.config()
    # A folder has a tokenizer of its own. Beside ARPA files, the option is for these; by themselves, folders refuse it.
    of_folders = config if all(Path(name).is_dir() for name in models) else None
    with progress() as told:
        named = (
            (name, opened(Path(name), of_folders if Path(name).is_dir() else config, markers, told)) for name in models
        )
        comparison = contest(named, source, told)
    note_repairs(source)
    return comparison, f"measured on {text}"


def _ladder(
    texts: tuple[str, ...],
    heldout: str | None,
    order: int,
    minutes: float | None,
    tokenizer: TokenizerOptions,
    markers: Markers,
    reading: TextOptions,
) -> tuple[Comparison, str]:
    """Every model trained on the texts, and what the table is about."""
    from chainrule.comparison.compare import SAMPLE_NAME, with_validation
    from chainrule.comparison.ladder import climb

    with _trained_on(texts, heldout, reading) as (train, measured, told):
        train, networks = with_validation(train, minutes, told)
        try:
            comparison = climb(
                train,
                measured,
                order=order,
                tokenizer=tokenizer.config(),
                markers=markers,
                networks=networks,
                progress=told,
            )
        except KeyboardInterrupt:  # a network would tell of its own folder, which it has none here
            raise KeyboardInterrupt("interrupted before the table was whole; no report was written") from None
    if minutes is None:
        return comparison, _about(train, measured)
    return comparison, _about_networks(", ".join(texts) or SAMPLE_NAME, heldout, minutes)


def _about_networks(whole: str, heldout: str | None, minutes: float) -> str:
    """What a table with networks is about: their text is parted once more, to choose by."""
    learnt, chosen, measured = ("85.5 %", "4.5 %", "10 %") if heldout is None else ("95 %", "5 %", heldout)
    longer = ", which is short for a network: --minutes 10 shows more of what they can" if minutes < _SHORT else ""
    return (
        f"trained on {learnt} of {whole}; {chosen} of it chose the networks' best weights and the mixture; "
        f"measured on {'the other ' if heldout is None else ''}{measured}; {minutes:g} minutes for each network{longer}"
    )


def _about(train: Source, measured: Source) -> str:
    return f"trained on {', '.join(train.sources)}; measured on {', '.join(measured.sources)}"


@contextmanager
def _trained_on(
    texts: tuple[str, ...], heldout: str | None, reading: TextOptions
) -> Iterator[tuple[Source, Source, Progress]]:
    """The text to train on and the one to measure on, with what shows progress; notes afterwards what was repaired."""
    from chainrule.comparison.compare import parts_of

    check_read_once(*texts, heldout)
    folders = [name for name in texts if (Path(name) / "config.json").is_file()]
    if folders:
        raise CycloptsError(msg=f"{folders[0]} is a model; say --text and the text to compare models on.")
    if heldout in texts:
        note(f"{heldout}: measured on what was trained on, so the figures will be too good")
    with progress() as told:
        whole, rest = (None if not names else reading.corpus(*names) for names in (texts, [heldout] if heldout else []))
        train, measured = parts_of(whole, rest, told)
        yield train, measured, told
    note_repairs(train, measured)


def _files(comparison: Comparison, about: str) -> dict[str, str]:
    """What a report consists of, by the names of its files."""
    drawn = {plot.name: svg_of(plot.figure()) for plot in comparison.plots()} if has_matplotlib() else {}
    if not has_matplotlib():
        note("the page has tables in place of plots: these need pip install 'chainrule[report]'")
    command = ["chainrule", *sys.argv[1:]]
    page = report_page(comparison, drawn, about=about, command=command, notes=comparison.notes())
    plots = {f"{name}.svg": svg for name, svg in drawn.items()}
    return {TABLE: _page(comparison, about), FIGURES: _json(comparison.as_json()), PAGE: page, **plots}


def _json(figures: list[dict[str, Any]]) -> str:
    return json_library.dumps(figures, indent=2) + "\n"


def _check_report_folder(folder: Path, *, overwrite: bool) -> None:
    """Asked before the work, not after it."""
    from chainrule.base.files import check_writable

    if folder.suffix.lower() in (".html", ".svg", ".png", ".pdf", ".md", ".json") and not folder.is_dir():
        raise CycloptsError(
            msg=f"--output {folder}: a report is a folder with {PAGE} in it; leave {folder.suffix} out."
        )
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: a file is in the way; a report is a folder, so choose another name")
    taken = [name for name in (TABLE, FIGURES, PAGE, *PLOTS) if (folder / name).exists()]
    if taken and not overwrite:
        raise OutputError(
            f"{folder / taken[0]}: exists already; say --overwrite to replace it, or choose another folder"
        )
    check_writable(folder)


def _write(folder: Path, files: dict[str, str]) -> None:
    """The files of a report, and no others of the kind. Raises OutputError."""
    from chainrule.base.files import replace_file

    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened_files:
            for name, text in files.items():
                opened_files.enter_context(replace_file(folder / name)).write(text.encode())
        for name in {TABLE, FIGURES, PAGE, *PLOTS} - files.keys():  # of another report, which this one replaces
            (folder / name).unlink(missing_ok=True)
    except BaseException as error:
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            raise OutputError(f"{folder}: cannot be made: {error.strerror or error}") from error
        raise
    print(f"{folder}: {', '.join(files)}", file=sys.stderr)


def _page(comparison: Comparison, about: str) -> str:
    """Markdown."""
    table = markdown_table(comparison.header(), comparison.rows())
    footer = "\n".join(f"- {markdown_code(line)}" for line in comparison.notes())
    return f"# Language models compared\n\n{markdown_code(about)}\n\n{table}\n{footer}\n"
