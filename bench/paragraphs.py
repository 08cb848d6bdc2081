"""Paragraphs of drawn scenes by a flat captioner and by hierarchical ones: how much of what they say is true.

    python bench/paragraphs.py IMAGES/nlvr --work FOLDER [--encoder DETECTOR] [--tellers flat phrases] [--seeds 0 1 2]

A sentence for each box of a scene with the kinds of objects in it: "the left box has a blue circle and a black
square.". A detector is trained on the objects, unless --encoder names one; its maps serve all tellers: a flat LSTM on
the grid, one on proposed regions and their phrases, a hierarchical one on the grid, on proposed regions, and on these
and their phrases, all of about as many parameters, those of phrases included; "judged" is the last one after a phase
with a discriminator. Measured on other scenes: CIDEr-D, sentences that are true (all kinds, and no other), paragraphs
with as many sentences as there are boxes, attention to the box that a sentence is about; at last the differences from
the first teller, over all seeds, with intervals over scenes. Models in FOLDER are not trained again, and trainings that
were stopped go on, so that several processes may train tellers, and one more compare them.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from machine import circumstances
from nlvr_scenes import BOX, BOXES, kind_of, read_scenes

import chainrule
from chainrule import CaptionConfig, CaptionedPicture, CaptionModel, LabelledPicture, TrainingConfig
from chainrule.evaluation.resampling import interval_of_sums
from chainrule.features.metrics.rouge import caption_words, cider_d
from chainrule.features.vision.network.config import ResNetLabelling
from chainrule.features.vision.network.visual_sources import boxes_of, spread_on_picture
from chainrule.features.vision.pictures.boxes import overlaps

_PHRASES = {"regions": "proposed", "phrases": True}
_TELLER = CaptionConfig(width=88, decoder="hierarchical", encoder="transformer")
# What of a picture is attended to, and by what: all of 440,000 to 475,000 parameters.
TELLERS: dict[str, tuple[CaptionConfig, dict[str, Any]]] = {
    "flat": (CaptionConfig(width=128, decoder_layers=2), {}),
    "flat-phrases": (CaptionConfig(width=96, decoder_layers=2, encoder="transformer"), _PHRASES),
    "hierarchical": (CaptionConfig(width=116, decoder="hierarchical"), {}),
    "regions": (CaptionConfig(width=104, decoder="hierarchical", encoder="transformer"), {"regions": "proposed"}),
    "phrases": (_TELLER, _PHRASES),
    "judged": (_TELLER, {**_PHRASES, "discriminator": 0.1}),
}
DETECTOR = ResNetLabelling(size=(BOX, 4 * BOX), fit="stretch", width=32, blocks=(1, 1), stem="large")
SIZES = {10: "small", 20: "medium", 30: "large"}
MAX_TOKENS = 120
WIDTH = 400  # of a scene, in pixels


class Scores(NamedTuple):
    """Of a teller, scene by scene. right: the share of its sentences that are true."""

    cider: np.ndarray
    right: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tellers", nargs="+", default=["flat", "phrases"], choices=list(TELLERS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--encoder", type=Path, help="a detector, as it is")
    parser.add_argument("--pictures", type=int, default=1500)
    parser.add_argument("--tests", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--epochs", type=float, default=None, help="in place of minutes")
    parser.add_argument("--encoder-minutes", type=float, default=3)
    parser.add_argument("--work", type=Path, required=True, help="keep the detector and models there")
    given = parser.parse_args()
    print(circumstances())
    measure_paragraphs(given)


def measure_paragraphs(given: argparse.Namespace) -> None:
    learned, held = (
        read_paragraphs(given.data, part, count) for part, count in (("train", given.pictures), ("valid", given.tests))
    )
    random.Random(0).shuffle(learned)  # the last ones, by which the best weights are chosen, are of all sorts
    detector = chainrule.load(given.encoder or trained_detector(given, learned), chainrule.ClassifierModel)
    print("detector:", detector.assess_boxes([boxed(item) for item in held], progress=False), sep="\n", flush=True)
    scores = {
        name: [
            report_paragraphs(f"{name} {seed}", trained_teller(given, name, seed, detector, learned), held)
            for seed in given.seeds
        ]
        for name in given.tellers
    }
    first, *others = scores
    for name in others:
        print(f"{name} above {first}: {difference(scores[name], scores[first])}", flush=True)


def trained_detector(given: argparse.Namespace, learned: list[CaptionedPicture]) -> Path:
    """The folder of a detector, which is trained if there is none."""
    folder: Path = given.work / "detector"
    if not folder.exists():
        learning = chainrule.ClassifierTrainingConfig(minutes=given.encoder_minutes, batch=16, patience=100)
        boxes = [boxed(item) for item in learned]
        chainrule.train_classifier(boxes, DETECTOR, unit="box", training=learning, progress=False).save(folder)
    return folder


def trained_teller(
    given: argparse.Namespace,
    name: str,
    seed: int,
    detector: chainrule.ClassifierModel,
    learned: list[CaptionedPicture],
) -> CaptionModel:
    folder: Path = given.work / f"{name}-{seed}"
    if folder.exists():
        return chainrule.load(folder, CaptionModel)
    config, options = TELLERS[name]
    budget: dict[str, Any] = {"minutes": given.minutes} if given.epochs is None else {"epochs": given.epochs}
    training = TrainingConfig(**budget, batch=64, seed=seed, compile="no", valid_share=0.04)
    began = time.process_time()
    model = chainrule.train_captions(
        learned,
        config,
        encoder=detector,
        training=training,
        folder=given.work / "unfinished" / folder.name,
        resume=True,
        progress=False,
        **options,
    )
    print(f"{name} {seed}: {time.process_time() - began:.0f} s of processor time, with the vectors of pictures")
    model.save(folder)
    return model


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


def report_paragraphs(name: str, model: CaptionModel, held: list[CaptionedPicture]) -> Scores:
    """Prints what a teller is worth on scenes that it has not seen."""
    vectors = model.vectors([item.picture for item in held], progress=False)
    written = [several[0] for several in model.caption(vectors, max_tokens=MAX_TOKENS, alignments=True, progress=False)]
    nats = -np.concatenate(model.score(held, progress=False))
    tokens = model.tokenizer.encode_texts([item.captions[0] for item in held]).ids.size
    cider = cider_d([caption_words(one.text) for one in written], [[caption_words(item.captions[0])] for item in held])
    right, lengths = [], 0
    for one, item in zip(written, held, strict=True):
        own, expected = ([kinds_in(f"{part} .") for part in sentences(text)] for text in (one.text, item.captions[0]))
        lengths += len(own) == len(expected)
        right.append(np.mean([said in own for said in expected]))
    scores = Scores(cider, np.array(right))
    attention = [share for one, own in zip(written, vectors, strict=True) for share in shares_of(model, one, own)]
    phrases = f"; phrases of found objects right {phrases_right(model, held):.1%}" if model.record["phrases"] else ""
    print(
        f"{name:<15} {model.record['parameters']:,} parameters, {model.record['steps']:,} steps; "
        f"perplexity {np.exp(nats.sum() / tokens):.3f}; CIDEr-D {with_interval(scores.cider)}; sentences true "
        f"{with_interval(100 * scores.right)} %; number of sentences right {lengths / len(held):.1%}; attention of a "
        f"sentence in its box {np.mean(attention or [np.nan]):.1%}{phrases}; the first: {written[0].text!r}",
        flush=True,
    )
    return scores


def sentences(text: str) -> list[str]:
    return text.removesuffix(" .").split(" . ")


def shares_of(model: CaptionModel, caption: Any, source: np.ndarray) -> list[float]:
    """Of each sentence, the share of its words' attention that is in the box that it is about."""
    rows, columns = model.grid
    weights = caption.attention[: len(caption.tokens)]
    if model.regions is not None:
        weights = spread_on_picture(weights, boxes_of(source)[: weights.shape[1]], rows, columns)
    middles = (np.arange(columns) + 0.5) / columns * WIDTH
    of_columns, shares = weights.sum(1), []
    ends = [number + 1 for number, token in enumerate(caption.tokens) if token == "."]
    for begin, end in zip([0, *ends], ends, strict=False):
        second = caption.tokens[begin + 1 : end][:1]  # "the left box ..."
        if second and (left := BOXES.get(second[0])) is not None:
            inside = (middles >= left) & (middles < left + BOX)
            shares.append(float(of_columns[begin:end, inside].sum() / (end - begin)))
    return shares


def phrases_right(model: CaptionModel, held: list[CaptionedPicture]) -> float:
    """The share of found objects whose phrase is theirs: those that a region overlaps by half or more."""
    right = []
    assert model.regions is not None
    for item in held:
        assert item.boxes is not None
        regions = model.regions.regions(item)[1:]
        shared = overlaps(item.boxes.boxes, np.array([one.box for one in regions], np.float32).reshape(-1, 4))
        for phrase, own in zip(item.boxes, shared, strict=True):
            if len(own) and own.max() >= 0.5:
                right.append(regions[own.argmax()].phrase == phrase)
    return float(np.mean(right))


def with_interval(values: np.ndarray) -> str:
    """The mean over scenes, and its 95 % interval."""
    statistics = np.column_stack([values, np.ones(len(values))])
    low, high = interval_of_sums([statistics], lambda sums: sums[..., 0] / sums[..., 1])
    return f"{values.mean():.3f} ({low:.3f} to {high:.3f})"


def difference(ours: list[Scores], theirs: list[Scores]) -> str:
    """Of the means over seeds, paired by scene."""
    cider, right = (
        np.mean(list(own), 0) - np.mean(list(other), 0)
        for own, other in zip(zip(*ours, strict=True), zip(*theirs, strict=True), strict=True)
    )
    return f"CIDEr-D {with_interval(cider)}; sentences true {with_interval(100 * right)} points"


if __name__ == "__main__":
    main()
