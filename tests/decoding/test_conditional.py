"""Decoders with a model that is given a source: they ask for nothing but the waist, and at most for its attention."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

from chainrule.base.arguments import as_tokens
from chainrule.base.distributions import draw_of, top_of
from chainrule.decoding.beam import search
from chainrule.decoding.config import GREEDY, BeamConfig
from chainrule.decoding.limits import Constraints
from chainrule.decoding.sampling import sample
from chainrule.protocol import BEGIN, END

NOTHING = np.empty(0, np.int32)
SIZE = 9


class CopyState(NamedTuple):
    sources: np.ndarray  # the index of each row's source
    written: np.ndarray  # the number of tokens


class Copying:
    """Writes its source token by token and then ends, each time with probability 0.8; the rest is spread evenly."""

    end = END
    vocabulary_size = SIZE

    def __init__(self, sources: list[list[int]]) -> None:
        self.sources = sources

    def start(self, prefixes) -> CopyState:
        assert len(prefixes) == len(self.sources)  # row r belongs to source r
        return CopyState(np.arange(len(prefixes)), np.array([len(prefix) for prefix in prefixes], np.int64))

    def next_log_probs(self, state: CopyState) -> np.ndarray:
        rows = np.full((len(state.sources), SIZE), 0.2 / (SIZE - 2))
        rows[:, BEGIN] = 0
        for row, (source, written) in enumerate(zip(*state, strict=True)):
            rest = self.sources[source][written:]
            rows[row, rest[0] if rest else END] = 0.8
        with np.errstate(divide="ignore"):
            return np.log(rows).astype(np.float32)

    def top(self, state: CopyState, k: int):
        return top_of(self.next_log_probs(state), k)

    def draw(self, state: CopyState, uniforms: np.ndarray, banned=()):
        return draw_of(self.next_log_probs(state), uniforms, banned)

    def advance(self, state: CopyState, tokens: np.ndarray) -> CopyState:
        return CopyState(state.sources, state.written + 1)

    def select(self, state: CopyState, rows: np.ndarray) -> CopyState:
        return CopyState(state.sources[rows], state.written[rows])

    def score(self, sequences, *, prefixes=None, end=True):
        scores = []
        for i, sequence in enumerate(sequences):
            state = self.select(self.start(prefixes or [NOTHING] * len(sequences)), np.array([i]))
            row = []
            for token in [*as_tokens(sequence).tolist(), *([END] if end else [])]:
                row.append(self.next_log_probs(state)[0, token])
                state = self.advance(state, np.array([token]))
            scores.append(np.array(row, np.float32))
        return scores

    def attention(self, state: CopyState) -> np.ndarray:
        """All on the token to be copied; half and half on the last two once all are."""
        rows = np.full((len(state.sources), max(map(len, self.sources))), np.nan, np.float32)
        for row, (source, written) in enumerate(zip(*state, strict=True)):
            length = len(self.sources[source])
            rows[row, :length] = 0.0
            if written < length:
                rows[row, written] = 1.0
            else:
                rows[row, :length] = 1 / length
        return rows


SOURCES = [[5, 6, 7], [3], [8, 8, 4, 3]]


def test_each_row_is_written_from_its_own_source() -> None:
    model = Copying(SOURCES)
    prefixes = [NOTHING] * 3
    assert [text.tokens.tolist() for text in sample(model, prefixes, GREEDY, seed=0)] == SOURCES
    found = search(model, prefixes, BeamConfig(size=3, best=2), attention=model.attention)
    assert [each.hypotheses[0].tokens.tolist() for each in found] == SOURCES
    drawn = sample(model, prefixes, constraints=Constraints(max_tokens=9), seed=1, texts_per_prefix=200)
    copies = [sum(text.tokens.tolist() == SOURCES[i // 200] for text in drawn[i : i + 200]) for i in (0, 200, 400)]
    for source, number in zip(SOURCES, copies, strict=True):  # all tokens and the end; within 5 standard deviations
        share = 0.8 ** (len(source) + 1)
        assert abs(number - 200 * share) < 5 * (200 * share * (1 - share)) ** 0.5


def test_a_search_that_ends_when_nothing_better_is_likely_is_shorter_and_finds_the_same_here() -> None:
    steps: dict[str, list[float]] = {"sure": [], "likely": []}
    found = {}
    for stop, done in steps.items():
        config = BeamConfig(size=3, best=2, rank_by="mean", stop=stop)
        found[stop] = search(
            Copying(SOURCES), [NOTHING] * 3, config, progress=lambda _, at, __, done=done: done.append(at)
        )
    assert [each.hypotheses[0].tokens.tolist() for each in found["likely"]] == SOURCES
    assert [each.hypotheses[0].tokens.tolist() for each in found["sure"]] == SOURCES
    assert len(steps["likely"]) < len(steps["sure"]) / 3


def test_a_prefix_forces_the_beginning_of_each_text() -> None:
    model = Copying(SOURCES)
    prefixes = [np.array(words, np.int32) for words in ([5], [], [8, 8])]
    found = search(model, prefixes, BeamConfig(size=2))
    assert [each.hypotheses[0].tokens.tolist() for each in found] == [[6, 7], [3], [4, 3]]


def test_a_hypothesis_has_the_attention_of_every_token() -> None:
    model = Copying(SOURCES)
    found = search(model, [NOTHING] * 3, BeamConfig(size=2), attention=model.attention)
    alignment = found[0].hypotheses[0].attention
    assert alignment is not None
    assert alignment.shape == (4, 4)  # three tokens and </s>; the longest source
    np.testing.assert_allclose(alignment[:, :3], [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1 / 3, 1 / 3, 1 / 3]])
    assert np.isnan(alignment[:, 3]).all()
    assert search(model, [NOTHING] * 3, BeamConfig(size=2))[0].hypotheses[0].attention is None


def test_coverage_prefers_texts_that_attend_to_all_of_the_source() -> None:
    model = Copying([[5, 6, 7]])

    def half(state: CopyState) -> np.ndarray:
        """A quarter on each position, whatever is written: so the longer a text, the better it covers."""
        return np.full((len(state.sources), 3), 0.25, np.float32)

    constraints = Constraints(max_tokens=5)
    config = BeamConfig(size=30, best=5, coverage=10.0)
    [found] = search(model, [NOTHING], config, constraints, attention=half)
    for h in found.hypotheses:
        predicted = len(h.tokens) + (h.ending == "end")
        expected = h.log_prob + 10.0 * 3 * math.log(min(0.25 * predicted, 1))
        assert h.score == pytest.approx(expected, abs=1e-4)
    assert found.hypotheses[0].tokens.tolist() == [5, 6, 7]
    short = Copying([[5]])
    plain, covered = (
        search(short, [NOTHING], BeamConfig(size=30, coverage=weight), constraints, attention=half)[0].hypotheses[0]
        for weight in (0.0, 10.0)
    )
    assert plain.tokens.tolist() == [5]
    assert len(covered.tokens) > 1
