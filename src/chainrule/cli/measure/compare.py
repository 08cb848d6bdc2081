"""The verb compare: saved models, all families, or smoothings (--smoothing) in one table, and a report.

The report is a folder with a page that works offline.
"""

from __future__ import annotations

import json as json_library
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.base.tables import markdown_code, markdown_table
from chainrule.cli.look.explore import explorer_of
from chainrule.cli.measure.evaluate import NO_PAIRS, PairsOptions, compare_pairs
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import (
    DEFAULT_TOKENIZER,
    FILE,
    Json,
    ModelMarkerRule,
    Output,
    Overwrite,
    TextFile,
    TokenizerOptions,
    file_or_dash,
    flags_of_any,
    given_settings,
    refuse,
)
from chainrule.cli.shared.screen import check_plot_option, note, print_json, progress_bar
from chainrule.cli.shared.texts import (
    DEFAULT_READING,
    TextOptions,
    check_read_once,
    check_text_target,
    note_repairs,
    text_for,
)
from chainrule.comparison.config import FamiliesOptions, LabelsOptions, SmoothingsOptions
from chainrule.drawing.plots import check_matplotlib, has_matplotlib, svg_of, write_plot
from chainrule.errors import OutputError
from chainrule.evaluation.comparison import PLOT_NAMES
from chainrule.ngram.config import SMOOTHINGS
from chainrule.report.comparison import report_page

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chainrule.base.progress import Progress
    from chainrule.comparison.smoothings import SmoothingTable
    from chainrule.evaluation.comparison import Comparison
    from chainrule.text.corpus.corpus import Source
    from chainrule.text.tokenization.vocabulary import Markers

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


ALL = "all"

if TYPE_CHECKING:
    CompareFlags = Any
else:
    CompareFlags = flags_of_any([FamiliesOptions, SmoothingsOptions, LabelsOptions])


def compare_smoothings(
    train: Source,
    measured: Source,
    options: SmoothingsOptions,
    tokenizer: TokenizerOptions,
    markers: Markers,
    progress: Progress,
) -> SmoothingTable:
    """The table, computed. Raises TextError, SettingError, EstimationError; CycloptsError for an unknown name."""
    from chainrule.comparison.smoothings import smoothing_table

    for name in options.smoothings:
        if name not in (ALL, *SMOOTHINGS):
            raise CycloptsError(msg=f"--smoothing takes all, or some of {', '.join(SMOOTHINGS)}, not {name}.")
    return smoothing_table(
        train,
        measured,
        smoothings=SMOOTHINGS if ALL in options.smoothings else options.smoothings,
        order=options.order,
        tokenizer=tokenizer.config(),
        markers=markers,
        progress=progress,
    )


def markdown_page(table: SmoothingTable, about: str) -> str:
    """The table as a Markdown page."""
    parts = [f"## {title}\n\n{markdown_table(table.header(), rows)}" for title, rows in table.tables()]
    footer = "\n".join(f"- {markdown_code(line)}" for line in table.notes())
    return "\n".join(["# Smoothings compared\n", f"{markdown_code(about)}\n", *parts, footer, ""])


_SHORT = 2.0  # minutes, too few to show what networks can do


def compare(
    *texts: Annotated[
        str,
        Parameter(
            allow_leading_hyphen=True,
            validator=file_or_dash,
            help="Texts to train on; with --text, the models to compare: folders or ARPA files.",
        ),
    ],
    text: Annotated[TextFile | None, Parameter(help="Compare saved models on this text.")] = None,
    output: Output | None = None,
    plot: Annotated[
        Path | None,
        Parameter(
            help="Plot learning curves (without networks, bits per byte by position) to a .pdf, .png or .svg file."
        ),
    ] = None,
    heldout: Annotated[
        TextFile | None, Parameter(help="Measure on this text; by default on a tenth of the texts.")
    ] = None,
    options: CompareFlags = CompareFlags(),  # noqa: B008
    labels: Annotated[
        str | None,
        FILE,
        Parameter(help="Compare networks that label: train each on a file of labelled texts, and test it on this one."),
    ] = None,
    pairs: PairsOptions = NO_PAIRS,
    tokenizer: TokenizerOptions = DEFAULT_TOKENIZER,
    markers: ModelMarkerRule = None,
    reading: TextOptions = DEFAULT_READING,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Compare models in one table.

        $ chainrule compare lm/ transformer/ --text heldout.txt

    With --text, compares saved models. Without it, trains n-gram models on the
    texts, by default on Python's own documentation, and measures them on
    held-out text. With --minutes, trains networks of every family too, and
    mixes them with the best n-grams; a twentieth of the training text is set
    aside to choose the best weights of networks and mixture. With -o, writes a
    page that works offline (index.html), its plots (.svg) and the table
    (table.md, table.json). With --smoothing all, the table has a row for each
    smoothing of n-gram models and a column for each order.

    With --labels, trains networks that label texts from scratch, and with
    --vectors each of them three times: with word vectors learned from nothing,
    tuned and fixed.

    With --source and --target, compares models of pairs on the same pairs.

    p: a paired test against the best model, by approximate randomisation of
    the documents' bits, 10,000 times. ±95 %: half the width of the bootstrap
    interval.
    """
    given = given_settings(options)
    is_plain = (text, output, plot, heldout) == (None,) * 4 and reading == DEFAULT_READING
    if labels is not None:
        if not is_plain or given.keys() & {"order", "smoothings"}:
            raise CycloptsError(msg="--labels goes with --networks, --vectors, --minutes and the tokenizer alone.")
        _compare_labels(texts, labels, tokenizer, json=json, **given)
        return
    if given.keys() & {"networks", "vectors"}:
        raise CycloptsError(msg="--networks and --vectors are for --labels.")
    if pairs != NO_PAIRS:
        if not is_plain or given or tokenizer != DEFAULT_TOKENIZER:
            raise CycloptsError(msg="--source and --target go with models of pairs, --beam and --max-tokens alone.")
        compare_pairs(texts, pairs, json=json)
        return
    if output is not None:
        check_report_folder(output, overwrite=overwrite)
    if plot is not None:
        if "smoothings" in given:
            raise CycloptsError(
                msg="--plot draws learning curves and positions; with --smoothing there is only a table."
            )
        check_plot_option("--plot", plot)
        check_matplotlib()
        check_text_target(plot, None, overwrite=overwrite)
    if text is not None:
        named = ["heldout"] * (heldout is not None) + ["smoothing" if name == "smoothings" else name for name in given]
        refuse(named, "is for training models; --text compares saved ones")
        comparison, about = _compare_models(texts, text, tokenizer, markers, reading)
    elif "smoothings" in given:
        if "minutes" in given:
            raise CycloptsError(msg="--minutes trains networks, and --smoothing compares n-gram models only.")
        several = SmoothingsOptions(**given)
        with _train_and_heldout(texts, heldout, reading) as (train, measured, progress):
            table = compare_smoothings(train, measured, several, tokenizer, markers or "error", progress)
        about = _about(train, measured)
        files = {TABLE: markdown_page(table, about), FIGURES: figures_json(table.as_json())}
        show_report(output, about, files, table.as_json(), str(table), json=json)
        return
    else:
        families = FamiliesOptions(**given)
        comparison, about = _compare_families(texts, heldout, families, tokenizer, markers or "error", reading)
    if plot is not None:
        write_plot(comparison.plot(), plot)
        print(f"wrote {plot}", file=sys.stderr)
    files = {} if output is None else report_files(comparison, about, texts if text is not None else ())
    show_report(output, about, files, comparison.as_json(), str(comparison), json=json)


def _compare_labels(
    texts: tuple[str, ...],
    labels: str,
    tokenizer: TokenizerOptions,
    *,
    json: bool,
    minutes: float | None = None,
    **options: Any,
) -> None:
    """Prints a table of networks that label. Raises TextError, SettingError."""
    from chainrule.applications.classifier_inputs import INPUTS
    from chainrule.comparison.supervised import compare_labels
    from chainrule.neural.config.classifiers import LABELLING
    from chainrule.text.corpus.records import raise_error
    from chainrule.training.config import ClassifierTrainingConfig

    if len(texts) != 1:
        raise CycloptsError(msg="--labels takes one file of labelled inputs to train on, before the options.")
    config = LABELLING.get(LabelsOptions(**options).networks[0], LABELLING["bag"])()
    kind = INPUTS[config.reads]
    unit = kind.units[0]
    with progress_bar() as progress:
        table = compare_labels(
            kind.read(texts[0], unit, config, raise_error, progress),
            kind.read(labels, unit, config, raise_error, progress),
            training=ClassifierTrainingConfig(minutes=minutes),
            tokenizer=None if tokenizer == DEFAULT_TOKENIZER else tokenizer.config(),
            progress=progress,
            **options,
        )
    if json:
        print_json(table.as_json())
    else:
        print(f"trained on {texts[0]}, measured on {labels}\n\n{table}")


def _compare_models(
    models: tuple[str, ...], text: str, tokenizer: TokenizerOptions, markers: Markers | None, reading: TextOptions
) -> tuple[Comparison, str]:
    """Compares saved models; also says what the table is about."""
    from chainrule.base.files import describe_duplicate
    from chainrule.comparison.ladder import compare_models

    if not models:
        raise CycloptsError(msg="MODELS are missing; give the model folders or ARPA files to compare.")
    if text == "-" and len(models) > 1:
        raise CycloptsError(msg="Standard input, -, can be read only once, and each model reads the text.")
    twice = describe_duplicate(models)
    if twice is not None:
        raise CycloptsError(msg=f"MODELS name {twice}; a model is compared with others.")
    source = text_for([Path(name) for name in models], reading, text)
    config = None if tokenizer == DEFAULT_TOKENIZER else tokenizer.config()
    # A folder has a tokenizer of its own. With ARPA files, the option is for these; without any, folders refuse it.
    of_folders = config if all(Path(name).is_dir() for name in models) else None
    with progress_bar() as progress:
        named = (
            (name, open_model(Path(name), of_folders if Path(name).is_dir() else config, markers, progress))
            for name in models
        )
        comparison = compare_models(named, source, progress)
    note_repairs(source)
    return comparison, f"measured on {text}"


def _compare_families(
    texts: tuple[str, ...],
    heldout: str | None,
    options: FamiliesOptions,
    tokenizer: TokenizerOptions,
    markers: Markers,
    reading: TextOptions,
) -> tuple[Comparison, str]:
    """Trains every model on the texts and compares them; also says what the table is about."""
    from chainrule.comparison.compare import SAMPLE_NAME, with_validation
    from chainrule.comparison.ladder import run_ladder

    with _train_and_heldout(texts, heldout, reading) as (train, measured, progress):
        train, networks = with_validation(train, options.minutes, progress)
        try:
            comparison = run_ladder(
                train,
                measured,
                order=options.order,
                tokenizer=tokenizer.config(),
                markers=markers,
                networks=networks,
                progress=progress,
            )
        except KeyboardInterrupt:  # a network would name its folder, and has none here
            raise KeyboardInterrupt("interrupted before the table was complete; no report was written") from None
    if options.minutes is None:
        return comparison, _about(train, measured)
    return comparison, _about_networks(", ".join(texts) or SAMPLE_NAME, heldout, options.minutes)


def _about_networks(whole: str, heldout: str | None, minutes: float) -> str:
    """What a table with networks is about: their text has a third part, to choose weights by."""
    trained, chosen, measured = ("85.5 %", "4.5 %", "10 %") if heldout is None else ("95 %", "5 %", heldout)
    longer = ", which is short for a network: try --minutes 10" if minutes < _SHORT else ""
    return (
        f"trained on {trained} of {whole}; {chosen} of it chose the networks' best weights and the mixture; "
        f"measured on {'the other ' if heldout is None else ''}{measured}; {minutes:g} min for each network{longer}"
    )


def _about(train: Source, measured: Source) -> str:
    return f"trained on {', '.join(train.sources)}; measured on {', '.join(measured.sources)}"


@contextmanager
def _train_and_heldout(
    texts: tuple[str, ...], heldout: str | None, reading: TextOptions
) -> Iterator[tuple[Source, Source, Progress]]:
    """The text to train on, the text to measure on, and a progress bar; afterwards, prints notes on repairs."""
    from chainrule.comparison.compare import parts_of

    check_read_once(*texts, heldout)
    folders = [name for name in texts if (Path(name) / "config.json").is_file()]
    if folders:
        raise CycloptsError(msg=f"{folders[0]} is a model; give the text to compare models on as --text.")
    if heldout in texts:
        note(f"{heldout}: is also trained on, so the figures will be too good")
    with progress_bar() as progress:
        whole, rest = (None if not names else reading.corpus(*names) for names in (texts, [heldout] if heldout else []))
        train, measured = parts_of(whole, rest, progress)
        yield train, measured, progress
    note_repairs(train, measured)
