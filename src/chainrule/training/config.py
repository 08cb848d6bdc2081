"""Settings of training runs, of classifiers and of fine-tuning, and what training takes besides; does not import torch.

Free of torch, so that help and completion are quick. `differences` says how two settings differ.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Literal

from chainrule.base.options import Options, check_settings, option
from chainrule.errors import SettingError
from chainrule.training.reports import OnReport, ignore

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from chainrule.text.vector_files import Vectors

Optimiser = Literal["muon", "adamw", "sgd", "asgd"]
Schedule = Literal["cosine", "linear", "constant", "plateau"]
Precision = Literal["auto", "float32", "bfloat16"]
Compile = Literal["auto", "yes", "no"]
CharacterNgrams = Literal["auto", "yes", "no"]
Forcing = Literal["teacher", "student", "scheduled"]

DEFAULT_MINUTES = 5.0
# Of AdamW. N-grams of rare tokens have gradients now and then, so the mean of their squares has to last longer.
BETA2, BETA2_OF_NGRAMS = 0.95, 0.99
BUDGETS = ("steps", "epochs", "tokens", "minutes")
PRECISION_HELP = "the precision of matrix products; auto: bfloat16 where it is faster on this machine"
DEVICE_HELP = "auto: a GPU where there is one; or cpu, cuda, cuda:1, mps"


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How a network is trained; a field that is None takes its family's default. Raises SettingError.

    good:  TrainingConfig(minutes=5)
    good:  TrainingConfig(steps=2000, optimiser="adamw", schedule="cosine", learning_rate=1e-3)
    """

    steps: int | None = option(None, "stop after this many steps", least=1)
    epochs: float | None = option(None, "stop after this many passes over the text", above=0)
    tokens: int | None = option(None, "stop after this many tokens", least=1)
    minutes: float | None = option(
        None,
        "stop after this many minutes, start, validation and checkpoints included; 5 if no budget is set. The number "
        "of steps follows from the measured speed. So does the size of a network of running text, if it is not set; "
        "its training ends after 40 passes over a short text",
        above=0,
    )
    batch: int | None = option(
        None, "rows per step, over all processes; the default depends on the family and the time", least=1
    )
    row_tokens: int | None = option(
        None,
        "of language models: tokens in a row; fewer than the context save time and memory; by default the context",
        least=1,
    )
    accumulate: int = option(1, "split each step into this many parts, to save memory", least=1)
    recompute: bool = option(
        False,
        "compute the activations of each block of a Transformer again when gradients need them: less memory, about a "
        "third more time",
    )
    shard: bool = option(
        False,
        "shard the weights, gradients and optimiser state of a Transformer over the processes of torchrun (FSDP2), "
        "not only the rows of a step",
    )
    optimiser: Optimiser | None = option(
        None,
        "muon: for matrices, and AdamW for the rest; sgd: with momentum; asgd: sgd, averaged once validation stops "
        "improving; by default muon, but adamw for recurrent networks wider than 256 that train for less than 2 "
        "minutes",
    )
    learning_rate: float | None = option(
        None, "the peak learning rate of AdamW or SGD; the default depends on the optimiser and the family", above=0
    )
    matrix_learning_rate: float | None = option(
        None, "the peak rate of Muon; the default depends on the family", above=0
    )
    schedule: Schedule = option(
        "constant",
        "how the learning rate falls after the warm-up: cosine; linear; constant: constant, then linear; plateau: "
        "halved when validation stops improving",
    )
    warm_up: int | None = option(
        None, "steps in which the rate rises; the default depends on the optimiser, at most a fifth", least=0
    )
    decay_share: float = option(
        0.6, "with constant: the share of the steps, at the end, in which the learning rate falls", least=0, below=1.01
    )
    final_share: float = option(0.0, "the learning rate at the end, as a share of its peak", least=0, below=1.01)
    beta1: float = option(0.9, "AdamW: decay of the mean of gradients", least=0, below=1)
    beta2: float | None = option(
        None,
        "AdamW: decay of the mean of their squares; by default 0.95, and 0.99 with character n-grams",
        least=0,
        below=1,
    )
    momentum: float = option(0.95, "the momentum of Muon and SGD", least=0, below=1)
    weight_decay: float = option(0.0, "decoupled weight decay, on matrices only", least=0)
    clip: float = option(1.0, "the largest norm of a step's gradient; 0: no limit", least=0)
    label_smoothing: float = option(
        0.0, "share of each target that is spread over the whole vocabulary", least=0, below=1
    )
    ema: float = option(
        0.0,
        "the model is the exponential moving average of the weights with this decay; 0: the weights themselves",
        least=0,
        below=1,
    )
    forcing: Forcing = option(
        "teacher", "what a recurrent network reads in training: the text; its own predictions; or more and more of them"
    )
    valid_share: float = option(
        0.05,
        "the share of the text, at its end, that is held out for validation if no other text is given",
        least=0,
        below=0.51,
    )
    valid_tokens: int = option(1 << 20, "validate on at most this many tokens", least=1)
    valid_sample: int | None = option(
        None, "tokens in each validation before the last one; by default few enough to take little of the run", least=1
    )
    validate_every: int | None = option(None, "steps between validations; by default a tenth of the run", least=1)
    early_stopping: int = option(0, "stop after this many validations without improvement; 0: never", least=0)
    patience: int = option(
        2, "plateau, asgd: validations without improvement before the rate is halved, or averaging begins", least=1
    )
    save_every: int | None = option(
        None,
        "steps between checkpoints; by default at validations and every minute, in at most a fiftieth of the time",
        least=1,
    )
    precision: Precision = option("auto", PRECISION_HELP)
    compile: Compile = option("auto", "use torch.compile; auto: where that saves time within the budget")
    device: str = option("auto", DEVICE_HELP)
    character_ngrams: CharacterNgrams = option(
        "auto",
        "of language models: learn the vector of a token as the sum of its own and those of its n-grams of 2 to 4 "
        "characters, which decay by 0.03 or more; the model keeps the sum; auto: where a recurrent network of 256 "
        "units or more, or a Transformer of 128, begins without vectors, with 1,000 to 50,000 tokens",
    )
    seed: int = option(0, "the seed of the random numbers", least=0, below=1 << 63)
    tensorboard: bool = option(False, "also write TensorBoard's files, next to log.jsonl")

    def __post_init__(self) -> None:
        check_settings(self)
        given = [name for name in BUDGETS if getattr(self, name) is not None]
        if len(given) > 1:
            raise SettingError(f"{' and '.join(given)} are both given; choose one of them")
        if self.optimiser in ("sgd", "asgd"):
            for name, default in (("beta1", 0.9), ("beta2", None)):
                if getattr(self, name) != default:
                    raise SettingError(f"{name} is for AdamW, and the optimiser is {self.optimiser}; leave it out")
        if self.batch is not None and self.batch % self.accumulate:
            raise SettingError(
                f"batch is {self.batch}, which cannot be split into accumulate={self.accumulate} equal parts"
            )


def settings_of(config: TrainingConfig) -> dict[str, object]:
    """Return all fields by name, for JSON."""
    return {field.name: getattr(config, field.name) for field in fields(config)}


_EPOCHS, _MOST_EPOCHS = 10, 30
_BATCH, _LEAST_BATCH = 32, 8
_SEEN = 36_000  # a small set is read repeatedly, up to this many examples in all
_WARM_UP = 0.1  # share of the steps
_ALL = 1 << 62  # tokens to validate on


@dataclass(frozen=True, kw_only=True)
class ClassifierTrainingConfig:
    """How a network learns labels, from scratch. Raises SettingError.

    good:  ClassifierTrainingConfig(epochs=5)
    """

    epochs: int | None = option(
        None, "at most this many passes over the examples; by default 10, and up to 30 for few", least=1
    )
    minutes: float | None = option(None, "stop after this many minutes, in place of epochs", above=0)
    batch: int | None = option(None, "examples per step; by default 32, and down to 8 for few examples", least=1)
    accumulate: int = option(1, "split each step into this many parts, to save memory", least=1)
    learning_rate: float = option(
        2e-3, "the peak learning rate of AdamW; it rises for a tenth of the steps, then falls", above=0
    )
    weight_decay: float = option(0.01, "decoupled weight decay, on all weights that are trained", least=0)
    valid_share: float = option(
        0.1,
        "the share of the examples that is held out. The epoch with the highest accuracy on it is kept (of ratings, "
        "Pearson's correlation; of boxes, mean average precision), and of equal ones that with the lowest loss",
        least=0,
        below=0.51,
    )
    patience: int = option(3, "epochs without improvement before training ends", least=1)
    save_every: int | None = option(
        None, "steps between checkpoints; by default after each epoch and every minute", least=1
    )
    precision: Precision = option("auto", PRECISION_HELP)
    device: str = option("auto", DEVICE_HELP)
    seed: int = option(0, "the seed of the random numbers", least=0, below=1 << 63)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.epochs is not None and self.minutes is not None:
            raise SettingError("epochs and minutes are both given; choose one of them")

    def fitted_to(self, examples: int, steps_in_epoch: int = 400) -> Self:
        """Return the settings with defaults for this many examples: a small set gets more epochs, and smaller steps.

        steps_in_epoch: the batch is reduced until an epoch has this many steps.
        """
        epochs = self.epochs
        if epochs is None and self.minutes is None:
            epochs = _epochs_of(examples)
        batch = _BATCH
        while batch > _LEAST_BATCH and examples < steps_in_epoch * batch:
            batch //= 2
        return replace(self, epochs=epochs, batch=self.batch or batch)

    def warm_up(self, examples: int, steps: int) -> int:
        """Return the number of steps in which the rate rises. steps: in an epoch."""
        return int(_WARM_UP * (self.epochs or _epochs_of(examples)) * steps)

    def training(self, steps: int) -> TrainingConfig:
        """Return the settings of the training loop. steps: in an epoch."""
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


@dataclass(frozen=True, kw_only=True)
class FineTuningConfig(ClassifierTrainingConfig):
    """How a pre-trained network is fine-tuned. Raises SettingError.

    good:  FineTuningConfig(epochs=5, frozen=True)
    """

    learning_rate: float = option(
        1e-3, "the peak learning rate of AdamW; it rises for a tenth of the steps, then falls", above=0
    )
    dropout: float = option(0.1, "the dropout rate of the head's inputs", least=0, below=1)
    frozen: bool = option(False, "train only the head; the network does not change")
    mixed: bool = option(
        False, "the head reads a mix of all layers, with learned weights (ELMo, Peters 2018), not just the last"
    )
    fresh: bool = option(False, "train from scratch, from random weights, for comparison")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frozen and self.fresh:
            raise SettingError("frozen and fresh are both given, so the weights would stay random; choose one of them")


@dataclass(frozen=True, kw_only=True)
class AdapterConfig(Options):
    """Which matrices of a network get an adapter, W + (alpha / r) B A (Hu et al. 2021), and of which rank.

    good:  AdapterConfig(lora=16)
    good:  AdapterConfig(lora=8, lora_alpha=32, lora_layers=4)
    """

    lora: int | None = option(
        None,
        "train only low-rank adapters (LoRA) of this rank, beside the linear layers of a Transformer's blocks. The "
        "network does not change, and may be quantised; the new model is a small folder that refers to it",
        least=1,
        below=1 << 16,
    )
    lora_alpha: float | None = option(
        None, "adapters are scaled by this, divided by the rank; by default twice the rank", above=0, needs="lora"
    )
    lora_layers: int | None = option(
        None, "adapt this many of the last blocks only, which is faster; by default all", least=1, needs="lora"
    )

    @property
    def rank(self) -> int:
        """The rank of the adapters. Raises SettingError where there are none."""
        if self.lora is None:
            raise SettingError("lora is not set; expected the rank of adapters")
        return self.lora

    @property
    def scale(self) -> float:
        """The factor of B A."""
        return (2.0 * self.rank if self.lora_alpha is None else self.lora_alpha) / self.rank


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """How a run goes, whatever it trains.

    folder: for checkpoints and log.jsonl; without one, neither is written. resume: continue from the checkpoint in it,
    or start if there is none. overwrite: start over even if there is one. on_report: a callback that gets a Report now
    and then. began: when a budget of minutes began, by the monotonic clock; by default, when training begins.
    """

    folder: Path | None = None
    resume: bool = False
    overwrite: bool = False
    on_report: OnReport = ignore
    began: float | None = None

    def __post_init__(self) -> None:
        if self.folder is not None:
            from chainrule.base.arguments import as_path

            object.__setattr__(self, "folder", as_path(self.folder, "folder"))


@dataclass(frozen=True)
class InitialVectors:
    """Vectors to initialise the embedding with. fixed: train none of the embedding."""

    vectors: Vectors
    fixed: bool

    @property
    def name(self) -> str:
        return vectors_name(self.vectors.name, fixed=self.fixed)


def vectors_name(file: str, *, fixed: bool) -> str:
    """Return the name of vectors in records."""
    return f"{file}, fixed" if fixed else file


# The model does not depend on these, so a resumed run may change them.
WITHOUT_EFFECT = frozenset({"save_every", "tensorboard", "recompute", "shard"})


def differences(before: dict[str, object], now: dict[str, object]) -> list[str]:
    """Return the differences between two runs' settings, in words, except for settings without effect."""
    names = [name for name in {**before, **now} if name not in WITHOUT_EFFECT]
    return [
        f"{name} was {_shown(before.get(name))} and is {_shown(now.get(name))}"
        for name in names
        if _as_json(before.get(name)) != _as_json(now.get(name))
    ]


def _shown(value: object) -> str:
    return "not set" if value is None else str(value)


def _as_json(value: object) -> object:
    """Return the settings with tuples as lists, as JSON has them in a record."""
    if isinstance(value, dict):
        return {key: _as_json(own) for key, own in value.items()}
    return [_as_json(own) for own in value] if isinstance(value, tuple | list) else value
