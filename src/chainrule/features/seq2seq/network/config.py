"""Settings of networks that generate a text from another text or from vectors (Seq2SeqConfig), or from a picture
(CaptionConfig).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chainrule.base.options import changed, check_settings, option
from chainrule.errors import SettingError
from chainrule.kinds import Lazy
from chainrule.neural.config.network import MAX_CONTEXT, MAX_LAYERS, MAX_WIDTH, BeginToken, ScoreName
from chainrule.neural.config.transformer import FeedForward  # noqa: TC001  # its hints are read

Writes = Literal["transformer", "lstm", "gru", "convolution", "hierarchical"]
Reads = Literal["transformer", "lstm", "gru", "convolution", "none"]
Style = Literal["vaswani", "modern", "t5"]
PairPositions = Literal["sinusoidal", "rotary", "relative", "none"]
Looks = Literal["soft", "local", "hard", "none"]
Estimator = Literal["reinforce", "straight_through", "exact"]
LongSources = Literal["refuse", "end", "front", "sentences"]
Shared = Literal["all", "target", "inputs", "none"]

# Without a reader, the maps are all that a region knows of its surroundings.
_HIDDEN_MAPS = 0.7


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig:
    """A model of one sequence given another: translations, summaries, corrections.

    An encoder reads the source, and a decoder writes the target, with
    attention to the source. Raises SettingError.
    """

    diagram: ClassVar[Lazy | None] = Lazy("chainrule.features.seq2seq.diagram:draw_seq2seq")

    encoder: Reads = option(
        "transformer",
        "what reads the source; lstm and gru read it in both directions; none: the decoder attends to the vectors of "
        "tokens by themselves",
    )
    decoder: Writes = option(
        "transformer",
        "what writes the target; hierarchical: an LSTM that gives each sentence a topic, and one that writes its words "
        "(Krause 2017)",
    )
    encoder_layers: int = option(3, "layers of the encoder", least=1, below=MAX_LAYERS)
    decoder_layers: int = option(3, "layers of the decoder", least=1, below=MAX_LAYERS)
    width: int = option(256, "dimensions of the vector of a token, and of a layer", least=1, below=MAX_WIDTH)
    heads: int = option(4, "with transformer: attention heads", least=1, below=MAX_WIDTH)
    feed_forward_width: int | None = option(
        None,
        "with transformer: hidden units of a feed-forward layer; by default 4 widths",
        least=1,
        below=8 * MAX_WIDTH,
    )
    style: Style = option(
        "vaswani",
        "with transformer: vaswani: LayerNorm and ReLU (Vaswani 2017); modern: RMSNorm, normalised queries and keys, "
        "ReLU squared; t5: RMSNorm with gains, self-attention by unscaled products, ReLU (Raffel 2020)",
    )
    norm_place: Literal["pre", "post"] = option(
        "pre", "with transformer: pre: norms before each sub-layer, and at the end; post: after each sum"
    )
    positions: PairPositions = option(
        "sinusoidal",
        "with transformer: position encoding; relative: a learned bias for each head and distance (Raffel 2020)",
    )
    kernel: int = option(3, "with convolution: positions that a layer reads", least=1, below=MAX_CONTEXT)
    attention: Looks = option(
        "soft",
        "soft: the weighted mean over the source; local: within a window (Luong 2015); hard: one position is drawn "
        "(Xu 2015); none: the decoder gets only the encoder's summary",
    )
    score: ScoreName = option(
        "scaled_dot",
        "how well a state s matches a position h of the source: dot: s h; scaled_dot: s h / root of the width; "
        "general: s W h; additive: v tanh(W s + U h); content: their cosine, sharpened; cosine: as it "
        "is; location: W s, whatever h",
    )
    center: Literal["fixed", "predicted"] = option(
        "fixed", "with local: the center of the window: the target's own position, or predicted from the state"
    )
    window: int = option(5, "with local: positions on each side of the center", least=1, below=MAX_CONTEXT)
    estimator: Estimator = option(
        "reinforce",
        "with hard: how attention is trained: reinforce: from drawn positions (Xu 2015); straight_through: as if "
        "attention were soft; exact: from the sum over all positions (Wu 2018), where nothing is fed into the next "
        "step",
    )
    draws: int = option(
        1,
        "with hard and reinforce, where the next step does not read the choice: positions drawn for each token; "
        "several learn from the logarithm of their mean probability (Mnih 2016)",
        least=1,
        below=1 << 10,
        is_later=True,
    )
    attends: Literal["before", "after"] = option(
        "after", "with lstm or gru: attend to the source before each step (Bahdanau 2015), or after it (Luong 2015)"
    )
    input_feeding: bool = option(
        True, "with an lstm or gru that attends after: the next step also reads the output of the last one (Luong 2015)"
    )
    shared: Shared = option(
        "target",
        "all: source, target and output share the vectors of tokens; target: target and output do; inputs: source and "
        "target do",
    )
    max_source: int = option(512, "the longest source, in tokens with its </s>", least=2, below=MAX_CONTEXT)
    long_sources: LongSources = option(
        "refuse",
        "what to do about longer sources; refuse: training leaves them out, and to write from one is an error; end, "
        "front: that side is cut off; sentences: the most central sentences are read (Nenkova 2005)",
        is_later=True,
    )
    dropout: float = option(0.1, "the dropout rate of token vectors and of each layer", least=0, below=1)
    attention_dropout: float = option(0.0, "the dropout rate of attention weights", least=0, below=1)
    feed_forward: FeedForward | None = option(
        None, "with transformer: activation of the feed-forward layers; by default that of the style", is_rare=True
    )
    head_width: int | None = option(
        None,
        "with transformer: dimensions of a head; by default the width divided among the heads",
        least=1,
        below=MAX_WIDTH,
        is_rare=True,
    )
    norm_epsilon: float | None = option(
        None,
        "with transformer: what norms add to the mean square or variance; by default 1e-5 of LayerNorm, 2^-23 of "
        "RMSNorm",
        least=0,
        below=1,
        is_rare=True,
    )
    interleaved_sinusoids: bool = option(
        True, "sinusoidal: sines and cosines by turns; off: all sines, then all cosines (Marian)", is_rare=True
    )
    inclusive_sinusoids: bool = option(
        False, "sinusoidal: the last wave is 10,000 times as long as the first (tensor2tensor, M2M-100)", is_rare=True
    )
    scaled_embedding: bool = option(
        True, "transformer, convolution: vectors of tokens are multiplied by the root of the width", is_rare=True
    )
    scaled_output: bool = option(
        False, "what the decoder gives is divided by the root of the width before the output (T5)", is_rare=True
    )
    output_bias: bool = option(True, "the output has a bias for each token", is_rare=True)
    begins_with: BeginToken = option(
        "</s>", "what the decoder reads before a target: </s>, or <s>, a token of its own", is_rare=True
    )
    ends: tuple[int, ...] = option(
        (), "tokens that end a target, too: their probability counts as that of </s>", least=3, is_rare=True
    )
    banned: tuple[int, ...] = option((), "tokens that have no probability, beside <s>", least=0, is_rare=True)
    gate: bool = option(
        False, "with lstm or gru: attention's output is multiplied by a gate, beta (Xu 2015, 4.2.1)", is_rare=True
    )
    deep_output: bool = option(
        False, "lstm, gru: the output also reads the vector of the last token (Pascanu 2014)", is_rare=True
    )
    doubly_stochastic: float = option(
        0.0,
        "with lstm or gru: weight of the sum over positions of (1 - attention over all steps) squared (Xu 2015, "
        "equation 14)",
        least=0,
        is_rare=True,
    )
    soft_share: float = option(
        0.0, "with hard and reinforce: share of steps that attend softly in training", least=0, below=1, is_rare=True
    )
    entropy: float = option(
        0.0, "with hard and reinforce: weight of the entropy of attention, which is maximised", least=0, is_rare=True
    )
    source_width: int | None = option(
        None,
        "dimensions of each vector of a source; by default sources are tokens",
        least=1,
        below=1 << 20,
        is_rare=True,
    )
    source_grid: tuple[int, ...] = option(
        (),
        "rows and columns of the vectors of a source; by default they are of regions, any number of them, and each "
        "ends with left, top, right and bottom",
        least=1,
        below=MAX_CONTEXT,
        is_rare=True,
    )
    phrase_width: int = option(
        0, "of regions: numbers of each vector that are of its phrase", least=0, below=1 << 20, is_rare=True
    )
    map_dropout: float | None = option(
        None,
        "of regions with phrases: share of regions for which training hides what the maps hold",
        least=0,
        below=1,
        is_rare=True,
    )
    sentence_end: int | None = option(None, "hierarchical: the token that ends a sentence", least=3, is_rare=True)
    source_norm: bool = option(True, "vectors of a source are normalised before they are projected", is_rare=True)
    learned_positions: int = option(
        0,
        "transformer: positions of a target that have a learned vector; 0: none",
        least=0,
        below=MAX_CONTEXT,
        is_rare=True,
    )
    learned_source_positions: int = option(
        0,
        "transformer: positions of a source that have a learned vector; 0: none",
        least=0,
        below=MAX_CONTEXT,
        is_rare=True,
    )
    position_offset: int = option(
        0, "learned and sinusoidal positions: the number of the first", least=0, below=MAX_CONTEXT, is_rare=True
    )
    embedding_norm: bool = option(
        False, "transformer: the vectors of tokens, with their positions, are normalised", is_rare=True
    )
    before_source: tuple[int, ...] = option((), "tokens that are read before each source", least=0, is_rare=True)
    after_source: tuple[int, ...] = option(
        (), "tokens that are read after each source and its </s>", least=0, is_rare=True
    )
    before_target: tuple[int, ...] = option(
        (),
        "transformer: tokens that the decoder reads after the one that targets begin with; they have no probability",
        least=0,
        is_rare=True,
    )
    placed: bool = option(False, "vectors of a source get a learned vector of their place", is_rare=True)
    convolved_source: bool = option(
        False,
        "vectors of a source go through two convolutions over three of them, the second of which halves their number "
        "(Radford 2022)",
        is_rare=True,
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if self.head_width is None:
            if "transformer" in (self.encoder, self.decoder) and self.width % (2 * self.heads):
                raise SettingError(
                    f"a width of {self.width} cannot be divided among {self.heads} heads of an even width; make width "
                    f"a multiple of {2 * self.heads}, or set heads"
                )
        elif self.positions == "rotary" and self.head_width % 2:
            raise SettingError(
                f"rotary positions rotate pairs of numbers, but a head has {self.head_width}; make head_width even"
            )
        if self.positions == "sinusoidal" and not self.interleaved_sinusoids and self.width % 2:
            raise SettingError(f"a width of {self.width} cannot be half sines and half cosines; make it even")
        if self.source_width is not None:
            self._check_vectors()
        if self.before_target and self.decoder != "transformer":
            raise SettingError(
                f"before_target is for the transformer, but the decoder is {self.decoder}; leave it out, or set decoder"
            )
        if self.is_recurrent(self.encoder) and self.width % 2:
            raise SettingError(f"a width of {self.width} cannot be divided between two directions; make it even")
        if not self.is_recurrent(self.decoder):
            if self.attention != "soft":
                raise SettingError(
                    f"attention is {self.attention}, but a {self.decoder} decoder has soft attention only; "
                    "set decoder to lstm or gru"
                )
        elif self.attention == "local" and self.score == "location":
            raise SettingError(
                "the score location does not work with local attention; choose another score, or soft attention"
            )

        if not self.is_recurrent(self.decoder) and (self.gate or self.deep_output or self.doubly_stochastic):
            raise SettingError(
                "gate, deep_output and doubly_stochastic are for recurrent decoders; set decoder to lstm or gru, or "
                "leave them out"
            )
        if (self.gate or self.doubly_stochastic) and self.attention == "none":
            raise SettingError("gate and doubly_stochastic need attention; leave them out, or set attention")
        samples = self.attention == "hard" and self.estimator == "reinforce"
        if self.attention == "hard" and self.estimator == "exact" and self.feeds:
            raise SettingError(
                "the sum over all positions is exact only where what was attended to is no input of the next step; set "
                "attends to after and input_feeding to False, or estimator to reinforce"
            )
        if self.draws > 1 and (not samples or self.feeds or self.soft_share):
            raise SettingError(
                "draws is for hard attention that learns by reinforce and whose choice the next step does not read: "
                "set attends to after, input_feeding to False and soft_share to 0, or draws to 1"
            )
        if (self.soft_share or self.entropy) and not samples:
            raise SettingError(
                "soft_share and entropy are for hard attention that learns by reinforce; set attention to hard and "
                "estimator to reinforce, or leave them out"
            )

    def _check_vectors(self) -> None:
        """Raise SettingError where settings do not suit sources that are vectors."""
        if not self.source_grid:
            if self.source_width is None or self.source_width <= self.phrase_width + 4:
                raise SettingError(
                    f"source_width is {self.source_width}, of which {self.phrase_width} are of a phrase; expected "
                    "numbers of a region, of its phrase, and 4 that say where it is"
                )
        elif len(self.source_grid) != 2 or self.source_grid[0] * self.source_grid[1] != self.max_source:
            raise SettingError(
                f"source_grid is {self.source_grid} for {self.max_source} vectors; expected rows and columns of them"
            )
        if self.shared in ("all", "inputs"):
            raise SettingError(f"shared is {self.shared}, but sources are vectors, not tokens; expected target or none")

    @property
    def reads_vectors(self) -> bool:
        """Whether sources are vectors, such as those of the places of a picture, in place of tokens."""
        return self.source_width is not None

    @property
    def source_rows(self) -> int:
        """The vectors of a source, before convolutions halve their number."""
        return 2 * self.max_source if self.convolved_source else self.max_source

    @property
    def reads_regions(self) -> bool:
        """Whether sources are vectors of regions, of which each source has as many as it has."""
        return self.reads_vectors and not self.source_grid

    @staticmethod
    def is_recurrent(part: Reads | Writes) -> bool:
        return part in ("lstm", "gru", "hierarchical")

    @property
    def width_of_heads(self) -> int:
        """Numbers in a head of attention."""
        return self.width // self.heads if self.head_width is None else self.head_width

    @property
    def key_heads(self) -> int:
        """Heads of keys and values: as many as of queries."""
        return self.heads

    @property
    def most_source_tokens(self) -> int:
        """The tokens of the longest source, without </s> and what else is read with each."""
        return self.max_source - 1 - len(self.before_source) - len(self.after_source)

    @property
    def hidden_maps(self) -> float:
        """The share of regions with phrases for which training hides what the maps hold."""
        if self.map_dropout is None:
            return 0.0 if self.encoder == "none" else _HIDDEN_MAPS
        return self.map_dropout

    @property
    def feeds(self) -> bool:
        """Whether the context vector of a step is an input of the next step."""
        is_recurrent = self.is_recurrent(self.decoder) and self.attention != "none"
        return is_recurrent and (self.attends == "before" or self.input_feeding)


@dataclass(frozen=True, kw_only=True)
class CaptionConfig(Seq2SeqConfig):
    """A model that captions pictures: Show, Attend and Tell (Xu 2015).

    The decoder attends to a vector for each place of a picture, which an
    encoder of pictures computes. What is not Xu's by default is a setting:
    attends before, gate, deep_output, doubly_stochastic 1. Raises SettingError.
    """

    encoder: Reads = option("none", "what reads the vectors of a picture's places", is_rare=True)
    encoder_layers: int = option(1, "layers of what reads these vectors", least=1, below=MAX_LAYERS, is_rare=True)
    decoder: Writes = option(
        "lstm",
        "what writes the caption; hierarchical: an LSTM that gives each sentence of a paragraph a topic, and one that "
        "writes its words (Krause 2017)",
    )
    decoder_layers: int = changed(Seq2SeqConfig, "decoder_layers", 1)
    width: int = changed(Seq2SeqConfig, "width")
    attention: Literal["soft", "hard", "none"] = option(
        "soft",
        "soft: the weighted mean over the picture's places; hard: one place is drawn (Xu 2015); none: the decoder gets "
        "only the mean of all places",
    )
    center: Literal["fixed", "predicted"] = option("fixed", "for texts only", is_rare=True)
    window: int = option(5, "for texts only", least=1, below=MAX_CONTEXT, is_rare=True)
    score: ScoreName = option(
        "scaled_dot",
        "how well a state s matches a place h: dot: s h; scaled_dot: s h / root of the width; "
        "general: s W h; additive: v tanh(W s + U h); content: their cosine, sharpened; cosine: as it "
        "is; location: W s, whatever h",
    )
    estimator: Estimator = option(
        "exact",
        "with hard: how attention is trained: reinforce: from drawn places (Xu 2015); straight_through: as if "
        "attention were soft; exact: from the sum over all places (Wu 2018), where nothing is fed into the next step",
    )
    input_feeding: bool = changed(Seq2SeqConfig, "input_feeding", False)
    gate: bool = option(False, "with lstm or gru: attention's output is multiplied by a gate, beta (Xu 2015, 4.2.1)")
    deep_output: bool = option(False, "lstm, gru: the output also reads the vector of the last token (Pascanu 2014)")
    doubly_stochastic: float = option(
        0.0,
        "with lstm or gru: weight of the sum over places of (1 - attention over all steps) squared (Xu 2015: 1)",
        least=0,
    )
    soft_share: float = option(
        0.0, "with hard and reinforce: share of training steps that attend softly (Xu 2015: 0.5)", least=0, below=1
    )
    entropy: float = option(
        0.0, "with hard and reinforce: weight of the entropy of attention, which is maximised (Xu 2015: 0.002)", least=0
    )
    placed: bool = option(True, "the vectors of places get a learned vector of their position")
    map_dropout: float | None = option(
        None,
        "with phrases: the share of regions whose features are hidden in training, so that their phrases are read; by "
        "default 0.7 where a network reads them before the decoder, else 0",
        least=0,
        below=1,
        is_later=True,
    )
    shared: Shared = option("target", "target: the output shares the vectors of tokens; none: it does not")
    long_sources: LongSources = option("refuse", "for texts only", is_rare=True)
    max_source: int = option(512, "the places of a picture", least=1, below=MAX_CONTEXT, is_rare=True)
