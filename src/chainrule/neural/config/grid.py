"""Of two-dimensional LSTMs: one that models pictures, row by row, and one that labels them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chainrule.base.options import setting
from chainrule.errors import SettingError
from chainrule.neural.config.network import CONTEXT, LAYERS, MAX_CONTEXT, MAX_LAYERS, MAX_WIDTH, LayersConfig, Memory
from chainrule.neural.config.pictures import PictureLabelling

GridCell = Literal["lstm", "grid"]
Corners = Literal["one", "four"]
GRID_CELLS = "lstm: one memory for both dimensions (Graves 2007); grid: a memory for each (Kalchbrenner 2015)"


@dataclass(frozen=True, kw_only=True)
class GridConfig(LayersConfig):
    """A two-dimensional LSTM over pictures, row by row.

    A text is a picture, and a token the value of a pixel, as chainrule pixels
    writes them. Each cell follows the one on its left and the one above on its
    right, and reads the pixels on its left, above, and above on its right
    (Graves 2007, Theis 2015, van den Oord 2016).
    """

    columns: int = setting(32, "pixels in a row of a picture", least=2, below=MAX_CONTEXT)
    cell: GridCell = setting("lstm", GRID_CELLS)
    layers: int = setting(1, LAYERS, least=1, below=MAX_LAYERS)
    width: int = setting(128, "numbers in the state of a cell", least=1, below=MAX_WIDTH)
    context: int = setting(1024, CONTEXT + ": gradients go no further back", least=1, below=MAX_CONTEXT)
    dropout: float = setting(0.0, "share of numbers dropped of what each layer gives", least=0, below=1)
    memory: Memory = setting("document", "document: each picture begins anew")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.memory != "document":
            raise SettingError(f"memory is {self.memory}, but each picture begins anew; expected document")
        if self.cell == "grid" and (self.width % 2 or self.output_width % 2):
            raise SettingError("the width must be even, since cell='grid' has two memories, half of it each")


@dataclass(frozen=True, kw_only=True)
class GridLabelling(PictureLabelling):
    """A two-dimensional LSTM (Graves 2007), which also labels pixels."""

    cell: GridCell = setting("lstm", GRID_CELLS)
    layers: int = setting(1, LAYERS, least=1, below=MAX_LAYERS)
    corners: Corners = setting(
        "four", "where layers begin to read; one: upper left; four: each corner, a quarter of the width each"
    )
    patch: int = setting(2, "height and width of a patch, in pixels", least=1, below=1 << 10)
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
