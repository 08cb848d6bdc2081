"""From pictures with boxes to a detector: it finds what it has learned, from Python and on the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

import chainrule
from chainrule.cli.main import run
from chainrule.errors import SettingError, TextError
from chainrule.features.classify.objective import Example, split
from chainrule.features.vision.detection import BoxObjective
from chainrule.features.vision.labels.units import BOX
from chainrule.features.vision.network.config import ResNetLabelling

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.training.job import ValidationResult

NETWORK = ResNetLabelling(size=(24, 48), width=16, blocks=(1,), stem="large", fit="stretch")
COLOURS = {"red": (220, 20, 20), "blue": (20, 20, 220)}


def scene(rng: np.random.Generator) -> tuple[np.ndarray, chainrule.BoxLabels]:
    """One or two squares, one in each half of a white picture, so that they do not touch."""
    pixels, boxes, labels = np.full((48, 96, 3), 255, np.uint8), [], []
    for half in range(int(rng.integers(1, 3))):
        side, colour = int(rng.integers(12, 21)), str(rng.choice(list(COLOURS)))
        left, top = 48 * half + int(rng.integers(0, 48 - side)), int(rng.integers(0, 48 - side))
        pixels[top : top + side, left : left + side] = COLOURS[colour]
        boxes.append([left, top, left + side, top + side])
        labels.append(colour)
    return pixels, chainrule.BoxLabels(boxes, labels)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """boxes.jsonl with 96 pictures of 96 x 48 pixels, which the network reads at half that size."""
    folder, rng = tmp_path_factory.mktemp("boxes"), np.random.default_rng(0)
    lines = []
    for i in range(96):
        pixels, labels = scene(rng)
        Image.fromarray(pixels).save(folder / f"{i}.png")
        boxes = [{"box": box, "label": label} for box, label in zip(labels.boxes.tolist(), labels, strict=True)]
        lines.append(json.dumps({"image": f"{i}.png", "boxes": boxes}) + "\n")
    (folder / "boxes.jsonl").write_text("".join(lines[:80]))
    (folder / "tests.jsonl").write_text("".join(lines[80:]))
    return folder


@pytest.fixture(scope="module")
def detector(folder: Path) -> chainrule.ClassifierModel:
    training = chainrule.ClassifierTrainingConfig(
        epochs=12, batch=8, learning_rate=0.01, patience=12, precision="float32"
    )
    examples = chainrule.read_boxes(folder / "boxes.jsonl", NETWORK.frame)
    model = chainrule.train_classifier(examples, NETWORK, unit="box", training=training, progress=False)
    model.save(folder / "detector")
    return model


def test_the_epoch_is_kept_that_finds_most(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the mean average precision that `evaluate` measures on the examples held out, whatever the loss does."""
    validated, validate = [], BoxObjective.validate

    def kept(own: BoxObjective, tokens: int) -> ValidationResult:
        validated.append(validate(own, tokens)._replace(loss=float(len(validated))))  # the loss only rises
        return validated[-1]

    monkeypatch.setattr(BoxObjective, "validate", kept)
    examples = chainrule.read_boxes(folder / "boxes.jsonl", NETWORK.frame)
    training = chainrule.ClassifierTrainingConfig(epochs=6, batch=8, learning_rate=0.01, precision="float32")
    model = chainrule.train_classifier(examples, NETWORK, unit="box", training=training, progress=False)
    precisions = [each.figures["mean_average_precision"] for each in validated]
    best = max(precisions)
    assert best > precisions[0]
    assert model.record["best_epoch"] - 1 in [i for i, precision in enumerate(precisions) if precision == best]
    rows = [
        Example(i, np.array([[label == "red"] for label in item.labels], np.float32)) for i, item in enumerate(examples)
    ]
    chosen = split(rows, training.valid_share, training.seed, BOX.labels_of_target).validation
    measured = model.assess_boxes([examples[example.input] for example in chosen], progress=False)
    assert model.record["validation"]["mean_average_precision"] == pytest.approx(measured.mean_average_precision)
    assert measured.mean_average_precision == pytest.approx(best)


def test_it_finds_what_it_has_learned(detector: chainrule.ClassifierModel, folder: Path) -> None:
    tests = chainrule.read_boxes(folder / "tests.jsonl")
    measured = detector.assess_boxes(tests, progress=False)
    assert measured.mean_average_precision > 0.8
    assert measured.boxes == sum(len(item.labels) for item in tests)
    found = detector.detect([item.input for item in tests], progress=False)
    for boxes, item in zip(found[:5], tests, strict=False):
        assert sorted(one.label for one in boxes) == sorted(item.labels)
        for one in boxes:  # in pixels of the picture, not of what the network reads
            own = item.labels.boxes[[label == one.label for label in item.labels]]  # type: ignore[attr-defined]
            assert np.abs(own - np.array(one.box)).max(1).min() < 6
    again = chainrule.load(folder / "detector", chainrule.ClassifierModel)
    [[first, *_]] = again.detect([tests[0].input], progress=False)
    assert first.label == found[0][0].label
    assert first.box == pytest.approx(found[0][0].box, abs=1e-3)


def test_what_a_detector_is_not_for_is_said(detector: chainrule.ClassifierModel, folder: Path) -> None:
    picture = chainrule.as_picture(folder / "0.png")
    with pytest.raises(SettingError, match="call detect"):
        detector.classify([picture])
    with pytest.raises(SettingError, match="assess_boxes"):
        detector.assess([chainrule.LabelledPicture(picture, ("red",))])
    with pytest.raises(SettingError, match="no vector for a whole picture"):
        detector.embed([picture])
    with pytest.raises(SettingError, match="least is 0; expected a score above 0"):
        detector.detect([picture], least=0)
    with pytest.raises(TextError, match="there is no box in these pictures"):
        detector.assess_boxes([chainrule.LabelledPicture(picture, chainrule.BoxLabels([], []))], progress=False)
    with pytest.raises(TextError, match="expected BoxLabels"):
        chainrule.train_classifier([chainrule.LabelledPicture(picture, ("red",))], NETWORK, unit="box")
    with pytest.raises(SettingError, match="this network reads texts; choose a network for pictures, such as resnet"):
        chainrule.train_classifier([chainrule.Labelled("a", ("b",))], unit="box")


def test_a_detector_of_one_label_can_be_trained(folder: Path) -> None:
    pictures = [
        item._replace(labels=chainrule.BoxLabels(item.labels.boxes, ["square"] * len(item.labels)))  # type: ignore[attr-defined]
        for item in chainrule.read_boxes(folder / "boxes.jsonl", NETWORK.frame)[:16]
    ]
    model = chainrule.train_classifier(
        pictures,
        NETWORK,
        unit="box",
        training=chainrule.ClassifierTrainingConfig(epochs=1),
        folder=folder / "one",
        progress=False,
    )
    model.save(folder / "one", overwrite=True)
    assert chainrule.load(folder / "one", chainrule.ClassifierModel).classifier.labels == ("square",)


def test_boxes_on_the_command_line(
    detector: chainrule.ClassifierModel, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["classify", str(folder / "detector"), str(folder / "80.png")]) == 0
    label, score, sides, name = capsys.readouterr().out.splitlines()[0].split("\t")
    assert label in COLOURS
    assert 0.5 <= float(score) <= 1
    assert len(sides.split()) == 4
    assert name == str(folder / "80.png")
    assert run(["classify", str(folder / "detector"), str(folder / "tests.jsonl"), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 16
    assert rows[0]["boxes"][0].keys() == {"box", "label", "score"}
    assert run(["classify", str(folder / "detector"), str(folder / "tests.jsonl"), "-o", str(folder / "b.jsonl")]) == 0
    table = [json.loads(line) for line in (folder / "b.jsonl").read_text().splitlines()]
    assert [[row[side] for side in ("left", "top", "right", "bottom")] for row in table] == [
        box["box"] for row in rows for box in row["boxes"]
    ]
    assert run(["evaluate", str(folder / "detector"), str(folder / "tests.jsonl"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean_average_precision"] > 0.8
    assert run(["classify", str(folder / "detector"), str(folder / "80.png"), "--page", "labels.html"]) != 0
    assert "--page draws labels" in capsys.readouterr().err


def test_a_detector_is_trained_on_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "classifier", str(folder / "boxes.jsonl"), "--unit", "box", "--network", "resnet"]
    arguments += ["--size", "12", "24", "--fit", "stretch", "--width", "4", "--blocks", "1", "--epochs", "1"]
    output = ["-o", str(folder / "small"), "--test", str(folder / "tests.jsonl")]
    assert run([*arguments, *output]) == 0
    shown = capsys.readouterr()
    assert "mean average precision" in shown.out
    assert "nats a box" in shown.out
    assert run([*arguments, *output, "--resume"]) == 0
    assert "Traceback" not in capsys.readouterr().err
