"""Models and scores against those of KenLM's lmplz and query, on train.txt and heldout.txt."""

from __future__ import annotations

import gzip
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracles import grams_of, parsed_arpa

from chainrule.ngram.config import NGramConfig
from chainrule.ngram.training import train_ngram
from chainrule.protocol import UNKNOWN
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from pathlib import Path

ESTIMATED = {
    "order1": NGramConfig(order=1),
    "order3": NGramConfig(order=3),
    "order3-no-unigram-interpolation": NGramConfig(order=3, interpolate_unigrams=False),
    "order4-pruned-0-1-1-2": NGramConfig(order=4, prune=(0, 1, 1, 2)),
    "order2-fallback": NGramConfig(order=2),
    "order5-fallback": NGramConfig(order=5),
}
QUERIED = ["order3", "order4-pruned-0-1-1-2", "order5-fallback"]


@pytest.mark.parametrize("name", ESTIMATED)
def test_every_n_gram_has_the_probability_and_backoff_that_lmplz_gives_it(name: str, encoded, fixtures: Path) -> None:
    expected = parsed_arpa(fixtures / f"{name}.arpa.gz")
    model, _ = train_ngram(encoded.train, encoded.tokenizer.vocabulary_size, ESTIMATED[name])
    tokens = [token.decode() for token in encoded.tokenizer.vocabulary.tokens()]
    actual = {tuple(tokens[word] for word in gram): pair for gram, pair in grams_of(model.table).items()}
    assert actual.pop(("<s>",))[0] == -math.inf  # lmplz writes 0 for what is never predicted
    assert actual.keys() == expected.keys() - {("<s>",)}
    names = list(actual)
    assert len(names) > 300
    log10 = np.array([actual[gram] for gram in names]) / math.log(10)
    np.testing.assert_allclose(log10, [expected[gram] for gram in names], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", QUERIED)
def test_every_held_out_token_has_the_score_and_match_length_that_query_gives_it(
    name: str, encoded, fixtures: Path
) -> None:
    with gzip.open(fixtures / f"{name}.scores.tsv.gz", "rt") as file:
        header, *lines = file.read().splitlines()
    assert header.startswith("total_log10")
    model, _ = train_ngram(encoded.train, encoded.tokenizer.vocabulary_size, ESTIMATED[name])
    documents = documents_of(encoded.heldout)
    assert len(documents) == len(lines)
    assert any(UNKNOWN in document for document in documents)
    assert any(document.size == 0 for document in documents)
    scores, lengths = model.score(documents), model.match_lengths(documents)
    for line, document, log_probs, matched in zip(lines, documents, scores, lengths, strict=True):
        total, tokens = line.split("\t")
        expected = [token.split(":") for token in tokens.split()]
        log10 = log_probs.astype(float) / math.log(10)
        np.testing.assert_allclose(log10, [float(log_prob) for log_prob, _, _ in expected], rtol=0, atol=1e-5)
        assert log10.sum() == pytest.approx(float(total), abs=1e-4)
        assert matched.tolist() == [int(length) for _, length, _ in expected]
        assert [*(document == UNKNOWN).tolist(), False] == [oov == "1" for _, _, oov in expected]
