"""The packed n-gram model: a trie in four arrays.

Nodes are numbered level by level: 0 is the empty context, 1 .. V are the unigrams by word id, then all bigrams, and so
on. Within a level they are sorted by (context, last word), so that the children of one node, the n-grams that it is the
context of, are neighbours:

    children of node c:  begin[c] .. begin[c+1]           words of them ascend

Nodes of the highest order have no children, and neither `begin` nor `log_backoffs` reaches them. A search among many
children would miss the cache often, so those with more than 32 siblings also stand in a hash index, `slots`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import ModelFormatError
from chainrule.jit import run
from chainrule.ngram.index_kernels import count_in_long_runs, fill_slots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int, Int32
    from numpy import ndarray

    from chainrule.ngram.counting import Counts
    from chainrule.ngram.smoothing import Estimates

ROOT = 0


@dataclass(frozen=True)
class Table:
    """log_probs: nats, interpolated with all lower orders; -inf for <s>.
    log_backoffs: nats, 0 where a node is never a context.
    """

    level_sizes: tuple[int, ...]  # n-grams by order, from unigrams on
    words: Int32[ndarray, " nodes"]
    log_probs: Float32[ndarray, " nodes"]
    begin: Int[ndarray, " inner+1"]
    log_backoffs: Float32[ndarray, " inner"]
    slots: Int[ndarray, " slots"]  # nodes by the hash of (context, word); 0 where empty; no slots at all will do, too

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
        """The arrays that `from_arrays` takes."""
        return {
            "words": self.words,
            "log_probs": self.log_probs,
            "begin": self.begin,
            "log_backoffs": self.log_backoffs,
            "slots": self.slots,
        }

    @classmethod
    def from_arrays(cls, level_sizes: Sequence[int], arrays: dict[str, ndarray]) -> Table:
        """Constant time: shapes and types are checked here, and what the arrays hold as it is used.

        Raises ModelFormatError.
        """
        inner = 1 + sum(level_sizes[:-1])
        expected = {
            "words": inner + level_sizes[-1],
            "log_probs": inner + level_sizes[-1],
            "begin": inner + 1,
            "log_backoffs": inner,
            "slots": arrays["slots"].size if "slots" in arrays else 0,
        }
        types = {
            "words": ("int32",),
            "log_probs": ("float32",),
            "begin": ("int32", "int64"),
            "log_backoffs": ("float32",),
            "slots": ("int32", "int64"),
        }
        for name, size in expected.items():
            if name not in arrays:
                raise ModelFormatError(f"the n-gram table lacks the array {name!r}")
            array = arrays[name]
            if array.shape != (size,) or array.dtype.name not in types[name]:
                raise ModelFormatError(
                    f"the n-gram table's array {name!r} is {array.dtype.name}{list(array.shape)}; "
                    f"level sizes {list(level_sizes)} need {' or '.join(types[name])}[{size}]"
                )
        return cls(tuple(level_sizes), **{name: arrays[name] for name in expected})


def table_of(counts: Counts, estimates: Estimates) -> Table:
    """The table of estimated n-grams, without those that were pruned."""
    if estimates.kept is None:
        arrays = counts.words, estimates.log_probs, counts.begin, estimates.log_backoffs
        return indexed(counts.level_sizes, *arrays)
    kept = estimates.kept
    inner = counts.begin.size - 1
    sizes = tuple(int(np.count_nonzero(kept[counts.level(order)])) for order in range(1, counts.order + 1))
    renumbered = np.cumsum(kept, dtype=counts.begin.dtype) - kept  # a node's new number, or that of the next one kept
    renumbered = np.append(renumbered, renumbered.dtype.type(1 + sum(sizes)))
    inner_kept = kept[:inner]
    begin = np.append(renumbered[counts.begin[:inner][inner_kept]], renumbered[-1:])
    return indexed(sizes, counts.words[kept], estimates.log_probs[kept], begin, estimates.log_backoffs[inner_kept])


def indexed(
    level_sizes: tuple[int, ...],
    words: Int32[ndarray, " nodes"],
    log_probs: Float32[ndarray, " nodes"],
    begin: Int[ndarray, " inner+1"],
    log_backoffs: Float32[ndarray, " inner"],
) -> Table:
    """A table with the index of its long runs."""
    size = 2 * run(count_in_long_runs, begin)
    while size < 2**32:
        slots = np.zeros(size, begin.dtype)
        if run(fill_slots, words, begin, slots):
            return Table(level_sizes, words, log_probs, begin, log_backoffs, slots)
        size *= 2
    return Table(level_sizes, words, log_probs, begin, log_backoffs, np.zeros(0, begin.dtype))


def level_slice(level_sizes: Sequence[int], order: int) -> slice:
    """The nodes of one order; order 0 is the root."""
    first = sum(level_sizes[: order - 1]) + 1
    return slice(ROOT, ROOT + 1) if order == 0 else slice(first, first + level_sizes[order - 1])
