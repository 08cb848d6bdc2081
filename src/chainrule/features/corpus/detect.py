"""Scores each token of texts by its rank under a model, and measures how well that tells who wrote them; draws pages.

`ranks_page` colours tokens by their ranks, `quiz_page` lets people guess. Pages need no other file.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from chainrule.base.arguments import as_texts
from chainrule.base.files import check_new_file, replace_file
from chainrule.base.options import takes
from chainrule.base.results import finite_figures
from chainrule.base.tables import on_one_line, printable, text_table
from chainrule.drawing.pages import html_table, render
from chainrule.drawing.plots import Axis, Line, Plot
from chainrule.errors import SettingError
from chainrule.features.corpus.detection import BOUNDS, RankedText, curvatures, rank_texts
from chainrule.features.corpus.options import DetectOptions
from chainrule.features.metrics.classification import Roc, roc
from chainrule.models.any_model import check_kind
from chainrule.models.language_models import CausalModel, MaskedModel
from chainrule.models.progress_line import showing

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from matplotlib.figure import Figure

    from chainrule.base.progress import Progress

_AT = 0.05  # false positives
GROUPS = ("top 10", "top 100", "top 1000", "other")  # of ranks


@dataclass(frozen=True)
class DetectedText:
    """A text with its tokens ranked. curvature: None without a masked model."""

    text: str
    ranked: RankedText = field(repr=False)
    curvature: float | None = None

    def statistics(self) -> dict[str, float]:
        """Return the statistics by name; each is larger where a machine is likelier to have written the text."""
        ranked = self.ranked
        curvature = {} if self.curvature is None else {"curvature": self.curvature}
        return {"log-probability": ranked.mean_log_prob, "log-rank": -ranked.mean_log_rank, **curvature}

    @property
    def figures(self) -> str:
        """The shares of ranks and the means, in a line."""
        shares = ", ".join(
            f"{name} {100 * share:.1f} %" for name, share in zip(GROUPS, self.ranked.shares, strict=True)
        )
        curvature = "" if self.curvature is None else f", curvature {self.curvature:.2f}"
        means = f"mean log-probability {self.ranked.mean_log_prob:.3f}, mean log-rank {self.ranked.mean_log_rank:.3f}"
        return f"{shares}; {means}{curvature}"

    def to_dict(self) -> dict[str, Any]:
        """Return a row for pandas."""
        names = [f"top_{bound}" for bound in BOUNDS]
        shares = dict(zip(names, np.cumsum(self.ranked.shares[:-1]).tolist(), strict=True))
        figures = {"mean_log_prob": self.ranked.mean_log_prob, "mean_log_rank": self.ranked.mean_log_rank}
        curvature = {} if self.curvature is None else {"curvature": self.curvature}
        return {"text": self.text, "tokens": len(self.ranked.ranks), **shares, **figures, **curvature}

    def __str__(self) -> str:
        """Return a line for each token: its rank, log-probability and text; then the figures."""
        lines = [
            f"{row['rank']}\t{row['log_prob']:.6f}\t{printable(on_one_line(row['token'].strip()))}"
            for row in self.to_records()
        ]
        return "\n".join([*lines, self.figures, ""])

    def as_json(self) -> dict[str, Any]:
        """Return the figures and the tokens, for JSON."""
        return cast("dict[str, Any]", finite_figures({**self.to_dict(), "ranked": self.to_records()}))

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each token."""
        columns = zip(self.ranked.pieces, self.ranked.ranks.tolist(), self.ranked.log_probs.tolist(), strict=True)
        return [{"token": piece, "rank": rank, "log_prob": log_prob} for piece, rank, log_prob in columns]


@dataclass(frozen=True)
class DetectionMeasurement:
    """How well each statistic tells the texts by machines from those of people."""

    human: int
    machine: int
    by_statistic: dict[str, Roc]

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each statistic, with how many texts it was measured on."""
        rows = []
        for name, curve in self.by_statistic.items():
            low, high = curve.interval
            rows.append(
                {
                    "statistic": name,
                    "area": curve.area,
                    "low": low,
                    "high": high,
                    "found_at_5_percent": curve.true_positives_at(_AT),
                    "human": self.human,
                    "machine": self.machine,
                }
            )
        return rows

    def __str__(self) -> str:
        rows = [
            [
                row["statistic"],
                f"{row['area']:.3f}",
                f"{row['low']:.3f} to {row['high']:.3f}",
                f"{100 * row['found_at_5_percent']:.1f} %",
            ]
            for row in self.to_records()
        ]
        table = text_table(["statistic", "area under ROC", "95 %", "found at 5 % false alarms"], rows)
        return f"{table}\n{self.human:,} texts by people, {self.machine:,} by a machine"

    def as_json(self) -> list[dict[str, Any]]:
        """Return the statistics, for JSON."""
        return self.to_records()

    def plot(self) -> Figure:
        """Return the ROC curves."""
        lines = [
            Line(label=name, x=(100 * curve.false_positives).tolist(), y=(100 * curve.true_positives).tolist())
            for name, curve in self.by_statistic.items()
        ]
        return Plot(
            name="roc",
            title="ROC",
            explained="The share of machine texts that are found, by the share of human texts that are taken for them.",
            lines=lines,
            x=Axis(label="false alarms (%)"),
            y=Axis(label="machines found (%)"),
        ).figure()

    def _repr_html_(self) -> str:
        rows = [
            [row["statistic"], f"{row['area']:.3f}", f"{row['low']:.3f} to {row['high']:.3f}"]
            for row in self.to_records()
        ]
        title = f"{self.human:,} texts of people, {self.machine:,} of machines"
        return html_table(title, ["statistic", "area under ROC", "95 %"], rows)


@takes(DetectOptions)
def detect(model: CausalModel, texts: Iterable[str], options: DetectOptions) -> list[DetectedText]:
    """Return the rank and log-probability of each token of some texts under a model.

    The options are those of `DetectOptions`. Raises SettingError, TextError, MarkerError.

    good:  [found] = chainrule.detect(model, ["a text"]); found.ranked.ranks
    """
    with showing(options.progress) as progress:
        return _detect(model, texts, options, progress)


def _detect(model: CausalModel, texts: Iterable[str], options: DetectOptions, progress: Progress) -> list[DetectedText]:
    masked = options.masked
    check_kind(model, CausalModel)
    if masked is not None:
        check_kind(masked, MaskedModel)
    texts = as_texts(texts)
    ranked = rank_texts(model.language_model, model.tokenizer, texts, progress)
    if masked is None:
        return [DetectedText(text, row) for text, row in zip(texts, ranked, strict=True)]
    found = curvatures(
        model.language_model,
        model.speller,
        model.tokenizer,
        masked.engine,
        masked.tokenizer,
        texts,
        options.perturbations,
        seed=options.seed,
        progress=progress,
    )
    return [DetectedText(*columns) for columns in zip(texts, ranked, found.tolist(), strict=True)]


@takes(DetectOptions)
def measure_detection(
    model: CausalModel, human: Iterable[str], machine: Iterable[str], options: DetectOptions
) -> DetectionMeasurement:
    """Return how well a model's statistics tell texts by machines from those of people; the options are those of
    `detect`.

    good:  chainrule.measure_detection(model, human=people, machine=model.generate(n=100)).to_records()
    """
    with showing(options.progress) as progress:
        people, machines = (_detect(model, texts, options, progress) for texts in (human, machine))
    if not people or not machines:
        raise SettingError(
            f"there are {len(people)} texts by people and {len(machines)} by machines; give some of both"
        )
    names = list(people[0].statistics())
    columns = {
        name: roc(*(np.array([found.statistics()[name] for found in texts]) for texts in (people, machines)))
        for name in names
    }
    return DetectionMeasurement(len(people), len(machines), columns)


_ABOUT = (
    "The colour of a token says how many tokens the model found likelier in its place. Point at a token for its rank, "
    "its probability and the likeliest ones."
)
# Brown et al. 2020, section 3.9.4 and figure 3.14.
_COMPARISON = (
    "Guessing is right half of the time. People told GPT-3's news articles from real ones in 52 % of the cases on "
    "average, and in 12 % for the article that fooled most of them (Brown et al. 2020, section 3.9.4)."
)


class ShownToken(NamedTuple):
    """A token on a page.

    before: the white space before it. group: the index of its group of ranks, from 0. title: the tooltip.
    """

    before: str
    text: str
    group: int
    title: str


class ShownText(NamedTuple):
    """A text on a page, with its figures. figures: the figures below the text."""

    tokens: Sequence[ShownToken]
    figures: str


def draw_ranks(texts: Iterable[DetectedText], path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Draw texts as a page, .html, with each token in the colour of its rank. Raises OutputError.

    good:  chainrule.draw_ranks(chainrule.detect(model, ["a text"]), "ranks.html")
    """
    shown = []
    for each in texts:
        ranked = each.ranked
        columns = zip(
            ranked.pieces, ranked.groups.tolist(), ranked.ranks.tolist(), ranked.log_probs, ranked.likelier, strict=True
        )
        tokens = [
            ShownToken(
                *without_space(piece),
                group,
                f"rank {rank:,}, {100 * math.exp(log_prob):.3g} %; likeliest: {', '.join(likelier)}",
            )
            for piece, group, rank, log_prob, likelier in columns
            if piece
        ]
        shown.append(ShownText(tokens, each.figures))
    _write(Path(path), ranks_page("How likely was each token?", GROUPS, shown), overwrite=overwrite)


def without_space(piece: str) -> tuple[str, str]:
    """Return the white space before a token, and the rest; a token of white space alone is kept."""
    token = piece.lstrip() or piece
    return piece[: len(piece) - len(token)], token


def draw_quiz(
    people: Sequence[str],
    machines: Sequence[str],
    path: str | os.PathLike[str],
    *,
    n: int = 10,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Draw a page, .html, on which a person says of each text who wrote it. n: how many texts of each kind.

    Raises SettingError, OutputError.
    """
    if not 1 <= n <= min(len(people), len(machines)):
        raise SettingError(
            f"n is {n}, but there are {len(people):,} texts by people and {len(machines):,} by machines; expected "
            "1 or more, and as many of each"
        )
    _write(Path(path), quiz_page(people[:n], machines[:n], seed), overwrite=overwrite)


def _write(path: Path, page: str, *, overwrite: bool) -> None:
    if path.suffix.lower() != ".html":
        raise SettingError(f"{path}: the name of a page must end in .html")
    check_new_file(path, overwrite=overwrite)
    with replace_file(path) as file:
        file.write(page.encode())


def ranks_page(title: str, groups: Sequence[str], texts: Sequence[ShownText]) -> str:
    """Return a page with the tokens of some texts in colours. groups: what the colours mean."""
    return render("ranks.html.j2", title=title, about=_ABOUT, groups=groups, texts=texts)


def quiz_page(people: Sequence[str], machines: Sequence[str], seed: int) -> str:
    """Return a page on which a person says of each text, in random order, who wrote it. The key is in the page."""
    texts = [*((text, "p") for text in people), *((text, "m") for text in machines)]
    order = np.random.default_rng(seed).permutation(len(texts)).tolist()
    return render(
        "quiz.html.j2",
        title="Who wrote it?",
        about=f"{len(people)} of these texts are by people, {len(machines)} by a language model. Which?",
        texts=[texts[i][0] for i in order],
        key=base64.b64encode("".join(texts[i][1] for i in order).encode()).decode(),
        comparison=_COMPARISON,
    )
