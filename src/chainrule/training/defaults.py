"""What a family is trained with where nothing else is said. Measured: see docs/decisions.md."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from chainrule.neural.config import RecurrentConfig
from chainrule.training.config import BUDGETS, DEFAULT_MINUTES

if TYPE_CHECKING:
    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.config.conditional import ConditionalConfig
    from chainrule.training.config import TrainingConfig

T = TypeVar("T")

_FEW_MINUTES = 2.0
_ROWS_OF, _RECURRENT_ROWS_OF = 2048, 6144  # tokens in a step, about


@dataclass(frozen=True)
class Recipe:
    """The settings that a configuration leaves open."""

    batch: int
    rate: float  # the highest of AdamW, or of SGD
    matrix_rate: float  # the highest of Muon
    warm_up: int  # steps


def settled(training: TrainingConfig) -> TrainingConfig:
    """With a budget and an optimiser, where none is said."""
    return replace(with_budget(training), optimiser=training.optimiser or "muon")


def with_budget(training: TrainingConfig) -> TrainingConfig:
    """With a budget, where none is said."""
    if any(getattr(training, name) is not None for name in BUDGETS):
        return training
    return replace(training, minutes=DEFAULT_MINUTES)


def stream_settled(config: NetworkConfig, training: TrainingConfig) -> TrainingConfig:
    """As `settled`, of a network that learns from a stream. Recurrent ones are not compiled unless it is said: the
    compiler does not look into torch's layers, and what it makes around them takes a third longer. In few minutes they
    learn by AdamW, since Muon takes most of a step for their large matrices.
    """
    if not isinstance(config, RecurrentConfig):
        return settled(training)
    minutes = with_budget(training).minutes
    if training.optimiser is None and minutes is not None and minutes < _FEW_MINUTES:
        training = replace(training, optimiser="adamw")
    return _hardly_compiled(settled(training))


def recipe_for(config: NetworkConfig, training: TrainingConfig) -> Recipe:
    """The same tokens in a step whatever the context; more for recurrent networks, whose large matrices Muon takes long
    for. training: settled.
    """
    is_recurrent = isinstance(config, RecurrentConfig)
    if training.optimiser == "muon":
        rate, warm_up = (2e-3, 100) if is_recurrent else (1e-2, 20)
    elif training.optimiser == "adamw":
        rate, warm_up = (2e-3, 100) if is_recurrent else (1e-3, 100)
    else:
        rate, warm_up = (0.3, 0) if is_recurrent else (0.03, 100)
    return Recipe(
        batch=_or(training.batch, max(8, (_RECURRENT_ROWS_OF if is_recurrent else _ROWS_OF) // config.context)),
        rate=_or(training.learning_rate, rate),
        matrix_rate=_or(training.matrix_learning_rate, 0.02),
        warm_up=_or(training.warm_up, warm_up),
    )


def conditional_settled(training: TrainingConfig) -> TrainingConfig:
    """As `settled`, of a conditional model: nothing is compiled unless it is said, since that would be done again for
    each length that pairs have.
    """
    return _hardly_compiled(settled(training))


def conditional_recipe(config: ConditionalConfig, training: TrainingConfig) -> Recipe:
    """Of a conditional model. training: settled."""
    is_recurrent = config.is_recurrent(config.decoder)
    if training.optimiser == "muon":
        rate, warm_up = (1e-2 if is_recurrent else 6e-3), 50
    elif training.optimiser == "adamw":
        rate, warm_up = (3e-3 if is_recurrent else 1e-3), 100
    else:
        rate, warm_up = 0.1, 100
    return Recipe(
        batch=_or(training.batch, 128),
        rate=_or(training.learning_rate, rate),
        matrix_rate=_or(training.matrix_learning_rate, 0.02),
        warm_up=_or(training.warm_up, warm_up),
    )


def _hardly_compiled(training: TrainingConfig) -> TrainingConfig:
    return replace(training, compile="no" if training.compile == "auto" else training.compile)


def _or(given: T | None, otherwise: T) -> T:
    return otherwise if given is None else given
