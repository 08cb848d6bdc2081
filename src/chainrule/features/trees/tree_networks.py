"""Networks over trees, from the leaves to the root: Tree-LSTMs (Tai et al. 2015) and the simple recursive network.

All trees of a batch are read together, one depth after the other from the deepest: the children of the nodes of a depth
are all the nodes of the next. So each depth is one gather and one product, whatever the number of trees, and nothing is
recursive. What nodes read of their own tokens is one product for all.
Legend: N nodes of a batch, n of a depth, m of the depth below, E width of the vectors of tokens, D width, U units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.base.arguments import check_tokens
from chainrule.errors import SettingError
from chainrule.features.classify.network.texts import word_vectors
from chainrule.neural.layers.basic import drop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Float32, Int64

    from chainrule.features.trees.config import TreeLabelling
    from chainrule.features.trees.structures.arrays import TreeTokens


class Depth(NamedTuple):
    """The nodes of a depth, inner ones first, and the parents of all nodes of the next depth.

    nodes: how many there are. inner: how many of them have children. parents: for each child, the position of its
    parent in this depth. ranks: the rank of each child among its siblings.
    """

    nodes: int
    inner: int
    parents: Int64[Tensor, " m"]
    ranks: Int64[Tensor, " m"]


class States(NamedTuple):
    """The hidden vectors and the memories of the nodes of a depth."""

    h: Float[Tensor, "m D"]
    c: Float[Tensor, "m D"]


class TreeCell(Protocol):
    """A torch module that combines the children of nodes."""

    gates: int  # the size of W x + b for a node's own token, in widths
    most_children: int | None  # None: any number

    def __call__(self, own: Float[Tensor, "n gates*D"], depth: Depth, below: States) -> States:
        """Return the states of the nodes of a depth.

        own: W x + b for the token of each node, with x = 0 where it has none.
        """

    def forget_gates(self, own: Float[Tensor, "n gates*D"], depth: Depth, below: States) -> Float[Tensor, "m D"] | None:
        """Return how much of the memory of each child its parent keeps, from 0 to 1; None if there is no memory."""


class ChildSum(nn.Module):
    """The Child-Sum Tree-LSTM (Tai et al. 2015, equations 2 to 8), for any number of children in any order.

    h~ = sum_k h_k                                     of the children k
    i, o = sigmoid(W x + U h~ + b)                     input and output gate
    u = tanh(W x + U h~ + b)                           candidate
    f_k = sigmoid(W x + U h_k + b)                     a forget gate for each child
    c = i * u + sum_k f_k * c_k;  h = o * tanh(c)

    On a chain, it is the LSTM. Gates are stacked in the order i, o, u, f.
    """

    gates = 4
    most_children: int | None = None

    def __init__(self, width: int) -> None:
        super().__init__()
        self.of_sum = nn.Linear(width, 3 * width, bias=False)  # U of i, o, u
        self.of_child = nn.Linear(width, width, bias=False)  # U of f

    def forward(self, own: Float[Tensor, "n 4*D"], depth: Depth, below: States) -> States:
        """Return the states of the nodes, as `TreeCell` does."""
        width = self.of_child.in_features
        gates = own[:, : 3 * width]
        if not depth.inner:
            return _apply_gates(gates)
        sums = below.h.new_zeros(depth.inner, width).index_add(0, depth.parents, below.h)
        inner = gates[: depth.inner] + self.of_sum(sums)
        kept = self.forget_gates(own, depth, below) * below.c
        memory = below.c.new_zeros(depth.nodes, width).index_add(0, depth.parents, kept)
        return _apply_gates(torch.cat((inner, gates[depth.inner :])), memory)

    def forget_gates(self, own: Float[Tensor, "n 4*D"], depth: Depth, below: States) -> Float[Tensor, "m D"]:
        """Return the forget gates, as `TreeCell.forget_gates` does."""
        forget = own[:, -self.of_child.in_features :]
        return torch.sigmoid(forget[depth.parents] + self.of_child(below.h))


class Binary(nn.Module):
    """The N-ary Tree-LSTM of two ordered children (Tai et al. 2015, equations 9 to 14 with N = 2).

    i, o = sigmoid(W x + U_l h_l + U_r h_r + b);  u = tanh(the same)
    f_l, f_r = sigmoid(W x + U_l h_l + U_r h_r + b)    each with its own U, and the W and b of both
    c = i * u + f_l * c_l + f_r * c_r;  h = o * tanh(c)

    Gates are stacked in the order i, o, u, f.
    """

    gates = 4
    most_children: int | None = 2

    def __init__(self, width: int) -> None:
        super().__init__()
        self.of_children = nn.Linear(2 * width, 5 * width, bias=False)  # i, o, u, f_l, f_r

    def forward(self, own: Float[Tensor, "n 4*D"], depth: Depth, below: States) -> States:
        """Return the states of the nodes, as `TreeCell` does."""
        width = self.of_children.out_features // 5
        gates, forget = torch.split(own, [3 * width, width], 1)
        if not depth.inner:
            return _apply_gates(gates)
        h, c = _side_by_side(below.h, depth), _side_by_side(below.c, depth)  # (inner, 2D)
        read, forgets = torch.split(self.of_children(h), [3 * width, 2 * width], 1)
        kept = torch.sigmoid(forgets + forget[: depth.inner].repeat(1, 2)) * c
        memory = kept[:, :width] + kept[:, width:]
        memory = torch.cat((memory, memory.new_zeros(depth.nodes - depth.inner, width)))
        return _apply_gates(torch.cat((gates[: depth.inner] + read, gates[depth.inner :])), memory)

    def forget_gates(self, own: Float[Tensor, "n 4*D"], depth: Depth, below: States) -> Float[Tensor, "m D"]:
        """Return the forget gates, as `TreeCell.forget_gates` does."""
        width = self.of_children.out_features // 5
        read = self.of_children(_side_by_side(below.h, depth))[:, 3 * width :]
        gates = torch.sigmoid(read + own[: depth.inner, 3 * width :].repeat(1, 2))
        return gates.view(2 * depth.inner, width)[2 * depth.parents + depth.ranks]


class Recursive(nn.Module):
    """The simple recursive network of two ordered children (Socher et al. 2011): h = tanh(W x + U [h_l; h_r] + b)."""

    gates = 1
    most_children: int | None = 2

    def __init__(self, width: int) -> None:
        super().__init__()
        self.of_children = nn.Linear(2 * width, width, bias=False)

    def forward(self, own: Float[Tensor, "n D"], depth: Depth, below: States) -> States:
        """Return the states of the nodes, as `TreeCell` does; there is no memory."""
        if depth.inner:
            read = self.of_children(_side_by_side(below.h, depth))
            own = torch.cat((own[: depth.inner] + read, own[depth.inner :]))
        h = torch.tanh(own)
        return States(h, h[:, :0])

    def forget_gates(self, own: Float[Tensor, "n D"], depth: Depth, below: States) -> None:
        """Return None, since there is no memory."""
        return


_CELLS = {"child-sum": ChildSum, "binary": Binary, "recursive": Recursive}


class TreeBody(nn.Module):
    """Vectors of tokens, and a cell that goes from the leaves of trees to their roots."""

    def __init__(self, config: TreeLabelling, vocabulary_size: int) -> None:
        super().__init__()
        self.vectors = word_vectors(vocabulary_size, config.embedding_width, config.token_dropout)
        self.cell = cast("TreeCell", _CELLS[config.cell](config.width))
        self.own = nn.Linear(config.embedding_width, self.cell.gates * config.width)  # W, b
        self.width, self.dropout = config.width, config.dropout
        nn.init.zeros_(self.own.bias)
        if self.cell.gates == 4:
            nn.init.ones_(self.own.bias[-config.width :])  # of the forget gates

    @property
    def embedding(self) -> nn.Parameter:
        return self.vectors.weight

    def forward(self, inputs: Sequence[TreeTokens]) -> Float[Tensor, "U D"]:
        """Return the vectors of the labelled units, as `Body` does."""
        wiring = wire(inputs, self.embedding.device)
        below, hidden = self._nothing(), []
        for own, depth in zip(self._own(wiring), wiring.depths, strict=True):
            below = self.cell(own, depth, below)
            hidden.append(below.h)
        return torch.cat(hidden)[wiring.units]

    @torch.inference_mode()
    def forget_gates(self, tree: TreeTokens) -> Float32[np.ndarray, " nodes"] | None:
        """Return how much of each node's memory its parent keeps, on average; NaN for the root.

        None if cells have no memory.
        """
        wiring = wire([tree._replace(units=np.arange(len(tree.tokens)))], self.embedding.device)
        below, kept = self._nothing(), []
        for own, depth in zip(self._own(wiring), wiring.depths, strict=True):
            if len(below.h):
                gates = self.cell.forget_gates(own, depth, below)
                if gates is None:
                    return None
                kept.append(gates.mean(1))
            below = self.cell(own, depth, below)
        kept.append(torch.full((1,), torch.nan, device=wiring.units.device))
        means: Float32[np.ndarray, " nodes"] = torch.cat(kept)[wiring.units].float().cpu().numpy()
        return means

    def _own(self, wiring: Wiring) -> Sequence[Float[Tensor, "n gates*D"]]:
        """Return W x + b of the nodes of each depth."""
        own = self.own.bias.expand(wiring.nodes, -1)
        if len(wiring.tokens):
            x = drop(self.vectors(wiring.tokens), self.dropout, self.training)
            own = own.index_copy(0, wiring.readers, self.own(x).to(own.dtype))
        return torch.split(own, [depth.nodes for depth in wiring.depths])

    def _nothing(self) -> States:
        """Return the states below the deepest nodes."""
        none = self.own.bias.new_zeros(0, self.width)
        return States(none, none)

    def check(self, item: TreeTokens) -> None:
        """Raise SettingError where an id is outside the vocabulary, or a node has too many children."""
        check_tokens(item.tokens[item.tokens >= 0].astype(np.int32), len(self.embedding))
        most = self.cell.most_children
        if most is not None and int(item.ranks.max()) >= most:
            raise SettingError(
                f"a node of a tree has {int(item.ranks.max()) + 1} children, and this network reads {most} at most; "
                "train with binarise='left' (or right, or head), or with cell='child-sum'"
            )

    def size(self, item: TreeTokens) -> int:
        """Return the number of its nodes."""
        return len(item.tokens)

    def units(self, item: TreeTokens) -> int:
        """Return the number of its labelled nodes."""
        return len(item.units)


class Wiring(NamedTuple):
    """The nodes of several trees, in the order in which they are computed: the deepest first.

    readers: the nodes with a token; tokens: these tokens. units: the labelled nodes, tree by tree.
    """

    nodes: int
    depths: list[Depth]
    tokens: Int64[Tensor, " readers"]
    readers: Int64[Tensor, " readers"]
    units: Int64[Tensor, " U"]


def wire(trees: Sequence[TreeTokens], device: torch.device) -> Wiring:
    """Return the order in which the nodes of trees are computed: depth by depth, the inner ones of each depth first."""
    firsts = np.cumsum([0, *(len(tree.tokens) for tree in trees)])
    offsets = np.repeat(firsts[:-1], np.diff(firsts))
    tokens, parents, depths, ranks = (np.concatenate([tree[i] for tree in trees]) for i in range(4))
    parents = np.where(parents < 0, -1, parents + offsets)
    is_leaf = np.ones(len(tokens), np.bool_)
    is_leaf[parents[parents >= 0]] = False
    order = np.lexsort((is_leaf, -depths))
    positions = np.empty(len(order), np.int64)
    positions[order] = np.arange(len(order))
    deepest = int(depths.max())
    counts = np.bincount(deepest - depths, minlength=deepest + 1)
    edges = np.cumsum([0, *counts])
    inner = np.bincount(deepest - depths[~is_leaf], minlength=deepest + 1)
    above = positions[parents[order]] - edges[np.minimum(deepest - depths[order] + 1, deepest)]  # unused of roots
    child_parents, sides = torch.from_numpy(above).to(device), torch.from_numpy(ranks[order]).to(device)
    levels = []
    for i, (count, own) in enumerate(zip(counts.tolist(), inner.tolist(), strict=True)):
        children = slice(int(edges[max(0, i - 1)]), int(edges[i]))
        levels.append(Depth(count, own, child_parents[children], sides[children]))
    readers = np.flatnonzero(tokens[order] >= 0)
    units = np.concatenate([positions[tree.units + first] for tree, first in zip(trees, firsts, strict=False)])
    return Wiring(
        len(tokens),
        levels,
        *(torch.from_numpy(array).to(device) for array in (tokens[order][readers], readers, units)),
    )


def _apply_gates(gates: Float[Tensor, "n 3*D"], memory: Float[Tensor, "n D"] | None = None) -> States:
    """Return h and c from the gates i, o, u, and the kept part of the children's memory."""
    i, o, u = gates.chunk(3, 1)
    c = torch.sigmoid(i) * torch.tanh(u)
    c = c if memory is None else c + memory
    return States(torch.sigmoid(o) * torch.tanh(c), c)


def _side_by_side(rows: Float[Tensor, "m D"], depth: Depth) -> Float[Tensor, "inner 2*D"]:
    """Return the vectors of the left and the right child of each inner node; 0 for a child that is not there."""
    width = rows.shape[1]
    pairs = rows.new_zeros(2 * depth.inner, width).index_copy(0, 2 * depth.parents + depth.ranks, rows)
    return pairs.view(depth.inner, 2 * width)


def tree_body(config: TreeLabelling, vocabulary_size: int, unit: str) -> TreeBody:
    """Return the body of a classifier of trees, which is the same for all units."""
    return TreeBody(config, vocabulary_size)
