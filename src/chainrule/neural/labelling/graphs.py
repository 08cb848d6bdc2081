"""The body of networks that label graphs or their nodes: vectors of nodes, layers over links, one vector a unit.

Legend: N nodes of a batch, E numbers of what a node begins as, F of those that it holds, D width, U units, G graphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.base.arguments import check_tokens
from chainrule.errors import SettingError
from chainrule.neural.dropout import dropped
from chainrule.neural.labelling.graph_layers import GatedLayers, GraphLSTMLayers, Links
from chainrule.neural.labelling.texts import word_vectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Float32
    from numpy import ndarray

    from chainrule.neural.config.labelling import GraphLabelling
    from chainrule.structures.arrays import GraphArrays

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
        """As `Body`."""
        x, confidence = self._read(inputs)
        read = self.begin(dropped(x, self.dropout, self.training))
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
        """What nodes begin as, and their confidence.

        The latter is summed number by number in float64, so that nodes that begin as the same have the same, whatever
        the batch, and rounding cannot change the order of others.
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
        """The links of all graphs, sorted by kind; within a kind in the order of the edges."""
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
        """Raises SettingError where ids, types of edges or numbers of nodes are none of this network's."""
        if item.numbers.shape[1] != self.numbers:
            raise SettingError(
                f"nodes hold {item.numbers.shape[1]} numbers each; this network reads {self.numbers or 'words'}"
            )
        if self.embedding is not None:
            check_tokens(item.tokens[item.tokens >= 0].astype(np.int32), len(self.embedding))
        if len(item.types) and not 0 <= item.types.min() <= item.types.max() < self.types:
            raise SettingError(f"an edge has the type {item.types.max()}; this network knows {self.types}")

    def size(self, item: GraphArrays) -> int:
        """The number of its nodes and edges."""
        return len(item.tokens) + len(item.sources)

    def units(self, item: GraphArrays) -> int:
        """The number of its labelled nodes; 1 for a whole graph."""
        return len(item.units)
