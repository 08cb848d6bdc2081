"""A whole run: from a job to a trained network, with checkpoints in a folder, from the start or resumed."""

from __future__ import annotations

import signal
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic

import torch

from chainrule.errors import EstimationError
from chainrule.neural.config import TWO_SIDED
from chainrule.storage.model_folder import check_target
from chainrule.training.batch_size import rows_for
from chainrule.training.checkpoint import FOLDER, Checkpoints
from chainrule.training.compiling import compiled_or_not
from chainrule.training.config import settings_of as training_settings
from chainrule.training.interruptions import interruptions
from chainrule.training.job import N, Setup
from chainrule.training.machine import Machine, held_in_memory, machine_for, peak
from chainrule.training.masked import two_sided_job
from chainrule.training.next_token import next_token_job
from chainrule.training.options import StreamOptions, TrainingRun
from chainrule.training.processes import Processes, ended, started_here
from chainrule.training.reports import Log, Report
from chainrule.training.resume_check import check_same, open_checkpoint
from chainrule.training.timetable import Timetable
from chainrule.training.trainer import Trainer

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.network import Network
    from chainrule.training.checkpoint import Opened, Progressed
    from chainrule.training.job import TrainingJob

_SECONDS_BETWEEN_CHECKPOINTS, _SECONDS_BETWEEN_REPORTS = 60.0, 2.0
_SAVING_SHARE = 0.02  # of the time, for checkpoints
_SHORT_RUN = 200  # steps, each of which is logged


def train_network(
    stream: Int32[ndarray, " tokens"],
    vocabulary_size: int,
    config: NetworkConfig,
    options: StreamOptions | None = None,
    run: TrainingRun | None = None,
) -> tuple[Network, dict[str, Any]]:
    """A network of any family, trained on a stream, as `run_job` gives it. Raises as that does, and TextError."""
    make_job = two_sided_job if isinstance(config, tuple(TWO_SIDED.values())) else next_token_job
    return run_job(make_job(stream, vocabulary_size, config, options or StreamOptions()), run or TrainingRun())


def run_job(job: TrainingJob[N], run: TrainingRun) -> tuple[N, dict[str, Any]]:
    """A trained network in evaluation mode, on the CPU, with its record; its weights are the best that were validated.

    Raises SettingError, EstimationError, OutputError, ModelFormatError; KeyboardInterrupt where it was interrupted,
    after a checkpoint.
    """
    processes = started_here()
    folder = run.folder if processes.is_first else None
    try:
        with (
            held_in_memory(lambda where: _does_not_fit(where, job, run)),
            nullcontext() if folder is None else Checkpoints(folder / FOLDER).held(),
        ):
            if folder is not None:  # again, now that no other run can save a model there
                check_target(folder, overwrite=run.overwrite or (run.resume and Checkpoints(folder / FOLDER).exist()))
            return _RunningJob(job, run, processes).train()
    finally:
        ended()


class _RunningJob(Generic[N]):
    """A job under way: the steps of its trainer, and what is due between them."""

    def __init__(self, job: TrainingJob[N], run: TrainingRun, processes: Processes) -> None:
        training = job.training
        self.job, self.run, self.training, self.processes = job, run, training, processes
        self.checkpoints = None if run.folder is None else Checkpoints(run.folder / FOLDER)
        resumed = open_checkpoint(self.checkpoints, run)
        progress = None if resumed is None else resumed.entry.progress
        machine = machine_for(training)
        if resumed is not None:
            machine = _kept(machine, resumed.entry.machine)
        began = time.monotonic()
        torch.manual_seed(training.seed)
        self.network = job.build().to(machine.device)
        self.settings = {"network": job.network, "training": training_settings(training), "text": job.text}
        self.notes = [
            note for note in (None if run.resume else job.note, machine.note(self.network)) if note
        ]  # for the next report
        self.trainer = self._trainer(Setup(training, job.recipe, machine, processes), progress)
        self.setup, self.objective = self.trainer.setup, self.trainer.objective
        if processes.number > 1 and resumed is None:  # the same weights everywhere; other random numbers in each
            torch.manual_seed(training.seed + processes.rank)
        if resumed is not None:
            check_same(run.folder, resumed.entry.run, self.settings)
            self._load(resumed)
        self.timetable = Timetable(self.trainer, self.setup, progress, began)
        self.resumed_at = 0 if progress is None else self.trainer.step
        self.log = Log(
            run.folder if processes.is_first else None,
            tensorboard=training.tensorboard,
            keep=0 if progress is None else progress.log_bytes,
            step=self.resumed_at,
        )
        self.saved_at, self.saved_time, self.reported_time = self.trainer.step, time.monotonic(), 0.0

    def _trainer(self, setup: Setup, progress: Progressed | None) -> Trainer:
        """With as many rows in a step as a resumed run had, or as few minutes ask for."""
        job, training, recipe = self.job, self.training, self.job.recipe
        objective, matrices = job.objective(self.network, setup), job.matrices(self.network)
        batch: int | None = recipe.batch
        if progress is not None:
            batch = progress.batch
        elif training.batch is None and training.minutes is not None:
            batch = rows_for(job, self.network, setup, objective, matrices, 60 * training.minutes)
        if batch is not None and batch != recipe.batch:
            if progress is None:
                self.notes.append(
                    f"the batch is {batch}, not {recipe.batch}, so that {training.minutes:g} minutes of this machine "
                    "are more steps"
                )
            setup = replace(setup, recipe=replace(recipe, batch=batch))
            objective = job.objective(self.network, setup)
        return Trainer(self.network, matrices, objective, setup, peak(setup.machine))

    def _load(self, resumed: Opened) -> None:
        """Raises SettingError."""
        progress = resumed.entry.progress
        if resumed.last is not None:
            self.trainer.load(progress, resumed.last, resumed.best)
            return
        assert resumed.best is not None
        self.trainer.load_best(progress, resumed.best)
        self.notes.append(
            f"{resumed.damage}; the best weights, of step {progress.best_step:,}, are whole, so the run goes on from "
            f"there, not from step {progress.step:,}, and its optimiser begins anew"
        )

    def train(self) -> tuple[N, dict[str, Any]]:
        """Steps until the budget is spent, and what is due between them; the network and its record."""
        trainer, machine = self.trainer, self.setup.machine
        self.log.line({"event": "resumed" if self.resumed_at else "begun", "step": trainer.step, **machine.as_json()})
        for note in [*self.notes, *self.timetable.notes]:
            self.log.line({"event": "note", "note": note})
        if machine.compiled:
            trainer.forward = compiled_or_not(self.network, self._note_not_compiled)
        try:
            with interruptions() as interruption:
                while not trainer.is_over:
                    trainer.run(1)
                    if self.timetable.step_done():
                        self.log.line({"event": "planned", "step": trainer.step, "steps": trainer.steps})
                    self._do_what_is_due()
                    number = int(self.processes.agreed(float(interruption.signal)))
                    if number and not self._ends_with_best(number):
                        self._stop()
                    if number:
                        break
        except EstimationError as error:
            raise EstimationError(f"{error}; try {self._calmer()}{self._how_to_go_on()}") from error
        finally:
            self.log.close()
        return self._finish()

    def _note_not_compiled(self, because: str) -> None:
        self.log.line({"event": "not compiled", "because": because})
        self.notes.append(f"torch.compile failed, so the network goes on as it is: {because}")

    def _do_what_is_due(self) -> None:
        """After a step: validation, a checkpoint, a report."""
        trainer, is_over = self.trainer, self.trainer.is_over
        validation = self._validate() if self.timetable.validation_is_due() else {}
        now = time.monotonic()
        notes = [*self.notes, *self.timetable.notes]
        saves = self._saving_is_due(now, is_over=is_over, is_validated=bool(validation))
        is_important = bool(validation) or bool(notes) or is_over
        if is_important or self._report_is_due(now):
            trainer.fetch_losses()
            self.notes, self.timetable.notes = [], []
            report = trainer.report(
                self.timetable.pace.step_seconds,
                **validation,
                seconds_left=self.timetable.seconds_left(),
                note="; ".join(notes) or None,
                saved=saves,
            )
            self._report(report, now, is_important=is_important)
        if saves:
            self._save(is_new_best=bool(validation.get("is_best")))

    def _validate(self) -> dict[str, Any]:
        """What a report has of it."""
        began, sample = time.monotonic(), self.timetable.sample()
        validated, is_best = self.trainer.validate(sample)
        self.timetable.validated(sample, time.monotonic() - began)
        reported = {name: validated.figures.get(name) for name in ("bits_per_byte", "accuracy")}
        return {"valid_loss": validated.loss, **reported, "is_best": is_best}

    def _report_is_due(self, now: float) -> bool:
        is_short = (self.trainer.steps or 0) <= _SHORT_RUN and self.training.minutes is None
        return self.trainer.step % (1 if is_short else 10) == 0 or now - self.reported_time > _SECONDS_BETWEEN_REPORTS

    def _saving_is_due(self, now: float, *, is_over: bool, is_validated: bool) -> bool:
        if self.checkpoints is None:
            return False
        if self.training.save_every:
            return self.trainer.step % self.training.save_every == 0
        since = now - self.saved_time
        is_wanted = is_validated or since > _SECONDS_BETWEEN_CHECKPOINTS
        is_cheap = self.timetable.save_seconds <= _SAVING_SHARE * since
        return bool(self.processes.agreed(float(is_over or (is_wanted and is_cheap))))

    def _report(self, report: Report, now: float, *, is_important: bool) -> None:
        """Every report goes to the log, some to the callback."""
        self.log.report(report)
        if self.processes.is_first and (is_important or now - self.reported_time > _SECONDS_BETWEEN_REPORTS):
            self.reported_time = now
            self.run.on_report(report)

    def _save(self, *, is_new_best: bool = False) -> None:
        if self.checkpoints is None:
            return
        trainer, timetable, began = self.trainer, self.timetable, time.monotonic()
        trainer.fetch_losses()
        arrays = trainer.arrays()
        if self.processes.is_first:
            best = trainer.best_weights
            if not is_new_best and self.checkpoints.has_best(trainer.best_step):
                best = None
            self.checkpoints.save(
                self.settings,
                self.setup.machine.as_json(),
                trainer.progress(
                    batch=self.setup.recipe.batch,
                    every=None if timetable.layout is None else timetable.layout.every,
                    sample=None if timetable.layout is None else timetable.layout.sample,
                    token_seconds=timetable.pace.token_seconds,
                    plans=timetable.plans,
                    elapsed=timetable.elapsed,
                    log_bytes=self.log.bytes,
                ),
                arrays,
                None if best is None else {name: weight.cpu().numpy() for name, weight in best.items()},
            )
        self.saved_at, self.saved_time = trainer.step, time.monotonic()
        timetable.save_seconds = self.saved_time - began

    def _ends_with_best(self, number: int) -> bool:
        """Whether a signal ends the run as if its budget were spent; then this is noted."""
        trainer = self.trainer
        if number != signal.SIGINT or not self.job.keeps_best or trainer.best_weights is None:
            return False
        if trainer.is_over:
            return True
        self.log.line({"event": "interrupted", "step": trainer.step})
        note = (
            f"interrupted after step {trainer.step:,}; the weights are the best so far, of step {trainer.best_step:,}"
        )
        self._report(trainer.report(self.timetable.pace.step_seconds, note=note), time.monotonic(), is_important=True)
        return True

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
            "go on with the same settings and resume=True"
        )

    def _calmer(self) -> str:
        """What keeps a loss from growing without end, of the settings that this run heeds."""
        if self.job.calmer is not None:
            return self.job.calmer
        rates = "learning_rate and matrix_learning_rate" if self.trainer.optimisers.has_muon else "learning_rate"
        clip = min(0.5, self.training.clip / 2) or 0.5
        return f"a lower {rates}, a longer warm_up (now {self.trainer.warm_up}), or clip={clip:g}"

    def _how_to_go_on(self) -> str:
        """After a loss that is no number: the same settings would end in the same place."""
        if self.checkpoints is None:
            return ""
        if not self.saved_at:
            return ". There is no checkpoint yet; begin anew with these settings"
        return (
            f". The checkpoint of step {self.saved_at:,} in {self.run.folder} is whole, but resume=True keeps the "
            "settings and would come to the same; begin anew with these and overwrite=True"
        )

    def _finish(self) -> tuple[N, dict[str, Any]]:
        trainer, network = self.trainer, self.network
        if trainer.best_weights is not None:
            network.load_state_dict(trainer.best_weights)
        elif trainer.average is not None:
            trainer.average.swap()
        network.eval()
        validation = self._last_validation()
        network.cpu()
        machine, recipe = self.setup.machine, self.setup.recipe
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
            "run_seconds": self.timetable.elapsed,
        }
        return network, record | ({} if validation is None else {"validation": validation})

    def _last_validation(self) -> dict[str, Any] | None:
        """The best weights on all of the text, or as much of it as the minutes have time for; for the record."""
        trainer, objective, whole = self.trainer, self.objective, self.objective.validation_tokens
        if trainer.best_weights is None or not whole:
            return None
        sample = self.timetable.sample()
        validated, tokens = trainer.best_validated, whole
        if sample < whole or validated is None:
            tokens = self.timetable.final_sample()
            validated = objective.validated(tokens)
        return {
            "loss": validated.loss,
            "step": trainer.best_step,
            "tokens": validated.predictions,
            "read_tokens": tokens,
            "text_tokens": whole,
            "while_learning": {"loss": trainer.best, "read_tokens": sample},
            "unigram_loss": objective.unigram_loss(),
            **validated.figures,
        }


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


def _does_not_fit(where: str, job: TrainingJob[N], run: TrainingRun) -> str:
    is_kept = run.folder is not None and Checkpoints(run.folder / FOLDER).exist()
    kept = " The last checkpoint is whole." if is_kept else ""
    return (
        f"the memory of {where} does not hold a step of {job.step}; raise accumulate (now {job.training.accumulate}), "
        f"or lower {job.smaller}.{kept}"
    )
