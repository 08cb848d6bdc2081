"""The input of a network for a single text: </s> before it and, if the network reads what follows a text, after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.network import Network


def framed(sequence: Int32[ndarray, " tokens"], network: Network) -> Int64[ndarray, " inputs"]:
    """The text with its </s>; the final one begins the next document, so networks of single documents never read it."""
    ends = [END] * (network.encoder.is_bidirectional and network.memory == "stream")
    return np.concatenate([[END], sequence, ends]).astype(np.int64)


def padding_starts(
    lengths: Sequence[int], device: torch.device | None = None, *, width: int = 0
) -> Bool[Tensor, "B T"] | None:
    """True where the padding of a row begins, as a document of its own; None if there is no padding.

    width: the length to pad rows to, if none is longer.
    """
    width = max(width, *lengths)
    if min(lengths) == width:
        return None
    return torch.arange(width, device=device) == torch.tensor(lengths, device=device)[:, None]
