"""When a run validates and when it ends: how many steps its minutes have time for, by the speed of those so far."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from chainrule.training.plan import FINAL_SHARE, KEPT_PLAN, LEARNING_SHARE, Layout, layout
from chainrule.training.speed import Pace

if TYPE_CHECKING:
    from chainrule.training.checkpoint import Progressed
    from chainrule.training.job import Setup
    from chainrule.training.trainer import Trainer


class Timetable:
    """The plan of one run, which changes while it goes on. All processes keep the first one's.

    layout: steps between validations, and the tokens of each; None until the number of steps is known. plans: how often
    that number was set by the clock. save_seconds: what the last checkpoint took. notes: for people, taken by whoever
    shows them.
    """

    def __init__(self, trainer: Trainer, setup: Setup, resumed: Progressed | None, began: float) -> None:
        """trainer: with its steps so far. began: when this process began with the run, by the monotonic clock."""
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
        """Seconds of all that has been done in this run, also before it was resumed."""
        return time.monotonic() - self.began

    def step_done(self) -> bool:
        """Notes a step; whether the number of steps changed, which happens where the budget is in minutes.

        It is set once their speed is known, and again where that has changed so much that the run would end early or
        late.
        """
        self.pace.stepped(self.trainer.step, self.trainer.seconds)
        if self.budget is None:
            return False
        before = -1 if self.trainer.steps is None else self.trainer.steps
        steps = int(self.setup.processes.agreed(float(self._steps_in_time())))
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
        """Notes a validation. It is done less often where all of them would take more of the minutes than they may."""
        self.pace.validated(tokens, seconds)
        if self.budget is None or self.layout is None or self.training.validate_every is not None:
            return
        every, sample = self.layout
        times = (self.trainer.steps or 0) // every
        too_long = times * self._validation_seconds(sample) / (LEARNING_SHARE * self.budget)
        every = int(self.setup.processes.agreed(float(every * max(1, math.ceil(too_long - 0.1)))))
        self.layout = Layout(every, sample)

    def sample(self) -> int:
        """Tokens of a validation; before the steps are known, as few as of a short run."""
        return self.layout.sample if self.layout is not None else self._layout_of(self.trainer.step).sample

    def final_sample(self) -> int:
        """Tokens of the last validation: the whole text, or as much of it as the minutes have time for."""
        sample, whole = self.sample(), self.objective.validation_tokens
        share = self._final_seconds(sample) / max(1e-9, self._validation_seconds(whole))
        tokens = whole if sample >= whole or self.budget is None else max(sample, min(whole, round(share * whole)))
        return int(self.setup.processes.agreed(float(tokens)))

    def seconds_left(self) -> float | None:
        """Until the run ends; None while that is not known."""
        steps = self.trainer.steps
        if steps is None or self.pace.step_seconds is None:
            return None if self.budget is None else max(0.0, self.budget - self.elapsed)
        return (steps - self.trainer.step) * self.pace.step_seconds + self._seconds_between(steps)

    def _steps_in_time(self) -> int:
        """As many as the minutes have time for; as many as planned, where these miss them by little; -1: not known."""
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
        """Validation, once the steps are known."""
        self.layout = self._layout_of(steps)
        whole = self.objective.validation_tokens
        if self.layout.sample < whole:
            self.notes.append(
                f"validated on {self.layout.sample:,} of {whole:,} tokens while it learns, at the end on "
                f"{'all' if self.budget is None else 'as many as a little of the minutes allows'}"
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
        return seconds if self.budget is None else min(seconds, FINAL_SHARE * self.budget)

    def _validation_seconds(self, tokens: int) -> float:
        return self.pace.validation_seconds(tokens, self.objective.tokens(1))
