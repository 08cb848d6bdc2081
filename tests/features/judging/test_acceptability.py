"""Minimal pairs: who wins is counted by hand; intervals solve the equation that they are defined by."""

from __future__ import annotations

import gzip
import json
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule
from chainrule.errors import TextError
from chainrule.features.judging.minimal_pairs import RULES, MinimalPair, judge, read_pairs
from chainrule.features.metrics.classification import Accuracy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SCORES = {"aa": (-4.0, 2), "ab": (-5.0, 4), "é": (-1.0, 1), "never": (-math.inf, 1)}


def price(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    log_probs, tokens = zip(*(SCORES[text] for text in texts), strict=True)
    return np.array(log_probs), np.array(tokens)


def shares(good: str, bad: str) -> dict[str, float]:
    [_, everything] = judge([MinimalPair(good, bad, "one", "")], price)
    return {rule: accuracy.share for rule, accuracy in everything.by_rule.items()}


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        ("aa", "ab", (1, 0, 1, 1)),  # -4 > -5; -4/2 < -5/4; -4/3 > -5/3 by characters and bytes
        ("é", "aa", (1, 1, 1, 1)),  # -1/2 > -4/3, and -1/3 > -4/3
        ("aa", "aa", (0.5, 0.5, 0.5, 0.5)),
        ("never", "never", (0.5, 0.5, 0.5, 0.5)),
        ("never", "ab", (0, 0, 0, 0)),
        ("ab", "never", (1, 1, 1, 1)),
    ],
)
def test_a_pair_is_judged_by_each_rule(good: str, bad: str, expected: tuple[float, ...]) -> None:
    assert tuple(shares(good, bad).values()) == expected
    assert tuple(shares(good, bad)) == RULES


def test_bytes_and_characters_differ_beyond_ascii() -> None:
    scores = {"éé": (-5.0, 1), "abc": (-6.0, 1)}

    def of(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        return np.array([scores[text][0] for text in texts]), np.ones(len(texts), np.int64)

    [_, everything] = judge([MinimalPair("éé", "abc", "one", "")], of)
    assert everything.by_rule["character"].share == 0  # -5/3 < -6/4
    assert everything.by_rule["byte"].share == 1  # -5/5 > -6/4


def test_sums_that_were_rounded_apart_are_a_tie() -> None:
    scores = {"x": -30.0, "y": -30.000002, "z": -30.001}

    def of(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        return np.array([scores[text] for text in texts]), np.ones(len(texts), np.int64)

    rows = judge([MinimalPair("x", "y", "close", ""), MinimalPair("x", "z", "apart", "")], of)
    assert [row.by_rule["sum"] for row in rows] == [Accuracy(1, 0, 1), Accuracy(1, 1, 0), Accuracy(2, 1, 1)]


def test_sentences_that_a_tokenizer_does_not_tell_apart_are_a_tie_by_every_rule(tmp_path: Path) -> None:
    model = chainrule.train(chainrule.Lines(["a b", "b a"]), chainrule.NGramConfig(order=2))
    pairs = [("a  b", "a b"), ("x  b", "x b"), ("xx b", "y b")]  # the last two by their spelling alone
    (tmp_path / "pairs.jsonl").write_text(
        "".join(json.dumps({"UID": bad, "sentence_good": good, "sentence_bad": bad}) + "\n" for good, bad in pairs)
    )
    *sets, _ = model.judge_pairs(tmp_path / "pairs.jsonl")
    assert [[each.by_rule[rule].ties for rule in RULES] for each in sets] == [[1] * 4, [1] * 4, [0] * 4]


def test_an_end_that_costs_nothing_counts_as_nothing() -> None:
    """Two nats of one byte to five of three: 2 is more than 5 / 3, but 2 / 2 is less than 5 / 4."""

    def of(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        return np.array([{"x": -2.0, "xyz": -5.0}[text] for text in texts]), np.ones(len(texts), np.int64)

    pair = [MinimalPair("x", "xyz", "set", "")]
    wins = [judge(pair, of, ends=ends)[-1].by_rule["byte"].wins for ends in (True, False)]
    assert wins == [1, 0]


def test_accuracies_are_given_by_set_by_field_and_overall() -> None:
    pairs = [
        MinimalPair("aa", "ab", "first", "syntax"),
        MinimalPair("ab", "aa", "first", "syntax"),
        MinimalPair("aa", "aa", "second", "syntax"),
        MinimalPair("é", "ab", "third", ""),
    ]
    rows = judge(pairs, price)
    assert [(row.kind, row.name, row.pairs, row.by_rule["sum"].share) for row in rows] == [
        ("set", "first", 2, 0.5),
        ("set", "second", 1, 0.5),
        ("set", "third", 1, 1.0),
        ("field", "syntax", 3, 0.5),
        ("all", "", 4, 2.5 / 4),
    ]
    assert rows[-1].by_rule["sum"].ties == 1


@pytest.mark.parametrize(("wins", "pairs"), [(0, 7), (8, 10), (713, 1000), (5, 5)])
def test_a_bound_is_as_far_as_its_own_deviation_allows(wins: int, pairs: int) -> None:
    """Wilson's bounds are the two p that solve |found - p| = z sqrt(p (1 - p) / n), with z = 1.96."""
    low, high = Accuracy(pairs, wins, 0).interval
    assert 0 <= low <= wins / pairs <= high <= 1
    for bound in (low, high):
        deviation = 1.959964 * math.sqrt(bound * (1 - bound) / pairs)
        assert abs(wins / pairs - bound) == pytest.approx(deviation, abs=1e-6)


def test_pairs_are_read_in_the_form_of_blimp(tmp_path: Path) -> None:
    whole = {"sentence_good": "He sleeps.", "sentence_bad": "He sleep.", "UID": "agreement", "field": "morphology"}
    bare = {"sentence_good": "a", "sentence_bad": "b", "field": None}
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps(whole) + "\n\n" + json.dumps(bare) + "\n")
    expected = [MinimalPair("He sleeps.", "He sleep.", "agreement", "morphology"), MinimalPair("a", "b", str(path), "")]
    assert read_pairs([str(path)]) == expected
    (tmp_path / "README.md").write_text("no pairs")
    with gzip.open(tmp_path / "numbers.jsonl.gz", "wt") as file:
        file.write(json.dumps({**bare, "UID": 12}) + "\n")
    assert read_pairs([str(tmp_path)]) == [MinimalPair("a", "b", "12", ""), *expected]
    (tmp_path / "empty").mkdir()
    with pytest.raises(TextError, match="no file of pairs"):
        read_pairs([str(tmp_path / "empty")])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"sentence_good": "a"}', "line 1: there is no field 'sentence_bad'; there are 'sentence_good'"),
        ('{"sentence_good": "a", "sentence_bad": 3}', "line 1: sentence_bad is 3; expected a sentence"),
        ('{"sentence_good": " ", "sentence_bad": "a"}', "line 1: sentence_good is ' '"),
        ("[1]", "line 1: found a list, expected a JSON object"),
        ('{"sentence_good": "a", "sentence_bad": "b", "UID": [12]}', "line 1: UID is [12]; expected a name"),
        ("{", "line 1: is not JSON"),
        ("", "there is no pair in it"),
    ],
)
def test_bad_pairs_are_refused_with_their_place(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_text(line + "\n")
    with pytest.raises(TextError, match=r"pairs\.jsonl") as refused:
        read_pairs([str(tmp_path / "pairs.jsonl")])
    assert message in str(refused.value)


def test_bad_pairs_are_named_and_the_others_judged(tmp_path: Path) -> None:
    """Seven pairs of BLiMP hold the same sentence twice: a tie, whatever the model."""
    good = '{"sentence_good": "a b", "sentence_bad": "b c", "UID": "x"}'
    same = '{"sentence_good": "a", "sentence_bad": "a", "UID": "x"}'
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join([good, same, "{", good, '{"sentence_good": "a"}', same, ""]))
    model = chainrule.train(chainrule.Lines(["a b a b", "b a c"] * 3))
    found: list[str] = []
    rows = model.judge_pairs(path, warn=found.append)
    assert [(row.pairs, row.by_rule["sum"].ties) for row in rows] == [(4, 2), (4, 2)]
    assert rows[0].by_rule["sum"].share in (1 / 4, 3 / 4)
    assert [line.split(": ")[0].rpartition(" ")[2] for line in found] == ["3", "5", "skipped"]
    [note] = rows.notes()
    assert note.startswith(f"{path}, line 2: both sentences, and those of 1 other pairs, are the same")
    with pytest.warns(UserWarning, match=r"line \d: |skipped"):
        model.judge_pairs(path)
    with pytest.raises(TextError, match="line 3: is not JSON"):
        model.judge_pairs(path, bad_records="stop")


def test_unknown_words_are_spelled(tmp_path: Path) -> None:
    """Two words that the model has not seen: the one that is spelled like its words is likelier."""
    model = chainrule.train(chainrule.Lines(["banana bandana", "cabana banana", "ban can nab"] * 3))
    record = {"sentence_good": "banana canaba", "sentence_bad": "banana zzqxjk"}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(record) + "\n")
    [_, everything] = model.judge_pairs(tmp_path / "pairs.jsonl")
    assert everything.by_rule["byte"] == Accuracy(1, 1, 0)
