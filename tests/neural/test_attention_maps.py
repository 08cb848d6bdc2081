"""Attention weights on request, against a plain softmax."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from random_networks import MODERN, PAIRS, random_model, random_network, random_pair, small

from chainrule.errors import SettingError
from chainrule.features.seq2seq.network.inspection import maps_of_pair
from chainrule.neural.bidirectional_model import BidirectionalModel
from chainrule.neural.config import MaskedConfig, RecurrentConfig, gpt2
from chainrule.neural.inspection import maps_of_text
from chainrule.neural.layers.attention import attend, attention_weights
from chainrule.neural.layers.masks import causal_mask
from chainrule.neural.layers.positions import ALiBi
from chainrule.protocol import END

TOKENS = np.array([5, 9, 3, 17], np.int32)


@pytest.mark.parametrize("window", [None, 2, 5])
@pytest.mark.parametrize("key_heads", [4, 2, 1])
@pytest.mark.parametrize("biased", [False, True])
@torch.no_grad()
def test_recorded_weights_are_the_softmax_and_give_the_result(window, key_heads: int, biased: bool) -> None:
    torch.manual_seed(0)
    query = torch.randn(2, 4, 9, 8)
    key, value = torch.randn(2, key_heads, 9, 8), torch.randn(2, key_heads, 9, 8)
    bias = ALiBi(4) if biased else None
    mask = causal_mask(9, query.device, window=window, bias=bias, documents=None, in_blocks=False)
    recorded: list[torch.Tensor] = []
    found = attend(query, key, value, mask._replace(weights_out=recorded))
    distances = torch.arange(9)[:, None] - torch.arange(9)
    scores = query @ key.repeat_interleave(4 // key_heads, 1).mT / math.sqrt(8)
    if bias is not None:
        scores = scores + bias(distances)
    seen = (distances >= 0) & (distances < (window or 9))
    expected = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    torch.testing.assert_close(recorded[0], expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(found, recorded[0] @ value.repeat_interleave(4 // key_heads, 1), atol=1e-5, rtol=0)


@pytest.mark.parametrize("config", [MODERN, small(gpt2())], ids=["modern", "gpt2"])
def test_maps_of_a_text_are_causal(config) -> None:
    read, maps = maps_of_text(random_model(config), TOKENS)
    assert read.tolist() == [END, *TOKENS.tolist()]
    assert [(each.sides, each.layer) for each in maps] == [("text", 1), ("text", 2)]
    for each in maps:
        assert each.weights.shape == (4, 5, 5)
        np.testing.assert_allclose(each.weights.sum(-1), 1, atol=1e-5)
        assert (np.triu(each.weights, 1) == 0).all()


@pytest.mark.parametrize(("memory", "ends"), [("document", []), ("stream", [END])])
def test_maps_of_a_masked_network_see_both_sides(memory, ends: list[int]) -> None:
    network = random_network(MaskedConfig(layers=2, width=16, heads=2, context=12, memory=memory))
    read, maps = maps_of_text(BidirectionalModel(network), TOKENS)
    assert read.tolist() == [END, *TOKENS.tolist(), *ends]
    for each in maps:
        assert each.weights.shape == (2, len(read), len(read))
        np.testing.assert_allclose(each.weights.sum(-1), 1, atol=1e-5)
        assert (each.weights > 0).all()


@pytest.mark.parametrize("name", ["dot", "general", "additive", "content", "cosine"])
@torch.no_grad()
def test_self_attention_by_another_score_is_its_formula(name: str) -> None:
    """The softmax of what tests/neural/test_attention_scores.py holds to the formulas, over what is before."""
    model = random_model(small(MODERN, score=name, layers=1, positions="none", query_key_norm=False))
    _, [found] = maps_of_text(model, TOKENS)
    block = model.network.encoder.blocks[0]
    x = block.norms[0](model.network.embedding(torch.tensor([[2, *TOKENS.tolist()]])))
    query, key, _ = block.attention.query_key_value(x).unflatten(-1, (3, 4, 4)).transpose(1, 3).unbind(2)
    score = block.attention.score
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    expected = attention_weights(score, query, key, causal)[0]
    np.testing.assert_allclose(found.weights, expected.numpy(), atol=1e-5)


@pytest.mark.parametrize("name", [name for name, config in PAIRS.items() if config.attention != "none"])
def test_maps_of_a_pair_are_distributions_of_all_layers(name: str) -> None:
    config = PAIRS[name]
    maps = maps_of_pair(random_pair(config), TOKENS, TOKENS[:2])
    across = [each.weights for each in maps if each.sides == "target on source"]
    assert len(across) == (1 if config.is_recurrent(config.decoder) else config.decoder_layers)
    for weights in across:
        assert weights.shape[1:] == (3, 5)
        if config.before_source:
            assert (weights.sum(-1) < 1).all()  # the tokens around the source have the rest
        elif config.center != "predicted":
            np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert len([each for each in maps if each.sides == "source"]) == (config.encoder == "transformer")


def test_what_has_no_attention_has_no_maps() -> None:
    with pytest.raises(SettingError, match="has no attention to show"):
        maps_of_text(random_model(RecurrentConfig(width=8)), TOKENS)
    with pytest.raises(SettingError, match="has no attention to show"):
        maps_of_pair(random_pair(PAIRS["LSTM without attention"]), TOKENS, TOKENS)
    with pytest.raises(SettingError, match="reads at most 5 at once"):
        maps_of_text(random_model(MODERN), np.arange(3, 12, dtype=np.int32))
