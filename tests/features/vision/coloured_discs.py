"""Pictures of a coloured disc at one side, with captions: what captioners and their encoders are tested on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw

import chainrule
from chainrule.features.vision.network.config import ResNetLabelling

if TYPE_CHECKING:
    from pathlib import Path

NETWORK = ResNetLabelling(size=(12, 24), width=4, blocks=(1, 1))
SMALL = chainrule.CaptionConfig(width=16, dropout=0.0)
QUICK = chainrule.TrainingConfig(steps=3, batch=8, compile="no", precision="float32")
COLOURS = {"red": (200, 30, 30), "blue": (30, 60, 200)}
SCENES = [(colour, side) for colour in COLOURS for side in ("left", "right")]


def scene(colour: str, side: str) -> np.ndarray:
    """A disc on the left or right half of a white picture."""
    picture = Image.new("RGB", (24, 12), "white")
    left = 2 if side == "left" else 14
    ImageDraw.Draw(picture).ellipse((left, 2, left + 8, 10), fill=COLOURS[colour])
    return np.asarray(picture)


def write_scenes(folder: Path) -> None:
    """Writes captions.jsonl with 24 pictures, and a classifier of their colours, network/."""
    lines, labelled = [], []
    for i in range(24):
        colour, side = SCENES[i % 4]
        Image.fromarray(scene(colour, side)).save(folder / f"{i}.png")
        lines.append({"image": f"{i}.png", "captions": [f"a {colour} disc on the {side}", f"{side} : {colour}"]})
        labelled.append(chainrule.LabelledPicture(chainrule.as_picture(scene(colour, side)), (colour,)))
    (folder / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    learning = chainrule.ClassifierTrainingConfig(epochs=1)
    chainrule.train_classifier(labelled, NETWORK, training=learning, progress=False).save(folder / "network")


def texts(written: list[list[chainrule.Caption]]) -> list[list[str]]:
    """The captions of each picture, best first."""
    return [[caption.text for caption in several] for several in written]
