"""Sounds at another rate: a windowed sinc, applied as matrix products to samples as they come.

Legend: a period is the least stretch of time in which both rates have whole numbers of samples, or several of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from jaxtyping import Float64
    from numpy import ndarray

_LOBES = 64  # of the sinc on each side
# Kaiser's window and the middle of the filter's slope, as a share of the band of the lower rate: what is below 90 % of
# the band passes within 1e-5, and what is above the band is damped by 100 dB.
_BETA, _CUTOFF = 10.06, 0.952
_TOGETHER = 64  # resampled samples that one matrix gives


class _Group(NamedTuple):
    """Some samples of each period: where they lie in it, and a matrix that gives them, from inputs on from `start`."""

    outputs: slice
    start: int
    matrix: Float64[ndarray, "inputs outputs"]


def resampled(
    blocks: Iterable[Float64[ndarray, " samples"]], rate: int, wanted: int
) -> Iterator[Float64[ndarray, " resampled"]]:
    """Yield samples at another rate, by a windowed sinc (Kaiser) that passes 90 % of the band of the lower rate.

    The first sample stays in its place; a sound of n samples gets n wanted / rate, rounded up.
    """
    if rate == wanted:
        yield from blocks
        return
    common = math.gcd(rate, wanted)
    up, down = wanted // common, rate // common
    times = -(-_TOGETHER // up)
    up, down = up * times, down * times  # of a period
    cutoff = _CUTOFF * min(1.0, up / down)  # as a share of the band of the given rate
    reach = math.ceil(_LOBES / cutoff)
    groups = _groups(up, down, cutoff, reach)
    held = np.zeros(reach)  # samples on from `reach` before the next period
    total = given = 0
    for block in blocks:
        total += len(block)
        held = np.concatenate([held, block])
        count = (len(held) - 2 * reach - 1) // down
        if count > 0:
            yield _periods(held, count, up, down, groups)
            held, given = held[count * down :], given + count * up
    rest = -(-total * up // down) - given
    count = -(-rest // up)
    held = np.pad(held, (0, count * down + 2 * reach + 1))
    yield _periods(held, count, up, down, groups)[:rest]


def _groups(up: int, down: int, cutoff: float, reach: int) -> list[_Group]:
    groups = []
    for first in range(0, up, _TOGETHER):
        places = np.arange(first, min(first + _TOGETHER, up)) * down
        start = int(places[0] // up)  # less the reach, with which inputs begin
        inputs = int(places[-1] // up) - start + 2 * reach + 1
        distances = places / up - (start - reach + np.arange(inputs))[:, None]
        window = np.i0(_BETA * np.sqrt(np.maximum(0, 1 - (distances / reach) ** 2))) / np.i0(_BETA)
        window[np.abs(distances) >= reach] = 0
        groups.append(_Group(slice(first, first + len(places)), start, cutoff * np.sinc(cutoff * distances) * window))
    return groups


def _periods(
    held: Float64[ndarray, " samples"], count: int, up: int, down: int, groups: list[_Group]
) -> Float64[ndarray, " resampled"]:
    found = np.empty((count, up))
    for outputs, start, matrix in groups:
        rows = np.lib.stride_tricks.sliding_window_view(held[start:], len(matrix))[::down][:count]
        found[:, outputs] = np.ascontiguousarray(rows) @ matrix
    return found.reshape(-1)
