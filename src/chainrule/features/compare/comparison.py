"""Several models measured on one text: their table, and plots of learning curves and of bits per byte.

Figures share a column only if they are comparable: bits per byte need the same text, perplexities per token the same
tokens, too. So each normalised text has columns of its own, and perplexity per token is shown only if all models
tokenize the text alike. Bits per byte are plotted by position and by frequency.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from chainrule.base.results import finite
from chainrule.base.tables import cell, text_table
from chainrule.drawing.pages import html_table
from chainrule.drawing.plots import Axis, Line, Plot
from chainrule.errors import SettingError
from chainrule.evaluation.measurement import NO_DISTRIBUTION, group_name
from chainrule.evaluation.resampling import Difference, difference
from chainrule.features.compare.kept import kept_of
from chainrule.training.reports import is_untrained

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.figure import Figure

    from chainrule.evaluation.measurement import Breakdown, Measurement

PLOT_NAMES = ("learning-curves", "by-position", "by-frequency")
_BITS = Axis(label="bits per byte")
_READS_ON = "†"
_OMISSION = " Models that need more than twice the bits of the best are omitted."
_FEW = 6  # models that are all drawn in colours; of more, only the best of each kind


def plots_of(contenders: Sequence[Contender], best: Contender) -> list[Plot]:
    """Return the plots that there is data for.

    best: only models measured on the same text as this one are drawn with it.
    """
    looks = _looks(contenders)
    near_the_best = [one for one in contenders if _is_near(one, best)]
    drawn = [
        _learning_curves(contenders, looks),
        _by_group(
            near_the_best,
            looks,
            "by-position",
            "By position in the document",
            "By the position of a token in its document, from 1." + _OMISSION + _explain(contenders),
            "position in the document",
            lambda measured: measured.by_position,
        ),
        _by_group(
            near_the_best,
            looks,
            "by-frequency",
            "By word frequency",
            "By how often a token occurs in the training text; 0 includes the spelling of unknown tokens."
            + _OMISSION
            + _explain(contenders),
            "times in the training text",
            lambda measured: measured.by_frequency,
        ),
    ]
    return [plot for plot in drawn if plot is not None]


def _looks(contenders: Sequence[Contender]) -> dict[str, dict[str, Any]]:
    """Return by name how the line of each model looks: of many, all but the best of each kind are quiet."""
    if len(contenders) <= _FEW:
        return {one.name: {"look": row} for row, one in enumerate(contenders)}
    looks: dict[str, dict[str, Any]] = {one.name: {"style": "quiet"} for one in contenders}
    kinds = {"ngram": 0, "mixture": 2}  # and networks 1, in the order of their colours
    known = [one for one in contenders if one.family not in (None, "uniform") and one.measurement.is_distribution]
    for look in range(3):
        own = [one for one in known if kinds.get(one.family or "", 1) == look]
        if own:
            looks[min(own, key=lambda one: one.measurement.bits_per_byte).name] = {"look": look}
    return looks


def _learning_curves(contenders: Sequence[Contender], looks: Mapping[str, dict[str, Any]]) -> Plot | None:
    lines = [
        Line(label=one.name, x=[x for x, _ in one.curve], y=[y for _, y in one.curve], **looks[one.name])
        for one in contenders
        if one.curve
    ]
    if not lines:
        return None
    levels = {one.name: one.level for one in contenders if one.level is not None}
    best = min(levels, key=lambda name: levels[name], default=None)
    return Plot(
        name="learning-curves",
        title="Learning curves",
        explained="On the validation text of the networks. Models that are counted need no training curve; the best of "
        "them is the line without markers." + _explain(contenders),
        lines=lines,
        x=Axis(label="seconds of training"),
        y=_BITS,
        levels={} if best is None else {best: levels[best]},
    )


def _explain(contenders: Sequence[Contender]) -> str:
    return " Coloured: the best n-gram model, network and mixture." if len(contenders) > _FEW else ""


def _by_group(
    contenders: Sequence[Contender],
    looks: Mapping[str, dict[str, Any]],
    name: str,
    title: str,
    explained: str,
    label: str,
    breakdown_of: Callable[[Measurement], Breakdown | None],
) -> Plot | None:
    breakdowns = [(model.name, breakdown_of(model.measurement)) for model in contenders]
    known = [(name, breakdown) for name, breakdown in breakdowns if breakdown is not None]
    groups = sorted({group for _, breakdown in known for group in breakdown.groups})
    lines = [
        Line(label=name, x=range(len(groups)), y=list(map(breakdown.bits_per_byte, groups)), **looks[name])
        for name, breakdown in known
    ]
    if not any(math.isfinite(y) for line in lines for y in line.y):
        return None
    axis = Axis(label=label, categories=[group_name(group) for group in groups])
    return Plot(name=name, title=title, explained=explained, lines=lines, x=axis, y=_BITS)


def _is_near(contender: Contender, best: Contender) -> bool:
    """Return whether a model is comparable with the best and needs at most twice its bits."""
    measured = contender.measurement
    return (
        measured.text_signature == best.measurement.text_signature
        and measured.is_distribution
        and measured.bits_per_byte <= 2 * best.measurement.bits_per_byte
    )


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Bits per byte of several models of one configuration, which differ in their seeds."""

    names: tuple[str, ...]
    mean: float
    deviation: float  # the standard deviation of a sample


@dataclass(frozen=True, repr=False)
class Comparison:
    """Models measured on one text, in the order of the table. Raises SettingError if there is none."""

    contenders: Sequence[Contender]

    def __post_init__(self) -> None:
        if not self.contenders:
            raise SettingError("there is no model to compare; name one or more")

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.contenders)} models>\n{self}"

    def __str__(self) -> str:
        """Return the table and the notes below it."""
        return "\n".join([text_table(self.header(), self.rows()), "", *self.footnotes()])

    def _repr_html_(self) -> str:
        return html_table("", self.header(), self.rows(), self.footnotes())

    def plots(self) -> list[Plot]:
        """Return learning curves, and bits per byte by position and by frequency, as far as there is data."""
        return plots_of(self.contenders, self.best)

    def plot(self, name: str | None = None) -> Figure:
        """Return a matplotlib figure.

        name: learning-curves, by-position or by-frequency; by default the first with data. Raises SettingError if there
        is no such plot, or matplotlib is not installed.

        good:  chainrule.compare(["lm/", "net/"], "heldout.txt").plot().savefig("bits.pdf")
        """
        plots = {plot.name: plot for plot in self.plots()}
        if not plots or (name is not None and name not in plots):
            raise SettingError(
                f"there is no data for the plot {name or 'of these models'}"
                + (f"; expected one of {', '.join(plots)}" if plots else "")
            )
        return plots[name or next(iter(plots))].figure()

    @property
    def texts(self) -> list[str]:
        """The signatures of the measured texts: more than one if tokenizers normalise the text differently."""
        return list(dict.fromkeys(contender.measurement.text_signature for contender in self.contenders))

    def best_on(self, text: str) -> Contender:
        """Return the model with the fewest bits per byte on the text of this signature; the first of equals.

        A model that is not a distribution is the best only if none is.
        """
        same = [contender for contender in self.contenders if contender.measurement.text_signature == text]
        return min(same, key=lambda one: (not one.measurement.is_distribution, one.measurement.bits_per_byte))

    @property
    def best(self) -> Contender:
        """The best model on the first contender's text."""
        return self.best_on(self.texts[0])

    @cached_property
    def differences(self) -> list[Difference | None]:
        """The difference of each model to the best on its text; None for the best itself, and for one that is no
        distribution.
        """
        differences = []
        for contender in self.contenders:
            best = self.best_on(contender.measurement.text_signature)
            ours, theirs = contender.measurement.per_document, best.measurement.per_document
            comparable = contender.measurement.is_distribution
            differences.append(difference(ours, theirs) if comparable and contender is not best else None)
        return differences

    @cached_property
    def digits(self) -> int:
        """How many decimals bits per byte are shown with: the fewest from 4 to 8 by which no model looks as good as the
        best, but differs from it with p below 0.05.
        """
        pairs = [
            (one.measurement.bits_per_byte, self.best_on(one.measurement.text_signature).measurement.bits_per_byte)
            for one, gap in zip(self.contenders, self.differences, strict=True)
            if gap is not None and gap.p_value is not None and gap.p_value < 0.05
        ]
        wide = [n for n in range(4, 9) if all(f"{one:.{n}f}" != f"{best:.{n}f}" for one, best in pairs)]
        return min(wide, default=8)

    def spreads(self) -> list[Spread]:
        """Return the spread of each configuration that has several models of different seeds on one text."""
        return list(self._spreads().values())

    def _spreads(self) -> dict[tuple[str | None, str], Spread]:
        """Return the spreads by configuration and text. Models with the same seed are copies: only the first counts."""
        groups: dict[tuple[str | None, str], dict[int, Contender]] = {}
        for contender in self.contenders:
            if contender.configuration is not None and contender.seed is not None:
                groups.setdefault(_group(contender), {}).setdefault(contender.seed, contender)
        return {key: _spread(list(group.values())) for key, group in groups.items() if len(group) > 1}

    def header(self) -> list[str]:
        columns = ["bits/byte", "±95 %", "p"]
        if len(self.texts) > 1:
            columns = [f"{column} [{n}]" for n in range(1, len(self.texts) + 1) for column in columns]
        return ["model", *columns, *self._perplexities(), "parameters", "train s", "eval s"]

    def rows(self) -> list[list[str]]:
        """Return the cells, for people.

        ±95 %: half of the interval. p: of the paired test against the best on the text.
        """
        rows = []
        for contender, gap in zip(self.contenders, self.differences, strict=True):
            measured = contender.measurement
            low, high = measured.interval
            is_best = contender is self.best_on(measured.text_signature)
            p_value = "best" if is_best else "" if gap is None else cell(gap.p_value, ".4f")
            mark = "" if measured.is_distribution else "*"
            bits = [f"{measured.bits_per_byte:.{self.digits}f}{mark}", cell((high - low) / 2, ".4f"), p_value]
            columns = [own for text in self.texts for own in (bits if text == measured.text_signature else [""] * 3)]
            perplexities = [shown(measured) + mark * (name != "OOV") for name, shown in self._perplexities().items()]
            cost = [cell(contender.parameters, ","), cell(contender.train_seconds, ".2f"), f"{measured.seconds:.2f}"]
            reads_on = _READS_ON if contender in self._reading_on() else ""
            rows.append([contender.name + reads_on, *columns, *perplexities, *cost])
        return rows

    def footnotes(self) -> list[str]:
        """Return the lines below the table: the best model, signatures, spreads."""
        several = len(self.texts) > 1
        lines = []
        for n, text in enumerate(self.texts, 1):
            best = self.best_on(text)
            where = f"[{n}] " if several else ""
            lines += [f"{where}best by bits per byte: {best.name}", f"{where}signature  {best.measurement.signature}"]
        lines += [
            f"{contender.name} had too little time: its validation loss is no better than a unigram model's"
            for contender in self.contenders
            if is_untrained(contender.record)
        ]
        lines += [
            f"{contender.name}: {note}" for contender in self.contenders for note in contender.measurement.notes()
        ]
        lines += map(str, kept_of(self.contenders))
        if not all(contender.measurement.is_distribution for contender in self.contenders):
            lines.append(f"* {NO_DISTRIBUTION}")
        if self._reading_on():
            lines.append(f"{_READS_ON} reads on across documents; the others begin each document anew")
        if several:
            lines.append("The tokenizers normalise this text differently, so their figures cannot share a column.")
        lines += [
            f"{len(spread.names)} models that differ only in their seeds: {spread.mean:.4f} bits per byte on average, "
            f"standard deviation {spread.deviation:.4f} ({', '.join(spread.names)})"
            for spread in self.spreads()
        ]
        return lines

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each model, of numbers, strings and None: for pandas.DataFrame."""
        return [
            {**contender.cost(), "p_value": gap.p_value if gap else None, **contender.measurement.to_dict()}
            for contender, gap in zip(self.contenders, self.differences, strict=True)
        ]

    def as_json(self) -> list[dict[str, Any]]:
        """Return a row for each model for JSON; null for figures that are infinite, unknown or do not apply.

        `spread` is that of the models of its configuration, and the same in all their rows. `kept`: what it keeps
        of its teachers.
        """
        spreads, kept = self._spreads(), kept_of(self.contenders)
        return [
            {
                **contender.cost(),
                "to_best": gap and _as_json(gap),
                "spread": _spread_as_json(spreads.get(_group(contender)), contender.name),
                **contender.measurement.as_json(),
                "kept": [{**row._asdict(), "share": row.share} for row in kept if row.student == contender.name],
                "by_position": _rows(contender.measurement.by_position),
                "by_frequency": _rows(contender.measurement.by_frequency),
                "level": contender.level,
                "curve": [list(point) for point in contender.curve],
                "samples": list(contender.samples),
            }
            for contender, gap in zip(self.contenders, self.differences, strict=True)
        ]

    def _reading_on(self) -> list[Contender]:
        """Return the models that see the documents before, where others do not."""
        reading = [one for one in self.contenders if "context:document" not in one.measurement.model_signature]
        return [] if len(reading) == len(self.contenders) else reading

    def _perplexities(self) -> dict[str, Any]:
        """Return the perplexities that are comparable between all contenders: column names and functions for cells."""
        if len(self.texts) > 1:
            return {}
        if len({contender.measurement.token_signature for contender in self.contenders}) > 1:
            return {"word perplexity": lambda measured: f"{measured.word_perplexity:,.2f}"}
        return {
            "perplexity": lambda measured: f"{measured.perplexity:,.2f}",
            "without OOV": lambda measured: f"{measured.perplexity_without_oov:,.2f}",
            "OOV": lambda measured: f"{measured.oov / max(measured.tokens, 1):.2%}",
        }


def _group(contender: Contender) -> tuple[str | None, str]:
    return contender.configuration, contender.measurement.text_signature


def _spread(group: list[Contender]) -> Spread:
    bits = [contender.measurement.bits_per_byte for contender in group]
    return Spread(
        names=tuple(contender.name for contender in group),
        mean=statistics.fmean(bits),
        deviation=statistics.stdev(bits) if all(map(math.isfinite, bits)) else math.nan,
    )


def _rows(breakdown: Breakdown | None) -> list[dict[str, Any]] | None:
    return None if breakdown is None else breakdown.as_json()


def _as_json(gap: Difference) -> dict[str, float | None]:
    low, high = gap.interval
    figures = {"bits_per_byte": gap.bits_per_byte, "low": low, "high": high, "p_value": gap.p_value}
    return {name: finite(value) for name, value in figures.items()}


def _spread_as_json(spread: Spread | None, name: str) -> dict[str, Any] | None:
    """Return the spread for JSON; None if it does not count the model of this name."""
    if spread is None or name not in spread.names:
        return None
    mean, deviation = finite(spread.mean), finite(spread.deviation)
    return {"models": list(spread.names), "bits_per_byte": mean, "standard_deviation": deviation}


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A model's name, its figures on the held-out text, and the cost of its training."""

    name: str
    measurement: Measurement
    family: str | None = None  # of the model
    train_seconds: float | None  # None if unknown
    parameters: int | None  # trained numbers: weights, or stored probabilities and backoffs
    configuration: str | None = None  # models with the same one differ only in their seeds
    seed: int | None = None  # of the training; None if it has no randomness
    size: int | None = None  # bytes of all arrays in a model folder
    curve: tuple[tuple[float, float], ...] = ()  # seconds of training, and validation bits per byte
    level: float | None = None  # validation bits per byte of a model that is counted and so has no curve
    samples: tuple[str, ...] = ()  # generated texts
    record: dict[str, Any] = field(default_factory=dict)  # of its training

    def cost(self) -> dict[str, Any]:
        """Return the model's name, size and time of training: what rows begin with."""
        size = {"parameters": self.parameters, "size_bytes": self.size}
        return {"model": self.name, **size, "train_seconds": self.train_seconds}
