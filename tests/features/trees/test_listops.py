"""ListOps: values by hand and by evaluation of what is written."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "bench"))

from listops import OPERATORS, as_binary, as_tokens, listops


def evaluated(tokens: list[str]) -> int:
    """An expression as it is written, token by token, with a stack."""
    stack: list[list[object]] = [[]]
    for token in tokens:
        if token.startswith("["):
            stack.append([token[1:]])
        elif token == "]":
            operator, *values = stack.pop()
            numbers = [int(str(value)) for value in values]
            known = {"MAX": max, "MIN": min, "SM": lambda v: sum(v) % 10, "MED": lambda v: int(statistics.median(v))}
            stack[-1].append(known[str(operator)](numbers))
        else:
            stack[-1].append(int(token))
    [[value]] = stack
    return int(str(value))


def test_operators() -> None:
    values = [9, 4, 7, 0]
    assert [OPERATORS[name](values) for name in ("MAX", "MIN", "MED", "SM")] == [9, 0, 5, 0]


def test_an_expression_has_its_value_as_label() -> None:
    examples = listops(200, 3, depth=6)
    for example in examples:
        assert example.labels == (str(evaluated(as_tokens(example.input).split())),)
        assert int(example.input.depths.max()) <= 7
    assert len({as_tokens(example.input) for example in examples}) > 190
    assert [e.input for e in listops(5, 3, depth=6)] == [e.input for e in examples[:5]]


def test_argument_by_argument() -> None:
    """Each inner node reads one more argument; the one that has read all has the value of the expression."""
    for example in listops(50, 4, depth=6):
        tree = as_binary(example.input)
        assert tree.labels[tree.root] == example.labels[0]
        read: list[tuple[str, list[int]]] = []
        for node, children in enumerate(tree.children):  # children stand before their parents
            if not children:
                read.append((str(tree.words[node]), []))
                assert (tree.labels[node] is None) == (tree.words[node] in OPERATORS)
                continue
            (operator, values), (word, others) = (read[child] for child in children)
            values = [*values, OPERATORS[word](others) if others else int(word)]
            read.append((operator, values))
            assert tree.labels[node] in (None, str(OPERATORS[operator](values)))
        assert sum(label is not None for label in tree.labels) == len(example.input)
