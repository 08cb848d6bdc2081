"""Vectors of tokens: against one state after the other, and layer by layer against what the network gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from random_networks import DOCUMENT_NETWORKS, STREAM_NETWORKS, random_model
from samples import sampled

from chainrule.errors import ModelFormatError, SettingError
from chainrule.protocol import END

NETWORKS = {**DOCUMENT_NETWORKS, **STREAM_NETWORKS}
SAMPLE = sampled(NETWORKS, list(NETWORKS)[::3])
TEXTS = [
    np.random.default_rng(length).integers(3, 29, length).astype(np.int32) for length in (4, 0, 1, 23, 4, 9)
]  # longer than most contexts


@pytest.mark.spread(6)
@pytest.mark.parametrize("name", SAMPLE)
def test_a_token_has_the_vector_of_the_state_after_it(name: str) -> None:
    model = random_model(NETWORKS[name])
    for text, vectors in zip(TEXTS, model.vectors(TEXTS), strict=True):
        assert vectors.shape == (len(text), model.network.encoder.width)
        for position in range(len(text)):
            expected = model.start([text[: position + 1]]).next.hidden[0]
            np.testing.assert_allclose(vectors[position], expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", SAMPLE)
def test_layers_are_numbered_from_the_vectors_of_tokens_alone(name: str) -> None:
    model = random_model(NETWORKS[name])
    text = TEXTS[0]
    static, last = model.static_vectors(), model.vectors([text])[0]
    assert np.array_equal(model.vectors([text], 0)[0], static[text])
    tokens = torch.tensor([[END, *text.tolist()]])
    if model.network.encoder.context is None or model.network.encoder.context > len(text):
        layers = model.network.encoder.hidden_layers(model.network.embed(tokens))
        for number, hidden in enumerate(layers, 1):
            found = model.vectors([text], number)[0]
            np.testing.assert_allclose(found, hidden[0, 1:].detach(), rtol=0, atol=1e-5)
        np.testing.assert_array_equal(found, last)
    with pytest.raises(SettingError, match=r"there is no layer 9; expected 0 \(the embedding\) to"):
        model.vectors([text], 9)


def test_an_id_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(SettingError, match="there is no token 29"):
        random_model(NETWORKS["LSTM, tied"]).vectors([np.array([29], np.int32)])


def test_a_damaged_network_gives_no_vectors() -> None:
    model = random_model(NETWORKS["LSTM, tied"])
    model.network.embedding.weight.data[5] = float("nan")
    with pytest.raises(ModelFormatError, match="chainrule verify"):
        model.vectors([np.array([5], np.int32)])


@pytest.mark.parametrize("name", SAMPLE)
def test_in_bfloat16_vectors_have_three_digits(name: str) -> None:
    model = random_model(NETWORKS[name])
    for plain, short in zip(model.vectors(TEXTS), model.vectors(TEXTS, bfloat16=True), strict=True):
        assert short.dtype == np.float32
        scale = np.abs(plain).max(initial=1e-9)
        # Norms of what small vectors of a random network add, near zero, magnify their rounding.
        within = 0.2 if "vectors for blocks" in name else 0.05
        np.testing.assert_allclose(short / scale, plain / scale, rtol=0, atol=within)
