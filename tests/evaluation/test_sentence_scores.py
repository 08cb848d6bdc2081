"""Sums by document against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import UNKNOWN, random_documents, stream_of

from chainrule.evaluation.token_scores import score_sentences
from chainrule.ngram.config import NGramConfig
from chainrule.ngram.training import train_ngram


@pytest.mark.parametrize(
    "documents", [random_documents(3, 30, 50, 9), [[]], [[], [3], []]], ids=["many", "one", "empty"]
)
def test_documents_have_their_score_token_count_and_unknown_count(documents: list[list[int]]) -> None:
    model, _ = train_ngram(stream_of(random_documents(1, 30, 80, 9)), 30, NGramConfig(order=3))
    found = score_sentences(model, stream_of(documents))
    rows = [model.score([np.array(document, np.int32)])[0] for document in documents]
    assert found.log_probs == pytest.approx([float(row.sum(dtype=np.float64)) for row in rows])
    assert found.tokens.tolist() == [len(document) + 1 for document in documents]
    assert found.unknown.tolist() == [document.count(UNKNOWN) for document in documents]


def test_no_documents_have_no_scores() -> None:
    model, _ = train_ngram(stream_of([[3]]), 4, NGramConfig(order=1))
    assert score_sentences(model, np.empty(0, np.int32)).log_probs.size == 0
