"""The settings of neural language models; free of torch, so that the command line can show them at once.

Every field says in its help what it is, in a few words; a preset is a function that returns a configuration:

    preset("llama", layers=6, width=384)
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from chainrule.errors import SettingError
from chainrule.neural.settings import check_settings, help_of, setting

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_LAYERS, MAX_WIDTH, MAX_CONTEXT = 1000, 1 << 16, 1 << 20

Norm = Literal["layer", "rms"]
NormPlace = Literal["pre", "post"]
Positions = Literal["none", "learned", "sinusoidal", "relative", "alibi", "rotary"]
FeedForward = Literal["relu", "gelu", "relu_squared", "swiglu", "geglu"]
Initialisation = Literal["fan_in", "gpt2", "xavier"]
Memory = Literal["stream", "document"]
OutputKind = Literal["full", "adaptive", "sampled", "nce"]
Cell = Literal["rnn_tanh", "rnn_relu", "gru", "lstm"]

_MEMORY = (
    "stream: what was read before goes on over the ends of documents, as one running text; document: each begins anew"
)
_CONTEXT = "tokens that are read together in training"
_OUTPUT = (
    "full: softmax over the whole vocabulary; adaptive: frequent tokens first, rare ones in clusters (Grave 2017); "
    "sampled: trained against sampled tokens; nce: trained by noise contrast. The last two are softmax when evaluated"
)
_CUTOFFS = "adaptive: ranks by frequency at which clusters of rarer tokens begin; nothing: chosen by the vocabulary"
_NOISE = "sampled and nce: tokens that each batch is contrasted with"
_NOISE_POWER = "sampled and nce: they are drawn by their counts to this power; 0: all alike"


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """A decoder of Transformer blocks; each choice of the field's history is a field. Raises SettingError."""

    layers: int = setting(4, "blocks, one on the other", least=1, below=MAX_LAYERS)
    width: int = setting(256, "numbers in the vector of a token", least=1, below=MAX_WIDTH)
    heads: int = setting(4, "heads of attention", least=1, below=MAX_WIDTH)
    context: int = setting(256, _CONTEXT + ", and the most that a prediction looks back", least=1, below=MAX_CONTEXT)
    key_value_heads: int | None = setting(
        None, "heads of keys and values: fewer than heads is grouped, 1 multi-query; nothing: one for each", least=1
    )
    feed_forward: FeedForward = setting("relu_squared", "activation of the feed-forward layers; swiglu, geglu: gated")
    feed_forward_width: int | None = setting(
        None, "hidden numbers in a feed-forward layer; nothing: 4 widths, 8/3 if gated", least=1, below=8 * MAX_WIDTH
    )
    norm: Norm = setting("rms", "layer: LayerNorm; rms: RMSNorm")
    norm_place: NormPlace = setting("pre", "pre: before each sub-layer, and at the end; post: after each sum")
    norm_gain: bool = setting(False, "norms have learned gains (and LayerNorm shifts, where there are biases)")
    embedding_norm: bool = setting(True, "the vectors of tokens are normalised before the first block")
    positions: Positions = setting(
        "rotary", "how places are told; relative: a learned number for each head and distance (T5)"
    )
    rotary_base: float = setting(10_000.0, "rotary: the longest wave, in tokens over 2 pi", least=1)
    query_key_norm: bool = setting(True, "queries and keys are normalised in each head")
    parallel: bool = setting(False, "attention and feed-forward side by side in a block, not one after the other")
    window: int | None = setting(None, "tokens that each layer sees, itself among them; nothing: all", least=1)
    biases: bool = setting(False, "linear layers have biases")
    tied: bool = setting(False, "the vectors of tokens are the output's weights, too")
    scaled_embedding: bool = setting(False, "vectors of tokens are multiplied by the root of the width")
    zero_projections: bool = setting(True, "what leads out of each sub-layer, and the output if not tied, begin at 0")
    initialisation: Initialisation = setting(
        "fan_in", "fan_in: uniform by the number of inputs; gpt2: normal, 0.02; xavier: uniform by inputs and outputs"
    )
    dropout: float = setting(0.0, "share of numbers dropped: of token vectors and of each sub-layer", least=0, below=1)
    attention_dropout: float = setting(0.0, "share of attention weights dropped", least=0, below=1)
    memory: Memory = setting("stream", _MEMORY)
    output: OutputKind = setting("full", _OUTPUT)
    cutoffs: tuple[int, ...] = setting((), _CUTOFFS, least=1)
    noise_samples: int = setting(1024, _NOISE, least=1, below=1 << 24)
    noise_power: float = setting(1.0, _NOISE_POWER, least=0, below=2)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.width % self.heads:
            raise SettingError(f"a width of {self.width} cannot be divided among {self.heads} heads")
        if self.heads % self.key_heads:
            raise SettingError(f"{self.heads} heads cannot share {self.key_heads} heads of keys and values evenly")
        if self.positions == "rotary" and (self.width // self.heads) % 2:
            raise SettingError(
                f"rotary positions turn pairs of numbers, but a head has {self.width // self.heads}; "
                "choose a width or heads so that it is even"
            )
        if self.window is not None and self.window > self.context:
            raise SettingError(f"a window of {self.window} is longer than the context of {self.context}; shorten it")
        _check_output(self.output, self.cutoffs, tied=self.tied)

    @property
    def key_heads(self) -> int:
        return self.heads if self.key_value_heads is None else self.key_value_heads

    @property
    def is_gated(self) -> bool:
        return self.feed_forward in ("swiglu", "geglu")

    @property
    def hidden_width(self) -> int:
        """Of the feed-forward layers: gated ones have three matrices, so 8/3 widths are as many numbers as 4 in two."""
        if self.feed_forward_width is not None:
            return self.feed_forward_width
        return -(-8 * self.width // 3 // 8) * 8 if self.is_gated else 4 * self.width


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig:
    """Recurrent layers, one on the other. Raises SettingError.

    All dropouts but `embedding_dropout` and `weight_drop` take the same numbers at every time of a batch if
    `variational` (Gal and Ghahramani 2016), as AWD-LSTM does (Merity 2018).
    """

    cell: Cell = setting("lstm", "rnn_tanh, rnn_relu: Elman's; gru; lstm")
    layers: int = setting(2, "layers, one on the other", least=1, below=MAX_LAYERS)
    width: int = setting(512, "numbers in the state of a layer", least=1, below=MAX_WIDTH)
    embedding_width: int | None = setting(
        None, "numbers in the vector of a token; nothing: as the width", least=1, below=MAX_WIDTH
    )
    context: int = setting(128, _CONTEXT + ": gradients go no further back", least=1, below=MAX_CONTEXT)
    residual: bool = setting(False, "what goes into a layer is added to what comes out, where they are equally wide")
    tied: bool = setting(
        False, "the vectors of tokens are the output's weights, too; the last layer gets the width of these vectors"
    )
    variational: bool = setting(True, "dropout takes the same numbers at every time of a batch")
    input_dropout: float = setting(0.0, "share of numbers dropped of what goes into the first layer", least=0, below=1)
    dropout: float = setting(0.0, "share of numbers dropped between layers", least=0, below=1)
    output_dropout: float = setting(0.0, "share of numbers dropped of what the last layer gives", least=0, below=1)
    embedding_dropout: float = setting(0.0, "share of tokens whose vectors are dropped in a batch", least=0, below=1)
    weight_drop: float = setting(0.0, "share of the weights from state to state dropped in a batch", least=0, below=1)
    forget_bias: float = setting(1.0, "lstm: what the bias of the forget gate begins at", least=-10, below=10)
    memory: Memory = setting("stream", _MEMORY)
    output: OutputKind = setting("full", _OUTPUT)
    cutoffs: tuple[int, ...] = setting((), _CUTOFFS, least=1)
    noise_samples: int = setting(1024, _NOISE, least=1, below=1 << 24)
    noise_power: float = setting(1.0, _NOISE_POWER, least=0, below=2)

    def __post_init__(self) -> None:
        check_settings(self)
        _check_output(self.output, self.cutoffs, tied=self.tied)

    @property
    def input_width(self) -> int:
        return self.width if self.embedding_width is None else self.embedding_width

    @property
    def output_width(self) -> int:
        return self.input_width if self.tied else self.width


NetworkConfig = TransformerConfig | RecurrentConfig


def vaswani() -> TransformerConfig:
    """Attention Is All You Need (2017), its decoder alone."""
    return TransformerConfig(
        norm="layer",
        norm_place="post",
        norm_gain=True,
        embedding_norm=False,
        positions="sinusoidal",
        feed_forward="relu",
        query_key_norm=False,
        biases=True,
        tied=True,
        scaled_embedding=True,
        zero_projections=False,
        initialisation="xavier",
        dropout=0.1,
    )


def gpt2() -> TransformerConfig:
    """GPT-2 (Radford 2019): norms first, learned positions, GELU."""
    return TransformerConfig(
        norm="layer",
        norm_gain=True,
        embedding_norm=False,
        positions="learned",
        feed_forward="gelu",
        query_key_norm=False,
        biases=True,
        tied=True,
        zero_projections=False,
        initialisation="gpt2",
    )


def palm() -> TransformerConfig:
    """PaLM (Chowdhery 2022): parallel blocks, one head of keys and values, SwiGLU, rotary positions."""
    return TransformerConfig(
        norm="layer",
        norm_gain=True,
        embedding_norm=False,
        positions="rotary",
        feed_forward="swiglu",
        feed_forward_width=None,
        key_value_heads=1,
        query_key_norm=False,
        parallel=True,
        tied=True,
        zero_projections=False,
        initialisation="fan_in",
    )


def llama() -> TransformerConfig:
    """LLaMA (Touvron 2023): RMSNorm, SwiGLU, rotary positions, no biases."""
    return TransformerConfig(
        norm_gain=True,
        embedding_norm=False,
        positions="rotary",
        feed_forward="swiglu",
        query_key_norm=False,
        zero_projections=False,
        initialisation="gpt2",
    )


def modern() -> TransformerConfig:
    """Today's small recipe, and the default: RMSNorm without gains, rotary positions, QK-norm, ReLU squared."""
    return TransformerConfig()


PRESETS: dict[str, Callable[[], TransformerConfig]] = {
    "vaswani": vaswani,
    "gpt2": gpt2,
    "palm": palm,
    "llama": llama,
    "modern": modern,
}


def preset(name: str, **changes: Any) -> TransformerConfig:
    """The choices of a known architecture, with some of its fields changed. Raises SettingError.

    good:  preset("gpt2", layers=12, width=768, heads=12, context=1024)
    """
    if name not in PRESETS:
        raise SettingError(f"there is no preset {name!r}; expected one of {', '.join(PRESETS)}")
    if unknown := sorted(changes.keys() - {each.name for each in fields(TransformerConfig)}):
        raise SettingError(f"a TransformerConfig has no {unknown[0]}; it has {', '.join(help_of(TransformerConfig))}")
    return replace(PRESETS[name](), **changes)


def settings_of(config: NetworkConfig) -> dict[str, object]:
    """Field by field, for a file of JSON."""
    values = ((each.name, getattr(config, each.name)) for each in fields(config))
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values}


def _check_output(output: OutputKind, cutoffs: tuple[int, ...], *, tied: bool) -> None:
    if output == "adaptive" and tied:
        raise SettingError("an adaptive softmax has narrower weights for rare tokens, so it cannot be tied; choose one")
    if cutoffs and output != "adaptive":
        raise SettingError(f"cutoffs belong to an adaptive output, and this one is {output}; leave them out")
    if list(cutoffs) != sorted(set(cutoffs)):
        raise SettingError(f"cutoffs {cutoffs} must rise, each larger than the one before it")
