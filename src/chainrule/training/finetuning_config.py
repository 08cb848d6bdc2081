"""How a pre-trained network is fine-tuned. Free of torch, so that help and completion are quick."""

from __future__ import annotations

from dataclasses import dataclass, replace

from chainrule.base.settings import check_settings, setting
from chainrule.errors import SettingError
from chainrule.training.config import DEVICE_HELP, PRECISION_HELP, Precision

_EPOCHS, _MOST_EPOCHS = 10, 30
_BATCH, _LEAST_BATCH = 32, 8
_SEEN_TEXTS, _STEPS_IN_EPOCH = 36_000, 400  # what few texts are gone through for


@dataclass(frozen=True, kw_only=True)
class FineTuningConfig:
    """Raises SettingError.

    good:  FineTuningConfig(epochs=5, frozen=True)
    """

    epochs: int | None = setting(
        None, "passes over the labelled texts, at most; nothing: 10, up to 30 where the texts are few", least=1
    )
    batch: int | None = setting(None, "texts in a step; nothing: 32, down to 8 where the texts are few", least=1)
    learning_rate: float = setting(1e-3, "the highest of AdamW; it rises for a tenth of the steps, then falls", least=0)
    weight_decay: float = setting(0.01, "decoupled, on all weights that learn", least=0)
    dropout: float = setting(0.1, "share of the numbers that the head is given that are dropped", least=0, below=1)
    frozen: bool = setting(False, "only the head learns; the network stays as it is")
    mixed: bool = setting(
        False, "the head is given a mix of all layers, by learned weights (ELMo, Peters 2018), not the last one"
    )
    fresh: bool = setting(False, "the network forgets all that it has learnt: training from scratch, to compare with")
    valid_share: float = setting(0.1, "share of the texts that is kept to choose the epoch by", least=0, below=0.51)
    patience: int = setting(3, "epochs without a better one before training ends", least=1)
    precision: Precision = setting("auto", PRECISION_HELP)
    device: str = setting("auto", DEVICE_HELP)
    seed: int = setting(0, "another seed, another classifier", least=0, below=1 << 63)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.learning_rate == 0:
            raise SettingError("learning_rate is 0; expected more")
        if self.frozen and self.fresh:
            raise SettingError("a network that is frozen and has learnt nothing says nothing; choose one of them")

    def fitted_to(self, texts: int) -> FineTuningConfig:
        """With nothing left open: of few texts, more steps are made, each of fewer texts."""
        epochs = max(_EPOCHS, min(_MOST_EPOCHS, _SEEN_TEXTS // texts))
        batch = _BATCH
        while batch > _LEAST_BATCH and texts < _STEPS_IN_EPOCH * batch:
            batch //= 2
        return replace(self, epochs=self.epochs or epochs, batch=self.batch or batch)
