"""All estimators by name. Each has its formula and source in its docstring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.base.progress import Progress, silent
from chainrule.ngram.config import check_tunable
from chainrule.ngram.estimation.backoff_and_additive import (
    laplace,
    lidstone,
    maximum_likelihood,
    stupid_backoff,
    witten_bell,
)
from chainrule.ngram.estimation.discounting import discounting
from chainrule.ngram.estimation.heldout import tune_discounts, tune_lidstone
from chainrule.ngram.estimation.jelinek_mercer import jelinek_mercer

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.estimation.estimates import Estimates

    Estimator = Callable[[Counts, NGramConfig, Progress], Estimates]
    TunedEstimator = Callable[[Counts, NGramConfig, Progress, Int32[ndarray, " tokens"]], Estimates]

ESTIMATORS: dict[str, Estimator] = {
    "maximum-likelihood": maximum_likelihood,
    "laplace": laplace,
    "lidstone": lidstone,
    "jelinek-mercer": jelinek_mercer,
    "witten-bell": witten_bell,
    "absolute": discounting,
    "good-turing": discounting,
    "kneser-ney": discounting,
    "kneser-ney-backoff": discounting,
    "modified-kneser-ney": discounting,
    "modified-kneser-ney-backoff": discounting,
    "stupid-backoff": stupid_backoff,
}
# Those that can be tuned on a held-out text.
TUNED_ESTIMATORS: dict[str, TunedEstimator] = {
    "lidstone": tune_lidstone,
    "jelinek-mercer": jelinek_mercer,
    "absolute": tune_discounts,
    "kneser-ney": tune_discounts,
    "modified-kneser-ney": tune_discounts,
}


def estimate(
    counts: Counts,
    config: NGramConfig,
    progress: Progress = silent,
    heldout: Int32[ndarray, " tokens"] | None = None,
) -> Estimates:
    """Estimate probabilities as a configuration says. heldout: a stream to tune on, padded as the counted stream.

    Raises EstimationError where that is impossible, SettingError where there is nothing to tune.
    """
    if heldout is None:
        return ESTIMATORS[config.smoothing](counts, config, progress)
    check_tunable(config)
    return TUNED_ESTIMATORS[config.smoothing](counts, config, progress, heldout)
