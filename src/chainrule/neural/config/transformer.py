"""Settings of Transformers. Each choice of the field's history is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chainrule.base.options import option
from chainrule.errors import SettingError
from chainrule.kinds import Lazy
from chainrule.neural.config.network import CONTEXT, MAX_CONTEXT, MAX_LAYERS, MAX_WIDTH, NetworkConfig

Norm = Literal["layer", "rms"]
SelfScore = Literal[
    "dot", "scaled_dot", "general", "additive", "content", "cosine"
]  # without location: the position of a key in a text says nothing
NormPlace = Literal["pre", "post"]
BiasedPart = Literal["query_key_value", "attention_out", "feed_forward"]
Positions = Literal["none", "learned", "sinusoidal", "relative", "alibi", "rotary"]
FeedForward = Literal[
    "relu", "gelu", "gelu_exact", "silu", "relu_squared", "swiglu", "geglu", "geglu_exact", "clamped_swiglu"
]
Initialisation = Literal["fan_in", "gpt2", "xavier"]


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(NetworkConfig):
    """A Transformer: a network that looks back by attention.

    Each choice of the field's history is a setting.
    """

    encoder: ClassVar[Lazy] = Lazy("chainrule.neural.encoders.transformer:Transformer")
    outer_layers: ClassVar[Lazy] = Lazy("chainrule.neural.build:outer_layers_of_transformer")
    diagram: ClassVar[Lazy | None] = Lazy("chainrule.neural.diagrams:draw_transformer")

    sizes: ClassVar[tuple[dict[str, int], ...]] = (
        {"layers": 2, "width": 32, "heads": 2, "context": 64},
        {"layers": 2, "width": 64, "heads": 2, "context": 64},
        {"layers": 2, "width": 128, "heads": 4, "context": 64},
        {"layers": 4, "width": 128, "heads": 4, "context": 64},
        {"layers": 4, "width": 192, "heads": 4, "context": 128},
        {"layers": 4, "width": 256, "heads": 4, "context": 256},
    )
    repeated: ClassVar[dict[float, dict[str, float]]] = {40: {"dropout": 0.2}}
    repeated_of_many: ClassVar[dict[float, dict[str, float]]] = {12: {"dropout": 0.1}, **repeated}
    has_output: ClassVar[bool] = True  # it predicts tokens
    gains_from_ties: ClassVar[bool] = True
    ngrams_from: ClassVar[int | None] = 128

    layers: int = option(4, "the number of blocks", least=1, below=MAX_LAYERS)
    width: int = option(256, "dimensions of the vector of a token", least=1, below=MAX_WIDTH)
    heads: int = option(
        4, "attention heads; by default fewer where the width cannot be divided among 4", least=1, below=MAX_WIDTH
    )
    context: int = option(256, CONTEXT + ", and the most that a prediction looks back", least=1, below=MAX_CONTEXT)
    key_value_heads: int | None = option(
        None, "heads of keys and values: fewer than heads is grouped, 1 multi-query; by default as many", least=1
    )
    feed_forward: FeedForward = option(
        "relu_squared",
        "activation of the feed-forward layers; gelu: by tanh; swiglu, geglu, geglu_exact, clamped_swiglu: gated",
    )
    feed_forward_width: int | None = option(
        None, "hidden units of a feed-forward layer; by default 4 widths, 8/3 if gated", least=1, below=8 * MAX_WIDTH
    )
    norm: Norm = option("rms", "the kind of norm: layer: LayerNorm; rms: RMSNorm")
    norm_place: NormPlace = option("pre", "pre: before each sub-layer, and at the end; post: after each sum")
    norm_gain: bool = option(False, "norms have learned gains (and LayerNorm shifts, where there are biases)")
    embedding_norm: bool = option(True, "the vectors of tokens are normalised before the first block")
    positions: Positions = option(
        "rotary", "position encoding; relative: a learned bias for each head and distance (T5)"
    )
    rotary_base: float = option(10_000.0, "with rotary: the longest wave, in tokens over 2 pi", least=1)
    score: SelfScore = option(
        "scaled_dot",
        "how well a query q matches a key k: dot: q k; scaled_dot: q k / root of the width; general: q W k; "
        "additive: v tanh(W q + U k); content: their cosine, sharpened; cosine: as it is",
    )
    query_key_norm: bool = option(True, "queries and keys are normalised in each head")
    parallel: bool = option(False, "attention and feed-forward side by side in a block, not one after the other")
    window: int | None = option(None, "tokens that each layer attends to, itself included; by default all", least=1)
    biases: bool = option(False, "linear layers have biases")
    scaled_embedding: bool = option(False, "vectors of tokens are multiplied by the root of the width")
    zero_projections: bool = option(True, "the last matrix of each sub-layer, and the output if not tied, begin at 0")
    initialisation: Initialisation = option(
        "fan_in", "fan_in: uniform by the number of inputs; gpt2: normal, 0.02; xavier: uniform by inputs and outputs"
    )
    dropout: float = option(0.0, "the dropout rate of token vectors and of each sub-layer", least=0, below=1)
    attention_dropout: float = option(0.0, "the dropout rate of attention weights", least=0, below=1)
    head_width: int | None = option(
        None,
        "dimensions of a head; by default the width divided among the heads",
        least=1,
        below=MAX_WIDTH,
        is_rare=True,
    )
    norm_epsilon: float | None = option(
        None,
        "what norms add to the mean square or variance; by default 1e-5 of LayerNorm, 2^-23 of RMSNorm",
        least=0,
        below=1,
        is_rare=True,
    )
    without_biases: tuple[BiasedPart, ...] = option(
        (),
        "linear layers that have no biases though others have: query_key_value, attention_out, feed_forward",
        is_rare=True,
    )
    position_offset: int = option(
        0, "learned positions: the row of the table that the first position has", least=0, below=1024, is_rare=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if "heads" not in self.given and self.head_width is None and self.key_value_heads is None:
            object.__setattr__(self, "heads", self._heads_that_fit())
        self._check()

    def _heads_that_fit(self) -> int:
        """Return as many heads as set, or the most below that divide the width, evenly where positions rotate."""
        numbers = 2 if self.pairs_heads else 1
        return next((heads for heads in range(self.heads, 0, -1) if self.width % (heads * numbers) == 0), 1)

    def _check(self) -> None:
        """Raise SettingError where settings do not suit each other."""
        if self.head_width is None and self.width % self.heads:
            raise SettingError(
                f"a width of {self.width} cannot be divided among {self.heads} heads; choose a multiple of "
                f"{self.heads} as the width"
            )
        if self.heads % self.key_heads:
            raise SettingError(f"{self.heads} heads cannot share {self.key_heads} heads of keys and values evenly")
        if self.positions == "rotary" and self.rotated_width % 2:
            raise SettingError(
                f"rotary positions rotate pairs of numbers, but a head has {self.rotated_width}; "
                "choose a width or heads so that it is even"
            )
        if self.score != "scaled_dot" and self.key_heads != self.heads:
            raise SettingError(f"score is {self.score}, which needs as many heads of keys as of queries; leave one out")
        if self.score == "additive" and self.window is not None:
            raise SettingError("an additive score has no window; take another score, or no window")
        if self.window is not None and self.window > self.context:
            raise SettingError(f"a window of {self.window} is longer than the context of {self.context}; shorten it")

    @property
    def key_heads(self) -> int:
        return self.heads if self.key_value_heads is None else self.key_value_heads

    @property
    def width_of_heads(self) -> int:
        """Numbers in a head."""
        return self.width // self.heads if self.head_width is None else self.head_width

    @property
    def rotated_width(self) -> int:
        """Numbers of a head that rotary positions rotate."""
        return self.width_of_heads

    @property
    def pairs_heads(self) -> bool:
        """Whether each head must have an even number of numbers."""
        return self.positions == "rotary"

    @property
    def epsilon(self) -> float:
        """What norms add before the root."""
        if self.norm_epsilon is not None:
            return self.norm_epsilon
        return 1e-5 if self.norm == "layer" else 2.0**-23

    def has_biases(self, part: BiasedPart) -> bool:
        """Return whether some linear layers have biases."""
        return self.biases and part not in self.without_biases

    @property
    def is_translation_invariant(self) -> bool:
        """Whether a prediction stays the same when its whole context moves by some positions.

        Places that are added to the vectors of tokens fix where these stand. Rotations of queries and keys cancel but
        for their distance, q R_i' R_j k, where the score is their product or cosine; a matrix between the two, or tanh,
        is in the way.
        """
        if self.positions == "rotary":
            return self.score not in ("general", "additive")
        return self.positions not in ("learned", "sinusoidal")

    @property
    def blocks(self) -> int:
        return self.layers

    @property
    def attention_flops(self) -> float:
        return 6.0 * self.layers * self.width * min(self.context, 2 * (self.window or self.context))

    @property
    def is_gated(self) -> bool:
        return self.feed_forward in ("swiglu", "geglu", "geglu_exact", "clamped_swiglu")

    @property
    def hidden_width(self) -> int:
        """Of the feed-forward layers: gated ones have three matrices, so 8/3 widths are as many numbers as 4 in two."""
        if self.feed_forward_width is not None:
            return self.feed_forward_width
        return -(-8 * self.width // 3 // 8) * 8 if self.is_gated else 4 * self.width
