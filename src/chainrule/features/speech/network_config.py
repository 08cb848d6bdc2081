"""Settings of the networks that hear: what reads the frames of a sound, and the labels that it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chainrule.base.options import check_settings, option
from chainrule.errors import SettingError
from chainrule.kinds import Lazy
from chainrule.neural.config.network import LAYERS, MAX_LAYERS, MAX_WIDTH

Listener = Literal["lstm", "gru", "transformer"]
MOST_CONVOLUTIONS = 4


@dataclass(frozen=True, kw_only=True)
class SpeechConfig:
    """A network that hears: it reads a sound both ways, and learns by CTC (Graves 2006, 2013). Raises SettingError."""

    network: ClassVar[Lazy] = Lazy("chainrule.features.speech.network:SpeechNetwork")

    encoder: Listener = option("lstm", "what reads the frames: an LSTM or a GRU in both directions, or a Transformer")
    width: int = option(
        256, "units in a hidden layer; of lstm and gru, half for each direction", least=2, below=MAX_WIDTH
    )
    layers: int = option(2, LAYERS, least=1, below=MAX_LAYERS)
    heads: int = option(4, "attention heads of each layer of a transformer", least=1, below=1 << 10)
    convolutions: int = option(
        0,
        "layers of 3 x 3 convolutions over time and frequency before the encoder; each halves the frequencies (Amodei "
        "2016)",
        least=0,
        most=MOST_CONVOLUTIONS,
    )
    channels: int = option(32, "maps of each convolution", least=1, below=MAX_WIDTH)
    dropout: float = option(0.2, "the dropout rate before each layer but the first", least=0, below=1)
    masks: int = option(
        2,
        "spans of time, up to 0.3 s each, and frequency bands, up to a fifth each, that are masked in training "
        "(SpecAugment, Park 2019)",
        least=0,
        most=100,
    )
    stacked: int = option(3, "frames of 10 ms that are read as one step; each label needs a step", least=1, most=16)
    mels: int = option(40, "mel frequency bands in a frame", least=4, most=256)
    rate: int = option(16_000, "samples a second that sounds are converted to", least=4000, most=192_000)
    labels: tuple[str, ...] = option((), "the characters that it writes, from the transcripts", is_rare=True)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.encoder != "transformer" and self.width % 2:
            raise SettingError(f"a width of {self.width} cannot be shared by two directions; make it even")
        if self.encoder == "transformer" and self.width % (2 * self.heads):
            raise SettingError(f"a width of {self.width} cannot be shared by {self.heads} heads of an even width")
        if len(set(self.labels)) < len(self.labels) or any(len(label) != 1 for label in self.labels):
            raise SettingError(f"the labels are {list(self.labels)}; expected distinct characters")
