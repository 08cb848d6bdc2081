"""The objective of a language model of trees: -log P of each token of their texts, from the root down."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from chainrule.errors import SettingError, TextError
from chainrule.features.trees.language_model import TreeNetwork
from chainrule.features.trees.structures.linearized import Brackets, check_is_tree, tree_steps
from chainrule.neural.config.network import settings_of
from chainrule.neural.scoring import make_batches
from chainrule.protocol import END
from chainrule.text.tokenization.tokenizer import documents_of
from chainrule.training.batches import ExampleObjective
from chainrule.training.defaults import Recipe, refuse_settings_of_text, with_budget
from chainrule.training.job import TrainingJob, ValidationResult
from chainrule.training.objectives.stream import counts_of, coverage_of, set_rows, text_record, unigram_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.features.trees.config import TreeConfig
    from chainrule.features.trees.structures.linearized import TreeSteps
    from chainrule.training.job import Setup, StreamOptions, Validation

_BATCH, _RATE, _WARM_UP = 32, 3e-3, 100
_MAX_TOKENS = 1 << 14  # that the network reads at once


class TreeExample(NamedTuple):
    """A tree's states, and what comes next after each."""

    steps: TreeSteps
    targets: Int64[ndarray, " states"]


def tree_job(
    stream: Int32[ndarray, " tokens"], vocabulary_size: int, config: TreeConfig, options: StreamOptions
) -> TrainingJob[TreeNetwork]:
    """Return a job that trains a language model of trees on their texts.

    Raises TextError where a text is no tree; SettingError.
    """
    if options.start is not None:
        raise SettingError("a model of trees is not trained on; train a new one on all trees")
    refuse_settings_of_text(options.training)
    training, validation = with_budget(options.training), options.validation
    training = replace(training, optimiser=training.optimiser or "adamw", compile="no")
    brackets = Brackets(*config.brackets)
    examples = examples_of(stream, brackets, "the training text")
    kept = [] if validation is None else examples_of(validation.stream, brackets, "the validation text")
    vectors = options.vectors

    def build() -> TreeNetwork:
        network = TreeNetwork(config, vocabulary_size)
        if vectors is not None:
            set_rows(network.embedding.weight, vectors, "width")
        return network

    return TrainingJob(
        training=training,
        recipe=Recipe.of(training, _BATCH, _RATE, _WARM_UP),
        network=settings_of(config),
        text=text_record(stream, vocabulary_size, options),
        build=build,
        matrices=TreeNetwork.matrices,
        objective=lambda network, setup: TreeObjective(network, setup, stream, examples, validation, kept),
        step=f"{training.batch or _BATCH} trees",
        memory_hint="batch or width",
        notes=() if vectors is None else (coverage_of(vectors, vocabulary_size),),
    )


def examples_of(stream: Int32[ndarray, " tokens"], brackets: Brackets, name: str) -> list[TreeExample]:
    """Return the trees of a stream, at least one.

    name: of the text, for messages. Raises TextError where one is no tree.
    """
    examples = []
    for i, tokens in enumerate(documents_of(stream), 1):
        steps = tree_steps(tokens, brackets)
        check_is_tree(tokens, steps, brackets, f"{name}, document {i}")
        examples.append(TreeExample(steps, np.append(tokens, END).astype(np.int64)))
    if not examples:
        raise TextError(f"{name}: there is no tree in it; at least one is needed")
    return examples


class MicroBatch(NamedTuple):
    """Some trees of a step."""

    trees: list[TreeSteps]
    targets: Tensor  # (states of all trees,)


def _states(example: TreeExample) -> int:
    return len(example.targets)


class TreeObjective(ExampleObjective[TreeExample]):
    """An Objective: -log P(token | the nodes above it, and the elder siblings of all these)."""

    def __init__(
        self,
        network: TreeNetwork,
        setup: Setup,
        stream: Int32[ndarray, " tokens"],
        examples: Sequence[TreeExample],
        validation: Validation | None,
        kept: Sequence[TreeExample],
    ) -> None:
        """Prepare the examples for training and validation.

        kept: the trees to validate on. Raises SettingError if a step cannot be divided among processes and parts.
        """
        self.network, self.stream, self.validation = network, stream, validation
        weights = sum(weight.numel() for weight in network.matrices()) + network.output_weight.numel()
        super().__init__(
            setup, examples, kept, "trees", size=_states, predictions=_states, flops_per_token=6.0 * weights
        )

    def cut(self, examples: Sequence[TreeExample]) -> list[MicroBatch]:
        ordered = sorted(examples, key=lambda example: -_states(example))
        return [
            MicroBatch(
                [example.steps for example in group],
                torch.from_numpy(np.concatenate([example.targets for example in group])).to(self.setup.machine.device),
            )
            for group in make_batches(ordered, _states, _MAX_TOKENS)
        ]

    def loss(self, number: int, part: MicroBatch, forward: Callable[..., Any], done: float) -> Tensor:
        return self._loss(part, forward, self.setup.training.label_smoothing)

    @torch.no_grad()
    def validate(self, tokens: int) -> ValidationResult:
        assert self.validation is not None
        chosen, processes = self.sample(tokens), self.setup.processes
        total = torch.zeros(1, dtype=torch.float64)
        for part in self.cut(chosen[processes.rank :: processes.number]):
            with self.setup.machine.precision():
                total += float(self._loss(part, self.network, 0.0))
        processes.add([total])
        predictions = sum(len(example.targets) for example in chosen)
        loss = float(total) / predictions
        figures = {"bits_per_byte": self.validation.bits_per_byte(loss), "bytes": self.validation.bytes}
        return ValidationResult(loss, predictions, figures)

    def unigram_loss(self) -> float:
        assert self.validation is not None
        return unigram_loss(counts_of(self.stream, self.network.vocabulary_size), self.validation.stream)

    def _loss(self, part: MicroBatch, forward: Callable[..., Any], smoothing: float) -> Tensor:
        turns = np.concatenate([tree.turns for tree in part.trees])
        return self.network.loss(forward(part.trees), turns, part.targets, label_smoothing=smoothing)
