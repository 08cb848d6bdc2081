"""Relative frequencies for stupid backoff (Brants et al. 2007)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from chainrule.base.progress import Progress, silent
from chainrule.ngram.estimation.passes import relative_frequencies
from chainrule.protocol import BEGIN, UNKNOWN

if TYPE_CHECKING:
    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.estimation.estimates import Estimates


def stupid_backoff(counts: Counts, config: NGramConfig, progress: Progress = silent) -> Estimates:
    """S(w|h) = c(hw) / c(h) if hw was seen, else 0.4 S(w|h'); c(w) / N without a context.

    Brants et al. (2007), equation 5. `StupidBackoff` applies the factors, since they are due after unseen contexts,
    too. The paper has no rule for unseen words: here they get one more factor and the uniform distribution; in a closed
    vocabulary, <unk> gets nothing.
    """
    estimates = relative_frequencies(counts, config, progress)
    score_unseen_words(counts, config, estimates.log_probs[counts.level(1)])
    return estimates


def score_unseen_words(counts: Counts, config: NGramConfig, log_probs: Float32[ndarray, " V"]) -> None:
    """Writes the scores of words that the text lacks among those of all unigrams."""
    unseen = counts.counts[counts.level(1)] == 0
    unseen[BEGIN] = False
    if not config.open_vocabulary:
        unseen[UNKNOWN] = False
    log_probs[unseen] = math.log(config.backoff_weight / (counts.level_sizes[0] - 1))
