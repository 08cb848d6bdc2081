"""Training steps: gradients, optimisers, averages; and validation.

All that the next step depends on is in `Trainer.tensors` and `RunProgress`, so that a resumed run gives the same
weights as an uninterrupted one, bit for bit on a CPU.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import torch

from chainrule.errors import EstimationError, SettingError
from chainrule.neural.adapters import learned_state, load_learned_state
from chainrule.neural.device import follow_load
from chainrule.neural.quantization import parameters_of
from chainrule.training.checkpoint import RunProgress
from chainrule.training.config import settings_of
from chainrule.training.device import memory_in_use
from chainrule.training.optimisers import Average, Optimisers, rate_share, steps_of
from chainrule.training.reports import Report

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    from chainrule.training.character_ngrams import SummedVectors
    from chainrule.training.distributed import SavedTensors
    from chainrule.training.job import Objective, Setup, ValidationResult


_WARM_UP_SHARE = 0.2  # of the run, at most, unless warm_up is set
_FETCHED_AFTER = {"cpu": 1, "cuda": 16}  # steps after which losses are fetched: a GPU should not wait for each


class Trainer:
    """A network in training."""

    def __init__(
        self,
        network: nn.Module,
        matrices: list[nn.Parameter],
        objective: Objective,
        setup: Setup,
        peak: float,
        summed: SummedVectors | None = None,
    ) -> None:
        """Build the optimisers.

        matrices: the network's parameters that Muon updates. peak: floating-point operations per second of this
        machine. summed: as for `Optimisers`.
        """
        training, recipe = setup.training, setup.recipe
        self.network, self.objective, self.setup = network, objective, setup
        self.parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
        self.optimisers = Optimisers(
            training,
            network,
            matrices,
            (recipe.rate, recipe.matrix_rate),
            setup.machine.quick_bfloat16,
            setup.processes.sharding,
            summed,
        )
        self.average = Average(self.parameters, training.ema) if training.ema else None
        self.forward: Callable[..., Any] = network
        self.step, self.seconds = 0, 0.0
        self.steps = steps_of(training, objective.epoch, objective.tokens)
        self.best, self.best_step, self.since_best, self.halved = math.inf, 0, 0, 0  # best: the lowest criterion
        self.best_weights: dict[str, Tensor] | None = None
        self.best_validated: ValidationResult | None = None  # also None if the best weights are older than a resumption
        self._peak = peak
        self._pending: list[tuple[int, Tensor, Tensor]] = []  # step, loss, norm; not fetched yet
        self._losses: list[float] = []  # since the last report
        self._norm = 0.0

    @property
    def is_over(self) -> bool:
        return (self.steps is not None and self.step >= self.steps) or self.stops_early

    @property
    def stops_early(self) -> bool:
        """Whether the last `early_stopping` validations brought no improvement."""
        return 0 < self.setup.training.early_stopping <= self.since_best

    @property
    def tokens(self) -> int:
        return self.objective.tokens(self.step)

    def run(self, steps: int) -> None:
        """Take steps, at most to the end of the run. Raises EstimationError if the loss is not finite."""
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
        if self.setup.training.minutes is not None and not self.setup.machine.compiled:
            follow_load()
        training, share = self.setup.training, self._rate_share()
        total = torch.zeros((), device=self.setup.machine.device)
        for number, part in enumerate(self.objective.parts(self.step)):
            total += self._backward(number, part)
        sharding = self.setup.processes.sharding
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        self.setup.processes.add([total] if sharding else [*gradients, total])  # shared-out gradients are sums already
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, training.clip or math.inf)
        norm = sharding.whole(norm) if sharding else norm
        self._pending.append((self.step, total, norm))
        if self.setup.machine.device.type == "cpu":
            self.fetch_losses()  # so that an infinite loss is reported before the weights change
        self.optimisers.step(share)
        for parameter in self.parameters:
            parameter.grad = None
        if self.average is not None:
            self.average.add_weights()
        self.step += 1

    def _backward(self, number: int, part: Any) -> Tensor:
        """Accumulate the gradient of a part of a step; return its share of the step's loss."""
        with self.setup.machine.precision():
            nats = self.objective.loss(number, part, self.forward, self._done())
        loss = nats / self.objective.weight(self.step)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _done(self) -> float:
        """Return the share of the run that is over; 0 until its end is known."""
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
        """Steps in which the learning rate rises."""
        recommended, steps = self.setup.recipe.warm_up, self.steps
        if steps is None or self.setup.training.warm_up is not None:
            return recommended
        return min(recommended, int(_WARM_UP_SHARE * steps))

    def fetch_losses(self) -> None:
        """Fetch the losses of recent steps from the device. Raises EstimationError if one is not finite."""
        pending, self._pending = self._pending, []
        for step, loss, norm in pending:
            value, self._norm = float(loss), float(norm)
            if not (math.isfinite(value) and math.isfinite(self._norm)):
                what = f"loss is {value}" if not math.isfinite(value) else f"norm of the gradient is {self._norm}"
                raise EstimationError(f"the {what} at step {step + 1:,}, after {self.objective.tokens(step):,} tokens")
            self._losses.append(value)

    def measure(self, tokens: int) -> ValidationResult:
        """Return the validation on about `tokens` tokens. Raises EstimationError if the loss is not finite."""
        self.network.eval()
        validated = self.objective.validate(tokens)
        self.network.train()
        if self.setup.processes.sharding is not None:
            self.setup.processes.sharding.drop_gathered(self.network)
        if not math.isfinite(validated.loss):
            raise EstimationError(f"the validation loss is {validated.loss} after step {self.step:,}")
        return validated

    def validate(self, tokens: int) -> tuple[ValidationResult, bool]:
        """Return the validation on about `tokens` tokens, and whether it is the best so far."""
        with self.averaged():
            validated = self.measure(tokens)
            loss = validated.loss
            criterion = loss if validated.criterion is None else validated.criterion
            is_best = criterion < self.best
            if is_best:
                self.best, self.best_step, self.since_best, self.best_validated = criterion, self.step, 0, validated
                self.best_weights = {
                    name: weight.detach().clone() for name, weight in learned_state(self.network).items()
                }
            else:
                self._count_no_better()
        return validated, is_best

    def _count_no_better(self) -> None:
        training = self.setup.training
        self.since_best += 1
        if self.since_best % training.patience == 0:
            self.halved += 1
            if training.optimiser == "asgd" and self.average is None:
                self.average = Average(self.parameters, None)

    def averaged(self) -> Averaged:
        """Return a context in which the network has the average of its weights, if one is kept."""
        return Averaged(self.average)

    def report(self, step_seconds: float | None, **more: Any) -> Report:
        """Return the state of the run. step_seconds: of recent steps."""
        losses, self._losses = self._losses, []
        speed = self.tokens / self.step / step_seconds if step_seconds else 0.0
        reached = speed * self.objective.flops_per_token / self.setup.processes.number
        self._peak = max(self._peak, reached)  # which other programs may have disturbed when it was measured
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
            peak_share=reached / self._peak,
            memory=memory_in_use(self.setup.machine.device),
            **more,
        )

    def record(self, elapsed: float, earlier: float | None, validation: dict[str, Any] | None) -> dict[str, Any]:
        """Return the record of the run.

        elapsed: seconds of the whole run. earlier: seconds of its parts before the last, if any. validation: the last.
        """
        setup = self.setup
        record: dict[str, Any] = {
            "parameters": parameters_of(self.network),
            "training": {
                **settings_of(setup.training),
                "batch": setup.recipe.batch,
                "learning_rate": setup.recipe.rate,
                "matrix_learning_rate": setup.recipe.matrix_rate,
                "warm_up": self.warm_up,
                **setup.machine.as_json(),
                "float32_layers": setup.machine.layers_in_float32(self.network),
                "processes": setup.processes.number,
                "torch": torch.__version__,
            },
            "steps": self.step,
            "tokens_seen": self.tokens,
            "training_seconds": self.seconds,
            "run_seconds": elapsed,
        }
        if earlier is not None:
            record["earlier_seconds"] = earlier
        return record | ({} if validation is None else {"validation": validation})

    def tensors(self) -> dict[str, Tensor]:
        """Return all that the next step depends on, except for `progress`. All processes must call it."""
        tensors: dict[str, Tensor] = {f"network.{name}": weight for name, weight in learned_state(self.network).items()}
        tensors |= {f"optimiser.{name}": tensor for name, tensor in self.optimisers.tensors().items()}
        if self.average is not None:
            tensors |= {f"average.{i}": mean for i, mean in enumerate(self.average.weights)}
        carried = self.objective.state()
        tensors |= {f"state.{i}": self.setup.processes.gather(leaf) for i, leaf in enumerate(carried)}
        tensors["random.cpu"] = self.setup.processes.gather(torch.get_rng_state()[None])
        if self.setup.machine.device.type == "cuda":
            state = torch.cuda.get_rng_state(self.setup.machine.device)
            tensors["random.cuda"] = self.setup.processes.gather(state[None].to(self.setup.machine.device))
        return {name: tensor.detach() for name, tensor in tensors.items()}

    def progress(self, **more: Any) -> RunProgress:
        """Return how far the run has come. more: the fields that the trainer does not know."""
        return RunProgress(
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

    def load(self, progress: RunProgress, last: SavedTensors, best: SavedTensors | None) -> None:
        """Restore what `progress` and `tensors` gave. Raises SettingError if they are of another network."""
        tensors = self._read(last)

        def select(kind: str) -> dict[str, Tensor]:
            prefix = kind + "."
            return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}

        try:
            load_learned_state(self.network, select("network"))
            self.optimisers.load(select("optimiser"))
            averages = select("average")
            if averages:
                if self.average is None:
                    self.average = Average(self.parameters, None)
                for i, mean in enumerate(self.average.weights):
                    mean.copy_(averages[str(i)])
                self.average.steps = progress.averaged
            carried = select("state")
            self.objective.load_state([carried[str(i)] for i in range(len(carried))])
            self._load_random_states(select("random"))
        except (RuntimeError, KeyError, ValueError, IndexError) as error:
            raise SettingError(f"the checkpoint does not fit this network: {error}") from error
        self.step, self.steps, self.seconds = progress.step, progress.steps, progress.seconds
        self.best = math.inf if progress.best is None else progress.best
        self.best_step, self.since_best, self.halved = progress.best_step, progress.since_best, progress.halved
        if best is not None:
            self.best_weights = self._read(best)

    def load_best(self, progress: RunProgress, best: SavedTensors) -> None:
        """Restore the best weights alone, if the last are lost; optimiser, averages and states start afresh.

        Raises SettingError if they are of another network.
        """
        self.best_weights = self._read(best)
        try:
            load_learned_state(self.network, self.best_weights)
        except RuntimeError as error:
            raise SettingError(f"the checkpoint does not fit this network: {error}") from error
        if self.optimisers.summed is not None:
            self.optimisers.summed.begin()
        assert progress.best is not None
        self.step, self.steps, self.seconds = progress.best_step, progress.steps, progress.seconds
        self.best, self.best_step, self.halved = progress.best, progress.best_step, progress.halved

    def _read(self, saved: SavedTensors) -> dict[str, Tensor]:
        """Read saved tensors; where weights are shared out, only this process's shares. Raises ModelFormatError."""
        weights = self.network.state_dict()

        def sharded_as(name: str) -> Tensor | None:
            kind, _, rest = name.partition(".")
            if kind == "optimiser":
                return self.optimisers.parameter_of(rest)
            if kind == "average":
                return self.parameters[int(rest)] if int(rest) < len(self.parameters) else None
            return weights.get(rest if kind == "network" else name)

        if self.setup.processes.sharding is None:
            return saved.whole()
        return saved.shares(self.setup.processes.sharding, sharded_as)

    def _load_random_states(self, states: dict[str, Tensor]) -> None:
        """Restore the random states; this works with another number of processes, too, but then dropout continues
        differently.
        """
        rank = self.setup.processes.rank
        own = states["cpu"][rank % len(states["cpu"])]
        torch.set_rng_state(own.clone())  # torch 2.13 crashes where it is a later row of a larger tensor
        if "cuda" in states and self.setup.machine.device.type == "cuda":
            torch.cuda.set_rng_state(states["cuda"][rank % len(states["cuda"])], self.setup.machine.device)


class Averaged:
    """A context in which the network has the average of its weights."""

    def __init__(self, average: Average | None) -> None:
        self._average = average if average is not None and average.steps else None

    def __enter__(self) -> None:
        if self._average is not None:
            self._average.swap()

    def __exit__(self, *_: object) -> None:
        if self._average is not None:
            self._average.swap()
