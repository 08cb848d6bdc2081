"""Chunks of memory that arrays share."""

from __future__ import annotations

import weakref

import numpy as np

from chainrule.base.memory import zeros_side_by_side


def test_arrays_side_by_side_are_apart_and_freed_with_their_last() -> None:
    sizes = [100, 1 << 24, 63 << 20, 7, 1 << 27, 3 << 20]
    zeros = type(zeros_side_by_side)()  # without the chunks that others use
    arrays = [zeros(size) for size in sizes]
    chunks = [weakref.ref(array.base) for array in arrays]
    for i, (array, size) in enumerate(zip(arrays, sizes, strict=True)):
        assert array.dtype == np.uint8
        assert array.shape == (size,)
        assert array.ctypes.data % 16 == 0
        assert not array[:: 1 << 12].any()
        array[:: 1 << 12] = i + 1
    for i, array in enumerate(arrays):
        assert (array[:: 1 << 12] == i + 1).all()
    assert chunks[0]() is chunks[1]() is chunks[3]() is chunks[5]()  # also where a larger one did not fit
    assert len({id(chunk()) for chunk in chunks}) == 3
    del array, arrays[5], arrays[3], arrays[0]
    assert chunks[1]() is not None
    arrays.clear()
    assert {chunk() for chunk in chunks} == {None}
