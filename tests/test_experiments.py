"""The experiments, in small: they measure what they claim to."""

from __future__ import annotations

import math
import re
from inspect import signature
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import torch

import chainrule
from chainrule.applications.config import RankConfig
from chainrule.applications.retrieval import DocumentIndex
from chainrule.base.progress import silent
from chainrule.datasets.random import Random
from chainrule.drawing.plots import Axis
from chainrule.errors import SettingError, TextError
from chainrule.experiments import Name
from chainrule.experiments.attention import COMPARED as ATTENTIONS
from chainrule.experiments.attention import attention, bottleneck, draw_reflexive, habits, heads
from chainrule.experiments.attention_weights import dilution, lookups, projections, softmax, weights_of
from chainrule.experiments.capacity import READERS, draw_expression, draw_opinion, nesting, nonlinearity, places
from chainrule.experiments.context import AGREEING, agreement, draw_document, draw_sentence, shots
from chainrule.experiments.cost import KINDS, cost, growth_of, paths, sequential_steps, throughput
from chainrule.experiments.cost import WIRINGS as KINDS_OF_PATHS
from chainrule.experiments.data import balance, fit_power_law, mean_reciprocal_rank, retrieval, scaling, unseen_share
from chainrule.experiments.findings import Findings
from chainrule.experiments.positions import draw_document as document_of_period
from chainrule.experiments.positions import (
    extrapolation,
    in_groups,
    losses_by_position,
    moved_probability,
    order,
    positions,
)
from chainrule.experiments.recurrence import (
    A,
    B,
    accuracy,
    build_network,
    draw,
    gradients,
    memory,
    norms_by_distance,
    radius,
    saturation,
    spectral,
)
from chainrule.experiments.run import enlarge, factor_for, function_of, times_steps
from chainrule.experiments.small_models import accuracy as reversal_accuracy
from chainrule.experiments.small_models import backwards, draw_sources
from chainrule.experiments.training import draw_review, forcing, pretraining, race
from chainrule.neural.build import build
from chainrule.neural.config import FeedforwardConfig, RecurrentConfig, TransformerConfig
from chainrule.ngram.config import NGramConfig


class Knowing:
    """Scores a string by the rule itself: 0 where the last letter is right, -1 where it is not."""

    def score(self, sequences):
        return [np.array([-float((string[-1] == B) != (B in string[:-1]))]) for string in sequences]


def test_strings_follow_the_rule_and_half_of_them_have_a_b() -> None:
    strings = draw(np.random.default_rng(1), np.full(400, 9))
    assert all((string[-1] == B) == (B in string[:-1]) for string in strings)
    assert {len(string) for string in strings} == {9}
    assert all(np.isin(string, (A, B)).all() and (string[:-1] == B).sum() <= 1 for string in strings)
    assert 0.4 < np.mean([string[-1] == B for string in strings]) < 0.6
    assert accuracy(Knowing(), strings) == 1.0  # type: ignore[arg-type]


def test_memory_of_a_window_is_as_long_as_the_window() -> None:
    findings = memory(
        compared={"4-gram": NGramConfig(order=4, smoothing="witten-bell")}, lengths=(2, 3, 40), strings=2000, tested=300
    )
    [line] = findings.lines
    assert line.y[0] == line.y[1] == 1.0
    assert line.y[2] < 0.7  # it sees a B in 3 of 39 places, and guesses for the others
    assert findings.says == ["4-gram: right up to length 3"]
    assert findings._repr_html_().startswith("<svg")


def test_memory_trains_networks_by_seed() -> None:
    config = {"feed-forward": FeedforwardConfig(width=8, window=4, context=16, memory="document")}
    first, again, other = (
        memory(seed=seed, compared=config, steps=8, strings=200, tested=20, lengths=(3, 9)) for seed in (1, 1, 2)
    )
    assert first == again
    assert all(0 <= share <= 1 for share in other.lines[0].y)


def test_gradients_of_a_linear_recurrence_are_powers_of_its_matrix() -> None:
    network = build_network(RecurrentConfig(cell="rnn_tanh", layers=1, width=8), 0.5)
    weight = network.encoder.layers[0].weight_hh_l0  # type: ignore[union-attr, index]
    assert float(torch.linalg.eigvals(weight.detach()).abs().max()) == pytest.approx(0.5, rel=1e-4)
    with torch.no_grad():
        network.embedding.weight.zero_()  # tanh is linear at 0
    text = torch.randint(3, 64, (2, 6), generator=torch.Generator().manual_seed(1))
    norms = norms_by_distance(network, text)
    at_end = network.output.log_probs(torch.zeros(2, 8)).exp().detach() - torch.nn.functional.one_hot(text[:, -1], 64)
    to_state, to_input = weight.detach(), network.encoder.layers[0].weight_ih_l0.detach()  # type: ignore[union-attr, index]
    for distance in (0, 1, 4):
        flow = at_end @ network.output.weight.detach() @ torch.matrix_power(to_state, distance) @ to_input
        assert float(norms[distance]) == pytest.approx(float(flow.norm(dim=1).mean()), rel=1e-4)


def test_gradients_vanish_explode_and_are_clipped() -> None:
    lines = {line.label: line.y for line in gradients(length=40, rows=8).lines}
    small, large = lines["RNN, radius 0.8"], lines["RNN, radius 2"]
    assert small[-1] < 1e-4 * small[0]
    assert large[-1] > 3 * large[0]
    clipped = lines["RNN, radius 2, clipped"]
    assert math.hypot(*clipped) == pytest.approx(1, rel=1e-3)
    np.testing.assert_allclose(np.divide(clipped, large), clipped[0] / large[0], rtol=1e-4)


def test_cost_measures_every_layer_and_finds_powers() -> None:
    findings = cost(lengths=(64, 128), widths=(8, 16), length=64, width=8, seconds=0)
    assert len(findings.lines) == len(findings.says) == len(KINDS)
    assert all(second > 0 for line in findings.lines for second in line.y)
    assert growth_of([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx(2)


def test_positions_reads_past_the_trained_length() -> None:
    lines = [f"line {number} of a text that goes on and on" for number in range(120)]
    config = TransformerConfig(layers=1, width=16, heads=2, context=16)
    findings = positions(lines=lines, config=config, kinds=("learned", "rotary"), steps=5, rows=4)
    learned, rotary = findings.lines
    assert (list(learned.x), list(rotary.x)) == ([4, 8, 12, 16], list(range(4, 65, 4)))
    assert "not defined beyond" in findings.says[0]
    assert "4 times that length" in findings.says[1]
    with pytest.raises(TextError, match="expected more than 640, so that its last tenth is longer"):
        positions(lines=lines[:5], config=config, kinds=("rotary",), steps=5)


def test_losses_by_position_are_those_of_each_row_alone() -> None:
    network = build(TransformerConfig(layers=1, width=16, heads=2, context=8, zero_projections=False), 9).eval()
    stream = np.random.default_rng(1).integers(2, 9, 60).astype(np.int32)
    found = losses_by_position(network, stream, 10, 2)
    rows = [stream[0:11], stream[49:60]]
    expected = []
    for row in rows:
        ids = torch.from_numpy(row.astype(np.int64))
        hidden, _ = network(ids[None, :-1])
        expected.append(-network.output.log_probs(hidden)[0, range(10), ids[1:]].detach().numpy())
    np.testing.assert_allclose(found, np.mean(expected, 0), atol=1e-5)
    places, perplexities = in_groups(found, 5)
    assert places == [5, 10]
    assert perplexities[0] == pytest.approx(math.exp(found[:5].mean()))


def test_a_slope_is_that_of_the_function() -> None:
    lines = {line.label: line for line in saturation(points=25).lines}
    x = np.array(lines["tanh"].x)
    step = 1e-6
    for name, function in (("tanh", np.tanh), ("sigmoid", lambda x: 1 / (1 + np.exp(-x)))):
        np.testing.assert_allclose(lines[name].y, function(x), atol=1e-12)
        by_differences = (function(x + step) - function(x - step)) / (2 * step)
        np.testing.assert_allclose(lines[f"{name}'"].y, by_differences, atol=1e-8)
    assert max(lines["sigmoid'"].y) == 0.25
    assert "to 0.07 at 2" in saturation().finding


def test_singular_values_bound_a_step_and_the_radius_decides_in_the_end() -> None:
    below, above, mixed = (line.y for line in radius(products=80).lines)
    np.testing.assert_allclose(below, 0.9 ** np.arange(81))
    np.testing.assert_allclose(above, 1.1 ** np.arange(81))
    assert max(mixed) > 4
    assert mixed[-1] < 1e-3
    assert spectral(np.array([[0.0, 4.0], [1.0, 0.0]])) == pytest.approx(2)  # eigenvalues 2 and -2


def test_paths_are_those_of_the_formulas() -> None:
    lines = {line.label: dict(zip(line.x, line.y, strict=True)) for line in paths(lengths=(4, 9, 27, 57)).lines}
    assert set(lines["self-attention"].values()) == {1}
    assert lines["recurrence"] == {4: 4, 9: 9, 27: 27, 57: 57}
    assert lines["attention in a window of 8"] == {4: 1, 9: 2, 27: 4, 57: 8}  # (n - 1) / 7, rounded up
    assert lines["dilated convolution of 3"] == {4: 2, 9: 2, 27: 3, 57: 4}  # log_3 n, rounded up
    steps = {label: sequential_steps(kind.reads, 9) for label, kind in KINDS_OF_PATHS.items()}
    assert sorted(steps.values()) == [1, 1, 1, 9]
    assert steps["recurrence"] == 9


def test_only_sets_are_blind_to_order() -> None:
    findings = order(rows=8)
    changes = dict(zip(findings.x.categories, findings.lines[0].y, strict=True))
    blind = {"bag", "attention, no positions", "bidirectional, 4 layers, no positions"}
    assert {label for label, change in changes.items() if change < 1e-4} == blind
    assert min(change for label, change in changes.items() if label not in blind) > 0.05
    assert findings.finding == f"Blind to order, whatever their weights: {'; '.join(sorted(blind, key=changes_order))}."
    assert str(findings).splitlines()[2].split()[0] == "bag"


def changes_order(label: str) -> int:
    return ["bag", "attention, no positions", "bidirectional, 4 layers, no positions"].index(label)


def test_distance_is_the_probability_that_moved() -> None:
    p, q = torch.tensor([[0.5, 0.5, 0.0]]), torch.tensor([[0.25, 0.5, 0.25]])
    assert moved_probability(p, q) == 0.25


def test_a_longer_context_fits_its_own_text_and_no_other() -> None:
    rng = np.random.default_rng(1)
    words = ["the", "a", "dog", "cat", "man", "sees", "bites", "near", "old", "big"]
    lines = [" ".join(words[i] for i in rng.integers(len(words), size=6)) for _ in range(400)]
    findings = balance(lines=lines, orders=(1, 2, 4))
    fits, misses, _ = (line.y for line in findings.lines)
    assert fits[0] > fits[1] > fits[2]
    assert misses[2] > misses[0]
    assert unseen_share(["a b c"], ["a b d"], 2) == pytest.approx(2 / 4)  # <s> a, a b, b d, d </s>


def test_documents_are_found_by_the_words_that_they_share_with_a_query() -> None:
    pairs = [
        (f"query of word{i} and thing{i}", f"word{i} thing{i} " + "the other words of a text " * 4) for i in range(8)
    ]
    findings = retrieval(pairs=pairs, shares=(0.1, 0.5))
    assert [line.y for line in findings.lines] == [[1.0, 1.0]]
    index = DocumentIndex([np.array([3, 4], np.int32), np.array([3, 3], np.int32)], 6)
    config = RankConfig(smoothing="jelinek-mercer", share=0.5)
    queries = [np.array([3], np.int32), np.array([3], np.int32)]
    assert mean_reciprocal_rank(index, queries, [0, 1], config) == pytest.approx((1 / 2 + 1) / 2)


def test_agreement_is_out_of_the_reach_of_an_n_gram() -> None:
    compared = {"5-gram": NGramConfig(order=5, smoothing="witten-bell")}
    [line] = agreement(compared=compared, phrases=(0, 4), sentences=1500, tested=100).lines
    assert list(line.x) == [0, 12]
    assert line.y[0] == 1.0
    assert line.y[1] < 0.6  # half of the tests have two endings, half have four: 0.375 by guessing


def test_sentences_agree() -> None:
    rng = np.random.default_rng(1)
    for phrases in (0, 2):
        for _ in range(20):
            first, second, *between, end = draw_sentence(rng, phrases)
            assert len(between) == 3 * phrases
            assert (second, end) in {(row[-2], row[-1]) for group in AGREEING for row in group}, first


@pytest.mark.thorough
def test_an_lstm_learns_from_examples_an_n_gram_nothing_and_a_perfect_reader_all() -> None:
    compared = {
        "3-gram": NGramConfig(order=3, smoothing="witten-bell"),
        "LSTM": RecurrentConfig(layers=1, width=64, context=64, memory="document"),
    }
    findings = shots(compared=compared, documents=2000, tested=200, examples=8, steps=250)
    trigram, lstm, perfect = (line.y for line in findings.lines)
    assert max(trigram) < 0.5
    assert lstm[0] < 0.4
    assert lstm[-1] > 0.5
    assert perfect[:2] == [0.25, pytest.approx(1 / 4 + 1 / 4)]
    rng = np.random.default_rng(2)
    guesses = [by_memory(draw_document(rng, 8), rng) for _ in range(4000)]
    np.testing.assert_allclose(perfect, np.mean(guesses, 0), atol=0.03)


def by_memory(document: np.ndarray, rng: np.random.Generator) -> list[bool]:
    """Whether each code is right of a reader who looks every letter up, and guesses among the unused codes."""
    known: dict[int, int] = {}
    right = []
    for letter, code in document.reshape(-1, 2).tolist():
        left = [other for other in range(7, 11) if other not in known.values()]
        right.append(known.get(letter, left[rng.integers(len(left))] if left else -1) == code)
        known[letter] = code
    return right


class Reversing:
    """Writes its sources backwards, all but the last letter, which is always a."""

    def write(self, sources, beam, *, max_tokens, progress):
        return [[SimpleNamespace(text=" ".join([*source.split()[:0:-1], "a"]))] for source in sources]


def test_letters_are_right_at_their_positions() -> None:
    assert backwards("a b c") == "c b a"
    assert reversal_accuracy(Reversing(), ["b c", "a c"]) == 0.75  # type: ignore[arg-type]
    assert all(len(source.split()) == 3 for source in draw_sources(np.random.default_rng(1), [3, 3]))


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


def test_a_softmax_of_products_grows_peaked_unless_it_is_scaled() -> None:
    findings = softmax(widths=(4, 64, 1024), queries=600)
    plain, divided = (line.y for line in findings.lines)
    assert plain == pytest.approx([0.42, 0.84, 0.96], abs=0.03)  # the lecture's .42, .86 and .96 are of a single draw
    assert divided == pytest.approx([0.24, 0.245, 0.25], abs=0.015)
    rows = np.array([[1.0, 2.0, 3.0], [1000.0, 0.0, 0.0]])
    np.testing.assert_allclose(weights_of(rows), [np.exp([1, 2, 3]) / np.exp([1, 2, 3]).sum(), [1, 0, 0]])
    assert re.search(r"means are within ±0\.0[12]\d; even weights would be 0\.06", findings.says[0])


def test_with_one_matrix_a_word_looks_at_itself() -> None:
    identity, one, two = (line.y for line in projections(widths=(4, 64), sentences=20).lines)
    assert min(identity[-1], one[-1]) > 0.98
    assert 0.02 < two[-1] < 0.12  # 1 / 16 by chance
    assert identity[0] < 0.8  # in few dimensions, a longer word may score higher


def test_weights_are_diluted_by_length_and_kept_by_a_higher_score() -> None:
    plain, noisy, high = (line.y for line in dilution(lengths=(4, 16, 64, 1000)).lines)
    assert plain == pytest.approx([0.475, 0.153, 0.041, 0.003], abs=5e-4)  # the lecture's figures
    assert high[-1] == pytest.approx(0.957, abs=5e-4)
    assert all(0.8 * weight < other < weight for weight, other in zip(plain, noisy, strict=True))


def test_a_head_fetches_one_word() -> None:
    """h weighted means of k independent values explain at most h / k of their variance: their rank."""
    findings = lookups(heads=(1, 2), asked=(1, 2), steps=200)
    one, two = (line.y for line in findings.lines)
    assert one == pytest.approx([1, 1 / 2], abs=0.05)
    assert two == pytest.approx([1, 1], abs=0.05)


def test_without_a_nonlinearity_layers_are_one_matrix() -> None:
    """The logistic loss is convex in that matrix, and its optimum is 1 bit: by symmetry, no plane helps."""
    findings = nonlinearity(layers=(0, 2), networks=1, steps=200)
    linear, tanh, relu = (line.y for line in findings.lines)
    assert linear == pytest.approx([1, 1], abs=0.01)
    assert [tanh[0], relu[0]] == pytest.approx([1, 1], abs=0.01)
    assert max(tanh[1], relu[1]) < 0.1
    assert findings.finding.endswith("1 of 1 with tanh, 1 of 1 with ReLU.")


def test_a_window_knows_a_word_only_where_it_was_trained() -> None:
    compared = {name: READERS[name] for name in ("feed-forward, window 9", "bag")}
    window, bag = (line.y for line in places(compared=compared, documents=2000, tested=200, steps=200).lines)
    assert window[0] > 0.95
    assert window[1] < 0.65
    assert min(bag) > 0.8
    rng = np.random.default_rng(1)
    trained, moved = ([draw_opinion(rng, is_moved=is_moved) for _ in range(300)] for is_moved in (False, True))
    assert {(word, i) for text in trained for i, word in enumerate(text[:8]) if word < 21}.isdisjoint(
        (word, i) for text in moved for i, word in enumerate(text[:8]) if word < 21
    )


@pytest.mark.thorough
def test_values_of_nested_expressions_are_lost_with_depth() -> None:
    compared = {"LSTM": RecurrentConfig(layers=1, width=48, context=64, memory="document")}
    findings = nesting(compared=compared, depths=(1, 2, 5), trained_to=2, documents=2000, tested=150, steps=150)
    shallow, trained, deep = findings.lines[0].y
    assert shallow > 0.6
    assert trained > deep + 0.15


def test_expressions_have_their_depth_and_value() -> None:
    rng = np.random.default_rng(1)
    names = {3: "]", 4: "=", 5: "max(", 6: "min("}
    for depth in (1, 3):
        for _ in range(30):
            *tokens, equals, value = draw_expression(rng, depth)
            assert names[equals] == "="
            text = "".join(names[token] if token < 7 else f"{token - 7}," for token in tokens)
            assert eval(text.replace("]", "),").rstrip(",")) == value - 7
            nesting_depth = np.cumsum([(token in (5, 6)) - (token == 3) for token in tokens]).max()
            assert nesting_depth == depth


@pytest.mark.thorough
def test_texts_without_labels_are_worth_more_than_a_few_with() -> None:
    findings = pretraining(labels=(30,), unlabelled=4000, words=30, tested=200, steps=400)
    [fresh], [pretrained] = (line.y for line in findings.lines)
    assert pretrained > fresh + 0.15
    assert pretrained > 0.8
    chance = Random(1, "test")
    for text, label in (draw_review(chance, 30) for _ in range(200)):
        for opinion in text.split(" was ")[1].split(" and "):
            is_good = opinion.removeprefix("not ").startswith("good") != opinion.startswith("not ")
            assert is_good == (label == "good")


@pytest.mark.thorough
def test_a_transformer_learns_more_from_a_token() -> None:
    """Half of each line repeats the other half, which attention finds in few steps."""
    rng = np.random.default_rng(1)
    lines = [" ".join(2 * ["".join("abcdefghij"[i] for i in rng.integers(10, size=5))]) for _ in range(2000)]
    compared = {
        "LSTM": RecurrentConfig(layers=1, width=40, context=128),
        "Transformer": TransformerConfig(layers=2, heads=2, width=32, context=128),
    }
    findings = race(lines=lines, compared=compared, steps=(5, 90))
    lstm, transformer = (line.y for line in findings.lines)
    assert transformer[1] < lstm[1]
    assert lstm[1] < lstm[0]
    assert list(findings.lines[0].x) == [5 * 128 * 16, 90 * 128 * 16]
    assert re.search(r"Transformer: [\d,]+ parameters; \d\.\d\d nats after \d+ s, ", findings.says[1])


def test_throughput_measures_reading_and_writing() -> None:
    findings = throughput(lengths=(4, 8), width=16, tokens=16, seconds=0.0)
    assert [line.label for line in findings.lines] == [
        "LSTM, read",
        "LSTM, written",
        "Transformer, read",
        "Transformer, written",
    ]
    assert all(speed > 0 for line in findings.lines for speed in line.y)
    assert "8 steps one after the other" in findings.finding


@pytest.mark.thorough
def test_forcing_ends_alike_where_a_wrong_guess_does_little_harm() -> None:
    findings = forcing(compared=("teacher", "student"), trained_to=3, sources=500, tested=40, steps=(1, 200))
    teacher, student = (line.y for line in findings.lines)
    assert teacher != student
    assert max(teacher[0], student[0]) < 0.3
    assert min(teacher[1], student[1]) > 0.9
    assert abs(teacher[1] - student[1]) < 0.08
    assert findings.finding.startswith("After 200 steps this share of the letters is right: teacher forcing ")


def test_documents_of_the_extrapolation_repeat_themselves() -> None:
    document = document_of_period(np.random.default_rng(1), 11)
    assert len(document) == 11
    np.testing.assert_array_equal(document[4:], document[:-4])


@pytest.mark.thorough
def test_a_position_that_was_rarely_trained_is_known_only_by_its_distances() -> None:
    findings = extrapolation(kinds=("learned", "relative"), documents=1500, tested=40, steps=150, group=16)
    assert [line.label for line in findings.lines] == ["learned", "relative"]
    assert list(findings.lines[0].x) == [16, 32, 48, 64]
    learned, relative = (line.y[-1] - line.y[1] for line in findings.lines)
    assert learned > relative + 0.1


def test_a_power_law_is_fitted() -> None:
    x = np.array([1e3, 1e4, 1e5, 1e6])
    law = fit_power_law(x, 5 * x**-0.25)
    assert law == pytest.approx((5, 0.25, 0.25, 0.25))
    noisy = fit_power_law(x, 5 * x**-0.25 * np.array([1.1, 0.9, 1.1, 0.9]))
    assert noisy.low < noisy.exponent < noisy.high


@pytest.mark.parametrize("name", get_args(Name))
def test_every_experiment_is_a_function_in_a_module_of_its_name(name: Name) -> None:
    parameters = signature(function_of(name)).parameters
    assert {"seed", "progress"} < set(parameters)
    assert all(parameter.default is not parameter.empty for parameter in parameters.values())


def test_minutes_set_the_steps() -> None:
    assert factor_for(25.0, (0.01, 0.05), [2.0, 4.0]) == pytest.approx((25 - 1.5) / 50)  # 1.5 s, and 50 a usual run
    assert factor_for(1.0, (0.01, 0.05), [2.0, 4.0]) == 0.01
    assert factor_for(10.0, (0.01, 0.05), [2.0, 1.0]) == pytest.approx((10 - 1.8) / 20)  # a noisy first trial
    assert times_steps((50, 3), 0.1) == (5, 1)
    counted: list[int] = []

    def tried(*, seed: int, progress: object, steps: int = 200) -> Findings:
        counted.append(steps)
        return Findings(title=f"seed {seed}", x=Axis(label="x"), y=Axis(label="y"), lines=[])

    findings = enlarge(tried, 0.001, seed=3, progress=silent)
    assert counted[:3] == [2, 2, 10]
    times = next(sentence for sentence in findings.sentences if "times the usual steps" in sentence)
    assert times.endswith(f"the same again: tried(seed=3, steps={counted[3]})")
    assert ("these steps are few" in findings.sentences[-1]) == (counted[3] < 100)
    with pytest.raises(SettingError, match="minutes is for experiments that train networks; order trains none"):
        chainrule.experiment("order", minutes=1)
    with pytest.raises(SettingError, match="radius trains none"):
        chainrule.experiment("radius", minutes=1)
    with pytest.raises(SettingError, match="minutes is 0; expected more than 0"):
        chainrule.experiment("scaling", minutes=0)


def test_scaling_measures_every_size_and_budget() -> None:
    lines = [f"line {number} of a text that goes on and on" for number in range(200)]
    findings = scaling(lines=lines, widths=(8, 16), steps=(2, 30))
    assert len(findings.lines) == len(findings.says) == 2
    assert all(line.y[1] < line.y[0] for line in findings.lines)
