"""Settings of Transformers that only opened checkpoints need, beside those of `neural/config/transformer.py`.

A folder of any family of Transformers has the plain class if that knows all of its settings, else the one here. Does
not import torch.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from chainrule.base.options import option
from chainrule.features.open.network.consistency import check_opened
from chainrule.kinds import Lazy
from chainrule.neural.config.bidirectional import BertSettings, MaskedConfig, TextEncoderConfig
from chainrule.neural.config.network import MAX_CONTEXT, MAX_LAYERS, MAX_WIDTH, NetworkConfig
from chainrule.neural.config.transformer import TransformerConfig

SublayerNorms = Literal["before", "after", "both"]
Mixer = Literal[
    "attention", "convolution", "mamba", "mamba2", "delta", "rwkv", "rwkv_channels", "attention_mamba2", "none"
]
Router = Literal["softmax", "sigmoid"]
RecurrenceNorm = Literal["after", "before", "none"]
RotaryScaling = Literal["none", "linear", "llama3", "yarn", "longrope"]


@dataclass(frozen=True, kw_only=True)
class OpenSettings(BertSettings):
    """What opened checkpoints of Transformers may have; each model's paper or company is named."""

    encoder: ClassVar[Lazy] = Lazy("chainrule.features.open.network.transformer:OpenTransformer")
    outer_layers: ClassVar[Lazy] = Lazy("chainrule.features.open.network.transformer:outer_layers")

    shared_norm: bool = option(
        True, "parallel: attention and feed-forward read one norm; off: each has its own (GPT-NeoX)", is_rare=True
    )
    window_every: int = option(
        1, "of so many blocks the last one has the window, the others attend to all", least=1, is_rare=True
    )
    full_layers: tuple[int, ...] = option((), "window: the blocks without one, by number from 0", least=0, is_rare=True)
    unrotated_layers: tuple[int, ...] = option(
        (), "rotary: blocks whose queries and keys are not rotated, by number from 0", least=0, is_rare=True
    )
    sublayer_norms: SublayerNorms = option(
        "before",
        "pre: norms before each sub-layer; after: of what it adds (OLMo 2); both (Gemma 2)",
        is_rare=True,
    )
    gains_above_one: bool = option(False, "norms multiply by 1 plus their gains, as stored (Gemma)", is_rare=True)
    joint_query_key_norm: bool = option(
        False, "query_key_norm: over the heads of queries together, and of keys (OLMo 2)", is_rare=True
    )
    norm_after_rotation: bool = option(
        False, "query_key_norm: of queries and keys once they are rotated, not before (Hunyuan)", is_rare=True
    )
    attention_scale: float | None = option(
        None, "the factor of products of queries and keys; nothing: 1 / root of a head's width", least=0, is_rare=True
    )
    score_cap: float | None = option(
        None, "scores s of attention become cap tanh(s / cap) (Gemma 2); nothing: no cap", least=1e-6, is_rare=True
    )
    logit_cap: float | None = option(
        None, "logits l become cap tanh(l / cap) (Gemma 2, nanochat); nothing: no cap", least=1e-6, is_rare=True
    )
    logit_scale: float = option(1.0, "the factor of logits (Cohere, Granite)", least=1e-9, is_rare=True)
    embedding_scale: float = option(1.0, "the factor of the vectors of tokens (Granite)", least=1e-9, is_rare=True)
    residual_scale: float = option(1.0, "the factor of what each sub-layer adds (Granite)", least=1e-9, is_rare=True)
    experts: int = option(
        0,
        "feed-forward layers in a block, of which a router chooses for each token; 0: one, for all",
        least=0,
        below=1024,
        is_rare=True,
    )
    expert_width: int | None = option(
        None,
        "experts: hidden numbers of each, beside a feed-forward layer for all tokens, with norms of their own (Gemma "
        "4); nothing: experts stand in its place",
        least=1,
        below=MAX_WIDTH,
        is_rare=True,
    )
    chosen_experts: int = option(2, "experts: how many of them are chosen", least=1, below=1024, is_rare=True)
    normalised_experts: bool = option(
        True, "experts: the weights of the chosen ones add up to 1, not those of all", is_rare=True
    )
    expert_epsilon: float = option(
        0.0, "normalised_experts: a number added to what the weights are divided by (LFM2 MoE)", least=0, is_rare=True
    )
    router_bias: bool = option(False, "experts: the router has biases (gpt-oss)", is_rare=True)
    router: Router = option(
        "softmax", "experts: how scores become weights; sigmoid: each by itself (DeepSeek V3)", is_rare=True
    )
    router_shift: bool = option(
        False, "experts: they are chosen by their weights plus a learned number each (DeepSeek V3)", is_rare=True
    )
    expert_groups: int = option(
        1, "experts: groups of neighbours, of which the best ones are chosen first", least=1, below=1024, is_rare=True
    )
    chosen_groups: int = option(1, "expert_groups: how many are chosen", least=1, below=1024, is_rare=True)
    routed_scale: float = option(1.0, "experts: the factor of the chosen ones' weights", least=1e-9, is_rare=True)
    shared_expert_width: int = option(
        0,
        "experts: hidden numbers of a further one that all tokens go through; 0: none (Qwen 2 MoE, DeepSeek)",
        least=0,
        below=8 * MAX_WIDTH,
        is_rare=True,
    )
    gated_shared_expert: bool = option(
        False, "shared_expert_width: its output is multiplied by a gate of the token (Qwen 2 MoE)", is_rare=True
    )
    dense_layers: tuple[int, ...] = option(
        (), "experts: the blocks that have a plain feed-forward layer instead, by number from 0", least=0, is_rare=True
    )
    dense_width: int | None = option(
        None,
        "dense_layers: their hidden numbers; nothing: as many as those of experts",
        least=1,
        below=8 * MAX_WIDTH,
        is_rare=True,
    )
    key_rank: int | None = option(
        None,
        "numbers of the vector from which keys and values of all heads are made (DeepSeek V2); nothing: none",
        least=1,
        below=MAX_WIDTH,
        is_rare=True,
    )
    query_rank: int | None = option(
        None, "key_rank: likewise of queries; nothing: none", least=1, below=MAX_WIDTH, is_rare=True
    )
    value_width: int | None = option(
        None, "key_rank: numbers in a value; nothing: as in a head", least=1, below=MAX_WIDTH, is_rare=True
    )
    query_growth: float = option(
        0.0,
        "queries are multiplied by 1 + this times ln(1 + position // rotary_trained_context) (Ministral 3)",
        least=0,
        is_rare=True,
    )
    attention_out_scale: float = option(1.0, "the factor of what attention adds (Falcon-H1)", least=0, is_rare=True)
    feed_forward_scales: tuple[float, ...] = option(
        (), "two factors: of gates before their activation, and of what the layer adds (Falcon-H1)", is_rare=True
    )
    up_biases: bool = option(
        True, "feed-forward layers have biases before the activation, too; off: only after it (GTE)", is_rare=True
    )
    attention_sinks: bool = option(
        False, "each head has a learned score that takes part in the softmax, without a value (gpt-oss)", is_rare=True
    )
    block_groups: int | None = option(
        None,
        "groups of neighbouring blocks that share one set of weights (ALBERT); nothing: each block has its own",
        least=1,
        is_rare=True,
    )
    value_norm: bool = option(False, "values are normalised in each head, without gains (Gemma 4)", is_rare=True)
    full_head_width: int | None = option(
        None,
        "window: numbers in a head of blocks that attend to all; nothing: as in others (Gemma 4)",
        least=2,
        below=MAX_WIDTH,
        is_rare=True,
    )
    full_key_value_heads: int | None = option(
        None,
        "window: heads of keys and values in blocks that attend to all; nothing: as in others",
        least=1,
        below=MAX_WIDTH,
        is_rare=True,
    )
    keys_as_values: bool = option(
        False, "window: in blocks that attend to all, values are the keys before their norm (Gemma 4)", is_rare=True
    )
    shared_key_layers: int = option(
        0,
        "so many last blocks take the keys and values of the last block before them that has a window if they have one "
        "(Gemma 4)",
        least=0,
        below=MAX_LAYERS,
        is_rare=True,
    )
    wide_shared_blocks: bool = option(
        False, "shared_key_layers: their feed-forward layers have twice the hidden numbers", is_rare=True
    )
    layer_input_width: int = option(
        0,
        "numbers in a vector of each token for each block, which is added through a gate (Gemma 4); 0: none",
        least=0,
        below=MAX_WIDTH,
        is_rare=True,
    )
    block_scales: bool = option(False, "what each block gives is multiplied by a number of its own", is_rare=True)
    distance_buckets: int = option(
        0,
        "on either side, buckets of distances with a learned vector each, by which queries and keys are scored, too "
        "(DeBERTa); 0: none",
        least=0,
        below=4096,
        is_rare=True,
    )
    distance_limit: int = option(
        512, "distance_buckets: the distance from which all are one bucket", least=2, below=MAX_CONTEXT, is_rare=True
    )
    mixers: tuple[Mixer, ...] = option(
        (),
        "what each block has in the place of attention; convolution: a short one between gates (LFM2); mamba, mamba2: "
        "a selective state (Gu 2023, Dao 2024); delta: the gated delta rule (Yang 2024); rwkv, rwkv_channels: RWKV's "
        "two halves (Peng 2023); attention_mamba2: both, side by side (Falcon-H1); none: a feed-forward layer alone "
        "(Nemotron-H); nothing: attention in all",
        is_rare=True,
    )
    fed_alone: bool = option(
        False, "only blocks whose mixer is none have a feed-forward layer (Nemotron-H)", is_rare=True
    )
    has_feed_forward: bool = option(True, "blocks have a feed-forward layer; off: none (Mamba)", is_rare=True)
    recurrence_width: int = option(
        256, "mamba, mamba2, delta: the inner width, of all heads together", least=1, below=8 * MAX_WIDTH, is_rare=True
    )
    recurrence_heads: int = option(1, "mamba2, delta: heads", least=1, below=MAX_WIDTH, is_rare=True)
    recurrence_key_heads: int = option(
        1, "mamba2, delta: groups of heads; heads of keys", least=1, below=MAX_WIDTH, is_rare=True
    )
    state_width: int = option(
        16, "mamba, mamba2, delta: numbers in a state, or in a key", least=1, below=1024, is_rare=True
    )
    step_rank: int = option(1, "mamba: numbers from which steps are computed", least=1, below=MAX_WIDTH, is_rare=True)
    recurrence_kernel: int = option(
        3, "all but attention: tokens that a convolution reads", least=2, below=1024, is_rare=True
    )
    recurrence_biases: bool = option(False, "convolution, mamba, mamba2: products have biases", is_rare=True)
    recurrence_norm: RecurrenceNorm = option(
        "after", "mamba2: the output is normalised after its gate, before it, or not (Falcon-H1)", is_rare=True
    )
    recurrence_scales: tuple[float, ...] = option(
        (), "mamba2: the factors of gates, values, what is written, what is read, and steps (Falcon-H1)", is_rare=True
    )
    recurrence_scale: float = option(1.0, "mamba2: the factor of what it adds (Falcon-H1)", least=0, is_rare=True)
    least_step: float = option(0.0, "mamba2: steps are at least this (Nemotron-H)", least=0, is_rare=True)
    selection_epsilon: float | None = option(
        None,
        "mamba: steps, and what is read and written, are normalised with this epsilon; nothing: they are not (Falcon "
        "Mamba)",
        least=0,
        is_rare=True,
    )
    kernel_bias: bool = option(True, "mamba, mamba2: the convolution has a bias", is_rare=True)
    gated_attention: bool = option(
        False,
        "the output of attention is multiplied by gates, which are computed with the queries (Qwen 3.5)",
        is_rare=True,
    )
    first_norm: bool = option(
        True, "pre: the first block has a norm before attention, too; off: it has none (ModernBERT)", is_rare=True
    )
    relative_bias: bool = option(
        False, "positions are added, and each head and distance has a learned bias, too (MPNet)", is_rare=True
    )
    embedding_width: int | None = option(
        None,
        "dimensions of the vector of a token, which are projected to the width; by default the width (ELECTRA)",
        least=1,
        below=MAX_WIDTH,
        is_rare=True,
    )
    rotary_width: int | None = option(
        None, "rotary: numbers of a head that are rotated, the first ones; nothing: all", least=2, is_rare=True
    )
    rotary_scaling: RotaryScaling = option(
        "none",
        "rotary: how angles shrink for longer contexts; linear: all by a factor (Chen 2023); llama3, yarn: those of "
        "long waves (Peng 2023); longrope: each by a divisor of its own (Ding 2024)",
        is_rare=True,
    )
    rotary_factor: float = option(1.0, "rotary_scaling: by how much angles shrink", least=1, is_rare=True)
    rotary_low_factor: float = option(
        1.0,
        "llama3, yarn: waves longer than the trained context divided by this shrink by the whole factor",
        least=0,
        is_rare=True,
    )
    rotary_high_factor: float = option(
        4.0, "llama3, yarn: waves shorter than the trained context divided by this do not shrink", least=0, is_rare=True
    )
    rotary_trained_context: int = option(
        8192, "the context before rotary_scaling extended it", least=1, below=MAX_CONTEXT, is_rare=True
    )
    rotary_whole_pairs: bool = option(
        True, "yarn: the share that shrinks grows from one whole pair to another; off: exactly", is_rare=True
    )
    rotary_turning: int | None = option(
        None,
        "rotary: pairs that turn, the first ones, in blocks that attend to all; nothing: all (Gemma 4)",
        least=0,
        is_rare=True,
    )
    rotary_divisors: tuple[float, ...] = option(
        (), "longrope: by how much each angle shrinks within the trained context", least=0, is_rare=True
    )
    rotary_long_divisors: tuple[float, ...] = option(
        (), "longrope: by how much each angle shrinks in texts that are longer", least=0, is_rare=True
    )
    rotary_amplitude: float = option(
        1.0, "rotary_scaling: the factor of rotated queries and keys", least=0, is_rare=True
    )
    window_rotary_base: float | None = option(
        None,
        "rotary: the base in blocks with a window, whose angles are not scaled; nothing: they are as in others",
        least=1,
        is_rare=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_opened(self)

    @property
    def input_width(self) -> int:
        return self.width if self.embedding_width is None else self.embedding_width

    @property
    def output_width(self) -> int:
        return self.input_width

    @property
    def rotated_width(self) -> int:
        return self.width_of_heads if self.rotary_width is None else self.rotary_width

    @property
    def pairs_heads(self) -> bool:
        return super().pairs_heads and self.rotary_width is None

    @property
    def is_translation_invariant(self) -> bool:
        changes = self.query_growth or (self.positions == "rotary" and self.changes_rotation)
        return super().is_translation_invariant and not changes

    @property
    def changes_rotation(self) -> bool:
        """Whether angles change once a text is longer than the trained context."""
        return (
            self.rotary_scaling == "longrope"
            and self.rotary_trained_context < self.context
            and self.rotary_divisors != self.rotary_long_divisors
        )

    def mixer(self, layer: int) -> Mixer:
        """Return the mixer of a block. layer: its number, from 0."""
        return self.mixers[layer] if self.mixers else "attention"

    def attends(self, layer: int) -> bool:
        """Return whether a block has attention. layer: its number, from 0."""
        return self.mixer(layer).startswith("attention")

    def is_fed(self, layer: int) -> bool:
        """Return whether a block has a feed-forward layer, or experts. layer: its number, from 0."""
        return self.has_feed_forward and (not self.fed_alone or self.mixer(layer) == "none")

    def has_experts(self, layer: int) -> bool:
        """Return whether a block has experts. layer: its number, from 0."""
        return self.experts > 0 and layer not in self.dense_layers

    @property
    def width_of_values(self) -> int:
        """Numbers in a value."""
        return self.width_of_heads if self.value_width is None else self.value_width

    @property
    def is_stateful(self) -> bool:
        """Whether a block carries a state from token to token."""
        return any(mixer not in ("attention", "none") for mixer in self.mixers)

    def has_window(self, layer: int) -> bool:
        """Return whether a block sees its window alone. layer: its number, from 0."""
        return self.window is not None and (layer + 1) % self.window_every == 0 and layer not in self.full_layers

    def is_full(self, layer: int) -> bool:
        """Return whether a block attends to all although others have a window. layer: its number, from 0."""
        return self.window is not None and not self.has_window(layer)

    def head_width_of(self, layer: int) -> int:
        """Return numbers in a head of a block. layer: its number, from 0."""
        return self.full_head_width if self.full_head_width and self.is_full(layer) else self.width_of_heads

    def key_heads_of(self, layer: int) -> int:
        """Return heads of keys and values of a block. layer: its number, from 0."""
        return self.full_key_value_heads if self.full_key_value_heads and self.is_full(layer) else self.key_heads

    def keys_from(self, layer: int) -> int | None:
        """Return the block whose keys and values a block takes; None for its own. layer: its number, from 0."""
        first = self.layers - self.shared_key_layers
        if layer < first:
            return None
        return max(own for own in range(first) if self.has_window(own) == self.has_window(layer))

    def hidden_width_of(self, layer: int) -> int:
        """Return hidden numbers of a block's feed-forward layer. layer: its number, from 0."""
        if self.dense_width is not None and layer in self.dense_layers:
            return self.dense_width
        is_wide = self.wide_shared_blocks and self.keys_from(layer) is not None
        return (1 + is_wide) * self.hidden_width

    @property
    def distinct_blocks(self) -> int:
        """The number of blocks with separate weights."""
        return self.layers if self.block_groups is None else self.block_groups

    @property
    def arrays_of_layer(self) -> int:
        return max(1, self.experts)


@dataclass(frozen=True, kw_only=True)
class OpenTransformerConfig(OpenSettings):
    """A Transformer that continues texts, as others have trained it."""


@dataclass(frozen=True, kw_only=True)
class OpenMaskedConfig(OpenSettings, MaskedConfig):
    """A masked Transformer, as others have trained it."""


@dataclass(frozen=True, kw_only=True)
class OpenTextEncoderConfig(OpenSettings, TextEncoderConfig):
    """A Transformer that gives vectors of texts, as others have trained it."""


_OPENED: dict[type[NetworkConfig], type[OpenSettings]] = {
    TransformerConfig: OpenTransformerConfig,
    MaskedConfig: OpenMaskedConfig,
    TextEncoderConfig: OpenTextEncoderConfig,
}


def opened(config: NetworkConfig) -> NetworkConfig:
    """Return the settings of a Transformer as the class that has all that opened checkpoints may have; others
    unchanged.
    """
    kind = _OPENED.get(type(config))
    return config if kind is None else kind(**{field.name: getattr(config, field.name) for field in fields(config)})
