"""How well the cosine of two words agrees with how alike people find them.

A set is a file of lines with two words and a rating, tabs or spaces between, as RG-65, WS-353, MEN and SimVerb come.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from chainrule.base.correlation import correlation, interval, rank_correlation
from chainrule.errors import SettingError, TextError
from chainrule.text.corpus.streams import open_stream

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from jaxtyping import Float32
    from numpy import ndarray

Unknown = Literal["skip", "zero"]
_LONGEST = 1 << 24  # bytes of a set


class Pair(NamedTuple):
    first: str
    second: str
    rating: float


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Of one set. pairs: those that both words have vectors for, of all. Intervals: 95 %, by bootstrap over pairs.

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
        """For JSON: null for what is no number."""
        return {name: _finite(value) for name, value in asdict(self).items()}


def read_sets(path: str | os.PathLike[str]) -> dict[str, list[Pair]]:
    """The sets of a folder, or of one file, by name. Raises TextError."""
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
    """Of the cosines with the ratings.

    vector_of: of a word; None where it has none. unknown: what a pair with such a word does: it is left out, or its
    cosine is 0. Raises SettingError.
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
    """0 where one of the vectors is of zeros."""
    lengths = float(np.linalg.norm(first)) * float(np.linalg.norm(second))
    return float(first @ second) / lengths if lengths else 0.0


def _read_set(path: Path) -> list[Pair]:
    pairs: list[Pair] = []
    for number, line in enumerate(lines_of(path), 1):
        parts = line.split()
        if not parts:
            continue
        is_header = number == 1 and len(parts) >= 3
        try:
            first, second, rating = parts
            value = float(rating)
            is_header = False
        except ValueError:
            value = math.nan
        if is_header:
            continue
        if not math.isfinite(value):
            raise TextError(
                f"{path}, line {number}: {line[:60]!r} is no pair; expected two words and a rating, with tabs between"
            )
        pairs.append(Pair(first, second, value))
    if not pairs:
        raise TextError(f"{path}: there is no pair in it; expected lines of two words and a rating")
    return pairs


def lines_of(path: str | os.PathLike[str]) -> list[str]:
    """Of a small text file, compressed as its name says, without line ends. Raises TextError."""
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


def _finite(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
