"""Trees and graphs as inputs of classifiers: how they are read, checked, encoded and shown; trees also in pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.arguments import as_examples, as_instances
from chainrule.errors import TextError
from chainrule.features.classify.inputs import InputKind
from chainrule.features.classify.labelled.pairs import SideKind
from chainrule.features.trees.structures.arrays import edge_types, encode_labelled_graphs, encode_nodes, encode_trees
from chainrule.features.trees.structures.graph import UNITS as GRAPH_UNITS
from chainrule.features.trees.structures.graph import Graph, LabelledGraph
from chainrule.features.trees.structures.graph import labelled as labelled_graphs
from chainrule.features.trees.structures.graph_files import read_graphs, read_unlabelled_graphs
from chainrule.features.trees.structures.tree import LabelledTree, Tree
from chainrule.features.trees.structures.tree import labelled as labelled_trees
from chainrule.features.trees.structures.tree_files import (
    UNITS,
    read_trees,
    read_unlabelled,
    tree_of_record,
    trees_in_brackets,
)
from chainrule.kinds import Lazy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chainrule.features.classify.inputs import Presented
    from chainrule.features.trees.structures.arrays import GraphArrays
    from chainrule.text.tokenization.tokenizer import Tokenizer


def _check_trees(examples: Iterable[Any], unit: str) -> list[LabelledTree]:
    examples = as_examples(examples, LabelledTree, "labelled trees", "read_trees")
    return [labelled_trees(each.input, unit, each.place) for each in examples]


def _present_trees(classifier: Any, tokenizer: Tokenizer, trees: Sequence[Tree]) -> Presented:
    nodes = [[tree.root] if classifier.unit == "tree" else list(range(len(tree))) for tree in trees]
    places, config = [f"tree {i}" for i in range(1, len(trees) + 1)], classifier.config
    inputs = encode_nodes(tokenizer, trees, nodes, places, config.binarise, config.most_children)
    shown = [[tree.text(node) for node in own] for tree, own in zip(trees, nodes, strict=True)]
    return list(inputs), shown


TREE = InputKind(
    units=UNITS,
    plural="trees",
    shown=Tree.text,
    network="tree",
    tokenizer="whitespace",
    read=lambda name, unit, config, on_bad, progress: read_trees(name, unit, on_bad),
    check=_check_trees,
    inputs=lambda name, config, progress: read_unlabelled(name),
    given=lambda inputs: as_instances(inputs, Tree, "trees"),
    texts=lambda trees: [tree.text() for tree in trees],
    encode=lambda tokenizer, examples, unit, config: encode_trees(
        tokenizer, examples, unit, config.binarise, config.most_children
    ),
    present=_present_trees,
)


def _read_side(value: Any, place: str) -> Tree:
    """Return a tree in brackets, or as an object of words and parents. Raises TextError."""
    if isinstance(value, dict):
        return tree_of_record(value, "unlabelled", place)
    trees = list(trees_in_brackets([value], place)) if isinstance(value, str) else []
    for tree in trees:
        if isinstance(tree, TextError):
            raise tree
        if len(trees) == 1:
            return tree.tree
    raise TextError(f"{place}: a side of the pair is {str(value)[:60]!r}; expected one tree, in brackets")


SIDE = SideKind(Tree, _read_side, lambda tree, place: LabelledTree(tree, (), place), Tree.text)


def check_graphs(examples: Iterable[Any], unit: str) -> list[LabelledGraph]:
    """Check labelled graphs given from Python. Raises TypeError; TextError, also where words and numbers are mixed."""
    examples = as_examples(examples, LabelledGraph, "labelled graphs", "read_graphs")
    first = examples[0]
    other = next((each for each in examples if each.input.numbers != first.input.numbers), None)
    if other is not None:
        raise TextError(
            f"{other.place}: nodes hold {other.input.numbers or 'no'} numbers each, and in {first.place} "
            f"{first.input.numbers or 'none'}; expected words in all graphs, or as many numbers"
        )
    return [labelled_graphs(each.input, unit, each.place) for each in examples]


def settle(network: Any, graphs: Sequence[Graph]) -> Any:
    """Return the settings of a network, completed from training graphs: types of edges, and how numbers are
    standardised.
    """
    network = replace(network, edge_types=edge_types(graphs))
    if not graphs[0].numbers:
        return network
    numbers = np.concatenate([np.array(graph.nodes, np.float64) for graph in graphs])
    deviations = numbers.std(0)
    deviations[deviations == 0] = 1  # the same everywhere
    return replace(network, means=tuple(numbers.mean(0).tolist()), deviations=tuple(deviations.tolist()))


def encode_graphs(
    tokenizer: Tokenizer, examples: Sequence[LabelledGraph], unit: str, network: Any
) -> list[GraphArrays]:
    """Return the arrays that a network reads for labelled graphs. Raises TextError."""
    units = [
        [0] if unit == "graph" else [i for i, label in enumerate(each.input.labels) if label is not None]
        for each in examples
    ]
    return _encode_graphs(
        network, tokenizer, [each.input for each in examples], units, [each.place for each in examples]
    )


def present_graphs(
    classifier: Any, tokenizer: Tokenizer, graphs: Sequence[Graph]
) -> tuple[list[GraphArrays], list[list[str]]]:
    """Return the arrays that a network reads for graphs; and, to show, the graphs or all of their nodes.

    Raises TextError.
    """
    is_whole = classifier.unit == "graph"
    units = [[0] if is_whole else list(range(len(graph))) for graph in graphs]
    places = [f"graph {i}" for i in range(1, len(graphs) + 1)]
    inputs = _encode_graphs(classifier.config, tokenizer, graphs, units, places)
    shown = [
        [graph.text() or place] if is_whole else [graph.shown(node) for node in range(len(graph))]
        for graph, place in zip(graphs, places, strict=True)
    ]
    return inputs, shown


def _encode_graphs(
    network: Any, tokenizer: Tokenizer, graphs: Sequence[Graph], units: Sequence[list[int]], places: Sequence[str]
) -> list[GraphArrays]:
    return encode_labelled_graphs(
        tokenizer, graphs, units, places, types=network.edge_types, numbers=len(network.means)
    )


GRAPH = InputKind(
    units=GRAPH_UNITS,
    plural="graphs",
    shown=Graph.text,
    network="graph",
    page=Lazy("chainrule.features.trees.graph_page:graphs_page"),
    tokenizer="whitespace",
    read=lambda name, unit, config, on_bad, progress: read_graphs(name, unit, on_bad),
    check=check_graphs,
    inputs=lambda name, config, progress: read_unlabelled_graphs(name),
    given=lambda inputs: as_instances(inputs, Graph, "graphs"),
    texts=lambda graphs: [text for graph in graphs if (text := graph.text())],
    encode=encode_graphs,
    present=present_graphs,
    settle=settle,
)
