"""Estimators against nltk.lm, whose figures `fixtures/make_nltk.py` wrote down, with its markers aligned to ours."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import chainrule
from chainrule.ngram.config import NGramConfig
from chainrule.text.corpus.corpus import Lines

if TYPE_CHECKING:
    from pathlib import Path

CONFIGS: dict[str, dict[str, Any]] = {
    "maximum-likelihood": {},
    "laplace": {},
    "lidstone": {"pseudocount": 0.3},
    "stupid-backoff": {},
    "witten-bell": {},
    "absolute": {"discount": (0.75,)},
}


@pytest.fixture(scope="module")
def nltk(fixtures: Path) -> dict[str, Any]:
    return json.loads((fixtures / "nltk.json").read_text())


@pytest.mark.parametrize("name", CONFIGS)
def test_every_score_is_that_of_nltk(name: Any, nltk: dict[str, Any]) -> None:
    config = NGramConfig(order=nltk["order"], smoothing=name, begins="all", **CONFIGS[name])
    model = chainrule.train(Lines(nltk["sentences"]), config, tokenizer="whitespace")
    vocabulary = model.tokenizer.vocabulary

    def prob(context: list[str], word: str, model: chainrule.Model = model) -> float:
        prefix = np.array([vocabulary.id_of(each) for each in context if each != "<s>"], np.int32)
        token = np.array([vocabulary.id_of(word)], np.int32)
        [row] = model.language_model.score([token], prefixes=[prefix], end=False)
        return math.exp(row[0])

    lower = NGramConfig(order=2, smoothing=name, **CONFIGS[name])
    bigrams = chainrule.train(Lines(nltk["sentences"]), lower, tokenizer="whitespace")
    rows = [row for row in nltk["rows"] if row["smoothing"] == name]
    assert len(rows) > 40
    for row in rows:
        context, word = row["context"], row["word"].replace("<UNK>", "<unk>")
        if "score" not in row:
            # alpha + gamma p(word | the context without its first word); <s> alone is no context of ours.
            if context[0] == "<s>":
                continue
            below = prob(context[1:], word, bigrams)
            expected = row["alpha"] + row["gamma"] * below
            assert prob(context, word) == pytest.approx(expected, rel=1e-5), row
        elif name == "maximum-likelihood" and row["score"] == 0:
            # After contexts that it has never seen, NLTK gives nothing at all.
            assert prob(context, word) == 0 or context in (["sat", "sat"], ["off", "off"])
        elif word != "<unk>" or name != "stupid-backoff":
            assert prob(context, word) == pytest.approx(row["score"], rel=1e-5), row
