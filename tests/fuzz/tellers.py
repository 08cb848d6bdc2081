"""Tiny models that caption pictures, to be broken: of proposed regions, of given ones, and of a grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import chainrule
from chainrule.features.vision.network.config import ResNetLabelling

if TYPE_CHECKING:
    from pathlib import Path

BOXES = [[4.0, 4.0, 12.0, 12.0], [20.0, 4.0, 28.0, 12.0]]
PHRASES = ("a red square", "a blue square")


def scene() -> chainrule.CaptionedPicture:
    """Two squares on white, with a paragraph, and a phrase for each."""
    pixels = np.full((16, 32, 3), 255, np.uint8)
    pixels[4:12, 4:12], pixels[4:12, 20:28] = (220, 20, 20), (20, 20, 220)
    boxes = chainrule.BoxLabels(BOXES, PHRASES)
    return chainrule.CaptionedPicture(chainrule.as_picture(pixels), ("left red . right blue .",), boxes=boxes)


def tellers(folder: Path) -> list[Path]:
    """The folders of three models in a folder of their own, by which the victim knows them."""
    scenes = [scene()] * 8
    network = ResNetLabelling(size=(16, 32), width=4, blocks=(1, 1))
    labels = chainrule.BoxLabels(BOXES, ["square"] * len(BOXES))
    boxed = [chainrule.LabelledPicture(item.picture, labels) for item in scenes]
    learning = chainrule.ClassifierTrainingConfig(epochs=1, batch=8)
    detector = chainrule.train_classifier(boxed, network, unit="box", training=learning, progress=False)
    with torch.no_grad():
        detector.classifier.head[2].bias[0] = 3.0  # so that it proposes boxes
    config = chainrule.CaptionConfig(width=8, decoder="hierarchical")
    training = chainrule.TrainingConfig(steps=1, batch=8, compile="no", precision="float32", valid_share=0)
    kinds: dict[str, dict[str, Any]] = {
        "proposed": {"regions": "proposed", "phrases": True},
        "given": {"regions": "given"},
        "grid": {},
    }
    for name, options in kinds.items():
        model = chainrule.train_captions(scenes, config, encoder=detector, training=training, progress=False, **options)
        model.save(folder / name)
    return [folder / name for name in kinds]
