"""Query likelihood and measures of rankings, against arithmetic by hand."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import examples

import chainrule
from chainrule.errors import SettingError, TextError
from chainrule.features.corpus.options import RankConfig
from chainrule.features.corpus.ranking import average_precision, measure_rankings, ndcg
from chainrule.features.corpus.retrieval import DocumentIndex

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = {"a": "the bank of the river", "b": "the dog bit the man", "c": "a river ran by the bank"}


@pytest.fixture(scope="module")
def model() -> chainrule.Model:
    return chainrule.train(chainrule.Lines([*DOCUMENTS.values(), "I saw the man"]), chainrule.NGramConfig(order=2))


def test_scores_by_hand() -> None:
    """Two documents, 3 4 4 and 3 5: c(3) = 2 of 5 tokens, c(4) = 2, c(5) = 1; the query is 4 4 7, and 7 is nowhere."""
    index = DocumentIndex([np.array([3, 4, 4], np.int32), np.array([3, 5], np.int32)], 8)
    query = np.array([4, 4, 7], np.int32)
    mu = 10.0
    dirichlet = [2 * math.log((2 + mu * 0.4) / (3 + mu)), 2 * math.log((0 + mu * 0.4) / (2 + mu))]
    assert index.scores(query, RankConfig(mu=mu)).tolist() == pytest.approx(dirichlet)
    mercer = [2 * math.log(0.75 * 2 / 3 + 0.25 * 0.4), 2 * math.log(0.25 * 0.4)]
    config = RankConfig(smoothing="jelinek-mercer", share=0.25)
    assert index.scores(query, config).tolist() == pytest.approx(mercer)


@examples(1.5)
@given(st.lists(st.lists(st.integers(3, 9), max_size=6), min_size=1, max_size=5), st.sampled_from([0.3, 0.9]))
def test_the_models_of_documents_sum_to_one(documents: list[list[int]], share: float) -> None:
    if not any(documents):
        return
    index = DocumentIndex([np.array(document, np.int32) for document in documents], 10)
    for config in (RankConfig(), RankConfig(smoothing="jelinek-mercer", share=share)):
        seen = sorted({token for document in documents for token in document})
        scores = [index.scores(np.array([token], np.int32), config) for token in seen]
        totals = np.exp(scores).sum(0)
        for document, total in zip(documents, totals.tolist(), strict=True):
            # An empty document has no words of its own, so that Jelinek-Mercer leaves it the share of the collection.
            expected = share if not document and config.smoothing == "jelinek-mercer" else 1.0
            assert total == pytest.approx(expected)


def test_measures_by_hand() -> None:
    """Relevant documents at ranks 1 and 3, and one that is not ranked: (1 / 1 + 2 / 3) / 3."""
    relevance = {"x": 1, "z": 1, "missing": 1, "y": 0}
    assert average_precision(["x", "y", "z"], relevance) == pytest.approx((1 + 2 / 3) / 3)
    graded = {"x": 2, "y": 0, "z": 1}
    gain = 3 / math.log2(2) + 1 / math.log2(4)
    assert ndcg(["x", "y", "z"], graded) == pytest.approx(gain / (3 + 1 / math.log2(3)))
    figures = measure_rankings({"1": ["x", "y", "z"], "2": ["y"]}, {"1": relevance, "2": {"y": 0}})
    assert figures is not None
    assert (figures.queries, figures.map) == (1, pytest.approx((1 + 2 / 3) / 3))
    assert measure_rankings({"1": ["x"]}, {"1": {"x": 0}}) is None


def test_documents_with_the_words_of_the_query_come_first(model: chainrule.Model) -> None:
    ranked = chainrule.rank(model, {"q": "the river bank"}, DOCUMENTS, judgements={"q": {"a": 1, "c": 1}})
    assert {document.name for document in ranked.documents["q"][:2]} == {"a", "c"}
    assert ranked.figures is not None
    assert (ranked.figures.map, ranked.figures.ndcg) == (1.0, 1.0)


def test_unknown_words_are_words_of_their_own(model: chainrule.Model) -> None:
    documents = {"a": "the quux sat here", "b": "the blorb flim zork"}
    ranked = chainrule.rank(model, {"rare": "quux", "nowhere": "xylophone"}, documents)
    assert [document.name for document in ranked.documents["rare"]] == ["a", "b"]
    assert ranked.documents["nowhere"] == []


def test_any_model_gives_the_query_after_the_document(model: chainrule.Model) -> None:
    ranked = chainrule.rank(model, {"q": "the river"}, DOCUMENTS, by_model=True)
    scores = model.score([" the river"] * 3, given=list(DOCUMENTS.values()))
    expected = sorted(zip(scores.tolist(), DOCUMENTS, strict=True), key=lambda pair: -pair[0])
    assert [(document.log_prob, document.name) for document in ranked.documents["q"]] == expected


def test_files_and_their_errors(model: chainrule.Model, tmp_path: Path) -> None:
    queries, documents, grades = (tmp_path / name for name in ("q.txt", "d.jsonl", "qrels.txt"))
    queries.write_text("the river\n\nthe dog\n")
    documents.write_text("".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in DOCUMENTS.items()))
    grades.write_text("1 0 a 1\n3 0 b 2\n")
    ranked = chainrule.rank(model, queries, documents, judgements=grades, top=1)
    assert list(ranked.documents) == ["1", "3"]
    assert ranked.documents["3"][0].name == "b"
    assert ranked.figures is not None
    assert ranked.figures.queries == 2
    grades.write_text("1 0 a good\n")
    with pytest.raises(TextError, match=r"qrels.txt, line 1: found '1 0 a good'; expected a query, 0, a document"):
        chainrule.rank(model, queries, documents, judgements=grades)
    documents.write_text('{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n')
    with pytest.raises(TextError, match=r"line 2: a document before it has the id 'a'"):
        chainrule.rank(model, queries, documents)
    documents.write_text('{"text": ""}\n')
    with pytest.raises(TextError, match="the documents are empty"):
        chainrule.rank(model, queries, documents)
    queries.write_text("\n")
    with pytest.raises(TextError, match="there is no query in it"):
        chainrule.rank(model, queries, documents)


@pytest.mark.parametrize("wrong", [{"smoothing": "laplace"}, {"mu": 0.0}, {"mu": math.inf}, {"share": 1.0}])
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingError, match=next(iter(wrong))):
        RankConfig(**wrong)  # type: ignore[arg-type]
