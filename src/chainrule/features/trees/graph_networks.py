"""Networks that label graphs or their nodes: the gated graph network (Li et al. 2016), Graph LSTM (Liang et al. 2016).

A batch of graphs is one graph of parts that are not connected. Links say which node reads which other; their kinds are
the types of edges, and separate types for edges read against their direction. Each kind has its own matrices, and all
links of a kind are one product.
Legend: N nodes of a batch, L links, K kinds, D width, E features of a node before the layers, F features given with a
node, U units, G graphs.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.base.arguments import check_tokens
from chainrule.errors import SettingError
from chainrule.features.classify.network.texts import word_vectors
from chainrule.neural.layers.basic import drop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Float32, Float64, Int64
    from numpy import ndarray

    from chainrule.features.trees.config import GraphLabelling
    from chainrule.features.trees.structures.arrays import GraphArrays


class Links(NamedTuple):
    """Each link lets its target read its source. kinds: the kind of each link, sorted."""

    sources: Int64[ndarray, " L"]
    targets: Int64[ndarray, " L"]
    kinds: Int64[ndarray, " L"]


class GatedLayers(nn.Module):
    """The propagation model of gated graph networks (Li et al. 2016, equations 2 to 6).

    a = sum of W_kind h_source + b_kind               over the links to a node
    h' = GRU(a, h)                                    for a number of steps, always with the same weights

    The GRU applies its reset gate after the product with U, as torch's does.
    """

    def __init__(self, width: int, kinds: int, steps: int) -> None:
        super().__init__()
        self.of_kind = nn.ModuleList(nn.Linear(width, width) for _ in range(kinds))
        self.gru = nn.GRUCell(width, width)
        self.steps = steps

    def forward(self, x: Float[Tensor, "N D"], links: Links, confidence: None = None) -> Float[Tensor, "N D"]:
        """Return the states of the nodes after all steps. x: (N, D), the initial states of nodes."""
        sources, targets = (torch.from_numpy(array).to(x.device) for array in links[:2])
        counts = _counts(links.kinds, len(self.of_kind))
        h = x
        for _ in range(self.steps):
            messages = _products(self.of_kind, h[sources], counts, h.shape[1])
            h = self.gru(_sums(messages, targets, len(h)), h)
        return h


class GraphLSTMLayers(nn.Module):
    """The Graph LSTM (Liang et al. 2016, section 3): nodes one after the other, the most confident first.

    For a node that reads x, with state h and memory m of the layer below, and the nodes j that it is linked to, with
    their new states if they come before it, else their old ones:

    n_u, n_o, n_c = mean of U_kind h_j u, o = sigmoid(W x + U h + n + b) input and output gate c = tanh(W x + U h + n +
    b) candidate f = sigmoid(W_f x + U_f h + b_f) forget gate of the node's memory f_j = sigmoid(W_f x + U_f,kind h_j +
    b_f) adaptive forget gates, one for each j m' = u * c + f * m + mean of f_j * m_j; h' = tanh(o * m')

    The next layer reads x + h'. The paper has one kind of link. Nodes are computed in levels: those of a level read no
    new state of one another, so that the result is as one after the other. Gates are stacked in the order u, o, c, f.
    """

    def __init__(self, width: int, kinds: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_GraphLSTMLayer(width, kinds) for _ in range(layers))

    def forward(
        self, x: Float[Tensor, "N D"], links: Links, confidence: Float64[ndarray, " N"]
    ) -> Float[Tensor, "N D"]:
        """Return the vectors of the nodes after all layers.

        x: (N, D), the vectors that nodes read. confidence: (N,); nodes are computed from the highest to the lowest,
        equal ones in their order.
        """
        levels = levels_of(links, confidence)
        order = np.argsort(levels, kind="stable")
        positions = np.empty(len(order), np.int64)
        positions[order] = np.arange(len(order))
        parts = _parts(links, levels[order], positions, len(cast("_GraphLSTMLayer", self.layers[0]).of_kind), x.device)
        moved = torch.from_numpy(order).to(x.device)
        x = x[moved]
        h = m = torch.zeros_like(x)
        for layer in self.layers:
            h, m = layer(x, h, m, parts)
            x = x + h
        return h[torch.from_numpy(positions).to(x.device)]


class _Part(NamedTuple):
    """The nodes `first` to `stop` of a level, and the links to them, by kind.

    targets: positions counted from `first`. counts: the number of links of each kind. neighbours: the number of links
    to each node, at least 1.
    """

    first: int
    stop: int
    sources: Int64[Tensor, " l"]
    targets: Int64[Tensor, " l"]
    counts: list[int]
    neighbours: Float[Tensor, "n 1"]


class _GraphLSTMLayer(nn.Module):
    def __init__(self, width: int, kinds: int) -> None:
        super().__init__()
        self.own = nn.Linear(width, 4 * width)  # W, b
        self.state = nn.Linear(width, 4 * width, bias=False)  # U
        self.of_kind = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(kinds))
        nn.init.zeros_(self.own.bias)
        nn.init.ones_(self.own.bias[-width:])  # of the forget gates

    def forward(self, x: Tensor, h: Tensor, m: Tensor, parts: Sequence[_Part]) -> tuple[Tensor, Tensor]:
        """Return the new h and m of all nodes, which are in the order of their levels."""
        width = x.shape[1]
        own = self.own(x)
        gates, forgets = own + self.state(h), own[:, 3 * width :]
        new_h, new_m = h[:0], m[:0]
        for part in parts:
            nodes = slice(part.first, part.stop)
            now_h, now_m = torch.cat((new_h, h[part.first :])), torch.cat((new_m, m[part.first :]))
            read = _products(self.of_kind, now_h[part.sources], part.counts, 4 * width)
            kept = torch.sigmoid(forgets[nodes][part.targets] + read[:, 3 * width :]) * now_m[part.sources]
            sums = _sums(
                torch.cat((read[:, : 3 * width], kept.to(read.dtype)), 1), part.targets, part.stop - part.first
            )
            means = sums / part.neighbours
            u, o, c = (gates[nodes, : 3 * width] + means[:, : 3 * width]).chunk(3, 1)
            f = torch.sigmoid(gates[nodes, 3 * width :])
            memory = torch.sigmoid(u) * torch.tanh(c) + f * m[nodes] + means[:, 3 * width :]
            new_h = torch.cat((new_h, torch.tanh(torch.sigmoid(o) * memory).to(h.dtype)))
            new_m = torch.cat((new_m, memory.to(m.dtype)))
        return new_h, new_m


def levels_of(links: Links, confidence: Float64[ndarray, " N"]) -> Int64[ndarray, " N"]:
    """Return a level for each node: one more than the highest of the more confident nodes that it is linked to, either
    way.
    """
    ranks = np.empty(len(confidence), np.int64)
    ranks[np.argsort(-confidence, kind="stable")] = np.arange(len(confidence))
    is_forward = ranks[links.sources] < ranks[links.targets]
    before = np.where(is_forward, links.sources, links.targets)
    after = np.where(is_forward, links.targets, links.sources)
    before, after = before[before != after], after[before != after]
    order = np.argsort(before, kind="stable")
    before, after = before[order], after[order]
    firsts = np.searchsorted(before, np.arange(len(confidence) + 1))
    left = np.bincount(after, minlength=len(confidence))  # nodes before each one that have no level yet
    levels = np.zeros(len(confidence), np.int64)
    level, nodes = 0, np.flatnonzero(left == 0)
    while nodes.size:
        levels[nodes] = level
        counts = firsts[nodes + 1] - firsts[nodes]
        offsets = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        reached = after[np.repeat(firsts[nodes], counts) + offsets]
        np.subtract.at(left, reached, 1)
        level, nodes = level + 1, np.unique(reached[left[reached] == 0])
    return levels


def _parts(
    links: Links, levels: Int64[ndarray, " N"], positions: Int64[ndarray, " N"], kinds: int, device: torch.device
) -> list[_Part]:
    """Return the parts that are computed at once, in order.

    levels: the levels of nodes in the order of computation. positions: the position of each node in that order.
    """
    sources, targets = positions[links.sources], positions[links.targets]
    order = np.lexsort((links.kinds, levels[targets]))
    sources, targets, of_kinds = sources[order], targets[order], links.kinds[order]
    every = np.arange(int(levels.max()) + 2)
    nodes = np.searchsorted(levels, every).tolist()
    edges = np.searchsorted(levels[targets], every).tolist()
    parts = []
    for (first, stop), (begin, end) in zip(pairwise(nodes), pairwise(edges), strict=True):
        own = targets[begin:end] - first
        neighbours = np.maximum(np.bincount(own, minlength=stop - first), 1).astype(np.float32)[:, None]
        parts.append(
            _Part(
                first,
                stop,
                torch.from_numpy(sources[begin:end]).to(device),
                torch.from_numpy(own).to(device),
                _counts(of_kinds[begin:end], kinds),
                torch.from_numpy(neighbours).to(device),
            )
        )
    return parts


def _counts(kinds: Int64[ndarray, " L"], number: int) -> list[int]:
    """Return how many links there are of each kind."""
    return cast("list[int]", np.bincount(kinds, minlength=number).tolist())


def _products(layers: nn.ModuleList, rows: Float[Tensor, "L D"], counts: list[int], width: int) -> Float[Tensor, "L E"]:
    """Return rows that are sorted by kind, each multiplied by the matrix of its kind. width: E, for no rows at all."""
    if not len(rows):
        return rows.new_zeros(0, width)
    parts = zip(layers, torch.split(rows, counts), strict=True)
    return torch.cat([layer(part) for layer, part in parts if len(part)])


def _sums(rows: Float[Tensor, "L E"], targets: Int64[Tensor, " L"], nodes: int) -> Float[Tensor, "N E"]:
    """Return the sum of the rows of each target."""
    return rows.new_zeros(nodes, rows.shape[1]).index_add(0, targets, rows)


_STEPS = {"gated": 5, "lstm": 2}


class GraphBody(nn.Module):
    """Vectors of nodes, layers, and the output model of Li et al. 2016 (equation 7), v over the nodes of a graph:

    node    o_v = tanh(j([h_v; x_v]))
    graph   tanh(sum of sigmoid(i([h_v; x_v])) * o_v)      i, j linear

    x is the vector of a node's word, or its numbers, standardised as those of the training set. The state begins as a
    linear function of x, where the paper pads x with zeros.

    Where nodes are computed one after the other, the confidence that orders them is a linear function of x. What a
    node reads is multiplied by its sigmoid, so that the order is learned with the rest; the paper learns it from labels
    of nodes, which not all graphs have.
    """

    def __init__(self, config: GraphLabelling, vocabulary_size: int, unit: str) -> None:
        super().__init__()
        self.numbers, self.unit = len(config.means), unit
        self.means, self.deviations = (np.array(own, np.float32) for own in (config.means, config.deviations))
        width, own = config.width, self.numbers or config.embedding_width
        self.vectors = None if self.numbers else word_vectors(vocabulary_size, own, config.token_dropout)
        self.types, self.both_ways = len(config.edge_types), config.directions == "both"
        kinds = self.types * (2 if self.both_ways else 1)
        self.begin = nn.Linear(own, width)
        self.confidence = nn.Linear(own, 1) if config.cell == "lstm" else None
        layers = GraphLSTMLayers if config.cell == "lstm" else GatedLayers
        self.layers = layers(width, kinds, config.steps or _STEPS[config.cell])
        self.of_node = nn.Linear(width + own, width)  # j
        self.gate = nn.Linear(width + own, width) if unit == "graph" else None  # i
        self.width, self.dropout = width, config.dropout

    @property
    def embedding(self) -> nn.Parameter | None:
        return None if self.vectors is None else self.vectors.weight

    def forward(self, inputs: Sequence[GraphArrays]) -> Float[Tensor, "U D"]:
        """Return the vectors of the labelled units, as `Body` does."""
        x, confidence = self._read(inputs)
        read = self.begin(drop(x, self.dropout, self.training))
        order = None
        if self.confidence is not None:
            read = torch.sigmoid(self.confidence(x)) * read
            order = confidence
        h = self.layers(read, self._links(inputs), order)
        both = torch.cat((h, x), 1)
        outputs = torch.tanh(self.of_node(both))
        if self.gate is None:
            firsts = np.cumsum([0, *(len(item.tokens) for item in inputs)])
            units = np.concatenate([item.units + first for item, first in zip(inputs, firsts, strict=False)])
            return outputs[torch.from_numpy(units).to(x.device)]
        outputs = torch.sigmoid(self.gate(both)) * outputs
        sizes = torch.tensor([len(item.tokens) for item in inputs], device=x.device)
        graphs = torch.repeat_interleave(torch.arange(len(inputs), device=x.device), sizes)
        return torch.tanh(outputs.new_zeros(len(inputs), self.width).index_add(0, graphs, outputs))

    def _read(self, inputs: Sequence[GraphArrays]) -> tuple[Float[Tensor, "N E"], Float32[ndarray, " N"] | None]:
        """Return the initial states of nodes, and their confidence.

        The confidence is summed number by number in float64, so that nodes with equal initial states have equal
        confidence, whatever the batch, and rounding cannot change the order of others.
        """
        device = self.begin.weight.device
        if self.vectors is None:
            numbers = np.concatenate([item.numbers for item in inputs])
            x = torch.from_numpy((numbers - self.means) / self.deviations).to(device)
        else:
            tokens = torch.from_numpy(np.concatenate([item.tokens for item in inputs])).to(device)
            x = self.vectors(tokens.clamp(min=0)) * (tokens >= 0)[:, None]
        if self.confidence is None:
            return x, None
        weights = self.confidence.weight.detach().double().cpu().numpy()[0]
        return x, (x.detach().double().cpu().numpy() * weights).sum(1)

    def _links(self, inputs: Sequence[GraphArrays]) -> Links:
        """Return the links of all graphs, sorted by kind; within a kind in the order of the edges."""
        firsts = np.cumsum([0, *(len(item.tokens) for item in inputs)])
        sources, targets = (
            np.concatenate([item[i] + first for item, first in zip(inputs, firsts, strict=False)]) for i in (2, 3)
        )
        kinds = np.concatenate([item.types for item in inputs])
        if self.both_ways:
            sources, targets = np.concatenate((sources, targets)), np.concatenate((targets, sources))
            kinds = np.concatenate((kinds, kinds + self.types))
        order = np.argsort(kinds, kind="stable")
        return Links(sources[order], targets[order], kinds[order])

    def check(self, item: GraphArrays) -> None:
        """Raise SettingError where token ids, types of edges or the nodes' numbers do not suit this network."""
        if item.numbers.shape[1] != self.numbers:
            raise SettingError(
                f"nodes hold {item.numbers.shape[1]} numbers each; this network reads {self.numbers or 'words'}"
            )
        if self.embedding is not None:
            check_tokens(item.tokens[item.tokens >= 0].astype(np.int32), len(self.embedding))
        if len(item.types) and not 0 <= item.types.min() <= item.types.max() < self.types:
            raise SettingError(f"an edge has the type {item.types.max()}; this network knows {self.types}")

    def size(self, item: GraphArrays) -> int:
        """Return the number of its nodes and edges."""
        return len(item.tokens) + len(item.sources)

    def units(self, item: GraphArrays) -> int:
        """Return the number of its labelled nodes; 1 for a whole graph."""
        return len(item.units)
