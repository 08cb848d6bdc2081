"""A word's probability with its end, against sums over all that could follow, by hand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from random_networks import MODERN, random_model

import chainrule
from chainrule.evaluation.surprisal import read_contexts
from chainrule.neural.config import RecurrentConfig
from chainrule.text.units import begins_word

if TYPE_CHECKING:
    from chainrule.neural.config import NetworkConfig

LINES = ["ab a ab b", "a abb ba", "b ab a", "ba b a"]


def corrections_of(model: chainrule.CausalModel, *texts: str) -> list[list[float]]:
    """By how much the log P of each word of each text changes when its end is its own."""
    rows = chainrule.surprisal(chainrule.Lines(texts), model, nats=True, ends=True)
    corrections: list[list[float]] = [[] for _ in texts]
    for row in rows:
        corrections[row["sentence"] - 1].append(row["uncorrected_nats"] - row["surprisal_nats"])
    return corrections


@pytest.fixture(scope="module")
def model() -> chainrule.CausalModel:
    return chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=3), tokenizer="character")


def test_a_word_pays_for_its_end(model: chainrule.CausalModel) -> None:
    [corrections] = corrections_of(model, "ab a")

    def prob(prefix: str, token: str) -> float:
        return dict(model.next(prefix, 20))[token]

    first = prob("ab", "␠") + prob("ab", "</s>")  # the word ab has ended
    second = prob("ab a", "␠") + prob("ab a", "</s>")
    expected = [math.log(first), math.log(second) - math.log(first), -math.log(second)]
    assert corrections == pytest.approx(expected, abs=1e-5)


def test_words_with_their_ends_are_a_distribution(model: chainrule.CausalModel) -> None:
    """All words of one or two letters, and whatever else a text may begin with, sum to one."""
    words_of_letters = ("a", "b", "aa", "ab", "ba", "bb")
    total = 0.0
    for word in words_of_letters:
        ids = model.tokenizer.encode_texts([word]).ids[:-1]
        log_prob = model.language_model.score([ids])[0][:-1].sum()
        [[correction, _]] = corrections_of(model, word)
        total += math.exp(log_prob + correction)
    first = dict(model.next("", 20))
    after = {word: dict(model.next(word, 20)) for word in words_of_letters}
    no_word = sum(prob for token, prob in first.items() if token not in ("a", "b"))
    unknown = sum(first[letter] * after[letter]["<unk>"] for letter in "ab")
    longer = sum(
        first[word[0]] * after[word[0]][word[1]] * sum(after[word][token] for token in ("a", "b", "<unk>"))
        for word in words_of_letters[2:]
    )
    assert total + no_word + unknown + longer == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("kind", ["whitespace", "character", "byte", "bpe"])
def test_corrections_sum_to_zero_and_are_none_where_tokens_are_words(kind: str) -> None:
    size = 290 if kind == "bpe" else None
    tokenizer = chainrule.TokenizerConfig(kind=kind, vocabulary_size=size)
    model = chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=2), tokenizer=tokenizer)
    [corrections] = corrections_of(model, "ab abb a")
    assert len(corrections) == 4
    assert sum(corrections) == pytest.approx(0, abs=1e-6)
    assert any(corrections) == (kind != "whitespace")


def test_texts_of_any_lengths_are_read_side_by_side(model: chainrule.CausalModel) -> None:
    """The same to the last bit: each text is read by itself."""
    texts = ["ab a", "", "b", "ab abb a b", "a"] * 20
    for text, corrections in zip(texts, corrections_of(model, *texts), strict=True):
        assert corrections_of(model, text) == [corrections]


class Stepping:
    """A model that gives one distribution at a time."""

    def __init__(self, model: Any) -> None:
        self.start, self.advance, self.select = model.start, model.advance, model.select
        self.next_log_probs = model.next_log_probs


def test_steps_and_whole_texts_give_the_same(model: chainrule.CausalModel) -> None:
    texts = [model.tokenizer.encode_texts([text]).ids[:-1] for text in ["ab a", "", "b", "ab abb a b"]]
    borders = begins_word(model.tokenizer)
    stepping: Any = Stepping(model.language_model)
    both = [read_contexts(one, texts, borders=borders, entropy=True) for one in (model.language_model, stepping)]
    for whole, stepped in zip(*both, strict=True):
        assert whole.log_word_ends.tolist() == pytest.approx(stepped.log_word_ends.tolist(), abs=1e-6)
        assert whole.entropies.tolist() == pytest.approx(stepped.entropies.tolist(), abs=1e-6)
        assert whole.ranks.tolist() == stepped.ranks.tolist()


def test_entropies_and_ranks_are_those_of_the_distribution(model: chainrule.CausalModel) -> None:
    rows = chainrule.surprisal(chainrule.Lines(["ab a"]), model, by="tokens", entropy=True, ends=True).to_records()
    for prefix, token, row in zip(["", "a", "ab", "ab ", "ab a"], ["a", "b", "␠", "a", "</s>"], rows, strict=True):
        probs = dict(model.next(prefix, 20))
        entropy = -sum(prob * math.log2(prob) for prob in probs.values())
        assert row["entropy_bits"] == pytest.approx(entropy, abs=1e-5)
        assert row["rank"] == 1 + sum(prob > probs[token] for prob in probs.values())
    words = chainrule.surprisal(chainrule.Lines(["ab a"]), model, entropy=True, ends=True).to_records()
    assert [row["entropy_bits"] for row in words] == [rows[i]["entropy_bits"] for i in (0, 2, 4)]
    assert [row["rank"] for row in words] == [rows[i]["rank"] for i in (0, 2, 4)]


@pytest.mark.parametrize("config", [MODERN, RecurrentConfig(width=8, layers=1)], ids=["transformer", "recurrent"])
def test_networks_read_whole_texts_as_they_step(config: NetworkConfig) -> None:
    network = random_model(config)
    rng = np.random.default_rng(1)
    texts = [rng.integers(3, network.vocabulary_size, length).astype(np.int32) for length in (5, 0, 40, 1)]
    borders = rng.random(network.vocabulary_size) < 0.5
    stepping: Any = Stepping(network)
    whole, stepped = (read_contexts(one, texts, borders=borders, entropy=True) for one in (network, stepping))
    for one, other in zip(whole, stepped, strict=True):
        assert one.log_word_ends.tolist() == pytest.approx(other.log_word_ends.tolist(), abs=1e-4)
        assert one.entropies.tolist() == pytest.approx(other.entropies.tolist(), abs=1e-4)


def test_which_tokens_begin_words_is_looked_up_once_for_a_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = chainrule.Lines(["ka vi ka", "nin vi"])
    tokenizer = chainrule.train(lines, chainrule.NGramConfig(order=1), tokenizer="character").tokenizer
    first = begins_word(tokenizer)
    expected, first[:] = first.copy(), False  # the caller's own array
    monkeypatch.setattr(tokenizer.vocabulary, "tokens", None)
    assert begins_word(tokenizer).tolist() == expected.tolist()
    assert expected.any()
    monkeypatch.undo()
    tokenizer.encode(np.frombuffer(b"q w\n", np.uint8), grow=True)
    assert len(begins_word(tokenizer)) == len(tokenizer.vocabulary) > len(expected)
