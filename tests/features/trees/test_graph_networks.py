"""Graph networks: a batch equals its graphs node by node, as the formulas stand in the papers; order by confidence.

In float64, so that rounding hides nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from samples import examples

import chainrule
from chainrule.errors import SettingError, TextError
from chainrule.features.trees.config import GraphLabelling
from chainrule.features.trees.graph_networks import GraphBody, Links, levels_of
from chainrule.features.trees.structures.arrays import GraphArrays
from chainrule.features.trees.structures.graph import Graph, labelled
from chainrule.training.config import ClassifierTrainingConfig

WIDTH, INPUT, VOCABULARY, TYPES = 5, 4, 12, 2
sigmoid, tanh = torch.sigmoid, torch.tanh
CELLS = [("gated", "both"), ("gated", "forward"), ("lstm", "both"), ("lstm", "forward")]


def body(cell: str, directions: str = "both", unit: str = "node", seed: int = 0, **given: Any) -> GraphBody:
    torch.manual_seed(seed)
    config = GraphLabelling(
        cell=cell,  # type: ignore[arg-type]
        directions=directions,  # type: ignore[arg-type]
        width=WIDTH,
        embedding_width=INPUT,
        dropout=0.0,
        edge_types=("x", "y"),
        **given,
    )
    network = GraphBody(config, VOCABULARY, unit)
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.6)
    return network.double().eval()


def zeros(size: int) -> torch.Tensor:
    return torch.zeros(size, dtype=torch.float64)


@st.composite
def graphs(draw: st.DrawFn) -> GraphArrays:
    """With words, edges of two types, loops, and nodes without any edge."""
    nodes = draw(st.integers(1, 7))
    ends = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(ends, ends, st.integers(0, TYPES - 1)), max_size=14))
    tokens = draw(st.lists(st.integers(2, VOCABULARY - 1) | st.just(-1), min_size=nodes, max_size=nodes))
    sources, targets, types = np.array(edges, np.int64).reshape(-1, 3).T
    units = np.array(sorted(draw(st.sets(ends, min_size=1))))
    return GraphArrays(np.array(tokens), np.empty((nodes, 0), np.float32), sources, targets, types, units)


def neighbours(graph: GraphArrays, node: int, both: bool) -> list[tuple[int, int]]:
    """The nodes that a node reads, each with the kind of its link."""
    edges = list(zip(graph.sources.tolist(), graph.targets.tolist(), graph.types.tolist(), strict=True))
    found = [(source, kind) for source, target, kind in edges if target == node]
    return found + [(target, kind + TYPES) for source, target, kind in edges if source == node and both]


def naive(network: GraphBody, graph: GraphArrays, cell: str, both: bool, unit: str) -> torch.Tensor:
    """Node by node, in one-line formulas."""
    nodes = range(len(graph.tokens))
    assert network.embedding is not None
    x = [network.embedding[t] if t >= 0 else zeros(INPUT) for t in graph.tokens.tolist()]
    read = [network.begin.weight @ own + network.begin.bias for own in x]
    layers: Any = network.layers
    if cell == "gated":
        h, gru = read, layers.gru
        for _ in range(layers.steps):
            sums = []
            for node in nodes:
                found = [
                    layers.of_kind[k].weight @ h[j] + layers.of_kind[k].bias for j, k in neighbours(graph, node, both)
                ]
                sums.append(sum(found, zeros(WIDTH)))
            new = []
            for node in nodes:
                r, z, n = (gru.weight_ih @ sums[node] + gru.bias_ih).chunk(3)
                r_h, z_h, n_h = (gru.weight_hh @ h[node] + gru.bias_hh).chunk(3)
                z = sigmoid(z + z_h)
                new.append((1 - z) * tanh(n + sigmoid(r + r_h) * n_h) + z * h[node])
            h = new
    else:
        assert network.confidence is not None
        w, b = network.confidence.weight[0], network.confidence.bias[0]
        confidence = [float((w.double() * own.double()).sum().detach()) for own in x]
        read = [sigmoid(w @ own + b) * vector for own, vector in zip(x, read, strict=True)]
        h = m = [zeros(WIDTH) for _ in nodes]
        for layer in layers.layers:
            now_h, now_m = list(h), list(m)
            for node in sorted(nodes, key=lambda i: (-confidence[i], i)):
                own = layer.own.weight @ read[node] + layer.own.bias
                state = layer.state.weight @ h[node]
                linked = [(now_h[j], now_m[j], layer.of_kind[k].weight) for j, k in neighbours(graph, node, both)]
                count = max(1, len(linked))
                mean = sum((u @ h_j for h_j, _, u in linked), zeros(4 * WIDTH)) / count
                u, o, c, f = (own + state).chunk(4)
                n_u, n_o, n_c, _ = mean.chunk(4)
                memory = sigmoid(u + n_u) * tanh(c + n_c) + sigmoid(f) * m[node]
                for h_j, m_j, u_k in linked:
                    memory = memory + sigmoid(own[3 * WIDTH :] + (u_k @ h_j)[3 * WIDTH :]) * m_j / count
                now_h[node], now_m[node] = tanh(sigmoid(o + n_o) * memory), memory
            h, m = now_h, now_m
            read = [before + new for before, new in zip(read, h, strict=True)]
    both_vectors = [torch.cat((own, vector)) for own, vector in zip(h, x, strict=True)]
    outputs = [tanh(network.of_node.weight @ v + network.of_node.bias) for v in both_vectors]
    if unit == "node":
        return torch.stack([outputs[i] for i in graph.units.tolist()])
    assert network.gate is not None
    gates = [sigmoid(network.gate.weight @ v + network.gate.bias) for v in both_vectors]
    return tanh(sum((g * o for g, o in zip(gates, outputs, strict=True)), zeros(WIDTH)))[None]


@pytest.mark.parametrize(("cell", "directions"), CELLS)
@pytest.mark.parametrize("unit", ["node", "graph"])
@examples(0.5)
@given(several=st.lists(graphs(), min_size=1, max_size=4))
@torch.no_grad()
def test_a_batch_equals_its_graphs_node_by_node(
    cell: str, directions: str, unit: str, several: list[GraphArrays]
) -> None:
    network = body(cell, directions, unit, steps=3)
    if unit == "graph":
        several = [graph._replace(units=np.zeros(1, np.int64)) for graph in several]
    together = network(several)
    for own, graph in zip(together.split([len(graph.units) for graph in several]), several, strict=True):
        torch.testing.assert_close(own, naive(network, graph, cell, directions == "both", unit), atol=1e-9, rtol=0)


@pytest.mark.parametrize("cell", ["gated", "lstm"])
@given(graph=graphs())
@examples(0.5)
def test_gradients_are_those_of_node_by_node(cell: str, graph: GraphArrays) -> None:
    network = body(cell)
    weights = list(network.parameters())
    wanted = torch.autograd.grad(naive(network, graph, cell, True, "node").square().sum(), weights, allow_unused=True)
    found = torch.autograd.grad(network([graph]).square().sum(), weights, allow_unused=True)
    for weight, own, other in zip(weights, found, wanted, strict=True):
        nothing = torch.zeros_like(weight)
        torch.testing.assert_close(
            nothing if own is None else own, nothing if other is None else other, atol=1e-9, rtol=0
        )


@pytest.mark.parametrize("cell", ["gated", "lstm"])
@given(graph=graphs(), order=st.randoms())
@examples(1)
def test_the_numbering_of_different_nodes_changes_nothing(cell: str, graph: GraphArrays, order: Any) -> None:
    """Where words differ; equally confident nodes are computed in the order of their numbers."""
    nodes = len(graph.tokens)
    graph = graph._replace(tokens=np.arange(2, nodes + 2), units=np.arange(nodes))
    places = list(range(nodes))
    order.shuffle(places)
    moved = np.array(places)
    tokens = np.empty(nodes, np.int64)
    tokens[moved] = graph.tokens
    other = graph._replace(tokens=tokens, sources=moved[graph.sources], targets=moved[graph.targets])
    network = body(cell)
    torch.testing.assert_close(network([other])[moved], network([graph]), atol=1e-9, rtol=0)


def test_levels_are_as_long_as_the_longest_way_from_confident_to_less_confident_nodes() -> None:
    """A path 0-1-2-3 with confidence falling along it needs four levels; with the ends most confident, two."""
    links = Links(np.array([0, 1, 2]), np.array([1, 2, 3]), np.zeros(3, np.int64))
    assert levels_of(links, np.array([4.0, 3.0, 2.0, 1.0])).tolist() == [0, 1, 2, 3]
    assert levels_of(links, np.array([4.0, 1.0, 2.0, 3.0])).tolist() == [0, 2, 1, 0]
    assert levels_of(links, np.zeros(4)).tolist() == [0, 1, 2, 3]
    assert levels_of(Links(*(np.empty(0, np.int64),) * 3), np.zeros(2)).tolist() == [0, 0]


@given(graph=graphs(), values=st.lists(st.integers(0, 3), min_size=7, max_size=7))
def test_levels_are_the_longest_ways(graph: GraphArrays, values: list[int]) -> None:
    """By the definition, node by node in the order of confidence."""
    nodes = len(graph.tokens)
    edges = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    wanted: dict[int, int] = {}
    for node in sorted(range(nodes), key=lambda i: (-values[i], i)):
        linked = [b if a == node else a for a, b in edges if node in (a, b)]
        wanted[node] = 1 + max((wanted[other] for other in linked if other in wanted and other != node), default=-1)
    links = Links(graph.sources, graph.targets, graph.types)
    found = levels_of(links, np.array(values[:nodes], np.float64))
    assert found.tolist() == [wanted[node] for node in range(nodes)]


def test_a_long_chain_has_its_levels_at_once() -> None:
    nodes = np.arange(50_000)
    links = Links(nodes[:-1], nodes[1:], np.zeros(len(nodes) - 1, np.int64))
    assert levels_of(links, np.zeros(len(nodes))).tolist() == nodes.tolist()


def test_a_graph_that_is_not_the_networks_is_refused() -> None:
    item = GraphArrays(np.array([3]), np.empty((1, 0), np.float32), *(np.zeros(1, np.int64),) * 4)
    network = body("gated")
    network.check(item)
    with pytest.raises(SettingError, match="an edge has the type 2; this network knows 2"):
        network.check(item._replace(types=np.array([2])))
    with pytest.raises(SettingError, match="nodes hold 3 numbers each; this network reads words"):
        network.check(item._replace(numbers=np.zeros((1, 3), np.float32)))


def distances(count: int, seed: int) -> list[Any]:
    """Paths of nodes with two numbers, on a large scale; a label says whether a node is next to a node that is high."""
    draws = np.random.default_rng(seed)
    examples = []
    for i in range(count):
        nodes = int(draws.integers(3, 9))
        high = draws.random(nodes) < 0.3
        numbers = np.stack((np.where(high, 1000.0, 900.0) + draws.normal(size=nodes), np.full(nodes, 7.0)), 1)
        near = [bool(high[max(0, k - 1) : k].any() or high[k + 1 : k + 2].any()) for k in range(nodes)]
        edges = tuple((k, k + 1, "next") for k in range(nodes - 1))
        labels = tuple("near" if own else "far" for own in near)
        graph = Graph(tuple(map(tuple, numbers.tolist())), edges, labels)  # type: ignore[arg-type]
        examples.append(labelled(graph, "node", f"path {i}"))
    return examples


@pytest.mark.parametrize("cell", ["gated", "lstm"])
def test_nodes_of_numbers_are_labelled_by_their_neighbours(cell: str, tmp_path: Any) -> None:
    network = GraphLabelling(cell=cell, width=12, dropout=0.0)  # type: ignore[arg-type]
    training = ClassifierTrainingConfig(epochs=10, batch=8, learning_rate=0.02)
    model = chainrule.train_classifier(distances(120, 1), network, unit="node", training=training, progress=False)
    assert model.assess(distances(40, 2)).accuracy.share > 0.95
    model.save(tmp_path / "model")
    again = chainrule.load(tmp_path / "model")
    graph = distances(1, 3)[0].input
    [own], [other] = model.classify([graph]), again.classify([graph])
    np.testing.assert_array_equal(own.log_probs, other.log_probs)
    assert len(own.units) == len(graph)
    with pytest.raises(TextError, match="graph 1: the nodes of the graph hold words; expected 2 numbers each"):
        model.classify([Graph(("a", "b"))])
    with pytest.raises(TextError, match="graph 1: no graph in training had an edge of the type 'road'"):
        model.classify([replace(graph, edges=((0, 1, "road"),))])


def test_words_in_some_graphs_and_numbers_in_others_are_refused() -> None:
    mixed = [*distances(1, 0), labelled(Graph(("a",), (), ("near",)), "node", "line 9")]
    with pytest.raises(TextError, match="line 9: nodes hold no numbers each, and in path 0 2; expected words in all"):
        chainrule.train_classifier(mixed, "graph", unit="node")
