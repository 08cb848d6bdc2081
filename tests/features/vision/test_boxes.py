"""Boxes: overlap by counting pixels, suppression by its definition, and files with boxes that cannot be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

import chainrule
from chainrule.errors import TextError
from chainrule.features.vision.pictures.boxes import (
    boxes_in_frame,
    boxes_in_picture,
    check_boxes,
    overlaps,
    suppress_overlapping,
)
from chainrule.features.vision.pictures.picture import Frame, fit_to_frame

if TYPE_CHECKING:
    from pathlib import Path


def random_boxes(rng: np.random.Generator, count: int, side: int = 20) -> np.ndarray:
    first, second = rng.integers(0, side - 1, (2, count, 2))
    return np.hstack([np.minimum(first, second), np.maximum(first, second) + 1]).astype(np.float32)


def pixels_of(box: np.ndarray, side: int = 20) -> set[tuple[int, int]]:
    left, top, right, bottom = box.astype(int)
    return {(x, y) for x in range(left, right) for y in range(top, bottom)}


def test_overlap_is_shared_pixels_over_all_pixels() -> None:
    rng = np.random.default_rng(0)
    first, second = random_boxes(rng, 12), random_boxes(rng, 9)
    naive = [[len(pixels_of(a) & pixels_of(b)) / len(pixels_of(a) | pixels_of(b)) for b in second] for a in first]
    np.testing.assert_allclose(overlaps(first, second), naive)
    assert overlaps(np.zeros((1, 4), np.float32), second).tolist() == [[0.0] * 9]  # without an area
    assert overlaps(first[:0], second).shape == (0, 9)


def test_suppression_keeps_the_best_of_boxes_that_overlap() -> None:
    rng = np.random.default_rng(1)
    for most in (0.1, 0.3, 0.5, 0.9):
        boxes, scores = random_boxes(rng, 40), rng.integers(0, 10, 40).astype(np.float32)
        kept: list[int] = []
        for i in sorted(range(40), key=lambda i: (-scores[i], i)):
            if all(overlaps(boxes[[i]], boxes[[j]])[0, 0] <= most for j in kept):
                kept.append(i)
        assert suppress_overlapping(boxes, scores, most).tolist() == kept
    assert suppress_overlapping(boxes[:0], scores[:0]).size == 0


@pytest.mark.parametrize("fit", ["crop", "stretch", "pad"])
def test_boxes_move_with_the_picture(fit: Any) -> None:
    """A red rectangle is where its box is, whatever is done to the picture."""
    pixels = np.zeros((40, 60, 3), np.uint8)
    box = np.array([[20, 10, 36, 30]], np.float32)
    pixels[10:30, 20:36, 0] = 255
    for size in ((40, 60), (20, 20), (32, 16), (80, 160)):
        frame = Frame(height=size[0], width=size[1], fit=fit)
        moved, is_inside = boxes_in_frame(box, (40, 60), frame)
        rows, columns = np.nonzero(fit_to_frame(chainrule.as_picture(pixels), frame)[..., 0] > 127)
        seen = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        np.testing.assert_allclose(moved[0], seen, atol=1.01)
        assert is_inside.tolist() == [True]
        if moved.min() > 0 and moved[0, 2] < size[1] and moved[0, 3] < size[0]:
            np.testing.assert_allclose(boxes_in_picture(moved, (40, 60), frame), box, atol=1e-4)


def test_boxes_that_are_cut_off_are_left_out() -> None:
    frame = Frame(height=10, width=10)
    boxes = np.array([[0, 0, 4, 10], [14, 0, 20, 10]], np.float32)  # the middle third of 30 x 10 is columns 10 to 20
    moved, is_inside = boxes_in_frame(boxes, (10, 30), frame)
    assert is_inside.tolist() == [False, True]
    assert moved[1].tolist() == [4, 0, 10, 10]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Image.new("RGB", (30, 20)).save(tmp_path / "1.png")
    (tmp_path / "broken.png").write_bytes((tmp_path / "1.png").read_bytes()[:40])
    return tmp_path


def write(folder: Path, *records: object) -> Path:
    path = folder / "boxes.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_pictures_with_boxes_are_read(folder: Path) -> None:
    boxes = [{"box": [0, 0, 30, 20], "label": "all"}, {"box": [1.5, 2, 3, 4], "label": 7}]
    path = write(folder, {"image": "1.png", "boxes": boxes}, {"picture": "1.png", "boxes": []})
    first, second = chainrule.read_boxes(path)
    assert list(first.labels) == ["all", "7"]
    assert first.labels.boxes.tolist() == [[0, 0, 30, 20], [1.5, 2, 3, 4]]  # type: ignore[attr-defined]
    assert len(second.labels) == 0
    half = chainrule.read_boxes(path, Frame(height=10, width=15))[0]
    assert half.input.pixels.shape == (10, 15, 3)
    assert half.labels.boxes[0].tolist() == [0, 0, 15, 10]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"boxes": [{"box": [0, 0, 31, 20], "label": "a"}]}, r"line 1: the box of 'a' is 0, 0, 31, 20, outside its"),
        ({"boxes": [{"box": [-1, 0, 3, 20], "label": "a"}]}, "outside its picture of 30 x 20 pixels"),
        ({"boxes": [{"box": [5, 0, 5, 20], "label": "a"}]}, "with left < right and top < bottom"),
        ({"boxes": [{"box": [0, 0, 5], "label": "a"}]}, "expected four numbers, left, top, right, bottom"),
        ({"boxes": [{"box": [0, 0, 5, True], "label": "a"}]}, "expected four numbers"),
        ({"boxes": [{"box": [0, 0, 5, 5]}]}, "a box has the label None; expected a string that is not empty"),
        ({"boxes": [{"box": [0, 0, 5, 5], "label": " "}]}, "a box has the label ' '"),
        ({"boxes": [[0, 0, 5, 5]]}, "expected a list of objects"),
        ({"boxes": "none"}, "expected a list of objects"),
        ({}, "there is no field 'boxes'"),
        ({"boxes": []}, "there is no picture with a box in it"),
        ({"image": "2.png", "boxes": []}, "line 1: .*2.png: there is no such"),
        ({"image": "broken.png", "boxes": []}, "line 1: .*broken.png"),
        ({"image": 3, "boxes": []}, "expected the path of a picture"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(folder: Path, record: dict[str, Any], message: str) -> None:
    path = write(folder, {"image": "1.png", **record})
    with pytest.raises(TextError, match=message):
        chainrule.read_boxes(path)


def test_bad_lines_can_be_left_out(folder: Path) -> None:
    good = {"image": "1.png", "boxes": [{"box": [0, 0, 5, 5], "label": "a"}]}
    path = write(folder, {"image": "1.png", "boxes": 3}, good, ["no object"])
    problems: list[TextError] = []
    assert len(chainrule.read_boxes(path, on_bad=problems.append)) == 1
    assert len(problems) == 2


def test_numbers_that_are_none_are_no_box() -> None:
    for box in ([0, 0, float("nan"), 5], [0, 0, float("inf"), 5], [float("-inf"), 0, 3, 5]):
        with pytest.raises(TextError, match="here: the box of 'a'"):
            check_boxes(chainrule.BoxLabels([box], ["a"]), (20, 30), "here")
    with pytest.raises(TextError, match="1 boxes and 2 labels"):
        chainrule.BoxLabels([[0, 0, 1, 1]], ["a", "b"])
    with pytest.raises(TextError, match="expected BoxLabels"):
        check_boxes(("a",), (20, 30), "here")
