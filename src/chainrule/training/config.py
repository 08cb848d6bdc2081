"""The settings of a training run. Does not import torch, so that help and completion are quick."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from chainrule.base.options import check_settings, setting
from chainrule.errors import SettingError

Optimiser = Literal["muon", "adamw", "sgd", "asgd"]
Schedule = Literal["cosine", "linear", "constant", "plateau"]
Precision = Literal["auto", "float32", "bfloat16"]
Compile = Literal["auto", "yes", "no"]
Forcing = Literal["teacher", "student", "scheduled"]

DEFAULT_MINUTES = 5.0
BUDGETS = ("steps", "epochs", "tokens", "minutes")
PRECISION_HELP = "of matrix products; auto: bfloat16 where this machine gains by it"
DEVICE_HELP = "auto: a GPU where there is one; or cpu, cuda, cuda:1, mps"


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How a network is trained; a field that is None takes its family's default. Raises SettingError.

    good:  TrainingConfig(minutes=5)
    good:  TrainingConfig(steps=2000, optimiser="adamw", schedule="cosine", learning_rate=1e-3)
    """

    steps: int | None = setting(None, "stop after this many steps", least=1)
    epochs: float | None = setting(None, "stop after this many passes over the text", least=0)
    tokens: int | None = setting(None, "stop after this many tokens", least=1)
    minutes: float | None = setting(
        None,
        "stop after this many minutes, validation and checkpoints included; the measured speed sets the number of "
        "steps; without any budget, 5",
        least=0,
    )
    batch: int | None = setting(
        None, "rows per step, over all processes; nothing: by the family, fewer in a short run", least=1
    )
    row_tokens: int | None = setting(
        None,
        "language models: tokens in a row, fewer than the context to save time and memory; nothing: the context",
        least=1,
    )
    accumulate: int = setting(1, "split each step into this many parts, to save memory", least=1)
    recompute: bool = setting(
        False,
        "compute the activations of each block of a Transformer again when gradients need them: less memory, about a "
        "third more time",
    )
    shard: bool = setting(
        False,
        "share out the weights, gradients and optimiser of a Transformer among the processes of torchrun (FSDP2), not "
        "only the rows of a step",
    )
    optimiser: Optimiser | None = setting(
        None,
        "muon: for matrices, and AdamW for the rest; sgd: with momentum; asgd: sgd, averaged once validation stops "
        "improving; nothing: muon, but adamw for recurrent networks in less than 2 minutes",
    )
    learning_rate: float | None = setting(
        None, "the peak rate of AdamW or SGD; nothing: by the optimiser and the family", least=0
    )
    matrix_learning_rate: float | None = setting(None, "the peak rate of Muon; nothing: by the family", least=0)
    schedule: Schedule = setting(
        "constant",
        "after the warm-up: cosine; linear; constant, then linear; plateau: halved when validation stops improving",
    )
    warm_up: int | None = setting(
        None, "steps in which the rate rises; nothing: by the optimiser, at most a fifth of the run", least=0
    )
    decay_share: float = setting(
        0.6, "constant: the share of the steps, at the end, in which the rate falls", least=0, below=1.01
    )
    final_share: float = setting(0.0, "the learning rate at the end, as a share of its peak", least=0, below=1.01)
    beta1: float = setting(0.9, "AdamW: decay of the mean of gradients", least=0, below=1)
    beta2: float = setting(0.95, "AdamW: decay of the mean of their squares", least=0, below=1)
    momentum: float = setting(0.95, "Muon and SGD", least=0, below=1)
    weight_decay: float = setting(0.0, "decoupled, on matrices only", least=0)
    clip: float = setting(1.0, "the largest norm of a step's gradient; 0: no limit", least=0)
    label_smoothing: float = setting(
        0.0, "share of each target that is spread over the whole vocabulary", least=0, below=1
    )
    ema: float = setting(
        0.0,
        "the model is the moving average of the weights with this decay; 0: the weights themselves",
        least=0,
        below=1,
    )
    forcing: Forcing = setting(
        "teacher", "what a recurrent network reads in training: the text; its own guesses; or more and more of them"
    )
    valid_share: float = setting(
        0.05,
        "the share of the text, at its end, that is held out for validation if no other text is given",
        least=0,
        below=0.51,
    )
    valid_tokens: int = setting(1 << 20, "validate on at most this many tokens", least=1)
    valid_sample: int | None = setting(
        None, "tokens in each validation before the last; nothing: as many as take little of the run", least=1
    )
    validate_every: int | None = setting(None, "steps between validations; nothing: a tenth of the run", least=1)
    early_stopping: int = setting(0, "stop after this many validations without improvement; 0: never", least=0)
    patience: int = setting(
        2, "plateau and asgd: validations without improvement before the rate is halved, or averaging begins", least=1
    )
    save_every: int | None = setting(
        None,
        "steps between checkpoints; nothing: at validations and every minute, in at most a fiftieth of the time",
        least=1,
    )
    precision: Precision = setting("auto", PRECISION_HELP)
    compile: Compile = setting("auto", "torch.compile; auto: where it pays back within the budget")
    device: str = setting("auto", DEVICE_HELP)
    seed: int = setting(0, "of the random numbers: another seed gives another model", least=0, below=1 << 63)
    tensorboard: bool = setting(False, "also write TensorBoard's files, next to log.jsonl")

    def __post_init__(self) -> None:
        check_settings(self)
        given = [name for name in BUDGETS if getattr(self, name) is not None]
        if len(given) > 1:
            raise SettingError(f"{' and '.join(given)} are both given; choose one of them")
        for name in (*given, "learning_rate", "matrix_learning_rate"):
            if getattr(self, name) == 0:
                raise SettingError(f"{name} is 0; expected more than 0")
        if self.batch is not None and self.batch % self.accumulate:
            raise SettingError(
                f"batch is {self.batch}, which cannot be split into accumulate={self.accumulate} equal parts"
            )


def settings_of(config: TrainingConfig) -> dict[str, object]:
    """All fields by name, for JSON."""
    return {field.name: getattr(config, field.name) for field in fields(config)}
