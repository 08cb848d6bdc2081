"""A whole run: from ids and settings to a trained network, with checkpoints in a folder, from the start or resumed."""

from __future__ import annotations

import math
import signal
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic

import torch

from chainrule.errors import EstimationError, OutputError, SettingError
from chainrule.neural.config import TWO_SIDED
from chainrule.storage.model_folder import check_target
from chainrule.training.checkpoint import FOLDER, Checkpoints
from chainrule.training.config import settings_of as training_settings
from chainrule.training.fitting import rows_for
from chainrule.training.interruptions import interruptions
from chainrule.training.machine import Machine, held_in_memory, machine_for, peak
from chainrule.training.masked import two_sided
from chainrule.training.next_token import next_token
from chainrule.training.objective import N, Task
from chainrule.training.pace import Pace
from chainrule.training.plan import FINAL_SHARE, KEPT_PLAN, LEARNING_SHARE, Layout, layout
from chainrule.training.processes import Processes, ended, started_here
from chainrule.training.reports import Log, Report
from chainrule.training.resume_check import differences, text_differences
from chainrule.training.trainer import Trainer

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.network import Network
    from chainrule.training.checkpoint import Opened, Progressed
    from chainrule.training.job import Run
    from chainrule.training.objective import Problem

_SECONDS_BETWEEN_CHECKPOINTS, _SECONDS_BETWEEN_REPORTS = 60.0, 2.0
_SAVING_SHARE = 0.02  # of the time, for checkpoints


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
            if folder is not None:  # again, now that no other run can save a model there
                check_target(folder, overwrite=run.overwrite or (run.resume and Checkpoints(folder / FOLDER).exist()))
            return _Running(problem, run, processes).trained()
    finally:
        ended()


class _Running(Generic[N]):
    """One run."""

    def __init__(self, problem: Problem[N], run: Run, processes: Processes) -> None:
        training = problem.training
        self.run, self.training, self.processes = run, training, processes
        self.keeps_best, self.calmer = problem.keeps_best, problem.calmer
        self.checkpoints = None if run.folder is None else Checkpoints(run.folder / FOLDER)
        resumed = self._opened()
        machine = machine_for(training)
        if resumed is not None:
            machine = _kept(machine, resumed.entry.machine)
        began = time.monotonic()
        torch.manual_seed(training.seed)
        self.network = problem.build().to(machine.device)
        self.settings = {
            "network": problem.network,
            "training": training_settings(training),
            "text": problem.text,
        }
        matrices = problem.matrices(self.network)
        notes = [note for note in (problem.note, machine.note(self.network)) if note is not None]
        self.task = Task(training, problem.recipe, machine, processes)
        self.objective = problem.objective(self.network, self.task)
        batch: int | None = problem.recipe.batch
        if resumed is not None:
            batch = resumed.entry.progress.batch
        elif training.batch is None and training.minutes is not None:
            batch = rows_for(problem, self.network, self.task, self.objective, matrices, 60 * training.minutes)
        if batch is not None and batch != problem.recipe.batch:
            if resumed is None:
                notes.append(
                    f"the batch is {batch}, not {problem.recipe.batch}, so that {training.minutes:g} minutes of this "
                    "machine are more steps"
                )
            self.task = replace(self.task, recipe=replace(problem.recipe, batch=batch))
            self.objective = problem.objective(self.network, self.task)
        self.trainer = Trainer(self.network, matrices, self.objective, self.task, peak(machine))
        self.layout: Layout | None = None
        self.plans = 0
        if processes.number > 1 and resumed is None:  # the same weights everywhere; other random numbers in each
            torch.manual_seed(training.seed + processes.rank)
        self.resumed_at = 0
        self.notes = notes  # for the next report
        log_bytes, elapsed, token_seconds = 0, 0.0, None
        if resumed is not None:
            self._check_same(resumed.entry.run)
            self._load(resumed)
            self.resumed_at, log_bytes = self.trainer.step, resumed.entry.progress.log_bytes
            elapsed, token_seconds = resumed.entry.progress.elapsed, resumed.entry.progress.token_seconds
        folder = run.folder if processes.is_first else None
        self.log = Log(folder, tensorboard=training.tensorboard, keep=log_bytes, step=self.resumed_at)
        self.saved_at, self.saved_time, self.save_seconds = self.trainer.step, time.monotonic(), 0.0
        self.reported_time = 0.0
        self.began = began - elapsed
        self.pace = Pace(self.trainer.step, self.trainer.seconds, self._budget, token_seconds)
        if self.trainer.steps is not None and self.layout is None:
            self._lay_out()

    @property
    def _budget(self) -> float | None:
        """Seconds."""
        return None if self.training.minutes is None else 60 * self.training.minutes

    @property
    def _elapsed(self) -> float:
        """Seconds of all that has been done in this run, before it was resumed, too."""
        return time.monotonic() - self.began

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
            self._load_plan(progress)
            return
        assert resumed.best is not None
        self.trainer.load_best(progress, resumed.best)
        self._load_plan(progress)
        self.notes.append(
            f"{resumed.damage}; the best weights, of step {progress.best_step:,}, are whole, so the run goes on from "
            f"there, not from step {progress.step:,}, and its optimiser begins anew"
        )

    def _load_plan(self, progress: Progressed) -> None:
        self.plans = progress.plans
        if progress.every is not None and progress.sample is not None:
            self.layout = Layout(progress.every, progress.sample)

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
        for note in self.notes:
            self.log.line({"event": "note", "note": note})
        if machine.compiled:
            self._compile()
        try:
            with interruptions() as interruption:
                while not trainer.is_over:
                    trainer.run(1)
                    self.pace.stepped(trainer.step, trainer.seconds)
                    self._plan()
                    self._between(trainer.step)
                    number = int(self.processes.agreed(float(interruption.signal)))
                    if number and not self._ends_with_best(number):
                        self._stop()
                    if number:
                        break
        except EstimationError as error:
            raise EstimationError(f"{error}; try {self._calmer()}{self._how_to_go_on()}") from error
        finally:
            self.log.close()
        return self._finished()

    def _plan(self) -> None:
        """Where the budget is in minutes: how many steps there are, once their speed is known, and again where it has
        changed so much that the run would end early or late.
        """
        if self._budget is None:
            return
        before = -1 if self.trainer.steps is None else self.trainer.steps
        steps = int(self.processes.agreed(float(self._steps_in_time())))
        if steps == before:
            return
        self.trainer.steps, self.plans = steps, self.plans + 1
        if self.layout is None:
            self._lay_out()
        self.log.line({"event": "planned", "step": self.trainer.step, "steps": steps})

    def _steps_in_time(self) -> int:
        """As many as the minutes have time for; as many as planned, where these miss them by little; -1: not known."""
        trainer, pace, budget = self.trainer, self.pace, self._budget
        before = -1 if trainer.steps is None else trainer.steps
        if budget is None or not pace.is_known(self._elapsed) or trainer.is_over:
            return before
        assert pace.step_seconds is not None
        left = budget - self._elapsed
        steps = trainer.step + max(0, int(left / pace.step_seconds))
        steps -= min(steps - trainer.step, int(self._seconds_between(steps) / pace.step_seconds))
        missed = abs(steps - before) * pace.step_seconds
        return before if before >= 0 and missed <= KEPT_PLAN * budget else steps

    def _lay_out(self) -> None:
        """Validation, once the steps are known."""
        steps = self.trainer.steps
        assert steps is not None
        self.layout = self._layout_of(steps)
        whole = self.objective.validation_tokens
        if self.layout.sample < whole:
            self.notes.append(
                f"validated on {self.layout.sample:,} of {whole:,} tokens while it learns, at the end on "
                f"{'all' if self._budget is None else 'as many as a little of the minutes allows'}"
            )

    def _layout_of(self, steps: int) -> Layout:
        return layout(self.training, steps, self.objective.tokens(steps), self.objective.validation_tokens)

    def _seconds_between(self, steps: int) -> float:
        """What is still to be done beside so many steps in all: validation, the last of it, and checkpoints."""
        done, (every, sample) = self.trainer.step, self.layout or self._layout_of(steps)
        if not self.objective.validation_tokens:
            return self.save_seconds
        times = -(-steps // every) - done // every
        return times * (self._validation_seconds(sample) + self.save_seconds) + self._final_seconds(sample)

    def _final_seconds(self, sample: int) -> float:
        """Of the last validation, which need not be where a sample is all of the text."""
        whole = self.objective.validation_tokens
        if sample >= whole:
            return 0.0
        seconds = self._validation_seconds(whole)
        return seconds if self._budget is None else min(seconds, FINAL_SHARE * self._budget)

    def _validation_seconds(self, tokens: int) -> float:
        return self.pace.validation_seconds(tokens, self.objective.tokens(1))

    def _seconds_left(self) -> float | None:
        """Until the run ends."""
        steps = self.trainer.steps
        if steps is None or self.pace.step_seconds is None:
            return None if self._budget is None else max(0.0, self._budget - self._elapsed)
        return (steps - self.trainer.step) * self.pace.step_seconds + self._seconds_between(steps)

    def _between(self, step: int) -> None:
        """What is due after a step: validation, a checkpoint, a report."""
        trainer, training = self.trainer, self.training
        trainer_is_over = trainer.is_over
        every = training.validate_every or (None if self.layout is None else self.layout.every)
        is_due = trainer_is_over or (every is not None and step % every == 0)
        more: dict[str, Any] = {}
        if is_due and self.objective.validation_tokens:
            began, sample = time.monotonic(), self._sample()
            found, is_best = trainer.validate(sample)
            self.pace.validated(sample, time.monotonic() - began)
            self._validate_less()
            reported: dict[str, Any] = {
                name: found.figures[name] for name in ("bits_per_byte", "accuracy") if name in found.figures
            }
            more = {"valid_loss": found.loss, **reported, "is_best": is_best}
        now = time.monotonic()
        log_every = 1 if (trainer.steps or 0) <= 200 and self.training.minutes is None else 10
        is_time = step % log_every == 0 or now - self.reported_time > _SECONDS_BETWEEN_REPORTS
        wants_report = bool(more) or bool(self.notes) or trainer_is_over or is_time
        saves = self.checkpoints is not None and (
            step % training.save_every == 0
            if training.save_every
            else bool(self.processes.agreed(trainer_is_over or self._is_time_to_save(now, is_validated=bool(more))))
        )
        if wants_report:
            trainer.look()
            note, self.notes = "; ".join(self.notes) or None, []
            is_important = bool(more) or note is not None or trainer_is_over
            report = trainer.report(
                self.pace.step_seconds, **more, seconds_left=self._seconds_left(), note=note, saved=saves
            )
            self._tell(report, now, is_important)
        if saves:
            self._save(is_new_best=bool(more.get("is_best")))

    def _validate_less(self) -> None:
        """Less often, where a validation took so long that all of them would take more of the minutes than they may."""
        if self._budget is None or self.layout is None or self.training.validate_every is not None:
            return
        every, sample = self.layout
        times = (self.trainer.steps or 0) // every
        too_long = times * self._validation_seconds(sample) / (LEARNING_SHARE * self._budget)
        every = int(self.processes.agreed(float(every * max(1, math.ceil(too_long - 0.1)))))
        self.layout = Layout(every, sample)

    def _sample(self) -> int:
        """Tokens of a validation; before the steps are known, as few as of a short run."""
        return self.layout.sample if self.layout is not None else self._layout_of(self.trainer.step).sample

    def _is_time_to_save(self, now: float, *, is_validated: bool) -> bool:
        since = now - self.saved_time
        wanted = is_validated or since > _SECONDS_BETWEEN_CHECKPOINTS
        return wanted and self.save_seconds <= _SAVING_SHARE * since

    def _tell(self, report: Report, now: float, is_important: bool) -> None:
        self.log.report(report)
        if self.processes.is_first and (is_important or now - self.reported_time > _SECONDS_BETWEEN_REPORTS):
            self.reported_time = now
            self.run.told(report)

    def _save(self, *, is_new_best: bool = False) -> None:
        trainer, began = self.trainer, time.monotonic()
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
                trainer.progress(
                    batch=self.task.recipe.batch,
                    every=None if self.layout is None else self.layout.every,
                    sample=None if self.layout is None else self.layout.sample,
                    token_seconds=self.pace.token_seconds,
                    plans=self.plans,
                    elapsed=self._elapsed,
                    log_bytes=self.log.bytes,
                ),
                arrays,
                None if best is None or is_best_known else {n: each.cpu().numpy() for n, each in best.items()},
            )
        self.saved_at, self.saved_time = trainer.step, time.monotonic()
        self.save_seconds = self.saved_time - began

    def _ends_with_best(self, number: int) -> bool:
        """Whether a signal ends the run as if its budget were spent; then this is noted."""
        trainer = self.trainer
        if number != signal.SIGINT or not self.keeps_best or trainer.best_weights is None or trainer.is_over:
            return False
        self.log.line({"event": "interrupted", "step": trainer.step})
        note = (
            f"interrupted after step {trainer.step:,}; the weights are the best so far, of step {trainer.best_step:,}"
        )
        self._tell(trainer.report(self.pace.step_seconds, note=note), time.monotonic(), is_important=True)
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
            "go on with the same command and --resume"
        )

    def _calmer(self) -> str:
        """What keeps a loss from growing without end, of the settings that this run heeds."""
        if self.calmer is not None:
            return self.calmer
        rates = "learning_rate and matrix_learning_rate" if self.trainer.optimisers.has_muon else "learning_rate"
        clip = min(0.5, self.training.clip / 2) or 0.5
        return f"a lower {rates}, a longer warm_up (now {self.trainer.warm_up}), or clip={clip:g}"

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
                self.notes.append(f"torch.compile failed, so the network goes on as it is: {because}")
                trainer.forward = trainer.network
                return trainer.network(*given)

        trainer.forward = forward

    def _finished(self) -> tuple[N, dict[str, Any]]:
        trainer, network = self.trainer, self.network
        if trainer.best_weights is not None:
            network.load_state_dict(trainer.best_weights)
        elif trainer.average is not None:
            trainer.average.swap()
        network.eval()
        validation = self._last_validation()
        network.cpu()
        machine, recipe = self.task.machine, self.task.recipe
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
        record["run_seconds"] = self._elapsed
        return network, record | ({} if validation is None else {"validation": validation})

    def _last_validation(self) -> dict[str, Any] | None:
        """The best weights on all of the text, or as much of it as the minutes have time for; for the record."""
        trainer, objective, whole = self.trainer, self.objective, self.objective.validation_tokens
        if trainer.best_weights is None or not whole:
            return None
        sample = self._sample()
        found, read = trainer.best_found, whole
        if sample < whole or found is None:
            share = self._final_seconds(sample) / max(1e-9, self._validation_seconds(whole))
            read = whole if sample >= whole or self._budget is None else max(sample, min(whole, round(share * whole)))
            read = int(self.processes.agreed(float(read)))
            found = objective.validated(read)
        return {
            "loss": found.loss,
            "step": trainer.best_step,
            "tokens": found.predictions,
            "read_tokens": read,
            "text_tokens": whole,
            "while_learning": {"loss": trainer.best, "read_tokens": sample},
            "unigram_loss": objective.unigram_loss(),
            **found.figures,
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


def _does_not_fit(where: str, problem: Problem[N], run: Run) -> str:
    is_kept = run.folder is not None and Checkpoints(run.folder / FOLDER).exist()
    kept = " The last checkpoint is whole." if is_kept else ""
    return (
        f"the memory of {where} does not hold a step of {problem.step}; raise accumulate "
        f"(now {problem.training.accumulate}), or lower {problem.smaller}.{kept}"
    )
