"""What training on a stream of tokens takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chainrule.training.config import TrainingConfig

if TYPE_CHECKING:
    from jaxtyping import Bool
    from numpy import ndarray

    from chainrule.neural.network import Network
    from chainrule.training.heldout_text import Validation
    from chainrule.training.options import InitialVectors


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """What training on a stream of tokens takes besides the stream and the network's settings.

    origin: where the ids came from; a run resumes only if it is the same. vectors: to initialise the embedding with.
    begins_word: whether a token begins a word, for masks of whole words. start: a network with the same settings, whose
    weights training starts from.
    """

    training: TrainingConfig = field(default_factory=TrainingConfig)
    validation: Validation | None = None
    origin: dict[str, Any] = field(default_factory=dict)
    vectors: InitialVectors | None = None
    begins_word: Bool[ndarray, " vocab"] | None = None
    start: Network | None = None
