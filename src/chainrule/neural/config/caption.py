"""Of models that caption pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chainrule.base.options import setting
from chainrule.neural.config.conditional import (
    ConditionalConfig,
    Estimator,
    LongSources,
    Reads,
    ScoreName,
    Shared,
    Writes,
)
from chainrule.neural.config.network import MAX_CONTEXT, MAX_LAYERS, MAX_WIDTH


@dataclass(frozen=True, kw_only=True)
class CaptionConfig(ConditionalConfig):
    """A model that captions pictures: Show, Attend and Tell (Xu 2015).

    The decoder attends to a vector for each place of a picture, which an
    encoder of pictures computes. What is not Xu's by default is a setting:
    attends before, gate, deep_output, doubly_stochastic 1. Raises SettingError.
    """

    encoder: Reads = setting("none", "what reads the vectors of a picture's places", is_rare=True)
    encoder_layers: int = setting(1, "layers of what reads these vectors", least=1, below=MAX_LAYERS, is_rare=True)
    decoder: Writes = setting(
        "lstm",
        "what writes the caption; hierarchical: an LSTM that gives each sentence of a paragraph a topic, and one that "
        "writes its words (Krause 2017)",
    )
    decoder_layers: int = setting(1, "layers of the decoder", least=1, below=MAX_LAYERS)
    width: int = setting(256, "numbers in the vector of a token, and in a layer", least=1, below=MAX_WIDTH)
    attention: Literal["soft", "hard", "none"] = setting(
        "soft",
        "soft: the weighted mean over the picture's places; hard: one place is drawn (Xu 2015); none: the decoder gets "
        "only the mean of all places",
    )
    center: Literal["fixed", "predicted"] = setting("fixed", "for texts only", is_rare=True)
    window: int = setting(5, "for texts only", least=1, below=MAX_CONTEXT, is_rare=True)
    score: ScoreName = setting(
        "scaled_dot",
        "how well a state s matches a place h: dot: s h; scaled_dot: s h / root of the width; "
        "general: s W h; additive: v tanh(W s + U h); content: their cosine, sharpened; cosine: as it "
        "is; location: W s, whatever h",
    )
    estimator: Estimator = setting(
        "exact",
        "hard: how it learns to choose: reinforce: from drawn places (Xu 2015); straight_through: as if attention were "
        "soft; exact: from the sum over all places (Wu 2018), where nothing is fed into the next step",
    )
    input_feeding: bool = setting(
        False, "lstm, gru that attend after: the next step also reads the output of the last one (Luong 2015)"
    )
    gate: bool = setting(False, "lstm, gru: what attention gives is weighted by a gate, beta (Xu 2015, section 4.2.1)")
    deep_output: bool = setting(False, "lstm, gru: the output also reads the vector of the last token (Pascanu 2014)")
    doubly_stochastic: float = setting(
        0.0,
        "lstm, gru: weight of the sum over places of (1 - attention over all steps) squared (Xu 2015: 1)",
        least=0,
    )
    soft_share: float = setting(
        0.0, "hard, reinforce: share of training steps that attend softly (Xu 2015: 0.5)", least=0, below=1
    )
    entropy: float = setting(
        0.0, "hard, reinforce: weight of the entropy of attention, which is maximised (Xu 2015: 0.002)", least=0
    )
    placed: bool = setting(True, "the vectors of places get a learned vector of where they are")
    map_dropout: float | None = setting(
        None,
        "regions with phrases: share of regions for which training hides what the maps hold, so that phrases are read; "
        "nothing: 0.7 where something reads regions before the decoder attends to them, else 0",
        least=0,
        below=1,
        is_later=True,
    )
    shared: Shared = setting("target", "target: the output shares the vectors of tokens; none: it does not")
    long_sources: LongSources = setting("refuse", "for texts only", is_rare=True)
    max_source: int = setting(512, "the places of a picture", least=1, below=MAX_CONTEXT, is_rare=True)
