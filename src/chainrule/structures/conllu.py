"""Dependency trees in CoNLL-U: a word a line in ten columns, an empty line after each sentence.

Of the columns, ID, FORM, UPOS and HEAD are read; the label of a node is its UPOS, and that of a tree a comment
`# label = ...`, where there is one. Lines of several words in one token (8-9) and of empty nodes (8.1) are no nodes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from chainrule.errors import TextError
from chainrule.structures.brackets import PlacedTree
from chainrule.structures.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_COLUMNS = 10
_NO_NODE = re.compile(r"\d+[-.]\d+")
_LABEL = re.compile(r"#\s*label\s*=\s*(\S+)")


def dependency_trees(lines: Iterable[str], name: str, unit: str) -> Iterator[PlacedTree | TextError]:
    """Each sentence, or the error in its place. unit: tree: only the root has a label, that of the comment."""
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
    """Raises TextError."""
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
