"""What cannot run in bfloat16 runs in float32, here and on machines that only seem to be here; and that is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from random_networks import random_model, refuse_lstm_in_bfloat16

from chainrule.neural import device as capabilities
from chainrule.neural.config import RecurrentConfig, TransformerConfig
from chainrule.neural.encoders import recurrent
from chainrule.training.device import Machine, machine_on

if TYPE_CHECKING:
    from collections.abc import Iterator

CPU = torch.device("cpu")
LSTM = RecurrentConfig(layers=2, width=12, context=6)
TEXT = [np.arange(3, 13, dtype=np.int32)]


@pytest.fixture
def without_lstm(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_lstm_in_bfloat16(monkeypatch)


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    for asked in (capabilities._runs_lstm_in_bfloat16, capabilities.bfloat16_gain, capabilities._seconds_of_product):
        asked.cache_clear()
    yield
    for asked in (capabilities._runs_lstm_in_bfloat16, capabilities.bfloat16_gain, capabilities._seconds_of_product):
        asked.cache_clear()


@pytest.fixture
def gain(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device on which bfloat16 is so many times as fast: large products, and small ones."""
    large, small = request.param

    def seconds(device: torch.device, dtype: torch.dtype, side: int) -> float:
        assert dtype != torch.bfloat16 or side < 500 or small >= 0.25, "a large emulated product takes seconds"
        return 1.0 if dtype == torch.float32 else 1 / (large if side > 500 else small)

    monkeypatch.setattr(capabilities, "_seconds_of_product", seconds)
    seconds.cache_clear = lambda: None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("gain", "chosen", "note"),
    [
        ((4.0, 2.0), True, None),  # AMX
        ((1.4, 1.6), False, None),
        ((0.7, 0.6), False, None),  # AVX-512 without bfloat16
        (
            (0.02, 0.04),  # emulated
            False,
            "bfloat16 is slower than float32 here: matrix products take 25 times as long",
        ),
    ],
    indirect=["gain"],
)
def test_bfloat16_is_chosen_where_it_is_quicker_and_only_there(gain: None, chosen: bool, note: str | None) -> None:
    network = random_model(TransformerConfig(layers=1, width=16, heads=2, context=8)).network
    machine = machine_on("cpu", "auto")
    assert machine.bfloat16 is machine.quick_bfloat16 is chosen
    assert machine.notes(network) == ([note] if chosen and note else [])
    asked_for = machine_on("cpu", "bfloat16")
    assert asked_for.bfloat16
    assert asked_for.notes(network) == ([note] if note else [])
    assert machine_on("cpu", "float32").notes(network) == []


@pytest.mark.usefixtures("without_lstm")
@pytest.mark.parametrize("gain", [(4.0, 2.0)], indirect=True)
def test_an_lstm_that_bfloat16_lacks_runs_in_float32_and_that_is_said(gain: None) -> None:
    model = random_model(LSTM)
    exact, short = (model.vectors(TEXT, bfloat16=bfloat16)[0] for bfloat16 in (False, True))
    np.testing.assert_array_equal(short, exact)  # nothing before the last layer is a product outside of the cells
    machine = machine_on("cpu", "bfloat16")
    assert machine.layers_in_float32(model.network) == ["LSTM"]
    assert machine.notes(model.network) == ["LSTM layers run in float32, since they cannot run in bfloat16"]
    other = random_model(RecurrentConfig(cell="gru", layers=1, width=12, context=6)).network
    assert machine.layers_in_float32(other) == []
    assert Machine(CPU, bfloat16=False, quick_bfloat16=False, compiled=False).layers_in_float32(model.network) == []


@pytest.mark.usefixtures("without_lstm")
def test_such_a_network_learns_as_in_float32_up_to_its_output() -> None:
    torch.manual_seed(0)
    encoder = recurrent.Recurrent(LSTM).train()
    x = torch.randn(2, 5, LSTM.input_width)
    starts = torch.zeros(2, 5, dtype=torch.bool)
    starts[0, 3] = True
    expected = [each.detach() for each in torch.autograd.grad(encoder(x, starts=starts)[0].sum(), encoder.parameters())]
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = encoder(x.bfloat16().float(), starts=starts)
    assert found.dtype == torch.float32
    for one, other in zip(torch.autograd.grad(found.sum(), encoder.parameters()), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0.1, atol=0.1)


def test_asking_draws_no_random_numbers_and_works_where_no_gradients_are_kept() -> None:
    before = torch.get_rng_state()
    with torch.inference_mode():
        asked = capabilities.runs_lstm_in_bfloat16("cpu")
    assert torch.equal(torch.get_rng_state(), before)
    capabilities._runs_lstm_in_bfloat16.cache_clear()
    assert capabilities.runs_lstm_in_bfloat16("cpu") is asked


def test_a_compiled_network_takes_the_answer_as_a_constant() -> None:
    answer = capabilities.runs_lstm_in_bfloat16("cpu")
    traced = torch.compile(lambda x: x + capabilities.runs_lstm_in_bfloat16("cpu"), backend="eager", fullgraph=True)
    assert traced(torch.zeros(1)).item() == answer
