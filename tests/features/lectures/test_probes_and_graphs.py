"""What layers know, and a graph that attention finds: the findings, small, and the data against hand arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from chainrule.features.lectures.experiments.structure import draw_copies, draw_sentence, fit_probe, graphs, probes
from chainrule.neural.config import RecurrentConfig, TransformerConfig


@pytest.mark.thorough
def test_higher_layers_know_what_lower_ones_do_not() -> None:
    small = TransformerConfig(layers=3, heads=2, width=48, context=64, memory="document", dropout=0.0)
    findings = probes(config=small, sentences=3000, asked=300, steps=220)
    words, nouns, depth, _ = (line.y for line in findings.lines)
    assert words[0] == 1
    assert nouns[0] < 0.6  # a form is a noun as often as a verb
    assert max(nouns[1:]) > 0.9
    assert max(depth[1:]) > depth[0] + 0.15
    assert nouns[1] - nouns[0] > 0.1
    assert depth[2] > depth[1]


def test_answers_about_sentences_follow_their_brackets() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        tokens, answers = draw_sentence(rng)
        open_numbers: list[bool] = []
        has_just_come = False  # the
        for token, (own, is_verb, waiting, following) in zip(tokens, answers, strict=True):
            assert own == token
            is_stem = token > 6
            has_s = is_stem and (token - 7) % 2 == 1
            if is_stem and has_just_come:
                assert is_verb == 0
                open_numbers.append(has_s)  # dogs: plural
            elif is_stem:
                assert is_verb == 1
                assert open_numbers.pop() is not has_s  # runs: singular
                assert following == (int(open_numbers[-1]) if open_numbers else -1)
            else:
                assert is_verb == following == -1
            assert waiting == len(open_numbers)
            has_just_come = token == 3
        assert not open_numbers


def test_a_probe_finds_what_is_linear_and_nothing_else() -> None:
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(600, 6)) + 3
    linear = (vectors @ [1, -2, 0, 1, 0, 0] > 0).astype(np.int64) + 4
    drawn = rng.integers(2, size=600)
    assert (fit_probe(vectors[:400], linear[:400])(vectors[400:]) == linear[400:]).mean() > 0.95
    assert (fit_probe(vectors[:400], drawn[:400])(vectors[400:]) == drawn[400:]).mean() < 0.62


@pytest.mark.thorough
def test_attention_finds_the_graph_and_a_chain_does_not() -> None:
    findings = graphs(
        documents=(2000,),
        tested=150,
        steps=700,
        chain=RecurrentConfig(layers=1, width=48, context=26, memory="document"),
    )
    told, attention, chain = (line.y[0] for line in findings.lines)
    # A parent's word is copied in 9 of 10 cases, and drawn by chance in 1 of 10: its entropy by hand.
    right, wrong = 0.9 + 0.1 / 8, 0.1 / 8
    assert abs(told - -(right * np.log(right) + 7 * wrong * np.log(wrong))) < 0.07
    assert attention < chain - 0.2
    assert attention < told + 0.3
    [edges] = findings.says
    assert int(edges.split(" for ")[1].split("%")[0]) >= 60


def test_documents_of_a_graph_copy_along_its_edges() -> None:
    rng = np.random.default_rng(1)
    parents = [int(rng.integers(place)) for place in range(4, 24)]
    documents = np.array([draw_copies(rng, parents) for _ in range(2000)])
    shares = (documents[:, 4:] == documents[:, parents]).mean(0)
    np.testing.assert_allclose(shares, 0.9 + 0.1 / 8, atol=0.03)
