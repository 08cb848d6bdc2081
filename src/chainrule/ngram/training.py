"""From a stream of token ids, or from counts, to an n-gram model, with the record of how it came about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.owned import Owned, unwrap
from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError
from chainrule.ngram.config import check_tunable
from chainrule.ngram.counting.count import count_ngrams
from chainrule.ngram.counting.counts import begin_nodes
from chainrule.ngram.counting.memory_estimate import check_memory
from chainrule.ngram.counting.padding import padded
from chainrule.ngram.estimation.estimators import estimated
from chainrule.ngram.estimation.to_table import table_of
from chainrule.ngram.variants import model_of
from chainrule.protocol import BEGIN

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.base.owned import MaybeOwned
    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.estimation.estimates import Discounts
    from chainrule.ngram.variants import AnyNGram


def train_ngram(
    stream: MaybeOwned[Int32[ndarray, " tokens"]],
    vocabulary_size: int,
    config: NGramConfig,
    progress: Progress = silent,
    heldout: Int32[ndarray, " tokens"] | None = None,
) -> tuple[AnyNGram, dict[str, Any]]:
    """Counts and estimates. stream: documents, each ended by </s>. heldout: another such stream, to tune on.

    An owned stream is freed as soon as counting can do without it. Raises EstimationError where the memory will not do,
    where the held-out text has no word in common with the vocabulary, and under config.strict_discounts; SettingError
    where there is nothing to tune.
    """
    if heldout is not None:
        check_tunable(config)
    counts = counted(stream, vocabulary_size, config, progress)
    return model_of_counts(counts, config, progress, heldout, used_up=heldout is None)


def counted(
    stream: MaybeOwned[Int32[ndarray, " tokens"]],
    vocabulary_size: int,
    config: NGramConfig,
    progress: Progress = silent,
) -> Counts:
    """The n-grams of a stream, documents padded as the configuration says; an owned one is freed early.

    Raises EstimationError.
    """
    stream, _ = padded(unwrap(stream), _more_begins(config))
    check_memory(stream, vocabulary_size, config.order)
    owned = Owned(stream)
    del stream
    counts = count_ngrams(owned, vocabulary_size, config.order, progress)
    counts.counts[begin_nodes(counts)] = 0  # contexts, which are never predicted
    return counts


def model_of_counts(
    counts: Counts,
    config: NGramConfig,
    progress: Progress = silent,
    heldout: Int32[ndarray, " tokens"] | None = None,
    *,
    used_up: bool = False,
) -> tuple[AnyNGram, dict[str, Any]]:
    """Estimates. counts: padded as the configuration says. Raises as `train_ngram` does.

    used_up: whether the model may lie where the counts do, since they are not needed again; not where it is tuned.
    """
    if not used_up:
        counts = replace(counts, records=None)
    if config.begins == "all" and config.order > 2 and len(begin_nodes(counts)) != config.order - 1:
        raise SettingError("these counts begin with one <s>; a model that begins with all needs the text itself")
    if heldout is not None:
        heldout, _ = padded(heldout, _more_begins(config))
    estimates = estimated(counts, config, progress, heldout)
    table = table_of(counts, estimates)
    record = {
        "ngrams": list(table.level_sizes),
        "ngrams_counted": list(counts.level_sizes),
        "discounts": [_discount_record(discounts) for discounts in estimates.discounts],
        **estimates.record,
    }
    if heldout is not None:
        record["tuned_on_tokens"] = int(np.count_nonzero(heldout != BEGIN))
    weight = config.backoff_weight if config.smoothing == "stupid-backoff" else None
    return model_of(table, begins=config.begins, backoff_weight=weight), record


def _more_begins(config: NGramConfig) -> int:
    """How many <s> stand before a document beside the one that the engine knows."""
    return max(0, config.order - 2) if config.begins == "all" else 0


def _discount_record(discounts: Discounts) -> dict[str, Any]:
    record: dict[str, Any] = {
        "order": discounts.order,
        "values": list(discounts.values),
        "estimated": discounts.estimated,
    }
    return record if discounts.estimated else {**record, "problem": discounts.problem}
