"""Cuts known texts into pieces that are scored in parallel, each token with the context it has when read step by step.

A row is a text: its inputs are </s> and all its tokens but the last, its targets are its tokens. If a state fills after
`context` inputs, pieces are the windows that stepping reads, which begin at multiples of the stride. If a state never
fills, but a prediction depends on the last `reach` inputs only, a piece begins that much earlier than its first score.
Otherwise a piece is the whole row, unless `warm_up` inputs are taken to be enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtyping import Int, Int64
    from numpy import ndarray

    from chainrule.neural.network import Encoder

WARM_UP = 512  # inputs that a recurrent network reads before the first score of a piece of a long stream
_SCORED = 4096  # the fewest scores of such a piece
_ROWS = 64  # the most such pieces
TOGETHER = 1 << 14  # tokens in a batch
TOGETHER_ON_PROCESSORS = 1 << 11  # likewise: what layers hand to one another stays in the cache
T = TypeVar("T")


class Piece(NamedTuple):
    """Inputs `begin` to `end` of a row, of which those from `first` on give the scores of their targets."""

    row: int
    begin: int
    first: int
    end: int


def stride(context: int) -> int:
    """The distance between the windows of a state that fills, in tokens."""
    return context - context // 2


def window_start(inputs: int, context: int) -> int:
    """Where the window begins in which the last of `inputs` inputs is read."""
    beyond = inputs - context
    return 0 if beyond <= 0 else -(-beyond // stride(context)) * stride(context)


def pieces_of(lengths: Sequence[int], encoder: Encoder, *, warm_up: int | None = None) -> list[Piece]:
    """Pieces that score each input of each row. lengths: of the rows, in inputs.

    The pieces of a bidirectional encoder overlap and are equally long; where two score the same input, the later piece
    of the row counts, since it has the most context on both sides.
    """
    return [piece for row, length in enumerate(lengths) for piece in _row_pieces(row, length, encoder, warm_up)]


def _row_pieces(row: int, length: int, encoder: Encoder, warm_up: int | None) -> Iterator[Piece]:
    if not length:
        return
    if encoder.is_bidirectional:
        size = min(length, encoder.context or length)
        begins = [*range(0, length - size, max(1, size // 2)), length - size]
        yield from (Piece(row, begin, begin + size // 4 * (begin > 0), begin + size) for begin in begins)
        return
    if encoder.context is not None:
        context, step = encoder.context, stride(encoder.context)
        yield Piece(row, 0, 0, min(context, length))
        for begin in range(step, length - context + step, step):
            yield Piece(row, begin, begin + context - step, min(begin + context, length))
        return
    early, size = 0, length
    if encoder.reach is not None:
        early = encoder.reach - 1
        size = max(encoder.reach, WARM_UP)
    elif warm_up is not None and length >= 2 * _SCORED:
        early = warm_up
        size = -(-length // min(_ROWS, length // _SCORED))
    for first in range(0, length, size):
        yield Piece(row, max(0, first - early), first, min(first + size, length))


def batches_of(pieces: Sequence[Piece], together: int = TOGETHER) -> Iterator[list[Piece]]:
    """Batches of pieces of similar length, the longest first. together: the most tokens in a batch."""
    by_length = sorted(pieces, key=lambda piece: piece.begin - piece.end)
    return batched(by_length, lambda piece: piece.end - piece.begin, together)


def batched(items: Iterable[T], length: Callable[[T], int], together: int) -> Iterator[list[T]]:
    """Batches of items that come longest first: at most `together` tokens each, padded to the length of the first."""
    batch: list[T] = []
    for item in items:
        if batch and (len(batch) + 1) * length(batch[0]) > together:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def padded(
    rows: Sequence[Int[ndarray, " tokens"]], filler: int, *, left: bool = False, length: int = 0
) -> Int64[ndarray, "rows most"]:
    """Rows of unequal lengths as one array, padded on the right or on the left; at least to `length`."""
    most = max(length, *map(len, rows)) if rows else length
    array = np.full((len(rows), most), filler, np.int64)
    for line, row in zip(array, rows, strict=True):
        line[most - len(row) if left else 0 : most if left else len(row)] = row
    return array


def rounded_up(length: int) -> int:
    """The length that rows are padded to in training: 1 to 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, ...

    This keeps shapes few: oneDNN, which computes bfloat16 products on processors, takes 2 to 5 ms to prepare each new
    shape, longer than the product itself takes, and caches 1,024 of them.
    """
    step = 1 << max(length.bit_length() - 3, 0)
    return -(-length // step) * step
