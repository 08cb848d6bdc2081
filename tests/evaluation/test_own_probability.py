"""The surprisal of a known word is -log2 of the probability that the model itself gives it, as `next` shows it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from random_networks import random_model

import chainrule
from chainrule.evaluation.surprisal import Contexts
from chainrule.features.judging.suites import region_bits
from chainrule.protocol import UNKNOWN
from chainrule.verbs.scored_texts import word_documents

if TYPE_CHECKING:
    from chainrule.models.language_models import CausalModel

LINES = ["ka vi ka", "nin vi so", "so la ka vi", "mu ka", "re vi", "ka vi so"]


@pytest.fixture(scope="module")
def model() -> CausalModel:
    model = chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=3), tokenizer="whitespace")
    assert model.speller.unseen_types > 1
    return model


def test_tables_give_the_probability_that_next_gives(model: CausalModel) -> None:
    rows = chainrule.surprisal(chainrule.Lines(["ka vi so", "ka xyz"]), model, ends=True).to_records()
    probs = [dict(model.next(text, model.vocabulary_size)) for text in ("", "ka", "ka vi", "ka vi so")]
    expected = [-math.log2(own[word]) for own, word in zip(probs, ("ka", "vi", "so", "</s>"), strict=True)]
    assert [row["surprisal_bits"] for row in rows[:4]] == pytest.approx(expected, abs=1e-5)
    unknown = -math.log2(probs[1]["<unk>"]) - model.speller.log_prob(b"xyz") / math.log(2)
    assert rows[5]["surprisal_bits"] == pytest.approx(unknown, abs=1e-5)
    [text, _] = chainrule.surprisal(chainrule.Lines(["ka vi so", "ka xyz"]), model, by="texts").to_records()
    assert text["surprisal_bits"] == pytest.approx(sum(expected), abs=1e-5)
    [tokens, _] = model.score(["ka vi so", "ka"])
    assert text["surprisal_bits"] == pytest.approx(-tokens / math.log(2), abs=1e-5)
    regions = region_bits(model.language_model, model.speller, model.tokenizer, [["ka", "vi so"]])
    assert regions[0] == pytest.approx([expected[0], expected[1] + expected[2]], abs=1e-5)


def test_bits_per_byte_keep_the_room_for_unseen_words(model: CausalModel) -> None:
    found = model.evaluate(chainrule.Lines(["ka vi so"]))
    [text] = chainrule.surprisal(chainrule.Lines(["ka vi so"]), model, by="texts").to_records()
    probs = [dict(model.next(text, model.vocabulary_size))["<unk>"] for text in ("", "ka", "ka vi", "ka vi so")]
    room = sum(math.log2(1 + (model.speller.unseen_types - 1) * prob) for prob in probs)
    assert room > 0.1
    assert found.bits_per_byte * found.bytes == pytest.approx(text["surprisal_bits"] + room, abs=1e-5)


@pytest.mark.parametrize(
    ("types", "unknown_ends"), [(0, False), (0, True), (1, False), (1, True), (5, False), (5, True)]
)
def test_the_end_of_a_word_has_the_normalisation_of_tokens(types: int, unknown_ends: bool) -> None:
    """A distribution over <unk>, two tokens that end a word, and two that do not; by hand, see `token_scores`."""
    unknown, ending = 0.2, 0.5
    raw = ending + (unknown if unknown_ends else 0)
    zeros = np.zeros(2)
    ends = np.array([0, math.log(raw), 0])
    own = Contexts(zeros, np.log([0.9, unknown]), ends, zeros, np.zeros(2, np.int64), zeros)
    total = 1 - unknown + types * unknown
    expected = (ending + (types * unknown if unknown_ends else 0)) / total
    found = own.log_text_word_ends(types, unknown_ends_word=unknown_ends)
    assert found.tolist() == pytest.approx([0, math.log(expected), 0])


def test_a_network_of_pieces_pays_for_ends_as_it_pays_for_tokens() -> None:
    """A barely trained network gives <unk> a share, which a tokenizer that spells everything takes away again."""
    pieces = chainrule.train(
        chainrule.Lines(["ka vi ka so vi", "vi ka so"] * 9),
        chainrule.NGramConfig(order=1),
        tokenizer=chainrule.TokenizerConfig(kind="bpe", vocabulary_size=262),
    )
    network = random_model(chainrule.RecurrentConfig(width=4, layers=1), vocabulary_size=pieces.vocabulary_size)
    model = type(pieces)("recurrent", network, pieces.tokenizer, {}, pieces.speller)
    assert model.speller.unseen_types == 0
    text = "ka vi so"
    [block] = chainrule.Lines([text]).blocks()
    [document] = word_documents(model, block, word_ends=True, convention="chainrule")
    ids = model.tokenizer.encode_texts([text]).ids
    states = [network.next_log_probs(network.start([ids[:i]]))[0].astype(np.float64) for i in range(ids.size)]
    probs = [np.where(np.arange(row.size) == UNKNOWN, 0, np.exp(row)) for row in states]
    probs = [row / row.sum() for row in probs]  # without <unk>
    white = tuple(symbol.encode() for symbol in "ĠĉĊčĀ")  # the space, tab, line ends and NUL, as bytes are shown
    begins = [i for i, token in enumerate(model.tokenizer.vocabulary.tokens()) if token.startswith(white)]
    begins += [1, 2]
    tokens = [math.log(row[token]) for row, token in zip(probs, ids.tolist(), strict=True)]
    surfaces = [model.tokenizer.vocabulary.token(int(token)) for token in ids]
    first = next(i for i, token in enumerate(surfaces) if i and token.startswith("Ġ"))
    ends = math.log(probs[first][begins].sum())
    assert document.units[0].text_log_prob == pytest.approx(sum(tokens[:first]) + ends, abs=1e-5)
    assert sum(unit.text_log_prob for unit in document.units) == pytest.approx(sum(tokens), abs=1e-5)
