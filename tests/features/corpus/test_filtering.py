"""Scores of documents against the models' own figures."""

from __future__ import annotations

import json
import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas
import pytest

import chainrule
from chainrule.errors import TextError
from chainrule.features.corpus.filter import ScoreFile, choose_documents, document_scores, score_blocks

if TYPE_CHECKING:
    from pathlib import Path

LINES = ["a b a", "b", "", "zz a", "b b b a"]


@pytest.fixture(scope="module")
def models() -> list[chainrule.Model]:
    texts = (["a b", "b a b"], ["a a a", "b"])
    return [
        chainrule.train(chainrule.Lines(text), chainrule.NGramConfig(order=2), tokenizer=tokenizer)
        for text, tokenizer in zip(texts, ("whitespace", "character"), strict=True)
    ]


def test_a_score_is_the_cross_entropy_of_the_document_alone(models) -> None:
    [block] = chainrule.Lines(LINES).blocks()
    for line, score in zip(LINES, document_scores(block, models[0]).tolist(), strict=True):
        found = models[0].evaluate(chainrule.Lines([line]))
        assert score == pytest.approx(-found.text_log_prob / found.tokens / math.log(2), rel=1e-12)


def test_a_difference_is_per_token_of_the_first_model(models) -> None:
    [block] = chainrule.Lines(LINES).blocks()
    for line, score in zip(LINES, document_scores(block, *models).tolist(), strict=True):
        ours, theirs = (model.evaluate(chainrule.Lines([line])) for model in models)
        assert score == pytest.approx((theirs.text_log_prob - ours.text_log_prob) / ours.tokens / math.log(2))


def test_what_is_chosen_are_the_lowest_in_their_order(models) -> None:
    source = chainrule.Lines(LINES)
    with ScoreFile() as scores:
        found = np.concatenate([row for _, row in score_blocks(source, scores, models[0])])
        for count in range(1, 6):
            kept = [
                line for block in choose_documents(source, scores, scores.lowest(count)) for line in block.documents()
            ]
            assert kept == [LINES[i] for i in sorted(np.argsort(found, kind="stable")[:count])]


@pytest.mark.parametrize("lines", [LINES[:-1], [*LINES, "a"]])
def test_a_text_that_changed_since_it_was_scored_is_an_error(models, lines: list[str]) -> None:
    with ScoreFile() as scores:
        list(score_blocks(chainrule.Lines(LINES), scores, models[0]))
        with pytest.raises(TextError, match="has changed since it was scored"):
            list(choose_documents(chainrule.Lines(lines), scores, scores.lowest(2)))


@pytest.mark.parametrize("target", [".jsonl", ".csv", ".tsv", ".parquet"])
def test_records_that_are_kept_are_whole(target: str, tmp_path: Path) -> None:
    rows = [{"id": i, "text": f'a "b" {i}', "by": f"x, {i}", "rate": i / 4} for i in range(30)]
    source, output = tmp_path / "a.jsonl", tmp_path / f"kept{target}"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = chainrule.Corpus.of(source)
    model = chainrule.train(chainrule.Lines([str(row["text"]) for row in rows]), chainrule.NGramConfig(order=2))
    kept = chainrule.filter(corpus, model, keep=0.5, output=output)
    read = {".jsonl": partial(pandas.read_json, lines=True), ".parquet": pandas.read_parquet}
    found = read.get(target, partial(pandas.read_csv, sep=None, engine="python"))(output).to_dict("records")
    assert [row["text"] for row in found] == chainrule.filter(corpus, model, keep=0.5).texts
    assert all(row == rows[row["id"]] for row in found)
    assert len(found) == kept.kept == 15
