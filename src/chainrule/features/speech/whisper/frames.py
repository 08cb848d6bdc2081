"""Log-mel frames as Whisper reads them: 80 or 128 bands, every 10 ms (Radford et al. 2022, section 2.2).

As transformers computes them: Hann windows around each multiple of the hop, the sound mirrored at its ends, powers in
bands that are triangles on Slaney's mel scale, each of the same area; then (max(log10, largest - 8) + 4) / 4.
Legend: T frames, M mel bands.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from chainrule.base.threads import pause
from chainrule.features.speech.sounds.features import triangles

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Float64
    from numpy import ndarray

    from chainrule.features.speech.whisper.config import WhisperConfig

_HIGHEST = 8000.0  # Hz, where the last band ends, whatever the rate
_FLOOR, _RANGE = 1e-10, 8.0  # of powers; of their log10 below the largest
_LINEAR_STEP, _BREAK, _LOG_STEP = 200 / 3, 1000.0, float(np.log(6.4) / 27)  # Slaney's scale, below the break and above
_AT_ONCE = 1 << 10  # frames


class FrameStream:
    """The frames of a recording whose samples come in pieces; of the samples, only the last ones are held."""

    def __init__(self, config: WhisperConfig) -> None:
        self._config = config
        self._hann = torch.hann_window(config.frame)
        self._bands = torch.from_numpy(slaney_triangles(config.mels, config.frame, config.rate).astype(np.float32))
        self._held = torch.empty(0)
        self._samples, self._is_begun = 0, False
        self._parts: list[Float32[ndarray, "T M"]] = []

    @property
    def seconds(self) -> float:
        """How long the recording is so far."""
        return self._samples / self._config.rate

    def add(self, samples: Float[ndarray, " samples"]) -> None:
        """Take the samples that come next."""
        self._samples += len(samples)
        self._hold(torch.from_numpy(np.asarray(samples, np.float32)))

    @property
    def count(self) -> int:
        """The frames so far."""
        return sum(map(len, self._parts))

    def so_far(self) -> Float32[ndarray, "T M"]:
        """Return the frames so far, as if nothing louder followed."""
        return _scaled(np.concatenate(self._parts))

    def end(self) -> tuple[Float32[ndarray, "T M"], int]:
        """Return the frames, and how many of them are of the recording: a window at least, of which the rest is
        silence.
        """
        config = self._config
        silence = max(0, config.window_frames * config.hop - self._samples)
        count, own = (self._samples + silence) // config.hop, self._samples // config.hop
        self._hold(torch.zeros(silence))
        self._held = torch.cat([self._held, self._held[-1 - config.frame // 2 : -1].flip(0)])
        self._compute(least=1)
        frames = np.concatenate(self._parts)[:count]
        self._parts = []
        return _scaled(frames), own

    def _hold(self, samples: Float[Tensor, " samples"]) -> None:
        self._held = torch.cat([self._held, samples])
        edge = self._config.frame // 2
        if not self._is_begun and len(self._held) > edge:
            self._held, self._is_begun = torch.cat([self._held[1 : edge + 1].flip(0), self._held]), True
        if self._is_begun:
            self._compute(least=_AT_ONCE)

    def _compute(self, *, least: int) -> None:
        """Compute frames of which all samples are held, if there are as many; the samples of a frame stay held."""
        size, hop = self._config.frame, self._config.hop
        while (count := (len(self._held) - size) // hop + 1) >= least:
            count = min(count, _AT_ONCE)
            part = self._held[: (count - 1) * hop + size]
            spectrum = torch.stft(part, size, hop, window=self._hann, center=False, return_complex=True)
            powers = self._bands @ spectrum.abs().square()  # (M, T)
            self._parts.append(powers.clamp(min=_FLOOR).log10().T.numpy())
            self._held = self._held[count * hop :]
            pause()


def _scaled(frames: Float32[ndarray, "T M"]) -> Float32[ndarray, "T M"]:
    """Return log10 of powers with all that is too soft made equal, and scaled, in their place."""
    np.maximum(frames, frames.max() - _RANGE, out=frames)
    frames += 4
    frames /= 4
    return frames


def windowed(frames: Float32[ndarray, "T M"], first: int, config: WhisperConfig) -> Float32[ndarray, "window M"]:
    """Return the window that begins at a frame, filled up with zeros."""
    part = frames[first : first + config.window_frames]
    return np.ascontiguousarray(np.pad(part, ((0, config.window_frames - len(part)), (0, 0))))


@cache
def slaney_triangles(mels: int, size: int, rate: int) -> Float64[ndarray, "M bins"]:
    """Return the weights of the bins of a spectrum of `size` samples in each band; the area of a band is 1 in Hz."""
    edges = _hertz(np.linspace(0.0, _mel(_HIGHEST), mels + 2))
    weights = triangles(edges, np.linspace(0, rate // 2, size // 2 + 1))
    return weights * (2.0 / (edges[2:] - edges[:-2]))[:, None]


def _mel(hertz: float) -> float:
    """Return a pitch on Slaney's scale."""
    return _BREAK / _LINEAR_STEP + np.log(hertz / _BREAK) / _LOG_STEP if hertz >= _BREAK else hertz / _LINEAR_STEP


def _hertz(mels: Float64[ndarray, " bands"]) -> Float64[ndarray, " bands"]:
    knee = _BREAK / _LINEAR_STEP
    return np.where(mels >= knee, _BREAK * np.exp(_LOG_STEP * (mels - knee)), _LINEAR_STEP * mels)
