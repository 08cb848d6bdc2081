"""Labels the pixels of NLVR's scenes by the shapes that are drawn there, as files for `train classifier --unit pixel`.

    python bench/nlvr_pixels.py IMAGES/nlvr OUT --train 600 --valid 200

IMAGES/nlvr has {train,valid}.zip with the pictures and {train,valid}.jsonl.gz with their objects. Writes pictures,
pictures of their labels (PNG with a palette) and train.jsonl, valid.jsonl into OUT.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

NAMES = ["background", "square", "circle", "triangle"]
BOX_STARTS = (0, 150, 300)  # of the three boxes of a scene, in pixels
PALETTE = [(255, 255, 255), (0, 114, 178), (213, 94, 0), (0, 158, 115)]


def label_pixels(objects: list[dict[str, Any]], height: int, width: int) -> np.ndarray:
    """The shape at each pixel, by the geometry of the objects; their centres, not their outlines, count."""
    values = np.zeros((height, width), np.uint8)
    rows, columns = np.mgrid[0:height, 0:width] + 0.5
    for thing in objects:
        size = thing["size"]
        x, y = columns - BOX_STARTS[thing["box"]] - thing["x"], rows - thing["y"]  # within the object's square
        inside = (x >= 0) & (x < size) & (y >= 0) & (y < size)
        if thing["shape"] == "circle":
            inside &= (x - size / 2) ** 2 + (y - size / 2) ** 2 <= (size / 2) ** 2
        elif thing["shape"] == "triangle":
            inside &= abs(x - size / 2) <= y / 2
        values[inside] = NAMES.index(thing["shape"])
    return values


def write_part(source: Path, part: str, count: int, folder: Path) -> None:
    """Scenes that have all three shapes, evenly spaced in the file."""
    with gzip.open(source / f"{part}.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    mixed = [record for record in records if {thing["shape"] for thing in record["objects"]} == set(NAMES[1:])]
    chosen = [mixed[i * len(mixed) // count] for i in range(min(count, len(mixed)))]
    (folder / part).mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(source / f"{part}.zip") as pictures, (folder / f"{part}.jsonl").open("w") as out:
        for record in chosen:
            name = record["picture"]
            picture = Image.open(io.BytesIO(pictures.read(name))).convert("RGB")
            picture.save(folder / part / name)
            labels = Image.fromarray(label_pixels(record["objects"], picture.height, picture.width), "P")
            labels.putpalette([value for colour in PALETTE for value in colour])
            own = name.replace(".png", "-labels.png")
            labels.save(folder / part / own)
            out.write(json.dumps({"picture": f"{part}/{name}", "labels": f"{part}/{own}", "names": NAMES}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--train", type=int, default=600)
    parser.add_argument("--valid", type=int, default=200)
    options = parser.parse_args()
    write_part(options.images, "train", options.train, options.out)
    write_part(options.images, "valid", options.valid, options.out)


if __name__ == "__main__":
    main()
