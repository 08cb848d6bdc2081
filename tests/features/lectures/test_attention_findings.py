"""Experiments on attention, in small: they measure what they claim to."""

from __future__ import annotations

import re

import numpy as np
import pytest

from chainrule.features.lectures.datasets.random import Random
from chainrule.features.lectures.experiments.attention import COMPARED as ATTENTIONS
from chainrule.features.lectures.experiments.attention import attention, bottleneck, draw_reflexive, habits, heads


@pytest.mark.thorough
def test_attention_is_better_than_one_vector() -> None:
    findings = bottleneck(lengths=(5,), trained_to=5, sources=800, tested=40, steps=130)
    vector, attended = (line.y for line in findings.lines)
    assert attended[0] > vector[0] + 0.1
    assert findings.finding.startswith("At length 5, ")


@pytest.mark.thorough
def test_kinds_of_attention_are_ranked() -> None:
    compared = {name: ATTENTIONS[name] for name in ("none", "dot")}
    findings = attention(compared=compared, trained_to=5, sources=800, tested=40, steps=150)
    none, dot = findings.lines[0].y
    assert dot > none + 0.1
    assert findings.x.categories == ["none", "dot"]
    assert findings.finding.startswith("After 150 steps dot is best")
    assert len(ATTENTIONS) == 9


def test_habits_of_a_head_by_hand() -> None:
    weights = np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.2, 0.6, 0.2, 0], [0.1, 0.1, 0.7, 0.1]])
    found = habits(weights)
    assert found.largest == pytest.approx((0.5 + 0.6 + 0.7) / 3)
    assert found.own == pytest.approx((0.5 + 0.2 + 0.1) / 3)
    assert found.previous == pytest.approx((0.5 + 0.6 + 0.7) / 3)
    assert found.first == pytest.approx((0.5 + 0.2 + 0.1) / 3)
    assert found.distance == pytest.approx((0.5 + (0.2 * 2 + 0.6) + (0.3 + 0.2 + 0.7)) / 3)


def test_reflexives_stand_for_a_person_who_is_not_the_last_one_named() -> None:
    chance = Random(1, "test")
    of_gender = {"himself": {"boy", "king", "man"}, "herself": {"girl", "queen", "woman"}}
    rivals = {"himself": of_gender["herself"], "herself": of_gender["himself"]}
    for has_rival in (False, True):
        drawn = [draw_reflexive(chance, has_rival=has_rival) for _ in range(400)]
        nearer = []
        for words, antecedent in drawn:
            person = ["</s>", *words][antecedent]
            assert person in of_gender[words[-1]]
            assert antecedent == (5 if "said" in words else 2)
            nearer.append([word for word in words[antecedent:] if word in rivals[words[-1]]])
            named = [word for word in words if word in rivals["himself"] | rivals["herself"]]
            assert not has_rival or named[-1] != person
        assert 0.4 < np.mean(["said" in words for words, _ in drawn]) < 0.6
        assert np.mean([len(rival) for rival in nearer]) == (1 if has_rival else pytest.approx(1 / 6, abs=0.06))
        # half of those who are named first are of the other gender, so that the first person does not tell, either
        first = [words[1] in rivals[words[-1]] for words, _ in drawn if "said" in words]
        assert 0.4 < np.mean(first) < 0.6


@pytest.mark.thorough
def test_heads_learn_to_look_at_what_agrees_and_are_missed() -> None:
    """With even weights, the subject would get less than a quarter; by recency, all reflexives would be wrong."""
    findings = heads(sentences=1500, tested=40, steps=250)
    assert [line.label for line in findings.lines] == [f"layer {j}, head {i}" for j in (1, 2) for i in (1, 2, 3, 4)]
    rows = np.array([line.y for line in findings.lines])
    assert rows[:, [0, 4, 5]].max(0).min() > 0.5
    without = rows[:, 6:]
    assert without.max(0).min() > 0.9  # with the least important head away, the rest is right
    assert without.min() < 0.85  # and without another one, it is not
    assert re.match(r"The verb is right in \d+% \(\d+% to \d+%\), against", findings.finding)
    assert "of its weight on the person meant, and without it" in findings.finding
