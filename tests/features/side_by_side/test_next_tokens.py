"""Next tokens of several models, against relative frequencies counted by hand."""

from __future__ import annotations

import csv
import math
from typing import TYPE_CHECKING

import pytest

import chainrule as library

if TYPE_CHECKING:
    from pathlib import Path

FIRST = ["a b", "a b", "a c", "d"]
SECOND = ["a c", "a e", "a e", "a e"]


def model_of(lines: list[str], tokenizer: str = "whitespace", **settings: str) -> library.CausalModel:
    config = library.NGramConfig(order=2, smoothing="maximum-likelihood", **settings)
    return library.train(library.Lines(lines), config, tokenizer=tokenizer)


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    for name, lines in (("first", FIRST), ("second", SECOND)):
        model_of(lines).save(tmp_path / name)
    return [tmp_path / "first", tmp_path / "second"]


def test_rows_are_the_best_of_each_model_in_the_order_of_the_first() -> None:
    models = {"first": model_of(FIRST), "second": model_of(SECOND)}
    table = library.next_tokens(models, "a", top=2)
    # After a, the first text has b twice and c once, the second one c once and e three times.
    expected = [("b", 2 / 3, None), ("c", 1 / 3, 1 / 4), ("e", None, 3 / 4)]
    for row, (token, one, other) in zip(table, expected, strict=True):
        assert row["token"] == token
        assert (row["prob_first"], row["prob_second"]) == (pytest.approx(one), pytest.approx(other))
        assert row["log_prob_first"] == (None if one is None else pytest.approx(math.log(one)))
    assert str(table).splitlines()[1].split() == ["b", "0.666667", "unknown"]
    assert [*table.notes()] == [
        "first does not know one of these tokens, which is a part of its <unk>",
        "second does not know one of these tokens, which is a part of its <unk>",
    ]
    one_each = library.next_tokens(models, "a", top=1)
    assert [row["token"] for row in one_each] == ["b", "e"]


def test_what_a_model_knows_and_does_not_expect_has_probability_zero() -> None:
    table = library.next_tokens({"first": model_of(FIRST), "second": model_of(["a d"])}, "a")
    by_token = {row["token"]: row for row in table}
    assert (by_token["d"]["prob_first"], by_token["d"]["log_prob_first"]) == (0.0, None)


def test_the_shell_prints_and_writes_the_same(folders: list[Path], chainrule, tmp_path: Path) -> None:
    models = {path.name: library.load(path, library.CausalModel) for path in folders}
    expected = library.next_tokens(models, "a x", top=3)
    result = chainrule("next", folders[0], "a x", "--top", 3, "--also", folders[1])
    assert result.out == f"{expected}\n"
    for name in models:
        assert f"note: {name} does not know x of the prompt" in result.err
    rows = chainrule("next", folders[0], "a x", "--top", 3, "--also", folders[1], "--json").json
    assert rows == expected.to_records()
    chainrule("next", folders[0], "a x", "--top", 3, "--also", folders[1], "-o", tmp_path / "next.csv")
    with open(tmp_path / "next.csv", newline="") as file:
        written = [*csv.DictReader(file)]
    assert [{name: value or None for name, value in row.items()} for row in written] == [
        {name: None if value is None else str(value) for name, value in row.items()} for row in rows
    ]


def test_tokens_of_different_kinds_share_no_rows(folders: list[Path], chainrule, tmp_path: Path) -> None:
    model_of(FIRST, "character").save(tmp_path / "letters")
    message = chainrule("next", folders[0], "a", "--also", folders[1], tmp_path / "letters").error
    assert "first and letters cut texts into different tokens" in message
    assert "whitespace and character" in message
    assert "--tokenizer" in message


def test_models_to_compare_are_needed() -> None:
    with pytest.raises(library.SettingError, match="give at least one"):
        library.next_tokens({})
    with pytest.raises(library.SettingError, match="top is 0"):
        library.next_tokens({"first": model_of(FIRST)}, "a", top=0)
