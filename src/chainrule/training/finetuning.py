"""Fine-tuning: a pre-trained network gets a head and learns labels."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch

from chainrule.errors import SettingError
from chainrule.neural.build_network import build
from chainrule.neural.classifier import Classifier, layer_widths
from chainrule.neural.config import settings_of as network_settings
from chainrule.neural.quantising import check_trainable
from chainrule.training.defaults import Recipe
from chainrule.training.job import TrainingJob
from chainrule.training.labels import LabelObjective, split, steps_in_epoch
from chainrule.training.run import run_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.neural.network import Network
    from chainrule.text.document_units import UnitTokens
    from chainrule.text.labelled import LabelledUnit
    from chainrule.training.finetuning_config import FineTuningConfig
    from chainrule.training.labels import Example, LabelData
    from chainrule.training.options import TrainingRun


def finetune_network(
    network: Network,
    labels: Sequence[str],
    unit: LabelledUnit,
    examples: Sequence[Example[UnitTokens]],
    config: FineTuningConfig,
    run: TrainingRun,
) -> tuple[Classifier, dict[str, Any]]:
    """A classifier in evaluation mode, on the CPU, with its record. The given network does not change.

    Raises SettingError if layers cannot be mixed, and what `run_job` raises.
    """
    check_trainable(network)
    data = split(examples, config.valid_share, config.seed)
    settled = config.fitted_to(len(data.training))
    classifier, record = run_job(_job(network, labels, unit, data, config, settled, run), run)
    steps = steps_in_epoch(len(data.training), _batch_of(settled))
    validation = record.get("validation")
    return classifier, {
        **record,
        "batch": settled.batch,
        "most_epochs": settled.epochs,
        "epochs": -(-record["steps"] // steps),
        "best_epoch": -(-(record["steps"] if validation is None else validation["step"]) // steps),
        "validation_nats": None if validation is None else validation["loss"],
        "validation_accuracy": None if validation is None else validation["accuracy"],
        "examples": len(data.training),
        "validation_examples": len(data.validation),
    }


def _job(
    network: Network,
    labels: Sequence[str],
    unit: LabelledUnit,
    data: LabelData[UnitTokens],
    config: FineTuningConfig,
    settled: FineTuningConfig,
    run: TrainingRun,
) -> TrainingJob[Classifier]:
    """settled: the configuration with its defaults filled in."""
    widths = layer_widths(network)
    if config.mixed and len(set(widths)) > 1:
        raise SettingError(f"layers of different widths, {widths}, cannot be mixed; leave mixed=True out")
    batch, steps = _batch_of(settled), steps_in_epoch(len(data.training), _batch_of(settled))

    def build_classifier() -> Classifier:
        body = build(network.config, network.vocabulary_size) if config.fresh else copy.deepcopy(network).float()
        body.requires_grad_(not config.frozen)
        mixed = len(widths) if config.mixed else 0
        return Classifier(body, labels, unit, width=widths[-1], mixed_layers=mixed, dropout=config.dropout)

    training = settled.training(steps)
    return TrainingJob(
        training=training,
        recipe=Recipe(batch, config.learning_rate, config.learning_rate, settled.warm_up(len(data.training), steps)),
        network={**network_settings(network.config), "weights": _digest_of(network), "head": asdict(config)},
        text={
            "family": "classifier",
            "unit": unit,
            **data.as_json(),
            "vocabulary": network.vocabulary_size,
            "labels": list(labels),
        },
        build=build_classifier,
        matrices=Classifier.matrices,
        objective=lambda classifier, setup: LabelObjective(classifier, setup, data),
        step=f"{batch} texts",
        smaller="batch, or cut long texts into parts",
        notes=() if settled == config else (_fitted_note(settled, len(data.training)),),
        keeps_best=True,
        calmer="a lower learning_rate",
    )


def _batch_of(settled: FineTuningConfig) -> int:
    assert settled.batch is not None
    return settled.batch


def _fitted_note(settled: FineTuningConfig, texts: int) -> str:
    epochs = "" if settled.epochs is None else f", for at most {settled.epochs} epochs"
    return f"the texts are {texts:,}, so each step reads {settled.batch}{epochs}"


def _digest_of(network: Network) -> str:
    """A digest that identifies these weights."""
    digest = hashlib.sha256()
    for weight in network.state_dict().values():
        digest.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]
