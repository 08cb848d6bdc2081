r"""Files of trees: brackets, CoNLL-U (.conllu), and JSON lines (.jsonl), perhaps compressed; bad ones are reported.

Brackets are those of the Penn Treebank and the Stanford Sentiment Treebank. A tree may go on over lines. A chain of
single nodes becomes one, with the upper label. -LRB- and \/ become ( and /.

(3 (2 A) (4 (3 lovely) (2 film)))        a label and a word, or a label and the nodes below it
(S (NP She) (VP (V sleeps)) .)           a word may stand without a label of its own
( (S ...))                               a node without a label around a tree is taken off

CoNLL-U has a word a line in ten columns, an empty line after each sentence. Of the columns, ID, FORM, UPOS and HEAD are
read; the label of a node is its UPOS, and that of a tree a comment `# label = ...`, where there is one. Lines of
several words in one token (8-9) and of empty nodes (8.1) are no nodes.

JSON lines    {"words": ["MAX", "2", "9"], "parents": [-1, 0, 0], "label": "9"}    or "labels", one for each node
Parquet       the same fields

In JSON and Parquet, a word or a label may be null, and so may the parent of the root.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from chainrule.errors import TextError
from chainrule.features.trees.structures.tree import LabelledTree, Tree, check_depth, labelled
from chainrule.text.corpus.plain_text import lines_of
from chainrule.text.corpus.reading import FORMATS, text_suffix
from chainrule.text.corpus.records import as_written, items_of, raise_error, read_field, read_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from chainrule.text.corpus.records import OnBad

_TOKEN = re.compile(r"[()]|[^ \t\r\n()]+")  # a leaf may have a no-break space, as "8 1\/2" in SST
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
    """Yield each tree, or in its place the error, after which reading continues with the next line that begins with a
    bracket.

    name: that of the file, for messages, which have line and column.
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
        first, still = open_nodes.stack[0], len(open_nodes.stack)
        yield TextError(
            f"{name}, line {first.line}, column {first.column}: this bracket is never closed; "
            f"{f'{still:,} brackets are' if still > 1 else 'it alone is'} open at the end of the file"
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
        """Return the tree that ends here, if one does. Raises TextError."""
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
        """Return the index of a node that ends here. Raises TextError where it is empty."""
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


def _unescaped(word: str) -> str:
    return _ESCAPED.get(word, word.replace("\\/", "/"))


_COLUMNS = 10
_NO_NODE = re.compile(r"\d+[-.]\d+")
_LABEL = re.compile(r"#\s*label\s*=\s*(\S(?:.*\S)?)")


def dependency_trees(lines: Iterable[str], name: str, unit: str) -> Iterator[PlacedTree | TextError]:
    """Yield each sentence, or the error in its place.

    unit: with "tree", only the root has a label, that of the comment.
    """
    rows: list[tuple[int, str]] = []
    for number, line in enumerate([*lines, ""], 1):
        if line.strip():
            rows.append((number, line.rstrip("\r\n")))
        elif rows:
            try:
                yield PlacedTree(_tree_of(rows, name, unit), rows[0][0])
            except TextError as error:
                yield error
            rows = []


def _tree_of(rows: list[tuple[int, str]], name: str, unit: str) -> Tree:
    """Return the tree of a sentence. Raises TextError."""
    words: list[str] = []
    tags: list[str] = []
    parents: list[int] = []
    whole = None
    for number, line in rows:
        place = f"{name}, line {number}"
        if line.startswith("#"):
            whole = found.group(1) if (found := _LABEL.match(line)) else whole
            continue
        columns = line.split("\t")
        if len(columns) != _COLUMNS:
            raise TextError(f"{place}: found {len(columns)} columns; CoNLL-U has {_COLUMNS}, separated by tabs")
        if _NO_NODE.fullmatch(columns[0]):
            continue
        if columns[0] != str(len(words) + 1):
            raise TextError(f"{place}: the ID is {columns[0]!r}; expected {len(words) + 1}")
        if not columns[6].isdecimal():
            raise TextError(f"{place}: the HEAD is {columns[6]!r}; expected the ID of a word, or 0 for the root")
        words.append(columns[1].replace(" ", "\u00a0"))
        tags.append(columns[3])
        parents.append(int(columns[6]) - 1)
    if not words:
        raise TextError(f"{name}, line {rows[0][0]}: there is no word in this sentence")
    labels: list[str | None] = [tag if unit == "node" else None for tag in tags]
    if unit == "tree" and -1 in parents:
        labels[parents.index(-1)] = whole
    try:
        return Tree(tuple(words), tuple(labels), tuple(parents))
    except TextError as error:
        raise TextError(f"{name}, lines {rows[0][0]} to {rows[-1][0]}: {error}") from None


Placed = TypeVar("Placed")
Read = TypeVar("Read")


def collect(
    structures: Iterable[Placed | TextError], read: Callable[[Placed], Read], on_bad: OnBad, missing: str
) -> list[Read]:
    """Return the results of `read` for all structures.

    on_bad: a callback that gets each error, of the file or of `read`, whose structure is left out. Raises TextError
    with the message `missing` where none is left.
    """
    kept = []
    for structure in structures:
        try:
            if isinstance(structure, TextError):
                raise structure
            kept.append(read(structure))
        except TextError as error:
            on_bad(error)
    if not kept:
        raise TextError(missing)
    return kept


UNITS = ("tree", "node")


def read_trees(name: str | os.PathLike[str], unit: str = "tree", on_bad: OnBad = raise_error) -> list[LabelledTree]:
    """Return the labelled trees of a file. unit: "tree" if the root of each has a label, "node" if some nodes have.

    on_bad: a callback that gets a TextError with file, line and, in brackets, column for each tree that cannot be read
    or has no label, which is left out. Raises TextError where there is no tree.

    good:  chainrule.read_trees("train.txt.gz", "node")
    """
    name = os.fspath(name)
    return collect(
        trees_of(name, unit, on_bad),
        lambda placed: labelled(_checked(placed, name), unit, f"{name}, line {placed.line}"),
        on_bad,
        f"{name}: there is no labelled tree in it; at least one is needed",
    )


def read_unlabelled(name: str | os.PathLike[str]) -> list[Tree]:
    """Return the trees of a file, whether they have labels or not. Raises TextError, also where there is no tree."""
    name = os.fspath(name)
    missing = f"{name}: there is no tree in it; at least one is needed"
    return collect(
        trees_of(name, "unlabelled", raise_error), lambda placed: _checked(placed, name), raise_error, missing
    )


def _checked(placed: PlacedTree, name: str) -> Tree:
    """Return the tree. Raises TextError where the tree is too deep."""
    return check_depth(placed.tree, f"{name}, line {placed.line}")


def trees_of(name: str, unit: str, on_bad: OnBad) -> Iterator[PlacedTree | TextError]:
    """Yield each tree of a file, or the error in its place.

    unit: as for `read_trees`; with any other value, labels may be missing.
    """
    if FORMATS.get(text_suffix(name)) in ("json", "parquet"):
        yield from items_of(
            read_records(name, on_bad),
            lambda record: PlacedTree(tree_of_record(record.fields, unit, record.location), record.number),
            on_bad,
        )
    elif ".conllu" in os.path.basename(name):
        yield from dependency_trees(lines_of(name), name, unit)
    else:
        yield from trees_in_brackets(lines_of(name), name)


def tree_of_record(record: Mapping[str, Any], unit: str, place: str) -> Tree:
    """Return a tree from an object of JSON. unit: what must have labels: tree, node, or unlabelled. Raises
    TextError.
    """
    words, parents = read_field(record, "words", place), read_field(record, "parents", place)
    if not isinstance(words, list) or not isinstance(parents, list) or len(words) != len(parents):
        raise TextError(f"{place}: expected words and parents, a list each, of equal lengths")
    if not all(word is None or isinstance(word, str) for word in words):
        raise TextError(f"{place}: a word is not a string; expected strings, or null where a node has none")
    parents = [as_written(parent) for parent in parents]
    if not all(parent is None or type(parent) is int for parent in parents):
        raise TextError(f"{place}: a parent is not a whole number; expected the index of a node, or -1 for the root")
    heads = tuple(-1 if parent is None else parent for parent in parents)
    labels: list[Any] = [None] * len(words)
    if unit == "node" or "labels" in record:
        labels = read_field(record, "labels", place)
        if not isinstance(labels, list) or len(labels) != len(words):
            raise TextError(f"{place}: expected labels, a list of {len(words)}, one for each node or null")
    elif unit == "tree" and -1 in heads:
        labels[heads.index(-1)] = read_field(record, "label", place)
    labels = [str(label) if type(label := as_written(own)) is int else label for own in labels]
    if not all(label is None or (isinstance(label, str) and label.strip()) for label in labels):
        raise TextError(f"{place}: a label is not a string; expected strings that are not empty, or null")
    try:
        return Tree(tuple(words), tuple(labels), heads)
    except TextError as error:
        raise TextError(f"{place}: {error}") from None
