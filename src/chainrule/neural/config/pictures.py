"""Settings of the networks that label pictures, sized for small ones; all that the papers chose is a setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chainrule.base.settings import setting
from chainrule.errors import SettingError
from chainrule.neural.config.grid import GRID_CELLS, GridCell
from chainrule.neural.config.labelling_base import LabellingConfig
from chainrule.neural.config.network import LAYERS, MAX_LAYERS, MAX_WIDTH
from chainrule.pictures.picture import Colours, Fit, Frame

Corners = Literal["one", "four"]
Activation = Literal["relu", "tanh"]
MapPooling = Literal["max", "mean"]
MapNorm = Literal["none", "batch", "local"]


@dataclass(frozen=True, kw_only=True)
class PictureLabelling(LabellingConfig):
    """Of networks that read pictures, all of one size."""

    reads: ClassVar[str] = "picture"

    size: tuple[int, ...] = setting(
        (32,), "height and width, in pixels, that pictures are brought to; one number: both", least=1, below=1 << 12
    )
    fit: Fit = setting(
        "crop",
        "how: crop: scaled to fill that size, then cut; stretch: each side by itself; pad: the whole picture, on black",
    )
    crop_share: float = setting(
        1.0, "crop: share of what fills that size that is kept, its middle", least=0.1, below=1.01
    )
    colours: Colours = setting("rgb", "rgb: red, green and blue; grey: their brightness alone")
    flip: bool = setting(True, "mirror half of the pictures in training; off where left and right differ")
    shift: float = setting(
        0.125, "in training, move pictures by up to this share of their size, each way", least=0, below=0.5
    )
    pixel_means: tuple[float, ...] = setting(
        (123.675, 116.28, 103.53), "subtracted from the bytes of red, green and blue", least=0, below=256, is_rare=True
    )
    pixel_deviations: tuple[float, ...] = setting(
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
    def frame(self) -> Frame:
        """What every picture is brought to."""
        return Frame(
            height=self.size[0], width=self.size[-1], fit=self.fit, colours=self.colours, share=self.crop_share
        )


@dataclass(frozen=True, kw_only=True)
class PlainConvolutionLabelling(PictureLabelling):
    """Of networks of convolutions in a row, then hidden layers: the history until 2014."""

    channels: tuple[int, ...] = setting((), "filters of each convolution", least=1, below=MAX_WIDTH)
    kernels: tuple[int, ...] = setting(
        (), "height and width of the filters of each convolution; one number: of all", least=1, below=1 << 8
    )
    pooled: tuple[int, ...] = setting((), "convolutions, counted from 1, whose outputs are pooled", least=1)
    pooling: MapPooling = setting("max", "what is taken of a window of outputs")
    window: int = setting(2, "height and width of a window of pooling, which moves by 2", least=2, below=1 << 8)
    stride: int = setting(1, "pixels that the filters of the first convolution move by", least=1, below=1 << 8)
    padded: bool = setting(True, "zeros stand around maps, so that convolutions keep their size")
    activation: Activation = setting("relu", "after each layer but the last")
    norm: MapNorm = setting(
        "none", "of the outputs of convolutions: batch: batch normalisation; local: among neighbouring filters"
    )
    hidden: tuple[int, ...] = setting(
        (512,), "numbers in the hidden vectors between the convolutions and the last one", least=1, below=MAX_WIDTH
    )
    width: int = setting(512, "numbers in a hidden vector", least=1, below=MAX_WIDTH)
    dropout: float = setting(
        0.5, "share of numbers dropped of what each hidden layer and the labels' layer read", least=0, below=1
    )

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
        return self.padded and not any(side % self.pixels_of_place for side in self.size)

    @property
    def pixels_of_place(self) -> int:
        """How many pixels the places of the last maps are apart."""
        return self.stride * 2 ** len(set(self.pooled))


@dataclass(frozen=True, kw_only=True)
class LeNetLabelling(PlainConvolutionLabelling):
    """LeNet-5 (LeCun 1998)."""

    channels: tuple[int, ...] = setting((6, 16), "filters of each convolution", least=1, below=MAX_WIDTH)
    kernels: tuple[int, ...] = setting(
        (5,), "height and width of the filters of each convolution; one number: of all", least=1, below=1 << 8
    )
    pooled: tuple[int, ...] = setting((1, 2), "convolutions, counted from 1, whose outputs are pooled", least=1)
    pooling: MapPooling = setting("mean", "what is taken of a window of outputs")
    padded: bool = setting(False, "zeros stand around maps, so that convolutions keep their size")
    activation: Activation = setting("tanh", "after each layer but the last")
    hidden: tuple[int, ...] = setting(
        (120,), "numbers in the hidden vectors between the convolutions and the last one", least=1, below=MAX_WIDTH
    )
    width: int = setting(84, "numbers in a hidden vector", least=1, below=MAX_WIDTH)
    dropout: float = setting(
        0.0, "share of numbers dropped of what each hidden layer and the labels' layer read", least=0, below=1
    )


@dataclass(frozen=True, kw_only=True)
class GridLabelling(PictureLabelling):
    """A two-dimensional LSTM (Graves 2007), which also labels pixels."""

    cell: GridCell = setting("lstm", GRID_CELLS)
    layers: int = setting(1, LAYERS, least=1, below=MAX_LAYERS)
    corners: Corners = setting(
        "four", "where layers begin to read; one: upper left; four: each corner, a quarter of the width each"
    )
    patch: int = setting(2, "height and width, in pixels, of what a cell reads", least=1, below=1 << 8)
    width: int = setting(96, "numbers in a hidden vector, of all corners together", least=1, below=MAX_WIDTH)
    dropout: float = setting(0.0, "share of numbers dropped of what the labels' layer reads", least=0, below=1)

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
