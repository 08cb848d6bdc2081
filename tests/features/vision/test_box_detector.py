"""The detector: what places propose is read back as boxes, and the loss is that of a loop over places."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from chainrule.features.classify.network.build import build_classifier
from chainrule.features.vision.network.config import LeNetLabelling, ResNetLabelling, ViTLabelling
from chainrule.features.vision.network.detector import BoxDetector, detection_loss, proposals

CONFIG = ResNetLabelling(size=(24, 32), width=4, blocks=(1, 1, 1))
DISTANCE = (4.0, 4.0)  # of the places of 24 x 32 pixels: 6 x 8


def detector(config: ResNetLabelling = CONFIG, labels: tuple[str, ...] = ("a", "b")) -> BoxDetector:
    torch.manual_seed(0)
    built = build_classifier(config, labels, "box", 0)
    assert isinstance(built, BoxDetector)
    return built.eval()


def test_the_loss_is_that_of_a_loop_over_places() -> None:
    torch.manual_seed(1)
    raw = torch.randn(2, 6, 8, 7, dtype=torch.float64)
    true = [
        np.array([[1, 5, 2, 17, 12], [0, 0, 0, 32, 24], [1, 14, 10, 19, 15]], np.float32),  # the last two share a place
        np.empty((0, 5), np.float32),
    ]
    # centres: (11, 7) in place (1, 2); (16, 12) and (16.5, 12.5) in (3, 4), where the smaller one counts
    wanted = {(0, 1, 2): true[0][0], (0, 3, 4): true[0][2]}
    loss = 0.0
    for picture, row, column in np.ndindex(2, 6, 8):
        is_box, x, y, width, height, *labels = raw[picture, row, column].tolist()
        box = wanted.get((picture, row, column))
        loss += math.log1p(math.exp(-is_box if box is not None else is_box))
        if box is not None:
            label, left, top, right, bottom = box.tolist()
            loss += math.log(sum(map(math.exp, labels))) - labels[int(label)]
            for given, side, low, high, index in ((x, width, left, right, column), (y, height, top, bottom, row)):
                loss += abs(1 / (1 + math.exp(-given)) - ((low + high) / 2 / 4 - index))
                loss += abs(side - math.log((high - low) / 4))
    assert float(detection_loss(proposals(raw), true, DISTANCE)) == pytest.approx(loss, rel=1e-6)


def test_boxes_are_read_back_from_what_places_propose(monkeypatch: pytest.MonkeyPatch) -> None:
    network = detector()
    raw = torch.full((1, 6, 8, 7), -20.0)
    # place (2, 3), its middle, 8 x 12 pixels, label b; place (0, 0), 32 x 32 pixels, cut at the edges, label a
    raw[0, 2, 3] = torch.tensor([9.0, 0, 0, math.log(2), math.log(3), -9, 9])
    raw[0, 0, 0] = torch.tensor([5.0, 0, 0, math.log(8), math.log(8), 9, -9])
    raw[0, 2, 4] = torch.tensor([3.0, -20, 0, math.log(2), math.log(3), -9, 9])  # overlaps the first one
    monkeypatch.setattr(network, "forward", lambda inputs: raw)
    [[first, second]] = network.detect([np.zeros((24, 32, 3), np.uint8)])
    assert first.label == "b"
    assert first.box == pytest.approx((14 - 4, 10 - 6, 14 + 4, 10 + 6), abs=1e-4)
    assert second.label == "a"
    assert second.box == pytest.approx((0, 0, 18, 18), abs=1e-4)
    assert second.score == pytest.approx(1 / (1 + math.exp(-5)), abs=1e-6)
    assert len(network.detect([np.zeros((24, 32, 3), np.uint8)], overlap=0.9)[0]) == 3


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        ViTLabelling(size=(16,), patch=4, width=16, layers=1, heads=2),
        LeNetLabelling(size=(16,), channels=(4, 4)),
    ],
)
def test_a_picture_is_seen_alike_in_any_batch(config: ResNetLabelling) -> None:
    network = detector(config, ("only",))
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(torch.randn_like(weight) * 0.1)
    frame = config.frame
    pictures = list(np.random.default_rng(0).integers(0, 256, (3, frame.height, frame.width, 3)).astype(np.uint8))
    together = network.detect(pictures, least=0.001, overlap=1.0)
    for picture, boxes in zip(pictures, together, strict=True):
        [alone] = network.detect([picture], least=0.001, overlap=1.0)
        assert len(alone) == len(boxes) > 0
        for one, other in zip(alone, boxes, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-5)
    assert all(0 <= box[0] < box[2] <= frame.width for boxes in together for box, _, _ in boxes)
