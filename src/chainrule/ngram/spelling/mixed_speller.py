"""A mixture of spellers: P(spelling | unknown) = sum of weight_i P_i(spelling | unknown)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import ModelFormatError
from chainrule.ngram.spelling.speller import Speller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.ngram.spelling.speller import HasTokens

_UNSEEN, _WEIGHTS = "unseen_types", "weights"


class MixedSpeller:
    """A weighted mixture of spellers over one vocabulary; their own unseen_types are ignored."""

    name = f"mixed-{Speller.name}"  # in signatures

    def __init__(self, parts: Sequence[Speller], weights: Float64[ndarray, " parts"], *, unseen_types: int) -> None:
        """weights: above 0; must sum to one."""
        self.parts, self.weights, self.unseen_types = tuple(parts), weights, unseen_types

    def log_prob(self, token: bytes) -> float:
        """As `Speller.log_prob`."""
        return float(self.log_probs([token])[0])

    def log_probs(self, tokens: Sequence[bytes]) -> Float64[ndarray, " tokens"]:
        """As `Speller.log_probs`."""
        weighted = [
            part.log_probs(tokens) + weight for part, weight in zip(self.parts, np.log(self.weights), strict=True)
        ]
        mixed: Float64[ndarray, " tokens"] = np.logaddexp.reduce(weighted, axis=0)
        return mixed

    def sample(self, rng: np.random.Generator) -> bytes:
        """As `Speller.sample`."""
        return self.parts[int(rng.choice(len(self.parts), p=self.weights))].sample(rng)

    def arrays(self) -> dict[str, ndarray]:
        """The arrays that `speller_from_arrays` takes; those of part i are named `i.name`."""
        named = {f"{i}.{name}": array for i, part in enumerate(self.parts) for name, array in part.arrays().items()}
        return {**named, _WEIGHTS: self.weights, _UNSEEN: np.array([self.unseen_types], np.int64)}


def mixed_speller(
    spellers: Sequence[Speller | MixedSpeller], weights: Sequence[float], vocabulary: HasTokens, *, unseen_types: int
) -> Speller | MixedSpeller:
    """Mixes spellers; equal ones are merged, and those of weight 0 are left out. weights: not all 0."""
    parts: list[tuple[Speller, dict[str, ndarray]]] = []
    shares: list[float] = []
    for speller, weight in zip(spellers, weights, strict=True):
        inner = (
            zip(speller.parts, speller.weights, strict=True) if isinstance(speller, MixedSpeller) else [(speller, 1.0)]
        )
        for part, share in inner:
            arrays = part.arrays()
            same = [i for i, (_, others) in enumerate(parts) if _are_equal(arrays, others)]
            if same:
                shares[same[0]] += weight * share
            elif weight > 0:
                parts.append((part, arrays))
                shares.append(weight * share)
    if len(parts) > 1:
        return MixedSpeller([part for part, _ in parts], np.array(shares) / sum(shares), unseen_types=unseen_types)
    [(only, arrays)] = parts
    if only.unseen_types == unseen_types:
        return only
    return Speller.from_arrays({**arrays, _UNSEEN: np.array([unseen_types], np.int64)}, vocabulary)


def speller_from_arrays(arrays: dict[str, ndarray], vocabulary: HasTokens) -> Speller | MixedSpeller:
    """The speller, of either kind, that gave `arrays`. Raises as `Speller.from_arrays` does."""
    if _WEIGHTS not in arrays:
        return Speller.from_arrays(arrays, vocabulary)
    weights, unseen = arrays[_WEIGHTS], arrays[_UNSEEN]
    if weights.dtype != np.float64 or weights.ndim != 1 or not weights.size or not np.all(weights > 0):
        raise ModelFormatError("the weights of the spellers are not positive numbers; the file is damaged")
    if abs(weights.sum() - 1) > 1e-6:
        raise ModelFormatError("the weights of the spellers do not sum to 1; the file is damaged")
    if unseen.dtype != np.int64 or unseen.shape != (1,) or unseen[0] < 0:
        raise ModelFormatError("the spellers' unseen_types is not a count; the file is damaged")
    parts = []
    for i in range(weights.size):
        part_arrays = {name.removeprefix(f"{i}."): array for name, array in arrays.items() if name.startswith(f"{i}.")}
        parts.append(Speller.from_arrays(part_arrays, vocabulary))
    return MixedSpeller(parts, weights, unseen_types=int(unseen[0]))


def _are_equal(one: dict[str, ndarray], other: dict[str, ndarray]) -> bool:
    return all(name == _UNSEEN or np.array_equal(array, other[name]) for name, array in one.items())
