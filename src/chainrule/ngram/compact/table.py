"""The compact n-gram table: the trie of `ngram/trie/table.py`, with the same node numbers, in a fifth of the memory.

    words          each child as its rank among the children of its context's suffix (Pibiri and Venturini 2017): a
                   search for the child of "a b" has already found the child of "b", and a suffix with few children
                   needs few bits to tell them apart
    first child    of each context, in an Elias-Fano sequence; a second sequence has the first bit of its run of ranks
    probabilities  of orders 2 and up, as one of 256 values for each order; those of unigrams are exact
    backoffs       not stored for contexts with at most FEW children: a distribution sums to one, so the children's
                   probabilities imply the backoff. Otherwise stored before the run, with a scale for the quantised
                   probabilities that restores their sum.

The suffix of every n-gram must be in the table; `ngram/trie/assembly.py` adds missing ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import ModelFormatError
from chainrule.ngram.compact.query_kernels import (
    CHILD,
    CHILDREN,
    CONTEXTS,
    FIELDS,
    FIRST,
    FIRST_HIGH,
    FIRST_LOW,
    FIRST_WIDTH,
    RUN_BITS,
    RUN_HIGH,
    RUN_LOW,
    RUN_WIDTH,
    RUNS,
    SAMPLED,
    SAMPLES,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Float64, Int64, UInt8, UInt64
    from numpy import ndarray

VALUES = 256  # quantised probabilities of each order
PADDING = 2  # words after the last bit, so that reads never pass the end
_LIMIT = 1 << 31  # on the n-grams of an order: samples have 32 bits


@dataclass(frozen=True)
class CompactTable:
    """A compact n-gram table; the module describes its layout.

    unigrams: log-probabilities in nats; -inf for <s>. values: the quantised log-probabilities of each higher order.
    codes: the index of each n-gram's value, in the order of the nodes from bigrams up. run_bits: the bits of all runs,
    by order of the contexts. bits: everything that `layout` locates.
    """

    level_sizes: tuple[int, ...]  # n-grams by order, from unigrams on
    run_bits: tuple[int, ...]
    unigrams: Float32[ndarray, " vocab"]
    values: Float32[ndarray, "order-1 256"]
    codes: UInt8[ndarray, " ngrams"]
    bits: UInt64[ndarray, " words"]

    @property
    def order(self) -> int:
        return len(self.level_sizes)

    @property
    def vocabulary_size(self) -> int:
        return self.level_sizes[0]

    @cached_property
    def layout(self) -> Int64[ndarray, "order-1 fields"]:
        """The locations of all parts in `bits`, a row for each order of contexts."""
        return layout_of(self.level_sizes, self.run_bits)[0]

    @cached_property
    def probs(self) -> Float64[ndarray, "order-1 256"]:
        """The probabilities whose logarithms `values` holds."""
        with np.errstate(all="ignore"):  # of a damaged file
            return np.exp(np.minimum(self.values, 0), dtype=np.float64)

    @property
    def parts(self) -> tuple[ndarray, ndarray, ndarray, ndarray, ndarray]:
        """The first arguments of every kernel."""
        return self.unigrams, self.values, self.probs, self.codes, self.bits

    def arrays(self) -> dict[str, ndarray]:
        """Return the arrays that `from_arrays` takes."""
        return {"unigrams": self.unigrams, "values": self.values, "codes": self.codes, "bits": self.bits}

    @classmethod
    def from_arrays(cls, level_sizes: Sequence[int], run_bits: Any, arrays: dict[str, ndarray]) -> CompactTable:
        """Return the table of arrays from a file, in constant time: checks shapes and types, but not contents.

        Raises ModelFormatError.
        """
        if (
            not isinstance(run_bits, list)
            or len(run_bits) != len(level_sizes) - 1
            or not all(
                type(size) is int and 0 <= size <= 64 * ngrams + 64 * contexts
                for size, contexts, ngrams in zip(run_bits, level_sizes[:-1], level_sizes[1:], strict=True)
            )
        ):
            raise ModelFormatError(
                f"the n-gram settings hold run_bits = {run_bits!r}; expected a number of bits for each order but the "
                "highest"
            )
        if max(level_sizes) >= _LIMIT:
            raise ModelFormatError(
                f"the compact table has {max(level_sizes):,} n-grams of one order; expected fewer than {_LIMIT:,}"
            )
        expected = {
            "unigrams": ((level_sizes[0],), "float32"),
            "values": ((len(level_sizes) - 1, VALUES), "float32"),
            "codes": ((sum(level_sizes[1:]),), "uint8"),
            "bits": ((layout_of(level_sizes, run_bits)[1],), "uint64"),
        }
        for name, (shape, kind) in expected.items():
            if name not in arrays:
                raise ModelFormatError(f"the compact n-gram table lacks the array {name!r}")
            array = arrays[name]
            if array.shape != shape or array.dtype.name != kind:
                raise ModelFormatError(
                    f"the compact n-gram table's array {name!r} is {array.dtype.name}{list(array.shape)}; "
                    f"level sizes {list(level_sizes)} need {kind}{list(shape)}"
                )
        return cls(tuple(level_sizes), tuple(run_bits), **{name: arrays[name] for name in expected})


def layout_of(level_sizes: Sequence[int], run_bits: Sequence[int]) -> tuple[Int64[ndarray, "order-1 fields"], int]:
    """Return the locations of all parts, and the number of 64-bit words in `bits`."""
    layout = np.zeros((len(level_sizes) - 1, FIELDS), np.int64)
    first, word = 1, 0
    for row, contexts, children, run in zip(layout, level_sizes[:-1], level_sizes[1:], run_bits, strict=True):
        row[[FIRST, CONTEXTS, CHILD, CHILDREN, RUN_BITS]] = first, contexts, first + contexts, children, run
        row[SAMPLES] = word
        word += contexts // SAMPLED + 1
        for width, high, low, total in (
            (FIRST_WIDTH, FIRST_HIGH, FIRST_LOW, children),
            (RUN_WIDTH, RUN_HIGH, RUN_LOW, run),
        ):
            row[width] = max((total // max(contexts, 1)).bit_length() - 1, 0)
            row[high] = word
            row[low] = row[high] + _words_for(contexts + 1 + (total >> int(row[width])))
            word = int(row[low]) + _words_for((contexts + 1) * int(row[width]))
        row[RUNS] = word
        word += _words_for(run)
        first += contexts
    return layout, word + PADDING


def _words_for(bits: int) -> int:
    return -(-bits // 64)
