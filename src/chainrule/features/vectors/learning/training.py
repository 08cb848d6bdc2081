"""The training loop of word vectors: each step is a function of its number, with a report after each."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import format_duration
from chainrule.errors import EstimationError
from chainrule.features.vectors.learning.config import CooccurrenceConfig, ngram_lengths
from chainrule.features.vectors.learning.cooccurrences import count_stream
from chainrule.features.vectors.learning.fasttext import Ngrams, units_of
from chainrule.features.vectors.learning.glove import GloveLearner, glove_matrices
from chainrule.features.vectors.learning.learning import word_matrices
from chainrule.features.vectors.learning.word2vec import PairLearner, WindowLearner
from chainrule.protocol import END

if TYPE_CHECKING:
    from chainrule.base.progress import Progress
    from chainrule.features.vectors.learning.config import VectorsConfig
    from chainrule.features.vectors.learning.cooccurrences import Cooccurrences
    from chainrule.features.vectors.learning.learning import Learner, Matrices, TrainingText

_LEAST_RATE = 1e-4  # of the highest, as word2vec.c


@dataclass(frozen=True, kw_only=True)
class VectorsReport:
    """The state of a training. loss: the mean of the last step, in nats; for GloVe, the mean cost of a pair."""

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
    """Return the n-grams to which a configuration gives vectors; None if there are none."""
    lengths = ngram_lengths(config.subwords)
    return None if lengths is None else Ngrams(*lengths, config.buckets)


@dataclass(kw_only=True)
class TrainingState:
    """How far a training has come.

    epoch_losses: the losses of finished epochs. loss, examples: sums over the current epoch.
    """

    step: int = 0
    epoch_losses: list[float] = field(default_factory=list)
    loss: float = 0.0
    examples: int = 0


class VectorsTraining:
    """A run that can be interrupted at any step, and continues bit for bit from its matrices and its state."""

    def __init__(
        self, learner: Learner, config: VectorsConfig, state: TrainingState | None = None, word_share: float = 1.0
    ) -> None:
        """Store the learner, and the state to continue from.

        config: with defaults filled in. state: the one to continue from. word_share: the factor from what the learner
        counts as words to words of the text.
        """
        self._learner, self.config, self.state = learner, config, state or TrainingState()
        self.loss, self.seconds = float("nan"), 0.0
        self._first, self._words, self._word_share = self.state.step, 0, word_share

    @property
    def step(self) -> int:
        return self.state.step

    @property
    def steps(self) -> int:
        assert self.config.epochs is not None
        return self.config.epochs * self._learner.steps

    @property
    def matrices(self) -> Matrices:
        return self._learner.matrices

    def advance(self) -> None:
        """Take one step. Raises EstimationError where the loss is not finite."""
        began = time.perf_counter()
        rng = np.random.default_rng([self.config.seed, self.step + 1])
        highest = self.config.rate or 0.0

        def rate(share: float) -> float:
            return highest * max(_LEAST_RATE, 1 - (self.step + share) / self.steps)

        learned, state = self._learner.learn(self.step % self._learner.steps, rate, rng), self.state
        self._check(learned.loss)
        self.loss = learned.loss / max(1, learned.examples)
        self._words += learned.words
        state.step += 1
        state.loss, state.examples = state.loss + learned.loss, state.examples + learned.examples
        if state.step % self._learner.steps == 0:
            state.epoch_losses.append(state.loss / max(1, state.examples))
            state.loss, state.examples = 0.0, 0
        self.seconds += time.perf_counter() - began

    def report(self) -> VectorsReport:
        """Return the report after a step."""
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
                f"the vectors became NaN or infinite in epoch {self.step // self._learner.steps + 1} at a learning "
                f"rate of {self.config.rate:g}; take a lower rate"
            )


def training_on_text(
    text: TrainingText,
    config: VectorsConfig,
    progress: Progress,
    matrices: Matrices | None = None,
    state: TrainingState | None = None,
) -> VectorsTraining:
    """Return a run on a text.

    config: with defaults filled in. matrices, state: those to continue from. Raises TextError.
    """
    words = len(text.words)
    if config.method == "glove":
        assert config.window is not None
        counted = count_stream(text.stream, words, CooccurrenceConfig(window=config.window), progress)
        return training_on_cooccurrences(counted, config, matrices, state)
    units = units_of(text.words, ngrams_of(config))
    outputs = words - 1 if config.loss == "hierarchical" else words
    matrices = matrices or word_matrices(config, words + units.seen.size, outputs, _first_rng(config))
    is_of_pairs = config.method == "skipgram" and config.loss == "negative" and config.subwords is None
    learner = PairLearner(text, config, matrices) if is_of_pairs else WindowLearner(text, config, matrices, units)
    # A stream ends its documents with tokens that are no words.
    share = np.count_nonzero(text.stream != END) / max(1, len(text))
    return VectorsTraining(learner, config, state, share)


def training_on_cooccurrences(
    counted: Cooccurrences,
    config: VectorsConfig,
    matrices: Matrices | None = None,
    state: TrainingState | None = None,
) -> VectorsTraining:
    """Return a run of GloVe on co-occurrences; arguments as for `training_on_text`."""
    matrices = matrices or glove_matrices(config, counted.starts.size - 1, _first_rng(config))
    return VectorsTraining(GloveLearner(counted, config, matrices), config, state)


def _first_rng(config: VectorsConfig) -> np.random.Generator:
    """Return the random generator for the initial matrices."""
    return np.random.default_rng([config.seed, 0])
