"""What the training loop trains: a TrainingJob builds a network, and its Objective gives the rows and losses of steps.

The simplest objective is `objectives/next_token.py`. Also the text to validate on, and the options of training on a
stream of tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from chainrule.training.config import TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Bool, Float32, Int32, Int64
    from numpy import ndarray
    from torch import Tensor, nn

    from chainrule.neural.network import Network
    from chainrule.training.character_ngrams import SummedVectors
    from chainrule.training.config import AdapterConfig, InitialVectors
    from chainrule.training.defaults import Recipe
    from chainrule.training.device import Machine
    from chainrule.training.distributed import Processes

N = TypeVar("N", bound="nn.Module")


@dataclass(frozen=True)
class Setup:
    """A run's settings, with the defaults and the machine that they resolve to."""

    training: TrainingConfig
    recipe: Recipe
    machine: Machine
    processes: Processes


@dataclass(frozen=True)
class TrainingJob(Generic[N]):
    """How to build a network, and what it learns.

    training: with the family's defaults. network: its settings. text: names and digests of the texts. A run resumes
    only if `network` and `text` are the same. build: makes the network, with weights from torch's random numbers.
    matrices: the parameters that Muon orthogonalises. step: what a step holds in memory, in words. memory_hint: the
    settings to lower if that does not fit. notes: for users, before the first step, a sentence each. keeps_best:
    whether Ctrl-C ends training with the best weights so far, once some have been validated. divergence_hint: what to
    change if the loss diverges, if not the usual settings. blocks: the layers of a network, if it is deep enough to
    share them out among processes and to recompute their activations; else None. run_config: if the job is one phase of
    a run, the settings of the whole run, which must stay the same for it to resume; None if these are `training`.
    starts_trained: whether the network has been trained before, so that it is also validated before the first step.
    summed: gives the vectors that are learned as sums; None if none are.
    """

    training: TrainingConfig
    recipe: Recipe
    network: dict[str, Any]
    text: dict[str, Any]
    build: Callable[[], N]
    matrices: Callable[[N], list[nn.Parameter]]
    objective: Callable[[N, Setup], Objective]
    step: str
    memory_hint: str
    notes: tuple[str, ...] = ()
    keeps_best: bool = False
    divergence_hint: str | None = None
    blocks: Callable[[N], Sequence[nn.Module]] | None = None
    run_config: TrainingConfig | None = None
    starts_trained: bool = False
    summed: Callable[[N], SummedVectors] | None = None


class ValidationResult(NamedTuple):
    """A validation loss in nats per prediction, the number of predictions, and other figures by name.

    figures: those in REPORTED_FIGURES are reported. criterion: what the best weights have the lowest of; None: the
    loss. read: tokens that were read, where they are counted; rows are whole, so that these may be more or fewer than
    were asked for.
    """

    loss: float
    predictions: int
    figures: dict[str, float] = {}  # noqa: RUF012  # never changed
    criterion: float | None = None
    read: int | None = None


class Objective(Protocol):
    """What training minimises. Steps are pure functions of their index, so that a run can resume at any of them.

    epoch: the number of tokens in one pass over the training data. flops_per_token: floating-point operations, forward
    and backward. validation_tokens: the number of tokens to validate on; 0 if there are none. row_tokens: tokens in a
    row, on average. most_passes: over the training data, after which a run of minutes ends, whatever is left of them.
    """

    epoch: int
    most_passes: float
    flops_per_token: float
    validation_tokens: int
    row_tokens: float

    def tokens(self, steps: int) -> int:
        """Return the number of tokens in the first `steps` steps, over all processes; strictly increasing."""

    def parts(self, step: int) -> Sequence[Any]:
        """Return this process's rows of a step, on its device, in as many parts as are accumulated; no part is
        empty.
        """

    def weight(self, step: int) -> float:
        """Return the number of predictions in a step over all processes, which divides the sum of losses."""

    def loss(self, number: int, part: Any, forward: Callable[..., Any], done: float) -> Tensor:
        """Return the loss of one part of a step, in nats, summed over its rows.

        number: the index of the part. forward: the network, perhaps compiled. done: the share of the run that is over.
        """

    def state(self) -> list[Tensor]:
        """Return the state that a step hands to the next, besides the weights; batch first, for this process's rows."""

    def load_state(self, tensors: list[Tensor]) -> None:
        """Restore what `state` gave, with the rows of all processes in order. Raises IndexError."""

    def validate(self, tokens: int) -> ValidationResult:
        """Return the loss on about `tokens` tokens, evenly spread over the validation data; the same in all processes.

        The network is in evaluation mode.
        """

    def unigram_loss(self) -> float:
        """Return the validation loss of training frequencies (add-one), in nats per prediction."""


class StatelessObjective:
    """The methods of an Objective that hands no state from step to step, and repeats its data as often as it can."""

    most_passes = math.inf

    def state(self) -> list[Tensor]:
        return []

    def load_state(self, tensors: list[Tensor]) -> None:
        """Do nothing, since there is no state to restore."""


@dataclass(frozen=True, kw_only=True)
class Validation:
    """A text to validate on. spelling: the cost of spelling its unknown tokens, which only bits per byte include."""

    stream: Int32[ndarray, " tokens"]
    bytes: int
    spelling: float = 0.0  # nats

    def bits_per_byte(self, loss: float) -> float:
        """Return the bits per byte of a loss. loss: nats per token."""
        return (loss * self.stream.size + self.spelling) / math.log(2) / max(1, self.bytes)


@dataclass(frozen=True)
class KnownDistribution:
    """What a network learns the residual of: functions from positions of the training text, and of that to validate on,
    to the distributions there, (R, V), in nats; 0 for tokens that have no probability.

    held_out: why it has not seen what it predicts in training, a sentence for users.
    """

    training: Callable[[Int64[ndarray, " R"]], Float32[ndarray, "R V"]]
    validation: Callable[[Int64[ndarray, " R"]], Float32[ndarray, "R V"]]
    held_out: str


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """What training on a stream of tokens takes besides the stream and the network's settings.

    origin: where the ids came from; a run resumes only if it is the same. vectors: those to initialise the embedding
    with. begins_word: whether a token begins a word, for masks of whole words. start: a network with the same settings,
    whose weights training starts from. known: the distribution that the network learns the residual of. teacher: a loss
    in place of the cross-entropy, of a full output: a function of positions of the text, logits and targets, which
    overwrites the logits with the gradient. tokens: the vocabulary, for character n-grams.
    """

    training: TrainingConfig = field(default_factory=TrainingConfig)
    validation: Validation | None = None
    origin: dict[str, Any] = field(default_factory=dict)
    vectors: InitialVectors | None = None
    begins_word: Bool[ndarray, " vocab"] | None = None
    start: Network | None = None
    known: KnownDistribution | None = None
    teacher: Callable[[Int64[ndarray, " R"], Tensor, Tensor], Tensor] | None = None
    adapter: AdapterConfig | None = None
    tokens: tuple[bytes, ...] | None = None
