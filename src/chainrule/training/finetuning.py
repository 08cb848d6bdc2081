"""A pre-trained network gets a head and learns labels; the best epoch in validation is kept."""

from __future__ import annotations

import copy
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from chainrule.errors import EstimationError, SettingError
from chainrule.neural.building import build
from chainrule.neural.classifier import Classifier, layer_widths
from chainrule.neural.scoring import batched
from chainrule.training.eager import eager
from chainrule.training.machine import held_in_memory, machine_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Int64
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.neural.network import Network
    from chainrule.text.labelled import LabelledUnit
    from chainrule.text.units import UnitTokens
    from chainrule.training.finetuning_config import FineTuningConfig
    from chainrule.training.machine import Machine

_WARM_UP = 0.1  # share of the steps
_TOGETHER = 1 << 14  # tokens that are read at once


class Example(NamedTuple):
    """A text, and the number of the label of each of its units."""

    units: UnitTokens
    labels: Int64[ndarray, " units"]


class Validated(NamedTuple):
    """nats: -log P(label). Both are means over the units."""

    nats: float
    accuracy: float


def finetuned(
    network: Network,
    labels: Sequence[str],
    unit: LabelledUnit,
    examples: Sequence[Example],
    config: FineTuningConfig,
    told: Callable[[str], None],
    progress: Progress,
) -> tuple[Classifier, dict[str, Any]]:
    """A classifier in evaluation mode, on the CPU, with its record. The network that is given stays as it was.

    told: is given a line for each epoch. Raises SettingError where layers cannot be mixed or there is no such device,
    EstimationError where the loss is no number, SettingError where a step does not fit into memory.
    """
    began = time.perf_counter()
    machine = machine_on(config.device, config.precision)
    with torch.random.fork_rng(devices=[machine.device] if machine.device.type == "cuda" else []):
        torch.manual_seed(config.seed)
        body = build(network.config, network.vocabulary_size) if config.fresh else copy.deepcopy(network)
        if config.frozen:
            body.requires_grad_(False)
        widths = layer_widths(body)
        if config.mixed and len(set(widths)) > 1:
            raise SettingError(f"layers of the widths {widths} cannot be mixed; leave mixed=True out")
        layers = len(widths) if config.mixed else 0
        classifier = Classifier(body, labels, unit, width=widths[-1], mixed_layers=layers, dropout=config.dropout)
        learnt, kept = _divided(examples, config)
        fitted = config.fitted_to(len(learnt))
        if fitted != config:
            told(f"{fitted.batch} texts in a step, {fitted.epochs} epochs at most, for {len(learnt):,} texts")
        config = fitted
        classifier.to(machine.device)
        if (note := machine.note(classifier)) is not None:
            told(note)
        with held_in_memory(_does_not_fit):
            record = _trained(classifier, learnt, kept, config, machine, told, progress)
    return classifier.cpu().eval(), {
        **machine.as_json(),
        "float32_layers": machine.layers_in_float32(classifier),
        "batch": config.batch,
        "most_epochs": config.epochs,
        **record,
        "examples": len(learnt),
        "validation_examples": len(kept),
        "training_seconds": time.perf_counter() - began,
    }


def _divided(examples: Sequence[Example], config: FineTuningConfig) -> tuple[list[Example], list[Example]]:
    """Examples to learn from, and to validate on; every label stays among the former."""
    order = np.random.default_rng(config.seed).permutation(len(examples)).tolist()
    kept: list[Example] = []
    learnt: list[Example] = []
    seen: set[int] = set()
    wanted = int(config.valid_share * len(examples))
    for number in reversed(order):
        example = examples[number]
        own = set(example.labels.tolist())
        if own <= seen and len(kept) < wanted:
            kept.append(example)
        else:
            learnt.append(example)
            seen |= own
    return learnt, kept


def _trained(
    classifier: Classifier,
    learnt: Sequence[Example],
    kept: Sequence[Example],
    config: FineTuningConfig,
    machine: Machine,
    told: Callable[[str], None],
    progress: Progress,
) -> dict[str, Any]:
    """Leaves the classifier with the best weights. Ctrl-C ends it early, once there are some."""
    optimiser = eager(torch.optim.AdamW)(
        [weight for weight in classifier.parameters() if weight.requires_grad],
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
    )
    epochs, batch_size = config.epochs, config.batch
    assert epochs is not None
    assert batch_size is not None
    per_epoch = -(-len(learnt) // batch_size)
    steps = epochs * per_epoch
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate_share(step, steps))
    best = _Best()
    try:
        for epoch in range(1, epochs + 1):
            loss = 0.0
            for number, batch in enumerate(_batches(learnt, batch_size, [config.seed, epoch])):
                progress("fine-tuning", (epoch - 1) * per_epoch + number, steps)
                loss += _step(classifier, batch, optimiser, machine, frozen=config.frozen)
                schedule.step()
            with machine.precision():
                found = validated(classifier, kept) if kept else None
            _check_finite(epoch, loss, found)
            best.look(classifier, epoch, found)
            star = " *" * (best.epoch == epoch)
            validation = "" if found is None else f"  validation {found.nats:.4f}, {found.accuracy:.1%} right{star}"
            told(f"epoch {epoch}  loss {loss / per_epoch:.4f}{validation}")
            if epoch - best.epoch >= config.patience:
                break
    except KeyboardInterrupt:
        if best.weights is None:
            raise
        told(f"interrupted in epoch {epoch}; epoch {best.epoch}, the best so far, is taken")
    assert best.weights is not None
    classifier.load_state_dict(best.weights)
    found = best.validation
    return {
        "epochs": epoch,
        "best_epoch": best.epoch,
        "validation_nats": None if found is None else found.nats,
        "validation_accuracy": None if found is None else found.accuracy,
    }


class _Best:
    """The weights after the epoch with the lowest loss in validation; after the last one where there is none."""

    def __init__(self) -> None:
        self.validation: Validated | None = None
        self.epoch = 0
        self.weights: dict[str, torch.Tensor] | None = None

    def look(self, classifier: Classifier, epoch: int, found: Validated | None) -> None:
        if found is None or self.validation is None or found.nats < self.validation.nats:
            self.weights = {name: each.detach().clone() for name, each in classifier.state_dict().items()}
            self.validation, self.epoch = found, epoch


def _check_finite(epoch: int, loss: float, validation: Validated | None) -> None:
    """Raises EstimationError."""
    for name, nats in (("loss", loss), ("loss in validation", 0.0 if validation is None else validation.nats)):
        if not math.isfinite(nats):
            raise EstimationError(f"the {name} is {nats} in epoch {epoch}; try a lower learning rate (--learning-rate)")


def _step(
    classifier: Classifier,
    examples: Sequence[Example],
    optimiser: torch.optim.Optimizer,
    machine: Machine,
    *,
    frozen: bool,
) -> float:
    """-log P(label), the mean over the units. Long texts are read some at a time."""
    classifier.train()
    classifier.network.train(not frozen)
    units = sum(example.labels.size for example in examples)
    by_length = sorted(examples, key=_length, reverse=True)
    total = 0.0
    optimiser.zero_grad()
    for some in batched(by_length, _length, _TOGETHER):
        targets = torch.from_numpy(np.concatenate([example.labels for example in some])).to(machine.device)
        with machine.precision():
            scores = classifier([example.units for example in some])
        loss = F.cross_entropy(scores.float(), targets, reduction="sum") / units
        loss.backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
    torch.nn.utils.clip_grad_norm_(classifier.parameters(), 1.0)
    optimiser.step()
    return total


def _does_not_fit(where: str) -> str:
    return f"the memory of {where} does not hold a step of fine-tuning; lower --batch, or cut long texts into parts"


def _length(example: Example) -> int:
    return len(example.units.tokens) + 2


def validated(classifier: Classifier, examples: Sequence[Example]) -> Validated:
    classifier.eval()
    rows = np.concatenate(classifier.log_probs([example.units for example in examples]))
    labels = np.concatenate([example.labels for example in examples])
    nats = -rows[np.arange(len(rows)), labels].mean(dtype=np.float64)
    return Validated(float(nats), float((rows.argmax(1) == labels).mean()))


def _batches(examples: Sequence[Example], size: int, seed: Sequence[int]) -> list[list[Example]]:
    """Texts of about the same length together, in random order: what is alike is found in a few batches at a time."""
    chance = np.random.default_rng(seed)
    order = chance.permutation(len(examples)).tolist()
    batches: list[list[Example]] = []
    for first in range(0, len(order), 16 * size):
        some = sorted(order[first : first + 16 * size], key=lambda number: len(examples[number].units.tokens))
        batches += [[examples[number] for number in some[i : i + size]] for i in range(0, len(some), size)]
    return [batches[number] for number in chance.permutation(len(batches)).tolist()]


def _rate_share(step: int, steps: int) -> float:
    """It rises for a tenth of the steps and falls to nothing."""
    rising = max(1, int(_WARM_UP * steps))
    return min((step + 1) / rising, (steps - step) / max(1, steps - rising + 1))
