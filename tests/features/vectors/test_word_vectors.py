"""Word vectors from Python: analogies among few words, normalised spellings, and files that are nearly right."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import chainrule
from chainrule.errors import ModelFormatError
from chainrule.features.vectors.learning.fasttext import FastText, is_fasttext, read_fasttext, write_fasttext

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def words(tmp_path: Path) -> chainrule.WordVectors:
    """a to f, by frequency, in two dimensions."""
    lines = ["a 1 0", "b 0.9 0.5", "c 0.4 0.9", "d 0 1", "e -0.6 0.8", "f -1 0.1"]
    (tmp_path / "w.vec").write_text("6 2\n" + "".join(f"{line}\n" for line in lines))
    return chainrule.load_vectors(tmp_path / "w.vec")


@pytest.mark.parametrize("rule", ["add", "multiply"])
def test_an_analogy_never_answers_with_its_own_words_nor_beyond_the_restriction(
    words: chainrule.WordVectors, rule
) -> None:
    everything = words.analogy("a", "b", "c", rule=rule, top=10)
    assert {answer.word for answer in everything} == {"d", "e", "f"}
    assert all(np.isfinite(answer.score) for answer in everything)
    # f is asked about, and is rarer than the four words that may be answered.
    within = words.analogy("a", "b", "f", rule=rule, top=10, restrict=4)
    assert {answer.word for answer in within} == {"c", "d"}
    assert within == [one for one in words.analogy("a", "b", "f", rule=rule) if one.word in {"c", "d"}]
    with pytest.raises(chainrule.SettingError, match="restrict is 0"):
        words.analogy("a", "b", "c", restrict=0)


def test_a_supervised_model_of_fasttext_has_no_contexts(tmp_path: Path) -> None:
    model = FastText(
        words=[b"</s>", b"dog", b"cat"],
        counts=np.array([3, 2, 1]),
        ngrams=None,
        seen=np.empty(0, np.int64),
        inputs=np.ones((3, 2), np.float32),
        outputs=np.ones((2, 2), np.float32),  # a row a label
        method="skipgram",
        loss="negative",
    )
    write_fasttext(tmp_path / "m.bin", model)
    vectors = chainrule.load_vectors(tmp_path / "m.bin")
    assert vectors.words == ["dog", "cat"]
    with pytest.raises(chainrule.SettingError, match="contexts"):
        vectors.likeliest_contexts("dog")


def test_a_pipe_is_not_opened_to_see_whether_it_is_fasttexts(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert not is_fasttext(tmp_path / "pipe")


def test_words_are_normalised_before_lookup(tmp_path: Path) -> None:
    lines = chainrule.Lines(["r a b c d e", "a r b"] * 30)
    kind = chainrule.TokenizerConfig(normalise=("nfkc", "lower"))
    words = chainrule.train_vectors(lines, tokenizer=kind)
    assert words.row_of("ℝ") == words.row_of("R") == words.row_of("r") is not None


def test_words_are_found_in_any_form() -> None:
    lines = chainrule.Lines(["don't caf\u00e9 can\u2019t nai\u0308ve a"] * 30)
    words = chainrule.train_vectors(lines, tokenizer=chainrule.TokenizerConfig(kind="whitespace"))
    pairs = [
        ("don\u2019t", "don't"),
        ("cafe\u0301", "caf\u00e9"),
        ("can't", "can\u2019t"),
        ("na\u00efve", "nai\u0308ve"),
    ]
    assert all(words.row_of(other) == words.words.index(own) for other, own in pairs)
    assert words.row_of("cafe") is None


def test_damaged_n_grams_and_numbers_are_refused(tmp_path) -> None:
    lines = chainrule.Lines(["a b c d"] * 5)
    config = chainrule.VectorsConfig(epochs=1, subwords="2-2", buckets=5, dimensions=2)
    vectors = chainrule.train_vectors(lines, config, tokenizer="whitespace", progress=False)
    for buckets in (vectors.arrays["buckets"] + 9, -1 - vectors.arrays["buckets"]):
        with pytest.raises(ModelFormatError, match="not in rising order"):
            chainrule.WordVectors(
                vectors.tokenizer, {**vectors.arrays, "buckets": buckets}, {}, vectors.record, vectors.ngrams
            )
    spoilt = {**vectors.arrays, "vectors": np.full_like(vectors.vectors, np.nan)}
    with pytest.raises(ModelFormatError, match="not finite"):
        chainrule.WordVectors(vectors.tokenizer, spoilt, {}, vectors.record, vectors.ngrams).nearest("a")


def file_of_fasttext(path: Path, **changes: Any) -> None:
    """A small model with other numbers."""
    lines = chainrule.Lines(["a b c d"] * 5)
    config = chainrule.VectorsConfig(epochs=1, subwords="2-2", buckets=5, dimensions=2)
    chainrule.train_vectors(lines, config, tokenizer="whitespace", progress=False).save(path)
    model = read_fasttext(path)
    write_fasttext(path, replace(model, inputs=model.inputs.copy(), outputs=model.outputs.copy(), **changes))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("number", [np.nan, np.inf, 1e38])
def test_a_damaged_number_in_a_file_of_fasttext_is_refused_before_anything_is_computed(
    tmp_path: Path, number: float
) -> None:
    """`odd` printed NumPy's warning of an overflow, and nan."""
    file_of_fasttext(tmp_path / "words.bin")
    model = read_fasttext(tmp_path / "words.bin")
    inputs = model.inputs.copy()
    inputs[1] = number
    write_fasttext(tmp_path / "odd.bin", replace(model, inputs=inputs))
    with pytest.raises(ModelFormatError, match=r"odd.bin: the vector of '.' has numbers that no training gives"):
        chainrule.load_vectors(tmp_path / "odd.bin")


def test_a_damaged_setting_in_a_file_of_fasttext_is_refused(tmp_path: Path) -> None:
    """`info` showed a sample of nan."""
    file_of_fasttext(tmp_path / "words.bin", sample=float("nan"))
    with pytest.raises(ModelFormatError, match="its sample nan; expected numbers that are not below 0"):
        chainrule.load_vectors(tmp_path / "words.bin")
