"""Log-mel frames: how strong a sound is in bands of pitch, every 10 ms.

Frames are kept as whole numbers, steps of 1/512 of a nat: half the memory of floats, and differences between machines
in the last bit of a logarithm or of a sum do not show. Means and deviations, by which a network reads them, are exact.
Legend: T frames, M mel bands.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import TextError

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64, Int16
    from numpy import ndarray

    from chainrule.features.speech.sounds.sound import Sound

STEPS = 512  # in a nat
FRAME_SECONDS, HOP_SECONDS = 0.025, 0.010
LOWEST = 20.0  # Hz, the lower end of the first band; the last one ends at half the rate
_PRE_EMPHASIS = 0.97
_FLOOR = 1e-10  # of the energy in a band
_AT_ONCE = 1 << 12  # frames


def log_mel(sound: Sound, mels: int) -> Int16[ndarray, "T M"]:
    """Return log-mel frames in steps of 1/512 of a nat, T = 1 + (samples - frame) / hop, rounded down.

    Pre-emphasis by 0.97, frames of 25 ms under a Hamming window every 10 ms, their power spectrum, and triangles that
    are equally wide in mel = 2595 log10(1 + f / 700 Hz). Raises TextError where there is less than a frame.
    """
    frame, hop = round(FRAME_SECONDS * sound.rate), round(HOP_SECONDS * sound.rate)
    samples = sound.samples
    if len(samples) < frame:
        raise TextError(f"{sound.name}: is {1000 * sound.seconds:.3g} ms long; expected {1000 * FRAME_SECONDS:g} ms")
    sharpened = np.append(samples[:1], samples[1:] - _PRE_EMPHASIS * samples[:-1])
    windows = np.lib.stride_tricks.sliding_window_view(sharpened, frame)[::hop]
    size = 1 << (frame - 1).bit_length()
    triangles = mel_triangles(mels, size, sound.rate)
    frames = np.empty((len(windows), mels), np.int16)
    for first in range(0, len(windows), _AT_ONCE):
        spectrum = np.fft.rfft(windows[first : first + _AT_ONCE] * np.hamming(frame), size)
        energies = (spectrum.real**2 + spectrum.imag**2) @ triangles.T
        frames[first : first + _AT_ONCE] = np.rint(STEPS * np.log(np.maximum(energies, _FLOOR)))
    return frames


def band_centres(mels: int, rate: int) -> Float64[ndarray, " M"]:
    """Return the pitch of the middle of each band, in Hz."""
    return _edges(mels, rate)[1:-1]


def _edges(mels: int, rate: int) -> Float64[ndarray, " M+2"]:
    """Return where triangles begin, peak and end, in Hz; equally far apart in mel."""
    low, high = (2595 * np.log10(1 + np.array([LOWEST, rate / 2]) / 700)).tolist()
    return np.asarray(700 * (10 ** (np.linspace(low, high, mels + 2) / 2595) - 1))


@cache
def mel_triangles(mels: int, size: int, rate: int) -> Float64[ndarray, "M bins"]:
    """Return the weights of the bins of a spectrum of `size` samples in each band, 0 to 1."""
    return triangles(_edges(mels, rate), np.arange(size // 2 + 1) * rate / size)


def triangles(edges: Float64[ndarray, " M+2"], frequencies: Float64[ndarray, " bins"]) -> Float64[ndarray, "M bins"]:
    """Return the heights, 0 to 1, of triangles at frequencies. edges: where each begins, peaks and ends, in turn."""
    rising = (frequencies - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - frequencies) / np.diff(edges)[1:, None]
    return np.maximum(0.0, np.minimum(rising, falling))


def normalised(frames: Int16[ndarray, "T M"]) -> Float32[ndarray, "T M"]:
    """Return frames with a mean of 0 and a deviation of 1 in each band; a band that never changes becomes 0."""
    own = frames.astype(np.int64)
    mean = own.sum(0) / len(own)  # sums of whole numbers are exact
    variance = (own * own).sum(0) / len(own) - mean * mean
    return ((own - mean) / np.sqrt(np.maximum(variance, 1.0))).astype(np.float32)
