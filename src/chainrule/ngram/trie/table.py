"""The packed n-gram model: a trie in two arrays of records.

Nodes are numbered level by level: 0 is the empty context, 1 .. V are the unigrams by word id, then all bigrams, and so
on. Within a level they are sorted by (context, last word), so that the children of one node, the n-grams that it is the
context of, are neighbours:

    children of node c:  begin[c] .. begin[c+1]           words of them ascend

Nodes of the highest order have no children, and neither `begin` nor `log_backoffs` reaches them. What is read together
lies together, since a query costs what it misses the cache: a node's word and log-probability, a context's begin and
back-off. A search among many children would miss it often, too, so those in runs of more than LONG_RUN also stand in a
hash index, `slots`. With the suffixes, a stream is scored by one look-up a token where its n-grams are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.distributions import check_savable
from chainrule.base.jit import run
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
    """log_probs: nats, interpolated with all lower orders; -inf for <s>.
    log_backoffs: nats, 0 where a node is never a context.
    """

    level_sizes: tuple[int, ...]  # n-grams by order, from unigrams on
    nodes: Shaped[ndarray, " nodes"]  # records of type NODE
    contexts: Shaped[ndarray, " inner+1"]  # records of a `context_type`
    slots: Int[ndarray, " slots"]  # nodes by the hash of (context, word); 0 where empty; no slots at all will do, too
    suffixes: Int[ndarray, " nodes"]  # the node of each n-gram without its first word; none where one is not there

    @cached_property
    def words(self) -> Int32[ndarray, " nodes"]:
        """The last word of every n-gram."""
        return self.nodes["word"]

    @cached_property
    def log_probs(self) -> Float32[ndarray, " nodes"]:
        """By node."""
        return self.nodes["log_prob"]

    @cached_property
    def begin(self) -> Int[ndarray, " inner+1"]:
        """The first child of every context, and of the one after the last."""
        return self.contexts["begin"]

    @cached_property
    def log_backoffs(self) -> Float32[ndarray, " inner"]:
        """By context."""
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
        """The arrays that `from_arrays` takes: plain ones, two columns for a record, whose floats are shown as bits.

        Raises EstimationError where one of these is NaN.
        """
        check_savable("log-probabilities", self.log_probs)
        check_savable("back-offs", self.log_backoffs)
        begin = self.begin.dtype
        return {
            "nodes": self.nodes.view(np.int32).reshape(-1, 2),
            "contexts": self.contexts.view(begin).reshape(-1, 2),
            "slots": self.slots,
            "suffixes": self.suffixes,
        }

    @classmethod
    def from_arrays(cls, level_sizes: Sequence[int], arrays: dict[str, ndarray]) -> Table:
        """Constant time: shapes and types are checked here, and what the arrays hold as it is used.

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


def indexed(
    level_sizes: tuple[int, ...],
    words: Int32[ndarray, " nodes"],
    log_probs: Float32[ndarray, " nodes"],
    begin: Int[ndarray, " inner+1"],
    log_backoffs: Float32[ndarray, " inner"],
) -> Table:
    """A table with the index of its long runs, and no suffixes."""
    return from_records(level_sizes, packed(words, log_probs, begin, log_backoffs), None)


def from_records(level_sizes: tuple[int, ...], records: Records, suffixes: Int[ndarray, " nodes"] | None) -> Table:
    """A table with the index of its long runs."""
    words, begin = records.nodes["word"], records.contexts["begin"]
    return Table(level_sizes, *records, index_of(words, begin), no_suffixes(begin) if suffixes is None else suffixes)


def no_suffixes(begin: Int[ndarray, " inner+1"]) -> Int[ndarray, " 0"]:
    """What a table has in the place of suffixes where some are not there."""
    return np.empty(0, begin.dtype)


def packed(
    words: Int32[ndarray, " nodes"],
    log_probs: Float32[ndarray, " nodes"],
    begin: Int[ndarray, " inner+1"],
    log_backoffs: Float32[ndarray, " inner"],
) -> Records:
    """Both arrays of a table."""
    nodes = np.empty(words.size, NODE)
    contexts = np.zeros(begin.size, context_type(begin.dtype))  # zeros, for the bytes that belong to no field
    nodes["word"], nodes["log_prob"] = words, log_probs
    contexts["begin"], contexts["log_backoff"][:-1] = begin, log_backoffs
    return Records(nodes, contexts)


def index_of(words: Int32[ndarray, " nodes"], begin: Int[ndarray, " inner+1"]) -> Int[ndarray, " slots"]:
    """The hash index of long runs; empty where it cannot be made, since a table can do without."""
    size = 2 * run(count_in_long_runs, begin)
    while size < 2**32:
        slots = np.zeros(size, begin.dtype)
        if run(fill_slots, words, begin, slots):
            return slots
        size *= 2
    return np.zeros(0, begin.dtype)
