"""What scored texts cost, as records."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.api.models.language_models import CausalModel
from chainrule.evaluation.token_scores import score_documents
from chainrule.protocol import END, UNKNOWN
from chainrule.serving.token_names import finite

if TYPE_CHECKING:
    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.text.tokenization.vocabulary import Encoded


def score_records(
    model: Any, encoded: Encoded, before: Int64[ndarray, " texts"], log_probs: Float64[ndarray, " texts"]
) -> list[dict[str, Any]]:
    """A record for each text: its log-probability in nats, tokens, bytes and bits per byte.

    before: how many tokens of each are given, and cost nothing. Bits per byte are of the normalised text and include
    the spelling of unknown words, as in `evaluate`; None where a model does not continue texts.
    """
    ends = np.flatnonzero(encoded.ids == END)
    begins = np.append(0, ends[:-1] + 1) + before
    stops = np.append(0, model.tokenizer.align(encoded).stops)
    sizes = stops[ends + 1] - stops[begins]
    bits: list[float | None] = [None] * len(sizes)
    if isinstance(model, CausalModel):
        costs = log_probs
        if model.speller.unseen_types != 1 or np.any(encoded.ids == UNKNOWN):
            costs, _ = score_documents(model.language_model, model.speller, encoded, given=before.tolist())
        bits = [-finite(cost) / math.log(2) / size for cost, size in zip(costs.tolist(), sizes.tolist(), strict=True)]
    columns = (log_probs.tolist(), (ends + 1 - begins).tolist(), sizes.tolist(), bits)
    return [
        {"log_prob": finite(log_prob), "tokens": tokens, "bytes": size, "bits_per_byte": cost}
        for log_prob, tokens, size, cost in zip(*columns, strict=True)
    ]
