"""What a layer would predict is what a network predicts that ends with it: same weights, final norm and output."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from random_networks import MODERN, VOCABULARY_SIZE, random_model

from chainrule.neural.build import build
from chainrule.neural.config import RecurrentConfig, gpt2
from chainrule.neural.language_model import NeuralModel

if TYPE_CHECKING:
    from chainrule.neural.config import NetworkConfig

TOKENS = np.array([5, 9, 3, 17, 5, 11, 28, 4], np.int32)  # more than the context of some
CONFIGS: dict[str, NetworkConfig] = {
    "Transformer, modern": replace(MODERN, layers=3),
    "Transformer, gpt2": replace(gpt2(), layers=3, width=16, heads=2, context=64),
    "LSTM": RecurrentConfig(width=12, layers=3),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_layer_predicts_as_a_network_that_ends_with_it(name: str) -> None:
    config = CONFIGS[name]
    model = random_model(config)
    guesses = model.layer_log_probs(TOKENS)
    assert list(guesses) == [1, 2, 3]
    weights = model.network.state_dict()
    for layers, log_probs in guesses.items():
        shorter = build(replace(config, layers=layers), VOCABULARY_SIZE)
        shorter.load_state_dict({key: weights[key] for key in shorter.state_dict()})
        short_model = NeuralModel(shorter)
        [expected] = short_model.next_log_probs(short_model.start([TOKENS]))
        np.testing.assert_allclose(log_probs, expected, atol=1e-4)


def test_layers_that_the_output_cannot_read_are_left_out() -> None:
    model = random_model(RecurrentConfig(width=12, embedding_width=8, layers=2, tied=True))
    guesses = model.layer_log_probs(TOKENS)
    assert list(guesses) == [2]
    np.testing.assert_allclose(guesses[2], model.next_log_probs(model.start([TOKENS]))[0], atol=1e-4)
