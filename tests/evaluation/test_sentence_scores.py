"""Sums by document against a plain loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracles import UNKNOWN, random_documents, stream_of
from random_networks import random_model

import chainrule
from chainrule.errors import SettingError
from chainrule.evaluation.token_scores import score_sentences
from chainrule.neural.config import RecurrentConfig
from chainrule.ngram.config import NGramConfig
from chainrule.ngram.training import train_ngram

if TYPE_CHECKING:
    from chainrule.neural.config.network import Memory


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


@pytest.mark.parametrize("memory", ["stream", "document"])
def test_a_text_is_scored_alone_unless_texts_are_one_running_text(memory: Memory) -> None:
    ngram = chainrule.train(chainrule.Lines(["w1 w2 w3 w4", "w9"]), chainrule.NGramConfig(order=1))
    network = random_model(RecurrentConfig(width=12, layers=1, memory=memory), ngram.vocabulary_size)
    model = chainrule.CausalNetwork("recurrent", network, ngram.tokenizer, speller=ngram.speller)
    texts = ["w3 w4 w1", "w3", "", "w9 w9 w3 w4 w1"]
    alone = [model.score([text])[0] for text in texts]
    assert model.score(texts) == pytest.approx(alone, rel=1e-5)
    assert model.score(texts[::-1])[::-1] == pytest.approx(alone, rel=1e-5)
    stream = ngram.tokenizer.encode_texts(texts).ids
    stops = np.flatnonzero(stream == 2)
    running = np.add.reduceat(model.engine.score_stream(stream), np.concatenate([[0], stops[:-1] + 1]))
    assert model.score(texts, running=True) == pytest.approx(running, rel=1e-5)
    assert (abs(running - alone) > 1e-4).any() == (memory == "stream")
    with pytest.raises(SettingError, match="give either given or running"):
        model.score(texts, given="w1", running=True)


def test_no_documents_have_no_scores() -> None:
    model, _ = train_ngram(stream_of([[3]]), 4, NGramConfig(order=1))
    assert score_sentences(model, np.empty(0, np.int32)).log_probs.size == 0
