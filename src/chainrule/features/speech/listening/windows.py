"""Overlapping windows of a recording, as its samples come.

Window k begins k (length - 2 overlap) samples after the first one. Its outputs within an overlap have little context on
one side, so they are taken from its neighbour: each step of a network is taken once, where the windows are joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from chainrule.errors import SettingError
from chainrule.features.speech.sounds.sound import Sound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jaxtyping import Float32, Float64
    from numpy import ndarray

    ReadAtOnce = Callable[[Sound], Float32[ndarray, "S C"]]


class InSteps(Protocol):
    """A network that gives a row for each step. window_seconds: how much it reads at once, where nothing else is said.

    rate: samples a second. step_samples, step_seconds: of a step.
    """

    @property
    def rate(self) -> int: ...
    @property
    def step_samples(self) -> int: ...
    @property
    def step_seconds(self) -> float: ...
    @property
    def window_seconds(self) -> float: ...


class Windows:
    """Reads one recording in windows, and gives a row for each step."""

    def __init__(
        self, network: InSteps, read: ReadAtOnce, name: str, window: float | None = None, overlap: float | None = None
    ) -> None:
        """Begin a recording.

        read: returns the rows of a sound. name: of the recording, for messages. window, overlap: in seconds; by default
        as the network has it, and a sixth of the window. Raises SettingError.
        """
        window = network.window_seconds if window is None else window
        overlap = window / 6 if overlap is None else overlap
        steps, shared = (max(1, round(own / network.step_seconds)) for own in (window, overlap))
        if steps <= 2 * shared:
            raise SettingError(
                f"a window of {window:g} s with an overlap of {overlap:g} s on either side has no middle; make it "
                "longer than twice the overlap"
            )
        self._read, self._rate, self._name = read, network.rate, name
        self._length, self._hop = network.step_samples * steps, network.step_samples * (steps - 2 * shared)
        self._first, self._shared, self._last = 0, shared, steps - shared
        self._parts: list[Float64[ndarray, " samples"]] = []
        self._held = 0

    def add(self, samples: Float64[ndarray, " samples"]) -> Iterator[Float32[ndarray, "S C"]]:
        """Take samples, and yield the rows of windows that are complete, and not the last one. Raises TextError."""
        self._parts.append(samples)
        self._held += len(samples)
        while self._held > self._length:
            held = np.concatenate(self._parts)
            rows = self._rows(held[: self._length])
            if len(rows) < self._last:
                raise SettingError("the overlap is shorter than what one step of this network reads; make it longer")
            self._parts, self._held = [held[self._hop :].copy()], self._held - self._hop
            yield rows[self._first : self._last]
            self._first = self._shared

    def end(self) -> Iterator[Float32[ndarray, "S C"]]:
        """Yield the rows of the last window; none where nothing was taken. Raises TextError: the sound is too short."""
        if self._parts:
            yield self._rows(np.concatenate(self._parts))[self._first :]

    def _rows(self, samples: Float64[ndarray, " samples"]) -> Float32[ndarray, "S C"]:
        return self._read(Sound(samples, self._rate, self._name))
