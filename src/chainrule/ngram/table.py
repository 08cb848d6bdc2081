"""The packed n-gram model: a trie in four arrays.

Nodes are numbered level by level: 0 is the empty context, 1 .. V are the unigrams by word id, then all bigrams, and so
on. Within a level they are sorted by (context, last word), so that the children of one node, the n-grams that it is the
context of, are neighbours:

    children of node c:  begin[c] .. begin[c+1]           words of them ascend

Nodes of the highest order have no children, and neither `begin` nor `log_backoffs` reaches them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import ModelFormatError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int, Int32
    from numpy import ndarray

    from chainrule.ngram.counting import Level
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

    @property
    def order(self) -> int:
        return len(self.level_sizes)

    @property
    def vocabulary_size(self) -> int:
        return self.level_sizes[0]

    def level(self, order: int) -> slice:
        """The nodes of one order; order 0 is the root."""
        ends = np.cumsum((1, *self.level_sizes)).tolist()
        return slice(0, 1) if order == 0 else slice(ends[order - 1], ends[order])

    def arrays(self) -> dict[str, ndarray]:
        """The arrays that `from_arrays` takes."""
        return {
            "words": self.words,
            "log_probs": self.log_probs,
            "begin": self.begin,
            "log_backoffs": self.log_backoffs,
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
        }
        types = {
            "words": ("int32",),
            "log_probs": ("float32",),
            "begin": ("int32", "int64"),
            "log_backoffs": ("float32",),
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


def packed(levels: Sequence[Level], estimates: Sequence[Estimates]) -> Table:
    """The table of estimated levels, without the n-grams that were pruned."""
    sizes = [int(np.count_nonzero(estimate.kept)) for estimate in estimates]
    nodes, inner = 1 + sum(sizes), 1 + sum(sizes[:-1])
    table = Table(
        tuple(sizes),
        words=np.zeros(nodes, np.int32),
        log_probs=np.zeros(nodes, np.float32),
        begin=np.empty(inner + 1, np.int32 if nodes < 2**31 else np.int64),
        log_backoffs=np.zeros(inner, np.float32),
    )
    first = 1  # of the level's nodes
    contexts = slice(0, 1)
    kept_contexts = np.ones(1, np.bool_)
    for level, estimate, size in zip(levels, estimates, sizes, strict=True):
        nodes_here = slice(first, first + size)
        kept = estimate.kept
        if size == len(level):
            table.words[nodes_here], table.log_probs[nodes_here] = level.words, estimate.log_probs
            begin = level.begin[:-1]
        else:
            table.words[nodes_here], table.log_probs[nodes_here] = level.words[kept], estimate.log_probs[kept]
            begin = np.concatenate([[0], np.cumsum(kept)])[level.begin[:-1]]
        if first == 1:
            table.begin[0] = 1  # the empty context's backoff is never asked for
        else:
            inside = begin if kept_contexts.all() else begin[kept_contexts]
            table.begin[contexts] = first + inside.astype(table.begin.dtype, copy=False)
            table.log_backoffs[contexts] = estimate.log_backoffs[kept_contexts]
        contexts, kept_contexts = nodes_here, kept
        first += size
    table.begin[inner] = nodes
    return table
