"""Settings of low-rank adapters (LoRA), without torch."""

from __future__ import annotations

from dataclasses import dataclass

from chainrule.base.options import Options, option
from chainrule.errors import SettingError


@dataclass(frozen=True, kw_only=True)
class AdapterConfig(Options):
    """Which matrices of a network get an adapter, W + (alpha / r) B A (Hu et al. 2021), and of which rank.

    good:  AdapterConfig(lora=16)
    good:  AdapterConfig(lora=8, lora_alpha=32, lora_layers=4)
    """

    lora: int | None = option(
        None,
        "train only adapters of this rank beside the linear layers of a Transformer's blocks; the network stays as it "
        "is, and may be quantised. The model is then a small folder, which names that of the network",
        least=1,
        below=1 << 16,
    )
    lora_alpha: float | None = option(
        None, "the factor of adapters is this, divided by the rank; nothing: twice the rank", above=0, needs="lora"
    )
    lora_layers: int | None = option(
        None, "adapters in this many of the last blocks only, which is faster; nothing: in all", least=1, needs="lora"
    )

    @property
    def rank(self) -> int:
        """Raises SettingError where there are no adapters."""
        if self.lora is None:
            raise SettingError("lora is not set; expected the rank of adapters")
        return self.lora

    @property
    def scale(self) -> float:
        """The factor of B A."""
        return (2.0 * self.rank if self.lora_alpha is None else self.lora_alpha) / self.rank
