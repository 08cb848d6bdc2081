"""The objective of a detector: the loss of what its places propose, given a picture's true boxes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from chainrule.features.classify.objective import TIE
from chainrule.features.vision.network.detector import detection_loss, proposals
from chainrule.features.vision.network.visual_sources import grid_of
from chainrule.features.vision.object_detection import LEAST_SCORE, measure_boxes
from chainrule.features.vision.pictures.boxes import BoxLabels
from chainrule.training.batches import ExampleObjective
from chainrule.training.job import ValidationResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from chainrule.features.classify.objective import Example, LabelData
    from chainrule.features.vision.network.detector import BoxDetector, BoxRows, Proposals
    from chainrule.features.vision.pictures.boxes import Detection
    from chainrule.training.job import Setup

_PART = 16  # pictures
_CENTRE = 0.25  # mean distance of a centre anywhere between two places from their middle


class MicroBatch(NamedTuple):
    """Some pictures of a step, and their boxes."""

    inputs: list[Any]
    boxes: list[Any]


class BoxObjective(ExampleObjective["Example[Any]"]):
    """An Objective: `detection_loss`, in nats and distances, for each true box. `tokens` sums the sizes of pictures."""

    def __init__(self, network: BoxDetector, setup: Setup, data: LabelData[Any]) -> None:
        """Prepare the examples for training and validation.

        Raises SettingError if a step cannot be divided among processes and parts.
        """
        self.network = network
        super().__init__(
            setup,
            data.training,
            data.validation,
            "pictures",
            size=lambda example: network.size(example.input),
            predictions=lambda example: len(example.labels),
            flops_per_token=6.0 * sum(weight.numel() for weight in network.matrices()),
        )

    def cut(self, examples: Sequence[Example[Any]]) -> list[MicroBatch]:
        return [_part(examples[first : first + _PART]) for first in range(0, len(examples), _PART)]

    def loss(self, number: int, part: MicroBatch, forward: Callable[..., Any], done: float) -> Tensor:
        return self._loss(proposals(forward(part.inputs).float()), part)

    def _loss(self, proposed: Proposals, part: MicroBatch) -> Tensor:
        return detection_loss(proposed, part.boxes, self.network.places(*proposed.is_box.shape[1:]))

    @torch.no_grad()
    def validate(self, tokens: int) -> ValidationResult:
        """Return the loss for each box, and `mean_average_precision`, as `measure_boxes` finds it.

        The best epoch has the highest precision, the figure that people report; of equal ones, the lowest loss.
        """
        examples, processes = self.held_out, self.setup.processes
        total = torch.zeros(2, dtype=torch.float64)
        found: list[list[Detection]] = []
        true: list[BoxLabels] = []
        for first in range(processes.rank * _PART, len(examples), processes.number * _PART):
            part = _part(examples[first : first + _PART])
            with self.setup.machine.precision():
                proposed = proposals(self.network(part.inputs).float())
                loss = self._loss(proposed, part)
            found += self.network.boxes_of(proposed, LEAST_SCORE)
            true += [self._labelled(rows) for rows in part.boxes]
            total += torch.tensor([float(loss), sum(map(len, part.boxes))], dtype=torch.float64)
        processes.add([total])
        nats, boxes = total.tolist()
        found, true = processes.collect(found), processes.collect(true)
        loss, figures = nats / max(1, boxes), {"examples": float(len(examples))}
        if not boxes:
            return ValidationResult(loss, 1, figures)
        precision = measure_boxes(found, true).mean_average_precision
        figures["mean_average_precision"] = precision
        return ValidationResult(loss, int(boxes), figures, -precision + TIE * loss)

    def _labelled(self, rows: BoxRows) -> BoxLabels:
        """Return boxes with the names of their labels."""
        return BoxLabels(rows[:, 1:], [self.network.labels[int(label)] for label in rows[:, 0]])

    def unigram_loss(self) -> float:
        """Return the loss of a predictor that does not see the picture: it knows how frequent boxes and labels are, and
        the median box.
        """
        training, validation = (
            np.concatenate([example.labels for example in examples]) for examples in (self.examples, self.held_out)
        )
        if not len(validation):
            return 0.0
        rows, columns, _ = grid_of(self.network.body)
        share = min(0.5, len(training) / (len(self.examples) * rows * columns))  # of places with a box
        of_places = -math.log(share) - (1 - share) / share * math.log1p(-share)
        counts = np.bincount(training[:, 0].astype(np.int64), minlength=len(self.network.labels)) + 1
        of_labels = float(np.log(counts.sum() / counts[validation[:, 0].astype(np.int64)]).mean())
        sides = [np.log(np.maximum(boxes[:, 3:] - boxes[:, 1:3], 1e-3)) for boxes in (training, validation)]
        of_sides = float(np.abs(sides[1] - np.median(sides[0], 0)).sum(1).mean())
        return of_places + of_labels + of_sides + 2 * _CENTRE


def _part(examples: Sequence[Example[Any]]) -> MicroBatch:
    return MicroBatch([example.input for example in examples], [example.labels for example in examples])
