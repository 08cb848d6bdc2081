"""When a run validates and when it ends: the steps that fit its minutes, by the speed measured so far."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from chainrule.training.plan import FINAL_SHARE, KEPT_PLAN, LEARNING_SHARE, Layout, layout
from chainrule.training.speed import Pace

if TYPE_CHECKING:
    from chainrule.training.checkpoint import RunProgress
    from chainrule.training.job import Setup
    from chainrule.training.trainer import Trainer


class Timetable:
    """The plan of one run, adjusted as it proceeds. All processes follow the first one's.

    layout: None until the number of steps is known. plans: how often the clock has set that number. save_seconds: of
    the last checkpoint. notes: for users, until they are reported.
    """

    def __init__(self, trainer: Trainer, setup: Setup, resumed: RunProgress | None, began: float) -> None:
        """began: when this process started the run, by the monotonic clock."""
        self.trainer, self.objective, self.setup, self.training = trainer, trainer.objective, setup, setup.training
        self.budget = None if self.training.minutes is None else 60 * self.training.minutes  # seconds
        self.layout: Layout | None = None
        self.plans, self.save_seconds, token_seconds = 0, 0.0, None
        self.notes: list[str] = []
        self.began = began
        if resumed is not None:
            self.began -= resumed.elapsed
            self.plans, token_seconds = resumed.plans, resumed.token_seconds
            if resumed.every is not None and resumed.sample is not None:
                self.layout = Layout(resumed.every, resumed.sample)
        self.pace = Pace(trainer.step, trainer.seconds, self.budget, token_seconds)
        if trainer.steps is not None and self.layout is None:
            self._lay_out(trainer.steps)

    @property
    def elapsed(self) -> float:
        """Seconds of the whole run, including those before it was resumed."""
        return time.monotonic() - self.began

    def step_done(self) -> bool:
        """Records a step; True if the number of steps changed, as it may if the budget is in minutes.

        It is set once the speed is known, and again if the speed changes so much that the run would end early or late.
        """
        self.pace.stepped(self.trainer.step, self.trainer.seconds)
        if self.budget is None:
            return False
        before = -1 if self.trainer.steps is None else self.trainer.steps
        steps = int(self.setup.processes.broadcast(float(self._steps_in_time())))
        if steps == before:
            return False
        self.trainer.steps, self.plans = steps, self.plans + 1
        if self.layout is None:
            self._lay_out(steps)
        return True

    def validation_is_due(self) -> bool:
        every = self.training.validate_every or (None if self.layout is None else self.layout.every)
        step = self.trainer.step
        return self.objective.validation_tokens > 0 and (
            self.trainer.is_over or (every is not None and step % every == 0)
        )

    def validated(self, tokens: int, seconds: float) -> None:
        """Records a validation; validates less often from now on if all validations would take too large a share."""
        self.pace.validated(tokens, seconds)
        if self.budget is None or self.layout is None or self.training.validate_every is not None:
            return
        every, sample = self.layout
        times = (self.trainer.steps or 0) // every
        too_long = times * self._validation_seconds(sample) / (LEARNING_SHARE * self.budget)
        every = int(self.setup.processes.broadcast(float(every * max(1, math.ceil(too_long - 0.1)))))
        self.layout = Layout(every, sample)

    def sample(self) -> int:
        """Tokens in a validation; until the number of steps is known, as for a run that ends here."""
        return self.layout.sample if self.layout is not None else self._layout_of(self.trainer.step).sample

    def final_sample(self) -> int:
        """Tokens in the last validation: the whole text, or as much of it as fits the minutes."""
        sample, whole = self.sample(), self.objective.validation_tokens
        share = self._final_seconds(sample) / max(1e-9, self._validation_seconds(whole))
        tokens = whole if sample >= whole or self.budget is None else max(sample, min(whole, round(share * whole)))
        return int(self.setup.processes.broadcast(float(tokens)))

    def seconds_left(self) -> float | None:
        """Until the run ends; None if that is not known."""
        steps = self.trainer.steps
        if steps is None or self.pace.step_seconds is None:
            return None if self.budget is None else max(0.0, self.budget - self.elapsed)
        return (steps - self.trainer.step) * self.pace.step_seconds + self._seconds_between(steps)

    def _steps_in_time(self) -> int:
        """Steps that fit the minutes; the planned number if that is close enough; -1 if it is not known yet."""
        trainer, pace, budget = self.trainer, self.pace, self.budget
        before = -1 if trainer.steps is None else trainer.steps
        if budget is None or not pace.is_known(self.elapsed) or trainer.is_over:
            return before
        assert pace.step_seconds is not None
        left = budget - self.elapsed
        steps = trainer.step + max(0, int(left / pace.step_seconds))
        steps -= min(steps - trainer.step, int(self._seconds_between(steps) / pace.step_seconds))
        missed = abs(steps - before) * pace.step_seconds
        return before if before >= 0 and missed <= KEPT_PLAN * budget else steps

    def _lay_out(self, steps: int) -> None:
        """Plans validation, once the number of steps is known."""
        self.layout = self._layout_of(steps)
        whole = self.objective.validation_tokens
        if self.layout.sample < whole:
            self.notes.append(
                f"validation during training reads {self.layout.sample:,} of {whole:,} tokens; the last one reads "
                f"{'all' if self.budget is None else 'as many as fit the minutes'}"
            )

    def _layout_of(self, steps: int) -> Layout:
        return layout(self.training, steps, self.objective.tokens(steps), self.objective.validation_tokens)

    def _seconds_between(self, steps: int) -> float:
        """Seconds of the validation and the checkpoints that remain in a run of `steps` steps."""
        done, (every, sample) = self.trainer.step, self.layout or self._layout_of(steps)
        if not self.objective.validation_tokens:
            return self.save_seconds
        times = -(-steps // every) - done // every
        return times * (self._validation_seconds(sample) + self.save_seconds) + self._final_seconds(sample)

    def _final_seconds(self, sample: int) -> float:
        """Seconds of the last validation; 0 if every sample is the whole text."""
        whole = self.objective.validation_tokens
        if sample >= whole:
            return 0.0
        seconds = self._validation_seconds(whole)
        return seconds if self.budget is None else min(seconds, FINAL_SHARE * self.budget)

    def _validation_seconds(self, tokens: int) -> float:
        return self.pace.validation_seconds(tokens, self.objective.tokens(1))
