"""Trains an n-gram model on a stream of token ids, or on counts; returns it with a record of the estimation.

`lmplz_table` estimates as KenLM's lmplz does: it can also prune unigrams.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.memory import Owned, available_memory, unwrap
from chainrule.base.progress import Progress, silent
from chainrule.errors import EstimationError, SettingError
from chainrule.ngram.config import BACKING_OFF, DiskPlan, check_limitable, check_tunable, ignore_plan
from chainrule.ngram.counting.count import check_memory, count_ngrams, fits_memory
from chainrule.ngram.counting.counts import begin_nodes, pad_documents
from chainrule.ngram.counting.external import BASE_BYTES, count_in_runs, plan_runs
from chainrule.ngram.estimation.discounting import discounting
from chainrule.ngram.estimation.discounts import FALLBACK
from chainrule.ngram.estimation.estimates import table_of
from chainrule.ngram.estimation.estimators import estimate
from chainrule.ngram.layouts import model_of
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.tokenization.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set

    from jaxtyping import Bool, Int32
    from numpy import ndarray

    from chainrule.base.memory import MaybeOwned
    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.estimation.estimates import Discounts
    from chainrule.ngram.layouts import AnyNGram
    from chainrule.ngram.trie.table import Table


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
    """Count n-grams, then estimate probabilities. stream: documents, each ended by </s>. heldout: one to tune on.

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
    """Return the n-gram counts of a stream, its documents padded as the configuration says; an owned stream is freed
    early.

    keeps_counts: whether they stay beside the probabilities that are estimated from them, which takes more memory.
    Raises EstimationError where memory does not suffice.
    """
    stream, _ = pad_documents(unwrap(stream), _extra_begins(config))
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
    """Count as `count_stream` does, but on disk where counts and probabilities in their place would need too much
    memory.

    memory: how many bytes this process may hold; by default, what is free. on_plan: a callback, called before anything
    is counted on disk. Raises OutputError where the disk has no room, EstimationError where the memory is not enough
    even so.
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
    """Estimate a model. counts: padded as the configuration says. Raises as `train_ngram` does.

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
        heldout, _ = pad_documents(heldout, _extra_begins(config))
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
    """Return the record of an estimation.

    kept, counted: n-grams by order. impossible: types seen, and without probability.
    """
    record = {
        "ngrams": list(kept),
        "ngrams_counted": list(counted),
        "discounts": [_discount_record(values) for values in discounts],
    }
    return {**record, **({"impossible_types": impossible} if impossible else {})}


def _extra_begins(config: NGramConfig) -> int:
    """Return how many <s> a document gets besides the implicit first one."""
    return max(0, config.order - 2) if config.begins == "all" else 0


def _discount_record(discounts: Discounts) -> dict[str, Any]:
    record: dict[str, Any] = {
        "order": discounts.order,
        "values": list(discounts.values),
        "estimated": discounts.estimated,
    }
    return record if discounts.estimated else {**record, "problem": discounts.problem}


class NoDiscountsError(EstimationError):
    """The discounts of an order cannot be estimated, and no fallback is given."""


def lmplz_table(
    stream: MaybeOwned[Int32[ndarray, " tokens"]],
    vocabulary: Vocabulary,
    config: NGramConfig,
    progress: Progress = silent,
    *,
    unigram_threshold: int = 0,
    allowed: Set[bytes] | None = None,
    fallback: tuple[float, float, float] | None = None,
    min_words: int = 0,
) -> tuple[Table, Vocabulary]:
    """Return the table and the vocabulary that lmplz writes; n-grams that contain a pruned word are dropped.

    unigram_threshold: words seen at most this often are pruned. allowed: if given, all other words are pruned.
    fallback: the discounts of orders for which none can be estimated. min_words: P(<unk>) is that of a vocabulary of at
    least this size. As in lmplz, the log-probability of <s> is 0, although <s> is never predicted. Raises
    NoDiscountsError where discounts cannot be estimated and there is no fallback.
    """
    counts = count_stream(stream, len(vocabulary), config, progress)
    dropped_words = counts.counts[counts.level(1)] <= unigram_threshold if unigram_threshold else None
    if allowed is not None:
        outside = np.array([token not in allowed for token in vocabulary.tokens()])
        dropped_words = outside if dropped_words is None else outside | dropped_words
    if dropped_words is not None:
        dropped_words[[UNKNOWN, BEGIN, END]] = False
    dropped = None if dropped_words is None else _with_a_word(counts, dropped_words)
    words = len(vocabulary) - 1 if dropped_words is None else int(np.count_nonzero(~dropped_words)) - 1
    estimates = discounting(
        counts, config, progress, fallback=fallback or FALLBACK, dropped=dropped, words=max(words, min_words)
    )
    problem = next((discounts.problem for discounts in estimates.discounts if discounts.problem), None)
    if problem is not None and fallback is None:
        raise NoDiscountsError(problem)
    if dropped is not None:
        kept = ~dropped if estimates.kept is None else ~dropped & estimates.kept
        estimates = replace(estimates, kept=kept)
    table = table_of(counts, estimates)
    nodes = table.nodes  # owned by this table alone
    nodes["log_prob"][1 + BEGIN] = 0
    if dropped_words is not None:
        new_ids = np.cumsum(~dropped_words, dtype=np.int32) - 1
        nodes["word"][1:] = new_ids[nodes["word"][1:]]
        tokens = vocabulary.tokens()
        vocabulary = Vocabulary([tokens[word] for word in np.flatnonzero(~dropped_words).tolist() if word > END])
    return replace(table, nodes=nodes), vocabulary


def _with_a_word(counts: Counts, in_set: Bool[ndarray, " vocab"]) -> Bool[ndarray, " nodes"]:
    """Return which n-grams contain a word of the set."""
    contains = np.zeros(counts.words.size, np.bool_)
    contains[counts.level(1)] = in_set
    for order in range(2, counts.order + 1):
        level, contexts = counts.level(order), counts.level(order - 1)
        children = np.diff(counts.begin[contexts.start : contexts.stop + 1])
        contains[level] = in_set[counts.words[level]] | np.repeat(contains[contexts], children)
    return contains
