"""The objective of networks that hear: -log P(labels | sound), over all alignments (CTC, Graves 2006), in nats a label.

Gradients of torch's `ctc_loss` are right only with log_softmax before it, as here. Legend: S steps, C labels and blank.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from chainrule.errors import SettingError, TextError
from chainrule.features.speech.network import BLANK, SoundBatch, SpeechNetwork, batch_of
from chainrule.features.speech.sounds.features import normalised
from chainrule.neural.config import settings_of
from chainrule.neural.scoring import make_batches
from chainrule.training.batches import ExampleObjective
from chainrule.training.defaults import Recipe, compiled_on_request, refuse_settings_of_text, with_budget
from chainrule.training.job import TrainingJob, ValidationResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Int16, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.features.speech.network_config import SpeechConfig
    from chainrule.training.config import TrainingConfig
    from chainrule.training.job import Setup

    # Of texts and their references: the errors of all of them in characters.
    CountErrors = Callable[[Sequence[str], Sequence[str]], int]

_MOST_FRAMES = 1 << 15  # that are read at once, padding included
_TIE = 1e-6  # a share of the loss that decides between validations of equal accuracy


class SpokenExample(NamedTuple):
    """A sound as log-mel frames, in steps of 1/512 of a nat, and the columns of its labels."""

    frames: Int16[ndarray, "T M"]
    labels: Int64[ndarray, " labels"]


def least_steps(labels: Int64[ndarray, " labels"]) -> int:
    """Return the fewest steps that labels can have: one for each, and a blank between equal neighbours."""
    return len(labels) + int(np.count_nonzero(labels[1:] == labels[:-1]))


class MicroBatch(NamedTuple):
    """Some sounds of a step. targets: the labels of all of them, one sound after the other."""

    sounds: SoundBatch
    targets: Tensor
    target_lengths: Tensor


def ctc_job(
    examples: Sequence[SpokenExample],
    held_out: Sequence[SpokenExample],
    config: SpeechConfig,
    training: TrainingConfig,
    origin: dict[str, Any],
    count_errors: CountErrors,
) -> TrainingJob[SpeechNetwork]:
    """Return a job that trains a network that hears. Raises TextError, SettingError.

    examples: each long enough for its labels. held_out: to validate on; may be none. origin: what identifies them, see
    `TrainingJob.text`. count_errors: counts the errors in texts.
    """
    if not examples:
        raise TextError("there is no sound to learn from; at least one is needed")
    if training.label_smoothing:
        raise SettingError("label_smoothing is for tokens, and CTC predicts alignments; leave it out")
    training = with_speech_defaults(training)
    recipe = speech_recipe(config, training)
    return TrainingJob(
        training=training,
        recipe=recipe,
        network=settings_of(config),
        text=origin,
        build=lambda: SpeechNetwork(config),
        matrices=SpeechNetwork.matrices,
        objective=lambda network, setup: CtcObjective(network, setup, examples, held_out, count_errors),
        step=f"about {recipe.batch} sounds",
        memory_hint="batch or width",
        keeps_best=True,
    )


class CtcObjective(ExampleObjective[SpokenExample]):
    """An Objective: -log P(labels of a sound), in nats a label. `tokens` counts frames."""

    def __init__(
        self,
        network: SpeechNetwork,
        setup: Setup,
        examples: Sequence[SpokenExample],
        held_out: Sequence[SpokenExample],
        count_errors: CountErrors,
    ) -> None:
        """Prepare the examples for training and validation.

        Raises SettingError if a step cannot be divided among processes and parts.
        """
        self.network, self.count_errors = network, count_errors
        weights = sum(weight.numel() for weight in network.parameters())
        super().__init__(
            setup,
            examples,
            held_out,
            "sounds",
            size=lambda example: len(example.frames),
            predictions=lambda example: len(example.labels),
            flops_per_token=6.0 * weights / network.config.stacked,
        )

    def cut(self, examples: Sequence[SpokenExample]) -> list[MicroBatch]:
        ordered = sorted(examples, key=lambda example: -len(example.frames))
        return [self._part(group) for group in make_batches(ordered, lambda own: len(own.frames), _MOST_FRAMES)]

    def loss(self, number: int, part: MicroBatch, forward: Callable[..., Any], done: float) -> Tensor:
        scores, steps = forward(part.sounds)
        return _ctc_loss(scores, steps, part)

    @torch.no_grad()
    def validate(self, tokens: int) -> ValidationResult:
        """Return the loss, and `accuracy`: 1 - errors / characters of the likeliest labels of each step, at least 0.

        The best weights have the highest accuracy, and of equal ones the lowest loss: CTC's loss may rise for long
        while errors still fall.
        """
        chosen, processes = self.sample(tokens), self.setup.processes
        nats, errors, count = 0.0, 0, 0
        for part, texts in self._validation_parts(chosen[processes.rank :: processes.number]):
            with self.setup.machine.precision():
                scores, steps = self.network(part.sounds)
            nats += float(_ctc_loss(scores, steps, part))
            written = self._greedy(scores, steps)
            errors += self.count_errors(written, texts)
            count += int(part.target_lengths.sum())
        total = torch.tensor([nats, errors, count], dtype=torch.float64)
        processes.add([total])
        nats, all_errors, labels = total.tolist()
        loss, accuracy = nats / max(1, labels), max(0.0, 1 - all_errors / max(1, labels))
        figures = {"accuracy": accuracy, "examples": len(chosen)}
        return ValidationResult(loss, max(1, int(labels)), figures, -accuracy + _TIE * loss)

    def unigram_loss(self) -> float:
        """Return the loss of a predictor that does not hear: it knows how frequent labels are, and how many there
        are.
        """
        counts = np.bincount(
            np.concatenate([example.labels for example in self.examples]), minlength=1 + len(self.network.config.labels)
        )[1:]
        log_probs = np.log(counts + 1) - np.log(counts.sum() + counts.size)
        labels = np.concatenate([example.labels for example in self.held_out])
        return -float(log_probs[labels - 1].mean()) if labels.size else 0.0

    def _validation_parts(self, examples: Sequence[SpokenExample]) -> list[tuple[MicroBatch, list[str]]]:
        ordered = sorted(examples, key=lambda example: -len(example.frames))
        names = self.network.config.labels
        return [
            (self._part(group), ["".join(names[i - 1] for i in own.labels.tolist()) for own in group])
            for group in make_batches(ordered, lambda own: len(own.frames), _MOST_FRAMES)
        ]

    def _greedy(self, scores: Tensor, steps: Tensor) -> list[str]:
        """Return the texts of the likeliest label at each step: runs become one label, and blanks go."""
        names, texts = self.network.config.labels, []
        for row, count in zip(scores.argmax(-1).cpu().numpy(), steps.tolist(), strict=True):
            path = row[:count]
            kept = path[np.append(True, path[1:] != path[:-1]) & (path != BLANK)]
            texts.append("".join(names[i - 1] for i in kept.tolist()))
        return texts

    def _part(self, examples: Sequence[SpokenExample]) -> MicroBatch:
        device = self.setup.machine.device
        return MicroBatch(
            batch_of([normalised(example.frames) for example in examples], device),
            torch.from_numpy(np.concatenate([example.labels for example in examples])).to(device),
            torch.tensor([len(example.labels) for example in examples], device=device),
        )


def _ctc_loss(scores: Tensor, steps: Tensor, part: MicroBatch) -> Tensor:
    """Return the loss in nats, summed over the sounds. scores: (B, S, C) before softmax."""
    log_probs = scores.float().log_softmax(-1).transpose(0, 1)  # (S, B, C)
    return F.ctc_loss(log_probs, part.targets, steps, part.target_lengths, blank=BLANK, reduction="sum")


_SOUNDS = 16  # in a step of a network that hears


def with_speech_defaults(training: TrainingConfig) -> TrainingConfig:
    """Return the settings of `with_defaults`, for a network that hears, which learns by AdamW.

    A short run keeps its batch: from a much smaller one CTC learns little. Raises SettingError.
    """
    refuse_settings_of_text(training)
    training = replace(training, optimiser=training.optimiser or "adamw", batch=training.batch or _SOUNDS)
    return compiled_on_request(with_budget(training))


def speech_recipe(config: SpeechConfig, training: TrainingConfig) -> Recipe:
    """Return the recipe of `recipe_for`, for a network that hears. training: the settings, with defaults filled in."""
    is_recurrent = config.encoder != "transformer"
    if training.optimiser == "muon":
        rate, warm_up = 3e-3, 100
    elif training.optimiser == "adamw":
        rate, warm_up = (3e-3 if is_recurrent else 1e-3), 100
    else:
        rate, warm_up = 0.01, 100
    return Recipe.of(training, _SOUNDS, rate, warm_up)
