"""Models as theories of reading: how much better surprisal predicts reading times than length and frequency alone."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.options import takes
from chainrule.base.results import finite_figures
from chainrule.base.tables import text_table
from chainrule.drawing.plots import Axis, Line, line_plot
from chainrule.errors import SettingError, TextError
from chainrule.features.reading.options import ReadingTimesOptions
from chainrule.features.reading.regression import (
    LAGS,
    Fit,
    fold_numbers,
    held_out_log_probs,
    lag_profile,
    least_squares,
    mean_by_group,
    seems_shifted,
    slope,
)
from chainrule.features.reading.surprisal import columns_of_block, surprisal_column, words_of_texts
from chainrule.features.reading.tables import BARE, JoinedTimes, join_times
from chainrule.features.reading.word_frequencies import WordFrequencies
from chainrule.models.any_model import check_kind, check_model
from chainrule.models.language_models import CausalModel
from chainrule.models.model_info import info_of_model
from chainrule.models.progress_line import showing
from chainrule.text.corpus.bad_records import collecting
from chainrule.text.corpus.block import block_of_texts
from chainrule.text.corpus.writing import table_file
from chainrule.verbs.scored_texts import CountedWords
from chainrule.verbs.text_options import SurprisalOptions

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from jaxtyping import Bool, Float64, Int64
    from matplotlib.figure import Figure
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.evaluation.resampling import Estimate
    from chainrule.models.model import Model

    AnyPath = str | os.PathLike[str]


_FEW = 8  # groups, of which intervals are poor


class Power(NamedTuple):
    """What a model's surprisals add to the baseline.

    gain: the mean rise of ln of the density of a held-out time, in nats a word. slope: of the word's own surprisal, in
    ms a bit (with log, ln ms a bit). fit: on all words. behind: how much more the best model gains, if another is.
    bits_per_byte: of the text; signature: as `Measurement.signature`, of the model; both None where the surprisals are
    a column.
    """

    name: str
    bits_per_byte: float | None
    signature: str | None
    gain: Estimate
    slope: Estimate
    fit: Fit
    behind: Estimate | None

    def as_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "model": self.name,
            "bits_per_byte": self.bits_per_byte,
            "signature": self.signature,
        }
        for name, own in (("gain", self.gain), ("slope", self.slope), ("behind_the_best", self.behind)):
            record[name] = None if own is None else own.value
            record[f"{name}_low"], record[f"{name}_high"] = (None, None) if own is None else own.interval
        return {**record, "r_squared": self.fit.r_squared, "log_likelihood": self.fit.log_likelihood}


@dataclass(frozen=True)
class ReadingTimes:
    """The power of each model, the lag profile of the data, and the design matrix.

    by, groups, folds: the column of the groups that are held out and resampled, how many there are, and how many folds
    were asked for. convention: how words end in their surprisals, "uncorrected" without their ends.
    baseline: the regression without surprisals. profiles: correlations of times with a figure of the words at `LAGS`,
    by the figure's name; early: the figures of the next word that times go with, beyond chance. counts: how many times
    there were, joined, used and left out, by reason. rows: the design matrix, with keys, times and folds, and ln of the
    density of each time, by fits to the other folds: of the baseline, and with each model. left_out: why a model was
    not measured, by its name.
    """

    powers: Sequence[Power]
    baseline: Fit
    profiles: Mapping[str, Sequence[float]]
    counts: Mapping[str, int]
    rows: Sequence[Mapping[str, Any]] = field(repr=False)
    shift: int
    log: bool
    by: str = ""
    groups: int = 0
    folds: int = 0
    convention: str = "chainrule"
    early: Sequence[str] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    unknown: Sequence[str] = ()

    @property
    def coarse(self) -> str | None:
        """That there are fewer groups than folds were asked for, or few; None if neither."""
        fewer = self.groups < self.folds
        if not fewer and self.groups >= _FEW:
            return None
        held = f"there are {self.groups} groups by {self.by}"
        if fewer:
            held += f", so that the folds are {self.groups}, not {self.folds}"
        few = self.groups < _FEW
        return held + (
            "; intervals of so few groups are unsure, mostly too narrow: smaller groups, such as sentences (by), "
            "give better ones"
            if few
            else ""
        )

    @property
    def unguarded(self) -> str | None:
        """That a wrong key would not be noticed, where times come without their words; None where they have them."""
        missing = self.counts.get(BARE, 0)
        if not missing:
            return None
        return (
            f"{missing:,} of {self.counts['times']:,} times come without their word, so it could not be checked that "
            "they belong to these words: a key that is shuffled or counted from 0 would not be noticed. Give the table "
            "of times the column of words, too"
        )

    def notes(self) -> list[str]:
        """Return what to know of the figures: models that were left out, words that are unknown or were not checked,
        few groups, a shift.
        """
        left = [f"{name} is left out: {why}" for name, why in self.left_out.items()]
        return (
            left + [*self.unknown] + [note for note in (self.unguarded, self.coarse, self.warning) if note is not None]
        )

    @property
    def warning(self) -> str | None:
        """What speaks for times that stand beside the wrong word; None if nothing does."""
        if not self.early:
            return None
        profile = self.profiles[self.early[0]]
        return (
            f"times correlate with the {self.early[0]} of the next word (z+1: {profile[LAGS.index(1)]:.2f}) more than "
            f"with that of the previous one (z-1: {profile[LAGS.index(-1)]:.2f}), so each may be in the row before "
            f"its word; try a shift of {self.shift + 1}"
        )

    def __str__(self) -> str:
        unit = "ln ms/bit" if self.log else "ms/bit"
        digits = 4 if self.log else 2
        header = ["model", "bits/byte", "gain, 1e-3 nats/word", "95 %", "behind the best", "95 %", unit, "95 %", "R2"]
        rows = [["baseline", *[""] * 7, f"{self.baseline.r_squared:.3f}"]]
        for power in self.powers:
            gain, behind = (
                ("", "") if own is None else (f"{1000 * own.value:.1f}", _bounds(own, 1000, 1))
                for own in (power.gain, power.behind)
            )
            size = "" if power.bits_per_byte is None else f"{power.bits_per_byte:.3f}"
            own_slope = f"{power.slope.value:.{digits}f}", _bounds(power.slope, 1, digits)
            rows.append([power.name, size, *gain, *behind, *own_slope, f"{power.fit.r_squared:.3f}"])
        names = [f"z{lag:+d}" if lag else "z" for lag in LAGS]
        profiles = [[name, *(f"{value:.2f}" for value in own)] for name, own in self.profiles.items()]
        counted = ", ".join(f"{count:,} {name}" for name, count in self.counts.items())
        shifted = f"; times shifted by {self.shift}" if self.shift else ""
        profile = text_table(["correlation of times with", *names], profiles)
        if self.convention != "chainrule":
            shifted += f"; surprisals: {self.convention}"
        return f"{counted}{shifted}\n\n{text_table(header, rows)}\n\n{profile}"

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each model."""
        return [power.as_json() for power in self.powers]

    def as_json(self) -> dict[str, Any]:
        record: dict[str, Any] = finite_figures(
            {
                "shift": self.shift,
                "log": self.log,
                "counts": dict(self.counts),
                "baseline_r_squared": self.baseline.r_squared,
                "baseline_log_likelihood": self.baseline.log_likelihood,
                "models": [power.as_json() for power in self.powers],
                "lags": list(LAGS),
                "profiles": {name: list(profile) for name, profile in self.profiles.items()},
                "warning": self.warning,
                "left_out": dict(self.left_out),
                "unguarded": self.unguarded,
                "convention": self.convention,
                "by": self.by,
                "groups": self.groups,
                "folds": min(self.groups, self.folds),
                "coarse": self.coarse,
            }
        )
        return record

    def save(self, path: AnyPath) -> None:
        """Write the design matrix as a table: .csv, .tsv, .jsonl or .parquet. Raises OutputError."""
        with table_file(Path(path)) as write:
            for row in self.rows:
                write({name: [value] for name, value in row.items()})

    def plot(self) -> Figure:
        """Return the gain of each model against its bits per byte: a point each, with its 95 % interval, and from three
        models on the line through them by least squares.

        Raises SettingError without matplotlib.
        """
        points = [(power, power.bits_per_byte) for power in self.powers if power.bits_per_byte is not None]
        lines = [
            Line(
                label=power.name,
                x=[bits],
                y=[1000 * power.gain.value],
                look=i,
                intervals=[(1000 * power.gain.interval[0], 1000 * power.gain.interval[1])],
            )
            for i, (power, bits) in enumerate(points)
        ]
        bits = sorted({size for _, size in points})
        if len(bits) > 2:
            gain, start = np.polyfit([size for _, size in points], [1000 * power.gain.value for power, _ in points], 1)
            ends = [bits[0], bits[-1]]
            label = f"least squares: {gain:+.1f} a bit"
            line = Line(label=label, x=ends, y=[gain * end + start for end in ends], style="fit")
            lines.insert(0, line)  # under the points
        x, y = Axis(label="bits per byte"), Axis(label="gain in log-likelihood, 1e-3 nats a word")
        return line_plot("Better models, better predictions of reading times?", lines, x, y)


def _bounds(estimate: Estimate, scale: float, digits: int) -> str:
    low, high = (f"{scale * bound:.{digits}f}" for bound in estimate.interval)
    return f"{low} to {high}"


@takes(ReadingTimesOptions)
def reading_times(
    times: AnyPath, text: AnyPath, models: Model | Mapping[str, Model], options: ReadingTimesOptions
) -> ReadingTimes:
    """How well the surprisals of models predict reading times, beyond the length, frequency and place of words.

    times: a table with a time for each word (CSV, TSV, JSON lines or Parquet); it may be in any order. text: a table of
    all words in the order of reading, one a row, with the same key. models: by name. Give both the words: where a word
    differs, the key is wrong, and that is an error; without them, it cannot be noticed (`ReadingTimes.unguarded`).

    The baseline has length, ln frequency, their product and position; and but for position, the same of the previous
    words. To these, surprisals of the same words are added. Words without one of these are left out for all models
    alike, and counted. Raises TextError with file and row; SettingError.

    good:  reading_times("rts.tsv", "words.tsv", {"5-gram": lm}, frequencies="counts.txt", time="meanItemRT", shift=1)
    """
    by_name = dict(models) if isinstance(models, Mapping) else {"model": models}
    for model in by_name.values():
        check_model(model)
        check_kind(model, CausalModel)
    if options.frequencies is None:
        raise SettingError("frequencies are missing: give a file of counts (word, tab, count) or a unigram model")
    if not by_name and not options.surprisals:
        raise SettingError("there is no model; give at least one, or columns of surprisals")
    if twice := next((name for name in options.surprisals if name in by_name), None):
        raise SettingError(f"a model and a column of surprisals are both called {twice!r}; rename one")
    with showing(options.progress) as progress, collecting(options.bad_records, warnings.warn) as bad:
        return _measured(join_times(times, text, options, bad), by_name, options, progress)


def _measured(
    read: JoinedTimes, models: Mapping[str, Model], options: ReadingTimesOptions, progress: Progress
) -> ReadingTimes:
    assert options.frequencies is not None
    frequencies = WordFrequencies(options.frequencies).log_frequencies(read.words)
    figures = {
        "length": np.array([float(len(word)) for word in read.words]),
        "log_frequency": np.array([math.nan if value is None else value for value in frequencies]),
    }
    surprisals, sizes, unknown = dict(read.columns), dict[str, float](), list[str]()
    for done, (name, model) in enumerate(models.items()):
        progress("scoring", done, len(models))
        surprisals[name], sizes[name], counted = _surprisals(model, name, read, options)
        unknown += counted.notes(f"are unknown to {name}")
    starts = np.flatnonzero(np.diff(read.stories, prepend=-1))
    position = np.arange(len(read.words)) - starts[read.stories] + 1.0
    kept, counts = _complete(read, figures, surprisals, position, options)
    rows = np.flatnonzero(kept)
    base, names = _design(figures, rows, options.previous, position)
    times, groups = read.times[rows], read.groups[rows]
    folds = fold_numbers(groups, options.folds)
    baseline = held_out_log_probs(base, times, folds)
    columns: dict[str, ndarray] = {"log_density": baseline}
    gains: dict[str, ndarray] = {}
    designs: dict[str, ndarray] = {}
    left_out: dict[str, str] = {}
    for done, (name, values) in enumerate(surprisals.items()):
        progress("fitting", done, len(surprisals))
        own = np.column_stack([values[rows - k] for k in range(options.previous + 1)])
        design = np.column_stack([base, own])
        try:
            densities = held_out_log_probs(design, times, folds)
            gains[name] = densities - baseline
        except SettingError as error:
            left_out[name] = str(error)
            continue
        designs[name] = design
        columns[f"{name}_log_density"] = densities
        columns |= {f"{name}_surprisal" + f"_prev{k}" * (k > 0): own[:, k] for k in range(options.previous + 1)}
    if not gains:
        raise SettingError("; ".join(f"{name}: {why}" for name, why in left_out.items()))
    best = max(gains, key=lambda name: float(gains[name].mean()))
    powers = [
        Power(
            name,
            sizes.get(name),
            info_of_model(models[name].parts).signature if name in models else None,
            mean_by_group(gains[name], groups),
            slope(design, times, base.shape[1], groups),
            least_squares(design, times),
            None if name == best else mean_by_group(gains[best] - gains[name], groups),
        )
        for name, design in designs.items()
    ]
    around = {"length": figures["length"], **{f"surprisal ({name})": surprisals[name] for name in designs}}
    profiles = {name: lag_profile(read.times, values, read.stories) for name, values in around.items()}
    time = f"log_{options.time}" if options.log else options.time
    table = [
        {
            **read.keys[i],
            options.word: read.words[i],
            time: times[row],
            "group": int(groups[row]),
            "fold": int(folds[row]),
            **values,
        }
        for row, (i, values) in enumerate(
            zip(rows.tolist(), _as_rows({**dict(zip(names[1:], base.T[1:], strict=True)), **columns}), strict=True)
        )
    ]
    return ReadingTimes(
        powers,
        least_squares(base, times),
        profiles,
        counts,
        table,
        options.shift,
        options.log,
        options.by or read.story,
        len(set(groups.tolist())),
        options.folds,
        options.convention if options.word_ends else "uncorrected",
        [name for name, values in around.items() if seems_shifted(read.times, values, read.stories)],
        left_out,
        unknown,
    )


def _as_rows(columns: Mapping[str, Float64[ndarray, " n"]]) -> list[dict[str, float]]:
    return [dict(zip(columns, row, strict=True)) for row in np.column_stack([*columns.values()]).tolist()]


def _surprisals(
    model: Model, name: str, read: JoinedTimes, options: ReadingTimesOptions
) -> tuple[Float64[ndarray, " words"], float, CountedWords]:
    """Return the surprisal of each word in bits, given its story so far; bits per byte; the words. Raises TextError."""
    number = int(read.stories[-1]) + 1
    texts = [[read.words[i] for i in np.flatnonzero(read.stories == story)] for story in range(number)]
    joined = [" ".join(words) for words in texts]
    values: list[float] = []
    total, counted = 0.0, CountedWords()
    asked = SurprisalOptions(word_ends=options.word_ends, convention=options.convention, ends=True)
    is_limited = hasattr(model.engine, "read_contexts")  # whose words add up to the text only with our ends
    adds_up = is_limited and options.word_ends and options.convention == "chainrule"
    for words, rows in zip(texts, words_of_texts(model, joined, asked), strict=True):
        if len(rows) - 1 != len(words):
            raise TextError(
                f"the tokenizer of {name} writes the {len(words)} words of a story as {len(rows) - 1}: "
                f"{_first_difference(words, [row['word'] for row in rows])}; it cannot be joined with the times"
            )
        column = surprisal_column(asked) if options.word_ends else "uncorrected_bits"
        values += [row[column] for row in rows[:-1]]
        counted.add(words, [row["known"] for row in rows[:-1]])
        total += math.fsum(row["surprisal_bits" if adds_up else "uncorrected_bits"] for row in rows)
    if is_limited and not adds_up:
        whole, _ = columns_of_block(model, block_of_texts(joined), replace(asked, by="texts"))
        total = math.fsum(whole["surprisal_bits"])
    return np.array(values), total / sum(len(text.encode()) + 1 for text in joined), counted


def _first_difference(words: Sequence[str], others: Sequence[str]) -> str:
    pairs = zip(words, others, strict=False)
    return next((f"{word!r} as {other!r}" for word, other in pairs if word != other), "the last one is another")


def _complete(
    read: JoinedTimes,
    figures: Mapping[str, Float64[ndarray, " words"]],
    surprisals: Mapping[str, Float64[ndarray, " words"]],
    position: Float64[ndarray, " words"],
    options: ReadingTimesOptions,
) -> tuple[Bool[ndarray, " words"], dict[str, int]]:
    """Return which words have a time and all predictors, and how many are left out for which reason. Raises
    TextError.
    """
    counts, kept = dict(read.counts), np.isfinite(read.times)
    k = options.previous

    def drop(bad: Bool[ndarray, " words"], reason: str) -> None:
        nonlocal kept
        if number := int(np.count_nonzero(kept & bad)):
            counts[f"left out ({reason})"] = number
        kept &= ~bad

    drop(position <= k, "no word before" if k == 1 else f"fewer than {k} words before")
    everything = {"no frequency": [figures["log_frequency"]], "no surprisal": list(surprisals.values())}
    for reason, columns in everything.items():
        bad = np.asarray(~np.isfinite(np.array(columns)).all(axis=0))
        near = np.asarray(np.array([np.roll(bad, lag) for lag in range(k + 1)]).any(axis=0))
        drop(near, f"{reason}, or of a word before")
    if not kept.any():
        raise TextError(f"no word is left: {', '.join(f'{count:,} {name}' for name, count in counts.items())}")
    if np.ptp(read.times[kept]) == 0:
        raise TextError(f"{options.time} is the same for all words; expected times that differ")
    counts["used"] = int(np.count_nonzero(kept))
    return kept, counts


def _design(
    figures: Mapping[str, Float64[ndarray, " words"]],
    rows: Int64[ndarray, " n"],
    previous: int,
    position: Float64[ndarray, " words"],
) -> tuple[Float64[ndarray, "n p"], list[str]]:
    """Return the baseline: intercept, position, and length, ln frequency and their product of the word and of those
    before.
    """
    columns, names = [np.ones(rows.size), position[rows]], ["intercept", "position"]
    for k in range(previous + 1):
        suffix = f"_prev{k}" if k else ""
        length, frequency = figures["length"][rows - k], figures["log_frequency"][rows - k]
        columns += [length, frequency, length * frequency]
        names += [f"length{suffix}", f"log_frequency{suffix}", f"length_x_log_frequency{suffix}"]
    return np.column_stack(columns), names
