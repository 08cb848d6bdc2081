"""How a pre-trained network is fine-tuned. Free of torch, so that help and completion are quick."""

from __future__ import annotations

from dataclasses import dataclass

from chainrule.base.options import setting
from chainrule.errors import SettingError
from chainrule.training.label_config import LabelTraining


@dataclass(frozen=True, kw_only=True)
class FineTuningConfig(LabelTraining):
    """How a pre-trained network is fine-tuned. Raises SettingError.

    good:  FineTuningConfig(epochs=5, frozen=True)
    """

    learning_rate: float = setting(
        1e-3, "the peak rate of AdamW; it rises for a tenth of the steps, then falls", least=0
    )
    dropout: float = setting(0.1, "share of the head's inputs that are set to 0", least=0, below=1)
    frozen: bool = setting(False, "train only the head; the network stays as it is")
    mixed: bool = setting(
        False, "the head reads a mix of all layers, with learned weights (ELMo, Peters 2018), not just the last"
    )
    fresh: bool = setting(False, "train from scratch, from random weights, for comparison")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frozen and self.fresh:
            raise SettingError("frozen and fresh are both given, so the weights would stay random; choose one of them")
