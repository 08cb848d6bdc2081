"""A whole run, new or resumed: from a job to a trained network, with checkpoints in a folder and a record of the run.

The last validation and the record, which is kept with the model, end a run.
"""

from __future__ import annotations

import signal
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic

import torch

from chainrule.errors import EstimationError, SettingError
from chainrule.neural.adapters import load_learned_state
from chainrule.neural.quantization import rounds_activations
from chainrule.storage.model_folder import check_target
from chainrule.training.checkpoint import FOLDER, Checkpoints, check_same, open_checkpoint
from chainrule.training.config import TrainingRun, settings_of
from chainrule.training.defaults import settings_left_open, with_context_in_text
from chainrule.training.device import (
    Machine,
    compile_or_fall_back,
    explain_out_of_memory,
    keep_activations,
    machine_for,
    peak_speed,
    recompute_activations,
)
from chainrule.training.distributed import Processes, join_processes, leave_processes
from chainrule.training.job import N, Setup, StreamOptions
from chainrule.training.objectives.masked import two_sided_job
from chainrule.training.objectives.next_sentence import next_sentence_job
from chainrule.training.objectives.next_token import next_token_job
from chainrule.training.objectives.residual import Residual, residual_job
from chainrule.training.reports import REPORTED_FIGURES, Log, Report, interruptions
from chainrule.training.sizes import ChosenSize, OtherSize, SpeedCheck, choose_batch, with_size
from chainrule.training.timetable import SAVING_SHARE, Timetable, time_left
from chainrule.training.trainer import Trainer

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.network import Network
    from chainrule.training.checkpoint import DataFolder, OpenedCheckpoint, RunProgress
    from chainrule.training.job import TrainingJob
    from chainrule.training.sizes import MakeJob


def validate_finally(trainer: Trainer, timetable: Timetable, before: dict[str, Any] | None) -> dict[str, Any] | None:
    """Validate the best weights on the whole text, or as much of it as fits the minutes; None without validation.

    The network must have its best weights, and be in evaluation mode. before: the validation before the first step.
    """
    objective, whole = trainer.objective, trainer.objective.validation_tokens
    if trainer.best_weights is None or not whole:
        return None
    sample = timetable.sample()
    validated, tokens = trainer.best_validated, whole
    if sample < whole or validated is None:
        tokens = timetable.final_sample()
        validated = objective.validate(tokens)
    return {
        "loss": validated.loss,
        "step": trainer.best_step,
        "tokens": validated.predictions,
        "read_tokens": tokens if validated.read is None else validated.read,
        "text_tokens": whole,
        "while_learning": {
            "loss": trainer.best if validated.criterion is None else validated.loss,
            "read_tokens": sample,
        },
        **({} if before is None else {"before_learning": before}),
        "unigram_loss": objective.unigram_loss(),
        **validated.figures,
    }


_SECONDS_BETWEEN_CHECKPOINTS, _SECONDS_BETWEEN_REPORTS = 60.0, 2.0
_SHORT_RUN = 200  # steps, each of which is logged


def train_network(
    stream: Int32[ndarray, " tokens"],
    vocabulary_size: int,
    config: NetworkConfig,
    options: StreamOptions | None = None,
    run: TrainingRun | None = None,
) -> tuple[Network, dict[str, Any]]:
    """Train a network of any family on a stream; return and raise as `run_job`, and raise TextError."""
    options, run = options or StreamOptions(), run or TrainingRun()
    make_job: MakeJob = next_token_job
    if options.known is not None:
        make_job = residual_job
    elif config.predicts_next_sentence:
        make_job = next_sentence_job
    elif config.is_bidirectional:
        make_job = two_sided_job
    run = run if run.began is not None else replace(run, began=time.monotonic())
    is_open = options.start is None and "context" in settings_left_open(config, options.training)
    of_noise = [
        name
        for name in ("noise_samples", "noise_power")
        if options.start is None and getattr(config, name) != getattr(type(config), name)
    ]

    def train(size: ChosenSize) -> tuple[Network, dict[str, Any]]:
        config, notes = size.config, size.notes
        if of_noise and config.output not in ("sampled", "nce"):
            raise SettingError(
                f"{of_noise[0]} is for an output of sampled or nce, and this one is {config.output}; leave it out"
            )
        if is_open:
            config, own = with_context_in_text(config, options.training, stream.size)
            notes += own
        job = make_job(stream, vocabulary_size, config, options)
        return run_job(replace(job, notes=(*notes, *job.notes)), run, size.check)

    other: ChosenSize | None = None
    try:
        network, record = train(with_size(make_job, stream, vocabulary_size, config, options, run))
    except OtherSize as exception:
        other = exception.chosen
    if other is not None:  # outside of the handler, where the first network is no longer in memory
        if run.folder is not None:
            Checkpoints(run.folder / FOLDER).remove()
        network, record = train(other)
    if isinstance(network, Residual):
        return network.network, {**record, "residual_weight": network.weight}
    output = network.config.output  # of the training
    network.end_sampling()
    return network, record if network.config.output == output else {**record, "output": output}


def run_job(job: TrainingJob[N], run: TrainingRun, check: SpeedCheck | None = None) -> tuple[N, dict[str, Any]]:
    """Train a network; return it with its record: the best weights, in evaluation mode, on the CPU.

    check: of the speed, which may raise OtherSize.
    Raises SettingError if a device is missing or a step does not fit into memory; EstimationError if the loss is not
    finite; OutputError, ModelFormatError; KeyboardInterrupt after a checkpoint if the run was interrupted.
    """
    processes = join_processes()
    folder = run.folder if processes.is_first else None
    try:
        with (
            explain_out_of_memory(lambda device: _out_of_memory(device, job, run)),
            nullcontext() if folder is None else Checkpoints(folder / FOLDER).lock(),
        ):
            if folder is not None:  # checked again: now no other run can save a model there
                check_target(folder, overwrite=run.overwrite or (run.resume and Checkpoints(folder / FOLDER).exist()))
            return _RunningJob(job, run, processes).train(check)
    finally:
        leave_processes()


class _RunningJob(Generic[N]):
    """A job in progress: training steps, and validation, reports and checkpoints between them."""

    def __init__(self, job: TrainingJob[N], run: TrainingRun, processes: Processes) -> None:
        training = job.training
        self.job, self.run, self.training, self.processes = job, run, training, processes
        self.checkpoints = None if run.folder is None else Checkpoints(run.folder / FOLDER)
        resumed = open_checkpoint(self.checkpoints, run)
        progress = None if resumed is None else resumed.entry.progress
        machine = machine_for(training)
        if resumed is not None:
            machine = _as_before(machine, resumed.entry.machine)
        self.part_began = time.monotonic() if run.began is None else run.began
        began = self.part_began if resumed is None else time.monotonic()
        self.earlier_seconds = None if progress is None else progress.total_seconds or progress.elapsed
        torch.manual_seed(training.seed)
        self.network = self._built(machine)
        asked = settings_of(job.run_config or training)
        self.settings = {"network": job.network, "training": asked, "text": job.text}
        self.notes = [*(() if resumed is not None else job.notes), *machine.notes(self.network)]  # for the next report
        processes = self.processes
        self.trainer = self._trainer(Setup(training, job.recipe, machine, processes), progress)
        self.setup, self.objective = self.trainer.setup, self.trainer.objective
        if processes.number > 1 and resumed is None:  # the same weights, but other random numbers
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
        self.before = None if progress is None else progress.before
        self.saved_at, self.saved_time, self.reported_time = self.trainer.step, time.monotonic(), 0.0

    def _built(self, machine: Machine) -> N:
        """Return the network on its device; of processes that share it out, this one's share. Raises SettingError."""
        training, blocks = self.training, self.job.blocks
        if (training.shard or training.recompute) and blocks is None:
            name = "shard" if training.shard else "recompute"
            raise SettingError(f"{name} is for Transformers, which consist of equal blocks; leave it out")
        network = self.job.build()
        if machine.device.type != "cpu" and rounds_activations(network):
            raise SettingError(
                f"weights in blocks are multiplied on processors only, and the device is {machine.device}; set "
                "device=cpu, or open the model with exact (--exact)"
            )
        if training.recompute and blocks is not None:
            recompute_activations(blocks(network))
        if not training.shard or self.processes.number == 1:
            return network.to(machine.device)
        if training.compile == "yes":
            raise SettingError("a network that is shared out (shard) cannot be compiled; leave compile out")
        from chainrule.training.distributed import Sharding, check_packages

        check_packages()
        sharding = Sharding.among(self.processes.rank, self.processes.number, machine.device)
        assert blocks is not None
        sharding.shard(network, blocks(network))
        self.processes = replace(self.processes, sharding=sharding)
        return network

    def _trainer(self, setup: Setup, progress: RunProgress | None) -> Trainer:
        """Return a trainer whose batch is that of the resumed run, or one that fits the minutes."""
        job, training, recipe = self.job, self.training, self.job.recipe
        objective, matrices = job.objective(self.network, setup), job.matrices(self.network)
        batch: int | None = recipe.batch
        if progress is not None:
            batch = progress.batch
        elif training.batch is None and training.minutes is not None and setup.processes.sharding is None:
            budget = time_left(60 * training.minutes, time.monotonic() - self.part_began)
            batch = choose_batch(job, self.network, setup, objective, matrices, budget)
        if batch is not None and batch != recipe.batch:
            if progress is None:
                self.notes.append(f"the batch is {batch}, not {recipe.batch}, to take more steps in the time given")
            setup = replace(setup, recipe=replace(recipe, batch=batch))
            objective = job.objective(self.network, setup)
        summed = None if job.summed is None else job.summed(self.network)
        return Trainer(self.network, matrices, objective, setup, peak_speed(setup.machine), summed)

    def _load(self, resumed: OpenedCheckpoint) -> None:
        """Restore a checkpoint. Raises SettingError."""
        progress = resumed.entry.progress
        if resumed.last is not None:
            self.trainer.load(progress, resumed.last, resumed.best)
            return
        assert resumed.best is not None
        self.trainer.load_best(progress, resumed.best)
        self.notes += [
            resumed.damage,
            f"the run continues from the best weights, of step {progress.best_step:,}, not from step {progress.step:,}",
            "the optimiser starts afresh",
        ]

    def train(self, check: SpeedCheck | None = None) -> tuple[N, dict[str, Any]]:
        """Run until the budget is spent; return the network and its record. check: as for `run_job`."""
        trainer, machine = self.trainer, self.setup.machine
        self.log.line({"event": "resumed" if self.resumed_at else "begun", "step": trainer.step, **machine.as_json()})
        for note in [*self.notes, *self.timetable.notes]:
            self.log.line({"event": "note", "note": note})
        if machine.compiled:
            trainer.forward = compile_or_fall_back(self.network, self._note_not_compiled)
        if self.job.starts_trained and not trainer.step and self.objective.validation_tokens:
            self.before = self._validate_before()
        try:
            with interruptions() as interruption:
                while not trainer.is_over:
                    trainer.run(1)
                    if check is not None:
                        check.stepped(trainer.tokens, trainer.seconds)
                    if self.timetable.step_done():
                        self.log.line({"event": "planned", "step": trainer.step, "steps": trainer.steps})
                    self._do_what_is_due()
                    signal_number = int(self.processes.broadcast(float(interruption.signal)))
                    if signal_number and not self._ends_with_best(signal_number):
                        self._stop()
                    if signal_number:
                        break
        except EstimationError as error:
            raise EstimationError(f"{error}; try {self._advice_on_divergence()}") from error
        finally:
            self.log.close()
        return self._finish()

    def _note_not_compiled(self, because: str) -> None:
        self.log.line({"event": "not compiled", "because": because})
        self.notes.append(f"torch.compile failed, so the network is not compiled: {because}")

    def _validate_before(self) -> dict[str, Any]:
        """Validate before the first step, on as much text as later; report it, and return the figures."""
        timetable, trainer, few = self.timetable, self.trainer, self.timetable.sample()
        if timetable.layout is None:
            trainer.measure(few)  # which warms up
        began, validated = time.monotonic(), trainer.measure(few)
        timetable.pace.validated(validated.read or few, time.monotonic() - began)
        sample = timetable.set_first_sample()
        validated = trainer.measure(sample) if sample > (validated.read or few) else validated
        reported = {name: validated.figures.get(name) for name in REPORTED_FIGURES}
        note, self.notes = "\n".join(self.notes) or None, []
        report = trainer.report(None, valid_loss=validated.loss, **reported, note=note)
        self._report(report, time.monotonic(), is_important=True)
        return {"loss": validated.loss, "read_tokens": sample, **validated.figures}

    def _do_what_is_due(self) -> None:
        """Do what is due after a step: validation, a checkpoint, a report."""
        trainer, is_over = self.trainer, self.trainer.is_over
        validation = self._validate() if self.timetable.validation_is_due() else {}
        now = time.monotonic()
        if trainer.stops_early:
            self.notes.append(
                f"training ends early: {trainer.since_best} validations in a row were no better than the one after "
                f"step {trainer.best_step:,}"
            )
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
                note="\n".join(notes) or None,
                saved=saves,
            )
            self._report(report, now, is_important=is_important)
        if saves:
            self._save(is_new_best=bool(validation.get("is_best")))

    def _validate(self) -> dict[str, Any]:
        """Validate; return the fields for a report."""
        began, sample = time.monotonic(), self.timetable.sample()
        validated, is_best = self.trainer.validate(sample)
        self.timetable.validated(sample, time.monotonic() - began)
        reported = {name: validated.figures.get(name) for name in REPORTED_FIGURES}
        return {"valid_loss": validated.loss, "valid_tokens": validated.read or sample, **reported, "is_best": is_best}

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
        is_cheap = self.timetable.save_seconds <= SAVING_SHARE * since
        return bool(self.processes.broadcast(float(is_over or (is_wanted and is_cheap))))

    def _report(self, report: Report, now: float, *, is_important: bool) -> None:
        """Send every report to the log, and some to the callback."""
        self.log.report(report)
        if self.processes.is_first and (is_important or now - self.reported_time > _SECONDS_BETWEEN_REPORTS):
            self.reported_time = now
            self.run.on_report(report)

    def _save(self, *, is_new_best: bool = False) -> None:
        if self.checkpoints is None:
            return
        trainer, timetable, began = self.trainer, self.timetable, time.monotonic()
        trainer.fetch_losses()
        last = self._saved("last", trainer.tensors())
        is_saved = not is_new_best and self.checkpoints.has_best(trainer.best_step)
        is_saved = bool(self.processes.broadcast(float(is_saved)))  # only the first process knows
        weights = trainer.best_weights
        best = None if is_saved or weights is None else self._saved("best", weights)
        if self.processes.is_first:
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
                    total_seconds=(self.earlier_seconds or 0.0) + time.monotonic() - self.part_began,
                    log_bytes=self.log.bytes,
                    before=self.before,
                ),
                last,
                best,
            )
        self.saved_at, self.saved_time = trainer.step, time.monotonic()
        timetable.save_seconds = self.saved_time - began

    def _saved(self, kind: str, tensors: dict[str, Tensor]) -> dict[str, ndarray] | DataFolder:
        """Return what `Checkpoints.save` takes: arrays, or the folder where processes have written their shares of
        tensors.
        """
        if self.processes.sharding is None:
            own = tensors if self.processes.is_first else {}
            return {name: tensor.cpu().contiguous().numpy() for name, tensor in own.items()}
        assert self.checkpoints is not None
        return self.checkpoints.write_shards(kind, tensors, self.processes)

    def _ends_with_best(self, signal_number: int) -> bool:
        """Return whether a signal ends the run with the best weights, as if its budget were spent, and report that."""
        trainer = self.trainer
        if signal_number != signal.SIGINT or not self.job.keeps_best or trainer.best_weights is None:
            return False
        if trainer.is_over:
            return True
        self.log.line({"event": "interrupted", "step": trainer.step})
        note = f"interrupted after step {trainer.step:,}; kept the best weights so far, of step {trainer.best_step:,}"
        self._report(trainer.report(self.timetable.pace.step_seconds, note=note), time.monotonic(), is_important=True)
        return True

    def _stop(self) -> None:
        """Save a checkpoint. Raises KeyboardInterrupt that says how to continue."""
        step = self.trainer.step
        if self.checkpoints is None:
            raise KeyboardInterrupt(f"interrupted after step {step:,}; nothing was saved, since no folder was given")
        if self.saved_at != step:
            self._save()
        self.log.line({"event": "interrupted", "step": step})
        raise KeyboardInterrupt(
            f"interrupted after step {step:,}; the run is saved in {self.run.folder}: "
            "continue with the same settings and resume=True"
        )

    def _advice_on_divergence(self) -> str:
        """Say what to do after a loss that is not finite; the same settings would end the same way."""
        divergence_hint = self.job.divergence_hint
        if divergence_hint is None:
            rates = "learning_rate and matrix_learning_rate" if self.trainer.optimisers.has_muon else "learning_rate"
            clip = min(0.5, self.training.clip / 2) or 0.5
            divergence_hint = f"a lower {rates}, a longer warm_up (now {self.trainer.warm_up}), or clip={clip:g}"
        if self.checkpoints is None:
            return divergence_hint
        if not self.saved_at:
            return f"{divergence_hint}. There is no checkpoint yet; start over with these settings"
        return (
            f"{divergence_hint}. The checkpoint of step {self.saved_at:,} in {self.run.folder} is whole, but "
            "resume=True keeps the settings, and would end the same way; start over with these and overwrite=True"
        )

    def _finish(self) -> tuple[N, dict[str, Any]]:
        """Put the best weights, or the average, into the network, and validate it as a whole."""
        trainer, network = self.trainer, self.network
        if trainer.best_weights is not None:
            load_learned_state(network, trainer.best_weights)
        elif trainer.average is not None:
            trainer.average.swap()
        network.eval()
        validation = validate_finally(trainer, self.timetable, self.before)
        record = trainer.record(self.timetable.elapsed, self.earlier_seconds, validation)
        return self._plain().cpu(), record

    def _plain(self) -> N:
        """Return the network as callers know it: whole, and without the changes for training."""
        if self.processes.sharding is not None:
            weights = {
                name: self.processes.sharding.whole(weight).cpu() for name, weight in self.network.state_dict().items()
            }
            network = self.job.build()
            network.load_state_dict(weights)
            return network.eval()
        if self.training.recompute and self.job.blocks is not None:
            keep_activations(self.job.blocks(self.network))
        return self.network


def _as_before(machine: Machine, before: dict[str, Any]) -> Machine:
    """Return the machine, set to compute as the resumed run did, if its device is the same."""
    if machine.device.type != before.get("device"):
        return machine
    return replace(
        machine,
        bfloat16=bool(before.get("bfloat16")),
        quick_bfloat16=bool(before.get("quick_bfloat16")),
        compiled=bool(before.get("compiled")),
    )


def _out_of_memory(device: str, job: TrainingJob[N], run: TrainingRun) -> str:
    is_saved = run.folder is not None and Checkpoints(run.folder / FOLDER).exist()
    kept = " The last checkpoint is whole." if is_saved else ""
    return (
        f"the memory of {device} does not hold a step of {job.step}; raise accumulate (now {job.training.accumulate}), "
        f"or lower {job.memory_hint}.{kept}"
    )
