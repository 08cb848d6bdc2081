"""Trees in brackets, as in the Penn Treebank and the Stanford Sentiment Treebank.

(3 (2 A) (4 (3 lovely) (2 film)))        a label and a word, or a label and the nodes below it
(S (NP She) (VP (V sleeps)) .)           a word may stand without a label of its own
( (S ...))                               a node without a label around a tree is taken off

A tree may go on over lines. A chain of single nodes becomes one, with the upper label. -LRB- and \\/ become ( and /.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from chainrule.errors import TextError
from chainrule.structures.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_TOKEN = re.compile(r"[()]|[^\s()]+")
_ESCAPED = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
}
ESCAPES = {sign: name for name, sign in _ESCAPED.items()}


class PlacedTree(NamedTuple):
    """A tree and the number of the line on which it begins."""

    tree: Tree
    line: int


def trees_in_brackets(lines: Iterable[str], name: str = "the given lines") -> Iterator[PlacedTree | TextError]:
    """Each tree, or the error in its place, after which reading goes on with the next line that begins with a bracket.

    name: of the file, for messages, which have line and column.
    """
    open_nodes = _OpenNodes(name)
    is_lost = False
    for number, line in enumerate(lines, 1):
        if is_lost and not line.startswith("("):
            continue
        is_lost = False
        for found in _TOKEN.finditer(line):
            try:
                tree = open_nodes.read(found.group(), number, found.start() + 1)
            except TextError as error:
                yield error
                open_nodes, is_lost = _OpenNodes(name), True
                break
            if tree is not None:
                yield tree
    if open_nodes.stack:
        first = open_nodes.stack[0]
        yield TextError(
            f"{name}, line {first.line}, column {first.column}: this bracket is never closed; {len(open_nodes.stack)} "
            "are open at the end of the file"
        )


@dataclass
class _Node:
    """A node whose bracket is open. first: its label, or its only word. below: the nodes in it."""

    line: int
    column: int
    first: str | None = None
    below: list[int] = field(default_factory=list)


class _OpenNodes:
    """The brackets that are open, and the nodes that are complete, in their order."""

    def __init__(self, name: str) -> None:
        self.name, self.stack = name, list[_Node]()
        self._clear()

    def _clear(self) -> None:
        self.words: list[str | None] = []
        self.labels: list[str | None] = []
        self.parents: list[int] = []

    def read(self, token: str, line: int, column: int) -> PlacedTree | None:
        """The tree that ends here, if one does. Raises TextError."""
        if token == "(":
            self.stack.append(_Node(line, column))
            return None
        place = f"{self.name}, line {line}, column {column}"
        if not self.stack:
            what = "a bracket is closed that was never opened" if token == ")" else f"found {token!r} outside brackets"
            raise TextError(f"{place}: {what}; expected ( and a tree")
        if token != ")":
            around = self.stack[-1]
            if around.first is None and not around.below:
                around.first = token
            else:  # a word without a label of its own
                around.below.append(self._add(_unescaped(token), None))
            return None
        done = self.stack.pop()
        node = self._complete(done, place)
        if self.stack:
            self.stack[-1].below.append(node)
            return None
        tree = Tree(tuple(self.words), tuple(self.labels), tuple(self.parents))
        first = done.line
        self._clear()
        return PlacedTree(tree, first)

    def _add(self, word: str | None, label: str | None) -> int:
        self.words.append(word)
        self.labels.append(label)
        self.parents.append(-1)
        return len(self.words) - 1

    def _complete(self, node: _Node, place: str) -> int:
        """The index of a node that ends here. Raises TextError where it is empty."""
        if not node.below:
            if node.first is None:
                raise TextError(f"{place}: an empty bracket; expected (LABEL word) or (LABEL (...) ...)")
            return self._add(_unescaped(node.first), None)
        if len(node.below) == 1:  # a word with its label, a chain of single nodes, or a bracket around a tree
            [only] = node.below
            self.labels[only] = self.labels[only] if node.first is None else node.first
            return only
        whole = self._add(None, node.first)
        for child in node.below:
            self.parents[child] = whole
        return whole


def in_brackets(tree: Tree) -> str:
    """A tree on one line, as `trees_in_brackets` reads it; of constituents, with words at leaves alone."""
    pieces: list[str] = []
    todo: list[int | str] = [tree.root]
    while todo:
        here = todo.pop()
        if isinstance(here, str):
            pieces.append(here)
            continue
        label, children, word = tree.labels[here], tree.children[here], tree.words[here]
        if not children:
            pieces.append(_escaped(word or "") if label is None else f"({label} {_escaped(word or '')})")
            continue
        pieces.append(f"({label or ''}")
        todo.append(")")
        todo += reversed(children)
    return re.sub(r" \)", ")", " ".join(pieces))


def _unescaped(word: str) -> str:
    return _ESCAPED.get(word, word.replace("\\/", "/"))


def _escaped(word: str) -> str:
    return ESCAPES.get(word, word.replace("/", "\\/"))
