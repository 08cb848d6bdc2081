"""Opened Transformers: with plain settings they are the plain ones to the last bit; and which class a folder gets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from random_networks import DOCUMENT_NETWORKS, MODERN, STREAM_NETWORKS, VOCABULARY_SIZE, random_network, small

from chainrule.base.options import config_among
from chainrule.errors import ModelFormatError
from chainrule.features.open.network.config import OpenMaskedConfig, OpenSettings, OpenTransformerConfig, opened
from chainrule.features.open.network.transformer import OpenTransformer
from chainrule.models.families.table import FAMILIES, config_of
from chainrule.neural.config import MaskedConfig, TransformerConfig, bert, settings_of
from chainrule.neural.encoders.masked import MaskedTransformer
from chainrule.neural.encoders.transformer import Transformer
from chainrule.neural.language_model import NeuralModel
from chainrule.protocol import END

if TYPE_CHECKING:
    from chainrule.neural.network import Network

PLAIN = {
    name: config
    for name, config in {**DOCUMENT_NETWORKS, **STREAM_NETWORKS, "BERT": small(bert(), context=12)}.items()
    if isinstance(config, TransformerConfig) and not isinstance(config, OpenSettings)
}
TEXTS = [np.random.default_rng(length).integers(3, VOCABULARY_SIZE, length).astype(np.int32) for length in (9, 3, 17)]


def bits(tensors: Any) -> list[bytes]:
    return [tensor.detach().numpy().tobytes() for tensor in tensors]


def gradients(network: Network) -> list[torch.Tensor]:
    tokens = torch.tensor([[5, 9, END, 7, 3], [8, 8, 4, END, 6]])[:, : network.config.context]
    hidden, _ = network(tokens)
    return list(torch.autograd.grad(network.output.loss(hidden, tokens), list(network.encoder.parameters())))


@pytest.mark.spread(6)
@pytest.mark.parametrize("name", PLAIN)
def test_with_plain_settings_an_opened_network_is_the_plain_one_bit_for_bit(name: str) -> None:
    """Initial weights, the names and the order of arrays, scores, steps and gradients."""
    plain, other = random_network(PLAIN[name]), random_network(opened(PLAIN[name]))
    assert isinstance(other.encoder, OpenTransformer)
    assert not isinstance(plain.encoder, OpenTransformer)
    assert list(plain.state_dict()) == list(other.state_dict())
    assert bits(plain.state_dict().values()) == bits(other.state_dict().values())
    assert bits(gradients(plain.eval())) == bits(gradients(other.eval()))
    if plain.encoder.is_bidirectional:
        return
    first, second = NeuralModel(plain), NeuralModel(other)
    for one, two in zip(first.score(TEXTS), second.score(TEXTS), strict=True):
        np.testing.assert_array_equal(one, two)
    states = [model.start(TEXTS[:2]) for model in (first, second)]
    for token in TEXTS[2]:
        log_probs = [model.next_log_probs(state) for model, state in zip((first, second), states, strict=True)]
        np.testing.assert_array_equal(*log_probs)
        tokens = np.full(2, token, np.int32)
        states = [model.advance(state, tokens) for model, state in zip((first, second), states, strict=True)]


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (small(MODERN), Transformer),
        (small(MODERN, score_cap=2.0), OpenTransformer),
        (small(MODERN, score_cap=None), Transformer),  # a default, which files leave out
    ],
)
def test_a_folder_has_the_plain_class_if_that_knows_its_settings(config: TransformerConfig, kind: type) -> None:
    family = FAMILIES["transformer"]
    settings, arrays = family.to_state(NeuralModel(random_network(config)))
    again = family.from_state(json.loads(json.dumps(settings)), arrays, VOCABULARY_SIZE)
    assert type(again.network.encoder) is kind
    np.testing.assert_array_equal(again.score(TEXTS)[0], NeuralModel(random_network(config)).score(TEXTS)[0])


def test_a_masked_folder_has_the_class_of_its_settings() -> None:
    assert type(config_of("masked", settings_of(bert()))) is MaskedConfig
    assert type(random_network(bert()).encoder) is MaskedTransformer
    assert type(config_of("masked", settings_of(OpenMaskedConfig(relative_bias=True)))) is OpenMaskedConfig


def test_a_setting_that_neither_class_knows_is_named() -> None:
    settings = {**settings_of(OpenTransformerConfig(score_cap=2.0)), "colour": 1}
    with pytest.raises(ModelFormatError, match="a setting 'colour', which this version does not know"):
        config_among([TransformerConfig, OpenTransformerConfig], settings)
