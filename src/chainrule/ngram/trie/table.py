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

import itertools
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.distributions import check_savable
from chainrule.base.scratch import array_on_disk, parts_released, release_pages
from chainrule.base.threads import run, run_all
from chainrule.errors import ModelFormatError
from chainrule.ngram.trie.query_kernels import MAX_PROBES, count_in_long_runs, fill_part, fill_slots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int, Int32, Int64, Shaped
    from numpy import ndarray
    from numpy.typing import DTypeLike

MAX_PARTS = 64
MIN_NODES = 4096  # that are worth a thread of their own


def parts_by_children(begin: Int[ndarray, " inner+1"], contexts: slice, parts: int) -> list[tuple[int, int]]:
    """Cut a range of contexts into at most `parts` parts with about as many children each.

    begin: of all contexts, as in `table.py`.
    """
    first, last = int(begin[contexts.start]), int(begin[contexts.stop])
    starts = np.linspace(first, last, max(1, min(parts, last - first)) + 1).astype(np.int64)[1:-1].tolist()
    inner = {bisect_left(begin, start, contexts.start, contexts.stop) for start in starts}
    edges = sorted({contexts.start, *inner, contexts.stop})
    return list(itertools.pairwise(edges))


def parts_of(span: slice, max_parts: int = MAX_PARTS) -> list[tuple[int, int]]:
    """Cut a span into at most `max_parts` parts of about equal size, in order; an empty span has none."""
    parts = min(max_parts, (span.stop - span.start) // MIN_NODES + 1)
    edges = np.unique(np.linspace(span.start, span.stop, parts + 1).astype(np.int64)).tolist()
    return list(itertools.pairwise(edges))


def narrowest(limit: int) -> type[np.int32] | type[np.int64]:
    """Return the smaller integer type that holds 0 .. limit."""
    return np.int32 if limit < 2**31 else np.int64


ROOT = 0
NODE = np.dtype([("word", np.int32), ("log_prob", np.float32)])


def context_type(index: DTypeLike) -> np.dtype[Any]:
    """Return the record type of a context. index: the integer type of node numbers."""
    width = np.dtype(index).itemsize
    return np.dtype(
        {
            "names": ["begin", "log_backoff"],
            "formats": [index, np.float32],
            "offsets": [0, width],
            "itemsize": 2 * width,
        }
    )


class Records(NamedTuple):
    """N-grams with their log-probabilities and backoffs."""

    nodes: Shaped[ndarray, " nodes"]  # of type NODE
    contexts: Shaped[ndarray, " inner+1"]  # of a `context_type`


def level_slice(level_sizes: Sequence[int], order: int) -> slice:
    """Return the nodes of one order; order 0 is the root."""
    first = sum(level_sizes[: order - 1]) + 1
    return slice(ROOT, ROOT + 1) if order == 0 else slice(first, first + level_sizes[order - 1])


def context_path(
    level_sizes: Sequence[int], begin: Int[ndarray, " inner+1"], order: int, node: int
) -> Int64[ndarray, " order+1"]:
    """Return a node of some order and its contexts, by order; all inside their levels, even in a damaged trie."""
    path = np.zeros(order + 1, np.int64)
    path[order] = node
    for n in range(order - 1, 0, -1):
        level = level_slice(level_sizes, n)
        # NumPy's search would copy the whole level, which is a column of records.
        context = bisect_right(begin, path[n + 1], level.start, level.stop + 1) - 1
        path[n] = np.clip(context, level.start, level.stop - 1)
    return path


_PART = 1 << 22  # nodes that are read at once
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
        """The log-probabilities in nats, by node."""
        return self.nodes["log_prob"]

    @cached_property
    def begin(self) -> Int[ndarray, " inner+1"]:
        """The first child of every context, and the end of the last one's children."""
        return self.contexts["begin"]

    @cached_property
    def log_backoffs(self) -> Float32[ndarray, " inner"]:
        """The log-backoffs in nats, by context."""
        return self.contexts["log_backoff"][:-1]

    @property
    def columns(
        self,
    ) -> tuple[
        Int32[ndarray, " nodes"], Float32[ndarray, " nodes"], Int[ndarray, " inner+1"], Float32[ndarray, " inner+1"]
    ]:
        """words, log_probs, begin and log_backoffs, as kernels take them; the number after the last backoff is unused.

        The backoffs of a table of unigrams would be one number, which NumPy calls contiguous, and Numba compiles all
        kernels anew for contiguous arrays.
        """
        return self.words, self.log_probs, self.begin, self.contexts["log_backoff"]

    @property
    def order(self) -> int:
        return len(self.level_sizes)

    @property
    def vocabulary_size(self) -> int:
        return self.level_sizes[0]

    def level(self, order: int) -> slice:
        """Return the nodes of one order; order 0 is the root."""
        return level_slice(self.level_sizes, order)

    def arrays(self) -> dict[str, ndarray]:
        """Return the arrays that `from_arrays` takes: two integer columns for each record; floats are stored as their
        bits.

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
        """Return the table of arrays from a file, in constant time: checks shapes and types, but not contents.

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
    """Return a table with an index of its long runs, without suffixes."""
    return table_from_records(level_sizes, pack_records(words, log_probs, begin, log_backoffs), None)


def table_from_records(
    level_sizes: tuple[int, ...],
    records: Records,
    suffixes: Int[ndarray, " nodes"] | None,
    *,
    memory: int | None = None,
) -> Table:
    """Return a table with an index of its long runs. suffixes: None if one is missing. memory: see `build_index`."""
    words, begin = records.nodes["word"], records.contexts["begin"]
    slots = build_index(words, begin, memory=memory)
    return Table(level_sizes, *records, slots, no_suffixes(begin) if suffixes is None else suffixes)


def no_suffixes(begin: Int[ndarray, " inner+1"]) -> Int[ndarray, " 0"]:
    """Return the empty array of a table that lacks some suffixes."""
    return np.empty(0, begin.dtype)


def pack_records(
    words: Int32[ndarray, " nodes"],
    log_probs: Float32[ndarray, " nodes"],
    begin: Int[ndarray, " inner+1"],
    log_backoffs: Float32[ndarray, " inner"],
) -> Records:
    """Pack arrays into the two arrays of records of a table."""
    nodes = np.empty(words.size, NODE)
    contexts = np.zeros(begin.size, context_type(begin.dtype))  # zeros in the padding bytes, too
    nodes["word"], nodes["log_prob"] = words, log_probs
    contexts["begin"], contexts["log_backoff"][:-1] = begin, log_backoffs
    return Records(nodes, contexts)


def build_index(
    words: Int32[ndarray, " nodes"], begin: Int[ndarray, " inner+1"], *, memory: int | None = None
) -> Int[ndarray, " slots"]:
    """Return the hash index of long runs; empty if it cannot be built, as a table works without one.

    memory: of how many bytes an index that lies on disk may hold; None: it is in memory.
    """
    contexts = slice(1, max(1, begin.size - 1))  # the root's children need no search
    parts = [(contexts.start, contexts.stop)]
    if memory is not None:
        parts = parts_by_children(begin, contexts, words.size // _PART)
    size = 2 * sum(
        run_all(count_in_long_runs, [(begin, *part) for part in parts], on_done=lambda done: release_pages())
    )
    while size < 2**32:
        if memory is None:
            slots = np.zeros(size, begin.dtype)
            is_filled = run(fill_slots, words, begin, slots)
        else:
            slots = array_on_disk(size, begin.dtype)
            span = max(MAX_PROBES, memory // 2 // begin.itemsize)
            is_filled = _fill_on_disk(words, begin, slots, span, parts)
        if is_filled:
            return slots
        size *= 2
    return np.zeros(0, begin.dtype)


def _fill_on_disk(
    words: Int32[ndarray, " nodes"],
    begin: Int[ndarray, " inner+1"],
    slots: Int[ndarray, " slots"],
    span: int,
    context_parts: Sequence[tuple[int, int]],
) -> bool:
    """Fill the slots as `fill_slots` does, `span` slots and a part of the contexts at a time.

    Nodes that find no slot at the end of a part go on in the next one, where the lowest node still comes first, so the
    index is the same. Those at the end of the last part go on in the first, which is filled again, and so on until
    nothing changes.
    """
    parts = [(start, min(start + span, slots.size)) for start in range(0, slots.size, span)]
    overflows: dict[int, Int64[ndarray, "nodes 2"]] = {}
    carried = np.empty((0, 2), np.int64)
    for i, (start, stop) in itertools.cycle(enumerate(parts)):
        part, overflow = np.zeros(stop - start, slots.dtype), np.empty((MAX_PROBES, 2), np.int64)
        cursor = count = 0
        for first, last in context_parts:
            is_last = (first, last) == context_parts[-1]
            given = words, begin, first, last, slots.size, start, part, carried, cursor, is_last, overflow, count
            cursor, count = run(fill_part, *given)
            release_pages()
            if count < 0:
                return False
        for out, own in zip(parts_released(slots[start:stop]), parts_released(part), strict=True):
            out[:] = own
        carried = overflow[:count]
        if (i in overflows and np.array_equal(overflows[i], carried)) or (i == len(parts) - 1 and not count):
            break
        overflows[i] = carried
    return True
