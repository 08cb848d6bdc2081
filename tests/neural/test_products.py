"""Products by kernels of our own: those of float64, whatever the weights are stored in; the same bits everywhere."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from samples import sampled

import chainrule
from chainrule.neural.layers import matrix_products as products
from chainrule.neural.layers.matrix_products import pack, product, unpack


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices of any size go to the kernels."""
    monkeypatch.setattr(products, "_LEAST", 0)


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


TYPES = [torch.float32, torch.bfloat16, torch.float16, torch.int8]


def stored(weight: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """A matrix in a type, and the numbers that it then has."""
    if dtype == torch.int8:
        return pack(weight), unpack(pack(weight))
    return weight.to(dtype), weight.to(dtype).float()


@pytest.mark.spread(6)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("vectors", sampled([1, 3, 4, 11], [1, 11]))
@pytest.mark.parametrize("shape", sampled([(1, 32), (7, 96), (21, 64), (64, 160)], [(7, 96), (64, 160)]))
@torch.no_grad()
def test_products_are_those_of_float64(shape: tuple[int, int], vectors: int, dtype: torch.dtype) -> None:
    rows, inputs = shape
    weight, numbers = stored(random(rows, inputs), dtype)
    x, bias = random(vectors, inputs, seed=2), random(rows, seed=3)
    expected = x.double() @ numbers.double().T
    assert products._suits_kernel(x, weight)
    torch.testing.assert_close(product(x, weight).double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(product(x, weight, bias).double(), expected + bias.double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_every_number_of_16_bits_is_widened_exactly(dtype: torch.dtype) -> None:
    bits = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16)
    numbers = bits.view(dtype)
    finite = numbers[numbers.isfinite()][:, None]
    matrix, one = torch.zeros(len(finite), 16, dtype=dtype), torch.zeros(1, 16)
    matrix[:, :1], one[0, 0] = finite, 1
    assert torch.equal(product(one, matrix)[0], finite[:, 0].float())


@torch.no_grad()
def test_the_default_type_changes_nothing() -> None:
    weight, x = random(7, 32), random(3, 32, seed=2)
    expected = product(x, weight)
    torch.set_default_dtype(torch.float64)
    try:
        found = product(x, weight)
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)


@torch.no_grad()
def test_shapes_are_those_of_torch() -> None:
    for inputs in (16, 5):  # by the kernel, and by torch
        weight = random(6, inputs)
        for shape in ((inputs,), (2, inputs), (2, 3, inputs)):
            x = random(*shape)
            torch.testing.assert_close(product(x, weight), torch.nn.functional.linear(x, weight))
    turned = random(4, 3, 5).transpose(0, 1)
    torch.testing.assert_close(product(turned, weight), torch.nn.functional.linear(turned, weight))


@torch.no_grad()
def test_threads_do_not_change_a_bit() -> None:
    weight, x, before = random(101, 304), random(9, 304, seed=2), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(product(x, weight))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("dtype", TYPES)
@torch.no_grad()
def test_other_vectors_do_not_change_a_bit(dtype: torch.dtype) -> None:
    """By the kernel: from one vector to three, fours with a rest or without, few fours and many; rows to spare."""
    weight, x = stored(random(715, 96), dtype)[0], random(17, 96, seed=2)
    alone = torch.cat([product(vector[None], weight) for vector in x])
    for count in range(1, 18):
        assert torch.equal(product(x[:count], weight), alone[:count])


@pytest.mark.parametrize("dtype", TYPES)
@torch.no_grad()
def test_the_order_of_a_sum_is_that_of_sixteen_lanes(dtype: torch.dtype) -> None:
    """The same bits on every processor: integers so large that rounding shows the order in which they are added."""
    integers = torch.randint(-127, 128, (5, 96), generator=torch.Generator().manual_seed(4))
    integers[:, ::32] = 127  # so that a block's scale is 1, and each number in int8 exact
    weight, numbers = stored(integers.float(), dtype)
    x = torch.randint(-(1 << 22), 1 << 22, (3, 96), generator=torch.Generator().manual_seed(5)).float()
    assert torch.equal(numbers, integers.float())
    found, rounded = product(x, weight).numpy(), 0
    for row in range(5):
        for vector in range(3):
            lanes = np.zeros(16, np.float32)
            for k in range(0, 96, 16):  # float64 holds a product and a sum of these exactly: one rounding, as of fma
                exact = numbers[row, k : k + 16].double().numpy() * x[vector, k : k + 16].double().numpy()
                lanes = (lanes.astype(np.float64) + exact).astype(np.float32)
            for width in (8, 4, 2, 1):
                lanes = lanes[:width] + lanes[width:]
            assert found[vector, row] == lanes[0]
            rounded += lanes[0] != (numbers[row].double() * x[vector].double()).sum().item()
    assert rounded  # else any order would do


@torch.no_grad()
def digest(step: int) -> str:
    """Of products of matrices in every step-th type, to the last bit."""
    found = [product(random(11, 96, seed=2), stored(random(37, 96), dtype)[0]) for dtype in TYPES[::step]]
    return hashlib.sha256(torch.cat(found).numpy().tobytes()).hexdigest()


@pytest.mark.parametrize("step", sampled([1, 3], [3]))  # of all types, and of float32 and int8
def test_a_processor_without_vector_instructions_gives_the_same_bits(step: int) -> None:
    """Kernels for such a processor are compiled in a process of their own."""
    code = f"import test_products as t; t.products._LEAST = 0; print(t.digest({step}))"
    here = Path(__file__)
    path = os.pathsep.join([str(here.parent), str(here.parents[1]), str(Path(chainrule.__file__).parents[1])])
    environment = {**os.environ, "NUMBA_CPU_NAME": "generic", "PYTHONPATH": path}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == digest(step)


@torch.no_grad()
def test_what_is_no_number_stays_none() -> None:
    weight = random(8, 48)
    weight[3, 7], weight[5, 2] = torch.nan, torch.inf
    found = product(torch.ones(5, 48), weight)
    assert found[:, 3].isnan().all()
    assert found[:, 5].isinf().all()
    assert np.isfinite(found[:, [0, 1, 2, 4, 6, 7]].numpy()).all()


def test_gradients_flow_as_ever() -> None:
    weight, x = random(6, 5).requires_grad_(), random(2, 5)
    product(x, weight).sum().backward()
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad, x.sum(0).expand(6, -1))


@pytest.mark.thorough
def test_the_kernel_leaves_torch_its_number_of_threads() -> None:
    """Numba launches its threads once a process, so in a fresh one."""
    code = (
        "import torch; torch.set_num_threads(1)\n"
        "from chainrule.neural.layers.matrix_products import product\n"
        "with torch.inference_mode(): product(torch.ones(2, 256), torch.ones(1024, 256))\n"
        "assert torch.get_num_threads() == 1, torch.get_num_threads()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
