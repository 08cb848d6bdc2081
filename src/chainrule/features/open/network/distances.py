"""DeBERTa's attention: scores by contents, and by buckets of distances.

Legend: B batch, T queries, S keys, D width, H heads, d width of a head.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from jaxtyping import Float, Int64


class DistanceVectors(NamedTuple):
    """What DeBERTa scores beside contents: a vector for each bucket of distances, and the bucket of each key's distance
    from each query.
    """

    vectors: Float[Tensor, "buckets D"]
    places: Int64[Tensor, "T S"]


class Distances(nn.Module):
    """He et al. 2021, 2023 (DeBERTa): a learned vector for each bucket of distances, normalised, shared by layers."""

    def __init__(self, buckets: int, limit: int, longest: int, norm: nn.Module, width: int) -> None:
        """Build a vector for each bucket of distances.

        buckets: on either side. limit: as for `deberta_buckets`. longest: the longest distance.
        """
        super().__init__()
        self.vectors, self.norm = nn.Parameter(torch.empty(2 * buckets, width)), norm
        nn.init.normal_(self.vectors, std=0.02)
        self.buckets = deberta_buckets(buckets, limit, longest)

    def forward(self, length: int) -> DistanceVectors:
        """Return the vectors, and which of them each distance between two of `length` tokens has."""
        device, half = self.vectors.device, len(self.vectors) // 2
        positions = torch.arange(length, device=device)
        signed = positions[:, None] - positions
        buckets = torch.tensor(self.buckets[:length], device=device)[signed.abs()] * signed.sign()
        return DistanceVectors(self.norm(self.vectors), (buckets + half).clamp(0, 2 * half - 1))


def deberta_buckets(buckets: int, limit: int, longest: int) -> list[int]:
    """Return the buckets of the distances from 0 to `longest`: half of them hold one distance each, the others grow
    logarithmically up to the limit.
    """
    half = buckets // 2
    step = math.log((limit - 1) / half)
    return [
        distance if distance <= half else math.ceil(math.log(distance / half) / step * (half - 1)) + half
        for distance in range(longest + 1)
    ]


def disentangled(
    places: Int64[Tensor, "T S"],
    of_distances: Float[Tensor, "buckets 3H d"],
    query: Float[Tensor, "B H T d"],
    key: Float[Tensor, "B H S d"],
) -> Float[Tensor, "B H T S"]:
    """Return a score function for `attend_unfused`: DeBERTa's (He et al. 2021, equation 4), of contents and distances.

    places: the bucket of each key's distance from each query. of_distances: queries, keys and values of the buckets'
    vectors, of which the first two count.
    """
    heads = query.shape[1]
    own_query, own_key = of_distances[:, :heads].transpose(0, 1), of_distances[:, heads : 2 * heads].transpose(0, 1)
    index = places.expand(*query.shape[:3], -1)
    by_key = (query @ own_key.mT).gather(3, index)  # what a query is to a distance
    by_query = (key @ own_query.mT).gather(3, index.mT).mT  # what a key is to it
    return (query @ key.mT + by_key + by_query) / math.sqrt(3 * query.shape[-1])
