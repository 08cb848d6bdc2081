"""What a network is given of a text that stands alone: </s> before it, and behind it where that is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.network import Network


def framed(sequence: Int32[ndarray, " tokens"], network: Network) -> Int64[ndarray, " inputs"]:
    """The </s> that ends a document begins the next: a network that reads documents by themselves never sees it."""
    ends = [END] * (network.encoder.is_bidirectional and network.memory == "stream")
    return np.concatenate([[END], sequence, ends]).astype(np.int64)


def padding(lengths: Sequence[int], device: torch.device | None = None, *, width: int = 0) -> Tensor | None:
    """Where what fills the shorter rows begins, (B, T): a document of its own. None where nothing is filled.

    width: what rows are filled up to, where none is longer.
    """
    width = max(width, *lengths)
    if min(lengths) == width:
        return None
    return torch.arange(width, device=device) == torch.tensor(lengths, device=device)[:, None]
