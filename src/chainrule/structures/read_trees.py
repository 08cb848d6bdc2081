"""Files of trees: brackets, CoNLL-U (.conllu), and JSON lines (.jsonl), each perhaps compressed.

JSON lines    {"words": ["MAX", "2", "9"], "parents": [-1, 0, 0], "label": "9"}    or "labels", one for each node

In JSON, a word or a label may be null, and so may the parent of the root.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from chainrule.errors import TextError
from chainrule.structures.brackets import PlacedTree, trees_in_brackets
from chainrule.structures.collect import collect
from chainrule.structures.conllu import dependency_trees
from chainrule.structures.tree import LabelledTree, Tree, check_depth, labelled
from chainrule.text.plain_text import lines_of
from chainrule.text.reading import FORMATS, text_suffix
from chainrule.text.records import as_written, json_objects, raise_error, read_field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.text.records import OnBad

UNITS = ("tree", "node")


def read_trees(name: str | os.PathLike[str], unit: str = "tree", on_bad: OnBad = raise_error) -> list[LabelledTree]:
    """The labelled trees of a file. unit: tree: the root of each has a label; node: some nodes have.

    on_bad: called with a TextError that names file, line and, in brackets, column for each tree that cannot be read or
    has no label, which is left out. Raises TextError where there is no tree.

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
    """The trees of a file, whether they have labels or not. Raises TextError, also where there is no tree."""
    name = os.fspath(name)
    missing = f"{name}: there is no tree in it; at least one is needed"
    return collect(
        trees_of(name, "unlabelled", raise_error), lambda placed: _checked(placed, name), raise_error, missing
    )


def _checked(placed: PlacedTree, name: str) -> Tree:
    """Raises TextError where the tree is too deep."""
    return check_depth(placed.tree, f"{name}, line {placed.line}")


def trees_of(name: str, unit: str, on_bad: OnBad) -> Iterator[PlacedTree | TextError]:
    """Each tree of a file, or the error in its place. unit: as of `read_trees`, or another: labels may be missing."""
    if FORMATS.get(text_suffix(name)) == "json":
        for place, record in json_objects(name, on_bad):
            try:
                yield PlacedTree(tree_of_record(record, unit, place), int(place.rpartition(" ")[2]))
            except TextError as error:
                yield error
    elif ".conllu" in os.path.basename(name):
        yield from dependency_trees(lines_of(name), name, unit)
    else:
        yield from trees_in_brackets(lines_of(name), name)


def tree_of_record(record: dict[str, Any], unit: str, place: str) -> Tree:
    """A tree from an object of JSON. unit: what must have labels: tree, node, or unlabelled. Raises TextError."""
    words, parents = read_field(record, "words", place), read_field(record, "parents", place)
    if not isinstance(words, list) or not isinstance(parents, list) or len(words) != len(parents):
        raise TextError(f"{place}: expected words and parents, a list each, of equal lengths")
    if not all(word is None or isinstance(word, str) for word in words):
        raise TextError(f"{place}: a word is no string; expected strings, or null where a node has none")
    parents = [as_written(parent) for parent in parents]
    if not all(parent is None or type(parent) is int for parent in parents):
        raise TextError(f"{place}: a parent is no whole number; expected the index of a node, or -1 for the root")
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
        raise TextError(f"{place}: a label is no string; expected strings that are not empty, or null")
    try:
        return Tree(tuple(words), tuple(labels), heads)
    except TextError as error:
        raise TextError(f"{place}: {error}") from None
