"""Score functions against their formulas, the fused kernel against the plain sum, and what the field teaches."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from chainrule.errors import SettingError
from chainrule.features.seq2seq.network.cross_attention import CrossAttention, Source, WeightLists
from chainrule.neural.layers.attention import Product, attend_by_score, attention_weights, build_score

NAMES = ["dot", "scaled_dot", "general", "content", "cosine", "additive", "location"]
B, H, T, S, D = 2, 3, 4, 5, 8


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(3)


def scored(name: str, heads: int = H, width: int = D) -> nn.Module:
    score = build_score(name, heads, width, longest=9)
    with torch.no_grad():
        for weight in score.parameters():
            weight.add_(torch.randn_like(weight) * 0.3)
    return score


def formula(name: str, score: nn.Module, head: int, j: int, s: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """As it is written in the papers, for one query s and the j-th key h."""
    if name == "dot":
        return s @ h
    if name == "scaled_dot":
        return s @ h / math.sqrt(len(s))
    if name == "general":
        return s @ score.matrix[head] @ h
    if name == "content":
        return score.sharpness[head, 0, 0].exp() * (s @ h) / (s.norm() * h.norm())
    if name == "cosine":
        return (s @ h) / (s.norm() * h.norm())
    if name == "additive":
        both = torch.cat((score.of_query[head], score.of_key[head]), 1)  # W [s; h]
        return score.weights[head, 0, 0] @ torch.tanh(both @ torch.cat((s, h)))
    return (score.matrix[head] @ s)[j]


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_a_score_is_its_formula(name: str) -> None:
    score = scored(name)
    query, key = torch.randn(B, H, T, D), torch.randn(B, H, S, D)
    found = score(score.query(query), score.key(key))
    for b in range(B):
        for head in range(H):
            for t in range(T):
                expected = [formula(name, score, head, j, query[b, head, t], key[b, head, j]) for j in range(S)]
                torch.testing.assert_close(found[b, head, t], torch.stack(expected))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("masked", ["none", "padding", "causal"])
@torch.no_grad()
def test_fused_and_plain_attention_agree(name: str, masked: str) -> None:
    score = scored(name)
    query, key, value = torch.randn(B, H, S, D), torch.randn(B, H, S, D), torch.randn(B, H, S, 6)
    mask = {
        "none": None,
        "padding": (torch.arange(S) < torch.tensor([[3], [5]]))[:, None, None],
        "causal": torch.ones(S, S, dtype=torch.bool).tril()[None, None],
    }[masked]
    weights = attention_weights(score, query, key, mask)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, S))
    if mask is not None:
        assert (weights[~mask.expand_as(weights)] == 0).all()
    found = attend_by_score(score, query, key, value, mask)
    torch.testing.assert_close(found, weights @ value, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_weights_are_the_softmax_of_the_formula_for_vectors_as_they_are(name: str) -> None:
    """They took vectors as if `score` had prepared them: with raw ones, the scale, b and the cosine were forgotten."""
    score = scored(name)
    query, key = torch.randn(B, H, T, D), torch.randn(B, H, S, D)
    for weights in (attention_weights(score, query, key), attend_by_score(score, query, key, torch.eye(S), None)):
        for b in range(B):
            for head in range(H):
                for t in range(T):
                    scores = [formula(name, score, head, j, query[b, head, t], key[b, head, j]) for j in range(S)]
                    torch.testing.assert_close(weights[b, head, t], torch.stack(scores).softmax(0))


@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
def test_a_score_without_matrices_goes_by_its_name(leading: tuple[int, ...]) -> None:
    query, key = torch.randn(*leading, T, 16), torch.randn(*leading, S, 16)
    product = query @ key.mT
    cosine = product / query.norm(dim=-1, keepdim=True) / key.norm(dim=-1)[..., None, :]
    for name, scores in {"dot": product, "scaled_dot": product / 4, "cosine": cosine, "content": 4 * cosine}.items():
        torch.testing.assert_close(attention_weights(name, query, key), scores.softmax(-1))
    for name in ("additive", "general", "location", "dotted"):
        with pytest.raises(SettingError, match=f"'{name}'; expected one of dot, scaled_dot, content, cosine, or"):
            attention_weights(name, query, key)


def rows(*numbers: list[float]) -> torch.Tensor:
    return torch.tensor(numbers)[None, None]


KEYS = rows([1.0, 0], [1, 0], [0, 1], [1, 0])


def test_worked_example_of_dot_product_attention_in_base_3() -> None:
    score = Product("dot", 1, 2)
    key = KEYS * math.log(3)  # e^(s . h log 3) is 3^(s . h)
    weights = attention_weights(score, rows([0.0, 1]), key, None)
    torch.testing.assert_close(weights, rows([1 / 6, 1 / 6, 1 / 2, 1 / 6]))
    found = attend_by_score(score, rows([0.0, 1]), key, KEYS, None)
    torch.testing.assert_close(found, rows([0.5, 0.5]))
    torch.testing.assert_close(KEYS.mean(2), torch.tensor([[[0.75, 0.25]]]))  # what no attention would give


def test_worked_example_of_boosted_keys() -> None:
    weights = attention_weights(Product("dot", 1, 2), rows([0.0, 1]), KEYS @ (10 * torch.eye(2)), None)
    whole = math.exp(10) + 3
    torch.testing.assert_close(weights, rows([1 / whole, 1 / whole, math.exp(10) / whole, 1 / whole]))
    assert weights[0, 0, 0, 2].item() == pytest.approx(22026.47 / 22029.47)


def test_worked_example_of_self_attention() -> None:
    query, key = KEYS @ rows([0.0, 1], [0, 1]), KEYS @ (10 * torch.eye(2))
    # Rows of E with a 1 in either place pick a row of W^Q, which are the same.
    torch.testing.assert_close(query, rows(*[[0.0, 1]] * 4))
    scores = Product("dot", 1, 2)(query, key)
    torch.testing.assert_close(scores, rows(*[[0.0, 0, 10, 0]] * 4))


def test_worked_example_of_scaled_dot_products() -> None:
    query, key, value = (torch.randn(1, 1, 4, 8) for _ in range(3))
    mask = torch.ones(4, 4, dtype=torch.bool).tril()[None, None]
    score = Product("scaled_dot", 1, 8)
    scores = query @ key.mT / math.sqrt(8) + torch.where(mask, 0.0, -torch.inf)
    found = attend_by_score(score, query, key, value, mask)
    torch.testing.assert_close(found, scores.softmax(-1) @ value)
    assert (attention_weights(score, query, key, mask)[~mask] == 0).all()


@torch.no_grad()
def test_cross_attention_is_that_of_torch() -> None:
    look = CrossAttention(D, 2, "scaled_dot", longest=9, biases=True, dropout=0.0)
    theirs = nn.MultiheadAttention(D, 2, batch_first=True)
    theirs.in_proj_weight.copy_(torch.cat((look.query.weight, look.key_value.weight)))
    theirs.in_proj_bias.copy_(torch.cat((look.query.bias, look.key_value.bias)))
    theirs.out_proj.load_state_dict(look.out.state_dict())
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    seen = torch.arange(S) < torch.tensor([[3], [5]])
    source = Source.of(seen, memory, memory[:, 0], (look.keys_and_values(memory),))
    maps = WeightLists([], [])
    found = look(x, source.at(torch.arange(B), maps), 0)
    expected, weights = theirs(x, memory, memory, key_padding_mask=~seen, average_attn_weights=False)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(maps.source[0], weights)


@pytest.mark.parametrize("which", [[0, 1, 2], [0, 0, 1, 1, 2, 2], [2, 0, 2, 1, 2], [1, 1], [2]])
@pytest.mark.parametrize("name", ["scaled_dot", "additive"])
@torch.no_grad()
def test_rows_that_share_a_source_attend_as_if_alone(which: list[int], name: str) -> None:
    look = CrossAttention(D, 2, name, longest=9, biases=False, dropout=0.0)
    memory, seen = torch.randn(3, S, D), torch.arange(S) < torch.tensor([[3], [5], [1]])
    source = Source.of(seen, memory, memory[:, 0], (look.keys_and_values(memory),))
    x = torch.randn(len(which), T, D)
    maps = WeightLists([], [])
    found = look(x, source.at(torch.tensor(which), maps), 0)
    for row, number in enumerate(which):
        alone = source.at(torch.tensor([number]))
        torch.testing.assert_close(found[row : row + 1], look(x[row : row + 1], alone, 0))
        torch.testing.assert_close(maps.source[0][row].sum(-1), torch.ones(2, T))
