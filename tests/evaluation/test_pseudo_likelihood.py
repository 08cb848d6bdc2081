"""Sentences priced without probabilities: what is summed, and what is spelled."""

from __future__ import annotations

import numpy as np
import pytest
from random_networks import random_network

from chainrule.evaluation.pseudo_likelihood import pseudo_log_likelihoods
from chainrule.models.model import Model
from chainrule.neural.bidirectional_model import BidirectionalModel
from chainrule.neural.config import BidirectionalConfig, MaskedConfig
from chainrule.text.tokenization.tokenizer import Tokenizer

TEXTS = ["the dog bit", "a zebra saw the dog", "dog", "zebra gnu"]


@pytest.mark.parametrize("config", [MaskedConfig(width=16, heads=2), BidirectionalConfig(width=8)])
def test_tokens_are_summed_without_the_end_and_unknown_ones_spelled(config: MaskedConfig | BidirectionalConfig) -> None:
    tokenizer = Tokenizer.untrained("word")
    tokenizer.encode(np.frombuffer(bytearray(b"the dog bit a man\nsaw\n"), np.uint8), grow=True)
    scorer = BidirectionalModel(random_network(config, tokenizer.vocabulary_size))
    speller = Model("masked", scorer, tokenizer).speller
    found, sizes = pseudo_log_likelihoods(scorer, speller, tokenizer, TEXTS)
    assert sizes.tolist() == [3, 5, 1, 2]
    for text, price in zip(TEXTS, found, strict=True):
        ids = tokenizer.encode_texts([text]).ids[:-1]
        unknown = [word.encode() for word in text.split() if word in ("zebra", "gnu")]
        expected = scorer.score([ids], end=False)[0].sum() + speller.log_probs(unknown).sum()
        assert price == pytest.approx(float(expected), abs=1e-4)
