"""Models side by side."""

from __future__ import annotations

import json
import math

import pytest

from chainrule.errors import SettingError
from chainrule.evaluation.comparison import Comparison, Contender
from chainrule.evaluation.likelihood import Measurement


def contender(name: str, log_prob: float = -10.0, text: str = "text:1") -> Contender:
    measurement = Measurement(
        documents=2,
        tokens=8,
        oov=2,
        log_prob=log_prob,
        log_prob_without_oov=log_prob / 2,
        spelling_log_prob=-4.0,
        bytes=20,
        seconds=0.123,
        text_signature=text,
        model_signature=f"tok:{name}",
    )
    return Contender(name=name, measurement=measurement, train_seconds=1.5, parameters=12345)


def test_figures_on_different_texts_are_refused() -> None:
    with pytest.raises(SettingError, match=r"different texts cannot stand in one table: text:1, text:2"):
        Comparison([contender("a"), contender("b", text="text:2")])


def test_different_models_on_one_text_may_stand_side_by_side() -> None:
    assert len(Comparison([contender("a"), contender("b")]).rows()) == 2


def test_the_best_has_the_fewest_bits_and_of_equals_the_first() -> None:
    contenders = [contender("a", -12), contender("b", -8), contender("c", -8), contender("d", -math.inf)]
    assert Comparison(contenders).best.name == "b"


def test_a_row_is_hand_arithmetic() -> None:
    comparison = Comparison([contender("a", -10.0)])
    bits = (10 + 4) / math.log(2) / 20
    perplexity, known = math.exp(10 / 8), math.exp(5 / 6)  # of the 8 tokens, 2 are unknown
    assert dict(zip(comparison.header(), comparison.rows()[0], strict=True)) == {
        "model": "a",
        "bits/byte": f"{bits:.4f}",
        "perplexity": f"{perplexity:.2f}",
        "without OOV": f"{known:.2f}",
        "OOV": "25.00%",
        "parameters": "12,345",
        "train s": "1.50",
        "eval s": "0.12",
    }


def test_json_has_the_figures_of_each_model_and_null_for_what_is_infinite() -> None:
    rows = Comparison([contender("a"), contender("b", -math.inf)]).as_json()
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert [(row["model"], row["parameters"], row["train_seconds"]) for row in rows] == [
        ("a", 12345, 1.5),
        ("b", 12345, 1.5),
    ]
    assert [row["signature"] for row in rows] == ["text:1+tok:a", "text:1+tok:b"]
    assert rows[0]["perplexity"] == pytest.approx(math.exp(10 / 8))
    assert rows[1]["perplexity"] is rows[1]["bits_per_byte"] is rows[1]["log_prob"] is None
