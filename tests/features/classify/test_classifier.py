"""The head of a fine-tuned classifier: what it is given, by hand; reading in parts changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from random_networks import random_network

from chainrule.features.classify.network.classifier import FineTunedClassifier, layer_widths
from chainrule.kinds import CAUSAL_NETWORK, MASKED_MODEL, configs_of
from chainrule.neural.bidirectional_model import BidirectionalModel
from chainrule.neural.network import add_boundaries
from chainrule.text.units import UnitTokens

NETWORKS = configs_of(CAUSAL_NETWORK)
BIDIRECTIONAL = configs_of(MASKED_MODEL)


def test_a_unit_is_the_mean_of_its_tokens_and_companions_change_nothing() -> None:
    network = random_network(BIDIRECTIONAL["masked"](layers=2, width=16, heads=2, context=12)).eval()
    classifier = FineTunedClassifier(network, ["a", "b", "c"], "word", width=16).eval()
    torch.nn.init.normal_(classifier.head.weight)
    texts = [
        UnitTokens(np.array([5, 6, 7, 8], np.int32), np.array([0, 1, 1, 2]), 3),
        UnitTokens(np.array([9], np.int32), np.array([0]), 1),
        UnitTokens(np.empty(0, np.int32), np.empty(0, np.int64), 0),
    ]
    found = classifier.log_probs(texts)
    vectors = torch.from_numpy(BidirectionalModel(network).vectors([texts[0].tokens])[0])
    pooled = torch.stack([vectors[0], vectors[1:3].mean(0), vectors[3]])
    expected = classifier.head(F.layer_norm(pooled, (16,))).log_softmax(1)
    np.testing.assert_allclose(found[0], expected.detach(), atol=1e-5)
    np.testing.assert_allclose(found[1], classifier.log_probs(texts[1:2])[0], atol=1e-5)
    assert found[2].shape == (0, 3)


def test_a_word_without_a_token_of_its_own_has_the_labels_of_the_next() -> None:
    network = random_network(NETWORKS["transformer"](layers=1, width=16, heads=2, context=12)).eval()
    classifier = FineTunedClassifier(network, ["a", "b"], "word", width=16).eval()
    torch.nn.init.normal_(classifier.head.weight)
    tokens = np.array([5, 6, 7], np.int32)
    [read] = classifier.log_probs([UnitTokens(tokens, np.array([0, 1, 2]), 3)])
    [found] = classifier.log_probs(
        [UnitTokens(tokens, np.array([1, 3, 4]), 6)]
    )  # "of the" as one token, and a lost end
    np.testing.assert_allclose(found, read[[0, 0, 1, 1, 2, 2]], atol=1e-6)
    [nothing] = classifier.log_probs([UnitTokens(tokens[:0], np.empty(0, np.int64), 2)])
    np.testing.assert_allclose(np.exp(nothing), 0.5)


def test_layers_are_mixed_by_the_weights_of_peters() -> None:
    network = random_network(BIDIRECTIONAL["two-sided"](layers=2, width=8, context=12)).eval()
    assert layer_widths(network) == [16, 16]
    classifier = FineTunedClassifier(network, ["a", "b"], "text", width=16, mixed_layers=2).eval()
    torch.nn.init.normal_(classifier.head.weight)
    classifier.mix.data = torch.tensor([0.3, -1.0])
    tokens = torch.tensor([[2, 5, 6]])
    first, second = network.encoder.hidden_layers(network.embedding(tokens))
    weights = torch.tensor([0.3, -1.0]).softmax(0)
    mixed = weights[0] * first + weights[1] * second
    expected = classifier.head(F.layer_norm(mixed[0].mean(0), (16,))).log_softmax(0)
    [found] = classifier.log_probs([UnitTokens(np.array([5, 6], np.int32), np.array([0, 0]), 1)])
    np.testing.assert_allclose(found[0], expected.detach(), atol=1e-5)


@pytest.mark.parametrize("family", ["recurrent", "transformer", "two-sided"])
def test_a_long_text_is_read_in_parts_that_all_count(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the mean over parts that are read by themselves, for a label that is the text's."""
    network = random_network({**NETWORKS, **BIDIRECTIONAL}[family](width=16, context=12)).eval()
    monkeypatch.setattr("chainrule.features.classify.network.classifier._PART", 12)
    monkeypatch.setattr("chainrule.features.classify.network.classifier._TOGETHER", 24)  # two parts of a text at once
    width = layer_widths(network)[-1]
    classifier = FineTunedClassifier(network, ["a", "b"], "text", width=width).eval()
    torch.nn.init.normal_(classifier.head.weight)
    tokens = np.random.default_rng(0).integers(3, 29, 35).astype(np.int32)
    [found, _] = classifier.log_probs(
        [UnitTokens(tokens, np.zeros(35, np.int64), 1), UnitTokens(tokens[:2], np.zeros(2, np.int64), 1)]
    )
    read = []
    for begin in range(0, 35, 10):
        inputs = torch.from_numpy(add_boundaries(tokens[begin : begin + 10], network))
        *_, last = network.encoder.hidden_layers(network.embedding(inputs[None]))
        read.append(last[0, : 1 + len(tokens[begin : begin + 10])])
    expected = classifier.head(F.layer_norm(torch.cat(read).mean(0), (width,))).log_softmax(0)
    np.testing.assert_allclose(found[0], expected.detach(), atol=1e-5)
