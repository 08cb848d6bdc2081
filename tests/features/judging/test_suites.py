"""Test suites: formulas by hand arithmetic, regions against sums over prefixes, and what is said of a bad file."""

from __future__ import annotations

import gzip
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import chainrule as library
from chainrule.errors import TextError
from chainrule.evaluation.resampling import wilson_interval
from chainrule.features.judging.suites import holds, parse_formula, read_suite, region_bits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BITS = {"a": {1: 2.0, 2: 3.0, 3: 0.0}, "b-c": {1: 2.0, 2: 5.0, 3: 0.3}}


@pytest.mark.parametrize(
    ("formula", "expected", "with_ties"),
    [
        ("(1;%a%) < (2;%a%)", True, True),  # 2 < 3
        ("(1;%a%) > (2;%a%)", False, False),
        ("(1;%a%) < (1;%b-c%)", False, True),  # 2 = 2
        ("(1;%a%) > (1;%b-c%)", False, True),
        ("(1;%a%) = (1;%b-c%)", True, True),
        ("(*;%a%) = 5", True, True),
        ("(*;%b-c%) - (*;%a%) > 2.2", True, True),  # 7.3 - 5 = 2.3
        ("(*;%b-c%) - (*;%a%) > 2.4", False, False),
        ("5 - 2 - 1 > 1.9", True, True),  # from left to right: 2, not 4
        ("5 - [2 - 1] > 3.9", True, True),
        ("[ (1;%a%) + (2;%a%) ] < [(1;%b-c%)+(2;%b-c%)]", True, True),  # 5 < 7
        ("[(1;%a%)<(2;%a%)]&[(2;%b-c%)>(2;%a%)]&[[(2;%b-c%)-(2;%a%)]>1]", True, True),
        ("1 < 2 & 1 > 2", False, False),
        ("1 < 2 | 1 > 2", True, True),
        ("1 < 2 | 1 < 2 & 1 > 2", False, False),  # from left to right
        ("1 < 2 & 2 > 2", False, True),
        ("1 > 2 & 2 > 2", False, False),  # fails without the tie, too
        ("2 > 2 | 3 > 2", True, True),
        ("(((1;%a%) < 3))", True, True),
        ("0.1 + 0.2 > 0.3", False, True),  # rounding
        ("3 = 3.001", True, True),
        ("3 = 3.0011", False, False),  # 0.001 + 0.00003
        ("(3;%a%) < 0", False, True),
    ],
)
def test_a_formula_says_what_its_arithmetic_says(formula: str, expected: bool, with_ties: bool) -> None:
    read = parse_formula(formula)
    assert (holds(read, BITS), holds(read, BITS, ties=True)) == (expected, with_ties)


def test_what_has_no_probability_is_neither_more_nor_less() -> None:
    never = {"a": {1: math.inf, 2: 3.0}}
    assert holds(parse_formula("(1;%a%) > (2;%a%)"), never)
    for formula in ("(1;%a%) - (1;%a%) > 0", "(1;%a%) > (1;%a%)"):
        assert (holds(parse_formula(formula), never), holds(parse_formula(formula), never, ties=True)) == (False, True)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("", "character 1: it ends too early"),
        ("(1;%a%)", "it is a sum, which is not true or false"),
        ("(1;%a%) <", "character 10: it ends too early"),
        ("(1;a) < 2", "character 3: expected (region;%condition%)"),
        ("1 < x", "character 5: expected (region;%condition%), a number, an operator or a bracket"),
        ("[1 < 2", "character 1: this [ is not closed by ]"),
        ("[1 < 2)", "character 1: this [ is not closed by ]"),
        ("1 < 2]", "character 6: expected an operator, or the end"),
        ("1 < 2 < 3", "character 7: < is for sums"),
        ("[1 < 2] + 3 > 1", "character 9: + is for sums"),
        ("1 & 2", "character 3: & is for comparisons"),
        ("< 2", "character 1: expected (region;%condition%), a number or an opening bracket"),
        ("[" * 60 + "1 < 2" + "]" * 60, "character 51: expected at most 50 brackets in each other"),
    ],
)
def test_a_formula_that_cannot_be_read_is_told(formula: str, message: str) -> None:
    with pytest.raises(TextError) as raised:
        parse_formula(formula)
    assert message in str(raised.value)


LINES = ["ab a ab b", "a abb ba", "b ab a", "ba b a", "a, b."]


@pytest.fixture(scope="module")
def letters() -> library.CausalModel:
    return library.train(library.Lines(LINES), library.NGramConfig(order=3), tokenizer="character")


@pytest.fixture(scope="module")
def words() -> library.CausalModel:
    return library.train(library.Lines(LINES), library.NGramConfig(order=3), tokenizer="word")


def bits_of(model: library.CausalModel, *sentences: Sequence[str], word_ends: bool = True) -> list[list[float]]:
    rows = region_bits(model.language_model, model.speller, model.tokenizer, sentences, word_ends=word_ends)
    return [row.tolist() for row in rows]


def prefix_bits(model: library.CausalModel, text: str) -> float:
    """-log2 P(text begins so), without the end."""
    ids = model.tokenizer.encode_texts([text]).ids[:-1]
    return -float(model.language_model.score([ids], end=False)[0].sum(dtype=np.float64)) / math.log(2)


def test_a_region_costs_its_letters_and_the_space_before_it(letters: library.CausalModel) -> None:
    [own] = bits_of(letters, [" ab", "", "a  ab", "b"], word_ends=False)
    prefixes = [prefix_bits(letters, text) for text in ("ab", "ab", "ab a  ab", "ab a  ab b")]
    assert own == pytest.approx(np.diff(prefixes, prepend=0).tolist(), abs=1e-5)
    assert own[1] == 0


def test_a_word_pays_for_its_end_in_its_region(letters: library.CausalModel) -> None:
    def end(prefix: str) -> float:
        after = dict(letters.next(prefix, 20))
        return -math.log2(after["␠"] + after["</s>"])

    bare = bits_of(letters, ["ab a", "b"], word_ends=False)[0]
    [own] = bits_of(letters, ["ab a", "b"])
    assert own[0] == pytest.approx(bare[0] + end("ab a"), abs=1e-5)
    assert own[1] == pytest.approx(bare[1] - end("ab a") + end("ab a b"), abs=1e-5)


def test_tokens_of_one_word_may_be_of_several(words: library.CausalModel) -> None:
    [own] = bits_of(words, ["a,", "", "b."])
    prefixes = [prefix_bits(words, text) for text in ("a,", "a,", "a, b.")]
    assert own == pytest.approx(np.diff(prefixes, prepend=0).tolist(), abs=1e-5)


@pytest.mark.parametrize("kind", ["byte", "bpe", "character", "word", "whitespace"])
def test_regions_sum_to_the_sentence_whatever_the_tokens(kind: str) -> None:
    config = library.TokenizerConfig(kind=kind, vocabulary_size=290 if kind == "bpe" else None)
    model = library.train(library.Lines(LINES), library.NGramConfig(order=3), tokenizer=config)
    sentences = [["ab", " a ", "", "b"], ["ba ab", "a"], ["é a", "b ", "a"]]
    both = [bits_of(model, *sentences, word_ends=word_ends) for word_ends in (True, False)]
    for with_ends, without in zip(*both, strict=True):
        if kind in ("word", "whitespace"):
            assert with_ends == without
        assert all(bits >= 0 for bits in without)
    for sentence, row in zip(sentences, both[1], strict=True):
        assert bits_of(model, sentence, word_ends=False)[0] == row  # alone as beside others


def test_case_that_the_tokenizer_folds_does_not_move_borders() -> None:
    config = library.TokenizerConfig(kind="character", normalise=("nfkc", "lower"))
    model = library.train(library.Lines(["fi a fi"]), library.NGramConfig(order=2), tokenizer=config)
    [ligature], [letters] = bits_of(model, ["ﬁ", "a"]), bits_of(model, ["FI", "A"])
    assert ligature == letters
    assert letters[1] > 0


def suite(**changes: Any) -> dict[str, Any]:
    def condition(name: str, *contents: str) -> dict[str, Any]:
        regions = [{"region_number": i, "content": content} for i, content in enumerate(contents, 1)]
        return {"condition_name": name, "regions": regions}

    items = [
        {"item_number": 1, "conditions": [condition("seen", "ab", "a"), condition("new", "ab", "bbb")]},
        {"item_number": 2, "conditions": [condition("seen", "b", "bbb"), condition("new", "b", "ab")]},
        {"item_number": 3, "conditions": [condition("seen", "a", "", "b"), condition("new", "a", "", "b")]},
    ]
    predictions = [{"type": "formula", "formula": "(2;%seen%) < (2;%new%)"}]
    return {"meta": {"name": "made", "metric": "sum"}, "predictions": predictions, "items": items, **changes}


def written(path: Path, record: object) -> str:
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as file:
        json.dump(record, file, indent=1)
    return str(path)


def test_ties_are_wrong_and_reported(letters: library.CausalModel, tmp_path: Path) -> None:
    name = written(tmp_path / "made.json.gz", suite())
    [row] = letters.judge_suites(name)
    assert row.as_json() == {
        "suite": "made",
        "items": 3,
        "correct": 1,
        "ties": 1,
        "accuracy": 1 / 3,
        "low": wilson_interval(1 / 3, 3)[0],
        "high": wilson_interval(1 / 3, 3)[1],
        "predictions": [{"formula": "(2;%seen%) < (2;%new%)", **row.all.as_json()}],
    }


def test_an_item_is_right_where_all_predictions_hold(letters: library.CausalModel, tmp_path: Path) -> None:
    formulas = ["(2;%seen%) < (2;%new%)", "(1;%seen%) = (1;%new%)", "(2;%seen%) > (2;%new%)"]
    predictions = [{"type": "formula", "formula": formula} for formula in formulas]
    [row] = letters.judge_suites([written(tmp_path / "made.json", suite(predictions=predictions))])
    assert [(own.correct, own.ties) for _, own in row.predictions] == [(1, 1), (3, 0), (1, 1)]
    assert (row.all.correct, row.all.ties) == (0, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"predictions": [{"formula": "(9;%seen%) < 1"}]},
            "item 1: condition 'seen' has no region 9, which the formula",
        ),
        ({"predictions": [{"formula": "(1;%old%) < 1"}]}, "item 1: there is no condition 'old'"),
        ({"predictions": [{"formula": "(1;%seen%) <"}]}, "the formula '(1;%seen%) <' is wrong at character 13"),
        ({"predictions": []}, "there are no predictions in it"),
        ({"meta": {"metric": "max"}}, "the metric of the regions is 'max'; only 'sum' can be measured"),
        ({"items": suite()["items"] * 2}, "item 1: there is an item of this number before it"),
        ({"items": 3}, "is not a suite of SyntaxGym"),
        ({"items": [3]}, "item 1: is not an item of a suite"),
        (
            {
                "items": [
                    {
                        "conditions": [
                            {
                                "condition_name": "a",
                                "regions": [{"region_number": i, "content": "b"} for i in (1, 3, 2)],
                            }
                        ]
                    }
                ]
            },
            "item 1: the regions of condition 'a' are listed as 1, 3, 2; expected them in the order of their numbers",
        ),
        (
            {"items": [{"conditions": [{"condition_name": "a", "regions": []}]}]},
            "all regions of condition 'a' are empty",
        ),
    ],
)
def test_a_suite_that_cannot_be_measured_is_told(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    name = written(tmp_path / "made.json", suite(**changes))
    with pytest.raises(TextError) as raised:
        read_suite(name)
    assert name in str(raised.value)
    assert message in str(raised.value)


def test_nothing_is_counted_twice(letters: library.CausalModel, tmp_path: Path) -> None:
    first, *rest = suite()["items"]
    again = {**first, "item_number": 4}
    name = written(tmp_path / "made.json", suite(items=[first, *rest, again, first]))
    told: list[str] = []
    [judged] = letters.judge_suites([name], warn=told.append)
    assert judged.all.items == 3
    assert told == [
        f"{name}, item 4: has the same sentences as item 1, and would be counted twice",
        f"{name}, item 1: there is an item of this number before it; give each its own item_number",
        "2 records were skipped",
    ]
    copy = written(tmp_path / "copy.json.gz", suite(items=[first, *rest]))
    with pytest.raises(TextError, match=r"copy.json.gz: is the same suite as .*made.json, and would be counted twice"):
        letters.judge_suites([name, copy], warn=told.append)
    with pytest.raises(TextError, match=r"the suites are .*made.json twice, and would be counted twice"):
        letters.judge_suites([name, name])
