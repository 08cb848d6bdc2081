"""torch's optimisers without the start-up of its compiler."""

from __future__ import annotations

from inspect import unwrap
from typing import TypeVar

import torch

O = TypeVar("O", bound=torch.optim.Optimizer)  # noqa: E741

_GUARDED = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")


def eager(optimiser: type[O]) -> type[O]:
    """The class of an optimiser without torch's guards, for steps that are never compiled.

    torch guards these methods against `torch.compile`, and imports torch._dynamo at the first call, which takes longer
    than importing torch. We compile networks only, never a step, so the bare methods are enough.
    """
    methods = {name: unwrap(getattr(optimiser, name)) for name in _GUARDED}
    methods["step"] = torch.no_grad()(unwrap(optimiser.step))
    return type(optimiser.__name__, (optimiser,), methods)
