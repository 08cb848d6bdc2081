"""Recordings as they come: raw samples, long sounds, words that are certain, confidences; aligned words."""

from __future__ import annotations

import io
import itertools
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sung import TEXTS, hearing, sung

from chainrule import Lines, NGramConfig, Sound, TextError, raw_recording, train
from chainrule.errors import SettingError
from chainrule.features.metrics.aligned_words import align_words, shown_alignment
from chainrule.features.metrics.error_rates import CharacterErrors, WordErrors
from chainrule.features.speech.measurement import SpeechMeasurement
from chainrule.features.speech.search import language_model
from chainrule.features.speech.search.alignment import log_probability

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from command_line import Result

RATE = 16_000


def sayings(count: int) -> Sound:
    """Several texts, one after another."""
    return Sound(np.concatenate([sung(text, i).samples for i, text in enumerate(TEXTS[:count])]), RATE)


def raw(sound: Sound) -> bytes:
    return np.rint(sound.samples * 32767).astype("<i2").tobytes()


def test_words_of_a_stream_are_those_of_the_whole() -> None:
    """Also where samples come one by one, and cut through a sample."""
    sound = sayings(10)
    [whole] = hearing().transcribe([sound], greedy=True, window=1.2, overlap=0.2)
    data = raw(sound)

    class Pieces(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            return super().read1(min(size or 0, 1777))

    recording = raw_recording(Pieces(data + b"\0"), RATE, RATE)
    news = [*hearing().listen(recording, greedy=True, window=1.2, overlap=0.2)]
    assert [word for new in news for word in new.words] == whole.text.split()
    assert news[-1].utterance is not None
    assert news[-1].utterance.text == whole.text
    assert len(news[-1].words) < len(whole.text.split())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "has no sound"),
        (b"\1", "has no sound"),
        (b"RIFF1234WAVE", "begins as a WAV file"),
        (b"fLaC\0\0", "a FLAC"),
    ],
)
def test_what_is_no_raw_sound_is_said(data: bytes, message: str) -> None:
    with pytest.raises(TextError, match=f"standard input: .*{message}"):
        [*hearing().listen(raw_recording(io.BytesIO(data), RATE, RATE))]


def test_the_shell_hears_standard_input(
    tmp_path: Path, chainrule: Callable[..., Result], stdin: Callable[[bytes], None]
) -> None:
    model = tmp_path / "m"
    hearing().save(model)
    sound = sayings(6)
    stdin(raw(sound))
    shown = chainrule("transcribe", model, "-", "--window", 3, "--greedy")
    stdin(raw(sound))
    record = chainrule("transcribe", model, "-", "--window", 3, "--greedy", "--json").json
    assert shown.out == f"{record['text']}\n"
    assert len(record["words"]) == len(record["text"].split()) > 3
    assert all(0 < word["confidence"] <= 1 for word in record["words"])
    stdin(b"")
    for arguments, message in (
        (("-", "a.wav"), "is transcribed alone"),
        (("a.wav", "--rate", 8000), "--rate is of raw samples"),
        (("-", "--rate", 0), "rate is 0; expected 1 or more"),
        (("-",), "standard input: has no sound"),
        (("a.wav", "--window", 3, "--overlap", 2), "has no middle; make it longer than twice the overlap"),
    ):
        refused = chainrule("transcribe", model, *arguments)
        assert refused.status
        assert message in refused.err


def test_a_long_sound_is_heard_in_windows() -> None:
    """The network reads what is around a step, but little of it counts: texts are nearly the same."""
    sound = sayings(10)
    [heard] = hearing().transcribe([sound], window=1.5, overlap=0.5, greedy=True)
    [whole] = hearing().transcribe([sound], greedy=True)
    assert CharacterErrors().statistics([heard.text], [whole.text])[0, 0] <= 3
    stop = heard.nbest[0].words[-1].stop * hearing().step_seconds
    assert sound.seconds - 1 < stop <= sound.seconds + 0.03
    with pytest.raises(SettingError, match="has no middle"):
        hearing().transcribe([sound], window=1.0, overlap=0.5)


def test_a_language_model_reads_the_end_of_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is all that a bigram model knows of it."""
    sound = sayings(8)
    model = train(Lines(3 * TEXTS), NGramConfig(order=2), tokenizer="whitespace")
    [expected] = hearing().transcribe([sound], model)
    monkeypatch.setattr(language_model, "_LONGEST", 9)
    monkeypatch.setattr(language_model, "_KEPT", 6)
    [heard] = hearing().transcribe([sound], model)
    assert len(heard.text) > 18
    assert [own.text for own in heard.nbest] == [own.text for own in expected.nbest]
    np.testing.assert_allclose([own.lm for own in heard.nbest], [own.lm for own in expected.nbest])


@pytest.mark.parametrize("labels", [[1], [1, 2], [1, 1], [2, 1, 2], []])
def test_the_probability_of_labels_sums_over_all_paths(labels: list[int]) -> None:
    log_probs = np.log(np.random.default_rng(0).dirichlet(np.ones(3), 5))
    total = 0.0
    for path in itertools.product(range(3), repeat=5):
        if [label for label, _ in itertools.groupby(path) if label] == labels:
            total += np.exp(log_probs[range(5), path].sum())
    assert np.exp(log_probability(log_probs, labels, 0)) == pytest.approx(total)


@given(*(st.lists(st.sampled_from("abc"), max_size=6).map(" ".join) for _ in range(2)))
def test_words_are_aligned_with_as_few_errors_as_there_are(text: str, reference: str) -> None:
    aligned = align_words(text, reference)
    assert " ".join(word.said for word in aligned if word.said) == reference
    assert " ".join(word.written for word in aligned if word.written) == text
    assert sum(word.kind != "same" for word in aligned) == WordErrors().statistics([text], [reference])[0, 0]


def test_the_table_of_a_measurement_shows_what_is_wrong() -> None:
    assert shown_alignment(align_words("the dock ran fast", "the dog ran")) == "the [dog -> dock] ran [+ fast]"
    measured = SpeechMeasurement.of(["a b", "c d e"], ["a x", "c e f"], ["a b", "c e"], ["1.wav", "2.wav"])
    first, second = measured.to_records()
    assert first == {
        "sound": "1.wav",
        "reference": "a b",
        "text": "a x",
        "text_with_lm": "a b",
        "words": 2,
        "errors": 0,
        "substituted": 0,
        "deleted": 0,
        "inserted": 0,
        "alignment": "a b",
    }
    assert (second["errors"], second["deleted"], second["alignment"]) == (1, 1, "c [- d] e")
    assert "words with the language model: 0 substituted, 1 deleted, 0 inserted" in str(measured)
    assert json.dumps(measured.as_json())
