"""How networks learn labels. Free of torch, so that help and completion are quick."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chainrule.base.options import check_settings, setting
from chainrule.errors import SettingError
from chainrule.training.config import DEVICE_HELP, PRECISION_HELP, Precision, TrainingConfig

if TYPE_CHECKING:
    from typing import Self

_EPOCHS, _MOST_EPOCHS = 10, 30
_BATCH, _LEAST_BATCH = 32, 8
_SEEN, _STEPS_IN_EPOCH = 36_000, 400  # a small set is read until it comes to so many examples
_WARM_UP = 0.1  # share of the steps
_ALL = 1 << 62  # tokens to validate on


@dataclass(frozen=True, kw_only=True)
class LabelTraining:
    """How a network learns labels, from scratch. Raises SettingError.

    good:  LabelTraining(epochs=5)
    """

    epochs: int | None = setting(
        None, "at most this many passes over the labelled examples; nothing: 10, up to 30 for few examples", least=1
    )
    minutes: float | None = setting(None, "stop after this many minutes, in place of epochs", least=0)
    batch: int | None = setting(None, "examples per step; nothing: 32, down to 8 for few examples", least=1)
    accumulate: int = setting(1, "split each step into this many parts, to save memory", least=1)
    learning_rate: float = setting(
        2e-3, "the peak rate of AdamW; it rises for a tenth of the steps, then falls", least=0
    )
    weight_decay: float = setting(0.01, "decoupled, on all weights that are trained", least=0)
    valid_share: float = setting(
        0.1, "share of the examples that is held out to choose the best epoch", least=0, below=0.51
    )
    patience: int = setting(3, "epochs without improvement before training ends", least=1)
    save_every: int | None = setting(
        None, "steps between checkpoints; nothing: after each epoch and every minute", least=1
    )
    precision: Precision = setting("auto", PRECISION_HELP)
    device: str = setting("auto", DEVICE_HELP)
    seed: int = setting(0, "of the random numbers: another seed gives another classifier", least=0, below=1 << 63)

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("learning_rate", "minutes"):
            if getattr(self, name) == 0:
                raise SettingError(f"{name} is 0; expected more than 0")
        if self.epochs is not None and self.minutes is not None:
            raise SettingError("epochs and minutes are both given; choose one of them")

    def fitted_to(self, examples: int) -> Self:
        """With defaults for this many examples: a small set gets more epochs, and steps of fewer examples."""
        epochs = self.epochs
        if epochs is None and self.minutes is None:
            epochs = _epochs_of(examples)
        batch = _BATCH
        while batch > _LEAST_BATCH and examples < _STEPS_IN_EPOCH * batch:
            batch //= 2
        return replace(self, epochs=epochs, batch=self.batch or batch)

    def warm_up(self, examples: int, steps: int) -> int:
        """Steps in which the rate rises. steps: in an epoch."""
        return int(_WARM_UP * (self.epochs or _epochs_of(examples)) * steps)

    def training(self, steps: int) -> TrainingConfig:
        """The settings of the training loop. steps: in an epoch."""
        return TrainingConfig(
            epochs=self.epochs,
            minutes=self.minutes,
            batch=self.batch,
            accumulate=self.accumulate,
            optimiser="adamw",
            learning_rate=self.learning_rate,
            schedule="linear",
            beta2=0.999,
            weight_decay=self.weight_decay,
            valid_share=self.valid_share,
            valid_sample=_ALL,
            validate_every=steps,
            early_stopping=self.patience,
            save_every=self.save_every,
            precision=self.precision,
            compile="no",
            device=self.device,
            seed=self.seed,
        )


def _epochs_of(examples: int) -> int:
    return max(_EPOCHS, min(_MOST_EPOCHS, _SEEN // max(1, examples)))
