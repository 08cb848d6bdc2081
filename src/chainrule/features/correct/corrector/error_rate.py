"""Estimates which share of the words of texts is wrong, from the words alone, before any context is looked at.

A known word counts as right. An unknown one in running text is wrong with the probability that the channel and the
words' own probabilities give, against that of a new word with this spelling; in a list, where each text is a word, it
is wrong if some word is close to it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from chainrule.features.correct.corrector.spans import chunks_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.features.correct.channel.lexicon import Prior
    from chainrule.features.correct.corrector.error_models import ErrorModel
    from chainrule.features.correct.corrector.word_index import WordIndex

RATE_OF_WORDS = 0.02  # where nothing is estimated
_AS_MANY = 20  # words that count as much as this rate
_REAL_WORDS = 1.25  # errors that there are for one that is no word
_NEW = 7.5  # nats by which an unknown word is likelier than in texts like those that the model was trained on
_LEAST, _MOST = 0.001, 0.95
_MANY_WORDS = 50


def are_lowered(texts: Sequence[str]) -> bool:
    """Return whether no word of many has a capital letter, so that `i` is as it should be."""
    return sum(len(text.split()) for text in texts) >= _MANY_WORDS and all(text == text.lower() for text in texts)


def estimate_rate(
    texts: Sequence[str],
    words: WordIndex,
    errors: ErrorModel,
    prior: Prior,
    keep: Collection[str] = (),
) -> float:
    """Return the share of words that are wrong.

    errors: at a rate above what is expected, such as 0.2. prior: log P of words without context, in nats.
    """
    in_lists: Counter[str] = Counter()
    in_texts: Counter[str] = Counter()
    total = 0
    for text in texts:
        chunks = [chunk for chunk in chunks_of(text, keep) if not chunk.kept]
        found = [(chunk, a, b) for chunk in chunks for a, b in chunk.words]
        total += len(found)
        for chunk, a, b in found:
            word = chunk.text[a:b]
            if word not in words and not chunk.is_name(a):
                (in_lists if len(found) == 1 else in_texts)[word.lower()] += 1
    unknown = sorted(in_lists | in_texts)
    wrong = _probs_of_errors(unknown, words, errors, prior) if unknown else np.zeros(0)
    listed = np.array([in_lists[word] for word in unknown], np.float64)
    running = np.array([in_texts[word] for word in unknown], np.float64)
    expected = float(listed @ (wrong > 0) + running @ wrong)
    rate = (_REAL_WORDS * expected + _AS_MANY * RATE_OF_WORDS) / (total + _AS_MANY)
    return min(max(rate, _LEAST), _MOST)


def _probs_of_errors(
    unknown: list[str], words: WordIndex, errors: ErrorModel, prior: Prior
) -> Float64[ndarray, " words"]:
    """Return the probability of each word, in lower case, that another one was meant."""
    candidates = words.candidates_for(unknown, errors, 6)
    meant = np.array(
        [
            np.logaddexp.reduce([one.log_prob + words.log_prior(one.word.lower()) for one in row], initial=-np.inf)
            for row in candidates
        ]
    )
    new = errors.log_probs(unknown, unknown) + _NEW + prior(unknown)
    return np.exp(meant - np.logaddexp(meant, new))
