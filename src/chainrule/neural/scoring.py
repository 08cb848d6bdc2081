"""Known texts cut into pieces that are read side by side, so that each token sees what it would see step by step.

A row is a text; its inputs are </s> and all its tokens but the last, its targets the tokens. Where a state fills after
`context` inputs, the n-th input is read in a window that begins at a multiple of the stride: the same windows that
stepping goes through, so that they can be read at once. Where a state never fills but forgets for sure after `reach`
inputs, a piece begins so many inputs early; where it never does, a piece is the whole row, unless `warm_up` says how
many inputs are enough to come close.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.neural.network import Encoder

WARM_UP = 512  # inputs that a recurrent network reads before the piece of a long stream that it scores
_SCORED = 4096  # the least that it scores then
_ROWS = 64  # and the most pieces
TOGETHER = 1 << 14  # tokens in a batch
T = TypeVar("T")


class Piece(NamedTuple):
    """Inputs `begin` to `end` of a row, of which those from `first` on give the scores of their targets."""

    row: int
    begin: int
    first: int
    end: int


def stride(context: int) -> int:
    """How far the windows of a state that fills are apart."""
    return context - context // 2


def window_start(inputs: int, context: int) -> int:
    """Where the window begins in which the last of some inputs is read."""
    beyond = inputs - context
    return 0 if beyond <= 0 else -(-beyond // stride(context)) * stride(context)


def pieces_of(lengths: Sequence[int], encoder: Encoder, *, warm_up: int | None = None) -> list[Piece]:
    """Pieces that score each input of each row once. lengths: of the rows, in inputs.

    Where an encoder looks right and fills, they overlap and are equally long, and what a later one of the same row
    scores holds: it has as much on both sides as there can be.
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
    """Pieces of about the same length together, the longest first. together: tokens in a batch, at most."""
    by_length = sorted(pieces, key=lambda piece: piece.begin - piece.end)
    return batched(by_length, lambda piece: piece.end - piece.begin, together)


def batched(items: Iterable[T], length: Callable[[T], int], together: int) -> Iterator[list[T]]:
    """Items, the longest first: so many of them as are `together` tokens at most, each filled up to the first."""
    batch: list[T] = []
    for item in items:
        if batch and (len(batch) + 1) * length(batch[0]) > together:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def padded(
    rows: Sequence[Int32[ndarray, " tokens"]], filler: int, *, left: bool = False, length: int = 0
) -> Int32[ndarray, "rows most"]:
    """Rows of unequal lengths in one array, filled up at the right, or at the left; to `length`, if none is longer."""
    most = max(length, *map(len, rows)) if rows else length
    array = np.full((len(rows), most), filler, np.int64)
    for line, row in zip(array, rows, strict=True):
        line[most - len(row) if left else 0 : most if left else len(row)] = row
    return array


def rounded_up(length: int) -> int:
    """What rows are filled up to where networks are trained: 1 to 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, ...

    So there are few shapes: oneDNN, which multiplies in bfloat16 on processors, prepares each new shape of a product
    for 2 to 5 ms, longer than the product takes, and keeps 1,024 of them.
    """
    step = 1 << max(length.bit_length() - 3, 0)
    return -(-length // step) * step
