"""The compiled choice of documents for a mix."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from chainrule.base.jit import kernel

Array = NDArray[Any]


@kernel
def choose(sizes: Array, draws: Array, wanted: int, left: int, chosen: Array) -> tuple[int, int]:
    """Marks documents so that of all `left` bytes, about the `wanted` ones are taken, each byte as likely as another.

    Returns what is wanted and left after these documents, for the next ones. The bytes that are taken in the end differ
    from those that were wanted by less than one document.
    """
    for i in range(sizes.size):
        chosen[i] = draws[i] * left < wanted
        if chosen[i]:
            wanted -= sizes[i]
        left -= sizes[i]
    return wanted, left
