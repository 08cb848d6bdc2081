"""Scenes of NLVR, and sentences made from their objects."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from chainrule import CaptionedPicture, Picture

if TYPE_CHECKING:
    from pathlib import Path

BOXES = {"left": 0, "middle": 150, "right": 300}  # where the boxes of a scene begin, in pixels
BOX = 100


def read_scenes(
    folder: Path, part: str, count: int, captions: str
) -> list[tuple[CaptionedPicture, list[dict[str, Any]]]]:
    """Scenes with their objects; a true sentence of people is the one caption, or one is made for each box."""
    with gzip.open(folder / f"{part}.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    records = [record for record in records if record["objects"] and (captions == "made" or record["label"])]
    chosen = [records[i * len(records) // count] for i in range(min(count, len(records)))]
    read = []
    with zipfile.ZipFile(folder / f"{part}.zip") as archive:
        for record in chosen:
            picture = Image.open(io.BytesIO(archive.read(record["picture"]))).convert("RGB")
            texts = made_captions(record["objects"]) if captions == "made" else (record["sentence"].lower(),)
            read.append((CaptionedPicture(Picture(np.asarray(picture)), texts), record["objects"]))
    return read


def made_captions(objects: list[dict[str, Any]]) -> tuple[str, ...]:
    """A sentence for each box that is not empty, of its largest object; of several, the highest, and the leftmost."""
    largest: dict[str, dict[str, Any]] = {}
    for one in sorted(objects, key=lambda one: (-one["size"], one["y"], one["x"])):
        largest.setdefault(name_of_box(one), one)
    return tuple(f"there is a {kind_of(one)} in the {box} box" for box, one in sorted(largest.items()))


def name_of_box(thing: dict[str, Any]) -> str:
    return list(BOXES)[thing["box"]]


def kind_of(thing: dict[str, Any]) -> str:
    return f"{thing['colour']} {thing['shape']}"


def mentioned(text: str, objects: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """The objects that a made sentence may mean; None where it is no such sentence."""
    words = text.split()
    if len(words) != 9 or words[:3] != ["there", "is", "a"] or words[5:7] != ["in", "the"] or words[8] != "box":
        return None
    return [one for one in objects if [one["colour"], one["shape"], name_of_box(one)] == [words[3], words[4], words[7]]]
