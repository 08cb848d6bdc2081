"""N-gram memory: rows by contexts alone, against plain Python; sparse steps; and what cannot be asked for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from random_networks import VOCABULARY_SIZE, random_model, random_network

from chainrule.errors import SettingError
from chainrule.neural.build import build
from chainrule.neural.config import FeedforwardConfig, MaskedConfig, RecurrentConfig, TransformerConfig
from chainrule.neural.layers.ngram_memory import NGramMemory, dense_parameters, memories_of
from chainrule.protocol import END
from chainrule.training.optimisers import RowAdagrad

MASK = (1 << 64) - 1
LSTM = RecurrentConfig(width=12, layers=1, ngram_memory=4, ngram_rows=50, ngram_width=7)


def multiplier(number: int) -> int:
    """SplitMix64's output, made odd: its published constants, in Python's own integers."""
    z = (number + 1) * 0x9E3779B97F4A7C15 & MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return (z ^ (z >> 31)) | 1


def slot(context: list[int], rows: int) -> int:
    """The row of a context, the latest token first, by unsigned arithmetic."""
    mixed = 0
    for back, token in enumerate(context):
        mixed ^= (token + 1) * multiplier(back) & MASK
    mixed ^= mixed >> 31
    return (((mixed * multiplier(1 << 32) & MASK) >> 32) * rows >> 32) + (len(context) - 1) * rows


def sparse(rows: np.ndarray, gradients: np.ndarray, size: int) -> torch.Tensor:
    indices, values = torch.from_numpy(rows)[None], torch.from_numpy(gradients)
    return torch.sparse_coo_tensor(indices, values, (size, gradients.shape[1]), check_invariants=True)


def test_the_outputs_of_splitmix_are_the_published_ones() -> None:
    """The first outputs of the generator with seed 0: its state grows by the golden ratio before each."""
    assert multiplier(0) == 0xE220A8397B1DCDAF
    assert multiplier(1) == 0x6E789E6AA1B965F4 | 1


@pytest.mark.parametrize("begins", [(), (0,), (3,), (2, 5)])
def test_slots_are_those_of_each_context_in_its_text(begins: tuple[int, ...]) -> None:
    memory = NGramMemory(4, 1000, 2, 3)
    tokens = np.random.default_rng(1).integers(0, 100_000, 8).tolist()
    starts = torch.zeros(1, 8, dtype=torch.bool)
    starts[0, list(begins)] = True
    slots, recent = memory.slots(torch.tensor([tokens]), None, starts if begins else None)
    text: list[int] = []
    for i, token in enumerate(tokens):
        text = [token] if i in begins else [token, *text]
        expected = [slot(text[:length], 1000) if len(text) >= length else -1 for length in (1, 2, 3)]
        assert slots[0, i].tolist() == expected
    assert recent.tolist() == [[*text, -1, -1][1::-1]]


def test_a_text_may_be_read_in_any_parts() -> None:
    memory = NGramMemory(5, 64, 3, 4)
    torch.nn.init.normal_(memory.table)
    tokens = torch.randint(0, 30, (2, 9))
    starts = torch.rand(2, 9) < 0.2
    whole, last = memory(tokens, None, starts)
    for sizes in ([1] * 9, [4, 5], [2, 6, 1]):
        recent, parts, begin = None, [], 0
        for size in sizes:
            span = slice(begin, begin + size)
            rows, recent = memory(tokens[:, span], recent, starts[:, span])
            parts.append(rows)
            begin += size
        torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-5)
        assert torch.equal(recent, last)


@pytest.mark.parametrize(("order", "row_width"), [(2, 16), (3, 3), (6, 32)])
def test_a_step_is_that_of_a_text(order: int, row_width: int) -> None:
    """What steps one token at a time compute without torch, in the midst of texts, at their beginnings and ends; rows
    whose width is no multiple of 16 are left to torch.
    """
    memory = NGramMemory(order, 64, row_width, 5).eval()
    torch.nn.init.normal_(memory.table)
    tokens, starts = torch.randint(0, 100_000, (3, 12)), torch.rand(3, 12) < 0.3
    for borders in (None, starts):
        recent = expected = memory.start(3)
        for t in range(12):
            token, border = tokens[:, t : t + 1], None if borders is None else borders[:, t : t + 1]
            slots, expected = memory.slots(token, expected, border)
            with torch.no_grad():
                rows, recent = memory(token, recent, border)
                torch.testing.assert_close(rows, memory.project(memory.look_up(slots)), rtol=0, atol=1e-5)
            assert torch.equal(recent, expected)


def test_rows_are_summed_and_added_before_the_output() -> None:
    network = random_network(LSTM)
    tokens = torch.randint(3, VOCABULARY_SIZE, (2, 6))
    assert network.ngram_memory is not None
    table = network.ngram_memory.table.detach().numpy()
    projection = network.ngram_memory.projection.weight.detach().numpy()
    plain, _ = network.encoder(network.embedding(tokens))
    hidden, _ = network(tokens)
    for b in range(2):
        for t in range(6):
            context = tokens[b, : t + 1].tolist()[::-1]
            slots = [slot(context[:length], 50) for length in (1, 2, 3) if length <= len(context)]
            expected = plain[b, t].detach().numpy() + projection @ table[slots].sum(0)
            np.testing.assert_allclose(hidden[b, t].detach().numpy(), expected, rtol=0, atol=1e-5)


def test_the_row_of_a_context_does_not_depend_on_what_follows_or_lies_beside_it() -> None:
    model = random_model(LSTM)
    text = np.array([5, 9, 3, 7, 8, 4], np.int32)
    alone = model.next_log_probs(model.start([text]))
    beside = model.next_log_probs(model.start([text[:2], text, text[1:]]))[1]
    np.testing.assert_allclose(alone[0], beside, rtol=0, atol=1e-5)
    one = NGramMemory(4, 50, 3, 4)
    torch.nn.init.normal_(one.table)
    first = one(torch.tensor([[5, 9, 3]]))[0]
    beside = one(torch.tensor([[5, 9, 3, 7], [5, 9, 3, 8]]))[0][:, :3]
    torch.testing.assert_close(beside, first.expand(2, -1, -1), rtol=0, atol=1e-5)


def test_n_grams_do_not_cross_documents_where_memory_is_a_documents() -> None:
    text = np.array([5, 9, END, 7], np.int32)
    for memory, is_alike in (("document", True), ("stream", False)):
        config = FeedforwardConfig(width=12, window=1, ngram_memory=4, ngram_rows=90, memory=memory)  # type: ignore[arg-type]
        model = random_model(config)
        after, alone = (model.next_log_probs(model.start([prefix])) for prefix in (text, text[3:]))
        assert np.array_equal(after, alone) == is_alike


def test_training_steps_change_the_rows_that_they_touch_and_no_other() -> None:
    network = build(LSTM, VOCABULARY_SIZE).train()
    [table] = memories_of(network)
    optimiser = RowAdagrad([table], lr=0.1)
    tokens = torch.randint(3, VOCABULARY_SIZE, (2, 6))
    assert network.ngram_memory is not None
    touched = {each for each in network.ngram_memory.slots(tokens)[0].flatten().tolist() if each >= 0}
    hidden, _ = network(tokens)
    network.output.loss(hidden, tokens).backward()
    assert table.grad is not None
    assert table.grad.is_sparse
    optimiser.step()
    assert set(table.detach().abs().sum(1).nonzero()[:, 0].tolist()) == touched


def test_a_step_is_adagrads_with_a_sum_of_squares_for_each_row() -> None:
    """By hand: the sums of the gradients of each row; the mean of their squares; the quotient."""
    table = torch.nn.Parameter(torch.randn(6, 3, generator=torch.Generator().manual_seed(1)))
    expected, squares = table.detach().double().numpy(), np.zeros(6)
    optimiser = RowAdagrad([table], lr=0.5)
    chance = np.random.default_rng(3)
    for _ in range(3):
        rows, gradients = chance.integers(0, 5, 8), chance.normal(size=(8, 3)).astype(np.float32)
        table.grad = sparse(rows, gradients, 6)
        optimiser.step()
        for row in set(rows.tolist()):
            total = gradients[rows == row].astype(np.float64).sum(0)
            squares[row] += np.mean(total**2)
            expected[row] -= 0.5 * total / np.sqrt(squares[row])
    np.testing.assert_allclose(table.detach().numpy(), expected, rtol=0, atol=1e-5)


def test_a_step_has_the_bits_of_torchs_own_operations() -> None:
    chance = np.random.default_rng(5)
    table, expected = torch.nn.Parameter(torch.zeros(300, 9)), torch.zeros(300, 9)
    squares, optimiser = torch.zeros(300), RowAdagrad([table], lr=0.1)
    for _ in range(3):
        rows, gradients = chance.integers(0, 250, 2000), chance.normal(size=(2000, 9)).astype(np.float32)
        table.grad = sparse(rows, gradients, 300)
        optimiser.step()
        order = np.argsort(rows, kind="stable")
        touched, counts = np.unique(rows, return_counts=True)
        sums = torch.segment_reduce(torch.from_numpy(gradients[order]), "sum", lengths=torch.from_numpy(counts))
        squares[touched] += sums.square().mean(1)
        expected[touched] -= (0.1 / (squares[touched].sqrt() + 1e-10))[:, None] * sums
    assert torch.equal(table.detach(), expected)


def test_a_step_has_the_same_bits_with_any_number_of_threads() -> None:
    chance = np.random.default_rng(4)
    rows, gradients = chance.integers(0, 500, 40_000), chance.normal(size=(40_000, 16)).astype(np.float32)
    results = []
    threads = torch.get_num_threads()
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            table = torch.nn.Parameter(torch.zeros(1000, 16))
            table.grad = sparse(rows, gradients, 1000)
            RowAdagrad([table], lr=0.1).step()
            results.append(table.detach().numpy().tobytes())
    finally:
        torch.set_num_threads(threads)
    assert len(set(results)) == 1


def test_the_gradient_of_the_rows_is_that_of_dense_look_ups() -> None:
    memory = NGramMemory(3, 10, 4, 5)
    tokens, weights = torch.randint(0, 9, (3, 5)), torch.randn(3, 5, 4)
    slots = memory.slots(tokens)[0]
    (memory.look_up(slots) * weights).sum().backward()
    assert memory.table.grad is not None
    sparse = memory.table.grad.to_dense()
    dense = torch.zeros(20, 4)
    for b in range(3):
        for t in range(5):
            for k in slots[b, t].tolist():
                if k >= 0:
                    dense[k] += weights[b, t]
    torch.testing.assert_close(sparse, dense, rtol=0, atol=1e-5)


def test_dense_parameters_are_all_others() -> None:
    network = build(LSTM, VOCABULARY_SIZE)
    names = [name for name, each in network.named_parameters() if any(each is one for one in memories_of(network))]
    assert names == ["ngram_memory.table"]
    assert len(dense_parameters(network)) == len(list(network.parameters())) - 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RecurrentConfig(ngram_memory=1), "ngram_memory is 1, an order without context"),
        (lambda: MaskedConfig(ngram_memory=3), "networks that continue texts"),
        (lambda: TransformerConfig(context=8, ngram_memory=7), "looks 6 tokens back, but a context of 8 holds only 5"),
        (lambda: RecurrentConfig(ngram_memory=17), "ngram_memory"),
        (lambda: RecurrentConfig(ngram_memory=3, ngram_rows=0), "ngram_rows"),
        (lambda: RecurrentConfig(ngram_rows=100), "ngram_rows is of an n-gram memory, and there is none"),
    ],
)
def test_wrong_settings(make, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make()


def test_effects_are_differences_to_predictions_without_a_row() -> None:
    """Its row set to 0, a context changes nothing, and what it changed is gone from the prediction."""
    model = random_model(LSTM)
    prefix = np.array([5, 9, 3, 7], np.int32)
    effects = model.memory_effects(prefix)
    assert [effect.context.tolist() for effect in effects] == [[7], [3, 7], [9, 3, 7]]
    before = model.next_log_probs(model.start([prefix]))[0]
    assert model.network.ngram_memory is not None
    for length, effect in enumerate(effects, 1):
        with torch.no_grad():
            row = model.network.ngram_memory.table[slot(prefix[::-1][:length].tolist(), 50)]
            kept = row.clone()
            row.zero_()
            without = model.next_log_probs(model.start([prefix]))[0]
            row.copy_(kept)
        is_possible = np.isfinite(before)
        np.testing.assert_allclose(
            effect.changes[is_possible], before[is_possible] - without[is_possible], rtol=0, atol=1e-5
        )
    assert random_model(RecurrentConfig(width=12, layers=1)).memory_effects(prefix) == []
