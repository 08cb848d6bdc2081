from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import BEGIN, END, UNKNOWN, random_backoff_grams, table_of

from chainrule.decoding.beam import search, with_greedy
from chainrule.decoding.config import GREEDY, BeamConfig
from chainrule.decoding.limits import Constraints
from chainrule.decoding.sampling import sample
from chainrule.errors import SettingError
from chainrule.mixture.uniform import UniformModel
from chainrule.ngram.models.table_models import NGramModel

if TYPE_CHECKING:
    from collections.abc import Sequence

NOTHING = np.empty(0, np.int32)
LONGEST = 3


def model_of(seed: int, size: int = 6) -> NGramModel:
    return NGramModel(table_of(random_backoff_grams(seed, size, 3), 3))


def outcomes(model: NGramModel, prefix: Sequence[int], longest: int) -> list[tuple[list[int], float, bool]]:
    """All texts of at most `longest` tokens that end, and all beginnings of that length, with their log-probability."""
    words = [word for word in range(model.vocabulary_size) if word not in (BEGIN, END)]
    found = []
    for length in range(longest + 1):
        for text in itertools.product(words, repeat=length):
            tokens = np.array(text, np.int32)
            [scores] = model.score([tokens], prefixes=[np.array(prefix, np.int32)])
            if length < longest:
                found.append((list(text), float(scores.sum(dtype=np.float64)), True))
            else:
                found.append((list(text), float(scores[:-1].sum(dtype=np.float64)), False))
    return found


def ranked(found: list[tuple[list[int], float, bool]], config: BeamConfig) -> list[tuple[list[int], float]]:
    by_score = [
        (log_prob / config.divisor(len(text) + ended) if text or ended else 0.0, text)
        for text, log_prob, ended in found
    ]
    return [(text, score) for score, text in sorted(by_score, key=lambda pair: -pair[0])]


@pytest.mark.parametrize("rank_by", ["total", "mean", "wu"])
@pytest.mark.parametrize("seed", range(4))
def test_an_exhaustive_beam_equals_brute_force(rank_by: Any, seed: int) -> None:
    model = model_of(seed)
    config = BeamConfig(size=400, best=40, rank_by=rank_by)
    prefixes = [NOTHING, np.array([3, 4], np.int32)]
    for prefix, found in zip(prefixes, search(model, prefixes, config, Constraints(max_tokens=LONGEST)), strict=True):
        expected = ranked(outcomes(model, prefix.tolist(), LONGEST), config)[:40]
        assert [hypothesis.score for hypothesis in found.hypotheses] == pytest.approx(
            [score for _, score in expected], abs=1e-5
        )
        clear = [i for i in range(1, 39) if expected[i - 1][1] - 1e-4 > expected[i][1] > expected[i + 1][1] + 1e-4]
        assert len(clear) > 5
        assert [found.hypotheses[i].tokens.tolist() for i in clear] == [expected[i][0] for i in clear]


def test_all_that_can_happen_has_the_probability_one() -> None:
    model = model_of(1)
    [found] = search(model, [NOTHING], BeamConfig(size=400, best=400), Constraints(max_tokens=LONGEST))
    assert len(found.hypotheses) == sum(4**length for length in range(LONGEST + 1))
    assert sum(math.exp(hypothesis.log_prob) for hypothesis in found.hypotheses) == pytest.approx(1, abs=1e-5)


def test_texts_must_not_end_by_what_is_banned() -> None:
    with pytest.raises(SettingError, match=r"must_end .* is banned"):
        search(model_of(1), [NOTHING], BeamConfig(must_end=True), Constraints(banned=[END]))


def test_where_texts_must_end_the_last_step_takes_nothing_but_the_end() -> None:
    model = model_of(2)
    config = BeamConfig(size=400, best=400, must_end=True)
    [found] = search(model, [NOTHING], config, Constraints(max_tokens=2))
    expected = {}
    for length in range(3):
        for text in itertools.product([0, 3, 4, 5], repeat=length):
            [scores] = model.score([np.array(text, np.int32)])
            expected[text] = float(scores.sum())
    assert {tuple(h.tokens.tolist()): h.log_prob for h in found.hypotheses} == pytest.approx(expected, abs=1e-4)
    assert {h.ending for h in found.hypotheses} == {"end"}


@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from(["total", "mean", "wu"]), st.integers(1, 3))
def test_lists_are_sorted_and_distinct_and_their_scores_are_those_of_scoring(
    seed: int, size: int, rank_by: Any, groups: int
) -> None:
    model = model_of(seed)
    config = BeamConfig(size=size * groups, best=size * groups, rank_by=rank_by, groups=groups)
    prefixes = [NOTHING, np.array([3], np.int32)]
    for prefix, found in zip(prefixes, search(model, prefixes, config, Constraints(max_tokens=5)), strict=True):
        scores = [hypothesis.score for hypothesis in found.hypotheses]
        texts = [(tuple(h.tokens.tolist()), h.ending) for h in found.hypotheses]
        assert 1 <= len(scores) <= size * groups
        assert scores == sorted(scores, reverse=True)
        assert len(set(texts)) == len(texts)
        for h in found.hypotheses:
            [row] = model.score([h.tokens], prefixes=[prefix], end=h.ending == "end")
            assert h.log_prob == pytest.approx(float(row.sum(dtype=np.float64)), abs=1e-4)
            assert h.score == pytest.approx(h.log_prob / config.divisor(len(row)))


@given(st.integers(0, 10**6), st.integers(0, 4))
def test_a_beam_of_one_equals_greedy(seed: int, min_tokens: int) -> None:
    model = model_of(seed)
    prefixes = [NOTHING, np.array([3], np.int32), np.array([4, 5, 0], np.int32)]
    constraints = Constraints(max_tokens=8, min_tokens=min_tokens)
    greedy = sample(model, prefixes, GREEDY, constraints, seed=0)
    for text, found in zip(greedy, search(model, prefixes, BeamConfig(size=1), constraints), strict=True):
        assert found.hypotheses[0].tokens.tolist() == text.tokens.tolist()
        assert found.hypotheses[0].log_prob == pytest.approx(text.log_prob, abs=1e-5)


@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from(["total", "mean", "wu"]))
def test_stopping_early_loses_nothing_that_the_beam_would_find(seed: int, size: int, rank_by: Any) -> None:
    """Beside a search that never stops before max_tokens."""
    model = model_of(seed)
    config = BeamConfig(size=size, best=size, rank_by=rank_by)
    early = search(model, [NOTHING], config, Constraints(max_tokens=9))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("chainrule.decoding.beam._may_improve", lambda *_: True)
        late = search(model, [NOTHING], config, Constraints(max_tokens=9))
    assert [(h.tokens.tolist(), h.score) for h in early[0].hypotheses] == [
        (h.tokens.tolist(), h.score) for h in late[0].hypotheses
    ]


def test_a_search_stops_early_where_it_may() -> None:
    class Counting(UniformModel):
        steps = 0

        def top(self, state: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
            self.steps += 1
            return super().top(state, k)

    model = Counting(6)
    search(model, [NOTHING], BeamConfig(size=5), Constraints(max_tokens=1000))
    assert model.steps == 1  # </s> at once is as likely as any other, and longer ones are less likely


def test_a_prefix_is_searched_the_same_alone_and_among_others() -> None:
    model = model_of(9, 9)
    prefixes = [np.array(words, np.int32) for words in ([], [3], [4, 5], [UNKNOWN, 3, 6])]
    config = BeamConfig(size=4, best=4, rank_by="mean")
    together = search(model, prefixes, config, Constraints(max_tokens=7))
    for prefix, found in zip(prefixes, together, strict=True):
        [alone] = search(model, [prefix], config, Constraints(max_tokens=7))
        assert [(h.tokens.tolist(), h.score) for h in found.hypotheses] == [
            (h.tokens.tolist(), h.score) for h in alone.hypotheses
        ]


@pytest.mark.parametrize("must_end", [False, True])
@pytest.mark.parametrize("stop", ["sure", "likely"])
def test_a_limit_of_its_own_makes_a_text_the_same_alone_and_among_others(must_end: bool, stop: Any) -> None:
    model = model_of(3)
    prefixes = [np.array(prefix, np.int32) for prefix in ([], [4], [3, 5], [4])]
    limits = [1, 7, 0, 3]
    config = BeamConfig(size=3, best=3, rank_by="mean", must_end=must_end, stop=stop)
    constraints = Constraints(banned=[UNKNOWN])
    together = search(model, prefixes, config, constraints, limits=limits)
    for prefix, limit, result in zip(prefixes, limits, together, strict=True):
        [alone] = search(model, [prefix], config, Constraints(banned=[UNKNOWN], max_tokens=limit))
        assert [(one.tokens.tolist(), one.ending) for one in result.hypotheses] == [
            (one.tokens.tolist(), one.ending) for one in alone.hypotheses
        ]
        np.testing.assert_allclose(
            [one.score for one in result.hypotheses], [one.score for one in alone.hypotheses], atol=1e-5
        )
    with pytest.raises(SettingError, match="begin has 1 tokens, more than a limit, 0"):
        search(model, prefixes, config, Constraints(begin=[4]), limits=limits)


def test_of_equals_the_lower_id_is_kept() -> None:
    [found] = search(UniformModel(7), [NOTHING], BeamConfig(size=2, best=2), Constraints(max_tokens=1, banned=[0, END]))
    assert [h.tokens.tolist() for h in found.hypotheses] == [[3], [4]]


def test_groups_avoid_each_others_tokens() -> None:
    model = model_of(4, 9)
    plain, diverse = (
        search(model, [NOTHING], BeamConfig(size=4, best=4, groups=groups, diversity=100), Constraints(max_tokens=3))[0]
        for groups in (1, 4)
    )
    first = [h.tokens.tolist()[:1] for h in diverse.hypotheses]
    assert len({tuple(tokens) for tokens in first}) == len(first) == 4
    assert plain.hypotheses[0].score >= diverse.hypotheses[0].score
    [greedy] = sample(model, [NOTHING], GREEDY, Constraints(max_tokens=3), seed=0)
    assert greedy.tokens.tolist() in [h.tokens.tolist() for h in diverse.hypotheses]  # the first group is undisturbed


def test_constraints_hold() -> None:
    model = model_of(5, 9)
    constraints = Constraints(begin=[4], min_tokens=3, max_tokens=6, banned=[UNKNOWN, 5], no_repeat=2)
    [found] = search(model, [np.array([4, 4], np.int32)], BeamConfig(size=6, best=6), constraints)
    for h in found.hypotheses:
        assert h.tokens[0] == 4
        assert 3 <= len(h.tokens) <= 6
        assert not {UNKNOWN, 5} & set(h.tokens.tolist())
        words = [4, 4, *h.tokens.tolist()]
        assert len(set(itertools.pairwise(words[1:]))) == len(words) - 2
    [found] = search(model, [NOTHING], BeamConfig(size=6, best=3), Constraints(allowed=[6, 7], max_tokens=4))
    assert all(set(h.tokens.tolist()) <= {6, 7} for h in found.hypotheses)


@pytest.mark.parametrize("rank_by", ["total", "mean", "wu"])
def test_where_no_token_may_be_added_the_beginning_is_the_text(rank_by: Any) -> None:
    model = model_of(3)
    for begin in ([], [4, 3]):
        constraints = Constraints(begin=begin, max_tokens=len(begin))
        [found] = search(model, [NOTHING], BeamConfig(size=4, groups=2, rank_by=rank_by), constraints)
        [hypothesis] = found.hypotheses
        [scores] = model.score([np.array(begin, np.int32)], end=False)
        assert (hypothesis.tokens.tolist(), hypothesis.ending) == (begin, "length")
        assert hypothesis.log_prob == pytest.approx(float(scores.sum()), abs=1e-5)


def test_a_hypothesis_stops_where_the_caller_says() -> None:
    model = model_of(6, 9)
    [found] = search(
        model, [NOTHING], BeamConfig(size=5, best=5), Constraints(max_tokens=6), until=lambda tokens: len(tokens) == 2
    )
    assert {h.ending for h in found.hypotheses} <= {"stop", "end"}
    assert max(len(h.tokens) for h in found.hypotheses) == 2


def test_the_tree_holds_all_hypotheses_considered() -> None:
    model = model_of(7, 8)
    config = BeamConfig(size=3, best=3)
    [found] = search(model, [NOTHING], config, Constraints(begin=[4], max_tokens=5), keep_tree=True)
    tree = found.tree
    assert {node.fate for node in tree} >= {"kept", "pruned"}
    for place, node in enumerate(tree):
        assert node.parent < place
        before = tree[node.parent].total if node.parent >= 0 else 0.0
        assert node.total == pytest.approx(before + node.log_prob)
        assert node.parent < 0 or tree[node.parent].fate == "kept"
        assert (node.score is None) == (node.fate in ("kept", "pruned"))
    finished = sorted((node.score for node in tree if node.score is not None), reverse=True)
    assert finished[:3] == [h.score for h in found.hypotheses]
    [without] = search(model, [NOTHING], config, Constraints(begin=[4], max_tokens=5))
    assert without.tree == []
    assert [h.score for h in without.hypotheses] == finished[:3]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 0}, "beam is 0; expected 1 or more"),
        ({"best": 0}, "best is 0; expected 1 or more"),
        ({"groups": 0}, "groups is 0; expected 1 or more"),
        ({"size": 3, "best": 4}, "a beam of 3 cannot return the 4 best texts; widen it"),
        ({"size": 5, "groups": 2}, "a beam of 5 cannot be divided into 2 groups"),
        ({"rank_by": "max"}, "rank_by is 'max'; expected total, mean or wu"),
        ({"size": 5000}, "beam is 5000; expected at most 4096"),
        ({"alpha": -1}, "alpha is -1; expected 0 to 10"),
        ({"alpha": 99999}, "alpha is 99999; expected 0 to 10"),
        ({"alpha": math.inf}, "alpha is inf; expected a finite number, 0 to 10"),
        ({"coverage": math.inf}, "coverage is inf"),
        ({"diversity": math.nan}, "diversity is nan"),
    ],
    ids=str,
)
def test_impossible_settings_are_errors_that_name_them(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        BeamConfig(**settings)


def test_coverage_needs_attention() -> None:
    with pytest.raises(SettingError, match="coverage needs a model that attends"):
        search(UniformModel(5), [NOTHING], BeamConfig(coverage=0.2))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rank_by", ["total", "mean"])
def test_the_way_of_greedy_search_is_in_the_tree(seed: int, rank_by: Any) -> None:
    model, constraints = model_of(seed), Constraints(begin=[4], max_tokens=5)
    config = BeamConfig(size=2, rank_by=rank_by)
    [found] = search(model, [NOTHING], config, constraints, keep_tree=True)
    tree = with_greedy(model, NOTHING, found.tree, config, constraints)
    [likeliest] = sample(model, [NOTHING], GREEDY, constraints, seed=0)
    way = [tree.nodes[i] for i in tree.greedy]
    ended = [END] if likeliest.ending == "end" else []
    assert [node.token for node in way] == [*likeliest.tokens, *ended]
    assert [node.parent for node in way] == [-1, *tree.greedy[:-1]]
    assert way[-1].total == pytest.approx(likeliest.log_prob, abs=1e-4)
    assert tree.greedy_score == pytest.approx(way[-1].total / config.divisor(len(way)))
    assert [tree.nodes[i].token for i in tree.best if tree.nodes[i].token != END] == found.hypotheses[0].tokens.tolist()
    assert tree.score == found.hypotheses[0].score
    assert list(tree.nodes[: len(found.tree)]) == found.tree
    assert all(node.fate == "greedy" for node in tree.nodes[len(found.tree) :])
    same = [a == b for a, b in zip(tree.best, tree.greedy, strict=False)]
    assert tree.fork == (None if tree.best == tree.greedy else [*same, False].index(False))
