"""Graphs: reading JSON and trees, what is wrong with a file, and where; what a network reads of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule
from chainrule.errors import TextError
from chainrule.features.trees.structures.arrays import encode_labelled_graphs
from chainrule.features.trees.structures.graph import Edge, Graph, graph_of_tree
from chainrule.features.trees.structures.graph_files import read_unlabelled_graphs
from chainrule.features.trees.structures.tree import Tree
from chainrule.text.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pathlib import Path

GOOD = '{"nodes": ["start", null, "end"], "edges": [[0, 1, "road"], [1, 2]], "label": "far"}'
SENTENCE = """\
# label = news
1\tShe\tshe\tPRON\t_\t_\t2\tnsubj\t_\t_
2\tsleeps\tsleep\tVERB\t_\t_\t0\troot\t_\t_
3\twell\twell\tADV\t_\t_\t2\tadvmod\t_\t_

"""


def test_graphs_as_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(GOOD + '\n{"nodes": [[0.5, 1], [2, 3]], "edges": [[1, 0]], "label": 2, "labels": [null, 7]}\n')
    words, numbers = chainrule.read_graphs(file)
    assert words.input == Graph(("start", None, "end"), (Edge(0, 1, "road"), Edge(1, 2, "edge")), label="far")
    assert (words.labels, numbers.labels) == (("far",), ("2",))
    assert numbers.input.nodes == ((0.5, 1.0), (2.0, 3.0))
    assert numbers.input.numbers == 2
    errors: list[TextError] = []
    [of_nodes] = chainrule.read_graphs(file, "node", errors.append)
    assert of_nodes.labels == ("7",)
    assert "line 1: there is no field 'labels'" in str(errors[0])
    assert [str(graph) for graph in read_unlabelled_graphs(file)] == [str(words.input), str(numbers.input)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"nodes": [], "label": "x"}', "line 2: a graph has no nodes"),
        ('{"nodes": "a b", "label": "x"}', "line 2: nodes is 'a b'; expected a list"),
        ('{"edges": [], "label": "x"}', "line 2: there is no field 'nodes'"),
        ('{"nodes": ["a"], "edges": [[0, 1]], "label": "x"}', "line 2: edge 1 of a graph names node 1, and there"),
        ('{"nodes": ["a"], "edges": [[0, -1]], "label": "x"}', "line 2: edge 1 of a graph names node -1"),
        ('{"nodes": ["a"], "edges": [[0, 0.5]], "label": "x"}', "line 2: edge 1 is [0, 0.5]; expected [source,"),
        ('{"nodes": ["a"], "edges": [[0, 0, 3]], "label": "x"}', "line 2: edge 1 is [0, 0, 3]; expected"),
        ('{"nodes": ["a"], "edges": [[0]], "label": "x"}', "line 2: edge 1 is [0]"),
        ('{"nodes": ["a", [1]], "label": "x"}', "line 2: node 1 of a graph is (1,), and others hold words"),
        ('{"nodes": [[1], "a"], "label": "x"}', "line 2: node 1 of a graph is 'a'; expected 1 or more numbers"),
        ('{"nodes": [[1, 2], [1]], "label": "x"}', "line 2: node 1 of a graph is (1,); expected 2 or more numbers"),
        ('{"nodes": [[1, NaN]], "label": "x"}', "line 2: node 0 of a graph is (1, nan); expected finite numbers"),
        ('{"nodes": [[1, true]], "label": "x"}', "line 2: node 0 of a graph is (1, True); expected finite"),
        ('{"nodes": ["a"], "labels": ["x", "y"], "label": "x"}', "line 2: a graph has 1 nodes and 2 labels"),
        ('{"nodes": ["a"]}', "line 2: there is no field 'label'"),
        ('{"nodes": ["a"], "label": null}', "line 2: the graph has no label"),
        ('{"nodes": ["a"], "label": [1]}', "line 2: a label is [1]; expected a string"),
        ('{"nodes": ["a"], "labe', "line 2: is not JSON"),
        ("[]", "line 2: found a list, expected a JSON object"),
    ],
)  # fmt: skip
def test_an_error_names_file_line_and_cause(line: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(f"{GOOD}\n{line}\n{GOOD}\n")
    errors: list[TextError] = []
    assert len(chainrule.read_graphs(file, "graph", errors.append)) == 2
    [error] = errors
    assert str(error).startswith(f"{file}, {message}")
    with pytest.raises(TextError):
        chainrule.read_graphs(file)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text("ab \n", max_size=2),
    lambda inside: st.lists(inside, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.sampled_from(["nodes", "edges", "labels", "label"]))
def test_any_value_in_any_field_gives_a_graph_or_an_error_that_names_the_line(
    tmp_path_factory: pytest.TempPathFactory, value: object, field: str
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.jsonl"
    file.write_text(json.dumps({**json.loads(GOOD), field: value}))
    for unit in ("graph", "node"):
        errors: list[TextError] = []
        try:
            assert chainrule.read_graphs(file, unit, errors.append)
        except TextError as error:
            errors.append(error)
        assert all(str(error).startswith(str(file)) for error in errors)


def test_a_tree_as_a_graph(tmp_path: Path) -> None:
    """Edges go from heads to their dependents, and from each word to the next."""
    file = tmp_path / "a.conllu"
    file.write_text(SENTENCE)
    [of_nodes], [whole] = chainrule.read_graphs(file, "node"), chainrule.read_graphs(file)
    assert of_nodes.input.nodes == ("She", "sleeps", "well")
    assert of_nodes.labels == ("PRON", "VERB", "ADV")
    assert set(of_nodes.input.edges) == {(1, 0, "child"), (1, 2, "child"), (0, 1, "next"), (1, 2, "next")}
    assert whole.labels == ("news",)
    brackets = graph_of_tree(Tree(("a", "dog", None), (None, None, "NP"), (2, 2, -1)))
    assert set(brackets.edges) == {(2, 0, "child"), (2, 1, "child"), (0, 1, "next")}
    assert brackets.label == "NP"
    file.write_text(SENTENCE.replace("\t2\tadvmod", "\t9\tadvmod"))
    with pytest.raises(TextError, match="node 3 of a tree has the parent 9"):
        chainrule.read_graphs(file)


def test_what_a_network_reads() -> None:
    tokenizer = Tokenizer.untrained("whitespace")
    tokenizer.encode(np.frombuffer(b"b c a\n", np.uint8).copy(), grow=True)
    ids = [tokenizer.vocabulary.id_of(word) for word in "abc"]
    graph = Graph(("a", None, "c"), (Edge(2, 0, "y"), Edge(0, 1, "x")))
    [found] = encode_labelled_graphs(tokenizer, [graph], [[1, 2]], ["here"], types=["x", "y"], numbers=0)
    assert found.tokens.tolist() == [ids[0], -1, ids[2]]
    assert (found.sources.tolist(), found.targets.tolist(), found.types.tolist()) == ([2, 0], [0, 1], [1, 0])
    assert found.numbers.shape == (3, 0)
    with pytest.raises(TextError, match="here: no graph in training had an edge of the type 'y'; known are x"):
        encode_labelled_graphs(tokenizer, [graph], [[1]], ["here"], types=["x"], numbers=0)
    with pytest.raises(TextError, match="here: the nodes of the graph hold words; expected 2 numbers each"):
        encode_labelled_graphs(tokenizer, [graph], [[1]], ["here"], types=["x", "y"], numbers=2)
    with pytest.raises(TextError, match="here: the whitespace tokenizer makes 2 tokens of 1 words"):
        encode_labelled_graphs(tokenizer, [Graph(("a b",))], [[0]], ["here"], types=[], numbers=0)
