"""What every language model promises, whatever its family: see `chainrule.protocol`."""

from __future__ import annotations

import random
import re
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from contract_models import MODELS, STREAMS
from oracles import BEGIN, END, UNKNOWN
from samples import sampled

from chainrule.decoding.beam import search
from chainrule.decoding.config import GREEDY, BeamConfig, SamplingConfig
from chainrule.decoding.limits import Constraints
from chainrule.decoding.sampling import sample
from chainrule.errors import SettingError
from chainrule.ngram.models.stream_scorer import StreamScorer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chainrule.protocol import LanguageModel

CLOSE = 1e-4
_OF_A_KIND = r", | given |paragraphs|part of a mixture| that learns|LSTM with | of (Luong|Bahdanau)|reads several"
VARIANTS = [name for name in MODELS if re.search(_OF_A_KIND, name)]
QUICK = [*(MODELS.keys() - VARIANTS), *VARIANTS[::4]]
pytestmark = pytest.mark.spread(40)


@pytest.fixture(scope="session", params=sampled(MODELS, QUICK))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def model(name: str, fixtures: Path) -> LanguageModel[Any]:
    return MODELS[name](fixtures / "train.txt")


@pytest.fixture(scope="session")
def prefixes(model: LanguageModel[Any]) -> list[np.ndarray]:
    """Of unequal lengths; made by drawing likely and unlikely words in turn, so that contexts are seen and unseen."""
    chance = np.random.default_rng(11)
    drawn: list[np.ndarray] = []
    for length in (0, 1, 2, 3, 5, 9, 4):
        words: list[int] = []
        for i in range(length):
            if i % 3 == 0:
                words.append(int(chance.integers(3, model.vocabulary_size)))
                continue
            _, best = model.top(model.start([ids(*words)]), 4)
            words.append(next(word for word in best[0].tolist() if word not in (BEGIN, END)))
        drawn.append(ids(*words))
    return [*drawn, ids(UNKNOWN), ids(3, UNKNOWN, 4)]


def ids(*words: int) -> np.ndarray:
    return np.array(words, np.int32)


def next_after(model: LanguageModel[Any], prefixes: list[np.ndarray]) -> np.ndarray:
    return model.next_log_probs(model.start(prefixes))


class Stepper:
    """Log-probabilities by one step of a single row after the other, of which many tests ask for the same."""

    def __init__(self, model: LanguageModel[Any]) -> None:
        self.model = model
        self._rows: dict[tuple[bytes, bytes], np.ndarray] = {}

    def rows(self, prefix: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """The distribution before each token, (T, V), after `prefix` and the tokens before it."""
        key = prefix.tobytes(), tokens.tobytes()
        if key not in self._rows:
            state, rows = self.model.start([prefix]), []
            for token in tokens.tolist():
                rows.append(self.model.next_log_probs(state)[0].copy())
                state = self.model.advance(state, ids(token))
            self._rows[key] = np.stack(rows)
        return self._rows[key]

    def __call__(self, prefix: np.ndarray, tokens: np.ndarray, asked: int | None = None) -> np.ndarray:
        """The log-probability of each token, or of `asked` in its place."""
        rows = self.rows(prefix, tokens)
        return rows[np.arange(len(tokens)), tokens] if asked is None else rows[:, asked]


@pytest.fixture(scope="session")
def stepped(model: LanguageModel[Any]) -> Stepper:
    return Stepper(model)


def test_rows_sum_to_one_and_the_begin_is_never_predicted(model, prefixes) -> None:
    rows = next_after(model, prefixes)
    assert rows.shape == (len(prefixes), model.vocabulary_size)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.exp(rows, dtype=np.float64).sum(axis=1), 1, rtol=0, atol=CLOSE)
    assert np.all(rows[:, BEGIN] == -np.inf)
    assert not np.isnan(rows).any()
    assert model.end == END


def test_score_equals_stepping(model, prefixes, stepped) -> None:
    open_ended = model.score(prefixes, end=False)
    for sequence, found, begun in zip(prefixes, model.score(prefixes), open_ended, strict=True):
        expected = stepped(ids(), np.append(sequence, ids(END)))
        assert found.dtype == begun.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE, strict=True)
        np.testing.assert_allclose(begun, expected[:-1], rtol=0, atol=CLOSE, strict=True)


def test_a_stream_is_scored_as_its_documents_or_as_one_text(model, prefixes, stepped, name: str) -> None:
    stream = np.concatenate([np.append(prefix, ids(END)) for prefix in prefixes])
    found = model.score_stream(stream)
    assert found.dtype == np.float32
    if name in STREAMS:
        np.testing.assert_allclose(found, stepped(ids(), stream), rtol=0, atol=CLOSE)
    else:
        assert np.array_equal(found, np.concatenate(model.score(prefixes)))
    assert model.score_stream(ids()).size == 0
    with pytest.raises(SettingError, match="there is no token"):
        model.score_stream(ids(model.vocabulary_size))


def test_score_after_prefixes_equals_stepping_after_them(model, prefixes, stepped) -> None:
    sequences = prefixes[::-1]
    ended, open_ended = (model.score(sequences, prefixes=prefixes, end=end) for end in (True, False))
    for prefix, sequence, found, begun in zip(prefixes, sequences, ended, open_ended, strict=True):
        expected = stepped(prefix, np.append(sequence, ids(END)))
        np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE, strict=True)
        np.testing.assert_allclose(begun, expected[:-1], rtol=0, atol=CLOSE, strict=True)


def test_the_unknown_words_share_is_what_stepping_finds(model, prefixes, stepped) -> None:
    for before, end in product((None, prefixes[::-1]), (True, False)):
        found = model.unknown_log_probs(prefixes, prefixes=before, end=end)
        starts = before or [ids()] * len(prefixes)
        assert [row.shape for row in found] == [row.shape for row in model.score(prefixes, prefixes=before, end=end)]
        for start, sequence, row in zip(starts, prefixes, found, strict=True):
            assert row.dtype == np.float32
            expected = stepped(start, np.append(sequence, ids(END)), UNKNOWN)
            np.testing.assert_allclose(row, expected[: row.size], rtol=0, atol=CLOSE)
    with pytest.raises(SettingError, match="0 prefixes for 2 sequences"):
        model.unknown_log_probs([ids(3), ids(4)], prefixes=[])


def test_a_sequence_scores_the_same_alone_and_among_others(model, prefixes) -> None:
    for sequence, found in zip(prefixes, model.score(prefixes), strict=True):
        np.testing.assert_allclose(found, model.score([sequence])[0], rtol=0, atol=CLOSE)


def test_starting_with_two_parts_is_starting_with_one_and_advancing_by_the_other(model, prefixes) -> None:
    whole = max(prefixes, key=len)
    [expected] = next_after(model, [whole])
    for cut in range(len(whole) + 1):
        state = model.start([whole[:cut]])
        for token in whole[cut:].tolist():
            state = model.advance(state, ids(token))
        np.testing.assert_allclose(model.next_log_probs(state)[0], expected, rtol=0, atol=CLOSE)


def test_a_batch_of_unequal_lengths_equals_its_rows_one_by_one(model, prefixes) -> None:
    tokens = ids(*range(3, 3 + len(prefixes)))
    state = model.start(prefixes)
    rows = model.next_log_probs(state)
    advanced = model.next_log_probs(model.advance(state, tokens))
    for row, prefix in enumerate(prefixes):
        alone = model.start([prefix])
        np.testing.assert_allclose(rows[row], model.next_log_probs(alone)[0], rtol=0, atol=CLOSE)
        alone = model.advance(alone, tokens[row : row + 1])
        np.testing.assert_allclose(advanced[row], model.next_log_probs(alone)[0], rtol=0, atol=CLOSE)


def test_select_copies_repeats_and_drops_rows(model, prefixes) -> None:
    alone = [next_after(model, [prefix])[0] for prefix in prefixes]
    for chosen in ([0, 1, 2, 3], [3, 3, 0, 3], [2], [5, 0], []):
        rows = model.next_log_probs(model.select(model.start(prefixes), ids(*chosen)))
        assert rows.shape == (len(chosen), model.vocabulary_size)
        for row, parent in zip(rows, chosen, strict=True):
            np.testing.assert_allclose(row, alone[parent], rtol=0, atol=CLOSE)


def test_what_happens_to_selected_rows_leaves_the_old_state_and_each_other_alone(model, prefixes) -> None:
    state = model.start(prefixes)
    before = model.next_log_probs(state).copy()
    branch = model.select(state, ids(4, 4, 0))
    branch = model.advance(branch, ids(3, 5, 4))
    other = model.advance(model.select(state, ids(4)), ids(4))
    np.testing.assert_array_equal(model.next_log_probs(state), before)
    expected = [np.append(prefixes[4], ids(3)), np.append(prefixes[4], ids(5)), ids(4), np.append(prefixes[4], ids(4))]
    found = np.concatenate([model.next_log_probs(branch), model.next_log_probs(other)])
    np.testing.assert_allclose(found, next_after(model, expected), rtol=0, atol=CLOSE)
    model.advance(state, ids(*[3] * len(prefixes)))
    np.testing.assert_array_equal(model.next_log_probs(branch), found[:3])


def test_rows_that_join_and_leave_a_batch_are_as_each_alone(model, prefixes) -> None:
    """After twenty random steps; bit for bit where probabilities are looked up in tables."""
    chance = random.Random(1)
    rows = [list(prefix) for prefix in prefixes]
    cuts = sorted(chance.sample(range(len(rows) + 1), 2))
    parts = [rows[: cuts[0]], rows[cuts[0] : cuts[1]], rows[cuts[1] :]]
    state = model.join([model.start([ids(*row) for row in part]) for part in parts])
    for _ in range(20):
        match chance.choice(["advance", "advance", "select", "join"]):
            case "advance":
                tokens = [chance.choice([END, UNKNOWN, 3, 4, model.vocabulary_size - 1]) for _ in rows]
                state = model.advance(state, ids(*tokens))
                rows = [[*row, token] for row, token in zip(rows, tokens, strict=True)]
            case "select":
                chosen = [chance.randrange(len(rows)) for _ in range(chance.randint(1, 6))]
                state, rows = model.select(state, ids(*chosen)), [rows[row] for row in chosen]
            case "join":
                fresh = chance.choice(prefixes)
                before = model.next_log_probs(state)
                joined = model.join([model.start([fresh]), state])
                np.testing.assert_array_equal(model.next_log_probs(state), before)
                state, rows = joined, [list(fresh), *rows]
    alone = np.concatenate([next_after(model, [ids(*row)]) for row in rows])
    np.testing.assert_allclose(
        model.next_log_probs(state), alone, rtol=0, atol=0 if isinstance(model, StreamScorer) else CLOSE
    )


def test_looking_at_a_state_does_not_change_it(model, prefixes) -> None:
    state = model.start(prefixes)
    before = model.next_log_probs(state).copy()
    model.top(state, 3)
    np.testing.assert_array_equal(model.next_log_probs(state), before)


def test_log_probs_of_are_those_of_the_rows(model, prefixes) -> None:
    rng = np.random.default_rng(3)
    rows = np.array([0, len(prefixes) - 1, 0, *rng.integers(len(prefixes), size=20)], np.int32)
    state = model.select(model.start(prefixes), rows)
    tokens = rng.integers(model.vocabulary_size, size=60).astype(np.int32)
    pairs = rng.integers(len(rows), size=60).astype(np.int32)
    np.testing.assert_array_equal(model.log_probs_of(state, pairs, tokens), model.next_log_probs(state)[pairs, tokens])
    assert model.log_probs_of(state, pairs[:0], tokens[:0]).size == 0
    with pytest.raises(SettingError):
        model.log_probs_of(state, pairs[:1], np.array([model.vocabulary_size], np.int32))


def test_top_equals_sorting_with_equal_ones_by_lower_id(model, prefixes) -> None:
    state = model.start(prefixes)
    rows = model.next_log_probs(state).tolist()
    ranked = [sorted(range(model.vocabulary_size), key=lambda token: (-row[token], token)) for row in rows]
    for k in (1, 2, 7, 10**6):
        log_probs, tokens = model.top(state, k)
        assert log_probs.shape == tokens.shape == (len(prefixes), min(k, model.vocabulary_size))
        assert (log_probs.dtype, tokens.dtype) == (np.float32, np.int32)
        for row, expected, found, best in zip(rows, ranked, log_probs.tolist(), tokens.tolist(), strict=True):
            assert best == expected[:k]
            assert found == [row[token] for token in expected[:k]]


def test_top_of_less_than_one_is_an_error(model) -> None:
    for k in (0, -1):
        with pytest.raises(SettingError, match=f"k is {k}"):
            model.top(model.start([ids()]), k)


def test_a_draw_takes_what_is_not_banned_as_often_as_its_probability_says(model, prefixes) -> None:
    draws, banned = 10_000, [UNKNOWN, END]
    given = next(  # after which something else may come: a tree that is complete only ends
        own for own in (prefixes[3:4], [ids()]) if np.isfinite(np.delete(next_after(model, own)[0], banned)).any()
    )
    state = model.select(model.start(given), np.zeros(draws, np.int32))
    log_probs, tokens = model.draw(state, np.random.default_rng(1).random(draws), banned)
    [row] = next_after(model, given).astype(np.float64)
    # not to the last bit: on some processors, a product of ten thousand rows adds in another order than that of one
    np.testing.assert_allclose(log_probs, row[tokens].astype(np.float32), rtol=5e-7)
    assert (log_probs.dtype, tokens.dtype) == (np.float32, np.int32)
    row[banned] = -np.inf
    expected = np.exp(row) / np.exp(row).sum() * draws
    likely = np.append(np.flatnonzero(expected >= 50), model.vocabulary_size)  # the last: all others together
    expected = np.append(expected[likely[:-1]], max(0.0, draws - expected[likely[:-1]].sum()))
    counts = np.bincount(tokens, minlength=model.vocabulary_size)
    counts = np.append(counts[likely[:-1]], draws - counts[likely[:-1]].sum())
    assert not set(tokens.tolist()) & {BEGIN, *banned}
    assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected) + 1)  # five standard deviations


def test_a_row_is_drawn_the_same_alone_and_among_others(model, prefixes) -> None:
    uniforms = np.random.default_rng(2).random(len(prefixes))
    _, tokens = model.draw(model.start(prefixes), uniforms, [UNKNOWN])
    for row, prefix in enumerate(prefixes):
        assert model.draw(model.start([prefix]), uniforms[row : row + 1], [UNKNOWN])[1].tolist() == [tokens[row]]


def test_impossible_draws_are_errors(model) -> None:
    for uniforms, banned, message in (
        ([0.5], [], "1 numbers for 2 rows"),
        ([0.5, 1.0], [], "outside"),
        ([-0.1, 0.0], [], "outside"),
        ([0.5, 0.5], [-1], "no token -1"),
    ):
        with pytest.raises(SettingError, match=message):
            model.draw(model.start([ids(), ids()]), np.array(uniforms), banned)


def test_the_end_starts_the_next_document_which_a_stream_reads_after_those_before(model, prefixes, name: str) -> None:
    state = model.advance(model.start(prefixes), ids(*[END] * len(prefixes)))
    before = [np.append(prefix, ids(END)) if name in STREAMS else ids() for prefix in prefixes]
    np.testing.assert_allclose(model.next_log_probs(state), next_after(model, before), rtol=0, atol=CLOSE)
    state = model.advance(state, ids(*[3] * len(prefixes)))
    after = [np.append(prefix, ids(3)) for prefix in before]
    np.testing.assert_allclose(model.next_log_probs(state), next_after(model, after), rtol=0, atol=CLOSE)


def test_no_rows_are_fine(model) -> None:
    state = model.advance(model.start([]), ids())
    assert model.next_log_probs(state).shape == (0, model.vocabulary_size)
    assert model.score([]) == []


def test_an_id_outside_the_vocabulary_is_an_error(model) -> None:
    calls: list[Callable[[np.ndarray], object]] = [
        lambda bad: model.score([ids(3), bad]),
        lambda bad: model.score([ids(3)], prefixes=[bad]),
        lambda bad: model.start([ids(3), bad]),
        lambda bad: model.advance(model.start([ids(), ids()]), bad),
    ]
    for token, call in product((-1, model.vocabulary_size, 2**31 - 1, -(2**31), 2**32 + 3), calls):
        bad = np.array([3, token], np.int32 if -(2**31) <= token < 2**31 else np.int64)
        with pytest.raises(SettingError, match=f"no token {token}: ids run from 0 to {model.vocabulary_size - 1}"):
            call(bad)


def test_prefixes_tokens_and_rows_must_agree_in_number(model) -> None:
    for number in (0, 1, 3):
        with pytest.raises(SettingError, match=f"{number} prefixes for 2 sequences"):
            model.score([ids(3), ids(4)], prefixes=[ids(3)] * number)
        with pytest.raises(SettingError, match=f"{number} tokens for 2 rows"):
            model.advance(model.start([ids(), ids()]), ids(*[3] * number))


def test_begin_of_sentence_has_no_probability_when_it_is_scored(model: LanguageModel[Any]) -> None:
    assert model.score([np.array([BEGIN], np.int32)])[0][0] == -np.inf


def test_ids_may_come_in_lists_and_must_be_integers(model: LanguageModel[Any]) -> None:
    lists, arrays = model.score([[3, 4], []]), model.score([ids(3, 4), ids()])
    assert [row.tolist() for row in lists] == [row.tolist() for row in arrays]
    for call in (lambda: model.score([np.array([2.5])]), lambda: model.advance(model.start([[]]), np.array([3.7]))):
        with pytest.raises(SettingError, match="expected the integers"):
            call()


def test_a_beam_of_one_equals_greedy(model, prefixes) -> None:
    constraints = Constraints(max_tokens=6)
    greedy = sample(model, prefixes, GREEDY, constraints, seed=0)
    for text, found in zip(greedy, search(model, prefixes, BeamConfig(size=1), constraints), strict=True):
        assert found.hypotheses[0].tokens.tolist() == text.tokens.tolist()
        assert found.hypotheses[0].log_prob == pytest.approx(text.log_prob, abs=CLOSE)


def test_an_exhaustive_beam_equals_brute_force(model, prefixes) -> None:
    words = [3, 4, 5]
    constraints = Constraints(allowed=words, max_tokens=2)
    [found] = search(model, prefixes[2:3], BeamConfig(size=40, best=40), constraints)
    texts = [[], *([a] for a in words), *([a, b] for a in words for b in words)]
    expected = []
    for text in texts:
        [scores] = model.score([ids(*text)], prefixes=prefixes[2:3], end=len(text) < 2)
        expected.append(float(scores.sum(dtype=np.float64)))
    possible = [(log_prob, text) for log_prob, text in zip(expected, texts, strict=True) if log_prob > -np.inf]
    log_probs = sorted((log_prob for log_prob, _ in possible), reverse=True)
    assert [h.log_prob for h in found.hypotheses] == pytest.approx(log_probs, abs=CLOSE)
    assert sorted(h.tokens.tolist() for h in found.hypotheses) == sorted(text for _, text in possible)


def test_sampled_texts_have_the_log_probs_of_scoring(model, prefixes) -> None:
    for config in (None, SamplingConfig(top_k=5), SamplingConfig(temperature=0.7), SamplingConfig(top_p=0.8)):
        texts = sample(model, prefixes, config, Constraints(max_tokens=5), seed=3)
        tokens = [text.tokens for text in texts]
        ended, open_ended = (model.score(tokens, prefixes=prefixes, end=end) for end in (True, False))
        for text, with_end, without in zip(texts, ended, open_ended, strict=True):
            expected = with_end if text.ending == "end" else without
            np.testing.assert_allclose(text.log_probs, expected, rtol=0, atol=CLOSE)
