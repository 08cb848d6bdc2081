"""Chooses theta, temperature and weights: those that make a held-out text likeliest.

Each source of neighbours is tried with a grid of theta, or 1 / temperature, in units of how much similarities differ.
The best one is that whose mixture with the network is the likeliest, with weights as those of other mixtures.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import torch

from chainrule.base.progress import Progress, silent
from chainrule.mixture.tuning import linear_weights

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64, Int32
    from numpy import ndarray

    from chainrule.features.neighbours.model import Found, NeighbourModel
    from chainrule.features.neighbours.options import NeighbourSettings
    from chainrule.features.neighbours.states import Similar

_MOST_TOKENS = 50_000  # of a held-out text
_PARTS = 8  # of it, by which similarities are scaled
_GRID = 2.0 ** np.arange(-3, 6.5, 0.5)  # standard deviations of the similarities


def tuned(model: NeighbourModel, stream: Int32[ndarray, " T"], progress: Progress = silent) -> NeighbourSettings:
    """Return the settings of a model with what is None chosen on a held-out stream. Raises EstimationError."""
    settings, stream = model.settings, stream[:_MOST_TOKENS]
    given = {
        "cache": settings.neural_cache_theta,
        "store": settings.neighbours_temperature and 1 / settings.neighbours_temperature,
    }
    weights = {"cache": settings.neural_cache_weight, "store": settings.neighbours_weight}
    some = [*islice(model.found_along(stream, model.hidden_of([stream])), _PARTS)]
    grids = {
        name: _grid([own for found in some if (own := _of(found, name)) is not None]) if value is None else [value]
        for name, value in given.items()
        if _of(some[0], name) is not None
    }
    network = np.empty(len(stream), np.float32)
    scores = {name: np.empty((len(grid), len(stream)), np.float32) for name, grid in grids.items()}
    for found in model.found_along(stream, model.hidden_of([stream])):
        progress("looking for neighbours", found.places.start, len(stream))
        asked = torch.from_numpy(stream[found.places].astype(np.int64)).to(found.hidden.device)[:, None]
        network[found.places] = model.network_log_probs(found.hidden, asked)[:, 0]
        for name, grid in grids.items():
            similar = _of(found, name)
            assert similar is not None
            for row, sharpness in zip(scores[name], grid, strict=True):
                row[found.places] = similar.probs_of(float(sharpness), asked)[:, 0].log().cpu().numpy()
    best = {name: _best(network, rows, progress) for name, rows in scores.items()}
    if any(weights[name] is None for name in best):
        rows = np.stack([network, *(scores[name][own] for name, own in best.items())])
        [found_weights] = linear_weights(rows, progress=progress)
        weights |= _with_given({name: weights[name] for name in best}, found_weights)
    sharpness_of = {name: float(grids[name][own]) for name, own in best.items()}
    return replace(
        settings,
        neural_cache_theta=sharpness_of.get("cache"),
        neighbours_temperature=1 / sharpness_of["store"] if "store" in sharpness_of else None,
        neural_cache_weight=weights["cache"],
        neighbours_weight=weights["store"],
    )


def _of(found: Found, name: str) -> Similar | None:
    similar: Similar | None = getattr(found, name)
    return similar


def _grid(some: list[Similar]) -> list[float]:
    """Return what to try for a source, of which some positions are given."""
    rows = [own[counts] for similar in some for own, counts in _rows(similar) if counts.sum() > 1]
    scale = float(torch.stack([row.std() for row in rows]).mean()) if rows else 0.0
    return (_GRID / (scale or 1.0)).tolist()


def _rows(similar: Similar) -> zip[tuple[torch.Tensor, torch.Tensor]]:
    return zip(similar.similarities, similar.counts.expand(similar.similarities.shape), strict=True)


def _best(network: Float32[ndarray, " T"], rows: Float32[ndarray, "G T"], progress: Progress) -> int:
    """Return the number of the row that makes the likeliest mixture with the network."""
    if len(rows) == 1:
        return 0
    likelihoods = []
    for row in rows:
        pair = np.stack([network, row])
        [weights] = linear_weights(pair, progress=progress)
        with np.errstate(divide="ignore"):
            likelihoods.append(np.logaddexp.reduce(pair + np.log(weights)[:, None], axis=0).sum(dtype=np.float64))
    return int(np.argmax(likelihoods))


def _with_given(given: dict[str, float | None], found: Float64[ndarray, " models"]) -> dict[str, float | None]:
    """Return weights that were given, and shares of the rest. found: of the network, and of each source."""
    rest = 1 - sum(own for own in given.values() if own is not None)
    free = found[0] + sum(own for own, known in zip(found[1:], given.values(), strict=True) if known is None)
    return {
        name: float(own / free * rest) if known is None else known
        for (name, known), own in zip(given.items(), found[1:], strict=True)
    }
