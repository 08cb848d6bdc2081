"""Labelled graphs: what a network of them must know of the training set, what it reads, and what is predicted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import TextError
from chainrule.structures.arrays import edge_types, encoded_graphs
from chainrule.structures.graph import LabelledGraph
from chainrule.structures.graph import labelled as labelled_graphs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chainrule.structures.arrays import GraphArrays
    from chainrule.structures.graph import Graph
    from chainrule.text.tokenization.tokenizer import Tokenizer


def check_graphs(examples: Iterable[Any], unit: str) -> list[LabelledGraph]:
    """Checks labelled graphs given from Python. Raises TypeError; TextError, also where words and numbers are mixed."""
    examples = list(examples)
    odd = next((each for each in examples if not isinstance(each, LabelledGraph)), None)
    if odd is not None:
        raise TypeError(f"this takes labelled graphs, as read_graphs gives them; found {odd!r}")
    if not examples:
        raise TextError("there are no labelled graphs; at least one is needed")
    first = examples[0]
    other = next((each for each in examples if each.input.numbers != first.input.numbers), None)
    if other is not None:
        raise TextError(
            f"{other.place}: nodes hold {other.input.numbers or 'no'} numbers each, and in {first.place} "
            f"{first.input.numbers or 'none'}; expected words in all graphs, or as many numbers"
        )
    return [labelled_graphs(each.input, unit, each.place) for each in examples]


def settle(network: Any, graphs: Sequence[Graph]) -> Any:
    """The settings of a network with what training graphs decide: types of edges, and how numbers are standardised."""
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
    """What a network reads of labelled graphs. Raises TextError."""
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
    """What a network reads of graphs, and for people the graphs, or all of their nodes. Raises TextError."""
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
    return encoded_graphs(tokenizer, graphs, units, places, types=network.edge_types, numbers=len(network.means))
