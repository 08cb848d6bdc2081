"""What words are told from in negative sampling: random ones, drawn by how frequent they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.vectors.noise_kernels import make_aliases

if TYPE_CHECKING:
    from jaxtyping import Float64, Int32, Int64, UInt64
    from numpy import ndarray


class Noise(NamedTuple):
    """Rows in blocks, and for each block the tables of Walker's alias method. starts: where each block begins."""

    starts: Int64[ndarray, " blocks+1"]
    members: Int32[ndarray, " rows"]
    shares: UInt64[ndarray, " rows"]
    aliases: Int32[ndarray, " rows"]


def noise_of(weights: Float64[ndarray, " rows"], block_of: Int32[ndarray, " rows"], blocks: int) -> Noise:
    """weights: how likely each row is, but for a factor."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(block_of, minlength=blocks))]).astype(np.int64)
    members = np.argsort(block_of.astype(np.int16), kind="stable").astype(np.int32)  # by radix
    shares, aliases = np.empty(members.size, np.uint64), np.empty(members.size, np.int32)
    make_aliases(weights, starts, members, shares, aliases, np.empty(members.size), np.empty(members.size, np.int32))
    return Noise(starts, members, shares, aliases)
