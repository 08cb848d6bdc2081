"""Models that hear: texts of sounds, error rates, alignments; saved, opened and refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from sung import CONFIG, TEXTS, hearing, sung, transcript, transcripts, write_wav

import chainrule
from chainrule import NGramConfig, Sound, SpeechModel, TextError
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.speech.measurement import SpeechMeasurement
from chainrule.features.speech.network import BLANK
from chainrule.models.files.opening import load

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def language_model() -> chainrule.CausalModel:
    return chainrule.train(chainrule.Lines(3 * TEXTS), NGramConfig(order=2), tokenizer="whitespace")


def test_it_hears_what_it_has_learned_by_every_way_of_writing(language_model: chainrule.CausalModel) -> None:
    model, sounds = hearing(), [sung(text, i) for i, text in enumerate(TEXTS)]
    for options, step in (({"greedy": True}, 1), ({}, 2), ({"language_model": language_model}, 2), ({"beam": 1}, 2)):
        written = [heard.text for heard in model.transcribe(sounds[::step], **options)]  # type: ignore[arg-type]
        assert written == list(TEXTS[::step]), options


def test_texts_are_ranked_by_the_sum_of_their_scores(language_model: chainrule.CausalModel) -> None:
    [heard] = hearing().transcribe([sung("ab ba", 5)], language_model, beam_prune_logp=-30, token_min_logp=-20)
    assert len(heard.nbest) > 3
    scores = [own.ctc + own.lm for own in heard.nbest]
    assert scores == sorted(scores, reverse=True)
    assert [word.word for word in heard.nbest[0].words] == ["ab", "ba"]
    assert heard.id == "ab_ba.wav"


def test_the_best_path_is_the_likeliest_label_of_each_step() -> None:
    model, sound = hearing(), sung("a b", 2)
    log_probs = model.log_probs(sound)
    np.testing.assert_allclose(np.exp(log_probs).sum(1), 1, atol=1e-5)
    path = log_probs.argmax(1)
    [heard] = model.transcribe([sound], greedy=True)
    kept = [label for i, label in enumerate(path) if label != BLANK and (i == 0 or label != path[i - 1])]
    assert heard.text == "".join(model.labels[label - 1] for label in kept)
    assert heard.nbest[0].ctc == pytest.approx(float(log_probs.max(1).sum()), rel=1e-5)
    first, second = heard.nbest[0].words
    assert (first.word, second.word) == ("a", "b")
    assert 0 < first.start < first.stop <= second.start < second.stop <= len(log_probs)


def test_each_sound_is_heard_as_if_alone() -> None:
    model = hearing()
    alone = [model.log_probs(sung(text, i)).tobytes() for i, text in enumerate(TEXTS)]
    assert alone == [model.log_probs(sung(text, i)).tobytes() for i, text in enumerate(TEXTS)]
    whole = [own.nbest[0] for own in model.transcribe([sung(text, i) for i, text in enumerate(TEXTS)])]
    assert whole == [next(model.transcribe([sung(text, i)])).nbest[0] for i, text in enumerate(TEXTS)]


def test_error_rates_by_hand() -> None:
    measured = SpeechMeasurement.of(["a b", "c d e", "f"], ["a x", "c e", "f"], ["a b", "c d e", "f"])
    assert (measured.sounds, measured.words, measured.characters) == (3, 6, 9)
    wer, cer = measured.rates["the network alone"].values()
    assert (wer.value, cer.value) == (pytest.approx(2 / 6), pytest.approx(3 / 9))
    assert measured.rates["with the language model"]["WER"].value == 0
    assert measured.gain is not None
    assert measured.gain["WER"].value == pytest.approx(2 / 6)
    low, high = measured.gain["WER"].interval
    assert 0 <= low < 2 / 6 < high
    figures = measured.as_json()
    assert figures["gain_wer"] == pytest.approx(2 / 6)
    assert json.dumps(figures)
    assert "gain" in str(measured)
    single = SpeechMeasurement.of(["a"], ["b"])
    assert single.gain is None
    assert single.as_json()["wer_low"] is None


def test_a_model_is_measured(language_model: chainrule.CausalModel) -> None:
    measured = hearing().evaluate(transcripts(), language_model)
    assert measured.rates["the network alone"]["WER"].value == 0
    assert measured.texts["with the language model"] == 2 * list(TEXTS)
    other = [transcripts()[0]._replace(text="äb c")]  # letters that it never writes
    assert hearing().evaluate(other).rates["the network alone"]["WER"].value == 1


def test_characters_are_aligned_to_where_they_are_said() -> None:
    model, sound = hearing(), sung("ab ba", 5)
    own, given = model.align(sound), model.align(sound, " ab  ba ")
    assert own.text == given.text == "ab ba"
    assert own.characters == given.characters
    assert given.log_prob <= 0
    places = [place for _, start, stop in given.characters for place in (start, stop)]
    assert places == sorted(places)
    with pytest.raises(TextError, match=r"the text 'xyz' has 'x', 'y', 'z', which the model has never written"):
        model.align(sound, "xyz")
    with pytest.raises(TextError, match="labels, which need"):
        model.align(sound, "ab" * 50)
    drawn = chainrule.attend(model, sound)
    assert drawn.aligned.characters == own.characters
    assert "<svg" in drawn._repr_html_()


def test_a_saved_model_is_the_same(tmp_path: Path) -> None:
    model = hearing()
    model.save(tmp_path / "speech")
    opened = chainrule.load(tmp_path / "speech", SpeechModel)
    assert isinstance(chainrule.load(tmp_path / "speech"), SpeechModel)
    assert opened.labels == model.labels == (" ", "a", "b")
    for text in TEXTS[:3]:
        assert opened.log_probs(sung(text, 70)).tobytes() == model.log_probs(sung(text, 70)).tobytes()
    assert opened.record == json.loads(json.dumps(model.record))
    assert chainrule.info(tmp_path / "speech").family == "speech"
    assert chainrule.verify(tmp_path / "speech").has_card
    assert "SpeechModel: lstm, 4 outputs" in repr(opened)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("width", 16, "the array 'layers.ahead.0.weight_ih_l0' is float32"),
        ("layers", 10_000, "there are more layers|has 10000 layers|layers"),
        ("labels", ["a"], "the array 'output.weight' is float32"),
        ("labels", [], "the setting labels is missing"),
        ("encoder", "bat", "encoder"),
        ("mels", "many", "mels"),
    ],
)
def test_a_folder_with_other_settings_is_refused(name: str, value: object, message: str, tmp_path: Path) -> None:
    hearing().save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["settings"]["network"][name] = value
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelFormatError, match=message) as raised:
        load(tmp_path, SpeechModel)
    assert str(tmp_path) in str(raised.value)


def test_what_is_no_speech_model_is_refused_and_a_speech_model_elsewhere(
    tmp_path: Path, language_model: chainrule.CausalModel
) -> None:
    language_model.save(tmp_path / "lm")
    hearing().save(tmp_path / "speech")
    with pytest.raises(SettingError, match="continues texts; this takes one that hears"):
        chainrule.load(tmp_path / "lm", SpeechModel)
    with pytest.raises(SettingError, match=r"hears sounds .* this takes one that continues texts"):
        chainrule.load(tmp_path / "speech", chainrule.CausalModel)
    with pytest.raises(SettingError, match="takes no tokenizer"):
        chainrule.load(tmp_path / "speech", tokenizer="word")


def test_sounds_that_cannot_be_heard(tmp_path: Path) -> None:
    model = hearing()
    good = write_wav(tmp_path / "good.wav", "ab", 0)
    errors: list[str] = []
    sounds = [tmp_path / "none.wav", good, Sound(np.zeros(5), CONFIG.rate), Sound(np.zeros(8000), 8000)]
    heard = [*model.transcribe(sounds, on_error=lambda error: errors.append(str(error)))]
    assert [own.text for own in heard] == ["ab"]
    assert [own.split(":")[0] for own in errors] == [str(tmp_path / "none.wav"), "a sound", "a sound"]
    with pytest.raises(TextError, match="has 8,000 samples a second, and the model reads 16,000"):
        [*model.transcribe(sounds[3:])]
    with pytest.raises(TypeError, match="put a single one in a list"):
        model.transcribe(str(good))
    with pytest.raises(TypeError, match="this takes a model"):
        model.transcribe([good], "lm/")  # type: ignore[arg-type]
    silent = [*model.transcribe([Sound(np.zeros(8000), CONFIG.rate)], greedy=True)]
    assert len(silent) == 1
    with pytest.raises(TextError, match="at least one is needed"):
        model.evaluate([])


def test_frames_of_a_transcript_are_those_of_its_sound() -> None:
    item = transcript("ab", 3)
    assert np.array_equal(hearing().frames(sung("ab", 3)), item.frames)
