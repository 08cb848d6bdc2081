"""Trees and graphs as the arrays that a network reads: token ids or numbers of nodes, and how nodes are linked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from chainrule.errors import TextError
from chainrule.features.trees.structures.tree import DEEPEST, too_deep
from chainrule.text.tokenization.tokenizer import documents_of
from chainrule.text.tokenization.vocabulary import MarkerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float32, Int64
    from numpy import ndarray

    from chainrule.features.trees.structures.graph import Graph
    from chainrule.features.trees.structures.tree import LabelledTree, Tree
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Nodes = Int64[ndarray, " nodes"]

Binarise = Literal["left", "right", "head"]


class TreeTokens(NamedTuple):
    """A tree's nodes: the token of each (-1 for none), its parent (-1 for none), its depth, its rank among its
    siblings, and which nodes are labelled units. Nodes that binarising adds come last.
    """

    tokens: Int64[ndarray, " nodes"]
    parents: Int64[ndarray, " nodes"]
    depths: Int64[ndarray, " nodes"]
    ranks: Int64[ndarray, " nodes"]
    units: Int64[ndarray, " units"]


def encode_trees(
    tokenizer: Tokenizer,
    examples: Sequence[LabelledTree],
    unit: str,
    binarise: Binarise | None = None,
    most_children: int | None = None,
) -> list[TreeTokens]:
    """Encode trees as `encode_nodes` does, where units are the labelled nodes of trees."""
    nodes = [
        [each.input.root] if unit == "tree" else [i for i, label in enumerate(each.input.labels) if label is not None]
        for each in examples
    ]
    places = [each.place for each in examples]
    return encode_nodes(tokenizer, [each.input for each in examples], nodes, places, binarise, most_children)


def encode_nodes(
    tokenizer: Tokenizer,
    trees: Sequence[Tree],
    units: Sequence[Sequence[int]],
    places: Sequence[str],
    binarise: Binarise | None = None,
    most_children: int | None = None,
) -> list[TreeTokens]:
    """Encode trees.

    units: the labelled nodes of each tree. places: file and line of each, for messages. binarise: the direction as for
    `binarise_nodes`; None not to. most_children: the most children of a node that the network can read. Raises
    TextError where a node has more, or a word is no token by itself.
    """
    found = []
    rows = tokens_of_nodes(tokenizer, [tree.words for tree in trees], places)
    for tree, tokens, nodes, place in zip(trees, rows, units, places, strict=True):
        children = tree.children if binarise is None else binarise_nodes(tree, binarise)
        if most_children is not None:
            _check_children(tree, children, most_children, place)
        added = np.full(len(children) - len(tree), -1, np.int64)
        parents, depths, ranks = _wiring(children, tree.root)
        if (depth := int(depths.max())) > DEEPEST:
            raise too_deep(depth, place, "" if binarise is None else f" with binarise={binarise!r}")
        words = np.concatenate([tokens, added])
        found.append(TreeTokens(words, parents, depths, ranks, np.array(nodes, np.int64)))
    return found


def binarise_nodes(tree: Tree, binarise: Binarise) -> list[list[int]]:
    """Return the children of each node where no node has more than two: nodes are added, without a word, after all
    others.

    left: (a b c) becomes ((a b) c). right: (a (b c)). head: outwards from the head, first to the right, then to the
    left, as Klein and Manning (2003) markovise. The head is the node's own word, where it has one: then the children
    before it become one node and those after it another, the nearest to the head deepest. Of constituents, it is the
    right-most child that is not punctuation alone. Rules by label (Collins 1999) are not used: the labels of trees are
    what a classifier predicts, and it has to read the same tree where they are not known.
    """
    children = [list(own) for own in tree.children]

    def join(first: int, second: int) -> int:
        children.append([first, second])
        return len(children) - 1

    for node in range(len(tree)):
        own = children[node]
        if len(own) <= 2:
            continue
        if binarise == "left":
            children[node] = _from_left(own, join)
        elif binarise == "right":
            children[node] = _from_right(own, join)
        elif tree.words[node] is None:
            children[node] = _around(own, _head_among(tree, own), join)
        else:
            before, after = [child for child in own if child < node], [child for child in own if child > node]
            if not before:
                children[node] = _from_left(after, join)
            elif not after:
                children[node] = _from_right(before, join)
            else:
                pairs = _from_right(before, join), _from_left(after, join)
                children[node] = [pair[0] if len(pair) == 1 else join(*pair) for pair in pairs]
    return children


def _from_left(own: list[int], join: Callable[[int, int], int]) -> list[int]:
    """Return (a b c d) as (((a b) c) d); one or two children unchanged."""
    whole = own[0]
    for child in own[1:-1]:
        whole = join(whole, child)
    return [whole, *own[1:][-1:]]


def _from_right(own: list[int], join: Callable[[int, int], int]) -> list[int]:
    """Return (a b c d) as (a (b (c d))); one or two children unchanged."""
    whole = own[-1]
    for child in reversed(own[1:-1]):
        whole = join(child, whole)
    return [*own[:-1][:1], whole]


def _around(own: list[int], head: int, join: Callable[[int, int], int]) -> list[int]:
    """Return (a b H d) as (a (b (H d))). head: its index among more than two children."""
    whole = own[head]
    for child in own[head + 1 : -1] if head == 0 else own[head + 1 :]:
        whole = join(whole, child)
    if head == 0:
        return [whole, own[-1]]
    for child in reversed(own[1:head]):
        whole = join(child, whole)
    return [own[0], whole]


def _head_among(tree: Tree, own: list[int]) -> int:
    """Return the index of the right-most child that is not punctuation alone; of the right-most where all are."""

    def is_punctuation(child: int) -> bool:
        word = tree.words[child]
        return not tree.children[child] and word is not None and not any(sign.isalnum() for sign in word)

    return next((i for i in reversed(range(len(own))) if not is_punctuation(own[i])), len(own) - 1)


def _check_children(tree: Tree, children: Sequence[Sequence[int]], most: int, place: str) -> None:
    """Raise TextError where a node has more than `most` children."""
    node = next((i for i, own in enumerate(children) if len(own) > most), None)
    if node is not None:
        words = tree.text(node)
        shown = words if len(words) <= 60 else words[:57] + "..."
        raise TextError(
            f"{place}: node {node + 1}, {shown!r}, has "
            f"{len(children[node])} children, and the network reads {most} at most: train it with binarise='left' (or "
            "right, or head), or with cell='child-sum', which reads any number"
        )


def _wiring(children: Sequence[Sequence[int]], root: int) -> tuple[Nodes, Nodes, Nodes]:
    """Return the parent, depth and rank of each node."""
    parents, depths, ranks = np.full(len(children), -1, np.int64), *np.zeros((2, len(children)), np.int64)
    level, depth = [root], 0
    while level:
        depths[level] = depth
        below: list[int] = []
        for node in level:
            own = children[node]
            parents[own], ranks[own] = node, range(len(own))
            below += own
        level, depth = below, depth + 1
    return parents, depths, ranks


def tokens_of_nodes(
    tokenizer: Tokenizer, words: Sequence[Sequence[str | None]], places: Sequence[str]
) -> list[Int64[ndarray, " nodes"]]:
    """Return the token of each node of trees or graphs; -1 where it has no word.

    places: file and line of each structure, for messages. Raises TextError where a word is no token by itself.
    """
    written = [[word for word in own if word is not None] for own in words]
    try:
        rows = documents_of(tokenizer.encode_texts([" ".join(own) for own in written]).ids)
    except MarkerError as error:
        raise error.at(places[error.document - 1]) from None
    found = []
    for nodes, own, row, place in zip(words, written, rows, places, strict=True):
        if len(own) != len(row):
            raise TextError(
                f"{place}: the {tokenizer.name} tokenizer makes {len(row)} tokens of {len(own)} words; each node has "
                "one: take the whitespace tokenizer, and words without white space"
            )
        tokens = np.full(len(nodes), -1, np.int64)
        tokens[[word is not None for word in nodes]] = row
        found.append(tokens)
    return found


class GraphArrays(NamedTuple):
    """A graph's nodes and edges. Legend: F numbers of a node.

    tokens: that of each node, -1 where it has none. numbers: those of each node, (N, F). types: for each edge, the
    index of its type among those that the network knows. units: the labelled nodes; a single, meaningless one where the
    whole graph is labelled.
    """

    tokens: Int64[ndarray, " nodes"]
    numbers: Float32[ndarray, "nodes F"]
    sources: Int64[ndarray, " edges"]
    targets: Int64[ndarray, " edges"]
    types: Int64[ndarray, " edges"]
    units: Int64[ndarray, " units"]


def edge_types(graphs: Sequence[Graph]) -> tuple[str, ...]:
    """Return all types of edges, sorted."""
    return tuple(sorted({edge.type for graph in graphs for edge in graph.edges}))


def encode_labelled_graphs(
    tokenizer: Tokenizer,
    graphs: Sequence[Graph],
    units: Sequence[Sequence[int]],
    places: Sequence[str],
    *,
    types: Sequence[str],
    numbers: int,
) -> list[GraphArrays]:
    """Encode graphs.

    units: the labelled nodes of each graph. places: file and line of each, for messages. types, numbers: the types of
    edges, and how many numbers of a node, that the network reads. Raises TextError where a graph has other types of
    edges or other numbers, or a word is no token by itself.
    """
    index = {name: i for i, name in enumerate(types)}
    rows = tokens_of_nodes(tokenizer, [graph.words for graph in graphs], places)
    found = []
    for graph, tokens, nodes, place in zip(graphs, rows, units, places, strict=True):
        if graph.numbers != numbers:
            raise TextError(f"{place}: the nodes of the graph hold {_held(graph.numbers)}; expected {_held(numbers)}")
        odd = next((edge.type for edge in graph.edges if edge.type not in index), None)
        if odd is not None:
            known = ", ".join(types) if types else "none"
            raise TextError(f"{place}: no graph in training had an edge of the type {odd!r}; known are {known}")
        edges = np.array([(source, target, index[name]) for source, target, name in graph.edges], np.int64)
        sources, targets, kinds = edges.reshape(-1, 3).T
        held = np.array(graph.nodes, np.float32) if numbers else np.empty((len(graph), 0), np.float32)
        found.append(GraphArrays(tokens, held, sources, targets, kinds, np.array(nodes, np.int64)))
    return found


def _held(numbers: int) -> str:
    return f"{numbers} numbers each" if numbers > 1 else "a number each" if numbers else "words"
