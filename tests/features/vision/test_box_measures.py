"""Average precision: by hand, and by its definition."""

from __future__ import annotations

import numpy as np
import pytest

from chainrule.features.vision.object_detection import average_precision, measure_boxes
from chainrule.features.vision.pictures.boxes import BoxLabels, Detection


def test_average_precision_by_hand() -> None:
    """Right, wrong, right, wrong, wrong, right of 4 boxes: precision 1, 1/2, 2/3, 2/4, 2/5, 3/6.

    At recall 1/4 it is 1, at 2/4 it is 2/3, at 3/4 it is 3/6, and 4/4 is not reached.
    """
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    is_right = np.array([1, 0, 1, 0, 0, 1], bool)
    expected = (1 + 2 / 3 + 1 / 2) / 4
    assert average_precision(scores, is_right, 4) == pytest.approx(expected)
    order = np.array([3, 0, 5, 2, 4, 1])
    assert average_precision(scores[order], is_right[order], 4) == pytest.approx(expected)
    assert average_precision(scores[:0], is_right[:0], 4) == 0
    assert average_precision(scores[:2], np.array([False, True]), 1) == pytest.approx(1 / 2)


def test_a_true_box_is_found_once() -> None:
    """Of label a: two proposals for one true box, the second of them wrong; and one in a picture that has no a."""
    true = [BoxLabels([[0, 0, 10, 10], [20, 0, 30, 10]], ["a", "b"]), BoxLabels([[0, 0, 10, 10]], ["b"])]
    proposed = [
        [
            Detection((0, 0, 10, 9), "a", 0.9),  # overlap 0.9
            Detection((0, 0, 10, 10), "a", 0.8),
            Detection((20, 0, 30, 10), "a", 0.3),  # there is a b
            Detection((20, 0, 30, 4), "b", 0.7),  # overlap 0.4
        ],
        [Detection((0, 0, 10, 5), "b", 0.6), Detection((5, 5, 9, 9), "c", 0.2)],  # overlap 0.5
    ]
    measured = measure_boxes(proposed, true)
    assert measured.average_precision == pytest.approx({"a": 1.0, "b": 1 / 2 / 2})
    assert measured.mean_average_precision == pytest.approx(5 / 8)
    assert (measured.precision, measured.recall) == pytest.approx((2 / 4, 2 / 3))  # of scores of 0.5 or more
    assert (measured.boxes, measured.pictures) == (3, 2)
    stricter = measure_boxes(proposed, true, overlap=0.95)
    assert stricter.average_precision == pytest.approx({"a": 1 / 2, "b": 0})
    assert "mean average precision" in str(measured)
    assert measured.as_json()["mean_average_precision"] == pytest.approx(5 / 8)
