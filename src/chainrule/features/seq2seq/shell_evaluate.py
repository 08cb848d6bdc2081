"""What `chainrule evaluate` does with seq2seq models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.base.tables import count_of
from chainrule.cli.shared.measures import ShellMeasure
from chainrule.cli.shared.options import FILE, NO_FLAGS, Flags, given_settings, refuse
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.cli.shared.texts import bad_records
from chainrule.features.seq2seq.options import MeasureOptions, TargetBeam

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.base.progress import Progress
    from chainrule.cli.shared.measures import Given
    from chainrule.text.corpus.records import OnBad
    from chainrule.text.parallel import Pairs


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PairsOptions:
    """What a seq2seq model is measured on."""

    source: Annotated[str | None, FILE, Parameter(help="Source texts, one a line, for a seq2seq model.")] = None
    target: Annotated[str | None, FILE, Parameter(help="Their targets, one a line.")] = None
    pairs: Annotated[
        str | None,
        FILE,
        Parameter(help="Both in one file, as `train seq2seq --pairs` reads it: tabs, records, conversations."),
    ] = None
    writing: Flags[MeasureOptions] = NO_FLAGS


NO_PAIRS = PairsOptions()


def measure_seq2seq(model: Path, options: PairsOptions, given: Given) -> None:
    """Measure a seq2seq model and show the result. Raises as `ShellMeasure`."""
    if (options.source, options.target, options.pairs) == (None, None, None):
        raise CycloptsError(msg=f"{model} is a seq2seq model; measure it with --pairs, or --source and --target.")
    given.refuse_texts("--source, --target and --pairs", "seq2seq models")
    if options.pairs is None:
        refuse(given_settings(given.reading), "is for --pairs")
    from chainrule.features.seq2seq.model import Seq2SeqModel
    from chainrule.models.files.opening import load

    with progress_bar() as progress:
        with bad_records(given.reading, "stop", *filter(None, [options.pairs])) as bad:
            pairs, writing = read_pairs_for(options, progress, bad), given_settings(options.writing)
        loaded = load(model, Seq2SeqModel, progress=progress)
        measurement = loaded.evaluate(pairs, progress=progress, **writing)
    note_left_out(pairs)
    shortened = loaded.generator.shorten(pairs.sources).shortened
    if shortened:
        note(f"{count_of(shortened, 'source')} longer than the model reads; see long_sources of chainrule info {model}")
    given.show.show(measurement)


def read_pairs_for(options: PairsOptions, progress: Progress, bad: OnBad) -> Pairs:
    """Return the pairs. Raises CycloptsError, TextError, SettingError."""
    from chainrule.text.parallel import pairs_of

    MeasureOptions(**given_settings(options.writing))  # raises SettingError, before anything is read
    if options.pairs is not None:
        if options.source is not None or options.target is not None:
            raise CycloptsError(msg="--pairs has both sides; leave out --source and --target.")
        return pairs_of([options.pairs], progress=progress, on_bad=bad)
    if options.source is None or options.target is None:
        missing = "--source" if options.source is None else "--target"
        raise CycloptsError(
            msg=f"{missing} is missing: a seq2seq model is measured on --source and --target, or on --pairs."
        )
    return pairs_of([options.source, options.target], progress=progress)


def note_left_out(pairs: Pairs) -> None:
    """Note how many pairs were not read."""
    if pairs.left_out:
        note(f"{count_of(pairs.left_out, 'pair')} left out, since one side is empty")


def target_beam(flags: Any, best: int) -> TargetBeam:
    """Return a search for texts given a source. Raises SettingError."""
    return TargetBeam(**{"size": max(TargetBeam.size, best), "best": best} | given_settings(flags))


EVALUATE = ShellMeasure(PairsOptions, NO_PAIRS, measure_seq2seq)
