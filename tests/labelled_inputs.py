"""Labelled inputs of every kind that networks learn, and a small network for each name in LABELLING.

A new network is one more line in INPUTS_OF, unless it reads inputs of a kind that is there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import TextError
from chainrule.features.classify.labelled.texts import Labelled
from chainrule.features.classify.network.config import LABELLING
from chainrule.features.trees.structures import graph
from chainrule.features.trees.structures.tree import labelled
from chainrule.features.trees.structures.tree_files import trees_in_brackets
from chainrule.features.vision.network.config import PictureLabelling
from chainrule.features.vision.pictures.picture import LabelledPicture, Picture
from chainrule.training.config import ClassifierTrainingConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.features.trees.structures.graph import LabelledGraph
    from chainrule.features.trees.structures.tree import LabelledTree
    from chainrule.models.model import Model

ANIMALS, FOODS = ("dog", "cat", "bird"), ("bread", "soup", "rice")
# Further settings of networks for pictures of 16 x 16 pixels.
SMALL_PICTURES: dict[str, dict[str, Any]] = {
    "lenet": {"hidden": (16,)},
    "alexnet": {"channels": (8, 8, 8, 8, 8), "hidden": (16,)},
    "vgg": {"channels": (8, 8, 8, 8, 8), "hidden": (16,), "size": (32,)},
    "googlenet": {"width": 16, "blocks": (1, 1, 1)},
    "resnet": {"width": 8, "blocks": (1, 1, 1)},
    "vit": {"layers": 1},
    "efficientnet": {"stages": 2},
}
QUICK = ClassifierTrainingConfig(epochs=6, batch=8, learning_rate=0.02)


def texts() -> list[Labelled]:
    """Of several lengths."""
    return [
        Labelled(f"{'so ' * (i % 3)}I saw the {thing} {when}", (label,), f"line {i}")
        for i in range(6)
        for label, things in (("animal", ANIMALS), ("food", FOODS))
        for thing in things
        for when in ("today", "again and again")
    ]


def trees() -> list[LabelledTree]:
    """A tree is what its deepest word is."""
    lines = [
        f"({label} {'(x (y so) ' * (i % 3)}(x (y the) (z {thing})){')' * (i % 3)} (y {when}))"
        for i in range(6)
        for label, things in (("animal", ANIMALS), ("food", FOODS))
        for thing in things
        for when in ("today", "again")
    ]
    placed = [found for found in trees_in_brackets(lines) if not isinstance(found, TextError)]
    return [labelled(found.tree, "tree", f"line {found.line}") for found in placed]


def graphs() -> list[LabelledGraph]:
    """Rings with a tail of two nodes: a graph is what the node two steps from its "start" is."""
    examples = []
    for i in range(72):
        thing = (ANIMALS + FOODS)[i % 6]
        ring = 3 + i % 4
        words = ("start", *("so",) * (ring - 1), "the", thing)
        edges = [(node, (node + 1) % ring, "ring") for node in range(ring)] + [
            (0, ring, "tail"),
            (ring, ring + 1, "tail"),
        ]
        label = "animal" if thing in ANIMALS else "food"
        examples.append(graph.labelled(graph.Graph(words, tuple(edges), label=label), "graph", f"line {i}"))
    return examples


def pictures() -> list[LabelledPicture]:
    """Noise in which the upper half, or the lower one, is bright; some of a size that must be changed."""
    random = np.random.default_rng(3)
    examples = []
    for i in range(60):
        side = (16, 16, 20)[i % 3]
        pixels = random.integers(0, 90, (side, side, 3), np.uint8)
        is_upper = i % 2 == 0
        pixels[: side // 2] += np.uint8(150 * is_upper)
        pixels[side // 2 :] += np.uint8(150 * (not is_upper))
        examples.append(LabelledPicture(Picture(pixels, f"picture {i}"), ("above" if is_upper else "below",)))
    return examples


# Labelled inputs of several sizes that a network of each kind can learn, by what it reads.
INPUTS_OF: dict[str, Callable[[], list[Any]]] = {"text": texts, "tree": trees, "graph": graphs, "picture": pictures}


def small(name: str) -> Any:
    config = LABELLING[name](width=16, dropout=0.0)
    if isinstance(config, PictureLabelling):
        return replace(config, **{"size": (16,), **SMALL_PICTURES.get(name, {})})
    return replace(config, embedding_width=12) if hasattr(config, "embedding_width") else config


def quick(name: str) -> ClassifierTrainingConfig:
    """Training in a second or two."""
    if not issubclass(LABELLING[name], PictureLabelling):
        return QUICK
    return replace(QUICK, learning_rate=0.01 if name == "vit" else 0.004, epochs=8)


def log_probs(model: Model, inputs: list[Any]) -> list[np.ndarray]:
    """Of the labels, for each input."""
    return [found.log_probs for found in model.classify(inputs)]
