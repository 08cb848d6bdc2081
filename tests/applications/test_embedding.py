"""Texts, words and tokens as vectors: against loops that pool one unit after the other."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
from random_networks import MODERN, random_model

import chainrule
from chainrule.decoding.options import EmbeddingConfig
from chainrule.errors import SettingError
from chainrule.features.vectors.unit_vectors import cosines, nearest, vector_of_marked, write_rows
from chainrule.models.any_model import check_kind
from chainrule.models.embedding_model import EmbeddingModel
from chainrule.models.language_models import CausalNetwork
from chainrule.text.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from chainrule.decoding.options import Pooling

TEXTS = ["the cats, naïve", "", "  ", "a bank of the river", "bank"]
POOLED = {"mean": lambda x: x.mean(0), "max": lambda x: x.max(0), "first": lambda x: x[0], "last": lambda x: x[-1]}


def network(kind: str) -> CausalNetwork:
    """A random one, which knows the words of TEXTS."""
    tokenizer = Tokenizer.untrained(kind)
    tokenizer.encode_texts(TEXTS)
    tokenizer.encode(np.frombuffer(bytearray("\n".join([*TEXTS, ""]).encode()), np.uint8), grow=True)
    return CausalNetwork("transformer", random_model(MODERN, tokenizer.vocabulary_size), tokenizer)


@pytest.mark.parametrize("kind", ["word", "character", "byte"])
@pytest.mark.parametrize("pooling", POOLED)
def test_words_and_texts_pool_the_vectors_of_their_tokens(kind: str, pooling: Pooling) -> None:
    model = network(kind)
    by_token = model.embed_units(TEXTS, EmbeddingConfig(unit="token"))
    by_word = model.embed_units(TEXTS, EmbeddingConfig(unit="word", pooling=pooling))
    by_text = model.embed(TEXTS, pooling=pooling)
    for tokens, words, whole in zip(by_token, by_word, by_text, strict=True):
        assert words.text == tokens.text
        assert words.units == tokens.text.split()
        expected = POOLED[pooling](tokens.vectors) if len(tokens.vectors) else 0
        np.testing.assert_allclose(whole, np.broadcast_to(expected, whole.shape), atol=1e-5)
        behind = 0  # the word before: white space of its own belongs to the next one
        for (_, stop), vector in zip(words.spans, words.vectors, strict=True):
            pairs = zip(tokens.spans, tokens.vectors, strict=True)
            inside = [each for (_, end), each in pairs if behind < end <= stop]
            np.testing.assert_allclose(vector, POOLED[pooling](np.array(inside)), atol=1e-5)
            behind = stop


def test_the_tokens_of_a_network_are_those_of_its_tokenizer() -> None:
    model = network("word")
    [found] = model.embed_units(["the cats, naïve"], EmbeddingConfig(unit="token"))
    assert found.units == ["the", "cats", ",", "naïve"]
    ids = model.tokenizer.encode_texts(["the cats, naïve"]).ids[:-1]
    np.testing.assert_array_equal(found.vectors, model.embedder.vectors([ids])[0])


def test_what_stands_around_a_word_changes_its_vector() -> None:
    model = network("word")
    alone, inside = (
        vector_of_marked(model.embed_units, text, EmbeddingConfig(unit="word"))
        for text in ("[bank]", "a [bank] of the river")
    )
    assert not np.allclose(alone, inside)
    words = model.embed_units(["a bank of the river"])[0]
    np.testing.assert_array_equal(inside, words.vectors[1])
    static = vector_of_marked(model.embed_units, "a [bank] of the river", EmbeddingConfig(unit="word", layer=0))
    np.testing.assert_array_equal(
        static, vector_of_marked(model.embed_units, "[bank]", EmbeddingConfig(unit="word", layer=0))
    )


@pytest.mark.parametrize("text", ["bank", "[bank] [river]", "[the bank]", "[]", "a [bank"])
def test_one_word_must_be_marked(text: str) -> None:
    with pytest.raises(SettingError, match="put one of its words in brackets"):
        vector_of_marked(network("word").embed_units, text, EmbeddingConfig(unit="word"))


def test_the_nearest_are_those_of_the_largest_cosine() -> None:
    model = network("word")
    found = model.embed_units(TEXTS)
    wanted = found[3].vectors[1]
    cosine = lambda x: float(x @ wanted / np.linalg.norm(x) / np.linalg.norm(wanted))  # noqa: E731
    everything = sorted(
        (
            (cosine(vector), each.text, span)
            for each in found
            for span, vector in zip(each.spans, each.vectors, strict=True)
        ),
        reverse=True,
    )
    best = nearest(found, wanted, 3)
    assert [each[1:] for each in best] == [each[1:] for each in everything[:3]]
    assert best[0] == (pytest.approx(1), "a bank of the river", (2, 6))
    assert len(nearest(found, wanted, 99)) == len(everything)


def test_a_vector_of_zeros_is_like_nothing() -> None:
    assert cosines(np.zeros((1, 2), np.float32), np.ones(2, np.float32)).tolist() == [0]


@pytest.mark.parametrize("sizes", [[], [0, 2, 1], [3000, 1]])
def test_rows_that_come_bit_by_bit_are_a_numpy_file(sizes: list[int]) -> None:
    parts = [np.random.default_rng(size).normal(size=(size, 3)).astype(np.float32) for size in sizes]
    file = io.BytesIO()
    write_rows(file, parts)
    file.seek(0)
    found = np.load(file)
    assert found.shape == (sum(sizes), 3 if sizes else 0)
    np.testing.assert_array_equal(found, np.concatenate([found[:0], *parts]))


def test_no_texts_have_no_vectors_of_the_usual_width() -> None:
    model = chainrule.train(
        chainrule.Lines(["a b", "b a"] * 9),
        chainrule.BagConfig(width=8, context=4),
        training=chainrule.TrainingConfig(steps=1, compile="no"),
    )
    assert model.embed([]).shape == (0, model.embed(["a"]).shape[1])
    with pytest.raises(TypeError, match="in a list or the like"):
        model.embed(3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pooling": "cls"}, "pooling is 'cls'; expected mean, max, first or last"),
        ({"unit": "words"}, "unit is 'words'"),
        ({"precision": "half"}, "precision is 'half'"),
        ({"layer": 1.0}, r"layer is 1\.0; expected a whole number"),
        ({"layer": "1"}, "layer is '1'"),
    ],
)
def test_vectors_are_asked_for_as_there_are(given: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        EmbeddingConfig(**given)


def test_a_model_without_vectors_says_so() -> None:
    model = chainrule.train(chainrule.Lines(["a text", "another"]))
    with pytest.raises(SettingError, match="family 'ngram' continues texts; this takes one that gives vectors"):
        check_kind(model, EmbeddingModel)
