"""Products by kernels of our own: those of float64, whatever the weights are stored in and the number of threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from chainrule.neural import products
from chainrule.neural.products import product


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices of any size go to the kernels."""
    monkeypatch.setattr(products, "_LEAST", 0)


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("vectors", [1, 3, 4, 11])
@pytest.mark.parametrize(("rows", "inputs"), [(1, 1), (7, 5), (8, 33), (64, 100)])
@torch.no_grad()
def test_products_are_those_of_float64(rows: int, inputs: int, vectors: int, dtype: torch.dtype) -> None:
    weight, x, bias = random(rows, inputs).to(dtype), random(vectors, inputs, seed=2), random(rows, seed=3)
    expected = x.double() @ weight.double().T
    assert products._suits_kernel(x, weight)
    torch.testing.assert_close(product(x, weight).double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(product(x, weight, bias).double(), expected + bias.double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_every_number_of_16_bits_is_widened_exactly(dtype: torch.dtype) -> None:
    bits = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16)
    numbers = bits.view(dtype)
    finite = numbers[numbers.isfinite()][:, None]
    assert torch.equal(product(torch.ones(1, 1), finite)[0], finite[:, 0].float())


@torch.no_grad()
def test_shapes_are_those_of_torch() -> None:
    weight = random(6, 5)
    for shape in ((5,), (2, 5), (2, 3, 5)):
        torch.testing.assert_close(product(random(*shape), weight), torch.nn.functional.linear(random(*shape), weight))
    turned = random(4, 3, 5).transpose(0, 1)
    torch.testing.assert_close(product(turned, weight), torch.nn.functional.linear(turned, weight))


@torch.no_grad()
def test_threads_do_not_change_a_bit() -> None:
    weight, x, before = random(101, 300), random(9, 300, seed=2), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(product(x, weight))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@torch.no_grad()
def test_what_is_no_number_stays_none() -> None:
    weight = random(8, 40)
    weight[3, 7], weight[5, 2] = torch.nan, torch.inf
    found = product(torch.ones(5, 40), weight)
    assert found[:, 3].isnan().all()
    assert found[:, 5].isinf().all()
    assert np.isfinite(found[:, [0, 1, 2, 4, 6, 7]].numpy()).all()


def test_gradients_flow_as_ever() -> None:
    weight, x = random(6, 5).requires_grad_(), random(2, 5)
    product(x, weight).sum().backward()
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad, x.sum(0).expand(6, -1))
