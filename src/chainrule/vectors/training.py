"""A training of word vectors: so many steps, each a function of its number, with a report after each."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import format_duration
from chainrule.errors import EstimationError
from chainrule.protocol import END
from chainrule.vectors.config import ngram_lengths
from chainrule.vectors.cooccurrence_config import CooccurrenceConfig
from chainrule.vectors.cooccurrences import count_cooccurrences
from chainrule.vectors.glove import GloveLearner, glove_matrices
from chainrule.vectors.learner import word_matrices
from chainrule.vectors.pair_learner import PairLearner
from chainrule.vectors.subwords import Ngrams, Units, units_of
from chainrule.vectors.window_learner import WindowLearner

if TYPE_CHECKING:
    from chainrule.base.progress import Progress
    from chainrule.vectors.config import VectorsConfig
    from chainrule.vectors.learner import Learner, Matrices
    from chainrule.vectors.text import TrainingText

_LEAST_RATE = 1e-4  # of the highest, as word2vec.c


@dataclass(frozen=True, kw_only=True)
class VectorsReport:
    """How a training stands. loss: the mean of the last step, in nats; GloVe's cost of a pair."""

    step: int
    steps: int
    epoch: float
    epochs: int
    loss: float
    words_per_second: float
    seconds: float
    unit: str  # what words_per_second counts
    valid_loss: None = None
    note: None = None

    def __str__(self) -> str:
        left = self.seconds * (self.steps - self.step) / self.step
        return (
            f"epoch {self.epoch:.2f} of {self.epochs}  loss {self.loss:.4f}  "
            f"{self.words_per_second:,.0f} {self.unit}/s" + (f"  {format_duration(left)} left" if left else "")
        )


def ngrams_of(config: VectorsConfig) -> Ngrams | None:
    """The n-grams that a configuration gives vectors, if it does."""
    lengths = ngram_lengths(config.subwords)
    return None if lengths is None else Ngrams(*lengths, config.buckets)


class VectorsTraining:
    """A run that can be cut at any step, and goes on bit for bit from its matrices and the number of the step."""

    def __init__(
        self,
        text: TrainingText,
        config: VectorsConfig,
        progress: Progress,
        matrices: Matrices | None = None,
        step: int = 0,
    ) -> None:
        """config: resolved. matrices, step: where a run is to go on. Raises TextError."""
        self.config, self.step, self.seconds, self._first = config, step, 0.0, step
        self.units: Units = units_of(text.words, ngrams_of(config))
        self._learner = _learner(text, config, progress, self.units, matrices)
        self.loss, self._epoch_loss, self._epoch_examples = float("nan"), 0.0, 0
        self.epoch_losses: list[float] = []
        self._words = 0
        # A stream ends its documents with tokens that are no words.
        is_of_words = config.method != "glove"
        self._word_share = np.count_nonzero(text.stream != END) / max(1, len(text)) if is_of_words else 1.0

    @property
    def steps(self) -> int:
        assert self.config.epochs is not None
        return self.config.epochs * self._learner.steps

    @property
    def matrices(self) -> Matrices:
        return self._learner.matrices

    def advance(self) -> None:
        """One step. Raises EstimationError where it gives what is no number."""
        began = time.perf_counter()
        rng = np.random.default_rng([self.config.seed, self.step + 1])
        highest = self.config.rate or 0.0

        def rate(share: float) -> float:
            return highest * max(_LEAST_RATE, 1 - (self.step + share) / self.steps)

        learnt = self._learner.learn(self.step % self._learner.steps, rate, rng)
        self._check(learnt.loss)
        self.step += 1
        self.loss = learnt.loss / max(1, learnt.examples)
        self._words += learnt.words
        self._epoch_loss, self._epoch_examples = self._epoch_loss + learnt.loss, self._epoch_examples + learnt.examples
        if self.step % self._learner.steps == 0:
            self.epoch_losses.append(self._epoch_loss / max(1, self._epoch_examples))
            self._epoch_loss, self._epoch_examples = 0.0, 0
        self.seconds += time.perf_counter() - began

    def report(self) -> VectorsReport:
        """After a step."""
        return VectorsReport(
            step=self.step,
            steps=self.steps,
            epoch=self.step / self._learner.steps,
            epochs=self.config.epochs or 0,
            loss=self.loss,
            words_per_second=self._word_share * self._words / max(self.seconds, 1e-9),
            seconds=self.seconds * self.step / (self.step - self._first),
            unit="pairs" if self.config.method == "glove" else "words",
        )

    def _check(self, loss: float) -> None:
        is_whole = np.isfinite(loss)
        if is_whole and (self.step + 1) % self._learner.steps == 0:
            is_whole = all(np.isfinite(matrix.sum()) for matrix in self.matrices.values())
        if not is_whole:
            raise EstimationError(
                f"the vectors are no numbers any more, in epoch {self.step // self._learner.steps + 1} at a learning "
                f"rate of {self.config.rate:g}; take a lower rate"
            )


def _learner(
    text: TrainingText, config: VectorsConfig, progress: Progress, units: Units, matrices: Matrices | None
) -> Learner:
    words = len(text.words)
    rng = np.random.default_rng([config.seed, 0])
    if config.method == "glove":
        assert config.window is not None
        counted = count_cooccurrences(text.stream, words, CooccurrenceConfig(window=config.window), progress)
        return GloveLearner(counted, config, matrices or glove_matrices(config, words, rng))
    outputs = words - 1 if config.loss == "hierarchical" else words
    matrices = matrices or word_matrices(config, words + units.seen.size, outputs, rng)
    if config.method == "skipgram" and config.loss == "negative" and config.subwords is None:
        return PairLearner(text, config, matrices)
    return WindowLearner(text, config, matrices, units)
