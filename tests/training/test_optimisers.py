"""Schedules by hand, and Muon against its definition."""

from __future__ import annotations

import pytest
import torch
from training_runs import RECURRENT, VOCABULARY

from chainrule.neural.build import build
from chainrule.training.config import TrainingConfig
from chainrule.training.optimisers import Average, Muon, Optimisers, orthogonalise, rate_share, steps_of


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 12, 5), (2, 5, 12)])
def test_singular_values_come_near_one(shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    values = torch.linalg.svdvals(orthogonalise(torch.randn(shape)))
    assert float(values.min()) > 0.3  # of the smallest of a random square matrix
    assert float(values.max()) < 1.3
    assert float(values.median()) == pytest.approx(1, abs=0.3)


def test_muon_is_its_definition_for_each_matrix() -> None:
    """Momentum, Nesterov's step, an iteration for each matrix by itself (Jordan 2024)."""
    torch.manual_seed(2)
    weights = [torch.nn.Parameter(torch.randn(shape)) for shape in ((4, 6), (6, 4), (4, 6))]
    expected = [weight.detach().clone() for weight in weights]
    means = [torch.zeros_like(weight) for weight in weights]
    muon = Muon(weights, lr=0.1, momentum=0.9, weight_decay=0.01, in_bfloat16=False)
    for _ in range(3):
        for i, weight in enumerate(weights):
            gradient = torch.randn(weight.shape)
            weight.grad = gradient
            means[i] = 0.9 * means[i] + 0.1 * gradient
            x = 0.1 * gradient + 0.9 * means[i]
            x = x / x.norm()
            for _ in range(5):
                g = x @ x.T
                x = 3.4445 * x + (-4.7750 * g + 2.0315 * g @ g) @ x
            scale = max(1, weight.shape[0] / weight.shape[1]) ** 0.5
            expected[i] = expected[i] * (1 - 0.1 * 0.01) - 0.1 * scale * x
        muon.step()
    for weight, wanted in zip(weights, expected, strict=True):
        torch.testing.assert_close(weight.detach(), wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["muon", "adamw", "sgd"])
def test_every_weight_is_moved_by_one_optimiser(name) -> None:
    network = build(RECURRENT, VOCABULARY)
    before = [weight.detach().clone() for weight in network.parameters()]
    optimisers = Optimisers(TrainingConfig(optimiser=name), network, network.matrices(), (0.1, 0.1), in_bfloat16=False)
    for weight in network.parameters():
        weight.grad = torch.ones_like(weight)
    optimisers.step(0.0)
    assert all(torch.equal(old, new) for old, new in zip(before, network.parameters(), strict=True))
    optimisers.step(1.0)
    assert not any(torch.equal(old, new) for old, new in zip(before, network.parameters(), strict=True))


def test_an_average_of_all_and_one_that_forgets() -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    means, recent = Average([weight], None), Average([weight], 0.5)
    for value in (1.0, 2.0, 6.0):
        with torch.no_grad():
            weight.fill_(value)
        means.add_weights()
        recent.add_weights()
    assert float(means.weights[0]) == pytest.approx(3.0)
    assert 4.0 < float(recent.weights[0]) < 6.0
    means.swap()
    assert weight.item() == pytest.approx(3.0)
    means.swap()
    assert weight.item() == 6.0


@pytest.mark.parametrize(
    ("schedule", "step", "expected"),
    [
        ("constant", 0, 1 / 11),
        ("constant", 9, 10 / 11),
        ("constant", 40, 1.0),
        ("constant", 80, 0.1 + 0.9 * 20 / 60),
        ("linear", 55, 0.1 + 0.9 * 0.5),
        ("cosine", 55, 0.55),
        ("cosine", 100, 0.1),
        ("plateau", 80, 1.0),
    ],
)
def test_schedules(schedule, step: int, expected: float) -> None:
    found = rate_share(schedule, step, 100, warm_up=10, decay_share=0.6, final_share=0.1)
    assert found == pytest.approx(expected)


def test_before_the_number_of_steps_is_known_the_rate_is_the_highest() -> None:
    assert rate_share("cosine", 50, None, warm_up=10, decay_share=0.6, final_share=0.1) == 1


def test_steps_of_a_budget() -> None:
    assert steps_of(TrainingConfig(tokens=1000), 500, lambda steps: 64 * steps) == 16
    assert steps_of(TrainingConfig(epochs=2.5), 500, lambda steps: 64 * steps) == 20
    assert steps_of(TrainingConfig(minutes=1), 500, lambda steps: 64 * steps) is None
