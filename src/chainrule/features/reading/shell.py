"""chainrule reading TIMES MODELS...: how well surprisal predicts reading times."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.measure.score import note_convention
from chainrule.cli.shared.models import as_read, names_of, open_model
from chainrule.cli.shared.options import FILE, NO_FLAGS, Flags, Json, Overwrite, given_settings
from chainrule.cli.shared.results import ResultOptions, check_plot, check_table
from chainrule.cli.shared.screen import progress_bar
from chainrule.cli.shared.texts import RecordFlags, bad_records
from chainrule.features.reading.options import ReadingTimesOptions
from chainrule.models.config import ReadingOptions


def reading(
    times: Annotated[
        str,
        FILE,
        Parameter(
            help="Reading times, a table with a key, and the words to check it by: .tsv, .csv, .jsonl or .parquet."
        ),
    ],
    /,
    *models: Annotated[Path, Parameter(help="Models: folders or files.", required=False)],
    text: Annotated[str, FILE, Parameter(help="All words in the order of reading, one a row, with the same key.")],
    output: Annotated[
        Path | None,
        Parameter(
            name=("--output", "-o"),
            help="Write a row for each word, for R: predictors, and ln of the density of its time by each model: "
            ".csv, .tsv, .jsonl or .parquet.",
        ),
    ] = None,
    plot: Annotated[
        Path | None, Parameter(help="Plot gain against bits per byte to a .pdf, .png or .svg file.")
    ] = None,
    options: Flags[ReadingTimesOptions] = NO_FLAGS,
    context: Flags[ReadingOptions] = NO_FLAGS,
    records: RecordFlags = NO_FLAGS,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Measure how well surprisal predicts reading times.

        $ chainrule reading times.tsv lm/ --text words.tsv --frequencies lexicon.tsv

    Times are regressed on the length, ln frequency and position of each word and
    of the words before it. gain: the increase of the log-likelihood of held-out
    times, per word, when the surprisals of the same words are added (psychometric
    power). Then the difference from the best model; the slope of the word's
    surprisal; R2 on all words. Intervals are bootstrapped over stories (--by). With
    --context-words 1 2 4, the table has a row for each size of context.

    Last come correlations of times with length and surprisal of the words two
    places later (z+2) to two before (z-2). If times correlate more with the next
    word than with the previous one, beyond chance, each time is in the row before
    its word: use --shift 1.
    """
    from chainrule.features.reading.reading_times import reading_times
    from chainrule.models.language_models import CausalModel

    settings = given_settings(options)
    if "frequencies" not in settings:
        raise CycloptsError(msg="--frequencies is missing: a file of counts (word, tab, count), or a unigram model.")
    if not models and "surprisals" not in settings:
        raise CycloptsError(msg="MODELS are missing; give at least one, or --surprisals.")
    ReadingTimesOptions(**settings)  # raises SettingError, before anything is opened
    check_table(output, times, text, overwrite=overwrite)
    if plot is not None:
        check_plot("--plot", plot, times, text, overwrite=overwrite)
    with progress_bar() as progress, bad_records(records, "stop", times, text) as bad:
        opened = {
            name: open_model(path, None, None, progress, kind=CausalModel)
            for name, path in zip(names_of(models), models, strict=True)
        }
        for own, path in zip(opened.values(), models, strict=True):
            note_convention(own, path, settings)
        measured = reading_times(times, text, as_read(opened, context), progress=progress, bad_records=bad, **settings)
    if output is not None:
        measured.save(output)
    if plot is not None:
        from chainrule.drawing.plots import write_plot

        write_plot(measured.plot(), plot)
    ResultOptions(json=json).show(measured)
