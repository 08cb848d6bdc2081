"""The compact layout beside the fast one: the same n-grams, quantised probabilities, rows that sum to one."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import (
    BEGIN,
    END,
    Grams,
    grams_of,
    katz_stream,
    random_backoff_grams,
    random_documents,
    stream_of,
    table_of,
    wild_table,
)

import chainrule
from chainrule import NGramConfig
from chainrule.errors import EstimationError, ModelFormatError
from chainrule.ngram.compact.building import choose_values, compact_table, unpack_table
from chainrule.ngram.compact.query_kernels import backoff_in, pack_backoff_and_scale, scale_in
from chainrule.ngram.compact.table import CompactTable
from chainrule.ngram.models.table_models import CompactNGramModel, NGramModel
from chainrule.ngram.trie.assembly import with_suffixes

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.ngram.trie.table import Table

SIZES = 20, 80, 9  # words, documents, and tokens of the longest


def trained(order: int, prune: tuple[int, ...] = (0,), *, seed: int = 1, words: int = 20, longest: int = 9) -> Table:
    from chainrule.ngram.training import train_ngram

    stream = stream_of(random_documents(seed, words, 300, longest))
    model, _ = train_ngram(stream, words, NGramConfig(order=order, prune=prune))
    return model.table


def documents(words: int = 20) -> np.ndarray:
    """Some that were not trained on."""
    return stream_of(random_documents(77, words, 200, 12))


TABLES = {
    "unigrams": lambda: trained(1),
    "bigrams": lambda: trained(2),
    "4-grams": lambda: trained(4),
    "4-grams, pruned": lambda: trained(4, (0, 0, 1, 2)),
    "the highest orders empty": lambda: trained(4, (0, 0, 10**6)),
    "many words": lambda: trained(5, words=400, longest=30),
    "suffixes missing": lambda: table_of(random_backoff_grams(3, 20, 4), 4),
}


@pytest.fixture(scope="module", params=TABLES)
def table(request: pytest.FixtureRequest) -> Table:
    return TABLES[request.param]()


@pytest.fixture(scope="module")
def compact(table: Table) -> CompactTable:
    return compact_table(table)


def test_every_n_gram_is_there_with_nearly_its_probability(table: Table, compact: CompactTable) -> None:
    actual, expected = grams_of(unpack_table(compact)), grams_of(with_suffixes(table)[0])
    assert list(actual) == list(expected)
    errors = [math.exp(actual[gram][0]) - math.exp(log_prob) for gram, (log_prob, _) in expected.items()]
    assert max(map(abs, errors)) < 0.03
    assert math.sqrt(sum(error**2 for error in errors) / len(errors)) < 0.003
    assert [actual[gram][0] for gram in expected if len(gram) == 1] == [
        log_prob for gram, (log_prob, _) in expected.items() if len(gram) == 1
    ]


def test_few_values_are_exact() -> None:
    table = trained(3, words=8)
    assert all(np.unique(table.log_probs[table.level(order)]).size <= 256 for order in (2, 3))
    stream = documents(8)
    scores = CompactNGramModel(compact_table(table)).score_stream(stream)
    np.testing.assert_allclose(scores, NGramModel(table).score_stream(stream), rtol=0, atol=1e-4)


def test_scores_and_lengths_are_those_of_the_table_it_unpacks_to(compact: CompactTable) -> None:
    stream = documents()
    small, fast = CompactNGramModel(compact), NGramModel(unpack_table(compact))
    for actual, expected in zip(
        small.score_stream_with_lengths(stream), fast.score_stream_with_lengths(stream), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)
    actual = katz_stream(grams_of(fast.table), compact.order, stream.tolist())
    np.testing.assert_allclose(small.score_stream(stream), [log_prob for log_prob, _ in actual], rtol=0, atol=1e-4)


def test_rows_sum_to_one(compact: CompactTable) -> None:
    model = CompactNGramModel(compact)
    contexts = [np.array(words, np.int32) for words in itertools.product(range(3, 12), repeat=2)]
    state = model.start([*contexts, *np.split(documents()[:600], 100)])
    sums = np.exp(model.next_log_probs(state), dtype=np.float64).sum(axis=1)
    np.testing.assert_allclose(sums, 1, rtol=0, atol=2e-5)


def test_the_length_of_a_match_stays_where_no_suffix_was_missing() -> None:
    table, stream = TABLES["many words"](), documents(400)
    expected = NGramModel(table).score_stream_with_lengths(stream)[1]
    assert np.array_equal(CompactNGramModel(compact_table(table)).score_stream_with_lengths(stream)[1], expected)


def test_nothing_depends_on_how_many_rows_are_asked_for_at_once(compact: CompactTable) -> None:
    model = CompactNGramModel(compact)
    state = model.start(list(np.split(documents()[:600], 200)))
    rows, (log_probs, tokens) = model.next_log_probs(state), model.top(state, 5)
    for i in (0, 63, 64, 128, 199):
        np.testing.assert_array_equal(model.next_log_probs(state[i : i + 1])[0], rows[i])
        best = model.top(state[i : i + 1], 5)
        assert (best[0][0].tolist(), best[1][0].tolist()) == (log_probs[i].tolist(), tokens[i].tolist())


def test_arrays_make_the_same_table_again(compact: CompactTable) -> None:
    again = CompactTable.from_arrays(list(compact.level_sizes), list(compact.run_bits), compact.arrays())
    stream = documents()
    assert np.array_equal(
        CompactNGramModel(again).score_stream(stream), CompactNGramModel(compact).score_stream(stream)
    )


def test_a_row_of_which_nothing_is_left_for_others() -> None:
    grams: Grams = {(0,): (math.log(0.2), 0.0), (BEGIN,): (-math.inf, 0.0), (END,): (math.log(0.3), 0.0)}
    grams |= {(3,): (math.log(0.5), -math.inf), (3, 3): (math.log(0.4), 0.0), (3, END): (math.log(0.6), 0.0)}
    model = CompactNGramModel(compact_table(table_of(grams, 2)))
    [row] = np.exp(model.next_log_probs(model.start([np.array([3], np.int32)])))
    np.testing.assert_allclose(row, [0, 0, 0.6, 0.4], rtol=0, atol=1e-5)


def test_a_table_that_is_no_model_is_kept_as_it_is() -> None:
    """Backoffs for which rows do not sum to one are stored, and `evaluate` reports the sums."""
    grams = random_backoff_grams(5, 20, 3)
    grams = {gram: (log_prob, backoff + 0.7 * (len(gram) < 3)) for gram, (log_prob, backoff) in grams.items()}
    table, stream = table_of(grams, 3), documents()
    expected = NGramModel(with_suffixes(table)[0]).score_stream(stream)
    np.testing.assert_allclose(CompactNGramModel(compact_table(table)).score_stream(stream), expected, rtol=0, atol=0.2)


@pytest.mark.parametrize("seed", range(3))
def test_suffixes_that_are_missing_are_put_in_and_change_no_score(seed: int) -> None:
    grams = random_backoff_grams(seed, 13, 4)
    closed = with_suffixes(table_of(grams, 4))[0]
    actual = grams_of(closed)
    expected = set(grams)
    for order in (4, 3):
        expected |= {gram[1:] for gram in expected if len(gram) == order}
    assert set(actual) == expected
    assert list(actual) == sorted(actual, key=lambda gram: (len(gram), gram))
    for gram, (log_prob, backoff) in grams.items():
        assert actual[gram] == pytest.approx((log_prob, backoff))
    stream = stream_of(random_documents(seed, 13, 50, 12))
    expected_scores = NGramModel(table_of(grams, 4)).score_stream(stream)
    np.testing.assert_allclose(NGramModel(closed).score_stream(stream), expected_scores, rtol=0, atol=1e-5)


@given(st.floats(-63, 63), st.floats(-1.9, 1.9))
def test_stored_back_offs_and_scales_are_exact_to_a_hundred_thousandth(backoff: float, scale: float) -> None:
    number = pack_backoff_and_scale(backoff, scale)
    assert backoff_in(number) == pytest.approx(backoff, abs=1e-5)
    assert scale_in(number) == pytest.approx(scale, abs=1e-5)


def test_stored_back_offs_of_nothing_and_of_too_much() -> None:
    assert backoff_in(pack_backoff_and_scale(-math.inf, 0)) == -math.inf
    assert backoff_in(pack_backoff_and_scale(-227.96, 0)) == -math.inf
    assert backoff_in(pack_backoff_and_scale(1e9, 0)) == pytest.approx(64, abs=1e-4)
    assert scale_in(pack_backoff_and_scale(0, 0)) == 0


@given(st.lists(st.floats(-40, 0, width=32), min_size=1, max_size=400), st.integers(2, 16))
def test_quantised_values_are_no_further_than_any_other(numbers: list[float], room: int) -> None:
    log_probs = np.array([*numbers, -np.inf][:: 1 if len(numbers) % 2 else -1][: len(numbers)], np.float32)
    values, edges = choose_values(log_probs, room)
    assert values.shape == (room,)
    assert np.all(edges[1:] >= edges[:-1])
    codes = np.searchsorted(edges, log_probs, side="right")
    assert np.array_equal(np.isneginf(values[codes]), np.isneginf(log_probs))
    if np.unique(log_probs).size <= room:
        np.testing.assert_allclose(values[codes], log_probs, rtol=1e-5, atol=1e-6)


def test_lloyd_and_max_do_better_than_equal_steps() -> None:
    log_probs = -np.random.default_rng(1).gamma(3, 2, 100_000).astype(np.float32)
    values, edges = choose_values(log_probs, 16)
    error = np.mean((values[np.searchsorted(edges, log_probs, side="right")] - log_probs) ** 2)
    steps = np.linspace(log_probs.min(), log_probs.max(), 17)
    middles = (steps[1:] + steps[:-1]) / 2
    equal = np.mean((middles[np.clip(np.searchsorted(steps, log_probs) - 1, 0, 15)] - log_probs) ** 2)
    assert error < equal / 2


@pytest.mark.parametrize("name", ["unigrams", "values", "codes", "bits"])
def test_an_array_that_is_missing_or_of_another_shape_is_named(name: str) -> None:
    whole = compact_table(trained(3))
    sizes, run_bits, arrays = list(whole.level_sizes), list(whole.run_bits), whole.arrays()
    with pytest.raises(ModelFormatError, match=f"lacks the array '{name}'"):
        CompactTable.from_arrays(sizes, run_bits, {key: arrays[key] for key in arrays if key != name})
    for wrong in (arrays[name][:-1], arrays[name].astype(np.float64), arrays[name][None]):
        with pytest.raises(ModelFormatError, match=f"'{name}' is "):
            CompactTable.from_arrays(sizes, run_bits, {**arrays, name: wrong})


@pytest.mark.parametrize("run_bits", [None, 7, [1], [1, -1], [1, 2.0], [1, 10**30], [True, 1], [1, 2, 3]])
def test_run_bits_that_cannot_be_are_reported(run_bits: object) -> None:
    whole = compact_table(trained(3))
    with pytest.raises(ModelFormatError, match="run_bits"):
        CompactTable.from_arrays(list(whole.level_sizes), run_bits, whole.arrays())


def test_too_many_n_grams_are_reported_before_anything_is_allocated() -> None:
    with pytest.raises(ModelFormatError, match="expected fewer than"):
        CompactTable.from_arrays([3, 2**40], [5], {})


@pytest.mark.spread(13)
@pytest.mark.parametrize("seed", range(40))
def test_nonsense_in_the_arrays_gives_numbers_or_an_error(seed: int) -> None:
    chance = np.random.default_rng(seed)
    whole = compact_table(trained(4, seed=seed % 3))
    arrays = {name: array.copy() for name, array in whole.arrays().items()}
    for name in ("values", "codes", "bits"):
        raw = arrays[name].reshape(-1).view(np.uint8)
        positions = chance.integers(0, raw.size, chance.choice([0, 1, 100, raw.size]))
        raw[positions] = chance.integers(0, 256, positions.size)
    broken = CompactTable.from_arrays(list(whole.level_sizes), list(whole.run_bits), arrays)
    model, stream = CompactNGramModel(broken), documents()
    for use in (
        lambda: model.score_stream(stream),
        lambda: model.next_log_probs(model.start([stream[:5], stream[5:9]])),
        lambda: model.top(model.start([stream[:5]]), 3),
        lambda: model.unknown_log_probs([stream]),
        lambda: NGramModel(model.table).score_stream(stream),
    ):
        try:
            actual = use()
        except ModelFormatError:
            continue
        assert not np.isnan(np.concatenate([np.ravel(part) for part in actual])).any()


def test_a_damaged_compact_table_is_not_unpacked() -> None:
    whole = compact_table(trained(3))
    bits = np.full_like(whole.bits, 0x5555555555555555)
    broken = CompactTable.from_arrays(list(whole.level_sizes), list(whole.run_bits), {**whole.arrays(), "bits": bits})
    with pytest.raises(ModelFormatError, match="damaged"):
        unpack_table(broken)


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_table_is_refused(seed: int) -> None:
    table = wild_table(seed)
    if table.order > 1:
        with pytest.raises(ModelFormatError, match="damaged"):
            compact_table(table)


@pytest.mark.parametrize("number", [math.nan, math.inf, 100.0])
def test_unigrams_that_are_no_probabilities_are_an_error_when_drawn(number: float) -> None:
    """They were drawn from with a warning of NumPy's, which the command line showed beside a status of 0."""
    table = compact_table(trained(3))
    table.unigrams[[4, 7]] = number
    model = CompactNGramModel(table)
    with pytest.raises(ModelFormatError, match="damaged"):
        model.draw(model.start([[]]), np.array([0.5]))


def test_memory_that_does_not_suffice_is_reported_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    table = trained(4)
    small = compact_table(table)
    monkeypatch.setenv("CHAINRULE_MEMORY", "1K")
    for work in (lambda: compact_table(table), lambda: unpack_table(small)):
        with pytest.raises(EstimationError, match=r"ing [\d,]+ n-grams needs about .* of memory"):
            work()


def test_a_compact_folder_is_a_fifth_of_the_size_and_scores_the_same(fixtures: Path, tmp_path: Path) -> None:
    model = chainrule.train(fixtures / "train.txt", tokenizer="whitespace")
    small = model.compact()
    small.save(tmp_path / "small")
    again = chainrule.load(tmp_path / "small")
    assert (model.layout, small.layout, again.layout) == ("fast", "compact", "compact")
    assert again.record["quantised"] is True
    assert again.compact() is again
    texts = (fixtures / "heldout.txt").read_text().splitlines()
    assert np.array_equal(again.score(texts), small.score(texts))
    assert again.perplexity(fixtures / "heldout.txt") == pytest.approx(
        model.perplexity(fixtures / "heldout.txt"), rel=0.005
    )
    fast = again.unpack()
    assert fast.layout == "fast"
    assert fast.unpack() is fast
    np.testing.assert_allclose(fast.score(texts), again.score(texts), rtol=0, atol=1e-3)
    bits = sum(array.nbytes for array in small.language_model.compact.arrays().values())
    assert bits < sum(array.nbytes for array in model.language_model.table.arrays().values()) / 4


def test_a_model_without_n_grams_has_no_compact_form(fixtures: Path) -> None:
    model = chainrule.train(fixtures / "train.txt", chainrule.UniformConfig())
    assert model.layout is None
    with pytest.raises(chainrule.SettingError, match="'uniform' has no compact form"):
        model.compact()
