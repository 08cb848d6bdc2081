"""Sounds from files: samples, rates, log-mel frames and transcripts; what is wrong with a file is one clear line."""

from __future__ import annotations

import io
import math
import struct
import tempfile
import wave
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule import Sound, Transcript, read_sound, read_transcripts
from chainrule.errors import TextError
from chainrule.features.speech.sounds.features import STEPS, band_centres, log_mel, normalised
from chainrule.features.speech.sounds.resampling import resampled
from chainrule.features.speech.sounds.sound import _cut_short, encode_wav, sound_files

if TYPE_CHECKING:
    from pathlib import Path


def wav_of(numbers: list[list[int]], width: int, rate: int) -> bytes:
    """A WAV file of rows of whole numbers, one for each channel; those of one byte have no sign."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(len(numbers[0]))
        writer.setsampwidth(width)
        writer.setframerate(rate)
        offset = 128 if width == 1 else 0
        writer.writeframes(
            b"".join((number + offset).to_bytes(width, "little", signed=width > 1) for row in numbers for number in row)
        )
    return file.getvalue()


def tone(frequency: float, rate: int, seconds: float = 0.2) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * frequency * np.arange(int(rate * seconds)) / rate)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_samples_of_every_width_are_shares_of_the_largest(width: int, tmp_path: Path) -> None:
    most = 1 << (8 * width - 1)
    (tmp_path / "a.wav").write_bytes(wav_of([[0], [most - 1], [-most], [most // 2]], width, 16_000))
    sound = read_sound(tmp_path / "a.wav", 16_000)
    np.testing.assert_allclose(sound.samples, [0, 1 - 1 / most, -1, 0.5], rtol=0, atol=1e-15)
    assert sound.notes == ()
    assert sound.seconds == 4 / 16_000


def test_channels_and_rates_are_converted_and_it_is_said(tmp_path: Path) -> None:
    stereo = np.stack((tone(440, 22_050), tone(440, 22_050) / 2), 1)
    rows = np.rint(stereo * 32767).astype(int).tolist()
    (tmp_path / "a.wav").write_bytes(wav_of(rows, 2, 22_050))
    sound = read_sound(tmp_path / "a.wav", 16_000)
    assert sound.notes == (
        "2 channels, of which the mean is taken",
        "22,050 samples a second, converted to 16,000",
    )
    expected = 0.75 * tone(440, 16_000)
    assert len(sound.samples) == math.ceil(len(rows) * 16_000 / 22_050)
    middle = slice(400, len(expected) - 400)
    np.testing.assert_allclose(sound.samples[: len(expected)][middle], expected[middle], atol=1e-4)


@given(
    st.sampled_from([(8000, 16_000), (22_050, 16_000), (44_100, 16_000), (48_000, 16_000), (16_000, 22_050)]),
    st.floats(100, 3500),
)
def test_resampled_tones_are_the_tones_of_the_other_rate(rates: tuple[int, int], frequency: float) -> None:
    rate, wanted = rates
    found = np.concatenate([*resampled([tone(frequency, rate)], rate, wanted)])
    expected = tone(frequency, wanted)[: len(found)]
    edge = wanted // 50
    np.testing.assert_allclose(found[: len(expected)][edge:-edge], expected[edge:-edge], atol=2e-3)


def test_what_is_above_the_band_of_the_new_rate_goes() -> None:
    found = np.concatenate([*resampled([tone(11_000, 44_100)], 44_100, 16_000)])
    assert np.abs(found[300:-300]).max() < 1e-5


def test_frames_are_those_of_the_formula_computed_term_by_term() -> None:
    """Pre-emphasis, Hamming, a discrete Fourier transform by its definition, triangles on the scale of mel, ln."""
    rate, mels = 8000, 6
    samples = np.random.default_rng(0).normal(0, 0.1, 420)
    frames = log_mel(Sound(samples, rate), mels)
    size, hop, points = 200, 80, 256
    assert frames.shape == (1 + (420 - size) // hop, mels)

    def mel(frequency: float) -> float:
        return 2595 * math.log10(1 + frequency / 700)

    width = (mel(rate / 2) - mel(20)) / (mels + 1)
    edges = [700 * (10 ** ((mel(20) + i * width) / 2595) - 1) for i in range(mels + 2)]
    np.testing.assert_allclose(band_centres(mels, rate), edges[1:-1])
    for t, row in enumerate(frames.tolist()):
        window = []
        for n in range(size):
            at = t * hop + n
            before = samples[at - 1] if at else 0.0
            sharpened = samples[at] - 0.97 * before
            window.append(sharpened * (0.54 - 0.46 * math.cos(2 * math.pi * n / (size - 1))))
        powers = []
        for k in range(points // 2 + 1):
            angle = -2 * math.pi * k / points
            real = sum(x * math.cos(angle * n) for n, x in enumerate(window))
            imaginary = sum(x * math.sin(angle * n) for n, x in enumerate(window))
            powers.append(real**2 + imaginary**2)
        for band, value in enumerate(row):
            low, middle, high = edges[band : band + 3]
            energy = 0.0
            for k, power in enumerate(powers):
                frequency = k * rate / points
                if low < frequency <= middle:
                    energy += power * (frequency - low) / (middle - low)
                elif middle < frequency < high:
                    energy += power * (high - frequency) / (high - middle)
            assert abs(value - STEPS * math.log(max(energy, 1e-10))) <= 0.5 + 1e-6


def test_normalised_bands_have_mean_0_and_deviation_1() -> None:
    frames = np.random.default_rng(0).integers(-9000, 9000, (70, 5)).astype(np.int16)
    frames[:, 3] = 7
    scaled = normalised(frames)
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.std(0), [1, 1, 1, 0, 1], atol=1e-5)
    assert scaled.dtype == np.float32


def test_a_sound_that_is_silent_or_too_short() -> None:
    assert (normalised(log_mel(Sound(np.zeros(800), 16_000), 40)) == 0).all()
    with pytest.raises(TextError, match=r"a sound: is 10 ms long; expected 25 ms"):
        log_mel(Sound(np.zeros(160), 16_000), 40)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (wav_of([[1]], 2, 16_000)[:44], "is empty; expected sound of 25 ms or more"),
        (wav_of([[1]], 2, 16_000)[:30], "is no WAV file, or is damaged"),
        (b"", "is empty; expected a file of sound"),
        (b"RIFF", "is damaged: it ends in its header"),
        (b"ID3" + bytes(99), "install soundfile|no file of sound"),
        (wav_of([[1]] * 9, 2, 3), "has 3 samples a second; expected 1,000 to 1,000,000"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.wav").write_bytes(content)
    with pytest.raises(TextError, match=message) as raised:
        read_sound(tmp_path / "bad.wav", 16_000)
    assert str(raised.value).startswith(str(tmp_path / "bad.wav"))
    assert "\n" not in str(raised.value)


WHOLE = encode_wav((10_000 * tone(300, 16_000, 0.05)).astype(np.int16), 16_000)


@given(st.integers(0, len(WHOLE)), st.integers(0, 60), st.integers(0, 255))
def test_a_damaged_file_is_refused_or_read_but_never_crashes(length: int, place: int, value: int) -> None:
    data = bytearray(WHOLE[:length])
    if place < len(data):
        data[place] = value
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        file.write(data)
        file.flush()
        try:
            sound = read_sound(file.name, 16_000)
        except TextError:
            return
    assert np.isfinite(sound.samples).all()
    assert sound.notes or length == len(WHOLE) or place < 44


def test_a_file_that_is_cut_short_is_read_and_said(tmp_path: Path) -> None:
    (tmp_path / "cut.wav").write_bytes(WHOLE[: 44 + 800])
    sound = read_sound(tmp_path / "cut.wav", 16_000)
    assert len(sound.samples) == 400
    assert sound.notes == ("ends after 0.03 of 0.05 s; the file is cut short",)


def test_headers_of_other_kinds_say_that_a_file_is_cut_short(tmp_path: Path) -> None:
    """Samples of 4 bytes, 16,000 a second: 3,200 bytes are promised, 1,600 are there. Between them is another chunk."""
    parts = b"RIFF", bytes(4), b"WAVEfmt ", struct.pack("<IHHIIHH", 16, 3, 1, 16_000, 64_000, 4, 32), b"LIST"
    header = b"".join(parts) + struct.pack("<I", 3) + b"abc\0data"
    for promised, there, notes in (
        (3200, 1600, ["ends after 0.03 of 0.05 s; the file is cut short"]),
        (3200, 3200, []),
        (0xFFFFFFFF, 1600, []),  # written to a pipe
    ):
        (tmp_path / "a.wav").write_bytes(header + struct.pack("<I", promised) + bytes(there))
        assert _cut_short(str(tmp_path / "a.wav")) == notes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four sounds, of which one is missing where it is named."""
    for name in ("a", "b", "c d", "sub/e"):
        path = tmp_path / f"{name}.wav"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(WHOLE)
    return tmp_path


def texts_of(transcripts: list[Transcript]) -> list[str]:
    return [item.text for item in transcripts]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.tsv", "a.wav\tone  two\nb.wav\t three\n\nno.wav\tfour\nsub/e.wav\t \nc d.wav\n"),
        ("t.tsv", "text\tid\tpath\none two\t1\ta.wav\nthree\t2\tb.wav\nfour\t3\tno.wav\n\t4\tb.wav\nfive\t5\n"),
        ("t.csv", 'a.wav,"one two"\nb.wav,three\nno.wav,four\na.wav,\n"c d.wav"\n'),
        (
            "t.jsonl",
            '{"audio": "a.wav", "text": "one two"}\n{"audio_filepath": "b.wav", "duration": 1, "text": "three"}\n'
            '{"audio": "no.wav", "text": "four"}\n{"audio": "a.wav", "text": ""}\n{"audio": 3, "text": "x"}\n',
        ),
    ],
)
def test_files_of_transcripts(name: str, content: str, folder: Path) -> None:
    (folder / name).write_text(content)
    errors: list[TextError] = []
    transcripts = read_transcripts(folder / name, errors.append)
    assert texts_of(transcripts) == ["one two", "three"]
    assert transcripts[0].frames.shape == (3, 40)
    assert len(errors) == 3
    assert any("no.wav: cannot be read: No such file" in str(error) for error in errors)
    assert all(str(error).startswith(str(folder / name)) for error in errors)
    with pytest.raises(TextError):
        read_transcripts(folder / name)


def test_folders_of_transcripts(folder: Path) -> None:
    for name, text in (("a", "one\n"), ("c d", "two\nthree\n"), ("sub/e", "four\n")):
        (folder / f"{name}.txt").write_text(text)
    errors: list[TextError] = []
    assert texts_of(read_transcripts(folder, errors.append)) == ["one", "two three", "four"]
    assert [str(error) for error in errors] == [f"{folder / 'b.wav'}: there is no b.txt beside it, with what is said"]
    (folder / "sub" / "1-2.trans.txt").write_text("e FOUR FIVE\nf SIX\n")  # as LibriSpeech has them
    errors.clear()
    assert texts_of(read_transcripts(folder, errors.append)) == ["FOUR FIVE"]
    assert "line 2: there is no f.flac or f.wav beside it" in str(errors[0])


def test_a_source_without_transcripts(folder: Path, tmp_path: Path) -> None:
    for path, message in (
        (tmp_path / "none", "there is no such file or folder; expected .tsv"),
        (folder / "a.wav", "expected .tsv, .csv, .jsonl or .parquet"),
        (folder / "sub", "there is no e.txt beside it"),
    ):
        with pytest.raises(TextError, match=message):
            read_transcripts(path)
    with pytest.raises(TextError, match="no sound with a transcript is in it"):
        read_transcripts(folder, lambda error: None)
    (tmp_path / "t.tsv").write_text("gone.wav\thello\nlost.wav\thello\n")
    with pytest.raises(TextError, match=r"; the first: .*t\.tsv, line 1: .*gone\.wav: cannot be read: No such file"):
        read_transcripts(tmp_path / "t.tsv", lambda error: None)


def test_conversions_are_said_once_for_all_sounds(folder: Path) -> None:
    (folder / "t.tsv").write_text("a.wav\tone\nb.wav\ttwo\n")
    notes: list[str] = []
    read_transcripts(folder / "t.tsv", rate=8000, on_note=notes.append)
    assert notes == [f"{folder / 'a.wav'} and 1 other: 16,000 samples a second, converted to 8,000"]


def test_sounds_of_folders_are_found_in_order(folder: Path) -> None:
    found = sound_files([str(folder / "b.wav"), str(folder)])
    assert [name.removeprefix(f"{folder}/") for name in found] == ["b.wav", "a.wav", "b.wav", "c d.wav", "sub/e.wav"]
    (folder / "empty").mkdir()
    with pytest.raises(TextError, match="no sound is in this folder"):
        sound_files([str(folder / "empty")])
