"""Settings of networks over pictures: LeNet to EfficientNet, ViT, and two-dimensional LSTMs.

Networks that label pictures are sized for small ones; all that their papers chose is a setting. `GridConfig`, a
two-dimensional LSTM that models pictures row by row, is among the language models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chainrule.base.options import changed, option
from chainrule.errors import SettingError
from chainrule.features.vision.network.grid_config import GridCell, GridConfig
from chainrule.features.vision.pictures.picture import Colours, Fit, Frame
from chainrule.kinds import Lazy
from chainrule.neural.config.network import (
    LAYERS,
    MAX_LAYERS,
    MAX_WIDTH,
    LabellingConfig,
)

_BUILD = "chainrule.features.vision.network.build"

Activation = Literal["relu", "tanh"]
MapPooling = Literal["max", "mean"]
MapNorm = Literal["none", "batch", "local"]
Stem = Literal["small", "large"]
Block = Literal["by_depth", "basic", "bottleneck"]

# Convolutions of each block of VGG (Simonyan and Zisserman 2015, table 1), and blocks of each layer of a ResNet (He et
# al. 2016, table 1), by depth.
VGG_BLOCKS: dict[int, tuple[int, ...]] = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}
RESNET_BLOCKS: dict[int, tuple[int, ...]] = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}


@dataclass(frozen=True, kw_only=True)
class PictureLabelling(LabellingConfig):
    """Of networks that read pictures, all of one size."""

    reads: ClassVar[str] = "picture"

    size: tuple[int, ...] = option(
        (32,), "height and width, in pixels, that pictures are scaled to; one number: both", least=1, below=1 << 12
    )
    fit: Fit = option(
        "crop",
        "how pictures are scaled: crop: to fill that size, then cut; stretch: each side by itself; pad: the whole "
        "picture, on black",
    )
    crop_share: float = option(1.0, "with crop: the share that is kept, from the middle", least=0.1, below=1.01)
    colours: Colours = option("rgb", "the colours: rgb: red, green and blue; grey: their brightness alone")
    flip: bool = option(True, "mirror half of the pictures in training; off where left and right differ")
    shift: float = option(
        0.125, "in training, move pictures by up to this share of their size, each way", least=0, below=0.5
    )
    pixel_means: tuple[float, ...] = option(
        (123.675, 116.28, 103.53), "subtracted from the bytes of red, green and blue", least=0, below=256, is_rare=True
    )
    pixel_deviations: tuple[float, ...] = option(
        (58.395, 57.12, 57.375), "what they are divided by after that", least=1e-3, below=256, is_rare=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.size) not in (1, 2):
            raise SettingError(f"size is {self.size}; expected one number, or height and width")
        if self.crop_share > 1:
            raise SettingError(f"crop_share is {self.crop_share}; expected at most 1")
        if len(self.pixel_means) != 3 or len(self.pixel_deviations) != 3:
            raise SettingError("pixel_means and pixel_deviations have a number each for red, green and blue")

    @property
    def labels_pixels(self) -> bool:
        """Whether networks of these settings can label each pixel, not only whole pictures."""
        return False

    @property
    def patches(self) -> tuple[int, int] | None:
        """Rows and columns of the patches, where a vector of none of them stands before theirs; else None."""
        return None

    @property
    def frame(self) -> Frame:
        """What every picture is brought to."""
        return Frame(
            height=self.size[0], width=self.size[-1], fit=self.fit, colours=self.colours, share=self.crop_share
        )


@dataclass(frozen=True, kw_only=True)
class PlainConvolutionLabelling(PictureLabelling):
    """Of networks of convolutions in a row, then hidden layers: the history until 2014."""

    body: ClassVar[Lazy] = Lazy(f"{_BUILD}:plain_body")

    channels: tuple[int, ...] = option((), "filters of each convolution", least=1, below=MAX_WIDTH)
    kernels: tuple[int, ...] = option(
        (), "height and width of the filters of each convolution; one number: of all", least=1, below=1 << 8
    )
    pooled: tuple[int, ...] = option((), "convolutions, counted from 1, whose outputs are pooled", least=1)
    pooling: MapPooling = option("max", "of pictures: how a window of outputs is pooled")
    window: int = option(2, "height and width of a window of pooling, which moves by 2", least=2, below=1 << 8)
    stride: int = option(1, "pixels that the filters of the first convolution move by", least=1, below=1 << 8)
    padded: bool = option(True, "maps are padded with zeros, so that convolutions keep their size")
    activation: Activation = option("relu", "the activation after each layer but the last")
    norm: MapNorm = option(
        "none", "the norm of the outputs of convolutions: batch: batch normalisation; local: among neighbouring filters"
    )
    hidden: tuple[int, ...] = option(
        (512,), "units of the hidden layers between the convolutions and the last one", least=1, below=MAX_WIDTH
    )
    width: int = option(512, "units in a hidden layer", least=1, below=MAX_WIDTH)
    dropout: float = option(0.5, "the dropout rate before each hidden layer and the output layer", least=0, below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.channels:
            raise SettingError("channels is empty; give the filters of each convolution, such as 6 16")
        if len(self.kernels) not in (1, len(self.channels)):
            raise SettingError(
                f"there are {len(self.kernels)} kernels for {len(self.channels)} convolutions; give one, or one each"
            )
        if beyond := [number for number in self.pooled if number > len(self.channels)]:
            raise SettingError(f"pooled has {beyond[0]}, but there are {len(self.channels)} convolutions")

    @property
    def labels_pixels(self) -> bool:
        return self.padded and self.window == 2 and not any(side % self.pixels_of_place for side in self.size)

    @property
    def pixels_of_place(self) -> int:
        """How many pixels the places of the last maps are apart."""
        return self.stride * 2 ** len(set(self.pooled))


@dataclass(frozen=True, kw_only=True)
class LeNetLabelling(PlainConvolutionLabelling):
    """LeNet-5 (LeCun 1998)."""

    channels: tuple[int, ...] = changed(PlainConvolutionLabelling, "channels", (6, 16))
    kernels: tuple[int, ...] = changed(PlainConvolutionLabelling, "kernels", (5,))
    pooled: tuple[int, ...] = changed(PlainConvolutionLabelling, "pooled", (1, 2))
    pooling: MapPooling = changed(PlainConvolutionLabelling, "pooling", "mean")
    padded: bool = changed(PlainConvolutionLabelling, "padded", False)
    activation: Activation = changed(PlainConvolutionLabelling, "activation", "tanh")
    hidden: tuple[int, ...] = changed(PlainConvolutionLabelling, "hidden", (120,))
    width: int = changed(PlainConvolutionLabelling, "width", 84)
    dropout: float = changed(PlainConvolutionLabelling, "dropout", 0.0)


@dataclass(frozen=True, kw_only=True)
class AlexNetLabelling(PlainConvolutionLabelling):
    """AlexNet (Krizhevsky 2012), with its first filters made smaller for small pictures."""

    channels: tuple[int, ...] = changed(PlainConvolutionLabelling, "channels", (64, 192, 384, 256, 256))
    kernels: tuple[int, ...] = changed(PlainConvolutionLabelling, "kernels", (5, 5, 3, 3, 3))
    pooled: tuple[int, ...] = changed(PlainConvolutionLabelling, "pooled", (1, 2, 5))
    window: int = changed(PlainConvolutionLabelling, "window", 3)
    norm: MapNorm = changed(PlainConvolutionLabelling, "norm", "local")
    hidden: tuple[int, ...] = changed(PlainConvolutionLabelling, "hidden", (1024,))
    width: int = changed(PlainConvolutionLabelling, "width", 1024)


@dataclass(frozen=True, kw_only=True)
class VGGLabelling(PictureLabelling):
    """VGG (Simonyan 2014): 3x3 convolutions, 11 to 19 layers deep; batch normalisation came later."""

    body: ClassVar[Lazy] = Lazy(f"{_BUILD}:vgg_body")

    depth: int = option(11, "weight layers; of VGG 11, 13, 16 or 19; of ResNets 18, 34, 50, 101 or 152", least=1)
    channels: tuple[int, ...] = option(
        (64, 128, 256, 512, 512), "filters of the convolutions of each block", least=1, below=MAX_WIDTH
    )
    norm: MapNorm = changed(PlainConvolutionLabelling, "norm", "batch")
    hidden: tuple[int, ...] = changed(PlainConvolutionLabelling, "hidden", (512,))
    width: int = changed(PlainConvolutionLabelling, "width", 512)
    dropout: float = changed(PlainConvolutionLabelling, "dropout", 0.5)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_depth(self.depth, VGG_BLOCKS)
        if len(self.channels) != len(VGG_BLOCKS[self.depth]):
            raise SettingError(f"channels are {len(self.channels)}; expected 5, one for each block of convolutions")

    @property
    def blocks(self) -> tuple[int, ...]:
        """The convolutions of each block."""
        return VGG_BLOCKS[self.depth]


@dataclass(frozen=True, kw_only=True)
class GoogLeNetLabelling(PictureLabelling):
    """GoogLeNet (Szegedy 2015): inception blocks, filters of several sizes side by side."""

    body: ClassVar[Lazy] = Lazy(f"{_BUILD}:googlenet_body")

    blocks: tuple[int, ...] = option((2, 5, 2), "blocks of each group, or of each layer of a ResNet", least=1)
    stem: Stem = option("small", "small: a 3x3 convolution; large: 7x7 and pooling, for pictures of 224 pixels")
    norm: MapNorm = changed(PlainConvolutionLabelling, "norm", "batch")
    width: int = option(
        64, "filters of the first convolution; those of all others follow in proportion", least=4, below=MAX_WIDTH
    )
    dropout: float = option(0.4, "the dropout rate before the output layer", least=0, below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.blocks) != 3 or any(own > most for own, most in zip(self.blocks, (2, 5, 2), strict=True)):
            raise SettingError(f"blocks are {self.blocks}; expected three numbers, of at most 2, 5 and 2")
        if self.norm == "local":
            raise SettingError("norm is local, which GoogLeNet does not have here; expected none or batch")


@dataclass(frozen=True, kw_only=True)
class ResNetLabelling(PictureLabelling):
    """A residual network (He 2016), 18 to 152 layers deep."""

    body: ClassVar[Lazy] = Lazy(f"{_BUILD}:resnet_body")

    depth: int = changed(VGGLabelling, "depth", 18)
    blocks: tuple[int, ...] = option(
        (), "blocks of each group, or of each layer of a ResNet; by default chosen by the depth", least=1
    )
    block: Block = option(
        "by_depth", "basic: two 3x3 convolutions; bottleneck: 1x1, 3x3, 1x1; by_depth: bottleneck from 50 on"
    )
    stem: Stem = changed(GoogLeNetLabelling, "stem")
    starts_as_identity: bool = option(True, "residual blocks are the identity before training")
    width: int = option(
        64, "filters of the first convolution; twice as many in each later layer", least=1, below=MAX_WIDTH
    )
    dropout: float = changed(GoogLeNetLabelling, "dropout", 0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_depth(self.depth, RESNET_BLOCKS)
        if len(self.blocks) > 8:
            raise SettingError(f"blocks are {self.blocks}; expected those of at most 8 layers")

    @property
    def layer_blocks(self) -> tuple[int, ...]:
        """The blocks of each layer."""
        return self.blocks or RESNET_BLOCKS[self.depth]

    @property
    def is_bottleneck(self) -> bool:
        """Whether blocks are bottlenecks."""
        return self.depth >= 50 if self.block == "by_depth" else self.block == "bottleneck"


PatchStyle = Literal["modern", "published"]


@dataclass(frozen=True, kw_only=True)
class ViTLabelling(PictureLabelling):
    """A Transformer over patches of a picture, ViT (Dosovitskiy 2021)."""

    body: ClassVar[Lazy] = Lazy(f"{_BUILD}:vit_body")

    patch: int = option(4, "height and width of a patch, in pixels", least=1, below=1 << 10)
    layers: int = option(6, LAYERS, least=1, below=MAX_LAYERS)
    heads: int = option(4, "attention heads of each layer", least=1, below=1 << 10)
    placed: bool = option(True, "patches have learned vectors of their positions")
    width: int = option(192, "units in a hidden layer", least=1, below=MAX_WIDTH)
    dropout: float = changed(LabellingConfig, "dropout", 0.1)
    style: PatchStyle = option(
        "modern",
        "modern: blocks as those of our other networks; published: a learned vector stands before those of the "
        "patches, and blocks have LayerNorm, biases and GELU (Dosovitskiy 2021)",
        is_rare=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(side % self.patch for side in self.size):
            raise SettingError(f"a size of {self.size} does not divide into patches of {self.patch} pixels")
        if self.width % (2 * self.heads):
            raise SettingError(f"a width of {self.width} cannot be shared by {self.heads} heads of an even width")

    @property
    def patches(self) -> tuple[int, int] | None:
        """Rows and columns of the patches, where a vector of none of them stands before theirs; else None."""
        rows, columns = self.frame.height // self.patch, self.frame.width // self.patch
        return (rows, columns) if self.style == "published" else None


@dataclass(frozen=True, kw_only=True)
class EfficientNetLabelling(PictureLabelling):
    """EfficientNet-Lite0 (Tan 2019): a filter for each channel, between 1x1 convolutions; for photographs."""

    body: ClassVar[Lazy] = Lazy(f"{_BUILD}:efficientnet_body")

    size: tuple[int, ...] = changed(PictureLabelling, "size", (224,))
    stages: int = option(
        7, "groups of blocks; small pictures need fewer, since 7 give a map of a 32nd of their size", least=1, below=8
    )
    width: int = option(1280, "numbers in the vector that labels are read from", least=1, below=MAX_WIDTH)
    dropout: float = changed(GoogLeNetLabelling, "dropout", 0.2)


def _check_depth(depth: int, known: dict[int, tuple[int, ...]]) -> None:
    if depth not in known:
        *others, last = known
        raise SettingError(f"depth is {depth}; expected {', '.join(map(str, others))} or {last}")


Corners = Literal["one", "four"]


@dataclass(frozen=True, kw_only=True)
class GridLabelling(PictureLabelling):
    """A two-dimensional LSTM (Graves 2007), which also labels pixels."""

    body: ClassVar[Lazy] = Lazy(f"{_BUILD}:grid_body")

    cell: GridCell = changed(GridConfig, "cell")
    layers: int = option(1, LAYERS, least=1, below=MAX_LAYERS)
    corners: Corners = option(
        "four",
        "where layers begin to read: one: at the upper left; four: at each corner, with a quarter of the width each",
    )
    patch: int = option(2, "height and width of a patch, in pixels", least=1, below=1 << 10)
    width: int = option(96, "numbers in a hidden vector, of all corners together", least=1, below=MAX_WIDTH)
    dropout: float = changed(GoogLeNetLabelling, "dropout", 0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        shares = self.directions * (2 if self.cell == "grid" else 1)
        if self.width % shares:
            raise SettingError(f"a width of {self.width} cannot be divided by {shares}, for corners and memories")

    @property
    def labels_pixels(self) -> bool:
        return True

    @property
    def directions(self) -> int:
        return 4 if self.corners == "four" else 1
