"""Trees with what a network makes of them: the labels and gates of a classifier, the bits of a language model."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.files import check_new_file, replace_file
from chainrule.base.tables import count_of
from chainrule.errors import SettingError, TextError
from chainrule.features.classify.model import ClassifierModel
from chainrule.features.trees.structures.arrays import encode_nodes
from chainrule.features.trees.structures.linearized import tree_text, tree_tokens
from chainrule.features.trees.structures.tree_files import read_unlabelled, trees_in_brackets
from chainrule.features.trees.tree_page import DrawnNode, TreeDrawing, trees_page, trees_svg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.features.trees.structures.tree import Tree
    from chainrule.models.model import Model

MOST = 20  # trees
_DRAWN = {".html": trees_page, ".svg": trees_svg}
_LABELS = (
    "label and probability at each node, grey where the tree has another label; the wider a line, the more of the "
    "node's memory its parent keeps"
)
_BITS = "bits at each node: its word and the brackets around its children; green: below the mean of the tree"


@dataclass(frozen=True)
class TreeDrawings:
    """Drawings of trees. heading: what they show."""

    heading: str
    legend: str
    drawings: Sequence[TreeDrawing]

    @property
    def contents(self) -> str:
        """What there is, in words."""
        return count_of(len(self.drawings), "tree")

    def __repr__(self) -> str:
        return f"<TreeDrawings: {len(self.drawings)} trees>"

    def _repr_html_(self) -> str:
        return trees_svg(self.heading, self.drawings, self.legend)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a self-contained page, .html, or a picture, .svg. Raises OutputError, SettingError."""
        target = Path(path)
        draw = _DRAWN.get(target.suffix.lower())
        if draw is None:
            raise SettingError(f"{path}: the name of a page or a picture must end in {' or '.join(_DRAWN)}")
        check_new_file(target, overwrite=overwrite)
        with replace_file(target) as file:
            file.write(draw(self.heading, self.drawings, self.legend).encode())


def reads_trees(model: Model) -> bool:
    """Return whether a model labels trees, or is a language model of trees."""
    if isinstance(model, ClassifierModel):
        return getattr(model.classifier, "reads", "text") == "tree" and model.classifier.unit in ("tree", "node")
    return model.family == "tree"


def attend_tree(model: Model, tree: str, target: str | None) -> TreeDrawings:
    """Return the drawings of `draw_trees`, for `chainrule attend`. Raises SettingError also where a target is given."""
    if target is not None:
        raise SettingError(f"reads one tree; leave out the target, {target!r}")
    if not reads_trees(model):
        raise SettingError("labels no trees, so there is nothing to draw; expected a classifier of trees")
    return draw_trees(model, tree)


def draw_trees(model: Model, trees: str | Sequence[Tree]) -> TreeDrawings:
    """Draw trees with what a model makes of each node.

    trees: a tree in brackets, a file of trees, of which the first 20 are drawn, or trees. Raises SettingError where the
    model reads no trees; TextError.

    good:  chainrule.draw_trees(model, "(S (NP She) (VP sleeps))").save("tree.svg")
    """
    if not reads_trees(model):
        raise SettingError(f"a model of family {model.family!r} reads no trees; expected one that does")
    given = _trees(trees) if isinstance(trees, str) else list(trees)[:MOST]
    draw = _labelled if model.family == "classifier" else _costed
    heading = trees if isinstance(trees, str) and os.path.exists(trees) else given[0].text() or "a tree"
    legend = _LABELS if model.family == "classifier" else _BITS
    return TreeDrawings(heading, legend, [draw(model, tree) for tree in given])


def _trees(text: str) -> list[Tree]:
    """Return the trees of a file, or those in the text. Raises TextError."""
    if os.path.exists(text):
        return read_unlabelled(text)[:MOST]
    trees = list(trees_in_brackets(text.splitlines(), "the tree"))
    if not trees:
        raise TextError(f"{text!r} is neither a file nor a tree in brackets, such as (S (NP She) (VP sleeps))")
    for tree in trees:
        if isinstance(tree, TextError):
            raise tree
    return [tree.tree for tree in trees if not isinstance(tree, TextError)][:MOST]


def _labelled(model: Model, tree: Tree) -> TreeDrawing:
    """Return the likeliest label of each node."""
    classifier: Any = model.engine
    config = classifier.config
    [own] = encode_nodes(
        model.tokenizer, [tree], [range(len(tree))], ["the tree"], config.binarise, config.most_children
    )
    [log_probs] = classifier.log_probs([own])
    gates = classifier.body.forget_gates(own)
    nodes = []
    for i, row in enumerate(log_probs.tolist()):
        best = int(np.argmax(row))
        shown = ", ".join(f"{name} {math.exp(value):.2f}" for name, value in zip(classifier.labels, row, strict=True))
        strength = None if gates is None or tree.parents[i] < 0 else float(gates[i])
        kept = "" if strength is None else f"; forget gate {strength:.2f}"
        wrong = tree.labels[i] is not None and tree.labels[i] != classifier.labels[best]
        nodes.append(
            DrawnNode(
                note=f"{classifier.labels[best]} {math.exp(row[best]):.2f}",
                hint=shown + kept,
                kind="pruned" if wrong else "kept",
                strength=strength,
            )
        )
    return TreeDrawing(tree=tree, nodes=nodes)


def _costed(model: Model, tree: Tree) -> TreeDrawing:
    """Return the bits of each node: of its word or label, and of the marks that belong to it."""
    tokens = tree_tokens(tree)
    ids = model.tokenizer.encode_texts([tree_text(tree)]).ids[:-1]
    [log_probs] = model.language_model.score([ids], end=False)
    bits = (-log_probs / math.log(2)).tolist()
    words, marks = [0.0] * len(tree), [0.0] * len(tree)
    for token, cost in zip(tokens, bits, strict=True):
        (words if token.is_word else marks)[token.node] += cost
    nodes = [
        DrawnNode(
            note=f"{word + mark:.1f} bits",
            hint=f"word {word:.2f} bits, brackets {mark:.2f} bits",
            kind="finished" if word + mark < sum(bits) / len(tree) else "kept",
        )
        for word, mark in zip(words, marks, strict=True)
    ]
    return TreeDrawing(tree=tree, nodes=nodes, about=f"{sum(bits):.1f} bits, {sum(bits) / len(tree):.2f} a node")
