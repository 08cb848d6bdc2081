"""A model with its speller is a distribution over strings."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from samples import sampled

import chainrule
from chainrule.evaluation.token_scores import score_tokens
from chainrule.ngram.speller import Speller
from chainrule.protocol import END, UNKNOWN
from chainrule.text.tokenization.vocabulary import Encoded, Vocabulary, byte_array

if TYPE_CHECKING:
    from chainrule.models.model import Model

LINES = ["a", "ab a", "b", "", "ba ab", "a a", "bb", "a"]
NOT_A_NOR_B = bytes(set(range(128)) - set(b"ab"))
X = b"\xff"  # stands for the 128 bytes that are not ASCII, which are all alike: none makes up a known character


@pytest.fixture(scope="module", params=[1, 2])
def model(request: pytest.FixtureRequest) -> Model:
    return chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=request.param), tokenizer="whitespace")


@pytest.mark.parametrize("unseen_types", sampled([1, 4, 40], [1, 40]))
def test_all_texts_of_a_small_alphabet_sum_to_one(model: Model, unseen_types: int) -> None:
    """Those shorter than n by what `priced` says; the others by the mass of all beginnings of n pieces."""
    n = 6
    tokens = model.tokenizer.vocabulary.tokens()
    speller = Speller.train(
        [b"a", b"ab", b"ba", b"aab", b"b\xff", b"abab"], Vocabulary(tokens[3:]), unseen_types=unseen_types,
        never=NOT_A_NOR_B,
    )  # fmt: skip
    pieces = [b"a", b"b", X, b" "]
    texts = [b"".join(some) for k in range(n) for some in itertools.product(pieces, repeat=k)]
    texts = [text for text in texts if text == b" ".join(text.split())]
    encoded = encoded_texts(model, texts)
    starts = np.concatenate([[0], np.flatnonzero(encoded.ids == END)[:-1] + 1])
    scored = np.add.reduceat(score_tokens(model.language_model, speller, encoded).total, starts)
    alike = [128 ** text.count(X) for text in texts]
    short = float(np.dot(np.exp(scored), alike))
    beginnings = [b"".join(some) for some in itertools.product(pieces, repeat=n)]
    beginnings = [text for text in beginnings if b"  " not in text and text[:1] != b" "]
    rest = Beginnings(model, speller)
    long = sum(rest.mass(text) * 128 ** text.count(X) for text in beginnings)
    assert short > 0.1
    assert long > 0.01
    assert short + long == pytest.approx(1, abs=2e-5)


class Beginnings:
    """The plain arithmetic of the mass of all texts that begin so and have at least one more piece or end there."""

    def __init__(self, model: Model, speller: Speller) -> None:
        self.model, self.speller = model, speller
        self.known = model.tokenizer.vocabulary.tokens()
        self.open = math.exp(speller._log_open)
        # Beginnings are many, but most words and contexts in them are the same.
        self.next, self.spelled = cache(self._next), cache(self._spelled)
        self.beginning_of_word = cache(self._beginning_of_word)

    def mass(self, beginning: bytes) -> float:
        """Of texts of which `beginning` is a beginning: its last word may go on."""
        *words, last = beginning.split(b" ")
        total, context = 1.0, ()
        for word in words:
            total *= self.word(word, context)
            context += (self.known.index(word) if word in self.known else UNKNOWN,)
        probs = self.next(context)
        longer = [i for i, word in enumerate(self.known) if i > END and word.startswith(last)]
        unknown = self.beginning_of_word(last) - sum(self.plain(self.known[i]) for i in longer)
        if last == b"":
            unknown -= self.plain(b"") + sum(self.plain(word) for word in self.known[: END + 1])
        return total * (probs[longer].sum() + probs[UNKNOWN] * unknown / self.open)

    def _next(self, context: tuple[int, ...]) -> np.ndarray:
        """P' of every word, <unk> being all unseen ones together."""
        language_model = self.model.language_model
        probs = np.exp(language_model.next_log_probs(language_model.start([np.array(context, np.int32)]))[0]).astype(
            float
        )
        probs[UNKNOWN] *= self.speller.unseen_types
        return probs / probs.sum()

    def word(self, word: bytes, context: tuple[int, ...]) -> float:
        probs = self.next(context)
        if word in self.known:
            return probs[self.known.index(word)]
        return probs[UNKNOWN] * self.spelled(word)

    def plain(self, word: bytes) -> float:
        return self.spelled(word) * self.open

    def _spelled(self, word: bytes) -> float:
        return math.exp(self.speller.log_prob(word))

    def _beginning_of_word(self, word: bytes) -> float:
        symbols = self.speller._alphabet.symbols([word])[:-1]
        [scores] = self.speller._model.score([symbols], end=False)
        return math.exp(scores.sum(dtype=float) + self.speller._alphabet.log_prob_of_bytes(word))


def encoded_texts(model: Model, texts: list[bytes]) -> Encoded:
    return model.tokenizer.encode(byte_array(b"".join(text + b"\n" for text in texts)))


def test_the_prices_add_up_and_known_tokens_have_no_spelling(model: Model) -> None:
    encoded = encoded_texts(model, [b"a zz", b"ab"])
    scored = score_tokens(model.language_model, model.speller, encoded)
    assert scored.unknown.tolist() == [False, True, False, False, False]
    assert (scored.spelling != 0).tolist() == scored.unknown.tolist()
    np.testing.assert_array_equal(scored.total, scored.closed + scored.unseen + scored.spelling)


def test_one_unseen_type_changes_nothing(model: Model) -> None:
    speller = Speller.train([b"a"], Vocabulary([b"a"]), unseen_types=1)
    assert not score_tokens(model.language_model, speller, encoded_texts(model, [b"a zz", b""])).unseen.any()


def test_no_documents_have_no_prices(model: Model) -> None:
    assert score_tokens(model.language_model, model.speller, encoded_texts(model, [])).total.size == 0
