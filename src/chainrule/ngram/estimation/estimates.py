"""The result of estimation: probabilities and backoffs by node, and the discounts used; builds the model's table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.scratch import parts_released, release_pages
from chainrule.ngram.trie.table import NODE, Records, Table, context_type, pack_records, table_from_records

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int
    from numpy import ndarray

    from chainrule.ngram.counting.counts import Counts


@dataclass(frozen=True)
class Discounts:
    """The discounts of counts 1, 2, ... at one order; the last value applies to all larger counts, too."""

    order: int
    values: tuple[float, ...]
    problem: str | None = None  # why they could not be estimated; the values are then a fallback
    fallback: str = ""  # the fallback, for messages

    @property
    def estimated(self) -> bool:
        return self.problem is None


@dataclass(frozen=True)
class Estimates:
    """Probabilities and backoffs of all counted n-grams, by node."""

    log_probs: Float32[ndarray, " nodes"]
    log_backoffs: Float32[ndarray, " inner"]  # log gamma; 0 for a context that nothing follows
    discounts: tuple[Discounts, ...] = ()  # by order
    kept: Bool[ndarray, " nodes"] | None = None  # None: all n-grams are kept
    record: dict[str, Any] = field(default_factory=dict)  # other estimated parameters, such as weights
    records: Records | None = None  # the arrays of `log_probs` and `log_backoffs`, where these lie beside the n-grams


_PART = 1 << 22  # nodes that are renumbered at once


def table_of(counts: Counts, estimates: Estimates) -> Table:
    """Return the table of all n-grams that are kept."""
    if estimates.kept is not None:
        return _table_of_kept(counts, estimates, estimates.kept)
    arrays = counts.words, estimates.log_probs, counts.begin, estimates.log_backoffs
    records = estimates.records or pack_records(*arrays)
    return table_from_records(counts.level_sizes, records, counts.suffixes, memory=counts.memory)


def _table_of_kept(counts: Counts, estimates: Estimates, kept: Bool[ndarray, " nodes"]) -> Table:
    levels = [counts.level(order) for order in range(counts.order + 1)]
    sizes = tuple(sum(int(np.count_nonzero(part)) for part in parts_released(kept[level])) for level in levels[1:])
    new_nodes = _renumbered(counts, kept)
    nodes = counts.new_array(1 + sum(sizes), NODE)
    contexts = counts.new_array(2 + sum(sizes[:-1]), context_type(counts.begin.dtype))
    inner = counts.begin.size - 1
    for start in range(0, kept.size, _PART):
        own = slice(start, min(start + _PART, kept.size))
        new = slice(int(new_nodes[own.start]), int(new_nodes[own.stop]))
        nodes["word"][new], nodes["log_prob"][new] = counts.words[own][kept[own]], estimates.log_probs[own][kept[own]]
        own = slice(own.start, min(own.stop, inner))
        if own.start < own.stop:
            new = slice(new.start, int(new_nodes[own.stop]))
            contexts["begin"][new] = new_nodes[counts.begin[own][kept[own]]]
            contexts["log_backoff"][new] = estimates.log_backoffs[own][kept[own]]
        release_pages()
    contexts["begin"][-1] = 1 + sum(sizes)
    suffixes = _suffixes_of_kept(counts, kept, new_nodes)
    return table_from_records(sizes, Records(nodes, contexts), suffixes, memory=counts.memory)


def _renumbered(counts: Counts, kept: Bool[ndarray, " nodes"]) -> Int[ndarray, " nodes+1"]:
    """Return the new number of each node; for a pruned one, that of the next kept node."""
    new_nodes = counts.new_array(kept.size + 1, counts.begin.dtype)
    total = 0
    for start in range(0, kept.size, _PART):
        part = kept[start : start + _PART]
        ends = total + np.cumsum(part)
        new_nodes[start : start + part.size] = ends - part
        total = int(ends[-1])
        release_pages()
    new_nodes[-1] = total
    return new_nodes


def _suffixes_of_kept(
    counts: Counts, kept: Bool[ndarray, " nodes"], new_nodes: Int[ndarray, " nodes+1"]
) -> Int[ndarray, " kept"] | None:
    """Return the new suffixes, by new node; None if one is pruned."""
    suffixes = counts.new_array(int(new_nodes[-1]), new_nodes.dtype)
    for order in range(2, counts.order + 1):
        level = counts.level(order)
        for span in counts.resident_parts(counts.level(order - 1), 2 * suffixes.itemsize):
            numbers = np.where(kept[span], new_nodes[span], -1)
            for start in range(level.start, level.stop, _PART):
                own = slice(start, min(start + _PART, level.stop))
                places = counts.suffixes[own][kept[own]] - span.start
                inside = (places >= 0) & (places < numbers.size)
                found = numbers[places[inside]]
                if found.size and found.min() < 0:
                    return None
                suffixes[int(new_nodes[own.start]) : int(new_nodes[own.stop])][inside] = found
                release_pages()
    return suffixes
