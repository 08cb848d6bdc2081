"""The n-gram table: a trie in two arrays of records.

Nodes are numbered level by level: 0 is the empty context, 1 .. V are the unigrams by word id, then all bigrams, and so
on. Within a level they are sorted by (context, last word), so the children of a node, the n-grams that it is the
context of, are contiguous:

    children of node c:  begin[c] .. begin[c+1]           with ascending words

Nodes of the highest order have no children; `begin` and `log_backoffs` end before them. A query costs its cache misses,
so values that are read together lie together: a node's word and log-probability, a context's begin and backoff. Binary
search among many children would miss the cache often, so children in runs of more than LONG_RUN are also in a hash
index, `slots`. With `suffixes`, scoring a stream takes one look-up for each token whose n-gram is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.distributions import check_savable
from chainrule.base.threads import run
from chainrule.errors import ModelFormatError
from chainrule.ngram.trie.hash_index_kernels import count_in_long_runs, fill_slots
from chainrule.ngram.trie.records import NODE, Records, context_type, level_slice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int, Int32, Shaped
    from numpy import ndarray


_INDEX_TYPES = (np.dtype(np.int32), np.dtype(np.int64))


@dataclass(frozen=True)
class Table:
    """An n-gram table; the module describes its layout.

    log_probs: in nats, interpolated with all lower orders; -inf for <s>. log_backoffs: in nats, 0 for a node without
    children.
    """

    level_sizes: tuple[int, ...]  # n-grams by order, from unigrams on
    nodes: Shaped[ndarray, " nodes"]  # records of type NODE
    contexts: Shaped[ndarray, " inner+1"]  # records of a `context_type`
    slots: Int[ndarray, " slots"]  # nodes by the hash of (context, word), 0 if empty; may have size 0
    suffixes: Int[ndarray, " nodes"]  # the node of each n-gram's suffix; size 0 if a suffix is missing

    @cached_property
    def words(self) -> Int32[ndarray, " nodes"]:
        """The last word of every n-gram."""
        return self.nodes["word"]

    @cached_property
    def log_probs(self) -> Float32[ndarray, " nodes"]:
        """In nats, by node."""
        return self.nodes["log_prob"]

    @cached_property
    def begin(self) -> Int[ndarray, " inner+1"]:
        """The first child of every context, and the end of the last one's children."""
        return self.contexts["begin"]

    @cached_property
    def log_backoffs(self) -> Float32[ndarray, " inner"]:
        """In nats, by context."""
        return self.contexts["log_backoff"][:-1]

    @property
    def order(self) -> int:
        return len(self.level_sizes)

    @property
    def vocabulary_size(self) -> int:
        return self.level_sizes[0]

    def level(self, order: int) -> slice:
        """The nodes of one order; order 0 is the root."""
        return level_slice(self.level_sizes, order)

    def arrays(self) -> dict[str, ndarray]:
        """The arrays that `from_arrays` takes: two integer columns for each record; floats are stored as their bits.

        Raises EstimationError where a log-probability or backoff is NaN.
        """
        check_savable("log-probabilities", self.log_probs)
        check_savable("backoffs", self.log_backoffs)
        begin = self.begin.dtype
        return {
            "nodes": self.nodes.view(np.int32).reshape(-1, 2),
            "contexts": self.contexts.view(begin).reshape(-1, 2),
            "slots": self.slots,
            "suffixes": self.suffixes,
        }

    @classmethod
    def from_arrays(cls, level_sizes: Sequence[int], arrays: dict[str, ndarray]) -> Table:
        """The table of arrays from a file, in constant time: checks shapes and types, but not contents.

        Raises ModelFormatError.
        """
        inner = 1 + sum(level_sizes[:-1])
        for name in ("nodes", "contexts", "slots", "suffixes"):
            if name not in arrays:
                raise ModelFormatError(f"the n-gram table lacks the array {name!r}")
        expected = {
            "nodes": ((inner + level_sizes[-1], 2), _INDEX_TYPES[:1]),
            "contexts": ((inner + 1, 2), _INDEX_TYPES),
            "slots": ((arrays["slots"].size,), _INDEX_TYPES),
            "suffixes": ((inner + level_sizes[-1] if arrays["suffixes"].size else 0,), _INDEX_TYPES),
        }
        for name, (shape, types) in expected.items():
            array = arrays[name]
            if array.shape != shape or array.dtype not in types:
                raise ModelFormatError(
                    f"the n-gram table's array {name!r} is {array.dtype.name}{list(array.shape)}; level sizes "
                    f"{list(level_sizes)} need {' or '.join(t.name for t in types)}{list(shape)}"
                )
        nodes, contexts = (np.ascontiguousarray(arrays[name]).reshape(-1) for name in ("nodes", "contexts"))
        records = Records(nodes.view(NODE), contexts.view(context_type(contexts.dtype)))
        return cls(tuple(level_sizes), *records, arrays["slots"], arrays["suffixes"])


def build_table(
    level_sizes: tuple[int, ...],
    words: Int32[ndarray, " nodes"],
    log_probs: Float32[ndarray, " nodes"],
    begin: Int[ndarray, " inner+1"],
    log_backoffs: Float32[ndarray, " inner"],
) -> Table:
    """A table with an index of its long runs, without suffixes."""
    return table_from_records(level_sizes, pack_records(words, log_probs, begin, log_backoffs), None)


def table_from_records(
    level_sizes: tuple[int, ...], records: Records, suffixes: Int[ndarray, " nodes"] | None
) -> Table:
    """A table with an index of its long runs. suffixes: None if one is missing."""
    words, begin = records.nodes["word"], records.contexts["begin"]
    return Table(level_sizes, *records, build_index(words, begin), no_suffixes(begin) if suffixes is None else suffixes)


def no_suffixes(begin: Int[ndarray, " inner+1"]) -> Int[ndarray, " 0"]:
    """The empty array of a table that lacks some suffixes."""
    return np.empty(0, begin.dtype)


def pack_records(
    words: Int32[ndarray, " nodes"],
    log_probs: Float32[ndarray, " nodes"],
    begin: Int[ndarray, " inner+1"],
    log_backoffs: Float32[ndarray, " inner"],
) -> Records:
    """Packs arrays into the two arrays of records of a table."""
    nodes = np.empty(words.size, NODE)
    contexts = np.zeros(begin.size, context_type(begin.dtype))  # zeros in the padding bytes, too
    nodes["word"], nodes["log_prob"] = words, log_probs
    contexts["begin"], contexts["log_backoff"][:-1] = begin, log_backoffs
    return Records(nodes, contexts)


def build_index(words: Int32[ndarray, " nodes"], begin: Int[ndarray, " inner+1"]) -> Int[ndarray, " slots"]:
    """The hash index of long runs; empty if it cannot be built, as a table works without one."""
    size = 2 * run(count_in_long_runs, begin)
    while size < 2**32:
        slots = np.zeros(size, begin.dtype)
        if run(fill_slots, words, begin, slots):
            return slots
        size *= 2
    return np.zeros(0, begin.dtype)
