"""The ladder: all models on one text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import chainrule
from chainrule.errors import SettingError, TextError
from chainrule.ladder import climb
from chainrule.text.corpus import Corpus, Lines

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def texts(fixtures: Path) -> tuple[Corpus, Corpus]:
    return Corpus.of(fixtures / "train.txt"), Corpus.of(fixtures / "heldout.txt")


def test_every_rung_is_the_model_that_training_alone_gives(texts: tuple[Corpus, Corpus]) -> None:
    train, heldout = texts
    comparison = climb(train, heldout, order=4)
    assert [contender.name for contender in comparison.contenders] == [
        "uniform",
        "unigram",
        "bigram",
        "trigram",
        "4-gram",
    ]
    configs = [chainrule.UniformConfig(), *(chainrule.NGramConfig(order=n) for n in range(1, 5))]
    for contender, config in zip(comparison.contenders, configs, strict=True):
        model = chainrule.train(train, config)
        found, expected = contender.measurement, model.evaluate(heldout)
        assert found.log_prob == pytest.approx(expected.log_prob, rel=1e-12)
        assert (found.tokens, found.oov, found.bytes) == (expected.tokens, expected.oov, expected.bytes)
        assert found.signature == expected.signature
        assert contender.parameters == sum(model.record.get("ngrams", []))
        assert contender.train_seconds >= 0


def test_the_best_of_a_markov_chain_of_first_order_is_the_bigram_model(texts: tuple[Corpus, Corpus]) -> None:
    assert climb(*texts, order=3).best.name == "bigram"


def test_the_uniform_model_may_be_the_best() -> None:
    heldout = Lines([f"{word} {word}" for word in "edcba"])
    assert climb(Lines(["a"] * 90 + ["b c d e"]), heldout, order=2).best.name == "uniform"


def test_the_tokenizer_and_the_rule_for_markers_are_the_ones_asked_for() -> None:
    lines = Lines(["a <s> b", "b a"] * 10)
    with pytest.raises(TextError, match="<s> stands in the text"):
        climb(lines, lines, order=1)
    best = climb(lines, lines, order=1, tokenizer="whitespace", markers="skip").best.measurement
    assert best.tokens == 3 * 20
    assert "tok:whitespace" in best.signature


@pytest.mark.parametrize("order", [-1, 0, 25])
def test_an_order_that_is_not_possible_is_refused_before_the_text_is_read(order: int) -> None:
    with pytest.raises(SettingError, match=f"order {order} is not possible"):
        climb(Lines([]), Lines([]), order=order)


def test_a_held_out_text_that_cannot_be_read_is_told_before_any_n_gram_is_counted(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"\xff\n")
    told: list[str] = []
    with pytest.raises(TextError, match="not UTF-8"):
        climb(
            Lines(["a b"] * 10),
            Corpus.of(tmp_path / "bad"),
            progress=lambda task, done, total: told.append(task),
        )
    assert set(told) <= {"reading"}
