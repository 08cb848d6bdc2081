"""Settings of the networks that `train classifier` trains from scratch: those that label texts.

Each is a frozen configuration. LABELLING names them all, also those of other features, which are rows of the table
classify.networks. `reads` says what inputs a network reads: a key of `INPUTS` in `chainrule.features.classify.inputs`;
`body` makes what gives units their vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from chainrule.base.options import changed, option
from chainrule.errors import SettingError
from chainrule.kinds import Lazy, Table
from chainrule.neural.config.network import LAYERS, MAX_LAYERS, MAX_WIDTH, LabellingConfig, LayersConfig, WordsConfig

_TEXTS = "chainrule.features.classify.network.texts"

Pooling = Literal["last", "mean", "max"]
Directions = Literal["forward", "both"]


@dataclass(frozen=True, kw_only=True)
class BagLabelling(WordsConfig):
    """A bag of vectors: their mean, then layers (the deep averaging network, Iyyer 2015); none: a linear classifier."""

    body: ClassVar[Lazy] = Lazy(f"{_TEXTS}:bag_body")

    layers: int = option(0, LAYERS, least=0, below=MAX_LAYERS)


@dataclass(frozen=True, kw_only=True)
class RecurrentLabelling(WordsConfig):
    """Of recurrent networks that label texts or words."""

    body: ClassVar[Lazy] = Lazy(f"{_TEXTS}:recurrent_body")
    cell: ClassVar[Literal["lstm", "gru", "rnn"]]

    layers: int = option(1, LAYERS, least=1, below=MAX_LAYERS)
    directions: Directions = option(
        "forward", "both: each layer reads from the left and from the right, half of its width each"
    )
    pooling: Pooling = option("last", "the vector of a text: the last hidden vector of each direction; mean; max")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.directions == "both" and self.width % 2:
            raise SettingError(f"a width of {self.width} cannot be shared by two directions; make it even")


@dataclass(frozen=True, kw_only=True)
class LSTMLabelling(RecurrentLabelling):
    """An LSTM (Hochreiter and Schmidhuber 1997)."""

    cell: ClassVar[Literal["lstm", "gru", "rnn"]] = "lstm"


@dataclass(frozen=True, kw_only=True)
class GRULabelling(RecurrentLabelling):
    """A GRU (Cho 2014)."""

    cell: ClassVar[Literal["lstm", "gru", "rnn"]] = "gru"


@dataclass(frozen=True, kw_only=True)
class RNNLabelling(RecurrentLabelling):
    """A simple recurrent network (Elman 1990)."""

    cell: ClassVar[Literal["lstm", "gru", "rnn"]] = "rnn"


@dataclass(frozen=True, kw_only=True)
class ConvolutionLabelling(WordsConfig):
    """Convolutions of several widths, then the maximum over time (Kim 2014)."""

    body: ClassVar[Lazy] = Lazy(f"{_TEXTS}:convolution_body")

    width: int = option(100, "filters of each width", least=1, below=MAX_WIDTH)
    filters: tuple[int, ...] = option((3, 4, 5), "tokens that each filter reads", least=1, below=1 << 8)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.filters:
            raise SettingError("filters is empty; give the tokens that each filter reads, such as 3 4 5")


@dataclass(frozen=True, kw_only=True)
class ConvolutionBagLabelling(ConvolutionLabelling):
    """A convolution and a bag of vectors side by side, which the labels' layer reads together."""

    body: ClassVar[Lazy] = Lazy(f"{_TEXTS}:convolution_bag_body")
    steps_in_epoch: ClassVar[int] = 100

    filters: tuple[int, ...] = changed(ConvolutionLabelling, "filters", (1, 2, 3))


@dataclass(frozen=True, kw_only=True)
class TransformerLabelling(WordsConfig):
    """A bidirectional Transformer encoder; the vector of a text is the mean."""

    body: ClassVar[Lazy] = Lazy(f"{_TEXTS}:transformer_body")

    width: int = option(128, "numbers in a hidden vector, and in that of a token", least=1, below=MAX_WIDTH)
    embedding_width: int | None = changed(LayersConfig, "embedding_width")  # type: ignore[assignment]  # a Transformer adds to vectors as they are
    dropout: float = changed(LabellingConfig, "dropout", 0.3)
    layers: int = option(2, LAYERS, least=1, below=MAX_LAYERS)
    heads: int = option(4, "attention heads of each layer", least=1, below=1 << 10)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % (2 * self.heads):
            raise SettingError(f"a width of {self.width} cannot be shared by {self.heads} heads of an even width")


# By the name that `train classifier --network` knows.
LABELLING: Table[type[LabellingConfig]] = Table(
    "classify.networks",
    {
        "bag": BagLabelling,
        "lstm": LSTMLabelling,
        "gru": GRULabelling,
        "rnn": RNNLabelling,
        "convolution": ConvolutionLabelling,
        "convolution-bag": ConvolutionBagLabelling,
        "transformer": TransformerLabelling,
    },
)


def labelling_config(network: LabellingConfig | str) -> LabellingConfig:
    """Return the configuration, or the default one of a network's name. Raises SettingError, TypeError."""
    if isinstance(network, str):
        if network not in LABELLING:
            raise SettingError(
                f"there is no network called {network!r} that labels; expected one of {', '.join(LABELLING)}"
            )
        return LABELLING[network]()
    if not isinstance(network, LabellingConfig):
        raise TypeError(f"network is {network!r}; expected one of {', '.join(LABELLING)}, or its configuration")
    return network


def labelling_name(config: LabellingConfig) -> str:
    """Return the name of a configuration's network. Raises SettingError."""
    for name, kind in LABELLING.items():
        if type(config) is kind:
            return name
    raise SettingError(f"{config!r} is not a network that labels; expected one of {', '.join(LABELLING)}")


def labelling_settings(config: LabellingConfig) -> dict[str, object]:
    """Return the settings field by field, for a file of JSON, with the network's name."""
    values = ((field.name, getattr(config, field.name)) for field in fields(config))
    return {
        "network": labelling_name(config),
        **{name: list(value) if isinstance(value, tuple) else value for name, value in values},
    }
