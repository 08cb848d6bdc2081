"""A whole run: from ids and settings to a trained network, with checkpoints in a folder, from the start or resumed."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic

import torch

from chainrule.errors import EstimationError, OutputError, SettingError
from chainrule.neural.config import TWO_SIDED
from chainrule.training.checkpoint import FOLDER, Checkpoints
from chainrule.training.config import Run, differences, text_differences
from chainrule.training.config import settings_of as training_settings
from chainrule.training.machine import Machine, held_in_memory, machine_for, peak
from chainrule.training.masked import two_sided
from chainrule.training.next_token import next_token
from chainrule.training.objective import N, Task
from chainrule.training.processes import Processes, ended, started_here
from chainrule.training.reports import Log, Report
from chainrule.training.trainer import Trainer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.network import Network
    from chainrule.training.checkpoint import Opened
    from chainrule.training.objective import Problem

_VALIDATIONS = 10  # in a run, by default
_SECONDS_BETWEEN_CHECKPOINTS, _SECONDS_BETWEEN_REPORTS = 60.0, 2.0


def train_network(
    stream: Int32[ndarray, " tokens"], vocabulary_size: int, config: NetworkConfig, run: Run
) -> tuple[Network, dict[str, Any]]:
    """A network of any family, trained on a stream, as `trained` gives it. Raises as that does, and TextError."""
    problem = two_sided if isinstance(config, tuple(TWO_SIDED.values())) else next_token
    return trained(problem(stream, vocabulary_size, config, run), run)


def trained(problem: Problem[N], run: Run) -> tuple[N, dict[str, Any]]:
    """A trained network in evaluation mode, on the CPU, with its record; its weights are the best that were validated.

    Raises SettingError, EstimationError, OutputError, ModelFormatError; KeyboardInterrupt where it was interrupted,
    after a checkpoint.
    """
    processes = started_here()
    folder = run.folder if processes.is_first else None
    try:
        with (
            held_in_memory(lambda where: _does_not_fit(where, problem, run)),
            nullcontext() if folder is None else Checkpoints(folder / FOLDER).held(),
        ):
            return _Running(problem, run, processes).trained()
    finally:
        ended()


class _Running(Generic[N]):
    """One run."""

    def __init__(self, problem: Problem[N], run: Run, processes: Processes) -> None:
        training = problem.training
        self.run, self.training, self.processes = run, training, processes
        self.checkpoints = None if run.folder is None else Checkpoints(run.folder / FOLDER)
        resumed = self._opened()
        machine = machine_for(training)
        if resumed is not None:
            machine = _kept(machine, resumed.entry.machine)
        torch.manual_seed(training.seed)
        self.network = problem.build().to(machine.device)
        self.task = Task(training, problem.recipe, machine, processes)
        self.settings = {
            "network": problem.network,
            "training": training_settings(training),
            "text": problem.text,
        }
        self.objective = problem.objective(self.network, self.task)
        matrices = problem.matrices(self.network)
        self.trainer = Trainer(self.network, matrices, self.objective, self.task, peak(machine))
        if processes.number > 1 and resumed is None:  # the same weights everywhere; other random numbers in each
            torch.manual_seed(training.seed + processes.rank)
        self.resumed_at = 0
        notes = [each for each in (problem.note, machine.note(self.network)) if each is not None]
        self.note = "; ".join(notes) or None  # for the next report
        log_bytes = 0
        if resumed is not None:
            self._check_same(resumed.entry.run)
            self._load(resumed)
            self.resumed_at, log_bytes = self.trainer.step, resumed.entry.progress.log_bytes
        folder = run.folder if processes.is_first else None
        self.log = Log(folder, tensorboard=training.tensorboard, keep=log_bytes, step=self.resumed_at)
        self.saved_at, self.saved_time = self.trainer.step, time.monotonic()
        self.reported_time = 0.0

    def _opened(self) -> Opened | None:
        if self.checkpoints is None or not self.checkpoints.exist():
            return None
        if self.run.resume:
            return self.checkpoints.open()
        if not self.run.overwrite:
            raise OutputError(
                f"{self.run.folder}: there is an unfinished run; say --resume to go on with it, or --overwrite to "
                "begin anew"
            )
        return None

    def _load(self, resumed: Opened) -> None:
        """Raises SettingError."""
        progress = resumed.entry.progress
        if resumed.last is not None:
            self.trainer.load(progress, resumed.last, resumed.best)
            return
        assert resumed.best is not None
        self.trainer.load_best(progress, resumed.best)
        self.note = (
            f"{resumed.damage}; the best weights, of step {progress.best_step:,}, are whole, so the run goes on from "
            f"there, not from step {progress.step:,}, and its optimiser begins anew"
        )

    def _check_same(self, before: dict[str, Any]) -> None:
        """Raises SettingError that names what differs."""
        if before.get("text", {}).get("family") != self.settings["text"].get("family"):
            raise SettingError(
                f"{self.run.folder}: the checkpoint is of family {before.get('text', {}).get('family')}, "
                f"not {self.settings['text'].get('family')}; choose another folder"
            )
        parts = ("network", "training")
        found = [each for part in parts for each in differences(before.get(part, {}), self.settings[part])]
        found += text_differences(before.get("text", {}), self.settings["text"])
        if found:
            raise SettingError(
                f"{self.run.folder}: cannot go on with other settings: {'; '.join(found)}. Say them as before, or "
                "begin anew with --overwrite in place of --resume"
            )

    def trained(self) -> tuple[N, dict[str, Any]]:
        trainer, machine = self.trainer, self.task.machine
        self.log.line({"event": "resumed" if self.resumed_at else "begun", "step": trainer.step, **machine.as_json()})
        if self.note is not None:
            self.log.line({"event": "note", "note": self.note})
        if machine.compiled:
            self._compile()
        try:
            with _interruptions() as interrupted:
                while not trainer.is_over:
                    trainer.run(1)
                    self._between(trainer.step)
                    if (
                        self.processes.agreed(float(interrupted.is_set()))
                        if self.processes.number > 1
                        else (interrupted.is_set())
                    ):
                        self._stop()
        except EstimationError as error:
            raise EstimationError(f"{error}{self._how_to_go_on()}") from error
        finally:
            self.log.close()
        return self._finished()

    def _between(self, step: int) -> None:
        """What is due after a step: validation, a checkpoint, a report."""
        trainer, training = self.trainer, self.training
        trainer_is_over = trainer.is_over
        every = training.validate_every or max(1, (trainer.steps or 0) // _VALIDATIONS)
        is_due = (
            trainer_is_over
            or (step % every == 0 and trainer.steps is not None)
            or (training.validate_every is not None and step % every == 0)
        )
        more: dict[str, Any] = {}
        if is_due and self.objective.validates:
            loss, is_best = trainer.validate()
            bits = self.objective.validation_record(loss).get("bits_per_byte")
            more = {"valid_loss": loss, "bits_per_byte": bits, "is_best": is_best}
        now = time.monotonic()
        log_every = 1 if (trainer.steps or 0) <= 200 and self.training.minutes is None else 10
        wants_report = bool(more) or self.note is not None or trainer_is_over or step % log_every == 0
        saves = self.checkpoints is not None and (
            step % training.save_every == 0
            if training.save_every
            else bool(self.processes.agreed(bool(more) or now - self.saved_time > _SECONDS_BETWEEN_CHECKPOINTS))
        )
        if wants_report:
            trainer.look()
            note, self.note = self.note, None
            is_important = bool(more) or note is not None or trainer_is_over
            self._tell(trainer.report(**more, note=note, saved=saves), now, is_important)
        if saves:
            self._save(is_new_best=bool(more.get("is_best")))

    def _tell(self, report: Report, now: float, is_important: bool) -> None:
        self.log.report(report)
        if self.processes.is_first and (is_important or now - self.reported_time > _SECONDS_BETWEEN_REPORTS):
            self.reported_time = now
            self.run.told(report)

    def _save(self, *, is_new_best: bool = False) -> None:
        trainer = self.trainer
        if self.checkpoints is None:
            return
        trainer.look()
        arrays = trainer.arrays()
        if self.processes.is_first:
            best = trainer.best_weights
            is_best_known = not is_new_best and self.checkpoints.has_best(trainer.best_step)
            self.checkpoints.save(
                self.settings,
                self.task.machine.as_json(),
                trainer.progress(self.log.bytes),
                arrays,
                None if best is None or is_best_known else {n: each.cpu().numpy() for n, each in best.items()},
            )
        self.saved_at, self.saved_time = trainer.step, time.monotonic()

    def _stop(self) -> None:
        """Raises KeyboardInterrupt, with what to do to go on."""
        step = self.trainer.step
        if self.checkpoints is None:
            raise KeyboardInterrupt(f"interrupted after step {step:,}; nothing was kept, since no folder was given")
        if self.saved_at != step:
            self._save()
        self.log.line({"event": "interrupted", "step": step})
        raise KeyboardInterrupt(
            f"interrupted after step {step:,}; all is kept in {self.run.folder}: "
            "go on with the same command and --resume"
        )

    def _how_to_go_on(self) -> str:
        """After a loss that is no number: the same settings would end in the same place."""
        if self.checkpoints is None:
            return ""
        if not self.saved_at:
            return ". There is no checkpoint yet; begin anew with the same command and these"
        return (
            f". The checkpoint of step {self.saved_at:,} in {self.run.folder} is whole, but --resume keeps the "
            "settings and would come to the same; begin anew with these and --overwrite"
        )

    def _compile(self) -> None:
        """The first step is tried compiled; where that fails, all go on as they are, and the log says so."""
        trainer = self.trainer
        compiled = torch.compile(trainer.network)

        def forward(*given: Any) -> Any:
            try:
                return compiled(*given)
            except (RuntimeError, ImportError, OSError) as error:
                because = str(error).splitlines()[0][:200]
                self.log.line({"event": "not compiled", "because": because})
                self.note = f"torch.compile failed, so the network goes on as it is: {because}"
                trainer.forward = trainer.network
                return trainer.network(*given)

        trainer.forward = forward

    def _finished(self) -> tuple[N, dict[str, Any]]:
        trainer, network = self.trainer, self.network
        if trainer.best_weights is not None:
            network.load_state_dict(trainer.best_weights)
        elif trainer.average is not None:
            trainer.average.swap()
        machine, recipe = self.task.machine, self.task.recipe
        network.cpu().eval()
        record: dict[str, Any] = {
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            "training": {
                **training_settings(self.training),
                "batch": recipe.batch,
                "learning_rate": recipe.rate,
                "matrix_learning_rate": recipe.matrix_rate,
                "warm_up": trainer.warm_up,
                **machine.as_json(),
                "float32_layers": machine.layers_in_float32(network),
                "processes": self.processes.number,
                "torch": torch.__version__,
            },
            "steps": trainer.step,
            "tokens_seen": trainer.tokens,
            "training_seconds": trainer.seconds,
        }
        if self.objective.validates and trainer.best_weights is not None:
            more = self.objective.validation_record(trainer.best)
            record["validation"] = {"loss": trainer.best, "step": trainer.best_step, **more}
        return network, record


def _kept(machine: Machine, before: dict[str, Any]) -> Machine:
    """A machine that computes as one did before, as far as it can."""
    if machine.device.type != before.get("device"):
        return machine
    return replace(
        machine,
        bfloat16=bool(before.get("bfloat16")),
        quick_bfloat16=bool(before.get("quick_bfloat16")),
        compiled=bool(before.get("compiled")),
    )


def _does_not_fit(where: str, problem: Problem[N], run: Run) -> str:
    is_kept = run.folder is not None and Checkpoints(run.folder / FOLDER).exist()
    kept = " The last checkpoint is whole." if is_kept else ""
    return (
        f"the memory of {where} does not hold a step of {problem.step}; raise --accumulate "
        f"(now {run.training.accumulate}), or lower {problem.smaller}.{kept}"
    )


@contextmanager
def _interruptions() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, so that a step is never cut in two; a second Ctrl-C ends at once."""
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def noticed(number: int, frame: object) -> None:
        interrupted.set()
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in before:
        signal.signal(number, noticed)
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
