"""The objective of labels: what a step holds, however it is shared out, for inputs of any kind."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

from chainrule.errors import SettingError
from chainrule.features.classify.objective import Example, LabelData, LabelObjective, split
from chainrule.training.batches import SortedBatches
from chainrule.training.config import TrainingConfig
from chainrule.training.defaults import Recipe
from chainrule.training.device import machine_on
from chainrule.training.distributed import Processes
from chainrule.training.job import Setup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64
    from numpy import ndarray

pytestmark = pytest.mark.usefixtures("one_thread")  # the networks are tiny


class Points(nn.Module):
    """A LabelNetwork that knows nothing of texts: its inputs are rows of points, each of them labelled."""

    labels = ("left", "right")

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(2, 2)

    def forward(self, inputs: Sequence[Float64[ndarray, "points 2"]]) -> torch.Tensor:
        return self.map(torch.from_numpy(np.concatenate(inputs)).float())

    @torch.no_grad()
    def log_probs(self, inputs: Sequence[ndarray]) -> list[ndarray]:
        return [self([one]).log_softmax(1).numpy() for one in inputs]

    def size(self, item: ndarray) -> int:
        return len(item) + 1

    def matrices(self) -> list[nn.Parameter]:
        return [self.map.weight]


def examples(count: int = 30) -> list[Example[ndarray]]:
    chance = np.random.default_rng(0)
    points = [chance.normal(size=(length, 2)) for length in chance.integers(0, 9, count)]
    return [Example(row, (row[:, 0] > 0).astype(np.int64)) for row in points]


def objective(network: Points, processes: Processes, accumulate: int = 1, batch: int = 4) -> LabelObjective[ndarray]:
    training = TrainingConfig(steps=1, batch=batch, accumulate=accumulate)
    setup = Setup(training, Recipe(batch, 0.1, 0.1, 0), machine_on("cpu", "float32"), processes)
    return LabelObjective(network, setup, LabelData(examples(), examples(7)))


def test_every_epoch_has_each_example_once_in_batches_that_are_no_smaller() -> None:
    sizes = np.random.default_rng(1).integers(1, 50, 107)
    batches = SortedBatches(sizes, 8, seed=3)
    assert len(batches) == 13
    read = 0
    for epoch in range(3):
        seen: Counter[int] = Counter()
        for step in range(epoch * 13, (epoch + 1) * 13):
            chosen = batches.examples(step)
            assert len(chosen) in (8, 9)
            seen.update(chosen.tolist())
            assert batches.tokens(step) == read
            read += int(sizes[chosen].sum())
        assert seen == Counter(range(107))
    assert batches.tokens(39) == read == 3 * sizes.sum()
    assert len(SortedBatches(sizes[:5], 8, seed=3)) == 1


def test_examples_of_about_the_same_size_are_read_together() -> None:
    sizes = np.random.default_rng(1).integers(1, 1000, 512)
    batches = SortedBatches(sizes, 8, seed=0)
    spread = [np.ptp(sizes[batches.examples(step)]) for step in range(len(batches))]
    assert np.mean(spread) < 150  # of eight at random, some 780


@pytest.mark.parametrize(("processes", "accumulate"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_the_gradient_of_a_step_is_that_of_the_mean_over_its_labels(processes: int, accumulate: int) -> None:
    network = Points()
    whole = objective(network, Processes())
    for step in (0, 5, 11):
        chosen = [whole.examples[i] for i in whole.batches.examples(step)]
        labels = torch.from_numpy(np.concatenate([each.labels for each in chosen]))
        expected = nn.functional.cross_entropy(network([each.input for each in chosen]), labels)
        total = torch.zeros(())
        for rank in range(processes):
            one = objective(network, Processes(rank, processes), accumulate)
            parts = one.parts(step)
            assert len(parts) == accumulate
            total += sum(one.loss(i, part, network, 0.0) for i, part in enumerate(parts)) / one.weight(step)
        torch.testing.assert_close(total, expected)


def test_a_step_that_cannot_be_shared_out_is_refused() -> None:
    with pytest.raises(SettingError, match="a batch of 4 of 30 examples cannot be divided into 6 parts"):
        objective(Points(), Processes(0, 6))


def test_validation_is_the_mean_over_all_labels_and_accuracy_the_share_that_is_right() -> None:
    network = Points()
    found = objective(network, Processes()).validate(10**9)
    rows = np.concatenate([each.input for each in examples(7)])
    labels = np.concatenate([each.labels for each in examples(7)])
    weight, bias = (each.detach().numpy().astype(np.float64) for each in (network.map.weight, network.map.bias))
    scores = rows @ weight.T + bias
    log_probs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    assert found.loss == pytest.approx(-log_probs[np.arange(labels.size), labels].mean(), rel=1e-5)
    assert found.figures == {"accuracy": np.mean(scores.argmax(1) == labels), "examples": 7}
    assert found.predictions == labels.size
    assert found.criterion == pytest.approx(-found.figures["accuracy"], abs=1e-5)
    assert found.criterion > -found.figures["accuracy"]  # of equal accuracies, the lower loss is better


def test_a_share_is_kept_to_validate_on_and_every_label_stays_to_be_learnt() -> None:
    labelled = [Example(i, np.array([0 if i < 90 else i])) for i in range(100)]
    data = split(labelled, 0.2, seed=0)
    assert len(data.validation) == 20
    assert {int(each.labels[0]) for each in data.training} == {0, *range(90, 100)}
    assert sorted(each.input for each in [*data.training, *data.validation]) == list(range(100))
    assert data.as_json() == split(labelled, 0.2, seed=0).as_json() != split(labelled, 0.2, seed=1).as_json()
    other = [*labelled[:-1], replace_label(labelled[-1])]
    assert data.as_json()["ids"] != split(other, 0.2, seed=0).as_json()["ids"]


def replace_label(example: Example[int]) -> Example[int]:
    return example._replace(labels=np.array([98]))
