"""Measures word vectors by word similarity, as people rate it, and by analogies.

Similarity: how well the cosine of two words agrees with how alike people find them. The first two fields of a line are
words, and the first number after these is the rating, as RG-65, WS-353, MEN, MTurk, SimLex-999, SimVerb and RW have it.
The first line may name the columns.

Analogies: man is to king as woman is to what? The word whose direction fits best, by two rules.

3CosAdd (Mikolov 2013): the largest cos(d, b) - cos(d, a) + cos(d, c), of vectors of length 1.
3CosMul (Levy and Goldberg 2014): the largest cos(d, b) cos(d, c) / (cos(d, a) + 0.001), each cosine moved to 0 to 1.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from chainrule.base.results import finite_figures
from chainrule.errors import SettingError, TextError
from chainrule.features.metrics.correlation import correlation, interval, rank_correlation
from chainrule.text.corpus.streams import open_stream
from chainrule.text.numbers import number_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from jaxtyping import Float32, Int64
    from numpy import ndarray

    from chainrule.base.progress import Progress

Unknown = Literal["skip", "zero"]
_LONGEST = 1 << 24  # bytes of a set


class Pair(NamedTuple):
    first: str
    second: str
    rating: float


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """The agreement on one set. pairs: how many have vectors for both words, and how many there are. Intervals: 95 %,
    by bootstrap over pairs.

    A correlation is NaN where fewer than three pairs are seen, or all ratings, or all cosines, are equal.
    """

    name: str
    pairs: int
    of: int
    spearman: float
    spearman_interval: tuple[float, float]
    pearson: float
    pearson_interval: tuple[float, float]

    def as_json(self) -> dict[str, Any]:
        """Return the figures for JSON, with null for NaN."""
        figures: dict[str, Any] = finite_figures(asdict(self))
        return figures


def read_sets(path: str | os.PathLike[str]) -> dict[str, list[Pair]]:
    """Return the sets of a folder, or of one file, by name. Raises TextError."""
    place = Path(path)
    if place.is_dir():
        files = sorted(file for file in place.iterdir() if file.is_file() and not file.name.startswith("."))
        if not files:
            raise TextError(f"{path}: there is no file in this folder; expected sets of word pairs")
    else:
        files = [place]
    return {file.name.partition(".")[0]: _read_set(file) for file in files}


def agreement(
    name: str,
    pairs: Sequence[Pair],
    vector_of: Callable[[str], Float32[ndarray, " D"] | None],
    unknown: Unknown = "skip",
) -> Agreement:
    """Return the agreement of the cosines with the ratings.

    vector_of: a function from a word to its vector, or None. unknown: whether a pair with a word without a vector is
    left out, or has the cosine 0. Raises SettingError.
    """
    if unknown not in ("skip", "zero"):
        raise SettingError(f"unknown is {unknown!r}; expected skip or zero")
    cosines, ratings, seen = [], [], 0
    for pair in pairs:
        first, second = vector_of(pair.first), vector_of(pair.second)
        is_seen = first is not None and second is not None
        seen += is_seen
        if is_seen or unknown == "zero":
            cosines.append(cosine(first, second) if first is not None and second is not None else 0.0)
            ratings.append(pair.rating)
    a, b = np.array(cosines), np.array(ratings)
    return Agreement(
        name=name,
        pairs=seen,
        of=len(pairs),
        spearman=rank_correlation(a, b),
        spearman_interval=interval(a, b, rank_correlation),
        pearson=correlation(a, b),
        pearson_interval=interval(a, b, correlation),
    )


def cosine(first: Float32[ndarray, " D"], second: Float32[ndarray, " D"]) -> float:
    """Return the cosine of two vectors; 0 where one of them is all zeros."""
    lengths = float(np.linalg.norm(first)) * float(np.linalg.norm(second))
    return float(first @ second) / lengths if lengths else 0.0


def _read_set(path: Path) -> list[Pair]:
    pairs: list[Pair] = []
    for number, line in enumerate(lines_of(path), 1):
        fields = _fields(line)
        if not fields:
            continue
        rating = next((value for field in fields[2:] if (value := _number(field)) is not None), None)
        if rating is None and number == 1 and len(fields) >= 3:
            continue  # the names of the columns
        if rating is None or not math.isfinite(rating):
            raise TextError(
                f"{path}, line {number}: {line[:60]!r} is not a pair; expected two words and a rating, separated by "
                "tabs or commas"
            )
        pairs.append(Pair(fields[0], fields[1], rating))
    if not pairs:
        raise TextError(f"{path}: there is no pair in it; expected lines of two words and a rating")
    return pairs


def _fields(line: str) -> list[str]:
    """Return the fields of a line, between tabs, else commas, else semicolons, else spaces; none of an empty line."""
    separator = next((sign for sign in "\t,;" if line.count(sign) >= 2), None)
    return [field.strip() for field in line.split(separator)] if line.strip() else []


def _number(field: str) -> float | None:
    try:
        return number_of(field)
    except ValueError:
        return None


def lines_of(path: str | os.PathLike[str]) -> list[str]:
    """Return the lines of a small text file, compressed as its name says, without line ends. Raises TextError."""
    import os

    name = os.fspath(path)
    room = np.empty(_LONGEST + 1, np.uint8)
    with open_stream(name) as stream:
        size = stream.fill(room)
    if size > _LONGEST:
        raise TextError(f"{name}: has over {_LONGEST:,} bytes; expected a set of words to measure with")
    try:
        return room[:size].tobytes().decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise TextError(f"{name}: is not UTF-8, at byte {error.start:,}; expected a text file") from error


Rule = Literal["add", "multiply"]
_SMALL = np.float32(0.001)
_TOGETHER = 256  # questions
Question = tuple[str, str, str, str]


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """The accuracy on one section. questions: how many have only known words, and how many there are."""

    section: str
    right: int
    questions: int
    of: int

    @property
    def share(self) -> float:
        return self.right / self.questions if self.questions else float("nan")

    def as_json(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        return {**asdict(self), "share": self.share if self.questions else None}


def read_analogies(path: str | os.PathLike[str]) -> dict[str, list[Question]]:
    """Return questions by section, in the format of word2vec's questions-words.txt: `: family`, then lines of four
    words.

    Raises TextError.
    """
    sections: dict[str, list[Question]] = {}
    questions: list[Question] | None = None
    for number, line in enumerate(lines_of(path), 1):
        words = line.split()
        if words[:1] == [":"]:
            questions = sections.setdefault(" ".join(words[1:]), [])
        elif len(words) == 4:
            questions = sections.setdefault("all", []) if questions is None else questions
            questions.append((words[0], words[1], words[2], words[3]))
        elif words:
            raise TextError(
                f"{path}, line {number}: {line[:60]!r} is not a question; expected four words, or : and a section's "
                "name"
            )
    if not any(sections.values()):
        raise TextError(f"{path}: there is no question in it; expected lines of four words")
    return sections


def answers(
    directions: Float32[ndarray, "words D"], questions: Int64[ndarray, "questions 3"], rule: Rule = "add", top: int = 1
) -> tuple[Int64[ndarray, "questions top"], Float32[ndarray, "questions top"]]:
    """Return the words that fit best, best first, with their scores; never one of the question's own.

    directions: vectors scaled to length 1. questions: a, b, c in "a is to b as c is to what". Raises SettingError.
    """
    if rule not in ("add", "multiply"):
        raise SettingError(f"rule is {rule!r}; expected add or multiply")
    a, b, c = (directions[questions[:, i]] for i in range(3))
    if rule == "add":
        scores = (b - a + c) @ directions.T
    else:
        near_a, near_b, near_c = ((vectors @ directions.T + 1) / 2 for vectors in (a, b, c))
        scores = near_b * near_c / (near_a + _SMALL)
    np.put_along_axis(scores, questions, -np.inf, axis=1)
    return best(scores, top)


def best(
    scores: Float32[ndarray, "rows words"], top: int
) -> tuple[Int64[ndarray, "rows top"], Float32[ndarray, "rows top"]]:
    """Return the columns of the highest scores of each row, highest first, of equal ones the first; and these
    scores.
    """
    top = min(top, scores.shape[1])
    columns = np.argpartition(-scores, top - 1, axis=1)[:, :top]
    highest = np.take_along_axis(scores, columns, axis=1)
    order = np.lexsort((columns, -highest), axis=1)
    return np.take_along_axis(columns, order, axis=1), np.take_along_axis(highest, order, axis=1)


def accuracies(
    sections: dict[str, list[Question]],
    row_of: Callable[[str], int | None],
    directions: Float32[ndarray, "words D"],
    rule: Rule,
    progress: Progress,
) -> list[Accuracy]:
    """Return how many questions each section has right.

    row_of: a function from a word to its row of `directions`, or None.
    """
    rows: dict[str, list[tuple[int, ...]]] = {}
    for name, questions in sections.items():
        asked = [[row_of(word) for word in question] for question in questions]
        rows[name] = [tuple(row for row in some if row is not None) for some in asked if None not in some]
    total, done = sum(map(len, rows.values())), 0
    results = []
    for name, known in rows.items():
        right = 0
        for start in range(0, len(known), _TOGETHER):
            some = np.array(known[start : start + _TOGETHER], np.int64)
            places, _ = answers(directions, some[:, :3], rule)
            right += int(np.count_nonzero(places[:, 0] == some[:, 3]))
            done += len(some)
            progress("analogies", done, total)
        results.append(Accuracy(section=name, right=right, questions=len(known), of=len(sections[name])))
    return results


def sum_sections(name: str, parts: Sequence[Accuracy]) -> Accuracy:
    """Return the figures of several sections together."""
    return Accuracy(
        section=name,
        right=sum(part.right for part in parts),
        questions=sum(part.questions for part in parts),
        of=sum(part.of for part in parts),
    )
