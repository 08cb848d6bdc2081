"""Settings of the networks that read samples. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar, Literal

from chainrule.base.options import check_settings, option
from chainrule.errors import SettingError
from chainrule.kinds import Lazy
from chainrule.neural.config.network import LAYERS, MAX_LAYERS, MAX_WIDTH

AcousticActivation = Literal["gelu_exact", "gelu", "relu", "silu"]


@dataclass(frozen=True, kw_only=True)
class AcousticConfig:
    """A Transformer over convolutions of samples: wav2vec 2.0 (Baevski 2020), HuBERT (Hsu 2021), WavLM (Chen 2022).

    Raises SettingError.
    """

    network: ClassVar[Lazy] = Lazy("chainrule.features.speech.acoustic.network:AcousticNetwork")

    encoder: Literal["wav2vec2", "hubert", "wavlm"] = option("wav2vec2", "what such networks are called")
    convolution_widths: tuple[int, ...] = option((512,) * 7, "the maps of each convolution over samples")
    convolution_kernels: tuple[int, ...] = option((10, 3, 3, 3, 3, 2, 2), "how many steps each of them reads")
    convolution_strides: tuple[int, ...] = option((5, 2, 2, 2, 2, 2, 2), "how many steps each of them goes on by")
    convolution_bias: bool = option(False, "whether these convolutions have biases")
    convolution_norm: Literal["group", "layer"] = option(
        "group", "group: the maps of the first one are normalised over time; layer: each step of all is normalised"
    )
    convolution_activation: AcousticActivation = option("gelu_exact", "the activation after convolutions")
    input_norm: bool = option(True, "whether the last maps are normalised")
    width: int = option(768, "units in a hidden layer", least=2, below=MAX_WIDTH)
    layers: int = option(12, LAYERS, least=1, below=MAX_LAYERS)
    heads: int = option(12, "attention heads of each layer", least=1, below=1 << 10)
    feed_forward_width: int = option(3072, "units within a feed-forward layer", least=1, below=MAX_WIDTH)
    activation: AcousticActivation = option("gelu_exact", "the activation of feed-forward layers")
    norm_place: Literal["post", "pre"] = option("post", "whether norms are after the parts of a layer, or before them")
    norm_epsilon: float = option(1e-5, "what norms add to the variance", least=0)
    position_kernel: int = option(128, "steps that the convolution for positions reads", least=1, below=1 << 16)
    position_groups: int = option(16, "groups of maps of this convolution", least=1, below=MAX_WIDTH)
    position_shift: bool = option(False, "whether its inputs are scaled and shifted, by what batches had in training")
    buckets: int = option(0, "WavLM: how many biases of attention there are for distances; 0: none", least=0)
    longest: int = option(800, "WavLM: the distance from which on all have the same bias", least=2)
    rate: int = option(16_000, "samples a second that sounds are converted to", least=1000, most=192_000)
    normalised: bool = option(True, "whether samples get a mean of 0 and a deviation of 1")
    labels: tuple[str, ...] = option(
        (), "the labels of the outputs, of which the blank is empty; none: there is no output", is_rare=True
    )

    def __post_init__(self) -> None:
        check_settings(self)
        sizes = self.convolution_widths, self.convolution_kernels, self.convolution_strides
        if len(set(map(len, sizes))) > 1 or not sizes[0] or any(type(n) is not int or n < 1 for n in sum(sizes, ())):
            raise SettingError(
                f"convolution_widths are {list(sizes[0])}, kernels {list(sizes[1])}, strides {list(sizes[2])}; "
                "expected as many of each, whole numbers of at least 1"
            )
        for name, parts in (("heads", self.heads), ("position_groups", self.position_groups)):
            if self.width % parts:
                raise SettingError(f"{name} is {parts}, of which a width of {self.width} is no multiple")
        if 0 < self.buckets < 4:
            raise SettingError(f"buckets is {self.buckets}; expected 0, or 4 and more")
        if self.labels and (self.labels.count("") != 1 or len(set(self.labels)) < len(self.labels)):
            raise SettingError("labels are not distinct, with one that is empty, the blank")

    @property
    def step_samples(self) -> int:
        """How many samples a step goes on by."""
        return prod(self.convolution_strides)

    @property
    def least_samples(self) -> int:
        """How many samples the first step reads."""
        samples = 1
        for kernel, stride in zip(self.convolution_kernels[::-1], self.convolution_strides[::-1], strict=True):
            samples = (samples - 1) * stride + kernel
        return samples

    def steps(self, samples: int) -> int:
        """Return the steps of a sound of so many samples."""
        for kernel, stride in zip(self.convolution_kernels, self.convolution_strides, strict=True):
            samples = (samples - kernel) // stride + 1
        return max(0, samples)
