"""Training a classifier from scratch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from chainrule.errors import SettingError
from chainrule.neural.classification.build import build_classifier
from chainrule.neural.config.classifiers import labelling_settings
from chainrule.neural.vision.detector import BoxDetector
from chainrule.protocol import UNKNOWN
from chainrule.training.boxes import BoxObjective
from chainrule.training.initial_vectors import coverage_of, set_rows
from chainrule.training.label_learning import Learner, learn_labels
from chainrule.training.labels import LabelObjective

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.neural.classification.classifier import ScratchClassifier
    from chainrule.neural.config.network import LabellingConfig
    from chainrule.training.label_config import LabelTraining
    from chainrule.training.labels import LabelData
    from chainrule.training.options import InitialVectors, TrainingRun


def train_from_scratch(
    network: LabellingConfig,
    labels: Sequence[str],
    unit: str,
    vocabulary_size: int,
    data: LabelData[Any],
    config: LabelTraining,
    run: TrainingRun,
    *,
    vectors: InitialVectors | None = None,
    inputs: str = "texts",
    origin: dict[str, Any] | None = None,
) -> tuple[ScratchClassifier | BoxDetector, dict[str, Any]]:
    """A classifier, or of boxes a detector, in evaluation mode, on the CPU, with its record.

    vectors: what those of tokens begin as. inputs: what is labelled, in the plural, for messages. origin: what else
    must be the same for a run to go on. Raises SettingError, EstimationError, and what `run_job` raises.
    """

    def build() -> ScratchClassifier | BoxDetector:
        classifier = build_classifier(network, labels, unit, vocabulary_size)
        if vectors is not None:
            if isinstance(classifier, BoxDetector) or classifier.body.embedding is None:
                raise SettingError("this network reads no tokens, so there are no vectors for it; leave them out")
            set_rows(classifier.body.embedding, vectors, "embedding_width")
            if UNKNOWN not in vectors.vectors.ids:
                with torch.no_grad():
                    classifier.body.embedding[UNKNOWN] = 0
        return classifier

    text = {
        "family": "classifier",
        "unit": unit,
        "vocabulary": vocabulary_size,
        "labels": list(labels),
        "vectors": None if vectors is None else vectors.name,
        **(origin or {}),
    }
    note = None if vectors is None else coverage_of(vectors, vocabulary_size)
    learner: Learner[Any] = Learner(
        build=build,
        network=labelling_settings(network),
        text=text,
        inputs=inputs,
        note=note,
        objective=BoxObjective if unit == BoxDetector.unit else LabelObjective,
    )
    return learn_labels(learner, data, config, run)
