"""Prunes n-grams from a table by relative entropy, and renormalises its backoffs.

Source: Stolcke, Entropy-based pruning of backoff language models (1998). The score of an n-gram hw is D(p || p'), where
p' is the model without hw, which then backs off to its suffix; exp(D) - 1 is the relative rise of the perplexity. The
contexts of kept n-grams are kept, too.

All n-grams are scored against the unpruned model, so their order does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.base.threads import run, run_all
from chainrule.errors import SettingError
from chainrule.ngram.editing.pruning_kernels import raise_contexts, relative_entropies, renormalise
from chainrule.ngram.trie.node_ranges import parts_of
from chainrule.ngram.trie.suffixes import with_suffixes
from chainrule.ngram.trie.table import Table, pack_records, table_from_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Bool, Float32, Int
    from numpy import ndarray

    # Of a table and the suffixes of its n-grams, log P(h) of every context by node; see `history_weights.py`.
    Histories = Callable[[Table, Int[ndarray, " nodes"]], Float32[ndarray, " inner"]]

TASK = "pruning"


@dataclass(frozen=True)
class ScoredTable:
    """A table with the scores of its n-grams.

    scores: relative entropies in nats, raised for a context to the highest score of the n-grams after it; infinite for
    unigrams, which are never pruned.
    """

    table: Table
    suffixes: Int[ndarray, " nodes"]
    scores: Float32[ndarray, " nodes"]

    def above(self, threshold: float, progress: Progress = silent) -> Table:
        """The table without n-grams that would raise the perplexity by less than the threshold. Raises SettingError."""
        check_threshold(threshold)
        return prune(self.table, self.suffixes, self.scores >= np.log1p(threshold), progress)

    def best(self, ngrams: int, progress: Progress = silent) -> Table:
        """The table with the `ngrams` highest scores, over all orders; ties go to the first.

        Raises SettingError where there are fewer n-grams, or more unigrams.
        """
        check_ngrams(ngrams, self.table)
        rank = self.scores.size - (1 + ngrams)  # of the lowest score that is kept; the root is not counted
        limit = np.partition(self.scores, rank)[rank]
        kept = self.scores > limit
        # Contexts come before the n-grams after them, and score at least as high.
        kept[np.flatnonzero(self.scores == limit)[: 1 + ngrams - np.count_nonzero(kept)]] = True
        return prune(self.table, self.suffixes, kept, progress)


def check_threshold(threshold: float) -> None:
    """Raises SettingError where the threshold is not a number from 0 up."""
    if not 0 <= threshold < np.inf:
        raise SettingError(
            f"the threshold is {threshold}; expected a number of at least 0, such as 1e-8: the relative rise of "
            "the perplexity that an n-gram must cause to be kept"
        )


def check_ngrams(ngrams: int, table: Table) -> None:
    """Raises SettingError where a table cannot be pruned to this number of n-grams."""
    available = sum(table.level_sizes)
    if not table.vocabulary_size <= ngrams <= available:
        raise SettingError(
            f"cannot prune to {ngrams:,} n-grams: the model has {available:,}, and its {table.vocabulary_size:,} "
            "unigrams are never pruned"
        )


def score_ngrams(table: Table, histories: Histories, progress: Progress = silent) -> ScoredTable:
    """Scores every n-gram by its relative entropy.

    histories: gives the probabilities of contexts. Raises ModelFormatError where the table is damaged.
    """
    progress(TASK, 0, None)
    table, suffixes = with_suffixes(table)
    log_histories = histories(table, suffixes)
    scores = np.empty(table.words.size, np.float32)
    fixed = table.begin, suffixes, table.log_probs, table.log_backoffs, log_histories
    contexts = slice(1, table.begin.size - 1)
    calls = [(start, stop, *fixed, scores) for start, stop in parts_of(contexts)]
    run_all(relative_entropies, calls, on_done=lambda done: progress(TASK, done, len(calls)))
    scores[: table.level(1).stop] = np.inf
    for order in range(table.order - 1, 1, -1):
        run_all(raise_contexts, [(start, stop, table.begin, scores) for start, stop in parts_of(table.level(order))])
    return ScoredTable(table, suffixes, scores)


def prune(
    table: Table, suffixes: Int[ndarray, " nodes"], kept: Bool[ndarray, " nodes"], progress: Progress = silent
) -> Table:
    """The table of the kept n-grams with their old probabilities, and backoffs for which distributions sum to one.

    kept: must include all unigrams and the contexts of all kept n-grams.
    """
    log_probs, log_backoffs = table.log_probs.copy(), table.log_backoffs.copy()
    fixed = table.begin, suffixes, kept, table.log_probs, table.log_backoffs, log_probs, log_backoffs
    for order in range(1, table.order):
        progress(TASK, order, table.order)
        run_all(renormalise, [(start, stop, *fixed) for start, stop in parts_of(table.level(order))])
    return select_ngrams(table, kept, log_backoffs)


def select_ngrams(table: Table, kept: Bool[ndarray, " nodes"], log_backoffs: Float32[ndarray, " inner"]) -> Table:
    """The table of the kept n-grams, with these backoffs, up to the highest order that is left."""
    sizes = [int(np.count_nonzero(kept[table.level(order)])) for order in range(1, table.order + 1)]
    new_nodes = np.cumsum(kept, dtype=table.begin.dtype) - kept  # a kept node's new number
    new_nodes = np.append(new_nodes, new_nodes.dtype.type(1 + sum(sizes)))
    order = max(n for n, size in enumerate(sizes, 1) if size)
    contexts = np.flatnonzero(kept[: 1 + sum(table.level_sizes[: order - 1])])
    begin = np.append(new_nodes[table.begin[contexts]], new_nodes[-1:])
    records = pack_records(table.words[kept], table.log_probs[kept], begin, log_backoffs[contexts])
    return run(table_from_records, tuple(sizes[:order]), records, _suffixes_of_kept(table, kept, new_nodes))


def _suffixes_of_kept(
    table: Table, kept: Bool[ndarray, " nodes"], new_nodes: Int[ndarray, " nodes+1"]
) -> Int[ndarray, " kept"] | None:
    """The suffixes of the kept n-grams in new numbers; None if the table has no suffixes, or one is pruned."""
    suffixes = table.suffixes[kept] if table.suffixes.size else table.suffixes
    # the table may come from a damaged file
    are_nodes = suffixes.size > 0 and suffixes.min() >= 0 and suffixes.max() < kept.size
    return new_nodes[suffixes] if are_nodes and kept[suffixes].all() else None
