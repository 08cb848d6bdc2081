"""Texts sampled from models with known distributions, for tests."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.decoding.config import SamplingConfig
from chainrule.decoding.limits import Constraints
from chainrule.decoding.sampling import Sample, sample
from chainrule.mixture.uniform import UniformModel

if TYPE_CHECKING:
    from collections.abc import Sequence


class Fixed(UniformModel):
    """The same distribution whatever came before; it gives out its own array, as a model may."""

    def __init__(self, probs: Sequence[float]) -> None:
        super().__init__(len(probs))
        with np.errstate(divide="ignore"):
            self.log_probs = np.log(np.array(probs)).astype(np.float32)
        self.rows: dict[int, np.ndarray] = {}

    def next_log_probs(self, state: np.ndarray) -> np.ndarray:
        return self.rows.setdefault(len(state), np.tile(self.log_probs, (len(state), 1)))


NOTHING = np.empty(0, np.int32)


CONSTRAINTS = {"begin", "min_tokens", "max_tokens", "banned", "allowed", "no_repeat"}


def sampled(model: Any, rows: int = 1, **settings: Any) -> list[list[int]]:
    """The tokens of texts after nothing; the settings are those of both configurations, and the seed."""
    return [made.tokens.tolist() for made in samples(model, [NOTHING] * rows, **settings)]


def samples(model: Any, prefixes: Sequence[np.ndarray], *, seed: int = 1, **settings: Any) -> list[Sample]:
    constraints = {"max_tokens": 20} | {name: settings.pop(name) for name in CONSTRAINTS & settings.keys()}
    made = sample(model, prefixes, SamplingConfig(**settings), Constraints(**constraints), seed=seed)
    assert all(text.tokens.dtype == np.int32 for text in made)
    return made


def chi_square(drawn: list[int], probs: Sequence[float]) -> float:
    counts = Counter(drawn)
    assert all(probs[token] > 0 for token in counts)
    expected = {token: prob * len(drawn) for token, prob in enumerate(probs) if prob > 0}
    return sum((counts[token] - number) ** 2 / number for token, number in expected.items())


def all_drawn(model: Any, **settings: Any) -> list[int]:
    """Thirty thousand tokens: a hundred of each of 300 rows."""
    drawn = [token for text in sampled(model, 300, max_tokens=100, **settings) for token in text]
    assert len(drawn) == 30_000
    return drawn


# The chi-square distribution with 4 degrees of freedom exceeds 18.47 once in a thousand times.
FOUR_FREE = 18.47


PROBS = [0.05, 0.0, 0.0, 0.4, 0.3, 0.2, 0.05]
