"""A word's probability with its end, against sums over all that could follow, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import chainrule
from chainrule.evaluation.surprisal import word_end_corrections
from chainrule.text.units import words_of

LINES = ["ab a ab b", "a abb ba", "b ab a", "ba b a"]


@pytest.fixture(scope="module")
def model() -> chainrule.CausalModel:
    return chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=3), tokenizer="character")


def test_a_word_pays_for_its_end(model: chainrule.CausalModel) -> None:
    encoded = model.tokenizer.encode_texts(["ab a"])
    words = words_of(encoded.ids, model.tokenizer.align(encoded))
    [corrections] = word_end_corrections(model.language_model, model.tokenizer, [(encoded.ids, words.of_tokens)])

    def prob(prefix: str, token: str) -> float:
        return dict(model.next(prefix, 20))[token]

    first = prob("ab", "␠") + prob("ab", "</s>")  # the word ab has ended
    second = prob("ab a", "␠") + prob("ab a", "</s>")
    expected = [math.log(first), math.log(second) - math.log(first), -math.log(second)]
    assert corrections.tolist() == pytest.approx(expected, abs=1e-5)


def test_words_with_their_ends_are_a_distribution(model: chainrule.CausalModel) -> None:
    """All words of one or two letters, and whatever else a text may begin with, sum to one."""
    words_of_letters = ("a", "b", "aa", "ab", "ba", "bb")
    total = 0.0
    for word in words_of_letters:
        encoded = model.tokenizer.encode_texts([word])
        words = words_of(encoded.ids, model.tokenizer.align(encoded))
        log_prob = model.language_model.score([encoded.ids[:-1]])[0][:-1].sum()
        [[correction, _]] = word_end_corrections(
            model.language_model, model.tokenizer, [(encoded.ids, words.of_tokens)]
        )
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
    encoded = model.tokenizer.encode_texts(["ab abb a"])
    words = words_of(encoded.ids, model.tokenizer.align(encoded))
    [corrections] = word_end_corrections(model.language_model, model.tokenizer, [(encoded.ids, words.of_tokens)])
    assert len(corrections) == 4
    assert corrections.sum() == pytest.approx(0, abs=1e-6)
    assert np.any(corrections) == (kind != "whitespace")


def test_texts_of_any_lengths_are_read_side_by_side(model: chainrule.CausalModel) -> None:
    texts = []
    for text in ["ab a", "", "b", "ab abb a b", "a"] * 20:
        encoded = model.tokenizer.encode_texts([text])
        texts.append((encoded.ids, words_of(encoded.ids, model.tokenizer.align(encoded)).of_tokens))
    together = word_end_corrections(model.language_model, model.tokenizer, texts)
    for text, corrections in zip(texts, together, strict=True):
        [alone] = word_end_corrections(model.language_model, model.tokenizer, [text])
        assert corrections.tolist() == pytest.approx(alone.tolist(), abs=1e-6)
