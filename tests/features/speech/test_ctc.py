"""The stand-in for pyctcdecode, beside pyctcdecode itself; and what it was seen to give with the real KenLM."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from heard import LABELS, heard
from hypothesis import given
from hypothesis import strategies as st
from samples import examples

import chainrule
from chainrule import ctc, kenlm
from chainrule.ctc import AbstractLanguageModel, BeamSearchDecoderCTC, HotwordScorer, build_ctcdecoder
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

LIBRI_LABELS = [" ", *"abcdefghijklmnopqrstuvwxyz", "'"]
SAID = "i have a good deal of will you remember and what i have set my mind upon no doubt i shall some day achieve"
SENTENCES = (
    SAID,
    "i have a goat and a good dog",
    "a good deal of what you remember is no doubt upon my mind",
    "you will have a good day",
    "some day i shall have my will",
    "and what have you set upon the table",
    "no one can achieve it in a day",
)


@pytest.fixture(scope="module")
def libri(fixtures: Path) -> np.ndarray:
    return np.array(json.loads(gzip.decompress((fixtures / "ctc/libri_logits.json.gz").read_bytes())), np.float64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trigram of some sentences, as a folder, lm/, and as lm.arpa."""
    folder = tmp_path_factory.mktemp("ctc")
    (folder / "train.txt").write_text("".join(f"{sentence}\n" for sentence in SENTENCES))
    model = chainrule.train(folder / "train.txt", chainrule.NGramConfig(order=3), tokenizer="whitespace")
    model.save(folder / "lm")
    model.save(folder / "lm.arpa")
    return folder


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """pyctcdecode, with our module in place of KenLM's."""
    monkeypatch.setitem(sys.modules, "kenlm", kenlm)
    import pyctcdecode
    import pyctcdecode.decoder
    import pyctcdecode.language_model

    monkeypatch.setattr(pyctcdecode.decoder, "kenlm", kenlm, raising=False)
    monkeypatch.setattr(pyctcdecode.language_model, "kenlm", kenlm, raising=False)
    return pyctcdecode


def assert_same(expected: list[Any], actual: list[Any]) -> None:
    """Beams with the same texts, frames and scores."""
    assert [(text, frames) for text, _, frames, _, _ in expected] == [(beam.text, beam.text_frames) for beam in actual]
    for (_, _, _, logit, lm), beam in zip(expected, actual, strict=True):
        assert (beam.logit_score, beam.lm_score) == pytest.approx((logit, lm), abs=1e-5)


@pytest.mark.spread(6)
@pytest.mark.parametrize("noise", [0, 2, 4])
@pytest.mark.parametrize("name", [None, "lm.arpa"])
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"hotwords": ["remembers", "goat deal"], "hotword_weight": 7.5, "prune_history": True},
        {"beam_width": 15, "token_min_logp": -8.0, "beam_prune_logp": -15.0},
    ],
)
def test_librispeech_gives_the_beams_of_pyctcdecode(
    libri: np.ndarray, folder: Path, theirs: ModuleType, noise: int, name: str | None, arguments: dict[str, Any]
) -> None:
    logits = libri + noise * np.random.default_rng(noise).normal(size=libri.shape)
    path = None if name is None else str(folder / name)
    ours, their = build_ctcdecoder(LIBRI_LABELS, path), theirs.build_ctcdecoder(LIBRI_LABELS, path)
    assert_same(their.decode_beams(logits, **arguments), ours.decode_beams(logits, **arguments))
    if not noise and not arguments:
        assert ours.decode(logits) == their.decode(logits) == SAID


@examples(1)
@given(
    st.sampled_from([LIBRI_LABELS, ["a", "b", "|", "<pad>"], ["▁a", "▁", "b", "▁⁇▁", "ab", ""], ["a", "##b", "[UNK]"]]),
    st.integers(1, 12),
    st.integers(0, 2**32 - 1),
    st.sampled_from([None, ["a", "ab b"]]),
    st.booleans(),
)
def test_random_logits_give_the_beams_of_pyctcdecode(
    labels: list[str], frames: int, seed: int, hotwords: list[str] | None, prune_history: bool
) -> None:
    """Characters and pieces; also with the slips that `Limits` names."""
    import pyctcdecode

    ours, their = build_ctcdecoder(labels), pyctcdecode.build_ctcdecoder(labels)
    assert ours._alphabet.labels == their._alphabet.labels
    logits = np.random.default_rng(seed).normal(0, 3, (frames, len(ours._alphabet.labels)))
    arguments: dict[str, Any] = {"hotwords": hotwords, "prune_history": prune_history, "beam_width": 12}
    assert_same(their.decode_beams(logits, **arguments), ours.decode_beams(logits, **arguments))


def test_recorded_beams_of_pyctcdecode_with_kenlm_itself(fixtures: Path, tmp_path: Path) -> None:
    chainrule.train(fixtures / "train.txt", chainrule.NGramConfig(order=3), tokenizer="whitespace").save(
        tmp_path / "trained.arpa"
    )
    decoder = build_ctcdecoder(LABELS, str(tmp_path / "trained.arpa"), alpha=0.7, beta=0.5)
    lines = [line.split("\t") for line in (fixtures / "kenlm/decoded.tsv").read_text().splitlines()]
    actual = []
    for seed, sentence in enumerate((fixtures / "heldout.txt").read_text().splitlines()[:40:5]):
        beams = decoder.decode_beams(heard(sentence, seed), beam_width=20)[:3]
        actual += [(seed, text, logit, lm) for text, _, _, logit, lm in beams]
    assert [(seed, text) for seed, text, _, _ in actual] == [(int(seed), text) for seed, text, _, _ in lines]
    for ours, recorded in zip(actual, lines, strict=True):
        assert ours[2:] == pytest.approx([float(number) for number in recorded[2:]], rel=1e-5)


def test_any_model_in_place_of_kenlm(libri: np.ndarray, folder: Path) -> None:
    """The folder of the same trigram gives the scores of its file, and knows words without a backoff weight, too."""
    from_file = build_ctcdecoder(LIBRI_LABELS, str(folder / "lm.arpa"), SENTENCES[0].split()).decode_beams(libri)
    model = chainrule.load(folder / "lm")
    for other in (str(folder / "lm"), model):
        beams = build_ctcdecoder(LIBRI_LABELS, other, SENTENCES[0].split()).decode_beams(libri)
        assert [beam.text for beam in beams] == [beam.text for beam in from_file]
        assert [beam.lm_score for beam in beams] == pytest.approx([beam.lm_score for beam in from_file], rel=1e-5)


@pytest.mark.parametrize("noise", [0, 3])
@pytest.mark.parametrize("hotwords", [(), ("goat", "remembers")])
def test_scoring_by_numbers_of_words_is_scoring_by_texts(
    libri: np.ndarray, folder: Path, noise: int, hotwords: tuple[str, ...]
) -> None:
    """The same beams, scores and states to go on from, bit for bit, also in parts."""
    logits = libri + noise * np.random.default_rng(1).normal(size=libri.shape)
    fast, slow = (build_ctcdecoder(LIBRI_LABELS, str(folder / "lm.arpa")) for _ in range(2))
    model: Any = slow._language_model
    assert model.rows is not None
    model.rows = None
    beams, expected = (decoder.decode_beams(logits, beam_width=30, hotwords=hotwords) for decoder in (fast, slow))
    assert [(beam.text, beam.text_frames, beam.logit_score, beam.lm_score) for beam in beams] == [
        (beam.text, beam.text_frames, beam.logit_score, beam.lm_score) for beam in expected
    ]
    after = [
        decoder.decode_beams(logits[:60], lm_start_state=beam.last_lm_state)[0]
        for decoder, [beam, *_] in ((fast, beams), (slow, expected), (fast, expected))
    ]
    assert {(beam.text, beam.lm_score) for beam in after} == {(after[0].text, after[0].lm_score)}


def test_a_list_of_fewer_words_is_asked_by_texts(folder: Path) -> None:
    """A word that the model knows and the list does not keeps its own probability, and costs the offset."""
    decoder = build_ctcdecoder(LIBRI_LABELS, str(folder / "lm.arpa"), unigrams=["good", "deal"])
    assert decoder._language_model.rows is None  # type: ignore[union-attr]


def test_parts_are_the_whole(libri: np.ndarray, folder: Path) -> None:
    logits = libri + 3 * np.random.default_rng(1).normal(size=libri.shape)
    for model in (None, str(folder / "lm.arpa"), str(folder / "lm")):
        decoder = build_ctcdecoder(LIBRI_LABELS, model)
        scorer = HotwordScorer.build_scorer(["goat"], 4.0)
        whole = decoder.decode_beams(logits, hotwords=["goat"], hotword_weight=4.0)
        beams, cache, partial = decoder.get_starting_state()
        for first in range(0, len(logits), 50):
            part = logits[first : first + 50]
            is_end = first + 50 >= len(logits)
            beams = decoder.partial_decode_beams(
                part, cache, partial, beams, first, hotword_scorer=scorer, is_end=is_end
            )
        assert [beam.text for beam in beams] == [beam.text for beam in whole]
        assert [beam.lm_score for beam in beams] == pytest.approx([beam.lm_score for beam in whole])
        assert [beam.text_frames for beam in beams] == [[frames for _, frames in beam.text_frames] for beam in whole]


def test_a_state_goes_on_where_a_text_ended(folder: Path) -> None:
    """LM scores of two texts, the second from the first's state: those of KenLM's queries after the same words."""
    labels = ["", " ", *"abcdefghijklmnopqrstuvwxyz"]
    for model in ("lm.arpa", "lm"):
        decoder = build_ctcdecoder(labels, str(folder / model), SAID.split(), alpha=1.0, beta=0.0)
        first, second = (np.eye(len(labels))[[labels.index(letter) for letter in word]] for word in ("my", "day"))
        [beam] = decoder.decode_beams(first)
        [after] = decoder.decode_beams(second, lm_start_state=beam.last_lm_state)
        words = [*kenlm.Model(str(folder / "lm.arpa")).full_scores("my day")]
        expected = np.log(10) * (words[1][0] + words[2][0])
        assert after.lm_score - after.logit_score == pytest.approx(expected, rel=1e-5)
        assert decoder.decode_beams(second)[0].lm_score != pytest.approx(after.lm_score)


def test_batches_are_single_matrices(libri: np.ndarray, folder: Path) -> None:
    decoder = build_ctcdecoder(LIBRI_LABELS, str(folder / "lm.arpa"))
    random = np.random.default_rng(2)
    matrices = [libri[:100] + 3 * random.normal(size=libri[:100].shape) for _ in range(3)]
    single = [decoder.decode_beams(matrix) for matrix in matrices]
    in_batch = decoder.decode_beams_batch(None, matrices)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert decoder.decode_beams_batch(pool, matrices) == in_batch
        assert decoder.decode_batch(pool, matrices) == [decoder.decode(matrix) for matrix in matrices]
    for alone, together in zip(single, in_batch, strict=True):
        assert [beam.text for beam in alone] == [beam.text for beam in together]
        assert all(beam.last_lm_state is None for beam in together)
        text, state, frames, logit, lm = alone[0]  # as tuples of version 0.5
        assert tuple(together[0]) == (text, frames, logit, lm)
        assert (alone[0][0], alone[0][-1], len(alone[0])) == (text, lm, 5)
        assert state is alone[0].last_lm_state


def test_saved_decoders_are_the_same(libri: np.ndarray, folder: Path, theirs: ModuleType, tmp_path: Path) -> None:
    for name in ("lm.arpa", "lm", None):
        decoder = build_ctcdecoder(LIBRI_LABELS, name and str(folder / name), alpha=0.6, beta=1.0)
        saved = tmp_path / f"saved-{name}"
        saved.mkdir()
        decoder.save_to_dir(str(saved))
        opened = BeamSearchDecoderCTC.load_from_dir(str(saved))
        assert opened.decode_beams_batch(None, [libri]) == decoder.decode_beams_batch(None, [libri])
        if name == "lm.arpa":
            their = theirs.BeamSearchDecoderCTC.load_from_dir(str(saved))
            assert_same(their.decode_beams(libri), opened.decode_beams(libri))
    (tmp_path / "saved-None" / "alphabet.json").unlink()
    with pytest.raises(SettingError, match=r"has no alphabet\.json"):
        BeamSearchDecoderCTC.load_from_dir(str(tmp_path / "saved-None"))
    shutil.copy(folder / "train.txt", tmp_path / "saved-lm" / "language_model")
    with pytest.raises(SettingError, match=r"expected attrs\.json, unigrams\.txt and one model"):
        BeamSearchDecoderCTC.load_from_dir(str(tmp_path / "saved-lm"))


class Lengths(AbstractLanguageModel):
    """A model that a program brings: it likes long words."""

    order = 1

    def get_start_state(self) -> int:
        return 0

    def score_partial_token(self, partial_token: str) -> float:
        return 0.1 * len(partial_token)

    def score(self, prev_state: int, word: str, is_last_word: bool = False) -> tuple[float, int]:
        return 0.5 * len(word) - is_last_word, prev_state + 1


def test_models_of_a_program_and_means_of_several(libri: np.ndarray, folder: Path, theirs: ModuleType) -> None:
    class TheirLengths(Lengths, theirs.language_model.AbstractLanguageModel):  # type: ignore[name-defined,misc]
        pass

    logits = libri[:120] + 3 * np.random.default_rng(4).normal(size=libri[:120].shape)
    alphabet = ctc.Alphabet.build_alphabet(LIBRI_LABELS)
    own = BeamSearchDecoderCTC(alphabet, Lengths()).decode_beams(logits)
    their_alphabet = theirs.Alphabet.build_alphabet(LIBRI_LABELS)
    assert_same(theirs.BeamSearchDecoderCTC(their_alphabet, TheirLengths()).decode_beams(logits), own)
    assert own[0].last_lm_state == len(own[0].text.split())
    model = kenlm.Model(str(folder / "lm.arpa"))
    many = ctc.MultiLanguageModel([ctc.LanguageModel(model, SAID.split(), alpha=alpha) for alpha in (0.2, 0.8)])
    their_many = theirs.language_model.MultiLanguageModel(
        [theirs.LanguageModel(model, SAID.split(), alpha=alpha) for alpha in (0.2, 0.8)]
    )
    expected = theirs.BeamSearchDecoderCTC(their_alphabet, their_many).decode_beams(logits)
    assert_same(expected, BeamSearchDecoderCTC(alphabet, many).decode_beams(logits))
    with pytest.raises(SettingError, match="1 language models were given"):
        ctc.MultiLanguageModel([Lengths()])


def test_slips_can_be_mended(folder: Path) -> None:
    """A text that ends in a space: as without it, but for pyctcdecode, which scores an unknown word there."""
    labels = ["", " ", "m", "y"]
    model = ctc.LanguageModel(kenlm.Model(str(folder / "lm.arpa")), ["my"], alpha=1.0, beta=0.0)
    ends = np.eye(4)[[2, 3, 1]]
    scores = [
        BeamSearchDecoderCTC(ctc.Alphabet.build_alphabet(labels), model, copies_slips=copies)
        .decode_beams(rows)[0]
        .lm_score
        for copies, rows in ((False, ends), (True, ends), (True, ends[:2]))
    ]
    assert scores[0] == pytest.approx(scores[2])
    assert scores[1] < scores[0] - 10 * np.log(10)


def test_probabilities_that_rounding_has_touched_are_still_probabilities(libri: np.ndarray) -> None:
    decoder = build_ctcdecoder(LIBRI_LABELS)
    probs = np.exp(libri - np.logaddexp.reduce(libri, axis=1, keepdims=True)).astype(np.float32) * np.float32(1 + 1e-6)
    assert decoder.decode(probs) == SAID
    assert decoder.decode(np.log(np.maximum(probs, 1e-30))) == SAID


def test_parameters_can_be_changed(libri: np.ndarray, folder: Path) -> None:
    decoder = build_ctcdecoder(LIBRI_LABELS, str(folder / "lm.arpa"))
    decoder.reset_params(alpha=0.1, beta=0.2, unk_score_offset=-3.0, lm_score_boundary=False)
    other = build_ctcdecoder(LIBRI_LABELS, str(folder / "lm.arpa"), None, 0.1, 0.2, -3.0, False)
    assert decoder.decode_beams_batch(None, [libri]) == other.decode_beams_batch(None, [libri])
    with pytest.raises(SettingError, match="alpha is 'much'; expected a number"):
        decoder.reset_params(alpha="much")  # type: ignore[arg-type]
    decoder.cleanup()
    assert decoder._model_key not in BeamSearchDecoderCTC.model_container


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (np.zeros((3, 5)), "have 5 columns, and there are 4 labels"),
        (np.zeros(4), "have 1 dimensions; expected 2"),
        ([[0, 0, 0, 0], [0, 0]], "rows of the same length"),
        (np.array([[0, 1, 2, 3], [0, np.nan, 0, 0]]), "frame 1 has nan in column 1"),
        (np.full((2, 4), -np.inf), "frame 0 has -inf in column 0"),
    ],
)
def test_outputs_that_are_no_matrix_of_numbers_are_refused(logits: object, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        build_ctcdecoder(["a", "b", " ", ""]).decode(logits)  # type: ignore[arg-type]


def test_alphabets_that_make_no_sense_are_refused() -> None:
    for labels, message in (
        (["a", "a"], "'a' is there twice"),
        (["▁a", " "], "' ' has a space"),
        ([3], "a label is 3"),
    ):
        with pytest.raises(SettingError, match=message):
            build_ctcdecoder(labels)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="found"):
        ctc.Alphabet.loads('{"labels": []}')


def test_import_pyctcdecode_gets_this_module() -> None:
    program = (
        "import chainrule.ctc; chainrule.ctc.install(); import pyctcdecode; from pyctcdecode.constants import "
        "DEFAULT_BETA; from pyctcdecode.alphabet import UNK_TOKEN; print(pyctcdecode.__name__, DEFAULT_BETA)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["chainrule.features.speech.stand_in", "1.5"]
