"""Whisper's checkpoints against transformers, on a tiny random one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tiny_models import save, shaken, transformers
from tiny_tokenizers import byte_level

import chainrule
from chainrule.cli.main import run
from chainrule.errors import ModelFormatError, SettingError, TextError
from chainrule.features.speech.ctc import HeardSegment
from chainrule.features.speech.measurement import plain_words
from chainrule.features.speech.model import SpeechModel
from chainrule.features.speech.options import TranscribeOptions
from chainrule.features.speech.search.language_model import ShallowFusion
from chainrule.features.speech.sounds.sound import Sound, encode_wav
from chainrule.features.speech.utterance_files import subtitles
from chainrule.features.speech.whisper.decoding import repetition
from chainrule.features.speech.whisper.frames import FrameStream, windowed
from chainrule.features.speech.whisper.hearing import parts_of
from chainrule.features.speech.whisper.rules import RuledModel
from chainrule.features.speech.whisper.word_times import first_steps, path_of, smoothed
from chainrule.models.files.origin import TokenIdMap
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from pathlib import Path

    from numpy import ndarray

    from chainrule.features.speech.whisper.config import WhisperConfig

TEXT, LANGUAGES, TIMES = 278, ("en", "de", "fr"), 51
EOT, SOT = TEXT, TEXT + 1
NAMES = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{code}|>" for code in LANGUAGES), "<|translate|>"]
NAMES += ["<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
ID = {name: TEXT + number for number, name in enumerate(NAMES)}
FIRST_TIME = TEXT + len(NAMES)
ROWS = FIRST_TIME + TIMES
GENERATION = {
    "no_timestamps_token_id": FIRST_TIME - 1,
    "lang_to_id": {f"<|{code}|>": ID[f"<|{code}|>"] for code in LANGUAGES},
    "task_to_id": {task: ID[f"<|{task}|>"] for task in ("transcribe", "translate")},
    "is_multilingual": True,
    "suppress_tokens": [5, 6, *range(SOT, FIRST_TIME - 1)],
    "begin_suppress_tokens": [220, EOT],
    "max_initial_timestamp_index": 20,
    "alignment_heads": [[0, 1], [1, 0]],
    "prev_sot_token_id": ID["<|startofprev|>"],
    "return_timestamps": False,
}
RATE = 16_000


def tokenizer() -> Any:
    """Of bytes and a few pairs, then the special tokens, as Whisper's."""
    made = byte_level()
    described = json.loads(made.to_str())
    vocabulary = {piece: number - 2 for piece, number in described["model"]["vocab"].items() if number >= 2}
    described["model"]["vocab"], described["added_tokens"] = vocabulary, []
    assert len(vocabulary) == TEXT
    made = type(made).from_str(json.dumps(described))
    made.add_special_tokens(NAMES)
    return made


def checkpoint(mels: int = 80) -> Any:
    """Of one second at a time: 100 frames, 50 vectors, 51 times."""
    config = transformers.WhisperConfig(
        vocab_size=ROWS,
        num_mel_bins=mels,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        max_source_positions=50,
        max_target_positions=40,
        pad_token_id=EOT,
        bos_token_id=EOT,
        eos_token_id=EOT,
        decoder_start_token_id=SOT,
    )
    model = shaken(lambda: transformers.WhisperForConditionalGeneration(config))
    with torch.no_grad():  # also the sinusoids, which are no parameters to train
        model.model.encoder.embed_positions.weight.add_(0.1 * torch.randn(50, 16))
    return model


def extractor(mels: int = 80) -> Any:
    return transformers.WhisperFeatureExtractor(feature_size=mels, chunk_length=1)


def written(folder: Path, mels: int = 80) -> Path:
    torch.manual_seed(3)
    save(checkpoint(mels), folder, tokenizer())
    extractor(mels).save_pretrained(folder)
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **GENERATION}))
    return folder


class Both:
    """The same weights in transformers and here."""

    def __init__(self, folder: Path) -> None:
        self.folder = written(folder)
        self.theirs = transformers.WhisperForConditionalGeneration.from_pretrained(folder).eval()
        for name, value in GENERATION.items():  # files lose them
            setattr(self.theirs.generation_config, name, value)
        self.ours = chainrule.load(folder, chainrule.SpeechModel)
        self.network: Any = self.ours.network
        self.config: WhisperConfig = self.network.config
        self.ids = TokenIdMap(**self.ours.record["hugging_face"]["tokens"]).ours()

    def transcribed(self, sound: Sound, **options: Any) -> Any:
        return next(self.ours.transcribe([sound], temperatures=(0,), no_speech_threshold=None, **options))

    def to_theirs(self, tokens: list[int]) -> list[int]:
        back = {int(ours): theirs for theirs, ours in enumerate(self.ids)}
        return [back[token] for token in tokens]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return Both(tmp_path_factory.mktemp("whisper") / "tiny")


def sound(seconds: float, seed: int = 0) -> Sound:
    """Noise that gets louder and softer."""
    random = np.random.default_rng(seed)
    samples = random.normal(0, 0.1, round(seconds * RATE)) * np.sin(np.arange(round(seconds * RATE)) / 3000)
    return Sound(samples, RATE, "noise")


def frames_of(given: Sound, config: Any) -> tuple[ndarray, int]:
    stream = FrameStream(config)
    for part in np.array_split(given.samples, 7):
        stream.add(part)
    return stream.end()


@pytest.mark.parametrize("mels", [80, 128])
@pytest.mark.parametrize("seconds", [0.02, 0.73, 1.0, 13.37])
def test_frames_are_those_of_transformers(mels: int, seconds: float, both: Both) -> None:
    """Long sounds are not cut, and come in pieces; 13 s have frames in two blocks."""
    given, config = sound(seconds), replace(both.config, source_width=mels)
    theirs = extractor(mels)(
        given.samples,
        sampling_rate=RATE,
        truncation=False,
        padding="longest" if seconds > 1 else "max_length",
        return_tensors="np",
    ).input_features[0]
    frames, count = frames_of(given, config)
    assert count == round(seconds * RATE) // 160
    np.testing.assert_allclose(frames, theirs.T, atol=1e-5)


@torch.inference_mode()
def test_encoder_and_decoder_equal_transformers_cached_or_not(both: Both) -> None:
    frames, _ = frames_of(sound(0.8), both.config)
    given = both.network.model.given([frames])
    random = np.random.default_rng(1)
    ids = [SOT, ID["<|de|>"], ID["<|transcribe|>"], *random.integers(0, TEXT, 20).tolist()]
    out = both.theirs(
        torch.from_numpy(frames.T[None].copy()), decoder_input_ids=torch.tensor([ids]), output_hidden_states=True
    )
    np.testing.assert_allclose(given.bound.source.memory[0], out.encoder_last_hidden_state[0], atol=1e-5)
    reader = both.network.body.reader
    x = both.network.body.source_embedding(torch.from_numpy(frames)[None]) + reader.places.weight
    from chainrule.neural.layers.masks import AttentionMask

    for layer, block in enumerate(reader.blocks):
        np.testing.assert_allclose(x, out.encoder_hidden_states[layer], atol=1e-5)
        x = block(x, AttentionMask(), None, None, layer)
    logits = out.logits[0].double()
    logits[:, SOT] = -torch.inf  # what begins a text is never predicted here
    expected = logits.log_softmax(-1).numpy()
    tolerance = 1e-5 * float(out.logits.abs().max())
    ours = both.ids[ids].astype(np.int32)
    assert ours[0] == BEGIN
    for place in range(len(ids)):
        at_once = given.next_log_probs(given.stepping.read([ours[: place + 1]]))[0]
        np.testing.assert_allclose(at_once[both.ids], expected[place], atol=tolerance)
    state = given.stepping.read([ours[:1]])
    for place, token in enumerate(ours[1:]):
        np.testing.assert_allclose(given.next_log_probs(state)[0, both.ids], expected[place], atol=tolerance)
        state = given.advance(state, np.array([token], np.int32))


class Given:
    """In place of a model given a sound: any distribution, whatever was read."""

    def __init__(self, config: WhisperConfig) -> None:
        self.vocabulary_size, self.random = config.tokens, np.random.default_rng(5)

    def select(self, state: Any, rows: Any) -> Any:
        return state

    def advance(self, state: Any, tokens: Any) -> Any:
        return state

    def next_log_probs(self, state: Any) -> ndarray:
        self.logits = self.random.normal(0, 3, (1, self.vocabulary_size)).astype(np.float32)
        self.logits[:, :2] = -np.inf  # <unk>, <s>
        logits = self.logits - np.logaddexp.reduce(self.logits, axis=1, keepdims=True)
        return logits


def test_the_rules_of_times_are_those_of_transformers(both: Both) -> None:
    """Theirs as the oracle: which tokens may follow random histories, and with which probability."""
    from transformers.generation.logits_process import (
        SuppressTokensAtBeginLogitsProcessor,
        SuppressTokensLogitsProcessor,
        WhisperTimeStampLogitsProcessor,
    )

    generation = both.theirs.generation_config
    processors = [
        SuppressTokensLogitsProcessor(GENERATION["suppress_tokens"]),
        SuppressTokensAtBeginLogitsProcessor(GENERATION["begin_suppress_tokens"], 0),
        WhisperTimeStampLogitsProcessor(generation, begin_index=0),
    ]
    given = Given(both.config)
    model = RuledModel(given, None, both.config, both.network.forms, timed=True)  # type: ignore[arg-type]
    chosen = np.random.default_rng(2)
    kinds = set()
    for _ in range(30):
        state, history = model.start([np.empty(0, np.int32)]), []
        for _ in range(12):
            own = model.next_log_probs(state)[0]
            scores = torch.from_numpy(given.logits[:, both.ids])
            for processor in processors:
                scores = processor(torch.tensor([history], dtype=torch.int64), scores)
            expected = scores.double().log_softmax(-1)[0].numpy()
            np.testing.assert_allclose(own[both.ids], expected, atol=2e-5)
            assert np.isneginf(own[:2]).all()
            token = int(chosen.choice(np.flatnonzero(expected > -np.inf)))
            if chosen.random() < 0.5 and (times := np.flatnonzero(expected[FIRST_TIME:] > -np.inf)).size:
                token = FIRST_TIME + int(times[0])
            if token == EOT:
                break
            kinds.add(token >= FIRST_TIME)
            history.append(token)
            state = model.advance(state, np.array([both.ids[token]], np.int32))
    assert kinds == {True, False}


def their_segments(both: Both, given: Sound, **options: Any) -> list[tuple[list[int], float, float]]:
    """The tokens of each segment, without those before the text and the end; when it begins and ends, in seconds."""
    features = extractor()(
        given.samples,
        sampling_rate=RATE,
        truncation=False,
        padding="longest" if given.seconds > 1 else "max_length",
        return_tensors="pt",
        return_attention_mask=True,
    )
    found = both.theirs.generate(
        features.input_features,
        attention_mask=features.attention_mask,
        num_beams=1,
        do_sample=False,
        language="de",
        task="transcribe",
        return_segments=True,
        **options,
    )
    return [
        (
            [token for token in segment["tokens"].tolist() if token != EOT],
            float(segment["start"]),
            float(segment["end"]),
        )
        for segment in found["segments"][0]
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("timed", [False, True])
def test_a_window_is_written_as_by_transformers(both: Both, *, timed: bool) -> None:
    options = TranscribeOptions(greedy=True, timestamps=timed, language="de", temperatures=(0,))
    transcriber = both.network.transcriber(options)
    for seed in range(3):
        frames, _ = frames_of(sound(0.95, seed), both.config)
        given = both.network.model.given([frames])
        decoded = transcriber.decoder.decode(given, [], transcriber.asked("de"), None, number=0, is_whole=True)
        own = both.to_theirs(decoded.texts[0].tokens)
        theirs = their_segments(both, sound(0.95, seed), max_new_tokens=20, return_timestamps=timed)
        assert own[: len(theirs[0][0])] == theirs[0][0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reads_previous", [False, True])
def test_long_recordings_are_divided_as_by_transformers(both: Both, *, reads_previous: bool) -> None:
    given = sound(5.3, 4)
    theirs = their_segments(
        both, given, max_new_tokens=15, return_timestamps=True, condition_on_prev_tokens=reads_previous, temperature=0.0
    )
    own = both.transcribed(given, greedy=True, language="de", condition_on_previous_text=reads_previous)
    assert [tokenizer().decode(tokens) for tokens, *_ in theirs] == [segment.text for segment in own.segments]
    times = [(round(start / 0.02), round(stop / 0.02)) for _, start, stop in theirs]
    assert times == [(segment.start, segment.stop) for segment in own.segments]
    assert len(times) > 4


def test_a_window_without_a_last_pair_of_times_is_read_to_its_end(both: Both) -> None:
    """By hand, of OpenAI's rules: T is the first time, a and b are text; the window has 40 steps."""
    first, a, b = both.config.first_time, 3, 4

    def parts(*tokens: int) -> tuple[list[tuple[list[int], int, int]], int]:
        found, steps = parts_of(tokens, 40, both.config)
        return [tuple(part) for part in found], steps  # type: ignore[misc]

    assert parts(first, a, b) == ([([first, a, b], 0, 40)], 40)
    assert parts(first, a, first + 30) == ([([first, a, first + 30], 0, 30)], 40)
    two = (first, a, first + 10, first + 12, b, first + 30)
    assert parts(*two) == ([([first, a, first + 10], 0, 10), ([first + 12, b, first + 30], 12, 30)], 40)
    assert parts(*two, first + 30, a) == (parts(*two)[0], 30)  # what follows is heard again


def test_the_language_is_the_likeliest_one(both: Both) -> None:
    given = sound(0.8)
    own = both.transcribed(given, greedy=True).language
    features = extractor()(given.samples, sampling_rate=RATE, return_tensors="pt").input_features
    with torch.inference_mode():
        logits = both.theirs(features, decoder_input_ids=torch.tensor([[SOT]])).logits[0, -1]
    probs = logits[list(GENERATION["lang_to_id"].values())].softmax(-1)
    assert own.code == LANGUAGES[int(probs.argmax())]
    assert own.prob == pytest.approx(float(probs.max()), abs=1e-5)
    detected = both.theirs.detect_language(features, generation_config=both.theirs.generation_config)
    assert int(detected) == ID[f"<|{own.code}|>"]


def test_a_language_model_adds_alpha_log_p_and_beta_for_each_word(both: Both) -> None:
    """Along a path, what the model with a language model adds, from the probability of the whole text."""
    lines = chainrule.Lines(["the cat sat on the mat", "a dog sat"])
    model = chainrule.train(lines, chainrule.NGramConfig(order=2))
    fusion = ShallowFusion(model.language_model, model.tokenizer, alpha=0.3, beta=0.2)
    text = both.ids[[piece - 2 for piece in byte_level().encode(" the cat sat").ids]].tolist()
    for is_whole in (True, False):
        totals = []
        for own in (fusion, None):
            ruled: Any = RuledModel(
                Given(both.config),  # type: ignore[arg-type]
                None,  # type: ignore[arg-type]
                both.config,
                both.network.forms,
                timed=False,
                fusion=own,
                is_whole=is_whole,
            )
            [scores] = ruled.score([np.array(text, np.int32)])
            totals.append(scores.sum())
        [words] = model.language_model.score([model.tokenizer.encode_texts(["the cat sat"]).ids[:-1]])
        expected = 0.3 * (words if is_whole else words[:-1]).sum() + 0.2 * 3
        assert totals[0] - totals[1] == pytest.approx(expected, abs=1e-4)
        fused = RuledModel(
            Given(both.config),  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            both.config,
            both.network.forms,
            timed=False,
            fusion=fusion,
            is_whole=is_whole,
        )
        assert fused.fused(text, ended=True) == pytest.approx(expected, abs=1e-5)


def test_scores_of_sound_and_language_are_told_apart(both: Both) -> None:
    model = chainrule.train(chainrule.Lines(["the cat sat on the mat"]), chainrule.NGramConfig(order=2))
    options: dict[str, Any] = {"language": "de", "beam": 4, "timestamps": False}
    alone = both.transcribed(sound(0.9), **options)
    fused = both.transcribed(sound(0.9), language_model=model, alpha=1e-5, beta=0, **options)
    assert fused.weights == {"alpha": 1e-5, "beta": 0}
    assert alone.weights is None
    assert {text.lm for text in alone.nbest} == {0.0}
    by_text = {text.text: text.ctc for text in alone.nbest}
    shared = [text for text in fused.nbest if text.text in by_text]
    assert shared
    assert all(text.ctc == pytest.approx(by_text[text.text], abs=1e-3) and text.lm < 0 for text in shared)
    listed = fused.to_dict()
    assert {*listed["hypotheses"][0]["scores"]} == {"log_prob", "fusion"}
    assert listed["priors"] == ["fusion"]


def test_word_times_are_those_of_transformers() -> None:
    from transformers.models.whisper.generation_whisper import _dynamic_time_warping, _median_filter

    random = np.random.default_rng(0)
    for tokens, steps in ((1, 9), (7, 30), (12, 12)):
        costs = random.normal(size=(tokens, steps))
        text, time = _dynamic_time_warping(costs)
        jumps = np.pad(np.diff(text), (1, 0), constant_values=1).astype(bool)
        assert first_steps(costs).tolist() == np.maximum(time[jumps], 0).tolist()
    weights = torch.from_numpy(random.random((2, 5, 20))).float()
    assert torch.equal(smoothed(weights), _median_filter(weights[None], 7)[0])
    assert len(path_of(weights)) == 5


def test_words_have_times_within_their_segments(both: Both) -> None:
    heard = both.transcribed(sound(1.7, 2), greedy=True, language="de", word_timestamps=True)
    words = heard.nbest[0].words
    assert "".join(word.word for word in words) == "".join(segment.text for segment in heard.segments).replace(" ", "")
    assert all(0 <= word.start <= word.stop <= 85 for word in words)
    assert [word.start for word in words] == sorted(word.start for word in words)


def test_a_text_that_looks_wrong_is_drawn_again_and_silence_is_left_out(both: Both) -> None:
    given = sound(0.9)
    options: dict[str, Any] = {"language": "de", "no_speech_threshold": None}
    drawn = next(both.ours.transcribe([given], temperatures=(0, 0.7, 1), logprob_threshold=0, seed=1, **options))
    assert {segment.temperature for segment in drawn.segments} <= {1.0}
    again = next(both.ours.transcribe([given], temperatures=(0, 0.7, 1), logprob_threshold=0, seed=1, **options))
    assert drawn.nbest == again.nbest
    kept = next(
        both.ours.transcribe(
            [given], temperatures=(0, 1), logprob_threshold=-99, compression_ratio_threshold=None, **options
        )
    )
    assert {segment.temperature for segment in kept.segments} <= {0.0}
    options["no_speech_threshold"] = 0.0
    assert not next(both.ours.transcribe([given], logprob_threshold=0, **options)).text
    assert repetition("la " * 50) > 2.4 > repetition("the cat sat on the mat")


def test_a_saved_model_writes_the_same(both: Both, tmp_path: Path) -> None:
    both.ours.save(tmp_path / "own")
    again = chainrule.load(tmp_path / "own", SpeechModel)
    given = sound(0.9)
    assert again.network.config == both.config
    [one], [other] = ([*model.transcribe([given], language="de")] for model in (both.ours, again))
    assert one == other


def test_the_shell_transcribes_measures_and_refuses(
    both: Both, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wav = tmp_path / "noise.wav"
    wav.write_bytes(encode_wav((20_000 * sound(0.9).samples).astype(np.int16), RATE))
    fast = ["--temperatures", "0", "--greedy", "--no-speech-threshold", "1"]
    assert run(["transcribe", str(both.folder), str(wav), "--json", "--word-timestamps", *fast]) == 0
    out, error = capsys.readouterr()
    heard = json.loads(out)
    assert "the language is" in error
    assert heard["language"] in LANGUAGES
    assert {"text", "log_prob", "segments", "words"} <= heard.keys()
    (tmp_path / "test.tsv").write_text(f"{wav.name}\tthe cat\n")
    assert run(["evaluate", str(both.folder), str(tmp_path / "test.tsv"), "--json", "--language", "de"]) == 0
    assert json.loads(capsys.readouterr().out)["sounds"] == 1
    for name, first in (("heard.srt", "1\n00:00:0"), ("heard.vtt", "WEBVTT\n\n00:00:0"), ("heard.ctm", "")):
        assert run(["transcribe", str(both.folder), str(wav), "--times", str(tmp_path / name), *fast]) == 0
        assert (tmp_path / name).read_text().startswith(first)
    capsys.readouterr()
    for arguments, message in (
        (["--language", "german "], "none of the 3 that the model has; the nearest: de (german)"),
        (["--language", "xq"], "expected a code such as en, de, fr"),
        (["--window", "3"], "window is 3.0, which has no effect on Whisper"),
    ):
        assert run(["transcribe", str(both.folder), str(wav), *arguments]) != 0
        assert message in capsys.readouterr().err
    wav.write_bytes(encode_wav(np.zeros(100, np.int16), RATE))
    assert run(["transcribe", str(both.folder), str(wav)]) != 0
    assert "is 6.25 ms long; expected 10 ms or more" in capsys.readouterr().err


def test_damaged_folders_are_refused(both: Both, tmp_path: Path) -> None:
    folder = written(tmp_path / "broken")
    preprocessor = folder / "preprocessor_config.json"
    settings = json.loads(preprocessor.read_text())

    def refused(message: str) -> None:
        with pytest.raises(ModelFormatError, match=message):
            chainrule.load(folder)

    for changes, message in (
        ({"feature_size": 128}, "feature_size is 128, which does not suit this model; expected 80"),
        ({"chunk_length": 30}, "do not make the 100 frames that the encoder reads"),
        ({"dither": 0.1}, "dither is 0.1"),
    ):
        preprocessor.write_text(json.dumps({**settings, **changes}))
        refused(message)
    preprocessor.unlink()
    refused("has no preprocessor_config.json, which says how sound becomes frames")
    (folder / "processor_config.json").write_text(json.dumps({"feature_extractor": settings}))  # transformers 5
    assert chainrule.load(folder).network.config == both.config
    (folder / "tokenizer.json").rename(folder / "elsewhere.json")
    refused("has no tokenizer.json")
    (folder / "elsewhere.json").rename(folder / "tokenizer.json")
    (folder / "model.safetensors").unlink()
    refused("has no model.safetensors")


def test_an_english_model_has_no_languages(tmp_path: Path) -> None:
    folder = written(tmp_path / "english")
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "is_multilingual": False, "lang_to_id": None}))
    model = chainrule.load(folder, SpeechModel)
    for language in (None, "en", "English"):
        assert next(model.transcribe([sound(0.5)], language=language, temperatures=(0,))).language is None
    for options, message in (({"language": "fr"}, "hears English only"), ({"task": "translate"}, "hears English only")):
        with pytest.raises(SettingError, match=message):
            next(model.transcribe([sound(0.5)], **options))
    with pytest.raises(TextError, match="is 5 ms long"):
        next(model.transcribe([sound(0.005)]))


def test_subtitles_and_plain_words() -> None:
    segments = [HeardSegment("Hello, you!", 0, 75, 0, 0, 0, 1), HeardSegment("Bye.", 184_000, 184_050, 0, 0, 0, 1)]
    assert subtitles(segments, 0.02, ".srt") == (
        "1\n00:00:00,000 --> 00:00:01,500\nHello, you!\n\n2\n01:01:20,000 --> 01:01:21,000\nBye.\n"
    )
    assert subtitles(segments[:1], 0.02, ".vtt") == "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello, you!\n"
    assert plain_words("Hello, you! It's 5 o’clock -- don't.") == "hello you it's 5 o’clock don't"


def test_windows_of_a_microphone_are_written_as_they_end(both: Both) -> None:
    given, new, last = sound(3.4, 4), [], None
    options: dict[str, Any] = {"temperatures": (0,), "no_speech_threshold": None, "language": "de", "greedy": True}
    for words, utterance in both.ours.listen(given, **options):
        new.append(words)
        last = utterance
    assert last is not None
    assert [word for words in new for word in words] == last.text.split()


def test_windows_are_filled_with_zeros(both: Both) -> None:
    frames = np.ones((130, 80), np.float32)
    assert windowed(frames, 90, both.config).sum() == 40 * 80
    assert both.config.step_seconds == 0.02
    assert both.config.first_time != END
