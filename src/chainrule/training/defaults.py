"""The training defaults of each family, as measured (docs/decisions/networks.md)."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from chainrule.errors import SettingError
from chainrule.training.config import BETA2, BUDGETS, DEFAULT_MINUTES

if TYPE_CHECKING:
    from chainrule.neural.config import NetworkConfig
    from chainrule.training.config import AdapterConfig, TrainingConfig

T = TypeVar("T")

ADAPTER_RATE = 5e-4  # the peak rate of AdamW for adapters
# From so many on, the output is tied to the vectors of tokens, and these are learned with those of character n-grams.
MANY_TOKENS = 1_000
LARGE_VOCABULARY = 12_000  # tokens; above, softmax and gradients of all vectors take most of a step
_SHORT_MINUTES = 2.0
_WIDE = 256  # numbers in the state of a recurrent network; Muon is slow on the matrices of a wider one
_STEP_TOKENS, _WIDE_STEP_TOKENS = 2048, 3072  # tokens per step, about


@dataclass(frozen=True)
class Recipe:
    """The values of settings that a configuration leaves to its family."""

    batch: int
    rate: float  # the peak of AdamW or SGD
    matrix_rate: float  # the peak of Muon
    warm_up: int  # steps

    @classmethod
    def of(cls, training: TrainingConfig, batch: int, rate: float, warm_up: int) -> Recipe:
        """Return what the settings say, and these defaults where they do not."""
        return cls(
            batch=_or(training.batch, batch),
            rate=_or(training.learning_rate, rate),
            matrix_rate=_or(training.matrix_learning_rate, 0.02),
            warm_up=_or(training.warm_up, warm_up),
        )


def with_defaults(training: TrainingConfig) -> TrainingConfig:
    """Return the settings, with a budget, an optimiser and beta2 if they name none."""
    optimiser = training.optimiser or "muon"
    beta2 = _or(training.beta2, BETA2) if optimiser in ("muon", "adamw") else None
    return replace(with_budget(training), optimiser=optimiser, beta2=beta2)


def with_budget(training: TrainingConfig) -> TrainingConfig:
    """Return the settings, with a budget if they name none."""
    if any(getattr(training, name) is not None for name in BUDGETS):
        return training
    return replace(training, minutes=DEFAULT_MINUTES)


def with_stream_defaults(config: NetworkConfig, training: TrainingConfig) -> TrainingConfig:
    """Return the settings of `with_defaults`, for a network that learns from a stream.

    Recurrent ones are compiled only on request: the compiler does not look into torch's layers, and the code around
    them becomes a third slower. In a short run wide ones use AdamW, since Muon would take most of a step. Raises
    SettingError.
    """
    if not config.is_recurrent:
        return with_defaults(training)
    minutes = with_budget(training).minutes
    if training.optimiser is None and minutes is not None and minutes < _SHORT_MINUTES and config.width > _WIDE:
        training = replace(training, optimiser="adamw")
    return compiled_on_request(with_defaults(training))


def with_adapter_defaults(training: TrainingConfig, adapter: AdapterConfig | None) -> TrainingConfig:
    """Return the settings; where only adapters are trained, by AdamW and without compiling, unless they say otherwise.

    Raises SettingError.
    """
    if adapter is None:
        return training
    if training.shard:
        raise SettingError("shard shares out the weights that are trained; adapters (lora) are small: leave shard out")
    return compiled_on_request(replace(training, optimiser=training.optimiser or "adamw"))


def sizes_left_open(config: NetworkConfig, training: TrainingConfig) -> frozenset[str]:
    """Return the settings that a run of minutes chooses, since they were not given: sizes, the output, whether it is
    tied, and dropout; none for another budget.
    """
    if with_budget(training).minutes is None or not config.sizes:
        return frozenset()
    repeated = {name for levels in (config.repeated, config.repeated_of_many) for name in chain(*levels.values())}
    return frozenset({"output", "noise_samples", "tied", *config.sizes[0], *repeated} - config.given)


def processes_started() -> int:
    """Return how many processes train together, as torchrun says."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def settings_left_open(config: NetworkConfig, training: TrainingConfig) -> frozenset[str]:
    """Return the settings that a run may choose, since they were not given: also the context, which fits a short
    text.
    """
    return sizes_left_open(config, training) | (frozenset({"context"}) - config.given)


def with_context_in_text(
    config: NetworkConfig, training: TrainingConfig, tokens: int
) -> tuple[NetworkConfig, tuple[str, ...]]:
    """Return the settings, with the context that a text of so many tokens fills, where the default one is longer; and a
    note.

    A function of the text, so that a run that resumes keeps its context.
    """
    if not 0 < tokens < config.context or training.row_tokens is not None:
        return config, ()
    try:
        shorter = replace(config, context=tokens)
    except SettingError:  # other settings need a longer one
        return config, ()
    return shorter, (f"context={tokens}, since the text has no more tokens",)


def row_length(config: NetworkConfig, training: TrainingConfig) -> int:
    """Return how many tokens a row of a step has. Raises SettingError if the network has a shorter context."""
    if training.row_tokens is not None and training.row_tokens > config.context:
        raise SettingError(
            f"row_tokens is {training.row_tokens:,}, but the network's context is {config.context:,}; give at most that"
        )
    return _or(training.row_tokens, config.context)


def refuse_settings_of_text(training: TrainingConfig) -> None:
    """Raise SettingError if a setting is given that is for running text, and the training data is none."""
    for name, is_given in (
        ("row_tokens", training.row_tokens is not None),
        ("character_ngrams", training.character_ngrams == "yes"),
    ):
        if is_given:
            raise SettingError(f"{name} is for networks that learn from running text; leave it out")


def recipe_for(config: NetworkConfig, training: TrainingConfig) -> Recipe:
    """Return a recipe with the same tokens per step whatever the context; more for wide recurrent networks, on whose
    matrices Muon is slow, and where its rows would not divide evenly into parts and among processes.

    training: the settings, with defaults filled in, and whether vectors of tokens are sums with those of n-grams.
    """
    is_recurrent = config.is_recurrent
    is_wide = is_recurrent and config.width > _WIDE
    tokens = _WIDE_STEP_TOKENS if is_wide else _STEP_TOKENS
    if training.optimiser == "muon":
        if is_recurrent:
            rate, warm_up = 2e-2, 100
        else:
            rate, warm_up = (5e-3 if training.character_ngrams == "yes" else 1e-2), 20
    elif training.optimiser == "adamw":
        rate, warm_up = (2e-3, 100) if is_recurrent else (1e-3, 100)
    else:
        rate, warm_up = (0.3, 0) if is_recurrent else (0.03, 100)
    rows, shares = max(8, tokens // row_length(config, training)), training.accumulate * processes_started()
    return Recipe.of(training, -(-rows // shares) * shares, rate, warm_up)


def compiled_on_request(training: TrainingConfig) -> TrainingConfig:
    """Return the settings, without compiling unless that is asked for."""
    return replace(training, compile="no" if training.compile == "auto" else training.compile)


def _or(given: T | None, otherwise: T) -> T:
    return otherwise if given is None else given
