"""Settings that all networks share, whatever their encoder, and those that all networks that label share."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Literal

from chainrule.base.options import check_settings, is_omitted, option
from chainrule.errors import ModelFormatError, SettingError
from chainrule.kinds import Lazy

if TYPE_CHECKING:
    from typing import Self

    from _typeshed import DataclassInstance


MAX_LAYERS, MAX_WIDTH, MAX_CONTEXT = 1000, 1 << 16, 1 << 20
LAYERS = "number of stacked layers"
CONTEXT = "tokens that are read together in training"

Memory = Literal["stream", "document"]
OutputKind = Literal["full", "adaptive", "sampled", "nce"]
Activation = Literal["tanh", "relu", "gelu"]
BeginToken = Literal["</s>", "<s>"]
ScoreName = Literal["dot", "scaled_dot", "general", "additive", "content", "cosine", "location"]  # of attention


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """The fields that all networks have; each says a default of its own for width and context. Raises SettingError.

    Its class variables and properties are what the rest of the program asks of a network, whatever its class.
    """

    encoder: ClassVar[Lazy]  # makes the encoder of a configuration
    outer_layers: ClassVar[Lazy] = Lazy("chainrule.neural.build:outer_layers")  # makes embedding and output
    diagram: ClassVar[Lazy | None] = None  # draws one, of a name, a configuration and shapes; None: part by part
    reads: ClassVar[str] = "text"
    is_bidirectional: ClassVar[bool] = False  # sees what follows a token, too, so it does not continue texts
    is_masked: ClassVar[bool] = False  # learns from masked tokens; it has the settings of `Masking`
    is_recurrent: ClassVar[bool] = False  # carries a state from token to token
    takes_forcing: ClassVar[bool] = False  # training may feed it its own guesses
    gains_from_ties: ClassVar[bool] = False  # learns a large vocabulary better where `tied`
    ngrams_from: ClassVar[int | None] = None  # the width from which it also gains from vectors of character n-grams
    token_width_setting: ClassVar[str] = "width"  # the name of the setting for the vectors of tokens
    sizes: ClassVar[tuple[dict[str, int], ...]] = ()  # from small to large: what minutes choose from
    weights_a_token: ClassVar[float] = math.inf  # in the matrices of its layers, for each of a text, at most
    # Dropout that minutes choose where a network would memorise a text without it, by the passes over it times the
    # parameters for each of its tokens, from which on; with 1,000 tokens or more, `repeated_of_many` if there are any.
    repeated: ClassVar[dict[float, dict[str, float]]] = {}
    repeated_of_many: ClassVar[dict[float, dict[str, float]]] = {}

    width: int
    context: int
    embedding_dropout: float = option(0.0, "share of tokens whose vectors are dropped in a batch", least=0, below=1)
    tied: bool = option(False, "the output layer uses the vectors of tokens as its weights")
    memory: Memory = option(
        "stream",
        "stream: documents are read as one running text, and the context reaches across their ends; document: each "
        "begins without a context",
    )
    output: OutputKind = option(
        "full",
        "full: softmax over the whole vocabulary; adaptive: frequent tokens first, rare ones in clusters (Grave 2017); "
        "sampled: trained against sampled tokens; nce: trained by noise contrast. Networks of the last two are saved "
        "with a full one",
    )
    cutoffs: tuple[int, ...] = option(
        (),
        "with adaptive: ranks by frequency at which clusters of rarer tokens begin; by default chosen by the size of "
        "the vocabulary",
        least=1,
    )
    noise_samples: int = option(
        1024, "with sampled and nce: noise tokens that each batch is contrasted with", least=1, below=1 << 24
    )
    noise_power: float = option(
        1.0, "with sampled and nce: they are drawn by their counts to this power; 0: uniformly", least=0, below=2
    )
    begins_with: BeginToken = option(
        "</s>",
        "what is read before a text; </s>: the end of the text before it, as in a stream; <s>: a token of its own",
        is_rare=True,
    )
    first_read: int | None = option(
        None, "the token that is read before a text, where it is neither <s> nor </s>", least=0, is_rare=True
    )
    closed_by: int | None = option(
        None, "bidirectional networks: the token that is read after a text; by default none", least=3, is_rare=True
    )
    ends: tuple[int, ...] = option(
        (), "tokens that end a text, too: their probability counts as that of </s>", least=3, is_rare=True
    )
    banned: tuple[int, ...] = option((), "tokens that have no probability, beside <s>", least=0, is_rare=True)

    def __new__(cls, **given: object) -> Self:
        """Keep the names of the settings that are given, even where they are the defaults."""
        config = super().__new__(cls)
        object.__setattr__(config, "_given", frozenset(given))
        return config

    def __post_init__(self) -> None:
        check_settings(self)
        if self.output == "adaptive" and self.tied:
            raise SettingError(
                "an adaptive softmax has narrower weights for rare tokens, so it cannot be tied; choose one"
            )
        if self.cutoffs and self.output != "adaptive":
            raise SettingError(f"cutoffs belong to an adaptive output, and this one is {self.output}; leave them out")
        if self.begins_with == "<s>" and self.memory == "stream":
            raise SettingError("begins_with is <s>, which each text has for itself; take the memory of a document")
        if (self.banned or self.ends) and self.output != "full":
            raise SettingError(
                f"the output is {self.output}; only a full one bans tokens, or has several that end a text"
            )
        if list(self.cutoffs) != sorted(set(self.cutoffs)):
            raise SettingError(f"cutoffs {self.cutoffs} must rise, each larger than the one before it")

    @property
    def given(self) -> frozenset[str]:
        """The settings that were named when it was made, which no rule changes."""
        names: frozenset[str] = getattr(self, "_given", frozenset())
        return names

    @property
    def input_width(self) -> int:
        """The width of the vectors that the encoder reads."""
        return self.width

    @property
    def output_width(self) -> int:
        """The width of the vectors that the encoder gives."""
        return self.width

    @property
    def blocks(self) -> int:
        """How many alike blocks its encoder consists of, which training can compute again one by one; else 0."""
        return 0

    @property
    def arrays_of_layer(self) -> int:
        """How many arrays a layer has at least."""
        return 1

    @property
    def attention_flops(self) -> float:
        """Floating-point operations per token that attention takes beside products with weights, both ways."""
        return 0.0

    @property
    def predicts_next_sentence(self) -> bool:
        """Whether it reads pairs of parts of a text, and learns whether the second follows the first."""
        return False

    @property
    def learns_directions_apart(self) -> bool:
        """Whether each of two directions predicts a token by itself."""
        return False


@dataclass(frozen=True, kw_only=True)
class LayersConfig(NetworkConfig):
    """Of layers that need not be as wide as the vectors of tokens."""

    token_width_setting: ClassVar[str] = "embedding_width"

    embedding_width: int | None = option(
        None, "dimensions of the vector of a token; by default the width", least=1, below=MAX_WIDTH
    )
    tied: bool = option(
        False, "the output layer uses the vectors of tokens as its weights; the last layer gets their width"
    )

    @property
    def input_width(self) -> int:
        return self.width if self.embedding_width is None else self.embedding_width

    @property
    def output_width(self) -> int:
        return self.input_width if self.tied else self.width


def settings_of(config: DataclassInstance) -> dict[str, object]:
    """Return the settings field by field, for a file of JSON."""
    named = (each for each in fields(config) if not is_omitted(each) or getattr(config, each.name) != each.default)
    values = ((each.name, getattr(config, each.name)) for each in named)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values}


_NGRAM_MEMORY = ("ngram_memory", "ngram_rows", "ngram_width")


def without_ngram_memory(settings: object) -> object:
    """Return the settings of a network in a file without those of an n-gram memory, which networks once could have.

    Raises ModelFormatError if it has one.
    """
    if not isinstance(settings, dict):
        return settings
    if settings.get("ngram_memory", 0) != 0:
        raise ModelFormatError(
            "the network was trained with an n-gram memory, which this version no longer has; train it again without "
            "one, and mix it with an n-gram model (chainrule mix), which is better than either"
        )
    return {name: value for name, value in settings.items() if name not in _NGRAM_MEMORY}


@dataclass(frozen=True, kw_only=True)
class LabellingConfig:
    """The fields that all networks that label have. Raises SettingError.

    steps_in_epoch: the default batch is reduced until an epoch has this many steps.
    """

    reads: ClassVar[str] = "text"
    body: ClassVar[Lazy]  # (configuration, vocabulary size, unit) -> what gives the units of inputs their vectors
    steps_in_epoch: ClassVar[int] = 400

    width: int = option(150, "units in a hidden layer", least=1, below=MAX_WIDTH)
    dropout: float = option(0.5, "the dropout rate before the first layer and the output layer", least=0, below=1)

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, kw_only=True)
class WordsConfig(LabellingConfig):
    """Of networks that read tokens, in a row or at the nodes of a tree or graph."""

    embedding_width: int = option(100, "dimensions of the vector of a token", least=1, below=MAX_WIDTH)
    token_dropout: float = option(0.0, "share of the vocabulary whose vectors are dropped in a batch", least=0, below=1)
