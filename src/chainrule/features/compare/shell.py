"""The verb compare: saved models, all families, or smoothings (--smoothing) in one table, and a report.

The report is a folder with a page that works offline.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.base.results import Shown
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import (
    FILE,
    NO_FLAGS,
    Flags,
    Json,
    ModelMarkerRule,
    Needs,
    Output,
    Overwrite,
    TextFile,
    TokenizerFlags,
    file_or_dash,
    flag,
    given_settings,
    refuse,
    tokenizer_of,
)
from chainrule.cli.shared.results import ResultOptions, check_plot, is_table
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.cli.shared.texts import (
    DEFAULT_READING,
    RECORD_FLAGS,
    TextOptions,
    bad_records,
    check_read_once,
    note_repairs,
    text_for,
)
from chainrule.drawing.plots import has_matplotlib, write_plot
from chainrule.errors import installing
from chainrule.features.compare.config import FamiliesOptions, LabelsOptions, SmoothingsOptions
from chainrule.features.seq2seq.shell_evaluate import NO_PAIRS, PairsOptions, note_left_out, read_pairs_for
from chainrule.features.serve.explorer.shell import explorer_of
from chainrule.models.config import EvaluateOptions
from chainrule.ngram.config import SMOOTHINGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chainrule.base.progress import Progress
    from chainrule.features.compare.comparison import Comparison
    from chainrule.features.compare.smoothings import SmoothingTable
    from chainrule.text.corpus.corpus import Source
    from chainrule.text.tokenization.vocabulary import Markers

ALL = "all"


def compare_smoothings(
    train: Source,
    measured: Source,
    options: SmoothingsOptions,
    tokenizer: TokenizerFlags,
    markers: Markers,
    progress: Progress,
) -> SmoothingTable:
    """Compute the table. Raises TextError, SettingError, EstimationError; CycloptsError for an unknown name."""
    from chainrule.features.compare.smoothings import smoothing_table

    for name in options.smoothings:
        if name not in (ALL, *SMOOTHINGS):
            raise CycloptsError(msg=f"--smoothing takes all, or some of {', '.join(SMOOTHINGS)}, not {name}.")
    return smoothing_table(
        train,
        measured,
        smoothings=SMOOTHINGS if ALL in options.smoothings else options.smoothings,
        order=options.order,
        tokenizer=tokenizer_of(tokenizer),
        markers=markers,
        progress=progress,
    )


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
    output: Annotated[
        Output | None,
        Parameter(help="The folder of a report to write; or a table: .csv, .tsv, .jsonl or .parquet."),
    ] = None,
    plot: Annotated[
        Path | None,
        Parameter(
            help="Plot learning curves (without networks, bits per byte by position) to a .pdf, .png or .svg file."
        ),
    ] = None,
    heldout: Annotated[
        TextFile | None, Parameter(help="Measure on this text; by default on a tenth of the texts.")
    ] = None,
    options: Flags[FamiliesOptions | SmoothingsOptions | LabelsOptions] = NO_FLAGS,
    ends: Annotated[bool, flag(EvaluateOptions, "ends"), Needs("text")] = True,
    labels: Annotated[
        str | None,
        FILE,
        Parameter(help="Compare networks that label: train each on a file of labelled texts, and test it on this one."),
    ] = None,
    pairs: PairsOptions = NO_PAIRS,
    tokenizer: TokenizerFlags = NO_FLAGS,
    markers: ModelMarkerRule = None,
    reading: TextOptions = DEFAULT_READING,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Compare models in one table.

        $ chainrule compare lm/ transformer/ --text heldout.txt

    With --text, compares saved models. Without it, trains n-gram models on the
    texts, by default on Python's documentation, and measures them on
    held-out text. With --minutes, trains networks of every family too, or of some
    --families, and mixes them with the best n-grams; a twentieth of the
    training text is set aside to choose the best weights of networks and
    mixture. With -o, writes a page that works offline (index.html), its plots
    (.svg) and the table (table.md, table.json). With --smoothing all, the table
    has a row for each smoothing of n-gram models and a column for each order.

    With --labels, trains networks that label texts from scratch, and with
    --vectors each of them three times: with word vectors learned from scratch,
    tuned and fixed.

    With --source and --target, compares seq2seq models on the same pairs.

    p: a paired test against the best model, by approximate randomisation of
    the documents' bits, 10,000 times. ±95 %: half the width of the bootstrap
    interval.
    """
    given = given_settings(options)
    show = ResultOptions(output=output if is_table(output) else None, overwrite=overwrite, json=json)
    show.check()
    report = None if show.output is not None else output
    is_plain = (text, report, plot, heldout) == (None,) * 4 and reading.has_only(*RECORD_FLAGS)
    if labels is not None:
        if not is_plain or given.keys() & {"order", "smoothings", "families"}:
            raise CycloptsError(msg="--labels goes with --networks, --vectors, --minutes and the tokenizer alone.")
        _compare_labels(texts, labels, tokenizer, reading, show, **given)
        return
    if pairs != NO_PAIRS:
        if not is_plain or given or given_settings(tokenizer):
            raise CycloptsError(msg="--source and --target go with seq2seq models, --beam and --max-tokens alone.")
        compare_pairs(texts, pairs, reading, show)
        return
    if report is not None:
        from chainrule.features.compare.report import check_report_folder

        check_report_folder(report, overwrite=overwrite)
    if plot is not None:
        if "smoothings" in given:
            raise CycloptsError(
                msg="--plot draws learning curves and positions; with --smoothing there is only a table."
            )
        check_plot("--plot", plot, overwrite=overwrite)
    if text is not None:
        named = ["heldout"] * (heldout is not None) + ["smoothing" if name == "smoothings" else name for name in given]
        refuse(named, "is for training models; --text compares saved ones")
        comparison, about = _compare_models(texts, text, tokenizer, markers, reading, ends=ends)
    elif "smoothings" in given:
        for name in ("minutes", "families"):
            if name in given:
                raise CycloptsError(msg=f"--smoothing compares n-gram models alone; leave out --{name}.")
        several = SmoothingsOptions(**given)
        with _train_and_heldout(texts, heldout, reading) as (train, measured, progress):
            table = compare_smoothings(train, measured, several, tokenizer, markers or "error", progress)
        _show(table, _about(train, measured), show, report)
        return
    else:
        from chainrule.features.compare.ladder import check_families

        families = FamiliesOptions(**given)
        check_families(families.families, has_minutes=families.minutes is not None)
        comparison, about = _compare_families(texts, heldout, families, tokenizer, markers or "error", reading)
    if plot is not None:
        drawn = comparison.plot()
        write_plot(drawn, plot)
        print(f"wrote {plot}: {comparison.plots()[0].full_title.lower()}", file=sys.stderr)
    _show(comparison, about, show, report, texts if text is not None else ())


def _show(
    comparison: Comparison | SmoothingTable,
    about: str,
    show: ResultOptions,
    report: Path | None,
    models: Sequence[str] = (),
) -> None:
    """Write a report, if it has a folder, and show the table. models: the paths of those that were saved."""
    if report is not None:
        from chainrule.features.compare.report import PAGE, write_report

        command, explorer = ["chainrule", *sys.argv[1:]], explorer_of(models)
        files = write_report(
            comparison, report, about=about, command=command, explorer=explorer, overwrite=show.overwrite
        )
        if PAGE in files and not has_matplotlib():
            note(f"the page has tables instead of plots, which need {installing('report')}")
        print(f"{report}: {', '.join(files)}", file=sys.stderr)
    show.show(Shown(f"{about}\n\n{comparison}", comparison.as_json(), comparison.to_records()))


def _compare_labels(
    texts: tuple[str, ...],
    labels: str,
    tokenizer: TokenizerFlags,
    reading: TextOptions,
    show: ResultOptions,
    *,
    minutes: float | None = None,
    **options: Any,
) -> None:
    """Print a table of networks that label. Raises TextError, SettingError."""
    from chainrule.features.classify.inputs import INPUTS
    from chainrule.features.classify.network.config import LABELLING
    from chainrule.features.compare.supervised import compare_labels
    from chainrule.training.config import ClassifierTrainingConfig

    if len(texts) != 1:
        raise CycloptsError(msg="--labels takes one file of labelled inputs to train on, before the options.")
    config = LABELLING.get(LabelsOptions(**options).networks[0], LABELLING["bag"])()
    kind = INPUTS[config.reads]
    unit = kind.units[0]
    with progress_bar() as progress, bad_records(reading, "stop", texts[0], labels) as bad:
        table = compare_labels(
            kind.read(texts[0], unit, config, bad, progress),
            kind.read(labels, unit, config, bad, progress),
            training=ClassifierTrainingConfig(minutes=minutes),
            tokenizer=tokenizer_of(tokenizer) if given_settings(tokenizer) else None,
            progress=progress,
            **options,
        )
    about = f"trained on {texts[0]}, measured on {labels}"
    show.show(Shown(f"{about}\n\n{table}", table.as_json(), table.to_records()))


def _compare_models(
    models: tuple[str, ...],
    text: str,
    tokenizer: TokenizerFlags,
    markers: Markers | None,
    reading: TextOptions,
    *,
    ends: bool,
) -> tuple[Comparison, str]:
    """Compare saved models; also say what the table is about."""
    from chainrule.base.files import describe_duplicate
    from chainrule.features.compare.ladder import compare_models

    if not models:
        raise CycloptsError(msg="MODELS are missing; give the model folders or ARPA files to compare.")
    if text == "-" and len(models) > 1:
        raise CycloptsError(msg="Standard input, -, can be read only once, and each model reads the text.")
    twice = describe_duplicate(models)
    if twice is not None:
        raise CycloptsError(msg=f"MODELS name {twice}; a model is compared with others.")
    source = text_for([Path(name) for name in models], reading, text)
    config = tokenizer_of(tokenizer) if given_settings(tokenizer) else None
    # A folder has a tokenizer of its own. With ARPA files, the option is for these; without any, folders refuse it.
    of_folders = config if all(Path(name).is_dir() for name in models) else None
    with progress_bar() as progress:
        named = (
            (name, open_model(Path(name), of_folders if Path(name).is_dir() else config, markers, progress))
            for name in models
        )
        comparison = compare_models(named, source, progress, ends=ends)
    note_repairs(source)
    return comparison, f"measured on {text}"


def _compare_families(
    texts: tuple[str, ...],
    heldout: str | None,
    options: FamiliesOptions,
    tokenizer: TokenizerFlags,
    markers: Markers,
    reading: TextOptions,
) -> tuple[Comparison, str]:
    """Train every model on the texts and compare them; also say what the table is about."""
    from chainrule.features.compare.compare import SAMPLE_NAME, with_validation
    from chainrule.features.compare.ladder import run_ladder

    with _train_and_heldout(texts, heldout, reading) as (train, measured, progress):
        train, networks = with_validation(train, options.minutes, progress)
        try:
            comparison = run_ladder(
                train,
                measured,
                order=options.order,
                tokenizer=tokenizer_of(tokenizer),
                markers=markers,
                networks=networks,
                families=options.families,
                progress=progress,
            )
        except KeyboardInterrupt:  # a network would name its folder, and has none here
            raise KeyboardInterrupt("interrupted before the table was complete; no report was written") from None
    if options.minutes is None:
        return comparison, _about(train, measured)
    return comparison, _about_networks(", ".join(texts) or SAMPLE_NAME, heldout, options.minutes)


def _about_networks(whole: str, heldout: str | None, minutes: float) -> str:
    """Describe a table with networks: their text has a third part, to choose weights by."""
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
    """Yield the text to train on, the text to measure on, and a progress bar; afterwards, print notes on repairs."""
    from chainrule.features.compare.compare import parts_of

    check_read_once(*texts, heldout)
    folders = [name for name in texts if (Path(name) / "config.json").is_file()]
    if folders:
        raise CycloptsError(msg=f"{folders[0]} is a model; give the text to compare models on as --text.")
    if heldout in texts:
        note(f"{heldout}: is also trained on, so the figures will be too good")
    with progress_bar() as progress:
        whole, rest = (
            None if not names else reading.corpus(*names, beside=[*texts, heldout])
            for names in (texts, [heldout] if heldout else [])
        )
        train, measured = parts_of(whole, rest, progress)
        yield train, measured, progress
    note_repairs(train, measured)


def compare_pairs(models: tuple[str, ...], options: PairsOptions, reading: TextOptions, show: ResultOptions) -> None:
    """Measure seq2seq models and show a table. Raises as `evaluate_pairs`."""
    from chainrule.base.files import describe_duplicate
    from chainrule.features.compare.supervised import compare_pairs as compare_all

    if not models:
        raise CycloptsError(msg="MODELS are missing; give the folders of seq2seq models to compare.")
    twice = describe_duplicate(models)
    if twice is not None:
        raise CycloptsError(msg=f"MODELS name {twice}; a model is compared with others.")
    if options.pairs is None:
        refuse(given_settings(reading), "is for --pairs")
    with progress_bar() as progress, bad_records(reading, "stop", *filter(None, [options.pairs])) as bad:
        pairs = read_pairs_for(options, progress, bad)
        table = compare_all(models, pairs, progress=progress, **given_settings(options.writing))
    note_left_out(pairs)
    show.show(table)
