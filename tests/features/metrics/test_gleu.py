"""GLEU against a naive implementation and by hand; F0.5 of edits by hand."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from chainrule.errors import SettingError
from chainrule.features.correct import measures as errant_scores
from chainrule.features.correct.measures import Edit, edit_statistics, errant_edits, f_half
from chainrule.features.metrics.bleu import expected_gleu, gleu_of_sums, gleu_statistics


def naive_gleu(sources: list[str], results: list[str], references: list[str]) -> float:
    """The definition, with lists of n-grams and no counters."""
    score, lengths = 0.0, [0, 0]
    for order in range(1, 5):
        credit = total = 0
        for source, result, reference in zip(sources, results, references, strict=True):
            ours, wrong, meant = (
                [tuple(words[i : i + order]) for i in range(len(words) - order + 1)]
                for words in (source.split(), result.split(), reference.split())
            )
            ours, wrong = wrong, ours
            matched = sum(min(ours.count(one), meant.count(one)) for one in set(ours))
            blamed = sum(min(ours.count(one), wrong.count(one)) for one in set(ours) if one not in meant)
            credit += max(0, matched - blamed)
            total += len(ours)
        score += math.log(credit / total) / 4
    for result, reference in zip(results, references, strict=True):
        lengths[0] += len(result.split())
        lengths[1] += len(reference.split())
    return 100 * math.exp(min(0.0, 1 - lengths[1] / lengths[0]) + score)


def test_it_equals_the_definition_for_drawn_references() -> None:
    rng = random.Random(0)
    sides = [[" ".join(rng.choices("aaabbc", k=rng.randint(1, 12))) for _ in range(30)] for _ in range(4)]
    sources, results, *references = sides
    statistics = np.array([gleu_statistics(sources, results, one) for one in references], np.float64)
    for rows, reference in zip(statistics, references, strict=True):
        assert gleu_of_sums(rows.sum(axis=0)) == pytest.approx(naive_gleu(sources, results, reference), abs=1e-9)
    expected = []
    for draw in range(7):
        random.seed(draw * 101)  # as the authors' script
        drawn = [references[random.randint(0, 1)][i] for i in range(30)]
        expected.append(naive_gleu(sources, results, drawn))
    assert expected_gleu(statistics, draws=7) == pytest.approx(np.mean(expected), abs=1e-9)


def test_what_the_source_has_and_the_reference_lacks_costs() -> None:
    # Unigrams: a b c match, x is of the source alone: 3 - 1 of 4. Bigrams: ab bc, less cx: 1 of 3. Trigrams: abc, less
    # bcx: 0.
    [row] = gleu_statistics(["a b c x"], ["a b c x"], ["a b c d"])
    assert row.tolist() == [4, 4, 2, 4, 1, 3, 0, 2, 0, 1]
    assert gleu_of_sums(row) == 0
    [row] = gleu_statistics(["a b c x"], ["a b c d"], ["a b c d"])
    assert gleu_of_sums(row) == pytest.approx(100)


def test_an_edit_counts_with_the_annotator_who_agrees_most() -> None:
    def edits(text: str, corrected: str) -> frozenset[Edit]:
        pairs = zip(text.split(), corrected.split(), strict=True)
        return frozenset(Edit(i, i + 1, after) for i, (before, after) in enumerate(pairs) if before != after)

    rows = edit_statistics(["a b c"], ["x b y"], [["a q c"], ["x b z"]], edits)
    assert rows.tolist() == [[1, 1, 1]]
    assert f_half(rows.sum(axis=0)) == pytest.approx(0.5)  # precision and recall are a half
    assert f_half(np.array([3, 1, 7])) == pytest.approx(1.25 * 0.75 * 0.3 / (0.25 * 0.75 + 0.3))
    assert f_half(np.array([0, 0, 0])) == 1


def test_without_errant_a_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errant_scores, "has_errant", lambda: False)
    with pytest.raises(SettingError, match="pip install errant"):
        errant_edits()
