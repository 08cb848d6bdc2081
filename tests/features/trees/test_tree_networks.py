"""Tree networks: batched equals node by node, as the formulas stand in the papers; a chain is the LSTM."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from samples import examples

import chainrule
from chainrule.errors import SettingError, TextError
from chainrule.features.trees.config import TreeLabelling
from chainrule.features.trees.structures.arrays import Binarise, TreeTokens, binarise_nodes, encode_nodes
from chainrule.features.trees.structures.tree import Tree
from chainrule.features.trees.structures.tree_files import read_trees
from chainrule.features.trees.tree_networks import TreeBody

if TYPE_CHECKING:
    from pathlib import Path

WIDTH, INPUT, VOCABULARY = 5, 4, 20
sigmoid, tanh = torch.sigmoid, torch.tanh


def body(cell: str, seed: int = 0) -> TreeBody:
    torch.manual_seed(seed)
    config = TreeLabelling(cell=cell, width=WIDTH, embedding_width=INPUT, dropout=0.0)  # type: ignore[arg-type]
    made = TreeBody(config, VOCABULARY)
    for weight in made.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return made.eval()


def tokens_of(parents: list[int], seed: int = 0, inner: bool = True) -> TreeTokens:
    """A tree with random tokens, at all nodes or at leaves only; every node is a unit."""
    tree = Tree((None,) * len(parents), (None,) * len(parents), tuple(parents))
    ids = np.random.default_rng(seed).integers(3, VOCABULARY, len(parents))
    ranks = np.zeros(len(parents), np.int64)
    for children in tree.children:
        ranks[children] = range(len(children))
        if children and not inner:
            ids[parents[children[0]]] = -1
    return TreeTokens(ids, np.array(parents), tree.depths.astype(np.int64), ranks, np.arange(len(parents)))


def naive(network: TreeBody, cell: str, tree: TreeTokens) -> torch.Tensor:
    """Node by node, in one-line formulas."""
    w, b = network.own.weight, network.own.bias
    hidden: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for node in np.argsort(-tree.depths, kind="stable").tolist():
        x = torch.zeros(INPUT) if tree.tokens[node] < 0 else network.embedding[tree.tokens[node]]
        own = w @ x + b
        children = [hidden[k] for k in np.flatnonzero(tree.parents == node).tolist()]
        if cell == "child-sum":
            h_sum = sum((h for h, _ in children), torch.zeros(WIDTH))
            i, o, u = (own[: 3 * WIDTH] + network.cell.of_sum.weight @ h_sum).chunk(3)  # type: ignore[attr-defined]
            c = sigmoid(i) * tanh(u)
            for h, memory in children:
                c = c + sigmoid(own[3 * WIDTH :] + network.cell.of_child.weight @ h) * memory  # type: ignore[attr-defined]
            hidden[node] = sigmoid(o) * tanh(c), c
            continue
        nothing = (torch.zeros(WIDTH), torch.zeros(WIDTH))
        (left, c_left), (right, c_right) = (*children, nothing, nothing)[:2]
        read = network.cell.of_children.weight @ torch.cat((left, right))  # type: ignore[attr-defined]
        if cell == "recursive":
            hidden[node] = tanh(own + read), nothing[1]
            continue
        i, o, u = (own[: 3 * WIDTH] + read[: 3 * WIDTH]).chunk(3)
        f_left, f_right = (own[3 * WIDTH :].repeat(2) + read[3 * WIDTH :]).chunk(2)
        c = sigmoid(i) * tanh(u) + sigmoid(f_left) * c_left + sigmoid(f_right) * c_right
        hidden[node] = sigmoid(o) * tanh(c), c
    return torch.stack([hidden[node][0] for node in range(len(tree.tokens))])


@st.composite
def some_parents(draw: st.DrawFn, most_children: int) -> list[int]:
    """Of a random tree, in a random order of nodes."""
    nodes = draw(st.integers(1, 14))
    parents, free = [-1], [0] * most_children
    for node in range(1, nodes):
        parents.append(free.pop(draw(st.integers(0, len(free) - 1))))
        free += [node] * most_children
    order = draw(st.permutations(range(nodes)))
    moved = [-1] * nodes
    for node, parent in enumerate(parents):
        moved[order[node]] = -1 if parent < 0 else order[parent]
    return moved


@pytest.mark.parametrize(("cell", "most"), [("child-sum", 4), ("binary", 2), ("recursive", 2)])
@examples(1)
@given(data=st.data())
def test_batched_equals_node_by_node(cell: str, most: int, data: st.DataObject) -> None:
    network = body(cell)
    several = data.draw(st.lists(some_parents(most), min_size=1, max_size=4))
    trees = [tokens_of(parents, i, inner=bool(i % 2)) for i, parents in enumerate(several)]
    together = network(trees)
    for own, tree in zip(together.split([len(tree.tokens) for tree in trees]), trees, strict=True):
        torch.testing.assert_close(own, naive(network, cell, tree), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("cell", ["child-sum", "binary", "recursive"])
def test_gradients_are_those_of_node_by_node(cell: str) -> None:
    network, tree = body(cell), tokens_of([6, 6, 4, 4, 5, -1, 5][:7])
    wanted = torch.autograd.grad(naive(network, cell, tree).square().sum(), list(network.parameters()))
    found = torch.autograd.grad(network([tree]).square().sum(), list(network.parameters()))
    for own, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(own, other, atol=1e-5, rtol=1e-4)


@examples(1)
@given(st.integers(1, 30), st.integers(0, 9))
def test_a_chain_in_child_sum_is_the_lstm(length: int, seed: int) -> None:
    """The first token is the deepest. torch stacks gates as input, forget, candidate, output."""
    network, chain = body("child-sum", seed), tokens_of([*range(1, length), -1], seed)
    lstm = torch.nn.LSTM(INPUT, WIDTH, batch_first=True)

    def gates(iou: torch.Tensor, forget: torch.Tensor) -> torch.Tensor:
        i, o, u = iou.chunk(3)
        return torch.cat((i, forget, u, o))

    with torch.no_grad():
        w, b = network.own.weight, network.own.bias
        lstm.weight_ih_l0.copy_(gates(w[: 3 * WIDTH], w[3 * WIDTH :]))
        lstm.bias_ih_l0.copy_(gates(b[: 3 * WIDTH], b[3 * WIDTH :]))
        lstm.weight_hh_l0.copy_(gates(network.cell.of_sum.weight, network.cell.of_child.weight))  # type: ignore[attr-defined]
        lstm.bias_hh_l0.zero_()
        wanted = lstm(network.embedding[torch.from_numpy(chain.tokens)][None])[0][0]
        torch.testing.assert_close(network([chain]), wanted, atol=1e-6, rtol=1e-5)


def test_a_deep_tree_is_read_and_learnt_from_without_recursion() -> None:
    network, nodes = body("child-sum"), 5_000
    chain = tokens_of([*range(1, nodes), -1])
    network([chain]).sum().backward()
    assert network.embedding.grad is not None
    assert bool(network.embedding.grad.isfinite().all())


def test_a_network_of_two_children_refuses_three() -> None:
    with pytest.raises(SettingError, match=r"has 3 children, and .* reads 2 at most; train with binarise='left'"):
        body("binary").check(tokens_of([3, 3, 3, -1]))


@pytest.mark.parametrize("binarise", ["left", "right", "head"])
def test_a_tree_that_binarising_makes_too_deep_is_refused(tmp_path: Path, binarise: Binarise) -> None:
    """A flat tree becomes a chain as deep as it is wide."""
    wide = 10_100
    tree = Tree((None, *["a"] * wide), (None,) * (wide + 1), (-1, *[0] * wide))
    text = tmp_path / "text.txt"
    text.write_text("a b\n")
    tokenizer = chainrule.train(text, chainrule.NGramConfig(order=1), tokenizer="whitespace").tokenizer
    message = rf"line 2: this tree is 10,\d+ nodes deep with binarise='{binarise}'; at most 10,000 are read"
    with pytest.raises(TextError, match=message):
        encode_nodes(tokenizer, [tree], [[0]], ["trees.txt, line 2"], binarise)


def test_forget_gates_are_those_of_the_formula() -> None:
    """Of a root with the children 0 and 2, one of which has a child: sigmoid(W x + U h_k + b), averaged."""
    network, tree = body("child-sum"), tokens_of([3, 2, 3, -1])
    with torch.no_grad():
        found = network.forget_gates(tree)
        hidden = naive(network, "child-sum", tree)
        own = network.embedding[tree.tokens] @ network.own.weight.T + network.own.bias
        forget = network.cell.of_child.weight  # type: ignore[attr-defined]
        parents = [3, 2, 3]
        expected = [
            float(sigmoid(own[parent, 3 * WIDTH :] + forget @ hidden[child]).mean())
            for child, parent in enumerate(parents)
        ]
    assert found is not None
    np.testing.assert_allclose(found[:3], expected, atol=1e-6)
    assert np.isnan(found[3])
    assert body("recursive").forget_gates(tokens_of([1, -1])) is None
    binary = body("binary").forget_gates(tokens_of([2, 2, -1]))
    assert binary is not None
    assert ((binary[:2] > 0) & (binary[:2] < 1)).all()


def shape(tree: Tree, children: list[list[int]], node: int) -> object:
    """The words of a binarised tree; an inner node's own word comes first."""
    below = [shape(tree, children, child) for child in children[node]]
    word = tree.words[node] if node < len(tree) else None
    return word if not below else ((word, *below) if word is not None else tuple(below))


@pytest.mark.parametrize(
    ("binarise", "expected"),
    [
        ("left", ((("a", "b"), "c"), ".")),
        ("right", ("a", ("b", ("c", ".")))),
        ("head", ("a", ("b", ("c", ".")))),  # c is the head: with what is right of it, then b, then a
    ],
)
def test_constituents_are_binarised_as_the_setting_says(binarise: Binarise, expected: object) -> None:
    tree = Tree(("a", "b", "c", ".", None), (None,) * 5, (4, 4, 4, 4, -1))
    assert shape(tree, binarise_nodes(tree, binarise), tree.root) == expected


def test_around_a_first_head_the_children_after_it_are_taken_up_from_the_left() -> None:
    tree = Tree(("a", "!", "?", ".", None), (None,) * 5, (4, 4, 4, 4, -1))
    assert shape(tree, binarise_nodes(tree, "head"), tree.root) == ((("a", "!"), "?"), ".")


def test_dependents_are_binarised_on_either_side_of_their_head() -> None:
    """Of the head H with a, b before it and c, d after it; and where all dependents are on one side."""
    tree = Tree(("a", "b", "H", "c", "d"), (None,) * 5, (2, 2, -1, 2, 2))
    assert shape(tree, binarise_nodes(tree, "head"), 2) == ("H", ("a", "b"), ("c", "d"))
    after = Tree(("H", "a", "b", "c"), (None,) * 4, (-1, 0, 0, 0))
    assert shape(after, binarise_nodes(after, "head"), 0) == ("H", ("a", "b"), "c")
    before = Tree(("a", "b", "c", "H"), (None,) * 4, (3, 3, 3, -1))
    assert shape(before, binarise_nodes(before, "head"), 3) == ("H", "a", ("b", "c"))


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30), st.sampled_from(["left", "right", "head"]))
def test_a_binarised_tree_keeps_its_words_in_order_and_has_two_children_at_most(
    draws: list[int], binarise: Binarise
) -> None:
    parents = [-1, *(draw % (i + 1) for i, draw in enumerate(draws))]
    words = tuple(None if node in parents else str(node) for node in range(len(parents)))
    tree = Tree(words, (None,) * len(parents), tuple(parents))
    children = binarise_nodes(tree, binarise)

    def leaves(below: list[list[int]], node: int) -> list[int]:
        return [leaf for child in below[node] for leaf in leaves(below, child)] if below[node] else [node]

    assert max(map(len, children)) <= 2
    assert leaves(children, tree.root) == leaves(tree.children, tree.root)
    assert all(len(own) == 2 for own in children[len(tree) :])


@pytest.fixture
def wide_trees(tmp_path: Path) -> Path:
    """A line of two children, then one of three, as `data trees` writes them."""
    file = tmp_path / "wide.jsonl"
    two = {"words": ["MAX", "2", "9"], "parents": [-1, 0, 0], "label": "9"}
    three = {"words": ["MIN", "2", "9", "4"], "parents": [-1, 0, 0, 0], "label": "2"}
    file.write_text("".join(json.dumps(tree) + "\n" for tree in [two, three] * 10))
    return file


@pytest.mark.parametrize("cell", ["binary", "recursive"])
def test_training_on_wider_nodes_is_refused_with_the_place_and_what_to_do(wide_trees: Path, cell: str) -> None:
    config = TreeLabelling(cell=cell, width=4, embedding_width=4)  # type: ignore[arg-type]
    with pytest.raises(TextError, match=r"wide.jsonl, line 2: node 1, .* has 3 children, .* binarise='left'"):
        chainrule.train_classifier(
            read_trees(wide_trees), config, training=chainrule.ClassifierTrainingConfig(epochs=1)
        )


@pytest.mark.parametrize("cell", ["binary", "recursive"])
def test_a_model_binarises_what_it_labels_as_it_did_in_training(wide_trees: Path, tmp_path: Path, cell: str) -> None:
    examples = read_trees(wide_trees)
    config = TreeLabelling(cell=cell, binarise="right", width=4, embedding_width=4, dropout=0.0)  # type: ignore[arg-type]
    model = chainrule.train_classifier(examples, config, training=chainrule.ClassifierTrainingConfig(epochs=1))
    model.save(tmp_path / "model")
    again = chainrule.load(tmp_path / "model")
    assert again.engine.config.binarise == "right"  # type: ignore[union-attr]
    by_hand = Tree(("MIN", "2", "9", "4", None), (None,) * 5, (-1, 0, 4, 4, 0))  # (MIN 2 (9 4))
    wide, narrow = again.classify([examples[1].input, by_hand])  # type: ignore[union-attr]
    assert wide.best == narrow.best
    assert wide.units == ("MIN 2 9 4",) or list(wide.units) == ["MIN 2 9 4"]
