"""Calibration: answers corrected by what the model would say whatever the example.

Scores are log-probabilities of choices, normalised or not; each way gives log-probabilities that sum to one.

    none          p(c | x)
    content-free  p(c | x) / mean of p(c | x') over inputs x' without content (Zhao et al. 2021, section 5)
    pmi           P(c | x) / P(c | tail), tail: what of the template follows the last field (Holtzman et al. 2021)
    batch         p(c | x) / mean of p(c | x') over all examples x' (Zhou et al. 2023)

where p is P made to sum to one over the choices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from chainrule.applications.prompting.choices import log_shares

if TYPE_CHECKING:
    from jaxtyping import Float64
    from numpy import ndarray

Calibration = Literal["none", "content-free", "pmi", "batch"]
CONTENT_FREE = ("N/A", "", "[MASK]")  # Zhao et al., section 5


def calibrated(
    scores: Float64[ndarray, "prompts choices"],
    calibration: Calibration,
    reference: Float64[ndarray, "references choices"] | None = None,
) -> Float64[ndarray, "prompts choices"]:
    """log P of each choice, in nats. reference: the scores after prompts without content; for pmi, after the tail."""
    if calibration == "none":
        return log_shares(scores)
    if calibration == "pmi":
        assert reference is not None
        return log_shares(_difference(scores, reference[:1]))
    others = scores if calibration == "batch" else reference
    assert others is not None
    with np.errstate(divide="ignore"):
        expected = np.log(np.exp(log_shares(others)).mean(0, keepdims=True))
    return log_shares(_difference(log_shares(scores), expected))


def _difference(
    scores: Float64[ndarray, "prompts choices"], expected: Float64[ndarray, "1 choices"]
) -> Float64[ndarray, "prompts choices"]:
    """A choice that is impossible stays so, even where it is impossible without content."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isneginf(scores), -np.inf, scores - expected))
