"""Choosing the lowest of more scores than fit into memory: they lie in a file, and the threshold is exact."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float32, Float64, UInt32
    from numpy import ndarray

_AT_ONCE = 1 << 20  # scores
_HALF = 16  # bits


@dataclass
class Threshold:
    """Lets the lowest scores pass: all below `value`, and the first `ties` of those that equal it."""

    value: float
    ties: int

    def passes(self, scores: Float32[ndarray, " scores"]) -> Bool[ndarray, " scores"]:
        """Of the next scores, in their order: ties are counted from call to call."""
        chosen = scores < np.float32(self.value)
        equal = np.flatnonzero(scores == np.float32(self.value))[: self.ties]
        chosen[equal] = True
        self.ties -= equal.size
        return chosen


class ScoreFile:
    """Scores in the order in which they came, in a temporary file that vanishes when this is closed."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by __exit__)
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def append(self, scores: Float64[ndarray, " scores"]) -> Float32[ndarray, " scores"]:
        """The scores as they are kept; what is no number becomes infinite."""
        kept = np.where(np.isnan(scores), np.inf, scores).astype(np.float32)
        self._file.write(kept.tobytes())
        self.size += kept.size
        return kept

    def chunks(self) -> Iterator[Float32[ndarray, " scores"]]:
        """All of them, piece by piece."""
        self._file.seek(0)
        while data := self._file.read(4 * _AT_ONCE):
            yield np.frombuffer(data, np.float32)
        self._file.seek(0, 2)

    def read(self, start: int, count: int) -> Float32[ndarray, " count"]:
        self._file.seek(4 * start)
        return np.frombuffer(self._file.read(4 * count), np.float32)

    def lowest(self, count: int) -> Threshold:
        """The threshold that exactly `count` scores pass, 1 .. size."""
        place = count - 1
        upper, before = self._bucket(place, _HALF, None)
        key, before_key = self._bucket(place - before, 0, upper)
        value = float(_floats(np.array([(upper << _HALF) + key], np.uint32))[0])
        return Threshold(value, count - before - before_key)

    def _bucket(self, place: int, shift: int, upper: int | None) -> tuple[int, int]:
        """In which half key the score of this rank is, and how many come before it.

        upper: only scores with this upper half count.
        """
        counts = np.zeros(1 << _HALF, np.int64)
        for chunk in self.chunks():
            keys = _keys(chunk)
            if upper is not None:
                keys = keys[keys >> _HALF == upper]
            counts += np.bincount((keys >> shift) & 0xFFFF, minlength=counts.size)
        so_far = np.cumsum(counts)
        bucket = int(np.searchsorted(so_far, place, side="right"))
        return bucket, int(so_far[bucket] - counts[bucket])

    def histogram(self, bins: int) -> tuple[list[int], list[float]]:
        """Counts of scores between edges, one more than there are bins; the outermost hundredths are cut off.

        So a few extreme scores do not squeeze the rest into one bin.
        """
        low = self.lowest(max(1, self.size // 100)).value
        high = self.lowest(max(1, self.size - self.size // 100)).value
        if not np.isfinite([low, high]).all() or low == high:
            return [self.size], [low, high]
        edges = np.linspace(low, high, bins + 1)
        counts = np.zeros(bins, np.int64)
        for chunk in self.chunks():
            counts += np.histogram(chunk, edges)[0]
        return counts.tolist(), edges.tolist()


def _keys(scores: Float32[ndarray, " scores"]) -> UInt32[ndarray, " scores"]:
    """Whole numbers in the order of the scores."""
    bits = (scores + np.float32(0)).view(np.uint32)  # -0 is 0
    return np.where(bits >> 31 == 1, ~bits, bits | np.uint32(1 << 31))


def _floats(keys: UInt32[ndarray, " scores"]) -> Float32[ndarray, " scores"]:
    """What `_keys` was given."""
    return np.where(keys >> 31 == 1, keys & np.uint32(0x7FFFFFFF), ~keys).view(np.float32)
