"""The top-down language model of trees: it sums to one over trees, batched equals node by node, a chain is the LSTM."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from samples import examples

from chainrule.errors import SettingError
from chainrule.features.trees.config import TreeConfig
from chainrule.features.trees.language_model import TreeModel, TreeNetwork
from chainrule.features.trees.structures.linearized import Action, Brackets, tree_steps

OPEN, CLOSE, A, B = 3, 4, 5, 6
BRACKETS = Brackets(OPEN, CLOSE)
sigmoid, tanh = torch.sigmoid, torch.tanh


def model(vocabulary_size: int = 7, **settings: object) -> TreeModel:
    """Of random weights, which are large enough to tell contexts apart."""
    torch.manual_seed(1)
    network = TreeNetwork(TreeConfig(**{"width": 5, "brackets": (3, 4), **settings}), vocabulary_size)  # type: ignore[arg-type]
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.6)
    return TreeModel(network)


def is_tree(tokens: tuple[int, ...]) -> bool:
    """By recursion over the grammar: tree = word | ( word tree tree* )."""

    def after_tree(i: int) -> int | None:
        if i >= len(tokens) or tokens[i] == CLOSE:
            return None
        if tokens[i] != OPEN:
            return i + 1
        if i + 1 >= len(tokens) or tokens[i + 1] in (OPEN, CLOSE):
            return None
        following = after_tree(i + 2)
        while following is not None and not (following < len(tokens) and tokens[following] == CLOSE):
            following = after_tree(following)
        return None if following is None else following + 1

    return after_tree(0) == len(tokens)


def test_only_trees_have_a_probability_and_what_is_begun_and_what_is_ended_sum_to_one() -> None:
    """Over all texts of a vocabulary of <unk>, brackets and one word: P(ended by T tokens) + P(not yet) = 1."""
    language_model = model(6)
    longest = 6
    ended = 0.0
    for length in range(longest + 1):
        texts = list(itertools.product((0, OPEN, CLOSE, A), repeat=length))
        scores = language_model.score([np.array(text, np.int32) for text in texts])
        totals = np.array([score.sum(dtype=np.float64) for score in scores])
        assert [is_tree(text) for text in texts] == (totals > -math.inf).tolist()
        ended += np.exp(totals).sum()
        if length == longest:  # what has begun so, whether it ends here or goes on
            begun = sum(math.exp(score[:-1].sum(dtype=np.float64)) for score in scores)
            ended_here = np.exp(totals).sum()
    assert ended > 0.25
    assert ended - ended_here + begun == pytest.approx(1, abs=1e-5)


def random_tree(rng: np.random.Generator, depth: int = 0) -> list[int]:
    words = [0, A, B]
    if depth > 4 or rng.random() < 0.4:
        return [words[rng.integers(3)]]
    children = [token for _ in range(rng.integers(1, 4)) for token in random_tree(rng, depth + 1)]
    return [OPEN, words[rng.integers(3)], *children, CLOSE]


@torch.no_grad()
def naive(network: TreeNetwork, tokens: list[int]) -> list[float]:
    """log P of each token and of the end, one state at a time, with a stack, in one-line formulas."""
    assert len(network.layers) == 1
    layer, vectors, width = network.layers[0], network.embedding.weight, network.config.width

    def read(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        gates = layer.own.weight @ x + layer.own.bias + layer.before.weight @ h  # type: ignore[union-attr,operator]
        i, f, g, o = gates.chunk(4)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        return sigmoid(o) * tanh(c), c

    state = read(vectors[2], torch.zeros(width), torch.zeros(width))
    stack: list[list[object]] = []
    is_head, may_close, scores = False, False, []
    for token in [*tokens, 2]:
        allowed = {0, A, B}
        if stack and may_close:
            allowed |= {CLOSE}
        if not is_head:
            allowed |= {OPEN}
        if scores and not stack:
            allowed = {2}
        ids = sorted(allowed)
        logits = network.output_weight[ids] @ state[0] + network.output_bias[ids]
        scores.append(float(logits.log_softmax(0)[ids.index(token)]))
        if token == CLOSE:
            before, head = stack.pop()
            state = read(vectors[CLOSE] + vectors[head], *before)  # type: ignore[misc,index]
        else:
            if token == OPEN:
                stack.append([state, None])
            elif is_head:
                stack[-1][1] = token
            state = read(vectors[token], *state)
        may_close = not (is_head or token == OPEN)
        is_head = token == OPEN
    return scores


@examples(0.5)
@given(st.integers(0, 10_000))
def test_batched_equals_state_by_state(seed: int) -> None:
    language_model, rng = model(), np.random.default_rng(seed)
    trees = [random_tree(rng) for _ in range(4)]
    scores = language_model.score([np.array(tree, np.int32) for tree in trees])
    for tree, score in zip(trees, scores, strict=True):
        np.testing.assert_allclose(score, naive(language_model.network, tree), atol=1e-5)


def test_without_brackets_it_is_the_lstm_of_torch() -> None:
    """A chain of states, which no tree of more than one node has."""
    network = model(layers=2).network
    lstm = torch.nn.LSTM(5, 5, 2, batch_first=True)
    with torch.no_grad():
        for i, layer in enumerate(network.layers):
            getattr(lstm, f"weight_ih_l{i}").copy_(layer.own.weight)
            getattr(lstm, f"bias_ih_l{i}").copy_(layer.own.bias)
            getattr(lstm, f"weight_hh_l{i}").copy_(layer.before.weight)
            getattr(lstm, f"bias_hh_l{i}").zero_()
        tokens = np.array([A, B, A, A, 0, B], np.int32)
        steps = tree_steps(tokens, BRACKETS)
        expected = lstm(network.embedding(torch.from_numpy(steps.tokens))[None])[0][0]
        torch.testing.assert_close(network([steps]), expected, atol=1e-6, rtol=0)


def test_a_child_does_not_depend_on_what_is_below_its_elder_siblings() -> None:
    """But on the words of these, and on all above."""
    language_model = model()
    texts = ([OPEN, A, OPEN, B, child, A, CLOSE, B, CLOSE] for child in (A, B))
    first, second = language_model.score([np.array(text, np.int32) for text in texts])
    assert abs(first[5] - second[5]) > 1e-3
    np.testing.assert_allclose(first[7:], second[7:], atol=1e-6)
    others = ([OPEN, A, OPEN, sibling, A, A, CLOSE, B, CLOSE] for sibling in (A, B))
    first, second = language_model.score([np.array(text, np.int32) for text in others])
    assert abs(first[7] - second[7]) > 1e-3


def test_a_tree_of_depth_100_000() -> None:
    depth = 100_000
    tokens = np.array([OPEN, A] * depth + [B] + [CLOSE] * depth, np.int32)
    steps = tree_steps(tokens, BRACKETS)
    assert steps.turns[-1] == Action.COMPLETE
    assert steps.levels.max() == 2 * depth + 1
    assert steps.before[-1] == 0


def test_brackets_that_the_vocabulary_lacks() -> None:
    for brackets, message in (((), "expected the tokens"), ((3, 40), "vocabulary has 7"), ((3, 3), "two different")):
        with pytest.raises(SettingError, match=message):
            TreeNetwork(TreeConfig(brackets=brackets), 7)
