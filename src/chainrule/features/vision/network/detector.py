"""A detector of one stage: each place of the last maps proposes a box, how sure it is of it, and its label.

After YOLO9000 (Redmon and Farhadi 2017), without anchors: the place that the centre of a thing is in has to propose it.
Legend: B pictures, C labels, h and w rows and columns of the last maps, N boxes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.base.progress import Progress, silent
from chainrule.features.vision.pictures.boxes import Detection, suppress_overlapping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Float32, UInt8
    from numpy import ndarray

    from chainrule.features.vision.network.body import PictureBody
    from chainrule.features.vision.network.config import PictureLabelling

    Pixels = UInt8[ndarray, "H W C"]
    BoxRows = Float32[ndarray, "N 5"]  # the index of the label, then left, top, right, bottom in pixels of the frame

_BATCH = 16  # pictures
_RARE = 0.01  # how sure each place is of a box before training
_LONGEST = 8.0  # log of a side over the distance of places, at most: no box is larger than 3,000 places
MOST_BOXES = 100  # of a picture


class Proposals(NamedTuple):
    """The proposals of the places of pictures.

    is_box: the logit that the centre of a thing is there. centres: x and y within the place, 0 to 1 from its upper left
    corner to its lower right one. sides: the logs of width and height, in distances between places. labels: logits.
    """

    is_box: Float[Tensor, "B h w"]
    centres: Float[Tensor, "B h w 2"]
    sides: Float[Tensor, "B h w 2"]
    labels: Float[Tensor, "B h w C"]


class BoxDetector(nn.Module):
    """Maps of pictures, a 3x3 convolution of as many channels, and what each place proposes.

    It is a `LabelNetwork` of `chainrule.features.classify.objective` but for `log_probs`.
    """

    unit, reads = "box", "picture"

    def __init__(self, config: PictureLabelling, body: PictureBody, width: int, labels: Sequence[str]) -> None:
        """Build the layers that propose boxes. width: the number of channels of the body's last maps."""
        super().__init__()
        self.config, self.labels = config, tuple(labels)
        body.pool, body.flip, body.unit = nn.Identity(), False, self.unit
        self.body = body
        self.head = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 5 + len(self.labels), 1)
        )
        last = cast("nn.Conv2d", self.head[2])
        nn.init.zeros_(last.weight)
        nn.init.zeros_(cast("Tensor", last.bias))
        with torch.no_grad():
            cast("Tensor", last.bias)[0] = math.log(_RARE / (1 - _RARE))

    def forward(self, inputs: Sequence[Pixels]) -> Float[Tensor, "B h w 5+C"]:
        """Return the numbers of each place, which `proposals` divides."""
        return cast("Tensor", self.head(self.body.maps(inputs))).permute(0, 2, 3, 1)

    def size(self, item: Pixels) -> int:
        """Implement `Body.size`."""
        return self.body.size(item)

    def matrices(self) -> list[nn.Parameter]:
        """Return the weights of layers."""
        return [weight for weight in self.parameters() if weight.ndim >= 2]

    def places(self, rows: int, columns: int) -> tuple[float, float]:
        """Return the pixels between two places, from left to right and from top to bottom."""
        return self.config.frame.width / columns, self.config.frame.height / rows

    @torch.inference_mode()
    def detect(
        self, inputs: Sequence[Pixels], progress: Progress = silent, *, least: float = 0.5, overlap: float = 0.5
    ) -> list[list[Detection]]:
        """Return the boxes of each picture, in pixels of the frame, best first.

        least: the lowest score of a box that is kept. overlap: of two boxes with one label that overlap more, only the
        better one stays.
        """
        detections: list[list[Detection]] = []
        for first in range(0, len(inputs), _BATCH):
            progress("finding boxes", first, len(inputs))
            batch = inputs[first : first + _BATCH]
            for item in batch:
                self.body.check(item)
            detections += self.boxes_of(proposals(self(batch).float()), least, overlap)
        return detections

    def boxes_of(self, proposed: Proposals, least: float, overlap: float = 0.5) -> list[list[Detection]]:
        """Return the boxes of each picture of a batch, as `detect` gives them."""
        boxes = self._boxes(proposed)
        scores = proposed.is_box.sigmoid()[..., None] * proposed.labels.softmax(-1)
        rows = (array.flatten(1, 2).cpu().numpy() for array in (boxes, scores))
        return [self._best(own, sure, least, overlap) for own, sure in zip(*rows, strict=True)]

    def _boxes(self, proposed: Proposals) -> Float[Tensor, "B h w 4"]:
        """Return boxes in pixels of the frame, clipped at its edges."""
        rows, columns = proposed.is_box.shape[1:]
        device = proposed.is_box.device
        corners = torch.stack(
            torch.meshgrid(torch.arange(columns, device=device), torch.arange(rows, device=device), indexing="xy"), -1
        )
        distance = torch.tensor(self.places(rows, columns), device=device)
        centres = (corners + proposed.centres) * distance
        halves = proposed.sides.clamp(max=_LONGEST).exp() * distance / 2
        edges = torch.tensor([self.config.frame.width, self.config.frame.height], device=device)
        low, high = (torch.minimum((centres + sign * halves).clamp(min=0), edges) for sign in (-1, 1))
        return torch.cat((low, high), -1)

    def _best(
        self, boxes: Float32[ndarray, "L 4"], scores: Float32[ndarray, "L C"], least: float, overlap: float
    ) -> list[Detection]:
        """Return the best boxes of all that a picture's places propose."""
        kept = []
        for label, name in enumerate(self.labels):
            sure = np.flatnonzero(scores[:, label] >= least)
            for i in sure[suppress_overlapping(boxes[sure], scores[sure, label], overlap)]:
                left, top, right, bottom = boxes[i].tolist()
                if left < right and top < bottom:
                    kept.append(Detection((left, top, right, bottom), name, float(scores[i, label])))
        return sorted(kept, key=lambda one: -one.score)[:MOST_BOXES]


def box_detector(config: PictureLabelling, labels: Sequence[str], vocabulary_size: int) -> BoxDetector:
    """Return a detector with initial weights, drawn from torch's random generator."""
    body = config.body.get()(config, vocabulary_size, BoxDetector.unit)
    return BoxDetector(config, body, body.layers.width, labels)


def proposals(raw: Float[Tensor, "B h w 5+C"]) -> Proposals:
    """Split the numbers that `forward` gives for each place into Proposals."""
    return Proposals(raw[..., 0], raw[..., 1:3].sigmoid(), raw[..., 3:5], raw[..., 5:])


def detection_loss(proposed: Proposals, true: Sequence[BoxRows], distance: tuple[float, float]) -> Tensor:
    """Return the sum of the losses of all places of all pictures.

    Each place: -log P(whether the centre of a thing is there). Where it is, also -log P(label), and the distances of
    centre and logs of sides from the true ones. Of things whose centres share a place, the smallest counts. true: the
    true boxes, in pixels of the frame. distance: that between places, in pixels.
    """
    is_box = torch.zeros_like(proposed.is_box)
    rows: list[tuple[int, int, int]] = []
    targets: list[list[float]] = []
    for picture, boxes in enumerate(true):
        of_places: dict[tuple[int, int, int], list[float]] = {}
        areas = (boxes[:, 3:] - boxes[:, 1:3]).prod(1)
        for label, *box in boxes[np.argsort(-areas, kind="stable")].tolist():
            place, target = _place(box, is_box.shape[1:], distance)
            of_places[picture, *place] = [label, *target]
        rows += of_places
        targets += of_places.values()
    if not rows:
        return F.binary_cross_entropy_with_logits(proposed.is_box, is_box, reduction="sum")
    at = tuple(torch.tensor(rows, device=is_box.device).T)
    is_box[at] = 1
    expected = torch.tensor(targets, device=is_box.device)
    return (
        F.binary_cross_entropy_with_logits(proposed.is_box, is_box, reduction="sum")
        + F.cross_entropy(proposed.labels[at], expected[:, 0].long(), reduction="sum")
        + F.l1_loss(proposed.centres[at], expected[:, 1:3], reduction="sum")
        + F.l1_loss(proposed.sides[at], expected[:, 3:], reduction="sum")
    )


def _place(box: Sequence[float], size: Sequence[int], distance: tuple[float, float]) -> tuple[tuple[int, int], Any]:
    """Return the row and column of the place that has to propose a box, and its target: centre and logs of sides."""
    left, top, right, bottom = box
    x, y = (left + right) / 2 / distance[0], (top + bottom) / 2 / distance[1]
    column, row = min(int(x), size[1] - 1), min(int(y), size[0] - 1)
    sides = (math.log(max(right - left, 1e-3) / distance[0]), math.log(max(bottom - top, 1e-3) / distance[1]))
    return (row, column), (x - column, y - row, *sides)
