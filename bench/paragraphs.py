"""Paragraphs of drawn scenes by a flat captioner and by hierarchical ones: how much of what they say is true.

    python bench/paragraphs.py IMAGES/nlvr [--encoder DETECTOR] [--tellers flat phrases] [--minutes 4] [--work FOLDER]

A sentence for each box of a scene with the kinds of objects in it: "the left box has a blue circle and a black
square.". A detector is trained on the objects, unless --encoder names one; its maps serve all tellers: a flat LSTM on
the grid, a hierarchical one on the grid, on proposed regions, and on these and their phrases. Measured on other scenes:
mean average precision, CIDEr-D, sentences that are true (all kinds, and no other), paragraphs with as many sentences as
there are boxes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from machine import circumstances
from nlvr_scenes import BOX, BOXES, kind_of, read_scenes

import chainrule
from chainrule import CaptionConfig, CaptionedPicture, CaptionModel, LabelledPicture, TrainingConfig
from chainrule.neural.config.pictures import ResNetLabelling

# What of a picture is attended to, and by what: of about as many parameters.
TELLERS: dict[str, tuple[CaptionConfig, dict[str, Any]]] = {
    "flat": (CaptionConfig(width=128, decoder_layers=2), {}),
    "hierarchical": (CaptionConfig(width=96, decoder="hierarchical"), {}),
    "regions": (CaptionConfig(width=96, decoder="hierarchical"), {"regions": "proposed"}),
    "phrases": (CaptionConfig(width=96, decoder="hierarchical"), {"regions": "proposed", "phrases": True}),
}
DETECTOR = ResNetLabelling(size=(BOX, 4 * BOX), fit="stretch", width=32, blocks=(1, 1), stem="large")
SIZES = {10: "small", 20: "medium", 30: "large"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tellers", nargs="+", default=list(TELLERS), choices=list(TELLERS))
    parser.add_argument("--encoder", type=Path, help="a detector, as it is")
    parser.add_argument("--pictures", type=int, default=1500)
    parser.add_argument("--tests", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--encoder-minutes", type=float, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=None, help="keep the detector and models there")
    given = parser.parse_args()
    print(circumstances())
    measure_paragraphs(given)


def measure_paragraphs(given: argparse.Namespace) -> None:
    learned, held = (
        read_paragraphs(given.data, part, count) for part, count in (("train", given.pictures), ("valid", given.tests))
    )
    folder = given.encoder or (None if given.work is None else given.work / "detector")
    if folder is not None and folder.exists():
        detector = chainrule.load(folder, chainrule.ClassifierModel)
    else:
        learning = chainrule.LabelTraining(minutes=given.encoder_minutes, batch=16, seed=given.seed, patience=100)
        detector = chainrule.train_classifier(
            [boxed(item) for item in learned], DETECTOR, unit="box", training=learning, progress=False
        )
        if folder is not None:
            detector.save(folder)
    print("detector:", detector.assess_boxes([boxed(item) for item in held], progress=False), sep="\n", flush=True)
    training = TrainingConfig(minutes=given.minutes, batch=64, seed=given.seed, compile="no", valid_share=0.02)
    for name in given.tellers:
        config, options = TELLERS[name]
        began = time.perf_counter()
        model = chainrule.train_captions(
            learned, config, encoder=detector, training=training, progress=False, **options
        )
        trained = time.perf_counter() - began
        if given.work is not None:
            model.save(given.work / f"paragraphs-{name}", overwrite=True)
        report_paragraphs(name, model, held, trained)


def read_paragraphs(folder: Path, part: str, count: int) -> list[CaptionedPicture]:
    """Scenes with a paragraph, and the boxes of their objects with a phrase for each."""
    pictures = []
    for item, objects in read_scenes(folder, part, count, "made"):
        corners = [(list(BOXES.values())[one["box"]] + one["x"], one["y"]) for one in objects]
        boxes = [
            [left, top, left + one["size"], top + one["size"]]
            for (left, top), one in zip(corners, objects, strict=True)
        ]
        phrases = [f"a {SIZES[one['size']]} {kind_of(one)}" for one in objects]
        pictures.append(item._replace(captions=(paragraph_of(objects),), boxes=chainrule.BoxLabels(boxes, phrases)))
    return pictures


def boxed(item: CaptionedPicture) -> LabelledPicture:
    """With colour and shape as labels of boxes."""
    assert item.picture is not None
    assert item.boxes is not None
    labels = [phrase.split(maxsplit=2)[2] for phrase in item.boxes]
    return LabelledPicture(item.picture, chainrule.BoxLabels(item.boxes.boxes, labels))


def paragraph_of(objects: list[dict[str, Any]]) -> str:
    """A sentence for each box with the kinds of its objects, from left to right, each kind once."""
    written = []
    for number, name in enumerate(BOXES):
        inside = sorted((one for one in objects if one["box"] == number), key=lambda one: (one["x"], one["y"]))
        kinds = [f"a {kind}" for kind in dict.fromkeys(map(kind_of, inside))]
        listed = " and ".join([*([" , ".join(kinds[:-1])] if kinds[1:] else []), *kinds[-1:]]) or "nothing"
        written.append(f"the {name} box has {listed} .")
    return " ".join(written)


def kinds_in(sentence: str) -> tuple[str, frozenset[str]] | None:
    """The box that a sentence is about, and the kinds that it says are in it; None where it says no such thing."""
    words = sentence.replace(" , ", " and ").removesuffix(" .").split(" has ")
    if len(words) != 2 or words[0].split()[:1] != ["the"] or words[0].split()[-1:] != ["box"]:
        return None
    return words[0], frozenset(words[1].split(" and "))


def report_paragraphs(name: str, model: CaptionModel, held: list[CaptionedPicture], trained: float) -> None:
    measured = model.evaluate(held, max_tokens=120, progress=False).to_dict()
    shown = [item.picture for item in held]
    written = [several[0].text for several in model.caption(shown, max_tokens=120, progress=False)]
    true = right = total = lengths = 0
    for text, item in zip(written, held, strict=True):
        own, expected = (
            [kinds_in(f"{part} .") for part in given.removesuffix(" .").split(" . ")]
            for given in (text, item.captions[0])
        )
        lengths += len(own) == len(expected)
        total += len(own)
        true += sum(said is not None and said in expected for said in own)
        right += sum(said in own for said in expected)
    print(
        f"{name:<13} {model.record['parameters']:,} parameters, trained {trained:.0f} s, {model.record['steps']:,} "
        f"steps; perplexity {measured['perplexity']:.3f}; CIDEr-D {measured['CIDEr-D']:.3f} "
        f"({measured['CIDEr-D_low']:.3f} to {measured['CIDEr-D_high']:.3f}); sentences true {true / total:.1%}, of "
        f"those asked for {right / (3 * len(held)):.1%}; number of sentences right {lengths / len(held):.1%}; the "
        f"first: {written[0]!r}",
        flush=True,
    )


if __name__ == "__main__":
    main()
