"""The loop: batches, gradients, steps; validation, checkpoints and reports in between.

All that the next step depends on is in `Trainer.arrays` and `Progressed`, so that a run can go on from a checkpoint as
if nothing had happened, bit for bit on a CPU.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import torch

from chainrule.errors import EstimationError, SettingError
from chainrule.training.checkpoint import Progressed
from chainrule.training.machine import memory_in_use
from chainrule.training.optimisers import Average, Optimisers
from chainrule.training.reports import Report
from chainrule.training.schedule import rate_share, steps_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import ndarray
    from torch import Tensor, nn

    from chainrule.training.job import Setup
    from chainrule.training.objective import Objective, Validated


_WARM_UP_SHARE = 0.2  # of a short run is warm-up at most, where nothing else is said
_FETCHED_AFTER = {"cpu": 1, "cuda": 16}  # steps after which losses are fetched: a GPU should not wait for each


class Trainer:
    """A network that is being trained."""

    def __init__(
        self, network: nn.Module, matrices: list[nn.Parameter], objective: Objective, setup: Setup, peak: float
    ) -> None:
        """matrices: of the network, for Muon. peak: floating-point operations that this machine does in a second."""
        training, recipe = setup.training, setup.recipe
        self.network, self.objective, self.setup = network, objective, setup
        self.parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
        self.optimisers = Optimisers(
            training, network, matrices, (recipe.rate, recipe.matrix_rate), setup.machine.quick_bfloat16
        )
        self.average = Average(self.parameters, training.ema) if training.ema else None
        self.forward: Callable[..., Any] = network
        self.step, self.seconds = 0, 0.0
        self.steps = steps_of(training, objective.epoch, objective.tokens)
        self.best, self.best_step, self.since_best, self.halved = math.inf, 0, 0, 0
        self.best_weights: dict[str, Tensor] | None = None
        self.best_validated: Validated | None = None  # None, too, where the best were there before the run was resumed
        self._peak = peak
        self._pending: list[tuple[int, Tensor, Tensor]] = []  # steps whose loss and norm have not been looked at
        self._losses: list[float] = []  # since the last report
        self._norm = 0.0

    @property
    def is_over(self) -> bool:
        patience = self.setup.training.early_stopping
        return (self.steps is not None and self.step >= self.steps) or (0 < patience <= self.since_best)

    @property
    def tokens(self) -> int:
        return self.objective.tokens(self.step)

    def run(self, steps: int) -> None:
        """So many steps, at most as many as there are to do. Raises EstimationError where the loss is no number."""
        if not self.network.training:
            self.network.train()
        for _ in range(steps):
            if self.is_over:
                break
            began = time.perf_counter()
            self._step()
            if len(self._pending) >= _FETCHED_AFTER.get(self.setup.machine.device.type, 1):
                self.fetch_losses()
            self.seconds += time.perf_counter() - began

    def _step(self) -> None:
        training, share = self.setup.training, self._rate_share()
        total = torch.zeros((), device=self.setup.machine.device)
        for number, part in enumerate(self.objective.parts(self.step)):
            total += self._backward(number, part)
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        self.setup.processes.add([*gradients, total])
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, training.clip or math.inf)
        self._pending.append((self.step, total, norm))
        if self.setup.machine.device.type == "cpu":
            self.fetch_losses()  # before the weights are changed
        self.optimisers.step(share)
        for parameter in self.parameters:
            parameter.grad = None
        if self.average is not None:
            self.average.add_weights()
        self.step += 1

    def _backward(self, number: int, part: Any) -> Tensor:
        """The gradient of a part of a step, added to those there are; its share of the step's loss."""
        with self.setup.machine.precision():
            nats = self.objective.loss(number, part, self.forward, self._done())
        loss = nats / self.objective.weight(self.step)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _done(self) -> float:
        """The share of the run that is over; nothing while its end is not known."""
        return 0.0 if self.steps is None else self.step / self.steps

    def _rate_share(self) -> float:
        training = self.setup.training
        share = rate_share(
            training.schedule,
            self.step,
            self.steps,
            warm_up=self.warm_up,
            decay_share=training.decay_share,
            final_share=training.final_share,
        )
        return share * 0.5**self.halved if training.schedule == "plateau" else share

    @property
    def warm_up(self) -> int:
        """The steps in which the learning rate rises."""
        recommended, steps = self.setup.recipe.warm_up, self.steps
        if steps is None or self.setup.training.warm_up is not None:
            return recommended
        return min(recommended, int(_WARM_UP_SHARE * steps))

    def fetch_losses(self) -> None:
        """At the losses of the steps that have not been looked at. Raises EstimationError where one is no number."""
        pending, self._pending = self._pending, []
        for step, loss, norm in pending:
            value, self._norm = float(loss), float(norm)
            if not (math.isfinite(value) and math.isfinite(self._norm)):
                what = f"loss is {value}" if not math.isfinite(value) else f"norm of the gradient is {self._norm}"
                raise EstimationError(f"the {what} at step {step + 1:,}, after {self.objective.tokens(step):,} tokens")
            self._losses.append(value)

    def validate(self, tokens: int) -> tuple[Validated, bool]:
        """The loss on about so many tokens of what is kept for that, and whether it is the best so far."""
        with self.averaged():
            self.network.eval()
            found = self.objective.validated(tokens)
            loss = found.loss
            self.network.train()
            if not math.isfinite(loss):
                raise EstimationError(f"the loss in validation is {loss} after step {self.step:,}")
            is_best = loss < self.best
            if is_best:
                self.best, self.best_step, self.since_best, self.best_validated = loss, self.step, 0, found
                self.best_weights = {name: each.detach().clone() for name, each in self.network.state_dict().items()}
            else:
                self._count_no_better()
        return found, is_best

    def _count_no_better(self) -> None:
        training = self.setup.training
        self.since_best += 1
        if self.since_best % training.patience == 0:
            self.halved += 1
            if training.optimiser == "asgd" and self.average is None:
                self.average = Average(self.parameters, None)

    def averaged(self) -> Averaged:
        """While it lasts, the network has the average of its weights, if one is kept."""
        return Averaged(self.average)

    def report(self, step_seconds: float | None, **more: Any) -> Report:
        """How the run stands. step_seconds: what steps take of late."""
        losses, self._losses = self._losses, []
        speed = self.tokens / self.step / step_seconds if step_seconds else 0.0
        return Report(
            step=self.step,
            steps=self.steps,
            tokens=self.tokens,
            epoch=self.tokens / self.objective.epoch,
            loss=math.fsum(losses) / len(losses) if losses else math.nan,
            gradient=self._norm,
            rate=self._rate_share(),
            seconds=self.seconds,
            tokens_per_second=speed,
            peak_share=speed * self.objective.flops_per_token / (self._peak * self.setup.processes.number),
            memory=memory_in_use(self.setup.machine.device),
            **more,
        )

    def arrays(self) -> dict[str, ndarray]:
        """All that the next step depends on, but for `progress`, as arrays. All processes must call it."""
        tensors: dict[str, Tensor] = {f"network.{name}": each for name, each in self.network.state_dict().items()}
        tensors |= {f"optimiser.{name}": each for name, each in self.optimisers.tensors().items()}
        if self.average is not None:
            tensors |= {f"average.{i}": each for i, each in enumerate(self.average.weights)}
        carried = self.objective.carried()
        tensors |= {f"state.{i}": self.setup.processes.joined(leaf) for i, leaf in enumerate(carried)}
        tensors["random.cpu"] = self.setup.processes.joined(torch.get_rng_state()[None])
        if self.setup.machine.device.type == "cuda":
            state = torch.cuda.get_rng_state(self.setup.machine.device)
            tensors["random.cuda"] = self.setup.processes.joined(state[None].to(self.setup.machine.device))
        return {name: each.detach().cpu().contiguous().numpy() for name, each in tensors.items()}

    def progress(self, **more: Any) -> Progressed:
        """more: what the trainer does not know."""
        return Progressed(
            step=self.step,
            steps=self.steps,
            seconds=self.seconds,
            best=None if math.isinf(self.best) else self.best,
            best_step=self.best_step,
            since_best=self.since_best,
            halved=self.halved,
            averaged=0 if self.average is None else self.average.steps,
            **more,
        )

    def load(self, progress: Progressed, arrays: dict[str, ndarray], best: dict[str, ndarray] | None) -> None:
        """Goes on from what `progress` and `arrays` gave. Raises SettingError where they are of another network."""
        tensors = {name: torch.tensor(array) for name, array in arrays.items()}

        def those(kind: str) -> dict[str, Tensor]:
            prefix = kind + "."
            return {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}

        try:
            self.network.load_state_dict(those("network"))
            self.optimisers.load(those("optimiser"))
            averages = those("average")
            if averages:
                if self.average is None:
                    self.average = Average(self.parameters, None)
                for i, mean in enumerate(self.average.weights):
                    mean.copy_(averages[str(i)])
                self.average.steps = progress.averaged
            carried = those("state")
            self.objective.carry([carried[str(i)] for i in range(len(carried))])
            self._load_random_states(those("random"))
        except (RuntimeError, KeyError, ValueError, IndexError) as error:
            raise SettingError(f"the checkpoint does not fit this network: {error}") from error
        self.step, self.steps, self.seconds = progress.step, progress.steps, progress.seconds
        self.best = math.inf if progress.best is None else progress.best
        self.best_step, self.since_best, self.halved = progress.best_step, progress.since_best, progress.halved
        if best is not None:
            self.best_weights = {name: torch.tensor(array) for name, array in best.items()}

    def load_best(self, progress: Progressed, best: dict[str, ndarray]) -> None:
        """Goes on from the best weights alone, where the last are lost: optimiser, averages and states begin anew.

        Raises SettingError where they are of another network.
        """
        self.best_weights = {name: torch.tensor(array) for name, array in best.items()}
        try:
            self.network.load_state_dict(self.best_weights)
        except RuntimeError as error:
            raise SettingError(f"the checkpoint does not fit this network: {error}") from error
        assert progress.best is not None
        self.step, self.steps, self.seconds = progress.best_step, progress.steps, progress.seconds
        self.best, self.best_step, self.halved = progress.best, progress.best_step, progress.halved

    def _load_random_states(self, found: dict[str, Tensor]) -> None:
        """Of other numbers of processes, too: then dropout goes on otherwise."""
        rank = self.setup.processes.rank
        torch.set_rng_state(found["cpu"][rank % len(found["cpu"])])
        if "cuda" in found and self.setup.machine.device.type == "cuda":
            torch.cuda.set_rng_state(found["cuda"][rank % len(found["cuda"])], self.setup.machine.device)


class Averaged:
    """Holds the average of the weights in place of them."""

    def __init__(self, average: Average | None) -> None:
        self._average = average if average is not None and average.steps else None

    def __enter__(self) -> None:
        if self._average is not None:
            self._average.swap()

    def __exit__(self, *_: object) -> None:
        if self._average is not None:
            self._average.swap()
