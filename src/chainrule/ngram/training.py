"""From a stream of token ids to an n-gram model, with the record of how it came about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.ngram.counting import count_ngrams
from chainrule.ngram.memory import check_memory
from chainrule.ngram.model import NGramModel
from chainrule.ngram.smoothing import modified_kneser_ney
from chainrule.ngram.table import table_of
from chainrule.progress import Progress, silent

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.smoothing import Discounts


def train_ngram(
    stream: Int32[ndarray, " tokens"], vocabulary_size: int, config: NGramConfig, progress: Progress = silent
) -> tuple[NGramModel, dict[str, Any]]:
    """Counts and estimates. stream: documents, each ended by </s>.

    Raises EstimationError where the memory will not do, and under config.strict_discounts.
    """
    check_memory(stream, vocabulary_size, config.order)
    counts = count_ngrams(stream, vocabulary_size, config.order, progress)
    estimates = modified_kneser_ney(counts, config, progress)
    table = table_of(counts, estimates)
    record = {
        "ngrams": list(table.level_sizes),
        "ngrams_counted": list(counts.level_sizes),
        "discounts": [_discount_record(discounts) for discounts in estimates.discounts],
    }
    return NGramModel(table), record


def _discount_record(discounts: Discounts) -> dict[str, Any]:
    record: dict[str, Any] = {
        "order": discounts.order,
        "values": list(discounts.values),
        "estimated": discounts.estimated,
    }
    return record if discounts.estimated else {**record, "problem": discounts.problem}
