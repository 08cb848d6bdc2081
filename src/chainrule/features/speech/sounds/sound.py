"""Sounds as samples: WAV by Python's own reader, FLAC and others where soundfile is installed; any rate and channels.

Sounds of several channels become their mean, and other rates are converted; `notes` say so. A `Recording` is read in
blocks, so that a long one needs little memory; a `Sound` holds all samples. A microphone gives raw samples.
"""

from __future__ import annotations

import io
import os
import wave
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from chainrule.base.arguments import check_least
from chainrule.errors import TextError
from chainrule.features.speech.sounds.resampling import resampled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float64, Int16
    from numpy import ndarray

SUFFIXES = (".wav", ".flac")
_LEAST_RATE, _MOST_RATE = 1000, 1_000_000  # samples a second, of files
_UNKNOWN_SIZE = 1 << 30  # bytes and more, in headers of programs that write to a pipe and cannot know the length
_AT_ONCE = 1 << 16  # samples that are read together
_BYTES_AT_ONCE = 1 << 15  # of a stream, at most; fewer where no more are there
_WIDTH = 2  # bytes of a sample of a stream
_FORMATS = {b"RIFF": "a WAV file", b"fLaC": "a FLAC file", b"OggS": "an Ogg file"}
_STREAM = "standard input"  # its name, for messages


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


class Recording(NamedTuple):
    """A sound that is read once, in blocks of samples of one channel, from -1 to 1. Reading raises TextError.

    seconds: how long it is; None if that is not known. Other fields are those of a `Sound`.
    """

    blocks: Iterator[Float64[ndarray, " samples"]]
    rate: int
    name: str = "a sound"
    notes: tuple[str, ...] = ()
    seconds: float | None = None

    @classmethod
    def of(cls, sound: Sound) -> Recording:
        """Return a sound as a recording."""
        return cls(iter([sound.samples]), sound.rate, sound.name, sound.notes, sound.seconds)


class _File(NamedTuple):
    """A file of sound. frames: how many samples each channel has. blocks: yields them as (samples, channels)."""

    rate: int
    channels: int
    frames: int
    blocks: Callable[[], Iterator[Float64[ndarray, "samples channels"]]]


def read_sound(path: str | os.PathLike[str], rate: int) -> Sound:
    """Return a file of sound, brought to a rate. Raises TextError, which names the file."""
    recording = open_sound(path, rate)
    return Sound(np.concatenate([*recording.blocks]), rate, recording.name, recording.notes)


def open_sound(path: str | os.PathLike[str], rate: int) -> Recording:
    """Open a file of sound, brought to a rate; its samples are read later. Raises TextError, which names the file."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            is_wav = (begin := file.read(4)) == b"RIFF"
        if not begin:
            raise TextError(f"{name}: is empty; expected a file of sound, such as .wav")
        found = _open_wav(name) if is_wav else _open_other(name)
        notes = _cut_short(name) if is_wav else []
    except OSError as error:
        raise TextError(f"{name}: cannot be read: {error.strerror}; expected a file of sound, such as .wav") from error
    if not _LEAST_RATE <= found.rate <= _MOST_RATE:
        raise TextError(
            f"{name}: has {found.rate:,} samples a second; expected {_LEAST_RATE:,} to {_MOST_RATE:,}: its header is "
            "damaged, or it is no sound"
        )
    if found.channels > 1:
        notes.append(f"{found.channels} channels, of which the mean is taken")
    if not found.frames:
        raise TextError(f"{name}: is empty; expected sound of 25 ms or more")
    if found.rate != rate:
        notes.append(f"{found.rate:,} samples a second, converted to {rate:,}")
    blocks = resampled(_mono(found, name), found.rate, rate)
    return Recording(blocks, rate, name, tuple(notes), found.frames / found.rate)


def _mono(found: _File, name: str) -> Iterator[Float64[ndarray, " samples"]]:
    for block in found.blocks():
        mono = block.mean(axis=1)
        if not np.isfinite(mono).all():
            raise TextError(f"{name}: has samples that are no numbers; the file is damaged")
        yield mono


def encode_wav(samples: Int16[ndarray, " samples"], rate: int) -> bytes:
    """Return a WAV file of one channel in 16 bits."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(samples.astype("<i2").tobytes())
    return file.getvalue()


def _open_wav(name: str) -> _File:
    """Open a WAV file. Raises TextError."""
    try:
        with wave.open(name) as reader:
            channels, width, rate, promised = reader.getparams()[:4]
    except (wave.Error, EOFError, ValueError, OverflowError, RuntimeError) as error:
        if str(error).startswith("unknown format"):  # floating point and others
            return _open_other(name)
        raise TextError(f"{name}: is no WAV file, or is damaged: {str(error) or 'it ends in its header'}") from error
    if width not in (1, 2, 3, 4) or channels < 1:
        raise TextError(f"{name}: has {channels} channels of {8 * width} bits; expected 8, 16, 24 or 32 bits")

    def blocks() -> Iterator[Float64[ndarray, "samples channels"]]:
        with wave.open(name) as reader:
            while count := len(raw := reader.readframes(_AT_ONCE)) // (width * channels):
                yield as_numbers(raw[: count * width * channels], width).reshape(count, channels)

    return _File(rate, channels, min(promised, _data_part(name)[0] // (width * channels)), blocks)


def _cut_short(name: str) -> list[str]:
    """Return a note if a WAV file ends before the samples that its header promises."""
    there, size, per_second = _data_part(name)
    if not there < size < _UNKNOWN_SIZE:
        return []
    return [f"ends after {there / per_second:.2f} of {size / per_second:.2f} s; the file is cut short"]


def _data_part(name: str) -> tuple[int, int, int]:
    """Return how many bytes of samples a WAV file has, how many its header promises, and how many are a second."""
    total, per_second = os.path.getsize(name), 1
    with open(name, "rb") as file:
        place = 12
        while place + 8 <= total:
            file.seek(place)
            part, size = file.read(4), int.from_bytes(file.read(4), "little")
            if part == b"fmt ":
                per_second = int.from_bytes(file.read(12)[8:], "little") or 1
            if part == b"data":
                return total - place - 8, size, per_second
            place += 8 + size + size % 2
    return 0, 0, per_second


def as_numbers(raw: bytes, width: int) -> Float64[ndarray, " numbers"]:
    """Return whole numbers of 1 to 4 bytes, little-endian, as numbers from -1 to 1; those of one byte have no sign."""
    if width == 1:
        return (np.frombuffer(raw, np.uint8).astype(np.float64) - 128) / 128
    if width == 3:
        high = np.zeros((len(raw) // 3, 4), np.uint8)
        high[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        return high.view("<i4")[:, 0] / 2.0**31
    return np.frombuffer(raw, f"<i{width}") / 2.0 ** (8 * width - 1)


def _open_other(name: str) -> _File:
    """Open a sound as `_open_wav` does, by soundfile. Raises TextError."""
    try:
        import soundfile
    except ImportError as error:
        raise TextError(
            f"{name}: does not begin as a WAV file of whole numbers does; for FLAC and others, install soundfile (pip "
            "install soundfile)"
        ) from error
    wrong = f"{name}: is no file of sound that soundfile knows, or is damaged"
    try:
        info = soundfile.info(name)
    except (RuntimeError, ValueError, TypeError) as error:
        raise TextError(f"{wrong}: {error}") from error

    def blocks() -> Iterator[Float64[ndarray, "samples channels"]]:
        try:
            yield from soundfile.blocks(name, _AT_ONCE, dtype="float64", always_2d=True)
        except (RuntimeError, ValueError, TypeError) as error:
            raise TextError(f"{wrong}: {error}") from error

    return _File(int(info.samplerate), int(info.channels), int(info.frames), blocks)


def raw_recording(file: BinaryIO, rate: int, wanted: int, is_stopped: Callable[[], bool] = lambda: False) -> Recording:
    """Return raw samples as a recording, at another rate.

    file: read until it ends. rate: of its samples. wanted: of the network. is_stopped: whether no more are to be read.
    Raises SettingError if the rate is below 1. Reading raises TextError where there is no sound, or the file has a
    header.

    good:  model.listen(chainrule.raw_recording(sys.stdin.buffer, 16_000, model.network.rate))
    """
    check_least("rate", rate, 1)
    notes = () if rate == wanted else (f"{rate:,} samples a second, converted to {wanted:,}",)
    return Recording(resampled(_samples(file, is_stopped), rate, wanted), wanted, _STREAM, notes)


def _samples(file: BinaryIO, is_stopped: Callable[[], bool]) -> Iterator[Float64[ndarray, " samples"]]:
    rest, is_first = b"", True
    read = getattr(file, "read1", file.read)  # returns what is there
    while not is_stopped() and (data := read(_BYTES_AT_ONCE)):
        data = rest + data
        if is_first and len(data) < 4:
            rest = data
            continue
        if is_first and data[:4] in _FORMATS:
            raise TextError(
                f"{_STREAM}: begins as {_FORMATS[data[:4]]}; name the file, or pipe raw samples of 16 bits (arecord -f "
                "S16_LE -t raw)"
            )
        whole = len(data) - len(data) % _WIDTH
        yield as_numbers(data[:whole], _WIDTH)
        rest, is_first = data[whole:], False
    if is_first:
        raise TextError(f"{_STREAM}: has no sound; expected raw samples of 16 bits (arecord -f S16_LE -t raw)")


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
