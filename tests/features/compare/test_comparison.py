"""Models side by side."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from chainrule.errors import SettingError
from chainrule.evaluation.measurement import Measurement
from chainrule.evaluation.resampling import Documents, difference
from chainrule.features.compare.comparison import Comparison, Contender


def contender(
    name: str,
    nats: tuple[float, ...] = (7, 7),
    text: str = "text:1",
    tokens: str = "tok:1",
    setting: str | None = None,
    seed: int | None = None,
    **details: Any,
) -> Contender:
    measurement = Measurement(
        documents=2,
        tokens=8,
        oov=2,
        words=6,
        characters=19,
        log_prob=-10.0,
        log_prob_without_oov=-5.0,
        spelling_log_prob=-4.0,
        text_log_prob=-sum(nats),
        matched=None,
        row_sums=None,
        bytes=20,
        seconds=0.123,
        text_signature=text,
        token_signature=tokens,
        model_signature=f"spell:{name}",
        per_document=Documents(np.array(nats, float), np.array([10] * len(nats))),
    )
    return Contender(
        name=name,
        measurement=measurement,
        train_seconds=1.5,
        parameters=12345,
        configuration=setting,
        seed=seed,
        **details,
    )


def table(comparison: Comparison) -> list[dict[str, str]]:
    return [dict(zip(comparison.header(), row, strict=True)) for row in comparison.rows()]


def test_a_row_is_hand_arithmetic() -> None:
    bits = 14 / math.log(2) / 20
    perplexity, known = math.exp(10 / 8), math.exp(5 / 6)  # of the 8 tokens, 2 are unknown
    assert table(Comparison([contender("a")])) == [
        {
            "model": "a",
            "bits/byte": f"{bits:.4f}",
            "±95 %": "0.0000",
            "p": "best",
            "perplexity": f"{perplexity:.2f}",
            "without OOV": f"{known:.2f}",
            "OOV": "25.00%",
            "parameters": "12,345",
            "train s": "1.50",
            "eval s": "0.12",
        }
    ]


def test_figures_on_different_texts_never_share_a_column() -> None:
    comparison = Comparison([contender("a"), contender("b", (3, 4), "text:2"), contender("c", (8, 8))])
    assert comparison.texts == ["text:1", "text:2"]
    first, second, third = table(comparison)
    kinds = ("bits/byte", "±95 %", "p")
    assert [first[f"{kind} [1]"] for kind in kinds] == [f"{0.7 / math.log(2):.4f}", "0.0000", "best"]
    assert [second[f"{kind} [2]"] for kind in kinds][::2] == [f"{0.35 / math.log(2):.4f}", "best"]
    assert [row[f"{kind} [{n}]"] for kind in kinds for row, n in ((first, 2), (second, 1), (third, 2))] == [""] * 9
    assert third["p [1]"] not in ("", "best")
    assert not any("perplexity" in column for column in comparison.header())
    assert comparison.best.name == "a"


def test_perplexities_of_different_tokens_never_share_a_column() -> None:
    comparison = Comparison([contender("a"), contender("b", tokens="tok:2")])
    row = table(comparison)[0]
    assert row["word perplexity"] == f"{math.exp(14 / 6):.2f}"
    assert not {"perplexity", "without OOV", "OOV"} & row.keys()


def test_the_best_has_the_fewest_bits_and_of_equals_the_first() -> None:
    contenders = [contender("a", (9, 9)), contender("b", (5, 5)), contender("c", (5, 5)), contender("d", (1, math.inf))]
    assert Comparison(contenders).best.name == "b"


def test_models_are_compared_with_the_best_document_by_document() -> None:
    a, b = contender("a", (5, 6, 5, 7, 5)), contender("b", (6, 7, 7, 8, 6))
    comparison = Comparison([b, a])
    assert comparison.differences == [difference(b.measurement.per_document, a.measurement.per_document), None]
    assert [row["p"] for row in table(comparison)] == [f"{comparison.differences[0].p_value:.4f}", "best"]
    low, high = comparison.differences[0].interval
    assert comparison.as_json()[0]["to_best"] == {
        "bits_per_byte": comparison.differences[0].bits_per_byte,
        "low": low,
        "high": high,
        "p_value": comparison.differences[0].p_value,
    }


def test_a_model_that_is_worse_does_not_look_as_good_as_the_best() -> None:
    """A row had 1.5106 beside the 1.5106 of the best, and p 0.0001."""
    best, worse = contender("a", (1.0,) * 30), contender("b", (1.000003,) * 30)
    bits = [f"{30 * nats / 20 / math.log(2):.5f}" for nats in (1.0, 1.000003)]
    assert [row["bits/byte"] for row in table(Comparison([best, worse]))] == bits == ["2.16404", "2.16405"]
    assert Comparison([best, contender("b", (1.1,) * 30)]).digits == 4
    assert Comparison([best, contender("b", (1.0,) * 30)]).digits == 4  # equal


def test_of_many_models_the_best_of_each_kind_is_coloured() -> None:
    families = ["uniform", "ngram", "ngram", "recurrent", "transformer", "mixture", "mixture", None]
    curve = ((1.0, 3.0), (2.0, 2.0))
    many = [contender(f"{i}", (7 - i / 10, 7), family=kind, curve=curve) for i, kind in enumerate(families)]
    [learning] = [plot for plot in Comparison(many).plots() if plot.name == "learning-curves"]
    assert {line.label: line.look for line in learning.lines if line.style == "plain"} == {"2": 0, "4": 1, "6": 2}
    assert {line.label for line in learning.lines} == {f"{i}" for i in range(len(families))}
    [few] = Comparison(many[:4]).plots()
    assert [(line.look, line.style) for line in few.lines] == [(i, "plain") for i in range(4)]


def test_models_of_one_configuration_have_a_spread_where_their_seeds_differ() -> None:
    contenders = [
        contender("a", (7, 7), setting="x", seed=0),
        contender("b", (8, 8), setting="x", seed=1),
        contender("a again", (7, 7), setting="x", seed=0),  # a copy, which is no other draw
        contender("c", (9, 9), setting="x", seed=2),
        contender("d", setting="y", seed=3),
        contender("e"),
        contender("f"),
        contender("g", (1, 1), setting="z"),  # whose training has no seed
        contender("h", (2, 2), setting="z"),
    ]
    comparison = Comparison(contenders)
    [spread] = comparison.spreads()
    assert spread.names == ("a", "b", "c")
    assert [row["model"] for row in comparison.as_json() if row["spread"]] == ["a", "b", "c"]
    assert spread.mean == pytest.approx(16 / 20 / math.log(2))
    assert spread.deviation == pytest.approx(2 / 20 / math.log(2))


def test_json_has_the_figures_of_each_model_and_null_for_what_is_infinite() -> None:
    rows = Comparison([contender("a"), contender("b", (1, math.inf))]).as_json()
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert [(row["model"], row["parameters"], row["train_seconds"]) for row in rows] == [
        ("a", 12345, 1.5),
        ("b", 12345, 1.5),
    ]
    assert [row["signature"] for row in rows] == ["text:1+tok:1|spell:a", "text:1+tok:1|spell:b"]
    assert rows[0]["perplexity"] == pytest.approx(math.exp(10 / 8))
    assert rows[0]["to_best"] is None
    assert rows[1]["bits_per_byte"] is rows[1]["bits_per_byte_low"] is rows[1]["to_best"]["p_value"] is None


def test_no_models_cannot_be_compared() -> None:
    with pytest.raises(SettingError, match="no model to compare"):
        Comparison([])
