"""Seq2seq models from Python: scored, sampled from, and as language models given a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tiny_pairs import SOURCES, TARGETS

import chainrule
from chainrule.mixture.components import Components
from chainrule.mixture.interpolation import LinearMixture
from chainrule.mixture.uniform import UniformModel

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("one_thread")


def test_many_pairs_are_scored_as_each_by_itself(mt: Path) -> None:
    model = chainrule.load(mt, chainrule.Seq2SeqModel)
    found = model.score(chainrule.Pairs(SOURCES[:5], TARGETS[:5]))
    alone = [model.given(source).score([target])[0] for source, target in zip(SOURCES[:5], TARGETS[:5], strict=True)]
    np.testing.assert_allclose(found, alone, atol=1e-3)


def test_what_is_no_pair_of_lists_is_refused(mt: Path) -> None:
    model = chainrule.load(mt, chainrule.Seq2SeqModel)
    with pytest.raises(TypeError, match="several texts"):
        model.write("ein hund")
    with pytest.raises(TypeError, match="one text, not list"):
        model.given(["ein hund"])
    with pytest.raises(TypeError, match="takes Pairs, not str"):
        chainrule.train_pairs("train.tsv")


def test_given_its_source_a_model_is_mixed_measured_and_written_with_as_any_other(mt: Path, tmp_path: Path) -> None:
    given = chainrule.load(mt, chainrule.Seq2SeqModel).given("zwei hunde")
    text = tmp_path / "text"
    text.write_text("two dogs\na dog runs\n")
    measured = given.evaluate(text)
    assert measured.log_prob == pytest.approx(given.score(["two dogs", "a dog runs"]).sum(), rel=1e-5)
    assert len(given.generate("two", n=2, seed=1, limits=chainrule.Limits(max_tokens=4))) == 2
    with pytest.raises(chainrule.SettingError, match="save the model itself"):
        given.save(tmp_path / "given")
    uniform = UniformModel(given.vocabulary_size)
    mixture = LinearMixture(
        Components(("conditional", "uniform"), (given.language_model, uniform)), np.array([[0.6, 0.4]])
    )
    tokens = given.tokenizer.encode_texts(["two dogs"]).ids[:-1]
    parts = [np.exp(model.score([tokens])[0]) for model in (given.language_model, uniform)]
    np.testing.assert_allclose(np.exp(mixture.score([tokens])[0]), 0.6 * parts[0] + 0.4 * parts[1], rtol=1e-4)


def test_a_sample_at_temperature_zero_is_the_greedy_text_with_its_score(mt: Path) -> None:
    model = chainrule.load(mt, chainrule.Seq2SeqModel)
    texts = ["zwei hunde", "ein mann liest", " "]
    greedy = model.write(texts, chainrule.BeamConfig(size=1, rank_by="total"))
    sampled = model.sample(texts, 2, chainrule.SamplingConfig(temperature=0), seed=1)
    assert sampled[2] == greedy[2] == []
    for own, [likeliest] in zip(sampled[:2], greedy[:2], strict=True):
        assert [text.tokens for text in own] == [likeliest.tokens] * 2
        assert own[0].log_prob == pytest.approx(likeliest.log_prob, abs=1e-4)
        assert (own[0].ending, len(own[0].tokens)) == (likeliest.ending, len(likeliest.tokens))
    longest = model.sample(["zwei hunde", "ein mann liest"], 20, seed=1)
    assert all(len(text.tokens) <= 24 for text in longest[0])  # twice two tokens, and 20
    assert all((text.ending == "length") == (len(text.tokens) == 24) for text in longest[0])
    with pytest.raises(TypeError, match="several texts"):
        model.sample("ein hund")
