"""Runs that learn labels: of a new network (`train_from_scratch`), or a head on a trained one (`finetune_network`)."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import torch

from chainrule.errors import SettingError
from chainrule.features.classify.network.build import build_classifier
from chainrule.features.classify.network.classifier import FineTunedClassifier, layer_widths
from chainrule.features.classify.network.config import labelling_settings
from chainrule.features.classify.objective import LabelObjective, split
from chainrule.features.classify.units import unit_kind
from chainrule.neural.build import build
from chainrule.neural.config import settings_of as network_settings
from chainrule.neural.config.network import LabellingConfig
from chainrule.neural.quantization import check_trainable
from chainrule.protocol import UNKNOWN
from chainrule.training.batches import steps_in_epoch
from chainrule.training.defaults import Recipe
from chainrule.training.job import TrainingJob
from chainrule.training.objectives.stream import coverage_of, set_rows
from chainrule.training.run import run_job

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chainrule.features.classify.labelled.texts import LabelledUnit
    from chainrule.features.classify.objective import Example, LabelData
    from chainrule.neural.network import Network
    from chainrule.training.config import ClassifierTrainingConfig, FineTuningConfig, InitialVectors, TrainingRun
    from chainrule.training.job import Objective, Setup

N = TypeVar("N", bound=Any)  # a LabelNetwork that is a torch module


@dataclass(frozen=True)
class Learner(Generic[N]):
    """A network that is not built yet, as in `TrainingJob`.

    network: its settings; text: the record of its inputs, besides the examples; both must be the same for a run to
    resume. inputs: what its inputs are called, in the plural, for messages. note: printed before the first step.
    objective: makes the objective of a network. steps_in_epoch: as in `LabellingConfig`.
    """

    build: Callable[[], N]
    network: dict[str, Any]
    text: dict[str, Any]
    inputs: str
    note: str | None = None
    objective: Callable[[N, Setup, LabelData[Any]], Objective] = LabelObjective
    steps_in_epoch: int = LabellingConfig.steps_in_epoch


def learn_labels(
    learner: Learner[N], data: LabelData[Any], config: ClassifierTrainingConfig, run: TrainingRun
) -> tuple[N, dict[str, Any]]:
    """Return the network in evaluation mode, on the CPU, with the weights of the best epoch; and its record.

    Raises SettingError where there is no such device, or a step does not fit into memory; EstimationError where the
    loss is no number; and what `run_job` raises.
    """
    settled = config.fitted_to(len(data.training), learner.steps_in_epoch)
    assert settled.batch is not None
    steps = steps_in_epoch(len(data.training), settled.batch)
    fitted = None if settled == config else _fitted_note(settled, len(data.training), learner.inputs)
    job = TrainingJob(
        training=settled.training(steps),
        recipe=Recipe(
            settled.batch, config.learning_rate, config.learning_rate, settled.warm_up(len(data.training), steps)
        ),
        network=learner.network,
        text={**learner.text, **data.as_json()},
        build=learner.build,
        matrices=lambda network: network.matrices(),
        objective=lambda network, setup: learner.objective(network, setup, data),
        step=f"{settled.batch} {learner.inputs}",
        memory_hint=f"batch, or cut long {learner.inputs} into parts",
        notes=tuple(note for note in (fitted, learner.note) if note),
        keeps_best=True,
        divergence_hint="a lower learning_rate",
    )
    network, record = run_job(job, run)
    validation = record.get("validation")
    return network, {
        **record,
        "batch": settled.batch,
        "most_epochs": settled.epochs,
        "epochs": -(-record["steps"] // steps),
        "best_epoch": -(-(record["steps"] if validation is None else validation["step"]) // steps),
        "validation_nats": None if validation is None else validation["loss"],
        "validation_accuracy": None if validation is None else validation.get("accuracy"),
        "examples": len(data.training),
        "validation_examples": len(data.validation),
    }


def _fitted_note(settled: ClassifierTrainingConfig, examples: int, inputs: str) -> str:
    most = settled.epochs
    epochs = "" if most is None else f", for at most {most} epoch{'' if most == 1 else 's'}"
    return f"the {inputs} are {examples:,}, so each step reads {settled.batch}{epochs}"


def train_from_scratch(
    network: LabellingConfig,
    labels: Sequence[str],
    unit: str,
    vocabulary_size: int,
    data: LabelData[Any],
    config: ClassifierTrainingConfig,
    run: TrainingRun,
    *,
    vectors: InitialVectors | None = None,
    inputs: str = "texts",
    origin: dict[str, Any] | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Return a classifier, as `build_classifier` makes it, in evaluation mode, on the CPU, with its record.

    vectors: those that token vectors are initialised with. inputs: what inputs are called, in the plural, for messages.
    origin: what else must be the same for a run to resume. Raises SettingError, EstimationError, and what `run_job`
    raises.
    """

    def build() -> Any:
        classifier = build_classifier(network, labels, unit, vocabulary_size)
        if vectors is not None:
            if classifier.body.embedding is None:
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
        objective=unit_kind(unit).objective.get(),
        steps_in_epoch=network.steps_in_epoch,
    )
    return learn_labels(learner, data, config, run)


def finetune_network(
    network: Network,
    labels: Sequence[str],
    unit: LabelledUnit | Literal["pair"],
    examples: Sequence[Example[Any]],
    config: FineTuningConfig,
    run: TrainingRun,
) -> tuple[FineTunedClassifier, dict[str, Any]]:
    """Return a classifier in evaluation mode, on the CPU, with its record. The given network does not change.

    Raises SettingError if layers cannot be mixed, and what `run_job` raises.
    """
    check_trainable(network)
    widths = layer_widths(network)
    if config.mixed and len(set(widths)) > 1:
        raise SettingError(f"layers of different widths, {widths}, cannot be mixed; leave mixed=True out")

    def build_classifier() -> FineTunedClassifier:
        body = build(network.config, network.vocabulary_size) if config.fresh else copy.deepcopy(network).float()
        body.requires_grad_(not config.frozen)
        mixed = len(widths) if config.mixed else 0
        return FineTunedClassifier(body, labels, unit, width=widths[-1], mixed_layers=mixed, dropout=config.dropout)

    learner = Learner(
        build=build_classifier,
        network={**network_settings(network.config), "weights": _digest_of(network), "head": asdict(config)},
        text={"family": "classifier", "unit": unit, "vocabulary": network.vocabulary_size, "labels": list(labels)},
        inputs="pairs" if unit == "pair" else "texts",
    )
    return learn_labels(learner, split(examples, config.valid_share, config.seed), config, run)


def _digest_of(network: Network) -> str:
    """Return a digest that identifies these weights."""
    digest = hashlib.sha256()
    for weight in network.state_dict().values():
        digest.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]
