"""Trains an n-gram model on a stream of token ids, or on counts; returns it with a record of the estimation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.memory import Owned, available_memory, unwrap
from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError
from chainrule.ngram.config import BACKING_OFF, check_limitable, check_tunable
from chainrule.ngram.counting.count import count_ngrams
from chainrule.ngram.counting.counts import begin_nodes
from chainrule.ngram.counting.disk_plan import DiskPlan, ignore_plan
from chainrule.ngram.counting.memory_estimate import check_memory, fits_memory
from chainrule.ngram.counting.padding import padded
from chainrule.ngram.counting.runs import BASE_BYTES, count_in_runs, plan_runs
from chainrule.ngram.estimation.build_table import table_of
from chainrule.ngram.estimation.estimators import estimate
from chainrule.ngram.model_class import model_of
from chainrule.protocol import BEGIN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.base.memory import MaybeOwned
    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.estimation.estimates import Discounts
    from chainrule.ngram.model_class import AnyNGram


def train_ngram(
    stream: MaybeOwned[Int32[ndarray, " tokens"]],
    vocabulary_size: int,
    config: NGramConfig,
    progress: Progress = silent,
    heldout: Int32[ndarray, " tokens"] | None = None,
    *,
    memory: int | None = None,
    on_plan: Callable[[DiskPlan], None] = ignore_plan,
) -> tuple[AnyNGram, dict[str, Any]]:
    """Counts n-grams, then estimates probabilities. stream: documents, each ended by </s>. heldout: one to tune on.

    An owned stream is freed as soon as counting no longer needs it. memory, on_plan: as in `count_within`. Raises
    EstimationError where memory does not suffice, where the held-out text shares no word with the vocabulary, and where
    config.strict_discounts asks for it; SettingError where there is nothing to tune; OutputError where the disk has no
    room for what memory cannot hold.
    """
    if heldout is not None:
        check_tunable(config)
    if memory is not None:
        check_limitable(config, tuned=heldout is not None)
    keeps_counts = heldout is not None or config.smoothing in BACKING_OFF
    if keeps_counts or config.needs_whole_counts:
        counts = count_stream(stream, vocabulary_size, config, progress, keeps_counts=keeps_counts)
    else:
        counts = count_within(stream, vocabulary_size, config, memory, progress, on_plan=on_plan)
    return model_of_counts(counts, config, progress, heldout, overwrite=heldout is None)


def count_stream(
    stream: MaybeOwned[Int32[ndarray, " tokens"]],
    vocabulary_size: int,
    config: NGramConfig,
    progress: Progress = silent,
    *,
    keeps_counts: bool = True,
) -> Counts:
    """The n-gram counts of a stream, its documents padded as the configuration says; an owned stream is freed early.

    keeps_counts: whether they stay beside the probabilities that are estimated from them, which takes more memory.
    Raises EstimationError where memory does not suffice.
    """
    stream, _ = padded(unwrap(stream), _extra_begins(config))
    check_memory(stream, vocabulary_size, config.order, keeps_counts=keeps_counts)
    owned = Owned(stream)
    del stream
    counts = count_ngrams(owned, vocabulary_size, config.order, progress)
    counts.counts[begin_nodes(counts)] = 0  # contexts, which are never predicted
    return counts


def count_within(
    stream: MaybeOwned[Int32[ndarray, " tokens"]],
    vocabulary_size: int,
    config: NGramConfig,
    memory: int | None = None,
    progress: Progress = silent,
    *,
    on_plan: Callable[[DiskPlan], None] = ignore_plan,
) -> Counts:
    """As `count_stream`, but on disk where counts and probabilities in their place would need too much memory.

    memory: how many bytes this process may hold; by default, what is free. on_plan: called before anything is counted
    on disk. Raises OutputError where the disk has no room, EstimationError where the memory is not enough even so.
    """
    stream = unwrap(stream)
    limit = available_memory() if memory is None else memory
    extra = _extra_begins(config)
    if limit is None or fits_memory(
        stream, vocabulary_size, config.order, limit - (0 if memory is None else BASE_BYTES), keeps_counts=False
    ):
        owned = Owned(stream)
        del stream
        return count_stream(owned, vocabulary_size, config, progress, keeps_counts=False)
    plan = plan_runs(stream, vocabulary_size, config.order, limit)
    on_plan(plan)
    counts = count_in_runs(stream, vocabulary_size, config.order, plan, progress, extra_begins=extra)
    counts.counts[begin_nodes(counts)] = 0
    return counts


def model_of_counts(
    counts: Counts,
    config: NGramConfig,
    progress: Progress = silent,
    heldout: Int32[ndarray, " tokens"] | None = None,
    *,
    overwrite: bool = False,
) -> tuple[AnyNGram, dict[str, Any]]:
    """Estimates a model. counts: padded as the configuration says. Raises as `train_ngram` does.

    overwrite: whether the model may reuse the memory of the counts; only where they are not needed again, and not with
    a held-out text.
    """
    if not overwrite:
        counts = replace(counts, records=None)
    if config.begins == "all" and config.order > 2 and len(begin_nodes(counts)) != config.order - 1:
        raise SettingError(
            "these counts have one <s> before each document; a model with begins='all' must be trained on the text "
            "itself"
        )
    if heldout is not None:
        heldout, _ = padded(heldout, _extra_begins(config))
    seen = counts.counts[1 : 1 + counts.level_sizes[0]] > 0
    estimates = estimate(counts, config, progress, heldout)
    table = table_of(counts, estimates)
    impossible = int(np.count_nonzero(seen & np.isneginf(table.log_probs[1 : 1 + seen.size])))
    record = record_of_estimates(table.level_sizes, counts.level_sizes, estimates.discounts, impossible)
    record |= estimates.record
    if heldout is not None:
        record["tuned_on_tokens"] = int(np.count_nonzero(heldout != BEGIN))
    weight = config.backoff_weight if config.smoothing == "stupid-backoff" else None
    return model_of(table, begins=config.begins, backoff_weight=weight), record


def record_of_estimates(
    kept: Sequence[int], counted: Sequence[int], discounts: Sequence[Discounts], impossible: int
) -> dict[str, Any]:
    """The record of an estimation. kept, counted: n-grams by order. impossible: types seen, and without probability."""
    record = {
        "ngrams": list(kept),
        "ngrams_counted": list(counted),
        "discounts": [_discount_record(values) for values in discounts],
    }
    return {**record, **({"impossible_types": impossible} if impossible else {})}


def _extra_begins(config: NGramConfig) -> int:
    """How many <s> a document gets besides the implicit first one."""
    return max(0, config.order - 2) if config.begins == "all" else 0


def _discount_record(discounts: Discounts) -> dict[str, Any]:
    record: dict[str, Any] = {
        "order": discounts.order,
        "values": list(discounts.values),
        "estimated": discounts.estimated,
    }
    return record if discounts.estimated else {**record, "problem": discounts.problem}
