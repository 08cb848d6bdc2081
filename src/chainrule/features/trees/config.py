"""Settings of networks over trees and graphs: language models of trees, and networks that label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chainrule.base.options import check_settings, option
from chainrule.errors import SettingError
from chainrule.kinds import Lazy
from chainrule.neural.config.network import LAYERS, MAX_LAYERS, MAX_WIDTH, WordsConfig

TreeCell = Literal["child-sum", "binary", "recursive"]
GraphCell = Literal["gated", "lstm"]
Directions = Literal["forward", "both"]
Binarise = Literal["left", "right", "head"]


@dataclass(frozen=True, kw_only=True)
class TreeConfig:
    """A language model of trees: an LSTM from the root down.

    Each node is given those above it, and the elder siblings of all these
    (after Zhang, Lu and Lapata 2016).

    Reads trees: brackets, CoNLL-U (.conllu) or JSON lines. A tree is a text of
    brackets, as in ( saw She -HEAD- ( man the -HEAD- ) ), and only trees have a
    probability.
    """

    reads: ClassVar[str] = "tree"

    width: int = option(200, "units in a hidden layer, and in the vector of a token", least=1, below=MAX_WIDTH)
    layers: int = option(1, LAYERS, least=1, below=MAX_LAYERS)
    dropout: float = option(0.3, "the dropout rate before each layer and the output", least=0, below=1)
    tied: bool = option(True, "the output layer uses the vectors of tokens as its weights")
    brackets: tuple[int, ...] = option((), "the tokens ( and )", least=3, is_rare=True)

    def __post_init__(self) -> None:
        check_settings(self)
        if len(self.brackets) not in (0, 2) or len(set(self.brackets)) != len(self.brackets):
            raise SettingError(f"brackets are {self.brackets}; expected two different tokens, ( and )")


@dataclass(frozen=True, kw_only=True)
class TreeLabelling(WordsConfig):
    """A network over trees, from the leaves to the root: a Tree-LSTM (Tai 2015), or simple recursion (Socher 2011)."""

    reads: ClassVar[str] = "tree"
    body: ClassVar[Lazy] = Lazy("chainrule.features.trees.tree_networks:tree_body")

    cell: TreeCell = option(
        "child-sum",
        "child-sum: a Tree-LSTM of any number of children in any order; binary: of two in order; recursive: the simple "
        "network of two in order",
    )
    binarise: Binarise | None = option(
        None,
        "of a tree, how nodes of more than two children are read: left: (a b c) as ((a b) c); right: as (a (b c)); "
        "head: outwards from the node's own word or, without one, from the right-most child that is no punctuation; "
        "by default as they are, which binary and recursive refuse",
        is_later=True,
    )

    @property
    def most_children(self) -> int | None:
        """The most children of a node that the network can read; None for any number."""
        return None if self.cell == "child-sum" else 2


@dataclass(frozen=True, kw_only=True)
class GraphLabelling(WordsConfig):
    """A network over graphs: gated (Li 2016), or a Graph LSTM (Liang 2016).

    edge_types: that training has seen. means, deviations: of the numbers that nodes hold; empty where they hold words.
    """

    reads: ClassVar[str] = "graph"
    body: ClassVar[Lazy] = Lazy("chainrule.features.trees.graph_networks:GraphBody")

    cell: GraphCell = option(
        "gated",
        "of a graph, gated: all nodes read their neighbours at once, step by step; lstm: one node after the other",
    )
    steps: int | None = option(
        None, "gated: how far nodes see, by default 5; lstm: layers, by default 2", least=1, below=MAX_LAYERS
    )
    directions: Directions = option("both", "of a graph: both: nodes read their edges both ways")
    edge_types: tuple[str, ...] = option((), "types of edges, from the training set", is_rare=True)
    means: tuple[float, ...] = option((), "of the numbers of nodes, from the training set", is_rare=True)
    deviations: tuple[float, ...] = option((), "of the numbers of nodes, from the training set", is_rare=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.means) != len(self.deviations) or not all(own > 0 for own in self.deviations):
            raise SettingError(
                f"there are {len(self.means)} means and {len(self.deviations)} deviations; expected as many, above 0"
            )
