"""How good corrections are: errors before and after, F0.5 of edits (ERRANT), GLEU, and calibrated probabilities.

Also measured: the share of errors that are fixed, and of right words that are broken. Words are aligned with a
reference's by a shortest edit script, of the text before and after alike. With several references, each counts alike.
Intervals are bootstrapped over texts.

The package errant, optional and imported on first use, cuts a correction into edits (Bryant, Felice and Briscoe 2017).
An edit is right if an annotator has the same one: the same tokens become the same others. Of a text's annotators, the
one counts with whom F0.5 is highest.

A change is right if the text with it alone has fewer word errors than without. Its probability is calibrated by slope
and intercept of its log-odds (Platt, Probabilistic outputs for support vector machines, 1999); `judge_changes` also
finds the probability from which on making changes pays.
"""

from __future__ import annotations

from dataclasses import asdict
from difflib import SequenceMatcher
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from chainrule.errors import SettingError
from chainrule.evaluation.resampling import Estimate, interval_of_sums
from chainrule.features.metrics.bleu import drawn_statistics, expected_gleu, gleu_of_sums, gleu_statistics
from chainrule.features.metrics.error_rates import CharacterErrors, WordErrors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtyping import Bool, Float64, Int64
    from numpy import ndarray

    from chainrule.features.correct.corrector.config import CorrectionSettings
    from chainrule.features.metrics.error_rates import CorpusMeasure


class Edit(NamedTuple):
    """Tokens start to stop of a text that become others."""

    start: int
    stop: int
    after: str


def has_errant() -> bool:
    """Return whether the package errant is installed."""
    return find_spec("errant") is not None


def errant_edits() -> Callable[[str, str], frozenset[Edit]]:
    """Return a function that cuts a correction, a text and the corrected one, into edits.

    Raises SettingError where errant is missing.
    """
    if not has_errant():
        raise SettingError(
            "F0.5 of edits needs the package errant and a model of spaCy: pip install errant, "
            "python -m spacy download en_core_web_sm"
        )
    errant: Any = import_module("errant")
    try:
        annotator = errant.load("en")
    except OSError as error:
        raise SettingError(f"errant cannot be used: {str(error).splitlines()[0]}") from error

    def edits(text: str, corrected: str) -> frozenset[Edit]:
        found = annotator.annotate(annotator.parse(text), annotator.parse(corrected))
        return frozenset(Edit(one.o_start, one.o_end, one.c_str) for one in found)

    return edits


def edit_statistics(
    texts: Sequence[str],
    corrected: Sequence[str],
    references: Sequence[Sequence[str]],
    edits: Callable[[str, str], frozenset[Edit]],
) -> Int64[ndarray, "texts 3"]:
    """Return the numbers of right edits, wrong edits and missing edits.

    references: for each annotator, a reference for each text.
    """
    rows = np.zeros((len(texts), 3), np.int64)
    total = np.zeros(3, np.int64)
    for row, text, result, *meant in zip(rows, texts, corrected, *references, strict=True):
        ours = edits(text, result)
        options = [_counts(ours, edits(text, one)) for one in dict.fromkeys(meant)]
        # As the authors' script: the annotator with whom the figure of the corpus so far is highest.
        row[:] = max(options, key=lambda one: (f_half(total + one), one[0], -one[1], -one[2]))
        total += row
    return rows


def _counts(ours: frozenset[Edit], theirs: frozenset[Edit]) -> Int64[ndarray, " 3"]:
    return np.array([len(ours & theirs), len(ours - theirs), len(theirs - ours)], np.int64)


def f_half(sums: Float64[ndarray, "*several 3"]) -> Float64[ndarray, "*several"]:
    """Return F0.5: precision counts twice as much as recall. 1 where nothing is to be corrected and nothing is."""
    sums = np.asarray(sums, np.float64)
    right, wrong, lacking = sums[..., 0], sums[..., 1], sums[..., 2]
    everything = 1.25 * right + wrong + 0.25 * lacking
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(everything == 0, 1.0, 1.25 * right / everything)


_DRAWS_IN_INTERVALS = 16  # of references, for each resample


class CorrectionMeasures(NamedTuple):
    """Measures of corrections.

    word_errors, character_errors, gleu: before and after; shares, not percent. fixed: the share of wrong words that are
    right afterwards. broken: the share of right words that are wrong afterwards. Both are None where there are no such
    words. words: how many words the references have. f_half: F0.5 of edits, by errant, if requested. changes: each with
    its probability and its gain.
    """

    word_errors: tuple[Estimate, Estimate]
    character_errors: tuple[Estimate, Estimate]
    gleu: tuple[Estimate, Estimate]
    fixed: Estimate | None
    broken: Estimate | None
    words: int
    f_half: Estimate | None = None
    changes: JudgedChanges | None = None

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the rows of a table: name, before, after."""
        both = (("word error rate", self.word_errors), ("character error rate", self.character_errors))
        rows = [(name, before.percent(), after.percent()) for name, (before, after) in (*both, ("GLEU", self.gleu))]
        for name, share in (("wrong words fixed", self.fixed), ("right words broken", self.broken)):
            rows.append((name, "", "–" if share is None else share.percent()))
        if self.f_half is not None:
            rows.append(("F0.5 of edits (errant)", "", self.f_half.percent()))
        return [(f"{self.words:,} words", "before", "after"), *rows]

    def __str__(self) -> str:
        lines = [f"{name:24} {before:>26} {after:>26}" for name, before, after in self.rows()]
        return "\n".join([*lines, *([] if self.changes is None else ["", str(self.changes)])])


def measure_corrections(
    texts: Sequence[str],
    corrected: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    edits: Callable[[str, str], frozenset[Edit]] | None = None,
) -> CorrectionMeasures:
    """Return the measures of corrections.

    texts: the uncorrected texts. corrected: the corrected text of each. references: one for each text, or several lists
    of such. edits: the function that cuts a correction into edits, for F0.5: `errant_edits()`. Raises SettingError
    where there are not as many of each.
    """
    several = references if references and not isinstance(references[0], str) else [references]
    lists = [[str(text) for text in one] for one in several]
    for one in (corrected, *lists):
        if len(one) != len(texts):
            raise SettingError(f"there are {len(texts):,} texts, but {len(one):,} of another list; give one for each")
    counts = np.sum([_word_counts(texts, corrected, one) for one in lists], axis=0)
    return CorrectionMeasures(
        word_errors=(_rate(WordErrors(), texts, lists), _rate(WordErrors(), corrected, lists)),
        character_errors=(_rate(CharacterErrors(), texts, lists), _rate(CharacterErrors(), corrected, lists)),
        gleu=(_gleu(texts, texts, lists), _gleu(texts, corrected, lists)),
        fixed=_share_of(counts[:, :2]),
        broken=_share_of(counts[:, 2:]),
        words=sum(len(text.split()) for one in lists for text in one),
        f_half=None if edits is None else _figure([edit_statistics(texts, corrected, lists, edits)], f_half),
    )


def _rate(measure: CorpusMeasure, texts: Sequence[str], references: Sequence[Sequence[str]]) -> Estimate:
    return _figure([np.sum([measure.statistics(texts, one) for one in references], axis=0)], measure.value)


def _gleu(texts: Sequence[str], corrected: Sequence[str], references: Sequence[Sequence[str]]) -> Estimate:
    statistics = np.array([gleu_statistics(texts, corrected, one) for one in references], np.float64)

    def of_draws(*sums: Float64[ndarray, "resamples 10"]) -> Float64[ndarray, " resamples"]:
        return gleu_of_sums(np.array(sums)).mean(axis=0) / 100

    drawn = drawn_statistics(statistics, _DRAWS_IN_INTERVALS)
    return Estimate(expected_gleu(statistics) / 100, interval_of_sums(drawn, of_draws))


def _figure(statistics: list[Int64[ndarray, "texts statistics"]], value: Callable[..., ndarray]) -> Estimate:
    point = value(*(rows.sum(axis=0).astype(np.float64) for rows in statistics))
    return Estimate(float(point), interval_of_sums(statistics, value))


def _share_of(counts: Int64[ndarray, "texts 2"]) -> Estimate | None:
    """Return the share of the second counts that the first are; None where there are none."""
    return _figure([counts], _share) if counts[:, 1].any() else None


def _share(sums: Float64[ndarray, "*several 2"]) -> Float64[ndarray, "*several"]:
    return sums[..., 0] / np.maximum(sums[..., 1], 1)


def _word_counts(
    texts: Sequence[str], corrected: Sequence[str], references: Sequence[str]
) -> Int64[ndarray, "texts 4"]:
    """Return wrong words that are right afterwards, wrong words; right words that are wrong afterwards, right words."""
    rows = np.zeros((len(texts), 4), np.int64)
    for row, text, result, reference in zip(rows, texts, corrected, references, strict=True):
        meant = reference.split()
        was = np.array(_right_words(text.split(), meant), np.bool_)
        now = np.array(_right_words(result.split(), meant), np.bool_)
        row[:] = (~was & now).sum(), (~was).sum(), (was & ~now).sum(), was.sum()
    return rows


def _right_words(words: list[str], reference: list[str]) -> list[bool]:
    """Return, for each word of the reference, whether the text has it, too."""
    matcher = SequenceMatcher(None, words, reference, autojunk=False)
    stands = [False] * len(reference)
    for block in matcher.get_matching_blocks():
        stands[block.b : block.b + block.size] = [True] * block.size
    return stands


UNCHANGED = 1.0, 0.0
_MOST_LOG_ODDS = 9.2  # of a change that all paths have: 0.9999
_ROUNDS = 50  # of Newton's method, which needs about five


def calibrate(probs: Float64[ndarray, " changes"], slope: float, intercept: float) -> Float64[ndarray, " changes"]:
    """Return probabilities whose log-odds are slope * log-odds + intercept."""
    if (slope, intercept) == UNCHANGED:
        return probs
    return 1 / (1 + np.exp(-(slope * _log_odds(probs) + intercept)))


def fit_calibration(probs: Float64[ndarray, " changes"], right: Bool[ndarray, " changes"]) -> tuple[float, float]:
    """Return the likeliest slope and intercept, by logistic regression.

    A ridge penalty draws them to 1 and 0, so that few changes, or only right ones, have little effect. The slope is 0
    or more.
    """
    rows = np.stack([_log_odds(probs), np.ones(probs.size)], axis=1)
    fitted = np.array(UNCHANGED)
    for _ in range(_ROUNDS):
        expected = 1 / (1 + np.exp(-rows @ fitted))
        gradient = rows.T @ (right - expected) - (fitted - UNCHANGED)
        curvature = rows.T @ (rows * (expected * (1 - expected))[:, None]) + np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        largest = float(np.abs(step).max())
        fitted = fitted + step / max(1.0, largest)  # at most 1, so that it does not overshoot
        if largest < 1e-9:
            break
    return max(0.0, float(fitted[0])), float(fitted[1])


def _log_odds(probs: Float64[ndarray, " changes"]) -> Float64[ndarray, " changes"]:
    bounded = np.clip(probs, 1e-300, 1 - 1e-16)
    return np.clip(np.log(bounded) - np.log1p(-bounded), -_MOST_LOG_ODDS, _MOST_LOG_ODDS)


Aim = Literal["f0.5", "accuracy"]

_EDGES = np.array([0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0])


class Reliability(NamedTuple):
    """Changes of some probabilities, and the share of them that is right."""

    low: float
    high: float
    changes: int
    mean_prob: float
    right: float


class JudgedChanges(NamedTuple):
    """Changes, and the gain of each.

    probs: the corrector's probabilities. gains: how many word errors fewer a text has with the change alone. errors:
    the word errors of all texts.
    """

    probs: Float64[ndarray, " changes"]
    gains: Int64[ndarray, " changes"]
    errors: int

    def reliability(self) -> list[Reliability]:
        """Return the reliability of changes by ranges of probability, without the ranges that have no change."""
        bins = np.clip(np.searchsorted(_EDGES, self.probs, side="right") - 1, 0, _EDGES.size - 2)
        rows = []
        for i in np.unique(bins).tolist():
            inside = bins == i
            probs, right = self.probs[inside], self.gains[inside] > 0
            low, high = _EDGES[i : i + 2].tolist()
            rows.append(Reliability(low, high, int(inside.sum()), float(probs.mean()), float(right.mean())))
        return rows

    def __str__(self) -> str:
        """Return how many changes are right, by their probability."""
        rows = [("changes", "number", "mean probability", "right")]
        for one in self.reliability():
            which = f"of probability {one.low:.2f} to {one.high:.2f}"
            rows.append((which, f"{one.changes:,}", f"{one.mean_prob:.2%}", f"{one.right:.2%}"))
        return "\n".join(f"{which:32} {number:>8} {mean:>18} {right:>10}" for which, number, mean, right in rows)

    def calibration(self) -> tuple[float, float]:
        """Return the slope and intercept that make the probabilities the shares that are right."""
        return fit_calibration(self.probs, self.gains > 0)

    def best_threshold(self, aim: Aim) -> tuple[float, float]:
        """Return the best threshold of probability from which on to make changes, and the figure that is then reached.

        f0.5: of changes; accuracy: the share of word errors that are gone.
        """
        probs = np.concatenate([[1.0], np.unique(self.probs)[::-1], [0.0]])
        thresholds = (probs[:-1] + probs[1:]) / 2
        figures = [self.figure_at(threshold, aim) for threshold in thresholds.tolist()]
        best = int(np.argmax(figures))  # the highest of equally good ones
        return float(thresholds[best]), figures[best]

    def figure_at(self, threshold: float, aim: Aim) -> float:
        """Return the figure with the changes of at least this probability."""
        gains = self.gains[self.probs >= threshold]
        if aim == "accuracy":
            return int(gains.sum()) / max(1, self.errors)
        right = int((gains > 0).sum())
        lacking = max(0, self.errors - int(gains[gains > 0].sum()))
        return float(f_half(np.array([right, gains.size - right, lacking])))


class TunedCorrection(NamedTuple):
    """The chosen settings.

    figures: the maximised figure before, of `correct` with the options alone, and after. changes: all changes on the
    best paths under these settings, whatever their probability. at_edges: the settings of which the least or the
    largest value that was tried is best. maximised: what the figures are.
    """

    settings: CorrectionSettings
    figures: tuple[float, float]
    changes: JudgedChanges
    at_edges: tuple[str, ...] = ()
    maximised: Aim = "f0.5"

    def __str__(self) -> str:
        """Return the settings, the figures, and how many changes are right."""
        lines = []
        for name, value in asdict(self.settings).items():
            if value is not None:
                numbers = value if isinstance(value, tuple) else (value,)
                lines.append(f"{name.replace('_', ' '):24} {', '.join(f'{number:.4g}' for number in numbers):>26}")
        before, after = (f"{100 * figure:.2f} %" for figure in self.figures)
        name = "F0.5 of changes" if self.maximised == "f0.5" else "word errors gone"
        lines += ["", f"{'':24} {'before':>26} {'tuned':>26}", f"{name:24} {before:>26} {after:>26}"]
        return "\n".join([*lines, "", str(self.changes)])

    def notes(self) -> Iterator[str]:
        """Yield which values may not be the best, and that the figures are too good."""
        for name in self.at_edges:
            setting = name.replace("_", " ")
            yield f"{setting}: the best value is at the edge of what was tried; one beyond may be better"
        yield "measured on the texts that the settings were chosen on; on others they do less well"


class Corrected(Protocol):
    """A text and its changes, each with a `prob`."""

    @property
    def text(self) -> str: ...

    @property
    def changes(self) -> Sequence[Any]: ...

    def with_changes(self, changes: Iterable[Any]) -> str: ...


def judge_changes(corrected: Sequence[Corrected], references: Sequence[Sequence[str]]) -> JudgedChanges:
    """Return the changes, with the gain of each.

    references: one list or several, with a reference for each corrected text.
    """
    measure = WordErrors()
    changes = [(i, change) for i, one in enumerate(corrected) for change in one.changes]
    alone = [corrected[i].with_changes([change]) for i, change in changes]
    probs = np.array([change.prob for _, change in changes], np.float64)
    gains, errors = [], 0
    for texts in references:
        before = measure.statistics([one.text for one in corrected], texts)[:, 0]
        after = measure.statistics(alone, [texts[i] for i, _ in changes])[:, 0] if changes else np.zeros(0, np.int64)
        gains.append(before[[i for i, _ in changes]] - after if changes else after)
        errors += int(before.sum())
    return JudgedChanges(np.tile(probs, len(references)), np.concatenate(gains), errors)
