"""Fine-tuning: a pre-trained network gets a head and learns labels."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

import torch

from chainrule.errors import SettingError
from chainrule.neural.build import build
from chainrule.neural.classification.classifier import Classifier, layer_widths
from chainrule.neural.config import settings_of as network_settings
from chainrule.neural.quantization import check_trainable
from chainrule.training.label_learning import Learner, learn_labels
from chainrule.training.labels import split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.neural.network import Network
    from chainrule.text.labelled import LabelledUnit
    from chainrule.training.finetuning_config import FineTuningConfig
    from chainrule.training.labels import Example
    from chainrule.training.options import TrainingRun


def finetune_network(
    network: Network,
    labels: Sequence[str],
    unit: LabelledUnit | Literal["pair"],
    examples: Sequence[Example[Any]],
    config: FineTuningConfig,
    run: TrainingRun,
) -> tuple[Classifier, dict[str, Any]]:
    """A classifier in evaluation mode, on the CPU, with its record. The given network does not change.

    Raises SettingError if layers cannot be mixed, and what `run_job` raises.
    """
    check_trainable(network)
    widths = layer_widths(network)
    if config.mixed and len(set(widths)) > 1:
        raise SettingError(f"layers of different widths, {widths}, cannot be mixed; leave mixed=True out")

    def build_classifier() -> Classifier:
        body = build(network.config, network.vocabulary_size) if config.fresh else copy.deepcopy(network).float()
        body.requires_grad_(not config.frozen)
        mixed = len(widths) if config.mixed else 0
        return Classifier(body, labels, unit, width=widths[-1], mixed_layers=mixed, dropout=config.dropout)

    learner = Learner(
        build=build_classifier,
        network={**network_settings(network.config), "weights": _digest_of(network), "head": asdict(config)},
        text={"family": "classifier", "unit": unit, "vocabulary": network.vocabulary_size, "labels": list(labels)},
        inputs="pairs" if unit == "pair" else "texts",
    )
    return learn_labels(learner, split(examples, config.valid_share, config.seed), config, run)


def _digest_of(network: Network) -> str:
    """A digest that identifies these weights."""
    digest = hashlib.sha256()
    for weight in network.state_dict().values():
        digest.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]
