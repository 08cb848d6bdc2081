"""Of recurrent networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chainrule.base.options import setting
from chainrule.errors import SettingError
from chainrule.neural.config.network import CONTEXT, LAYERS, MAX_CONTEXT, MAX_LAYERS, MAX_WIDTH, LayersConfig

Cell = Literal["rnn_tanh", "rnn_relu", "gru", "lstm"]


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(LayersConfig):
    """An LSTM, GRU or simple recurrent network.

    Its state is carried along the text. With variational dropout (Gal and
    Ghahramani 2016), what layers read and give is dropped as in AWD-LSTM
    (Merity 2018).
    """

    cell: Cell = setting("lstm", "rnn_tanh, rnn_relu: Elman's; gru; lstm")
    layers: int = setting(2, LAYERS, least=1, below=MAX_LAYERS)
    width: int = setting(512, "numbers in the state of a layer", least=1, below=MAX_WIDTH)
    context: int = setting(128, CONTEXT + ": gradients go no further back", least=1, below=MAX_CONTEXT)
    intra_attention: int = setting(
        0,
        "lstm: before each step, attend to this many past states, in place of the last one (Cheng 2016); 0: do not",
        least=0,
        below=MAX_CONTEXT,
        is_later=True,
    )
    residual: bool = setting(False, "a layer's input is added to its output, if they are equally wide")
    variational: bool = setting(True, "dropout uses the same mask at every time step")
    input_dropout: float = setting(0.0, "share of numbers dropped of what goes into the first layer", least=0, below=1)
    dropout: float = setting(0.0, "share of numbers dropped between layers", least=0, below=1)
    output_dropout: float = setting(0.0, "share of numbers dropped of what the last layer gives", least=0, below=1)
    weight_drop: float = setting(0.0, "share of the weights from state to state dropped in a batch", least=0, below=1)
    forget_bias: float = setting(1.0, "lstm: initial bias of the forget gate", least=-10, below=10)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.intra_attention and self.cell != "lstm":
            raise SettingError(f"intra_attention is for the cell lstm, and this one is {self.cell}; set it to 0")
