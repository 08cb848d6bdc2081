"""Pictures whose pixels are labelled: their files, what is wrong with them, and a network that labels pixels."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from samples import sampled

import chainrule
from chainrule.errors import SettingError, TextError
from chainrule.features.classify.labelled.texts import UnitLabels, distinct_labels, label_indices
from chainrule.features.classify.network.build import build_classifier
from chainrule.features.vision.network.config import GridLabelling, LeNetLabelling
from chainrule.features.vision.pictures.labelled import read_pixel_labels
from chainrule.features.vision.pictures.picture import LabelledPicture, Picture
from chainrule.training.config import ClassifierTrainingConfig

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["sky", "sea"]


def write(folder: Path, values: np.ndarray, *, mode: str = "P", **changes: Any) -> Path:
    """A file of one picture of 5 x 3 pixels and its labels, and their paths."""
    Image.fromarray(np.full((3, 5, 3), 7, np.uint8)).save(folder / "own.png")
    labels = Image.fromarray(values.astype(np.uint8), "P" if mode == "P" else "L")
    if mode == "P":
        labels.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255])
    labels.convert(mode).save(folder / "labels.png")
    record = {"picture": "own.png", "labels": "labels.png", "names": NAMES, **changes}
    (folder / "data.jsonl").write_text(json.dumps(record) + "\n")
    return folder / "data.jsonl"


@pytest.mark.parametrize("mode", ["P", "L"])
def test_labels_are_the_values_of_a_palette_or_of_grey(tmp_path: Path, mode: str) -> None:
    values = np.array([[0, 0, 0, 0, 1], [0, 1, 1, 1, 1], [1, 1, 1, 1, 1]])
    [example] = read_pixel_labels(write(tmp_path, values, mode=mode))
    assert example.input.pixels.shape == (3, 5, 3)
    assert list(example.labels) == [NAMES[value] for value in values.ravel().tolist()]
    assert example.labels[4] == "sea"
    assert example.place == f"{tmp_path}/data.jsonl, line 1"


@pytest.mark.parametrize(
    ("values", "changes", "message"),
    [
        (np.zeros((5, 3)), {}, "the picture has 5 x 3 pixels, but its labels 3 x 5"),
        (np.full((3, 5), 2), {}, "row 0, column 0 is 2, but there are 2 names; expected 0 to 1"),
        (np.zeros((3, 5)), {"names": ["sky"]}, "there are 1 names, 1 different; expected 2 to 256"),
        (np.zeros((3, 5)), {"names": ["sky", "sky"]}, "there are 2 names, 1 different"),
        (np.zeros((3, 5)), {"names": "sky"}, "expected a list of labels"),
        (np.zeros((3, 5)), {"labels": 3}, "expected the paths of two pictures"),
        (np.zeros((3, 5)), {"labels": "other.png"}, "other.png: there is no such file"),
        (np.zeros((3, 5)), {"labels": "own.png"}, "own.png: is a PNG of mode RGB; expected a PNG in grey"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path: Path, values: Any, changes: Any, message: str) -> None:
    with pytest.raises(TextError, match=message) as caught:
        read_pixel_labels(write(tmp_path, values, **changes))
    assert "data.jsonl, line 1" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_pictures_are_left_out_and_reported(tmp_path: Path) -> None:
    file = write(tmp_path, np.zeros((3, 5)))
    good = file.read_text()
    broken = tmp_path / "broken.png"
    broken.write_bytes((tmp_path / "labels.png").read_bytes()[:40])
    file.write_text(good + good.replace("labels.png", "broken.png") + good)
    problems: list[TextError] = []
    assert len(read_pixel_labels(file, on_bad=problems.append)) == 2
    assert len(problems) == 1
    assert "line 2" in str(problems[0])
    file.write_text("")
    with pytest.raises(TextError, match="no picture with labelled pixels"):
        read_pixel_labels(file)


def test_labels_are_not_scaled(tmp_path: Path) -> None:
    with pytest.raises(TextError, match=r"but the network reads 32 x 32; .* set size to 3 5"):
        read_pixel_labels(write(tmp_path, np.zeros((3, 5))), GridLabelling().frame)


def test_many_labels_count_as_single_ones_do() -> None:
    names, values = ("a", "b", "c"), np.array([2, 0, 2], np.uint8)
    many = UnitLabels(names, values)
    assert list(many) == ["c", "a", "c"]
    assert list(many[1:]) == ["a", "c"]
    assert distinct_labels(many) == distinct_labels(("c", "a")) == {"a", "c"}
    index = {"c": 7, "a": 5}
    assert label_indices(many, index).tolist() == label_indices(tuple(many), index).tolist() == [7, 5, 7]
    assert repr(many) == repr(UnitLabels(names, values.copy())) != repr(UnitLabels(names, values[::-1][1:]))


def under_lines(count: int) -> list[LabelledPicture]:
    """Noise with a bright line: all below it is sea, so that a pixel's label is not in its neighbourhood."""
    random = np.random.default_rng(4)
    examples = []
    for i in range(count):
        pixels = random.integers(0, 60, (9, 7, 3), np.uint8)
        line = int(random.integers(1, 8))
        pixels[line] = 255
        values = np.repeat(np.arange(9) > line, 7).astype(np.uint8)
        examples.append(LabelledPicture(Picture(pixels, f"picture {i}"), UnitLabels(NAMES, values)))
    return examples


@pytest.mark.parametrize(
    "settings",
    sampled(
        [{"patch": 1}, {"patch": 2, "cell": "grid"}, {"corners": "one", "layers": 2}], [{"corners": "one", "layers": 2}]
    ),
)
def test_a_grid_labels_pixels_by_what_is_far_away(settings: Any) -> None:
    """Also in patches that do not divide the picture."""
    config = GridLabelling(size=(9, 7), width=16, **settings)
    training = ClassifierTrainingConfig(epochs=10, batch=4, learning_rate=0.02)
    model = chainrule.train_classifier(under_lines(60), config, unit="pixel", training=training, progress=False)
    tests = under_lines(70)[60:]
    assert model.assess(tests).accuracy.share > 0.98
    [found] = model.classify([tests[0].input])
    assert found.log_probs.shape == (63, 2)
    assert found.units[:8] == ["0,0", "1,0", "2,0", "3,0", "4,0", "5,0", "6,0", "0,1"]
    with pytest.raises(TextError, match="has 8 x 9 pixels, but the network reads 7 x 9"):
        model.classify([np.zeros((9, 8, 3), np.uint8)])


def test_convolutions_that_are_padded_label_pixels_by_what_is_near() -> None:
    """Each pixel by its own brightness; the maps have half of the height and width."""
    random = np.random.default_rng(5)
    examples = []
    for _ in range(40):
        values = random.integers(0, 2, (8, 6), np.uint8)
        examples.append(LabelledPicture(Picture(values[..., None] * np.uint8(200)), UnitLabels(NAMES, values.ravel())))
    config = LeNetLabelling(
        size=(8, 6), channels=(12,), kernels=(3,), pooled=(1,), pooling="max", padded=True, width=64
    )
    training = ClassifierTrainingConfig(epochs=10, batch=4, learning_rate=0.02)
    model = chainrule.train_classifier(examples, config, unit="pixel", training=training, progress=False)
    assert model.assess(examples).accuracy.share > 0.6  # half of the pixels are lost in pooling
    with pytest.raises(SettingError, match="whose pooling divides the size"):
        build_classifier(replace(config, size=(7, 6)), NAMES, "pixel", 0)


def test_a_network_of_whole_pictures_refuses_pixels() -> None:
    with pytest.raises(SettingError, match="lenet labels whole pictures, not pixels"):
        chainrule.train_classifier(under_lines(4), LeNetLabelling(size=(9, 7)), unit="pixel", progress=False)
