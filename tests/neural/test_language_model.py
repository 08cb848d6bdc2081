"""Long texts behind the waist: windows and pieces against one step after the other; and states that branch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_networks import DOCUMENT_NETWORKS, MODERN, STREAM_NETWORKS, random_model, small
from samples import sampled

from chainrule.errors import ModelFormatError
from chainrule.neural import scoring as scoring_batches
from chainrule.neural.config import RecurrentConfig
from chainrule.neural.scoring import pieces_of, stride, top_tokens, window_start

NETWORKS = {**DOCUMENT_NETWORKS, **STREAM_NETWORKS}
SAMPLE = sampled(NETWORKS, list(NETWORKS)[::6])


def text(length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(2, 29, length).astype(np.int32)


@pytest.mark.spread(6)
@pytest.mark.parametrize("name", SAMPLE)
def test_a_long_stream_equals_its_steps(name: str) -> None:
    model = random_model(NETWORKS[name])
    stream = text(150)
    state = model.start([stream[:0]])
    stepped = []
    for token in stream:
        stepped.append(model.next_log_probs(state)[0, token])
        state = model.advance(state, np.array([token], np.int32))
    np.testing.assert_allclose(model.score_stream(stream), stepped, rtol=0, atol=1e-4)
    np.testing.assert_allclose(
        model.next_log_probs(state), model.next_log_probs(model.start([stream])), rtol=0, atol=1e-4
    )


@pytest.mark.spread(6)
@pytest.mark.parametrize("name", SAMPLE)
def test_rows_of_unequal_lengths_go_on_for_long(name: str) -> None:
    """Rows fill, are read again, and grow over their room at different times; some branch on the way."""
    model = random_model(NETWORKS[name])
    rows = [text(length, seed=length).tolist() for length in (0, 3, 5, 17)]
    state = model.start([np.array(row, np.int32) for row in rows])
    chance = np.random.default_rng(1)
    for step in range(140):
        tokens = chance.integers(2, 29, len(rows)).astype(np.int32)
        state = model.advance(state, tokens)
        for row, token in zip(rows, tokens.tolist(), strict=True):
            row.append(token)
        if step % 20 == 7:
            chosen = chance.integers(0, len(rows), 4).astype(np.int32)
            state, rows = model.select(state, chosen), [list(rows[i]) for i in chosen]
        if step % 23 == 0 or step == 139:
            expected = model.next_log_probs(model.start([np.array(row, np.int32) for row in rows]))
            np.testing.assert_allclose(model.next_log_probs(state), expected, rtol=0, atol=1e-4)


def test_a_state_may_be_advanced_twice() -> None:
    for name in NETWORKS:
        model = random_model(NETWORKS[name])
        state = model.start([text(4), text(4, 1)])
        first = model.advance(state, np.array([3, 4], np.int32))
        second = model.advance(state, np.array([5, 6], np.int32))
        for found, tokens in ((first, [3, 4]), (second, [5, 6])):
            expected = model.start([np.append(text(4), tokens[0]), np.append(text(4, 1), tokens[1])])
            np.testing.assert_allclose(model.next_log_probs(found), model.next_log_probs(expected), rtol=0, atol=1e-4)


@given(st.integers(1, 40), st.integers(1, 9))
def test_windows_are_those_that_stepping_goes_through(inputs: int, context: int) -> None:
    begin = 0
    for end in range(inputs):
        if end - begin == context:
            begin = end - context // 2
    assert window_start(inputs, context) == begin
    assert begin % stride(context) == 0


@pytest.mark.parametrize("name", SAMPLE)
@given(st.lists(st.integers(0, 60), max_size=5))
def test_pieces_score_each_input_once_with_enough_before_it(name: str, lengths: list[int]) -> None:
    network = random_model(NETWORKS[name]).network
    context, reach = network.encoder.context, network.reach
    scored = [np.zeros(length, int) for length in lengths]
    for row, begin, first, end in pieces_of(lengths, network):
        scored[row][first:end] += 1
        for i in range(first, end):
            if context is not None:
                assert begin == window_start(i + 1, context)
            else:
                assert begin <= max(0, i + 1 - (reach or i + 1))
    assert all((row == 1).all() for row in scored)


def test_a_long_stream_of_a_recurrent_network_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring_batches, "_SCORED", 100)
    model = random_model(RecurrentConfig(width=10, layers=1))
    stream = text(1003)
    pieces = pieces_of([1003], model.network, warm_up=scoring_batches.WARM_UP)
    assert len(pieces) == 10
    [whole] = model.score([stream], end=False)
    np.testing.assert_allclose(model.score_stream(stream), whole, rtol=0, atol=1e-4)


def test_a_stream_with_the_share_of_the_unknown() -> None:
    for config in (small(MODERN), small(MODERN, memory="document")):
        model = random_model(config)
        stream = text(50)
        scores, unknown = model.score_stream_with_unknown(stream)
        np.testing.assert_array_equal(scores, model.score_stream(stream))
        replaced = stream.copy()
        replaced[-1] = 0
        assert unknown[-1] == pytest.approx(model.score_stream(replaced)[-1], abs=1e-5)


def test_signatures_tell_the_context() -> None:
    assert random_model(small(MODERN)).stream_signature == "context:stream|window:6|stride:3"
    assert random_model(small(MODERN, window=3, memory="document")).stream_signature == "context:document|reach:5"
    assert random_model(RecurrentConfig(width=8)).stream_signature == "context:stream|warm-up:512"
    assert random_model(RecurrentConfig(width=8, memory="document")).stream_signature == "context:document"


def test_a_state_without_rows_lies_where_the_network_does() -> None:
    model = random_model(MODERN)
    model.network.to("meta")  # stands for a GPU
    assert model.start([]).next.hidden.device.type == "meta"


@pytest.mark.parametrize("name", [next(iter(DOCUMENT_NETWORKS)), "Transformer, modern, in a window"])
def test_scoring_a_stream_reports_progress(name: str) -> None:
    model = random_model(NETWORKS[name])
    stream = text(3 * scoring_batches.TOGETHER_ON_PROCESSORS)
    told: list[float] = []
    scores, unknown = model.score_stream_with_unknown(stream, told.append)
    assert told == sorted(told)
    assert told[0] < 0.5
    assert told[-1] == 1
    for one, other in zip(model.score_stream_with_unknown(stream), (scores, unknown), strict=True):
        assert np.array_equal(one, other)


def test_the_likeliest_token_is_the_first_of_those_that_tie_and_none_where_there_is_no_number() -> None:
    rows = torch.full((3, 50), -4.0)
    rows[0, [30, 7, 44]], rows[1, 49] = -1.0, -2.0
    for k in (1, 2):
        log_probs, tokens = top_tokens(rows, k)
        assert tokens[:, 0].tolist() == [7, 49, 0]
        assert log_probs[:, 0].tolist() == [-1.0, -2.0, -4.0]
        with pytest.raises(ModelFormatError):
            top_tokens(torch.where(rows == -2, torch.nan, rows), k)
