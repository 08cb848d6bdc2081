"""How a pre-trained network is fine-tuned. Free of torch, so that help and completion are quick."""

from __future__ import annotations

from dataclasses import dataclass

from chainrule.errors import SettingError
from chainrule.neural.settings import check_settings, setting
from chainrule.training.config import DEVICE_HELP, PRECISION_HELP, Precision


@dataclass(frozen=True, kw_only=True)
class FineTuningConfig:
    """Raises SettingError.

    good:  FineTuningConfig(epochs=5, frozen=True)
    """

    epochs: int = setting(10, "passes over the labelled texts, at most", least=1)
    batch: int = setting(32, "texts in a step", least=1)
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
