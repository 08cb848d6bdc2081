"""The token that ends a sentence, for decoders that write sentence by sentence."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.neural.config.seq2seq import ConditionalConfig
    from chainrule.text.tokenization.tokenizer import Tokenizer

Config = TypeVar("Config", bound="ConditionalConfig")
PERIOD = b"."


def sentence_slices(tokens: Int32[ndarray, " T"], tokenizer: Tokenizer) -> list[slice]:
    """The positions of each sentence: up to a period, or to the end."""
    vocabulary = tokenizer.vocabulary.tokens()
    period = vocabulary.index(PERIOD) if PERIOD in vocabulary else -1
    ends = (np.flatnonzero(tokens == period) + 1).tolist()
    if len(tokens) and (not ends or ends[-1] != len(tokens)):
        ends.append(len(tokens))
    return [slice(first, stop) for first, stop in pairwise([0, *ends])]


def with_sentence_end(config: Config, tokenizer: Tokenizer) -> Config:
    """With the id of the period, if the decoder is hierarchical. Raises SettingError if targets have no periods."""
    if config.decoder != "hierarchical" or config.sentence_end is not None:
        return config
    tokens = tokenizer.vocabulary.tokens()
    if PERIOD not in tokens:
        raise SettingError(
            "a hierarchical decoder writes sentences, but the vocabulary has no period as a token of its own; end "
            "sentences with one, and choose the tokenizer word"
        )
    return replace(config, sentence_end=tokens.index(PERIOD))
