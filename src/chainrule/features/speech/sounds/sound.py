"""Sounds as samples: WAV by Python's own reader, FLAC and others where soundfile is installed; any rate and channels.

Sounds of several channels become their mean, and other rates are converted; `Sound.notes` say so.
"""

from __future__ import annotations

import io
import math
import os
import wave
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.errors import TextError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int16
    from numpy import ndarray

SUFFIXES = (".wav", ".flac")
_LEAST_RATE, _MOST_RATE = 1000, 1_000_000  # samples a second, of files
_UNKNOWN_SIZE = 1 << 30  # bytes and more, in headers of programs that write to a pipe and cannot know the length
_LOBES = 32  # of the sinc on each side; the filter passes 95 % of the band of the lower rate
_PASSED = 0.95
_AT_ONCE = 1 << 16  # samples that are resampled together


class Sound(NamedTuple):
    """Samples of one channel, from -1 to 1, at a rate in samples a second.

    name: of its file, for messages. notes: what was converted, in words.
    """

    samples: Float64[ndarray, " samples"]
    rate: int
    name: str = "a sound"
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.samples) / self.rate


def read_sound(path: str | os.PathLike[str], rate: int) -> Sound:
    """Return a file of sound, brought to a rate. Raises TextError, which names the file."""
    name = os.fspath(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise TextError(f"{name}: cannot be read: {error.strerror}; expected a file of sound, such as .wav") from error
    is_wav = data[:4] == b"RIFF"
    samples, own_rate = _read_wav(data, name) if is_wav else _read_other(data, name)
    notes = _cut_short(data) if is_wav else []
    if not _LEAST_RATE <= own_rate <= _MOST_RATE:
        raise TextError(
            f"{name}: has {own_rate:,} samples a second; expected {_LEAST_RATE:,} to {_MOST_RATE:,}: its header is "
            "damaged, or it is no sound"
        )
    if samples.shape[1] > 1:
        notes.append(f"{samples.shape[1]} channels, of which the mean is taken")
    mono = samples.mean(axis=1)
    if not len(mono):
        raise TextError(f"{name}: is empty; expected sound of 25 ms or more")
    if not np.isfinite(mono).all():
        raise TextError(f"{name}: has samples that are no numbers; the file is damaged")
    if own_rate != rate:
        notes.append(f"{own_rate:,} samples a second, converted to {rate:,}")
    return Sound(resample(mono, own_rate, rate), rate, name, tuple(notes))


def encode_wav(samples: Int16[ndarray, " samples"], rate: int) -> bytes:
    """Return a WAV file of one channel in 16 bits."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(samples.astype("<i2").tobytes())
    return file.getvalue()


def _read_wav(data: bytes, name: str) -> tuple[Float64[ndarray, "samples channels"], int]:
    """Return the samples and their rate. Raises TextError."""
    try:
        with wave.open(io.BytesIO(data)) as reader:
            channels, width, rate, promised = reader.getparams()[:4]
            raw = reader.readframes(promised)
    except (wave.Error, EOFError, ValueError, OverflowError, RuntimeError) as error:
        if str(error).startswith("unknown format"):  # floating point and others
            return _read_other(data, name)
        raise TextError(f"{name}: is no WAV file, or is damaged: {error or 'it ends in its header'}") from error
    if width not in (1, 2, 3, 4) or channels < 1:
        raise TextError(f"{name}: has {channels} channels of {8 * width} bits; expected 8, 16, 24 or 32 bits")
    count = len(raw) // (width * channels)
    return _as_numbers(raw[: count * width * channels], width).reshape(count, channels), rate


def _cut_short(data: bytes) -> list[str]:
    """Return a note if a WAV file ends before the samples that its header promises."""
    place, per_second = 12, 1
    while place + 8 <= len(data):
        name, size = data[place : place + 4], int.from_bytes(data[place + 4 : place + 8], "little")
        if name == b"fmt ":
            per_second = int.from_bytes(data[place + 16 : place + 20], "little") or 1
        if name == b"data":
            there = len(data) - place - 8
            if there >= size or size >= _UNKNOWN_SIZE:
                break
            return [f"ends after {there / per_second:.2f} of {size / per_second:.2f} s; the file is cut short"]
        place += 8 + size + size % 2
    return []


def _as_numbers(raw: bytes, width: int) -> Float64[ndarray, " numbers"]:
    """Return whole numbers of 1 to 4 bytes, little-endian, as numbers from -1 to 1; those of one byte have no sign."""
    if width == 1:
        return (np.frombuffer(raw, np.uint8).astype(np.float64) - 128) / 128
    if width == 3:
        high = np.zeros((len(raw) // 3, 4), np.uint8)
        high[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        return high.view("<i4")[:, 0] / 2.0**31
    return np.frombuffer(raw, f"<i{width}") / 2.0 ** (8 * width - 1)


def _read_other(data: bytes, name: str) -> tuple[Float64[ndarray, "samples channels"], int]:
    """Read a sound as `_read_wav` does, by soundfile. Raises TextError."""
    try:
        import soundfile
    except ImportError as error:
        raise TextError(
            f"{name}: is no WAV file of whole numbers; for FLAC and others, install soundfile (pip install soundfile)"
        ) from error
    try:
        samples, rate = soundfile.read(io.BytesIO(data), dtype="float64", always_2d=True)
    except (RuntimeError, ValueError, TypeError) as error:
        raise TextError(f"{name}: is no file of sound that soundfile knows, or is damaged: {error}") from error
    return samples, int(rate)


def resample(samples: Float64[ndarray, " samples"], rate: int, wanted: int) -> Float64[ndarray, " resampled"]:
    """Return the samples at another rate, by a windowed sinc (Hann) that passes 95 % of the band of the lower rate.

    The first sample stays in its place; a sound of n samples gets n wanted / rate, rounded up.
    """
    if rate == wanted:
        return samples
    common = math.gcd(rate, wanted)
    up, down = wanted // common, rate // common
    cutoff = _PASSED * min(1.0, up / down)  # as a share of the band of the given rate
    reach = math.ceil(_LOBES / cutoff)
    padded = np.pad(samples, reach)
    resampled = np.empty(-(-len(samples) * up // down))
    taps = np.arange(-reach + 1, reach + 1)
    for first in range(0, len(resampled), _AT_ONCE):
        places = np.arange(first, min(first + _AT_ONCE, len(resampled))) * down
        whole, phases = places // up, places % up
        distinct, phase_of = np.unique(phases, return_inverse=True)
        distances = distinct[:, None] / up - taps  # (phases, taps)
        window = np.where(np.abs(distances) < reach, 0.5 + 0.5 * np.cos(np.pi * distances / reach), 0.0)
        filters = cutoff * np.sinc(cutoff * distances) * window
        for phase, own in enumerate(filters):
            at = np.flatnonzero(phase_of == phase)
            rows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach)[whole[at] + 1]
            resampled[first + at] = rows @ own
    return resampled


def sound_files(names: Sequence[str]) -> list[str]:
    """Return files of sound: those named, and those in the folders named, at any depth, in order. Raises TextError."""
    files = []
    for name in names:
        if not os.path.isdir(name):
            files.append(name)
            continue
        inside = sorted(str(path) for path in Path(name).rglob("*") if path.suffix.lower() in SUFFIXES)
        if not inside:
            raise TextError(f"{name}: no sound is in this folder; expected files whose names end in .wav or .flac")
        files += inside
    return files
