"""N-grams taken out of a table, and the back-off weights that make its distributions sum to one again.

By relative entropy: Stolcke, Entropy-based pruning of backoff language models (1998). An n-gram hw is judged by how far
the model moves, D(p || p'), if hw alone is read off its suffix from now on; exp(D) - 1 is the share by which the
perplexity rises. Only n-grams that are no context of a kept one go.

The model is judged as it was before anything was taken away, so that the order of judging does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.jit import run, run_all
from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError
from chainrule.ngram.editing.pruning_kernels import back_off_anew, raise_contexts, relative_entropies
from chainrule.ngram.trie.parts import parts_of
from chainrule.ngram.trie.suffixes import with_suffixes
from chainrule.ngram.trie.table import Table, pack_records, table_from_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Bool, Float32, Int
    from numpy import ndarray

    # Of a table and the suffixes of its n-grams, log P(h) of every context by node; see `pruning_histories.py`.
    Histories = Callable[[Table, Int[ndarray, " nodes"]], Float32[ndarray, " inner"]]

TASK = "pruning"


@dataclass(frozen=True)
class Judged:
    """scores: the relative entropy of each n-gram in nats, or the highest of those that it is the context of, where
    that is more; infinite for unigrams, which stay.
    """

    table: Table
    suffixes: Int[ndarray, " nodes"]
    scores: Float32[ndarray, " nodes"]

    def above(self, threshold: float, progress: Progress = silent) -> Table:
        """The table without what scores below the threshold. Raises SettingError where that is no such number."""
        check_threshold(threshold)
        return without(self.table, self.suffixes, self.scores >= np.log1p(threshold), progress)

    def best(self, ngrams: int, progress: Progress = silent) -> Table:
        """The table with so many n-grams, all orders together: those that score best; of equal ones, the first.

        Raises SettingError where there are not so many, or fewer than unigrams.
        """
        check_ngrams(ngrams, self.table)
        place = self.scores.size - (1 + ngrams)  # of the lowest that is kept; the root is none
        limit = np.partition(self.scores, place)[place]
        kept = self.scores > limit
        # Contexts come before what they are contexts of, and score no lower.
        kept[np.flatnonzero(self.scores == limit)[: 1 + ngrams - np.count_nonzero(kept)]] = True
        return without(self.table, self.suffixes, kept, progress)


def check_threshold(threshold: float) -> None:
    """Raises SettingError."""
    if not 0 <= threshold < np.inf:
        raise SettingError(
            f"the threshold is {threshold}; expected a number from 0 on, such as 1e-8: the share by which the "
            "perplexity may rise for an n-gram"
        )


def check_ngrams(ngrams: int, table: Table) -> None:
    """Raises SettingError."""
    available = sum(table.level_sizes)
    if not table.vocabulary_size <= ngrams <= available:
        raise SettingError(
            f"cannot prune to {ngrams:,} n-grams: the model has {available:,}, of which {table.vocabulary_size:,} "
            "unigrams stay"
        )


def judged(table: Table, histories: Histories, progress: Progress = silent) -> Judged:
    """Every n-gram by its relative entropy.

    histories: how likely contexts are. Raises ModelFormatError where the table is damaged.
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
    return Judged(table, suffixes, scores)


def without(
    table: Table, suffixes: Int[ndarray, " nodes"], kept: Bool[ndarray, " nodes"], progress: Progress = silent
) -> Table:
    """The table of the n-grams that are kept, each with its probability, and with back-off weights that sum to one.

    kept: all unigrams, and the context of every n-gram that is.
    """
    new, new_backoffs = table.log_probs.copy(), table.log_backoffs.copy()
    fixed = table.begin, suffixes, kept, table.log_probs, table.log_backoffs, new, new_backoffs
    for order in range(1, table.order):
        progress(TASK, order, table.order)
        run_all(back_off_anew, [(start, stop, *fixed) for start, stop in parts_of(table.level(order))])
    return selected(table, kept, new_backoffs)


def selected(table: Table, kept: Bool[ndarray, " nodes"], log_backoffs: Float32[ndarray, " inner"]) -> Table:
    """The table of the n-grams that are kept, with these back-off weights; orders that are left empty go."""
    sizes = [int(np.count_nonzero(kept[table.level(order)])) for order in range(1, table.order + 1)]
    renumbered = np.cumsum(kept, dtype=table.begin.dtype) - kept  # a node's new number, or that of the next one kept
    renumbered = np.append(renumbered, renumbered.dtype.type(1 + sum(sizes)))
    order = max(n for n, size in enumerate(sizes, 1) if size)
    contexts = np.flatnonzero(kept[: 1 + sum(table.level_sizes[: order - 1])])
    begin = np.append(renumbered[table.begin[contexts]], renumbered[-1:])
    records = pack_records(table.words[kept], table.log_probs[kept], begin, log_backoffs[contexts])
    return run(table_from_records, tuple(sizes[:order]), records, _selected_suffixes(table, kept, renumbered))


def _selected_suffixes(
    table: Table, kept: Bool[ndarray, " nodes"], renumbered: Int[ndarray, " nodes+1"]
) -> Int[ndarray, " kept"] | None:
    """By their new numbers; None where the table has none, or one of them goes."""
    suffixes = table.suffixes[kept] if table.suffixes.size else table.suffixes
    is_node = suffixes.size > 0 and suffixes.min() >= 0 and suffixes.max() < kept.size  # the table may be of a file
    return renumbered[suffixes] if is_node and kept[suffixes].all() else None
