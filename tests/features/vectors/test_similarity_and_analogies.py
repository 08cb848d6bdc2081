"""Correlations with ties, analogies by both rules, and files of pairs and questions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from chainrule.base.progress import silent
from chainrule.errors import TextError
from chainrule.features.metrics.correlation import correlation, ranks
from chainrule.features.vectors.learning.intrinsic import (
    Pair,
    accuracies,
    agreement,
    answers,
    read_analogies,
    read_sets,
    sum_sections,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    assert ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [3.5, 1, 3.5, 2]


def test_spearman_is_pearson_of_ranks() -> None:
    # Ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: deviations -1.5, 0, 0, 1.5 and -1.5, -0.5, 0.5, 1.5:
    # 4.5 / sqrt(4.5 * 5) = 0.948683
    a, b = np.array([1.0, 2.0, 2.0, 9.0]), np.array([0.0, 1.0, 2.0, 3.0])
    assert correlation(ranks(a), ranks(b)) == pytest.approx(0.948683, abs=1e-6)
    assert math.isnan(correlation(np.ones(4), b))
    assert math.isnan(correlation(a[:2], b[:2]))


def test_pairs_with_unknown_words_are_left_out_or_count_as_nothing() -> None:
    vectors = {"a": np.array([1.0, 0]), "b": np.array([1.0, 1]), "c": np.array([0.0, 1]), "d": np.array([-1.0, 0])}
    pairs = [Pair("a", "b", 9), Pair("a", "c", 5), Pair("a", "d", 1), Pair("a", "unknown", 8)]
    skipped = agreement("set", pairs, vectors.get)
    assert (skipped.pairs, skipped.of, skipped.spearman) == (3, 4, pytest.approx(1))
    zero = agreement("set", pairs, vectors.get, "zero")
    # Cosines 0.71, 0, -1, 0 have ranks 4, 2.5, 1, 2.5; ratings 9, 5, 1, 8 have 4, 2, 1, 3: 4.5 / sqrt(4.5 * 5)
    assert (zero.pairs, zero.spearman) == (3, pytest.approx(0.948683, abs=1e-6))
    low, high = skipped.pearson_interval
    assert low <= skipped.pearson <= high + 1e-12


def test_both_rules_answer_by_their_formulas() -> None:
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(40, 6)).astype(np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    questions = rng.permuted(np.tile(np.arange(40), (15, 1)), axis=1)[:, :3]
    for rule in ("add", "multiply"):
        places, scores = answers(directions, questions, rule, 2)
        for (a, b, c), (first, second), (score, _) in zip(questions, places, scores, strict=True):
            best = {}
            for d in set(range(40)) - {a, b, c}:
                near = [float(directions[d] @ directions[each]) for each in (a, b, c)]
                moved = [(cosine + 1) / 2 for cosine in near]
                best[d] = near[1] - near[0] + near[2] if rule == "add" else moved[1] * moved[2] / (moved[0] + 0.001)
            assert sorted(best, key=best.get)[-2:] == [second, first]
            assert score == pytest.approx(best[first], rel=1e-5)


def test_questions_with_unknown_words_do_not_count(tmp_path) -> None:
    (tmp_path / "questions.txt").write_text(": family\nman king woman queen\nman king woman x\n: gram1\na b c d\n")
    sections = read_analogies(tmp_path / "questions.txt")
    rows = {"man": 0, "king": 1, "woman": 2, "queen": 3}
    directions = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1]], np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    found = accuracies(sections, rows.get, directions, "add", silent)
    assert [(one.section, one.right, one.questions, one.of) for one in found] == [
        ("family", 1, 1, 2),
        ("gram1", 0, 0, 1),
    ]
    assert math.isnan(found[1].share)
    assert sum_sections("all", found).share == 1


def test_a_folder_of_sets_is_read_whole(tmp_path) -> None:
    (tmp_path / "EN-A.txt").write_bytes(b"a\tb\t1.5\r\nc d 2\r\n")
    (tmp_path / "EN-B.csv").write_text("word1 word2 score\nx\ty\t3")
    assert read_sets(tmp_path) == {
        "EN-A": [Pair("a", "b", 1.5), Pair("c", "d", 2)],
        "EN-B": [Pair("x", "y", 3)],
    }


@pytest.mark.parametrize("text", ["", "a b 1\na b\n", "a b 1\na b nan\n", "a b 1\nc d e f g\n"])
def test_what_is_no_set_of_pairs_is_named(tmp_path, text) -> None:
    (tmp_path / "set.txt").write_text(text)
    with pytest.raises(TextError, match=r"set\.txt"):
        read_sets(tmp_path / "set.txt")


@pytest.mark.parametrize("text", ["", ": section\n", "a b c\n"])
def test_what_is_no_file_of_questions_is_named(tmp_path, text) -> None:
    (tmp_path / "questions.txt").write_text(text)
    with pytest.raises(TextError, match=r"questions\.txt"):
        read_analogies(tmp_path / "questions.txt")


@pytest.mark.parametrize(
    ("lines", "rating"),
    [
        ("word1\tword2\tPOS\tSimLex999\tconc(w1)\nold\tnew\tA\t1.58\t2.72\n", 1.58),  # SimLex-999
        ("old,new,1.58\n", 1.58),  # MTurk
        ("Word 1,Word 2,Human (mean)\nold,new,1.58\n", 1.58),  # WS-353
        ("old\tnew\tA\t1.58\tANTONYMS\n", 1.58),  # SimVerb
        ("old\tnew\t1.58\t2\t1\t1.5\n", 1.58),  # RW: the mean, then each person's
        ("old;new;1.58\n", 1.58),  # RG-65
        ("old new 1.58\n", 1.58),  # MEN
    ],
)
def test_sets_are_read_as_their_authors_publish_them(lines: str, rating: float, tmp_path: Path) -> None:
    (tmp_path / "set.txt").write_text(lines)
    assert read_sets(tmp_path / "set.txt") == {"set": [("old", "new", rating)]}


def test_words_of_a_set_may_have_spaces_between_tabs(tmp_path: Path) -> None:
    (tmp_path / "set.txt").write_text("New York\tnew city\t3\n")
    assert read_sets(tmp_path / "set.txt") == {"set": [("New York", "new city", 3.0)]}
