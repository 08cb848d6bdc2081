"""Captions of pictures by soft, hard and no attention: what they say, and where they look.

    python bench/captions.py grids CIFAR10.zip [--grids 2000] [--minutes 2] [--seed 0] [--work FOLDER]
    python bench/captions.py nlvr IMAGES/nlvr [--captions human] [--pictures 1500] [--minutes 4] [--seed 0]

grids    3 x 3 pictures of CIFAR-10 and a sentence for each: "in the top left is a ship". A ResNet is trained on single
         pictures, and kept. Measured on grids of other pictures: captions that are true, nouns that are right given
         their places, and how often attention peaks in the right cell while the noun is written.
nlvr     drawn scenes with a sentence made for each box, of its largest object: "there is a blue circle in the left
         box", or with the human ones that are true. Without --encoder, a ResNet is trained on squares of scenes, to
         name the object in the middle, and kept. Measured on other scenes: CIDEr-D, the share of captions that are true
         of their scene, and the attention on the mentioned object while its shape is written, over the object's share
         of the picture.
"""

from __future__ import annotations

import argparse
import io
import random
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from machine import circumstances
from nlvr_scenes import BOX, BOXES, kind_of, mentioned, read_scenes
from nlvr_sentences import is_true
from PIL import Image

import chainrule
from chainrule import CaptionConfig, CaptionedPicture, CaptionModel, LabelledPicture, Picture, TrainingConfig
from chainrule.features.vision.attend import attention_steps
from chainrule.features.vision.network.config import ResNetLabelling
from chainrule.features.vision.picture_encoder import open_encoder

CONFIGS = {
    "soft": CaptionConfig(width=128, attention="soft"),
    "hard": CaptionConfig(width=128, attention="hard"),
    "reinforce": CaptionConfig(width=128, attention="hard", estimator="reinforce", soft_share=0.5, entropy=0.01),
    "straight": CaptionConfig(width=128, attention="hard", estimator="straight_through"),
    "none": CaptionConfig(width=128, attention="none"),
    "transformer": CaptionConfig(width=128, decoder="transformer", decoder_layers=2),
}
ROWS, COLUMNS = ("top", "middle", "bottom"), ("left", "centre", "right")
SIDE = 32  # pixels of a picture of CIFAR-10
SMALLER = 2  # scenes are read at half their size: 7 x 25 places


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("grids", "nlvr"))
    parser.add_argument("data", type=Path)
    parser.add_argument("--attention", nargs="+", default=["soft", "hard", "none"], choices=list(CONFIGS))
    parser.add_argument("--grids", type=int, default=2000)
    parser.add_argument("--encoder", type=Path, help="a classifier of pictures, such as EfficientNet-Lite0")
    parser.add_argument("--size", type=int, default=3 * SIDE, help="the height in pixels that the encoder reads")
    parser.add_argument("--pictures", type=int, default=1500)
    parser.add_argument("--tests", type=int, default=200)
    parser.add_argument("--captions", choices=("made", "human"), default="made")
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--encoder-minutes", type=float, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=None, help="keep the encoder, vectors and models there")
    given = parser.parse_args()
    print(circumstances())
    if given.what == "grids":
        measure_grids(given)
    else:
        measure_scenes(given)


def training_of(given: argparse.Namespace) -> TrainingConfig:
    return TrainingConfig(minutes=given.minutes, batch=64, seed=given.seed, compile="no", valid_share=0.02)


# Grids of CIFAR-10


def measure_grids(given: argparse.Namespace) -> None:
    train, test = (read_cifar(given.data, part) for part in ("train", "test"))
    folder = given.encoder or (None if given.work is None else given.work / "encoder")
    if folder is not None and folder.exists():
        classifier = chainrule.load(folder, chainrule.ClassifierModel)
    else:
        learning = chainrule.ClassifierTrainingConfig(minutes=given.encoder_minutes, seed=given.seed, patience=100)
        classifier = chainrule.train_classifier(labelled(train), ENCODER, training=learning, progress=False)
        if folder is not None:
            classifier.save(folder)
    if given.encoder is None:
        accuracy = classifier.assess(labelled(test), progress=False).accuracy
        print(f"encoder: {accuracy.share:.1%} of single test pictures right", flush=True)
    rng = random.Random(given.seed)
    learned, held = (
        [grid_of(pictures, rng) for _ in range(count)]
        for pictures, count in ((train, given.grids), (test, given.tests))
    )
    encoder = open_encoder(classifier, lambda *_: None, size=(given.size,))
    for name in given.attention:
        began = time.perf_counter()
        model = chainrule.train_captions(
            [CaptionedPicture(Picture(pixels), sentences(cells)) for pixels, cells in learned],
            CONFIGS[name],
            encoder=encoder,
            features=None if given.work is None else given.work / "vectors.safetensors",
            training=training_of(given),
            progress=False,
        )
        trained = time.perf_counter() - began
        if given.work is not None:
            model.save(given.work / f"grids-{name}", overwrite=True)
        report_grids(name, model, held, trained)


def labelled(pictures: dict[str, list[np.ndarray]]) -> list[LabelledPicture]:
    return [LabelledPicture(Picture(pixels), (label,)) for label, several in pictures.items() for pixels in several]


ENCODER = ResNetLabelling(width=24, blocks=(1, 1, 1, 1))


def read_cifar(path: Path, part: str) -> dict[str, list[np.ndarray]]:
    """The pictures of each class."""
    pictures: dict[str, list[np.ndarray]] = {}
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if name.startswith(f"{part}/") and name.endswith(".jpg"):
                pixels = np.asarray(Image.open(io.BytesIO(archive.read(name))).convert("RGB"))
                pictures.setdefault(name.split("/")[1], []).append(pixels)
    return pictures


def grid_of(pictures: dict[str, list[np.ndarray]], rng: random.Random) -> tuple[np.ndarray, list[str]]:
    """Nine pictures as one, and their classes, row by row."""
    classes = [rng.choice(sorted(pictures)) for _ in range(9)]
    rows = [np.hstack([rng.choice(pictures[name]) for name in classes[3 * row : 3 * row + 3]]) for row in range(3)]
    return np.vstack(rows), classes


def sentences(classes: list[str]) -> tuple[str, ...]:
    return tuple(f"in the {ROWS[i // 3]} {COLUMNS[i % 3]} is a {name}" for i, name in enumerate(classes))


def report_grids(name: str, model: CaptionModel, held: list[tuple[np.ndarray, list[str]]], trained: float) -> None:
    nouns = peaks = true = 0
    rows, columns = model.grid
    vocabulary = model.tokenizer.vocabulary
    began = time.perf_counter()
    written = model.caption([pixels for pixels, _ in held], progress=False)
    speed = len(held) / (time.perf_counter() - began)
    for (_, classes), captions in zip(held, written, strict=True):
        true += captions[0].text in sentences(classes)
    count = 0
    for pixels, classes in held[:100]:
        [source] = model.sources([pixels])
        given = model.model.given([source])
        for i, sentence in enumerate(sentences(classes)):
            tokens = model.tokenizer.encode_texts([sentence]).ids[:-1]
            chances = given.next_log_probs(given.start([tokens[:-1]]))[0]
            nouns += vocabulary.token(int(chances.argmax())) == classes[i]
            count += 1
            if model.model.network.config.attention != "none":
                weights = attention_steps(model, source, tokens)[len(tokens) - 1]
                row, column = np.unravel_index(int(weights.argmax()), weights.shape)
                peaks += (row * 3 // rows, column * 3 // columns) == divmod(i, 3)
    looked = (
        "" if model.model.network.config.attention == "none" else f"; attention peaks in its cell {peaks / count:.1%}"
    )
    print(
        f"{name:<12} trained {trained:.0f} s, {model.record['steps']:,} steps, validation "
        f"{model.record['validation']['loss']:.4f} nats; captions true {true / len(held):.1%}; noun right given its "
        f"place {nouns / count:.1%}{looked}; {speed:.0f} captions/s with the encoder, beam 5",
        flush=True,
    )
    vectors = model.vectors([pixels for pixels, _ in held])
    began = time.perf_counter()
    model.caption(vectors, progress=False)
    print(f"{'':<12} {len(held) / (time.perf_counter() - began):.0f} captions/s from vectors, beam 5", flush=True)


# NLVR


def measure_scenes(given: argparse.Namespace) -> None:
    learned = read_scenes(given.data, "train", given.pictures, given.captions)
    held = read_scenes(given.data, "valid", given.tests, given.captions)
    folder = given.encoder or (None if given.work is None else given.work / "scene-encoder")
    if folder is not None and folder.exists():
        classifier = chainrule.load(folder, chainrule.ClassifierModel)
    else:
        classifier = scene_encoder(given)
        if folder is not None:
            classifier.save(folder)
    encoder = open_encoder(classifier, lambda *_: None, size=(BOX // SMALLER, 4 * BOX // SMALLER))
    for name in given.attention:
        kept = None if given.work is None else given.work / f"nlvr-{given.captions}-{name}"
        if kept is not None and kept.exists():
            model = chainrule.load(kept, CaptionModel)
        else:
            model = chainrule.train_captions(
                [item for item, _ in learned],
                CONFIGS[name],
                encoder=encoder,
                features=None if given.work is None else given.work / f"scenes-{given.captions}.safetensors",
                training=training_of(given),
                progress=False,
            )
            if kept is not None:
                model.save(kept)
        report_scenes(name, model, held, human=given.captions == "human")


def scene_encoder(given: argparse.Namespace) -> chainrule.ClassifierModel:
    """A ResNet that names the object in the middle of a square of a scene, or nothing."""
    learned, held = (
        squares(read_scenes(given.data, part, count, "made"), random.Random(given.seed))
        for part, count in (("train", given.pictures), ("valid", given.tests))
    )
    config = ResNetLabelling(size=(SIDE // SMALLER,), width=16, blocks=(1, 1, 1, 1), fit="stretch")
    learning = chainrule.ClassifierTrainingConfig(minutes=given.encoder_minutes, seed=given.seed, patience=100)
    classifier = chainrule.train_classifier(learned, config, training=learning, progress=False)
    accuracy = classifier.assess(held, progress=False).accuracy
    print(f"encoder: {accuracy.share:.1%} of squares of other scenes right", flush=True)
    return classifier


def squares(scenes: list[tuple[CaptionedPicture, list[dict[str, Any]]]], rng: random.Random) -> list[LabelledPicture]:
    """Squares around objects, at most four a scene, and one in whose middle is nothing."""
    labelled = []
    for item, objects in scenes:
        pixels = np.pad(item.picture.pixels, ((SIDE // 2,) * 2, (SIDE // 2,) * 2, (0, 0)), mode="edge")
        middles = [
            (list(BOXES.values())[one["box"]] + one["x"] + one["size"] // 2, one["y"] + one["size"] // 2, kind_of(one))
            for one in rng.sample(objects, min(4, len(objects)))
        ]
        across, down = rng.randrange(4 * BOX), rng.randrange(BOX)
        if not object_at(objects, across, down):
            middles.append((across, down, "nothing"))
        labelled += [
            LabelledPicture(Picture(pixels[down : down + SIDE, across : across + SIDE]), (label,))
            for across, down, label in middles
        ]
    return labelled


def object_at(objects: list[dict[str, Any]], across: int, down: int) -> bool:
    """Whether an object's square reaches to within 4 pixels of a pixel of the scene."""
    return any(
        -4 <= across - list(BOXES.values())[one["box"]] - one["x"] < one["size"] + 4
        and -4 <= down - one["y"] < one["size"] + 4
        for one in objects
    )


def report_scenes(
    name: str,
    model: CaptionModel,
    held: list[tuple[CaptionedPicture, list[dict[str, Any]]]],
    *,
    human: bool,
) -> None:
    measured = model.evaluate([item for item, _ in held], progress=False).to_dict()
    written = model.caption([item.picture for item, _ in held], progress=False)
    verdicts = [
        is_true(captions[0].text, objects) if human else bool(mentioned(captions[0].text, objects))
        for captions, (_, objects) in zip(written, held, strict=True)
    ]
    known = [one for one in verdicts if one is not None]
    ratios, shares = [], []
    attends = model.model.network.config.attention != "none"
    for item, objects in held if attends else []:
        [source] = model.sources([item.picture])
        for text in item.captions[:2]:
            meant = mentioned(text, objects)
            if not meant:
                continue
            tokens = model.tokenizer.encode_texts([text]).ids[:-1]
            weights = attention_steps(model, source, tokens)[4]  # while the shape is written
            on_object, area = mass_on(weights, meant)
            ratios.append(on_object / area)
            shares.append(on_object)
    looked = f"; attention on it {np.mean(shares):.1%}, {np.mean(ratios):.1f} times its area" if ratios else ""
    print(
        f"{name:<12} {model.record['steps']:,} steps; perplexity "
        f"{measured['perplexity']:.3f}; CIDEr-D {measured['CIDEr-D']:.3f} ({measured['CIDEr-D_low']:.3f} to "
        f"{measured['CIDEr-D_high']:.3f}); captions true of their scene {np.mean(known):.1%} of {len(known):,} "
        f"that can be checked{looked}; the first: {written[0][0].text!r}",
        flush=True,
    )


def mass_on(weights: np.ndarray, objects: list[dict[str, Any]]) -> tuple[float, float]:
    """The attention on the squares around objects, each place's spread over its pixels; and the share of their area."""
    mask = np.zeros((BOX, 4 * BOX), bool)
    for thing in objects:
        left, size = list(BOXES.values())[thing["box"]] + thing["x"], thing["size"]
        mask[thing["y"] : thing["y"] + size, left : left + size] = True
    rows, columns = (np.arange(side) * count // side for side, count in zip(mask.shape, weights.shape, strict=True))
    spread = weights[rows][:, columns]
    return float((spread * mask).sum() / spread.sum()), float(mask.mean())


if __name__ == "__main__":
    main()
