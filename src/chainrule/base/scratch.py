"""Room for arrays that may be larger than memory: then they lie in a file without a name."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.memory import available_memory
from chainrule.errors import OutputError

if TYPE_CHECKING:
    from numpy import ndarray
    from numpy.typing import DTypeLike

_SHARE = 4  # what takes less than this part of the memory lies there


def room_for(shape: tuple[int, ...], dtype: DTypeLike) -> ndarray[Any, Any]:
    """An array of anything, in memory or in a file that is gone with it. Raises OutputError."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    at_hand = available_memory()
    if at_hand is None or size * _SHARE <= at_hand or not size:
        return np.empty(shape, dtype)
    try:
        with tempfile.TemporaryFile() as file:
            file.truncate(size)
            return np.asarray(np.memmap(file, dtype, "r+", shape=shape))
    except OSError as error:
        raise OutputError(
            f"{tempfile.gettempdir()}: there is no room for {size / 1e9:,.1f} GB beside the memory: "
            f"{error.strerror}; name another folder in TMPDIR"
        ) from error
