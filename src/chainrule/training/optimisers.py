"""From gradients to new weights: Muon for matrices, AdamW or SGD for the rest; and the learning-rate schedule.

Muon and the other optimiser have a peak rate each; the schedule gives rates as shares of the peak. torch's optimisers
run without its compiler, which takes long to start.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from inspect import unwrap
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from chainrule.training.config import BETA2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtyping import Float
    from torch import Tensor

    from chainrule.training.character_ngrams import SummedVectors
    from chainrule.training.config import Schedule, TrainingConfig
    from chainrule.training.distributed import Sharding

O = TypeVar("O", bound=torch.optim.Optimizer)  # noqa: E741

_GUARDED = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")


def eager(optimiser: type[O]) -> type[O]:
    """Return the class of an optimiser without torch's guards, for steps that are never compiled.

    torch guards these methods against `torch.compile`, and imports torch._dynamo at the first call, which takes longer
    than importing torch. We compile networks only, never a step, so the bare methods are enough.
    """
    methods = {name: unwrap(getattr(optimiser, name)) for name in _GUARDED}
    methods["step"] = torch.no_grad()(unwrap(optimiser.step))
    return type(optimiser.__name__, (optimiser,), methods)


_A, _B, _C = 3.4445, -4.7750, 2.0315  # of the quintic iteration: Jordan 2024, https://kellerjordan.github.io/posts/muon
_ITERATIONS = 5


def orthogonalise(matrices: Float[Tensor, "matrices rows columns"]) -> Float[Tensor, "matrices rows columns"]:
    """Return approximately the nearest matrices with all singular values one, by Newton-Schulz iterations."""
    is_tall = matrices.size(-2) > matrices.size(-1)
    x = matrices.mT if is_tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), x, beta=_A)
    return x.mT if is_tall else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised (Jordan 2024); matrices of equal shape are updated in one batch."""

    def __init__(
        self,
        parameters: Iterable[Tensor],
        *,
        lr: float,
        momentum: float,
        weight_decay: float,
        in_bfloat16: bool,
        sharding: Sharding | None = None,
    ) -> None:
        """Store the settings.

        in_bfloat16: run the iteration in bfloat16, whose few digits suffice, where that is faster. sharding: how
        processes share out the matrices; each orthogonalises some of them, as a whole.
        """
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self._in_bfloat16, self._sharding = in_bfloat16, sharding

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes.setdefault(parameter.shape, []).append(parameter)
            for parameters in shapes.values():
                self._step_all(parameters, group)

    def _step_all(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        rows, columns = parameters[0].shape[-2:]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        means = [self._mean_of(parameter) for parameter in parameters]
        if self._sharding is not None:
            parameters, gradients, means = map(self._sharding.shares, (parameters, gradients, means))
        torch._foreach_lerp_(means, gradients, 1 - group["momentum"])
        ahead = torch._foreach_lerp(gradients, means, group["momentum"])
        if self._sharding is not None:
            updates = self._sharding.on_whole_matrices(self._orthogonalise, ahead, rows)
        else:
            updates = list(self._orthogonalise(torch.stack(ahead)).unbind())
        if group["weight_decay"]:
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(parameters, updates, alpha=-group["lr"] * max(1.0, rows / columns) ** 0.5)

    def _orthogonalise(self, stacked: Float[Tensor, "matrices rows columns"]) -> Float[Tensor, "matrices rows columns"]:
        return orthogonalise(stacked.bfloat16() if self._in_bfloat16 else stacked).to(stacked.dtype)

    def _mean_of(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if "mean" not in state:
            state["mean"] = torch.zeros_like(parameter)
        mean: Tensor = state["mean"]
        return mean


_DECAY_OF_PARTS = 0.03  # of vectors that are sums: without it, those of rare tokens are memorised


class Optimisers:
    """One optimiser, or Muon and AdamW side by side. Their rates follow the same schedule."""

    def __init__(
        self,
        config: TrainingConfig,
        network: torch.nn.Module,
        matrices: Sequence[Tensor],
        rates: tuple[float, float],
        in_bfloat16: bool,
        sharding: Sharding | None = None,
        summed: SummedVectors | None = None,
    ) -> None:
        """Build the optimisers.

        rates: the peaks of AdamW or SGD, and of Muon. sharding: how processes share out the weights. summed: the
        vectors whose parts are updated in place of them.
        """
        rate, matrix_rate = rates
        self.summed = summed
        own = {id(matrix) for matrix in (*matrices, *([] if summed is None else [summed.vectors]))}
        rest = [
            parameter
            for parameter in network.parameters()
            if id(parameter) not in own and parameter.is_floating_point()  # no quantised weight is trained
        ]
        parts = [] if summed is None else [summed.own, summed.shared]
        decay, is_adam = config.weight_decay, config.optimiser in ("muon", "adamw")
        self._optimisers: list[torch.optim.Optimizer] = []
        if config.optimiser == "muon":
            if matrices:
                self._optimisers.append(
                    eager(Muon)(
                        matrices,
                        lr=matrix_rate,
                        momentum=config.momentum,
                        weight_decay=decay,
                        in_bfloat16=in_bfloat16,
                        sharding=sharding,
                    )
                )
            groups = [{"params": rest, "weight_decay": 0.0}]
        else:
            both = [*matrices, *rest]
            groups = [
                {"params": [p for p in both if p.dim() >= 2], "weight_decay": decay},
                {"params": [p for p in both if p.dim() < 2], "weight_decay": 0.0},
            ]
        groups += [{"params": parts, "weight_decay": max(decay, _DECAY_OF_PARTS) if is_adam else decay}]
        groups = [group for group in groups if group["params"]]
        if is_adam:
            betas = (config.beta1, BETA2 if config.beta2 is None else config.beta2)
            self._optimisers.append(eager(torch.optim.AdamW)(groups, lr=rate, betas=betas, fused=True))
        else:
            self._optimisers.append(eager(torch.optim.SGD)(groups, lr=rate, momentum=config.momentum, fused=True))
        for group in self._groups():
            group["peak"] = group["lr"]

    def step(self, share: float) -> None:
        """Take one step at this share of the peak rates."""
        for group in self._groups():
            group["lr"] = group["peak"] * share
        if self.summed is not None:
            self.summed.pass_gradient()
        for optimiser in self._optimisers:
            optimiser.step()
        if self.summed is not None:
            self.summed.add_up()

    @property
    def has_muon(self) -> bool:
        """Whether Muon is among them, with a separate peak rate."""
        return any(isinstance(optimiser, Muon) for optimiser in self._optimisers)

    def _groups(self) -> list[dict[str, Any]]:
        return [group for optimiser in self._optimisers for group in optimiser.param_groups]

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors that a step depends on besides the weights, by name."""
        tensors: dict[str, Tensor] = {}
        if self.summed is not None:
            tensors |= {"own": self.summed.own, "shared": self.summed.shared}
        for i, optimiser in enumerate(self._optimisers):
            for number, state in optimiser.state_dict()["state"].items():
                for name, value in state.items():
                    if isinstance(value, torch.Tensor):
                        tensors[f"{i}.{number}.{name}"] = value
        return tensors

    def parameter_of(self, name: str) -> Tensor | None:
        """Return the parameter that a tensor of `tensors` belongs to; None where there is none of that name."""
        which, number, _ = name.split(".", 2)
        parameters = [parameter for group in self._optimisers[int(which)].param_groups for parameter in group["params"]]
        return parameters[int(number)] if int(number) < len(parameters) else None

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Restore what `tensors` gave."""
        if self.summed is not None:
            self.summed.own.detach().copy_(tensors.pop("own"))
            self.summed.shared.detach().copy_(tensors.pop("shared"))
        for i, optimiser in enumerate(self._optimisers):
            state: dict[int, dict[str, Tensor]] = {}
            for key, value in tensors.items():
                which, number, name = key.split(".", 2)
                if int(which) == i:
                    state.setdefault(int(number), {})[name] = value.clone()
            optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


class Average:
    """A running average of weights: exponential, or the plain mean if the decay is None."""

    def __init__(self, parameters: Sequence[Tensor], decay: float | None) -> None:
        self._parameters, self._decay = parameters, decay
        self.weights = [parameter.detach().clone() for parameter in parameters]
        self.steps = 0

    @torch.no_grad()
    def add_weights(self) -> None:
        """Add the current weights. The first ones do not weigh more than later ones."""
        self.steps += 1
        share = 1 / self.steps if self._decay is None else max(1 - self._decay, 9 / (9 + self.steps))
        torch._foreach_lerp_(self.weights, list(self._parameters), share)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the weights and their average; a second call undoes the first."""
        for parameter, mean in zip(self._parameters, self.weights, strict=True):
            kept = parameter.clone()
            parameter.copy_(mean)
            mean.copy_(kept)


def rate_share(
    schedule: Schedule, step: int, steps: int | None, *, warm_up: int, decay_share: float, final_share: float
) -> float:
    """Return the learning rate of a step (from 0), as a share of its peak; after the warm-up, 1 until `steps` is
    known.
    """
    if step < warm_up:
        return (step + 1) / (warm_up + 1)
    if steps is None or schedule == "plateau":
        return 1.0
    if schedule == "constant":
        left = (steps - step) / max(1.0, decay_share * steps)
        return final_share + (1 - final_share) * min(1.0, left)
    done = min(1.0, (step - warm_up) / max(1, steps - warm_up))
    falling = 0.5 * (1 + math.cos(math.pi * done)) if schedule == "cosine" else 1 - done
    return final_share + (1 - final_share) * falling


def steps_of(config: TrainingConfig, epoch: int, tokens_of: Callable[[int], int]) -> int | None:
    """Return the number of steps in a budget; None if it is in minutes.

    epoch: tokens in one pass over the text. tokens_of: tokens in the first n steps, at least one in each.
    """
    if config.steps is not None:
        return config.steps
    tokens = config.tokens
    if config.epochs is not None:
        tokens = max(1, math.ceil(config.epochs * epoch))
    if tokens is None:
        return None
    return 1 + bisect_left(range(1, tokens), tokens, key=tokens_of)
