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
from chainrule.ngram.estimation.discounts import good_turing
from chainrule.ngram.estimation.heldout import tune_absolute, tune_kneser_ney, tune_lidstone, tune_modified_kneser_ney
from chainrule.ngram.estimation.jelinek_mercer import jelinek_mercer
from chainrule.ngram.estimation.kneser_ney import (
    absolute_discounting,
    kneser_ney,
    kneser_ney_backoff,
    modified_kneser_ney,
    modified_kneser_ney_backoff,
)

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
    "absolute": absolute_discounting,
    "good-turing": good_turing,
    "kneser-ney": kneser_ney,
    "kneser-ney-backoff": kneser_ney_backoff,
    "modified-kneser-ney": modified_kneser_ney,
    "modified-kneser-ney-backoff": modified_kneser_ney_backoff,
    "stupid-backoff": stupid_backoff,
}
# Those that can be tuned on a held-out text.
TUNED_ESTIMATORS: dict[str, TunedEstimator] = {
    "lidstone": tune_lidstone,
    "jelinek-mercer": jelinek_mercer,
    "absolute": tune_absolute,
    "kneser-ney": tune_kneser_ney,
    "modified-kneser-ney": tune_modified_kneser_ney,
}


def estimate(
    counts: Counts,
    config: NGramConfig,
    progress: Progress = silent,
    heldout: Int32[ndarray, " tokens"] | None = None,
) -> Estimates:
    """Estimates probabilities as a configuration says. heldout: a stream to tune on, padded as the counted stream.

    Raises EstimationError where that is impossible, SettingError where there is nothing to tune.
    """
    if heldout is None:
        return ESTIMATORS[config.smoothing](counts, config, progress)
    check_tunable(config)
    return TUNED_ESTIMATORS[config.smoothing](counts, config, progress, heldout)
