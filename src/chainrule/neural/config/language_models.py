"""Settings of causal networks other than Transformers: bag, bilinear, feed-forward, convolution, recurrent, tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chainrule.base.options import option
from chainrule.errors import SettingError
from chainrule.kinds import Lazy
from chainrule.neural.config.network import (
    CONTEXT,
    LAYERS,
    MAX_CONTEXT,
    MAX_LAYERS,
    MAX_WIDTH,
    Activation,
    LayersConfig,
    NetworkConfig,
)


@dataclass(frozen=True, kw_only=True)
class BagConfig(LayersConfig):
    """A deep averaging network: blind to the order of the tokens.

    Layers on the average of the vectors of the tokens (Iyyer 2015).
    """

    encoder: ClassVar[Lazy] = Lazy("chainrule.neural.encoders.feedforward:Bag")

    sizes: ClassVar[tuple[dict[str, int], ...]] = (
        {"width": 32, "context": 64},
        {"width": 64, "context": 64},
        {"width": 128, "context": 64},
        {"width": 256, "context": 128},
    )

    layers: int = option(2, LAYERS, least=1, below=MAX_LAYERS)
    width: int = option(256, "units in a layer", least=1, below=MAX_WIDTH)
    window: int | None = option(3, "tokens that are averaged; in Python, None: all so far", least=1, below=MAX_CONTEXT)
    activation: Activation = option("relu", "the activation of the layers")
    dropout: float = option(0.0, "the dropout rate of the output of each layer", least=0, below=1)
    context: int = option(128, CONTEXT, least=1, below=MAX_CONTEXT)


PositionWeights = Literal["matrix", "diagonal", "none"]


@dataclass(frozen=True, kw_only=True)
class BilinearConfig(NetworkConfig):
    """A log-bilinear model: it predicts the next token's vector linearly.

    The vectors of the last few tokens are weighted by position and added
    (Mnih and Hinton 2007).
    """

    encoder: ClassVar[Lazy] = Lazy("chainrule.neural.encoders.feedforward:Bilinear")

    sizes: ClassVar[tuple[dict[str, int], ...]] = (
        {"width": 32, "context": 64},
        {"width": 64, "context": 64},
        {"width": 128, "context": 64},
        {"width": 256, "context": 128},
    )

    width: int = option(256, "dimensions of the vector of a token", least=1, below=MAX_WIDTH)
    window: int = option(5, "tokens of context of a prediction", least=1, below=MAX_CONTEXT)
    position_weights: PositionWeights = option(
        "matrix",
        "the weights of the vectors at each position; diagonal: one weight per element (Mnih and Teh 2012); none: the "
        "plain sum, which is CBOW, and with a window of 1 the skip-gram's softmax(v c) as a language model (Mikolov "
        "2013)",
    )
    context: int = option(128, CONTEXT, least=1, below=MAX_CONTEXT)


@dataclass(frozen=True, kw_only=True)
class FeedforwardConfig(LayersConfig):
    """A feed-forward network over the last few tokens: a neural n-gram model.

    Layers on the concatenated vectors of the tokens (Bengio 2003).
    """

    encoder: ClassVar[Lazy] = Lazy("chainrule.neural.encoders.feedforward:Feedforward")
    diagram: ClassVar[Lazy | None] = Lazy("chainrule.neural.diagrams:draw_feedforward")

    sizes: ClassVar[tuple[dict[str, int], ...]] = (
        {"width": 32, "context": 64},
        {"width": 64, "context": 64},
        {"width": 128, "context": 64},
        {"width": 256, "context": 128},
    )

    layers: int = option(1, LAYERS, least=1, below=MAX_LAYERS)
    width: int = option(256, "units in a layer", least=1, below=MAX_WIDTH)
    window: int = option(8, "tokens of context of a prediction", least=1, below=MAX_CONTEXT)
    activation: Activation = option("relu", "the activation of the layers; tanh: Bengio's")
    direct: bool = option(False, "connect the vectors of tokens directly to the output, too")
    dropout: float = option(0.0, "the dropout rate of the output of each layer", least=0, below=1)
    context: int = option(128, CONTEXT, least=1, below=MAX_CONTEXT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direct and self.tied:
            raise SettingError(
                "direct connections make the output wider than the vectors of tokens; choose one of "
                "them, or tied weights"
            )

    @property
    def hidden_width(self) -> int:
        """The width of the last layer."""
        return super().output_width

    @property
    def output_width(self) -> int:
        return self.hidden_width + self.direct * self.window * self.input_width


Gate = Literal["glu", "gtu", "none"]


@dataclass(frozen=True, kw_only=True)
class ConvolutionConfig(NetworkConfig):
    """A convolutional network: causal, dilated and gated.

    Each layer reads a few earlier positions (Dauphin 2017), further apart
    from layer to layer (van den Oord 2016, Bai 2018).
    """

    encoder: ClassVar[Lazy] = Lazy("chainrule.neural.encoders.convolution:Convolution")

    sizes: ClassVar[tuple[dict[str, int], ...]] = (
        {"layers": 3, "width": 32, "context": 64},
        {"layers": 4, "width": 64, "context": 64},
        {"layers": 5, "width": 128, "context": 128},
    )

    layers: int = option(5, "layers with residual connections", least=1, below=MAX_LAYERS)
    width: int = option(128, "dimensions of the vector of a token, and of a layer", least=1, below=MAX_WIDTH)
    kernel: int = option(3, "positions that a layer reads", least=1, below=MAX_CONTEXT)
    dilation: int = option(
        2, "the positions of a layer are this many times as far apart as before", least=1, below=MAX_CONTEXT
    )
    gate: Gate = option("glu", "the activation: glu: h sigmoid(g); gtu: tanh(h) sigmoid(g); none: relu(h)")
    dropout: float = option(0.0, "the dropout rate of the output of each layer", least=0, below=1)
    context: int = option(128, CONTEXT, least=1, below=MAX_CONTEXT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reach >= MAX_CONTEXT:
            raise SettingError(
                f"the layers reach {self.reach:,} tokens back; expected less than {MAX_CONTEXT:,}: "
                "lower layers, kernel or dilation"
            )

    @property
    def dilations(self) -> tuple[int, ...]:
        """The dilation of each layer, in tokens."""
        return tuple(self.dilation**layer for layer in range(self.layers))

    @property
    def reach(self) -> int:
        """The tokens that a prediction depends on."""
        return 1 + (self.kernel - 1) * sum(self.dilations)


Cell = Literal["rnn_tanh", "rnn_relu", "gru", "lstm"]


_REGULARISED = {"activation_regularisation": 2.0, "temporal_regularisation": 1.0}


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(LayersConfig):
    """An LSTM, GRU or simple recurrent network.

    Its state is carried along the text. Variational dropout (Gal and
    Ghahramani 2016) applies to inputs and outputs of layers, as in AWD-LSTM
    (Merity 2018).
    """

    encoder: ClassVar[Lazy] = Lazy("chainrule.neural.encoders.recurrent:Recurrent")
    diagram: ClassVar[Lazy | None] = Lazy("chainrule.neural.diagrams:draw_recurrent")

    is_recurrent: ClassVar[bool] = True
    takes_forcing: ClassVar[bool] = True
    gains_from_ties: ClassVar[bool] = True
    ngrams_from: ClassVar[int | None] = 256
    sizes: ClassVar[tuple[dict[str, int], ...]] = (
        {"layers": 1, "width": 32, "context": 64},
        {"layers": 1, "width": 64, "context": 64},
        {"layers": 1, "width": 128, "context": 64},
        {"layers": 1, "width": 256, "context": 64},
        {"layers": 2, "width": 256, "context": 64},
        {"layers": 2, "width": 512, "context": 128},
    )
    weights_a_token: ClassVar[float] = 5.0
    repeated: ClassVar[dict[float, dict[str, float]]] = {15: {"input_dropout": 0.1, "output_dropout": 0.3}}
    repeated_of_many: ClassVar[dict[float, dict[str, float]]] = {
        7.5: {"input_dropout": 0.2, "output_dropout": 0.4, **_REGULARISED},
        60: {"input_dropout": 0.4, "output_dropout": 0.6, **_REGULARISED},
        150: {"input_dropout": 0.5, "dropout": 0.3, "output_dropout": 0.6, "weight_drop": 0.3, **_REGULARISED},
    }

    cell: Cell = option("lstm", "the recurrent cell: lstm; gru; rnn_tanh and rnn_relu: Elman's simple one")
    layers: int = option(2, LAYERS, least=1, below=MAX_LAYERS)
    width: int = option(512, "units in the state of a layer", least=1, below=MAX_WIDTH)
    context: int = option(128, CONTEXT + ": gradients go no further back", least=1, below=MAX_CONTEXT)
    intra_attention: int = option(
        0,
        "with lstm: before each step, attend to this many past states, in place of the last one (Cheng 2016); 0: do "
        "not",
        least=0,
        below=MAX_CONTEXT,
        is_later=True,
    )
    residual: bool = option(False, "a layer's input is added to its output, if they are equally wide")
    variational: bool = option(True, "dropout uses the same mask at every time step")
    input_dropout: float = option(0.0, "the dropout rate of the input of the first layer", least=0, below=1)
    dropout: float = option(0.0, "the dropout rate between layers", least=0, below=1)
    output_dropout: float = option(0.0, "the dropout rate of the output of the last layer", least=0, below=1)
    weight_drop: float = option(0.0, "the dropout rate of weights from state to state", least=0, below=1)
    activation_regularisation: float = option(
        0.0, "the weight of mean h^2 in training (AR, Merity 2017)", least=0, is_later=True
    )
    temporal_regularisation: float = option(
        0.0, "the weight of mean (h_t - h_t-1)^2 in training (TAR)", least=0, is_later=True
    )
    forget_bias: float = option(1.0, "with lstm: the initial bias of the forget gate", least=-10, below=10)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.intra_attention and self.cell != "lstm":
            raise SettingError(f"intra_attention is for the cell lstm, and this one is {self.cell}; set it to 0")
        if self.is_bidirectional and (self.activation_regularisation or self.temporal_regularisation):
            raise SettingError("activation_regularisation and temporal_regularisation are for one direction only")
