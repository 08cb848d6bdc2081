"""Why an n-gram model gives a token its probability: contexts from the longest to none, with back-offs and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.json import finite
from chainrule.ngram.config import BACKING_OFF
from chainrule.ngram.estimation.discounts import counts_from_shares
from chainrule.ngram.models.padded_model import PaddedModel
from chainrule.ngram.models.table_models import TrieModel
from chainrule.protocol import BEGIN

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.api.models.language_models import CausalModel
    from chainrule.ngram.models.table_models import BackoffStep
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Json = dict[str, Any]
    Tokens = Int32[ndarray, " tokens"]

_MOST = 2000  # different tokens after a context whose counts are worked out


def backoff_chain(model: CausalModel, state: Any, ids: Tokens, best: Tokens) -> Json:
    """For an n-gram table: what it has after each context, the longest first; nothing for other models.

    ids: the text, which `state` has read. Of each of the best tokens, log_probs and counts are null where it is not
    among those after a context. counts, and total, their sum over all tokens, are null where they cannot be worked out
    from the probabilities: a table keeps none. counted: occurrences, or contexts, the different tokens before.
    """
    engine = model.engine
    if not isinstance(engine, TrieModel | PaddedModel):
        return {}
    context = shown_tokens(model.tokenizer, np.concatenate([[BEGIN], ids[-engine.order :]]).astype(np.int32))
    if len(ids) > engine.order:
        context = context[1:]
    smoothing = model.record.get("settings", {}).get("smoothing")
    discounts = {entry["order"]: entry["values"] for entry in model.record.get("discounts", [])}
    steps = []
    for step in engine.backoff_chain(state, best):
        if step.context_length > len(context):
            continue
        own = context[len(context) - step.context_length :]
        total, counts = _counts(engine, state, step, best, discounts, smoothing)
        is_raw = step.context_length + 1 == engine.order or own[:1] == ["<s>"] or "kneser-ney" not in (smoothing or "")
        steps.append(
            {
                "context": own,
                "continuations": step.continuations,
                "log_backoff": finite(step.log_backoff),
                "log_probs": [finite(log_prob) for log_prob in step.log_probs.tolist()],
                "counts": counts,
                "total": total,
                "counted": "occurrences" if is_raw else "contexts",
            }
        )
    return {
        "order": engine.order,
        "smoothing": smoothing,
        "discounts": {str(order): values for order, values in discounts.items()},
        "backoff": steps,
    }


def shown_tokens(tokenizer: Tokenizer, ids: Tokens) -> list[str]:
    """The tokens as they are shown, <s> among them."""
    return ["<s>" if token == BEGIN else shown for token, shown in zip(ids, tokenizer.shown(ids.tolist()), strict=True)]


def _counts(
    engine: TrieModel | PaddedModel,
    state: Any,
    step: BackoffStep,
    best: Tokens,
    discounts: dict[int, list[float]],
    smoothing: str | None,
) -> tuple[int | None, list[int | None]]:
    """The sum of the counts after a context, and those of the best tokens; None where they are unknown."""
    unknown: list[int | None] = [None] * len(best)
    values = discounts.get(step.context_length + 1)
    if not values or not step.context_length or not 0 < (step.continuations or 0) <= _MOST:
        return None, unknown
    tokens, log_probs, lower = engine.continuations(state, step.context_length)
    shares = np.exp(log_probs.astype(np.float64))
    if smoothing not in BACKING_OFF:
        shares -= np.exp(step.log_backoff + lower.astype(np.float64))
    counts = counts_from_shares(shares, values)
    if counts is None:
        return None, unknown
    by_token = dict(zip(tokens.tolist(), counts.tolist(), strict=True))
    return int(counts.sum()), [by_token.get(token) for token in best.tolist()]
