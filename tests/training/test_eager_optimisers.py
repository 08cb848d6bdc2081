"""Optimisers without the start-up of torch's compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from chainrule.training.optimisers import eager

NETWORKS = """
import sys
import torch
import chainrule.training.run
from chainrule.neural.build import build
from chainrule.kinds import CAUSAL_NETWORK, MASKED_MODEL, configs_of
from chainrule.neural.saving import arrays_of, network_from, network_settings
from chainrule.training.optimisers import eager

NETWORKS = configs_of(CAUSAL_NETWORK)
BIDIRECTIONAL = configs_of(MASKED_MODEL)

for config in {**NETWORKS, **BIDIRECTIONAL}.values():
    network = build(config(), 9)
    again = network_from(network_settings(network), arrays_of(network), 9, [config])
    assert all(map(torch.equal, network.state_dict().values(), again.state_dict().values()))
weight = torch.nn.Parameter(torch.ones(2, 2))
for kind in (torch.optim.AdamW, torch.optim.SGD):
    optimiser = eager(kind)([weight], lr=0.1)
    weight.sum().backward()
    optimiser.step()
    optimiser.zero_grad()
    optimiser.load_state_dict(optimiser.state_dict())
slow = {"torch._dynamo", "torch._inductor", "torch.distributed.tensor", "sympy"}
print("imported", *sorted(sys.modules.keys() & slow))
"""


@pytest.mark.thorough
def test_training_and_opening_a_network_import_no_compiler() -> None:
    result = subprocess.run([sys.executable, "-c", NETWORKS], capture_output=True, text=True, check=True)
    assert result.stdout == "imported\n"


def weights_after_training(kind: type[torch.optim.Optimizer], settings: dict[str, object]) -> torch.Tensor:
    torch.manual_seed(1)
    network = torch.nn.Linear(3, 2)
    optimiser = kind(network.parameters(), lr=0.1, **settings)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 / (1 + step))
    for step in range(4):
        optimiser.zero_grad()
        network(torch.full((1, 3), float(step))).square().sum().backward()
        optimiser.step()
        schedule.step()
    return network.weight.detach()


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (torch.optim.AdamW, {"weight_decay": 0.1}),
        (torch.optim.AdamW, {"fused": True}),
        (torch.optim.SGD, {"momentum": 0.9}),
    ],
)
def test_steps_are_those_of_torch(kind: type[torch.optim.Optimizer], settings: dict[str, object]) -> None:
    assert torch.equal(weights_after_training(eager(kind), settings), weights_after_training(kind, settings))
