"""What a model says of texts at hand: their scores, the likeliest next tokens, what fills their gaps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.distributions import top_of
from chainrule.base.threads import map_in_order
from chainrule.errors import SettingError
from chainrule.evaluation.token_scores import score_sentences
from chainrule.protocol import UNKNOWN
from chainrule.text.tokenization.tokenizer import masked_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Float64, Int32
    from numpy import ndarray

    from chainrule.neural.bidirectional_model import TwoSidedModel
    from chainrule.protocol import LanguageModel, Scorer
    from chainrule.text.tokenization.tokenizer import Tokenizer

_BATCH = 1 << 10  # texts, for one thread


def score_texts(scorer: Scorer, tokenizer: Tokenizer, texts: Sequence[str]) -> Float64[ndarray, " texts"]:
    """log P of each text with its </s>, in nats. Raises MarkerError."""
    batches = (texts[first : first + _BATCH] for first in range(0, len(texts), _BATCH))
    scores = map_in_order(lambda batch: score_sentences(scorer, tokenizer.encode_texts(batch).ids), batches)
    return np.concatenate([np.empty(0), *(batch.log_probs for batch in scores)])


def next_tokens(model: LanguageModel[Any], tokenizer: Tokenizer, prompt: str, top: int) -> list[tuple[str, float]]:
    """The likeliest next tokens after a prompt, with their probabilities. Raises SettingError, MarkerError."""
    if top < 1:
        raise SettingError(f"top is {top}; expected 1 or more")
    log_probs, tokens = model.top(model.start([tokenizer.encode_texts([prompt]).ids[:-1]]), top)
    return _with_probabilities(tokenizer, tokens[0], log_probs[0])


def fill_masks(
    model: TwoSidedModel, tokenizer: Tokenizer, text: str, top: int, mask: str
) -> list[list[tuple[str, float]]]:
    """The likeliest tokens for each mask of a text, with their probabilities. Raises SettingError, MarkerError."""
    if not isinstance(text, str) or not isinstance(mask, str):
        raise TypeError(f"this takes one text and a mask, each a str; found {text!r} and {mask!r}")
    if not isinstance(top, int) or top < 1:
        raise SettingError(f"top is {top!r}; expected 1 or more")
    log_probs, tokens = top_of(model.fill(masked_tokens(tokenizer, text, mask)), top)
    return [_with_probabilities(tokenizer, *row) for row in zip(tokens, log_probs, strict=True)]


def unknown_words(tokenizer: Tokenizer, text: str) -> list[str]:
    """The tokens of a text that the vocabulary lacks, as written, without repetitions. Raises MarkerError."""
    encoded = tokenizer.encode_texts([text])
    positions = np.flatnonzero(encoded.ids == UNKNOWN).tolist()
    return list(dict.fromkeys(encoded.surface(i).decode("utf-8", "replace") for i in positions))


def _with_probabilities(
    tokenizer: Tokenizer, tokens: Int32[ndarray, " tokens"], log_probs: Float32[ndarray, " tokens"]
) -> list[tuple[str, float]]:
    """The tokens as text, without those of probability zero."""
    pairs = zip(tokens.tolist(), log_probs.tolist(), strict=True)
    probs = [(token, math.exp(log_prob)) for token, log_prob in pairs]
    return [(tokenizer.vocabulary.token(token), prob) for token, prob in probs if prob > 0]
