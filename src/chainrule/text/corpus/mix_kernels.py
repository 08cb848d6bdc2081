"""The compiled selection of documents for a mix."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from chainrule.base.jit import kernel

Array = NDArray[Any]


@kernel
def choose(sizes: Array, draws: Array, wanted: int, left: int, chosen: Array) -> tuple[int, int]:
    """Choose documents with about `wanted` of the `left` bytes of a text, every byte with equal probability.

    Returns `wanted` and `left` for the next documents. In the end, the bytes chosen differ from those wanted by less
    than one document.
    """
    for i in range(sizes.size):
        chosen[i] = draws[i] * left < wanted
        if chosen[i]:
            wanted -= sizes[i]
        left -= sizes[i]
    return wanted, left
