"""Estimation as KenLM's lmplz does it, with what it has beyond `training.py`: unigrams that are pruned, too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.errors import EstimationError
from chainrule.ngram.estimation.discounts import FALLBACK
from chainrule.ngram.estimation.kneser_ney import modified_kneser_ney
from chainrule.ngram.estimation.to_table import table_of
from chainrule.ngram.training import counted
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Set

    from jaxtyping import Bool, Int32
    from numpy import ndarray

    from chainrule.base.owned import MaybeOwned
    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.trie.table import Table


def lmplz_table(
    stream: MaybeOwned[Int32[ndarray, " tokens"]],
    vocabulary: Vocabulary,
    config: NGramConfig,
    progress: Progress = silent,
    *,
    unigram_threshold: int = 0,
    allowed: Set[bytes] | None = None,
    fallback: tuple[float, float, float] | None = None,
    least_words: int = 0,
) -> tuple[Table, Vocabulary]:
    """What lmplz writes: the n-grams without those that have a pruned word in them, and the words that are left.

    unigram_threshold: words seen at most this often are pruned. allowed: all words but these are. fallback: what is
    taken where discounts cannot be estimated. least_words: <unk> has a price as if there were so many words.
    In the table, the log-probability of <s> is 0, as lmplz has it, though it is never predicted. Raises EstimationError
    where discounts cannot be estimated and there is no fallback.
    """
    counts = counted(stream, len(vocabulary), config, progress)
    words_dropped = counts.counts[counts.level(1)] <= unigram_threshold if unigram_threshold else None
    if allowed is not None:
        outside = np.array([token not in allowed for token in vocabulary.tokens()])
        words_dropped = outside if words_dropped is None else outside | words_dropped
    if words_dropped is not None:
        words_dropped[[UNKNOWN, BEGIN, END]] = False
    dropped = None if words_dropped is None else _with_a_word(counts, words_dropped)
    words = len(vocabulary) - 1 if words_dropped is None else int(np.count_nonzero(~words_dropped)) - 1
    estimates = modified_kneser_ney(
        counts, config, progress, fallback=fallback or FALLBACK, dropped=dropped, words=max(words, least_words)
    )
    problem = next((discounts.problem for discounts in estimates.discounts if discounts.problem), None)
    if problem is not None and fallback is None:
        raise EstimationError(
            f"{problem}; a text without repetitions may do, or --discount_fallback, which takes 0.5, 1 and 1.5 there"
        )
    if dropped is not None:
        kept = ~dropped if estimates.kept is None else ~dropped & estimates.kept
        estimates = replace(estimates, kept=kept)
    table = table_of(counts, estimates)
    nodes = table.nodes  # of this table alone
    nodes["log_prob"][1 + BEGIN] = 0
    if words_dropped is not None:
        numbers = np.cumsum(~words_dropped, dtype=np.int32) - 1
        nodes["word"][1:] = numbers[nodes["word"][1:]]
        tokens = vocabulary.tokens()
        vocabulary = Vocabulary([tokens[word] for word in np.flatnonzero(~words_dropped).tolist() if word > END])
    return replace(table, nodes=nodes), vocabulary


def _with_a_word(counts: Counts, chosen: Bool[ndarray, " vocab"]) -> Bool[ndarray, " nodes"]:
    """Which n-grams have one of the chosen words in them."""
    found = np.zeros(counts.words.size, np.bool_)
    found[counts.level(1)] = chosen
    for order in range(2, counts.order + 1):
        level, contexts = counts.level(order), counts.level(order - 1)
        children = np.diff(counts.begin[contexts.start : contexts.stop + 1])
        found[level] = chosen[counts.words[level]] | np.repeat(found[contexts], children)
    return found
