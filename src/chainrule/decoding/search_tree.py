"""The tree of a beam search, and the way of greedy search through it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chainrule.decoding.beam import TreeNode, search
from chainrule.decoding.beam_config import BeamConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.decoding.constraints import Constraints
    from chainrule.protocol import LanguageModel


@dataclass(frozen=True)
class SearchTree:
    """What a beam search considered, and what greedy search takes: the likeliest token at each step.

    nodes: parents before children. best, greedy: the indices of the nodes of the best text and of the greedy one, in
    the order of their tokens. score: of the best text. greedy_score: of the greedy one, by the rule of the beam.
    """

    nodes: Sequence[TreeNode]
    best: tuple[int, ...]
    score: float
    greedy: tuple[int, ...]
    greedy_score: float

    @property
    def fork(self) -> int | None:
        """The step, from 0, at which greedy search first differs from the best text; None: both are the same text."""
        if self.best == self.greedy:
            return None
        pairs = zip(self.best, self.greedy, strict=False)
        return next(
            (i for i, (best, greedy) in enumerate(pairs) if best != greedy), min(len(self.best), len(self.greedy))
        )

    def depths(self) -> list[int]:
        """The step of each node, from 0."""
        depths: list[int] = []
        for node in self.nodes:
            depths.append(depths[node.parent] + 1 if node.parent >= 0 else 0)
        return depths


def with_greedy(
    model: LanguageModel[Any],
    prefix: Int32[ndarray, " prefix"],
    nodes: Sequence[TreeNode],
    config: BeamConfig,
    constraints: Constraints,
    until: Callable[[Sequence[int]], bool] | None = None,
) -> SearchTree:
    """The tree of a finished search with the way of greedy search, which is run here under the same constraints.

    Where it leaves the beam, nodes with the fate `greedy` are added. The other arguments are those of the search.
    """
    single = BeamConfig(must_end=config.must_end, size=1)
    [result] = search(model, [prefix], single, constraints, until=until, keep_tree=True)
    way = _path_to_best(result.tree)
    merged, greedy = _merged(nodes, [result.tree[i] for i in way])
    best = _path_to_best(nodes)
    total = merged[greedy[-1]].total if greedy else 0.0
    return SearchTree(
        merged, best, nodes[best[-1]].score or 0.0 if best else 0.0, greedy, total / config.divisor(len(greedy))
    )


def _path_to_best(nodes: Sequence[TreeNode]) -> tuple[int, ...]:
    """The indices of the nodes of the best finished text."""
    scores = {i: node.score for i, node in enumerate(nodes) if node.score is not None}
    i = max(scores, key=lambda i: scores[i], default=-1)
    path = []
    while i >= 0:
        path.append(i)
        i = nodes[i].parent
    return tuple(path[::-1])


def _merged(nodes: Sequence[TreeNode], way: Sequence[TreeNode]) -> tuple[list[TreeNode], tuple[int, ...]]:
    """The nodes with those of a way that they lack, and the indices of the way's nodes."""
    merged = list(nodes)
    children: dict[tuple[int, int], int] = {}
    for i, node in enumerate(nodes):  # of the groups of a diverse beam, the one that kept it
        key = node.parent, node.token
        if key not in children or nodes[children[key]].fate == "pruned":
            children[key] = i
    parent, path = -1, []
    for node in way:
        i = children.get((parent, node.token), len(merged))
        if i == len(merged):
            merged.append(TreeNode(parent, node.token, node.log_prob, node.total, "greedy"))
        path.append(i)
        parent = i
    return merged, tuple(path)
