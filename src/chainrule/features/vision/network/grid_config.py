"""Settings of a two-dimensional LSTM that models pictures row by row, as texts of pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chainrule.base.options import option
from chainrule.errors import SettingError
from chainrule.kinds import Lazy
from chainrule.neural.config.network import CONTEXT, LAYERS, MAX_CONTEXT, MAX_LAYERS, MAX_WIDTH, LayersConfig, Memory

GridCell = Literal["lstm", "grid"]
GRID_CELLS = "lstm: one memory for both dimensions (Graves 2007); grid: a memory for each (Kalchbrenner 2015)"


@dataclass(frozen=True, kw_only=True)
class GridConfig(LayersConfig):
    """A two-dimensional LSTM over pictures, row by row.

    A text is a picture, and a token the value of a pixel, as chainrule pixels
    writes them. Each cell follows the one on its left and the one above on its
    right, and reads the pixels on its left, above, and above on its right
    (Graves 2007, Theis 2015, van den Oord 2016).
    """

    encoder: ClassVar[Lazy] = Lazy("chainrule.features.vision.network.grid_encoder:Grid")

    is_recurrent: ClassVar[bool] = True

    columns: int = option(32, "pixels in a row of a picture", least=2, below=MAX_CONTEXT)
    cell: GridCell = option("lstm", GRID_CELLS)
    layers: int = option(1, LAYERS, least=1, below=MAX_LAYERS)
    width: int = option(128, "units in the state of a cell", least=1, below=MAX_WIDTH)
    context: int = option(1024, CONTEXT + ": gradients go no further back", least=1, below=MAX_CONTEXT)
    dropout: float = option(0.0, "the dropout rate of the output of each layer", least=0, below=1)
    memory: Memory = option("document", "document: each picture begins anew")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.memory != "document":
            raise SettingError(f"memory is {self.memory}, but each picture starts afresh; expected document")
        if self.cell == "grid" and (self.width % 2 or self.output_width % 2):
            raise SettingError("the width must be even, since cell='grid' has two memories, half of it each")
