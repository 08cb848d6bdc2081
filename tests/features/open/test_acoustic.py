"""wav2vec 2.0, HuBERT and WavLM: numbers and texts equal those of transformers; bad folders are one line."""

from __future__ import annotations

import io
import json
import re
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import numpy as np
import pyctcdecode
import pytest
import torch
import transformers
from tiny_acoustic import KINDS, TOKENS, noise, tiny, write_processor

import chainrule
from chainrule import Sound, SpeechModel, TextError, raw_recording
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.speech.listening.windows import Windows
from chainrule.features.speech.sounds.sound import encode_wav

if TYPE_CHECKING:
    from collections.abc import Callable

    from command_line import Result


@pytest.fixture
def verbs(request: pytest.FixtureRequest) -> Callable[..., Result]:
    """The shell; its name is that of the package here."""
    return request.getfixturevalue("chainrule")  # type: ignore[no-any-return]


@cache
def folder(kind: str) -> Path:
    path = Path(mkdtemp())
    tiny(kind).save_pretrained(path)
    write_processor(path)
    return path


@cache
def opened(kind: str) -> SpeechModel:
    return chainrule.load(folder(kind), SpeechModel)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_all_layers_are_those_of_transformers(kind: str) -> None:
    theirs, model, sound = tiny(kind), opened(kind), noise(1.3)
    samples = sound.samples.astype(np.float32)
    given = torch.from_numpy((samples - samples.mean()) / np.sqrt(samples.var() + 1e-7))[None]
    with torch.no_grad():
        found = theirs(given, output_hidden_states=True)
        base = theirs.base_model(given).last_hidden_state
    np.testing.assert_allclose(model.log_probs(sound), found.logits[0].log_softmax(-1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(model.features(sound), base[0], rtol=1e-5, atol=1e-5)
    assert len(found.hidden_states) == 3
    for layer, expected in enumerate(found.hidden_states):
        np.testing.assert_allclose(model.features(sound, layer), expected[0], rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask")
@pytest.mark.parametrize("kind", KINDS)
def test_batches_with_padding_are_those_of_transformers(kind: str) -> None:
    theirs, network = tiny(kind), opened(kind).network
    lengths = torch.tensor([9000, 5123])
    samples = torch.randn(2, 9000) * (torch.arange(9000) < lengths[:, None])
    mask = (torch.arange(9000) < lengths[:, None]).long()
    for own, attention_mask in ((None, None), (lengths, mask)):
        with torch.no_grad():
            expected, found = theirs(samples, attention_mask=attention_mask).logits, network(samples, own)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask")
def test_texts_and_times_are_those_of_the_pipeline_also_of_long_sounds() -> None:
    pipeline = transformers.pipeline("automatic-speech-recognition", str(folder("wavlm")), device="cpu")
    sound = noise(7.3)
    for window, options in ((None, {}), (2.4, {"chunk_length_s": 2.4, "stride_length_s": 0.4})):
        expected = pipeline(sound.samples.astype(np.float32), return_timestamps="word", **options)
        [heard] = opened("wavlm").transcribe([sound], greedy=True, window=window)
        assert heard.text == " ".join(expected["text"].split())
        words = heard.nbest[0].words
        assert len(words) > 9
        assert [word.word for word in words] == [chunk["text"] for chunk in expected["chunks"]]
        times = [(round(0.02 * word.start, 3), round(0.02 * word.stop, 3)) for word in words]
        assert times == [chunk["timestamp"] for chunk in expected["chunks"]]


def test_a_search_finds_what_pyctcdecode_finds() -> None:
    model, sound = opened("wavlm"), noise(4, 3)
    decoder = pyctcdecode.build_ctcdecoder(["" if token == "<pad>" else token for token in TOKENS])
    [*expected] = decoder.decode_beams(model.log_probs(sound))
    [heard] = model.transcribe([sound])
    assert heard.text == expected[0][0]
    assert heard.nbest[0].ctc == pytest.approx(expected[0][-2], rel=1e-5)
    assert [(word.word, (word.start, word.stop)) for word in heard.nbest[0].words] == expected[0][2]


def test_joined_windows_have_each_step_once_and_the_middle_of_a_window_is_as_it_is_alone() -> None:
    model, sound = opened("wav2vec2-large"), noise(9)
    whole = model.features(sound)
    assert len(whole) == model.network.config.steps(len(sound.samples)) == 449
    windows = Windows(model.network, lambda own: model.network.features(own, None), "", 3.0, 0.5)
    parts = [rows for block in np.array_split(sound.samples, 31) for rows in windows.add(block)]
    joined = np.concatenate([*parts, *windows.end()])
    assert joined.shape == whole.shape
    second = model.network.features(Sound(sound.samples[32_000:80_000], 16_000), None)
    np.testing.assert_allclose(joined[125:225], second[25:125], atol=1e-5)


def test_words_become_certain_and_are_those_of_a_file(tmp_path: Path) -> None:
    model, sound = opened("wavlm"), noise(10, 5)
    raw = np.rint(sound.samples * 32767).astype("<i2").tobytes()
    lm = chainrule.train(chainrule.Lines(["IN NIN HIN", "NI IN"]), chainrule.NGramConfig(order=2), tokenizer="word")
    for options in ({"greedy": True}, {"language_model": lm, "beam": 20}):
        news = [*model.listen(raw_recording(io.BytesIO(raw), 16_000, 16_000), window=2.0, overlap=0.4, **options)]
        (tmp_path / "a.wav").write_bytes(encode_wav(np.frombuffer(raw, "<i2"), 16_000))
        [heard] = model.transcribe([tmp_path / "a.wav"], window=2.0, overlap=0.4, **options)
        assert news[-1].utterance is not None
        assert news[-1].utterance.nbest == heard.nbest
        assert [word for new in news for word in new.words] == heard.text.split()
        assert len(news) > 4
        assert all(new.utterance is None for new in news[:-1])


def test_what_is_saved_and_old_files_are_the_same(tmp_path: Path) -> None:
    model, sound = opened("wav2vec2"), noise(1)
    model.save(tmp_path / "ours")
    same = chainrule.load(tmp_path / "ours", SpeechModel)
    assert np.array_equal(same.log_probs(sound), model.log_probs(sound))
    weights = {}
    for name, tensor in tiny("wav2vec2").state_dict().items():
        old = name.replace("parametrizations.weight.original0", "weight_g").replace(
            "parametrizations.weight.original1", "weight_v"
        )
        weights[old] = tensor
    shutil.copytree(folder("wav2vec2"), tmp_path / "old", ignore=lambda *_: ["model.safetensors"])
    torch.save(weights, tmp_path / "old/pytorch_model.bin")
    with pytest.raises(ModelFormatError, match="is a pickle"):
        chainrule.load(tmp_path / "old")
    old_model = chainrule.load(tmp_path / "old", SpeechModel, allow_pickle=True)
    assert np.array_equal(old_model.log_probs(sound), model.log_probs(sound))


def test_a_network_without_a_head_gives_features(tmp_path: Path, verbs: Callable[..., Result]) -> None:
    base = tiny("hubert-large", "Model")
    base.save_pretrained(tmp_path / "base")
    model, sound = chainrule.load(tmp_path / "base", SpeechModel), noise(1)
    np.testing.assert_allclose(model.features(sound, -1), model.features(sound, 2))
    (tmp_path / "a.wav").write_bytes(encode_wav(np.rint(sound.samples * 32767).astype(np.int16), 16_000))
    vector = verbs("embed", tmp_path / "base", tmp_path / "a.wav", "--layer", 1).json["vector"]
    expected = model.features(tmp_path / "a.wav", 1).mean(0)
    np.testing.assert_allclose(vector, expected, atol=1e-5)
    steps = verbs("embed", tmp_path / "base", tmp_path / "a.wav", "--tokens").json
    assert len(steps["units"]) == len(steps["vectors"]) == 49
    refused = verbs("transcribe", tmp_path / "base", tmp_path / "a.wav")
    assert f"{tmp_path}/base: this hubert has no CTC head" in refused.err
    assert "a hubert without a CTC head" in verbs("info", tmp_path / "base").out
    with pytest.raises(SettingError, match="layer is 3; expected 0 to 2"):
        model.features(sound, 3)


def test_the_processor_decides_on_labels_and_samples(tmp_path: Path) -> None:
    shutil.copytree(folder("wav2vec2"), tmp_path / "m")
    write_processor(tmp_path / "m", ("_", *TOKENS[1:]), pad_token="_", do_lower_case=True)
    extractor = json.loads((tmp_path / "m/preprocessor_config.json").read_text())
    (tmp_path / "m/preprocessor_config.json").unlink()
    settings = {"feature_extractor": {**extractor, "do_normalize": False, "sampling_rate": 8000}}
    (tmp_path / "m/processor_config.json").write_text(json.dumps(settings))
    (tmp_path / "m/language_model").mkdir()
    (tmp_path / "m/language_model/5gram.bin").write_bytes(b"")
    model = chainrule.load(tmp_path / "m", SpeechModel)
    assert model.labels == ("<s>", "</s>", "<unk>", " ", *"etaonihs'")
    assert model.network.columns[0] == ""
    assert "5gram.bin is a language model for this network" in model.record["warnings"][0]
    sound = noise(1, rate=8000)
    with torch.no_grad():
        expected = tiny("wav2vec2")(torch.from_numpy(sound.samples.astype(np.float32))[None]).logits[0].log_softmax(-1)
    np.testing.assert_allclose(model.log_probs(sound), expected, rtol=1e-5, atol=1e-5)
    assert model.step_seconds == 0.04


def _without(name: str) -> Callable[[Path], object]:
    return lambda path: (path / name).unlink()


def _changed(name: str, **changes: Any) -> Callable[[Path], object]:
    return lambda path: (path / name).write_text(json.dumps({**json.loads((path / name).read_text()), **changes}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without("vocab.json"), "vocab.json is missing, which says what the 14 outputs stand for"),
        (_without("model.safetensors"), "has no model.safetensors"),
        (_changed("vocab.json", more=14), "has 15 tokens, but the head has 14 outputs"),
        (_changed("vocab.json", E=9), "has 13 tokens for the 14 outputs of the head, and none with the id 5"),
        (_changed("vocab.json", E="five"), "'E' has the id 'five'"),
        (_changed("config.json", add_adapter=True), "add_adapter is True, which is not supported"),
        (_changed("config.json", adapter_attn_dim=16), "adapter_attn_dim is 16, which is not supported"),
        (_changed("config.json", hidden_act="mish"), "hidden_act"),
        (_changed("config.json", num_hidden_layers=3), "lacks the tensor 'encoder.layers.2.attention.q_proj.weight'"),
        (_changed("config.json", num_hidden_layers=1), "has the tensor 'encoder.layers.1"),
        (_changed("config.json", hidden_size=32), "expected float32"),
        (_changed("config.json", conv_dim=[8]), "expected as many of each"),
        (_changed("config.json", speed=3), "speed is 3, and its effect"),
        (_changed("tokenizer_config.json", pad_token="?"), "lacks the pad token '?', which is CTC's blank"),
        (_changed("tokenizer_config.json", tokenizer_class="Other"), "tokenizer_class is 'Other'"),
        (_changed("preprocessor_config.json", sampling_rate="fast"), "sampling_rate is 'fast'"),
        (_changed("preprocessor_config.json", feature_size=80), "feature_size is 80"),
    ],
)
def test_what_is_wrong_with_a_folder_is_one_line(
    change: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    shutil.copytree(folder("hubert"), tmp_path / "m")
    change(tmp_path / "m")
    with pytest.raises(ModelFormatError, match=re.escape(message)) as raised:
        chainrule.load(tmp_path / "m")
    assert str(raised.value).startswith(str(tmp_path))
    assert "\n" not in str(raised.value)


def test_a_sound_that_is_too_short_or_of_another_rate(tmp_path: Path) -> None:
    with pytest.raises(TextError, match=r"is 24\.9 ms long; expected 25 ms"):
        opened("hubert").log_probs(Sound(np.zeros(399), 16_000))
    assert len(opened("hubert").log_probs(Sound(np.zeros(400), 16_000))) == 1
    (tmp_path / "a.wav").write_bytes(encode_wav(np.rint(noise(2).samples * 32767).astype(np.int16), 8000))
    assert len(opened("hubert").log_probs(tmp_path / "a.wav")) == 199
