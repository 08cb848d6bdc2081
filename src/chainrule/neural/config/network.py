"""Settings that all networks share, whatever their encoder, and those that all networks that label share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Literal

from chainrule.base.options import check_settings, is_omitted, setting
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MAX_LAYERS, MAX_WIDTH, MAX_CONTEXT = 1000, 1 << 16, 1 << 20
LAYERS = "number of stacked layers"
CONTEXT = "tokens that are read together in training"

Memory = Literal["stream", "document"]
OutputKind = Literal["full", "adaptive", "sampled", "nce"]
Activation = Literal["tanh", "relu", "gelu"]
BeginToken = Literal["</s>", "<s>"]


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """The fields that all networks have; each says a default of its own for width and context. Raises SettingError."""

    width: int
    context: int
    embedding_dropout: float = setting(0.0, "share of tokens whose vectors are dropped in a batch", least=0, below=1)
    tied: bool = setting(False, "the vectors of tokens are the output's weights, too")
    memory: Memory = setting(
        "stream",
        "stream: what was read before goes on over the ends of documents, as one running text; "
        "document: each begins anew",
    )
    output: OutputKind = setting(
        "full",
        "full: softmax over the whole vocabulary; adaptive: frequent tokens first, rare ones in clusters (Grave 2017); "
        "sampled: trained against sampled tokens; nce: trained by noise contrast. The last two are softmax when "
        "evaluated",
    )
    cutoffs: tuple[int, ...] = setting(
        (),
        "adaptive: ranks by frequency at which clusters of rarer tokens begin; nothing: chosen by the vocabulary",
        least=1,
    )
    noise_samples: int = setting(
        1024, "sampled and nce: tokens that each batch is contrasted with", least=1, below=1 << 24
    )
    noise_power: float = setting(
        1.0, "sampled and nce: they are drawn by their counts to this power; 0: all alike", least=0, below=2
    )
    begins_with: BeginToken = setting(
        "</s>",
        "what is read before a text; </s>: the end of the text before it, as in a stream; <s>: a token of its own",
        is_rare=True,
    )
    closed_by: int | None = setting(
        None, "networks that see both sides: the token that is read after a text; nothing: none", least=3, is_rare=True
    )
    ends: tuple[int, ...] = setting(
        (), "tokens that end a text, too: their probability counts as that of </s>", least=3, is_rare=True
    )
    banned: tuple[int, ...] = setting((), "tokens that have no probability, beside <s>", least=0, is_rare=True)

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
    def input_width(self) -> int:
        """The width of the vectors that the encoder reads."""
        return self.width

    @property
    def output_width(self) -> int:
        """The width of the vectors that the encoder gives."""
        return self.width


@dataclass(frozen=True, kw_only=True)
class LayersConfig(NetworkConfig):
    """Of layers that need not be as wide as the vectors of tokens."""

    embedding_width: int | None = setting(
        None, "numbers in the vector of a token; nothing: as the width", least=1, below=MAX_WIDTH
    )
    tied: bool = setting(
        False, "the vectors of tokens are the output's weights, too; the last layer gets the width of these vectors"
    )

    @property
    def input_width(self) -> int:
        return self.width if self.embedding_width is None else self.embedding_width

    @property
    def output_width(self) -> int:
        return self.input_width if self.tied else self.width


def settings_of(config: DataclassInstance) -> dict[str, object]:
    """Field by field, for a file of JSON."""
    named = (each for each in fields(config) if not is_omitted(each) or getattr(config, each.name) != each.default)
    values = ((each.name, getattr(config, each.name)) for each in named)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values}


@dataclass(frozen=True, kw_only=True)
class LabellingConfig:
    """The fields that all networks that label have. Raises SettingError."""

    reads: ClassVar[str] = "text"

    width: int = setting(150, "numbers in a hidden vector", least=1, below=MAX_WIDTH)
    dropout: float = setting(
        0.5, "share of numbers dropped of what the first layer and the labels' layer read", least=0, below=1
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, kw_only=True)
class WordsConfig(LabellingConfig):
    """Of networks that read tokens, in a row or at the nodes of a tree or graph."""

    embedding_width: int = setting(100, "numbers in the vector of a token", least=1, below=MAX_WIDTH)
    token_dropout: float = setting(
        0.0, "share of the vocabulary whose vectors are dropped in a batch", least=0, below=1
    )
