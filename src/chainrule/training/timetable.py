"""When a run validates, saves and ends: from its settings, and from the measured speed of steps and of validation.

`layout` plans the rows of a step, and how often and on how much text to validate. Nothing here reads the clock:
durations are arguments.
"""

from __future__ import annotations

import math
import sys
import time
from bisect import bisect_left, bisect_right
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from chainrule.training.checkpoint import RunProgress
    from chainrule.training.config import TrainingConfig
    from chainrule.training.job import Objective, Setup
    from chainrule.training.trainer import Trainer

VALIDATIONS, _FEWEST = 10, 3  # per run, by default
LEARNING_SHARE, FINAL_SHARE = 0.02, 0.05  # of the minutes: validation during training, and at the end
_SMALL_SAMPLE, _SMALLEST_SAMPLE = 1024, 64  # tokens, if the budget is in minutes
_STEPS_SAMPLE = 8192  # at least, if the budget is not in minutes
FORWARD_SHARE = 1 / 3  # of the operations of a training step, which also has a backward pass
SAVING_SHARE = 0.02  # of the time, for checkpoints
_LONG_BEFORE = 0.25  # of the minutes; where more has passed before training, users are told
KEPT_PLAN = 0.02  # a plan changes only if it misses the minutes by more than this share
_LEAST_TOKENS = 256  # in a step
_FEW = 1000  # steps, which a run of minutes takes however short its text is
_LEAST_GAIN, _MORE_STEPS = 1.4, 800  # in steps: what halving the batch has to bring, and one more for so many steps


class Layout(NamedTuple):
    """Steps between validations, and the tokens that each one reads."""

    every: int
    sample: int


def layout(training: TrainingConfig, steps: int, tokens: int, text: int) -> Layout:
    """Return when a run validates, and on how much text: a function of its length, not of the machine.

    tokens: of all steps. text: tokens in the validation text. Validation may take a small share of the run's
    operations, which sets the sample's size; a short run with a budget in minutes validates less often.
    """
    allowed = int(LEARNING_SHARE * tokens / FORWARD_SHARE)
    if training.validate_every is not None:
        every = training.validate_every
    else:
        times = VALIDATIONS
        if training.minutes is not None:
            times = min(VALIDATIONS, max(_FEWEST, allowed // min(_SMALL_SAMPLE, max(1, text))))
        every = max(1, steps // times)
    smallest = _STEPS_SAMPLE if training.minutes is None else _SMALLEST_SAMPLE
    sample = training.valid_sample or max(smallest, allowed // max(1, steps // every))
    return Layout(every, min(text, sample))


def time_left(budget: float, passed: float) -> float:
    """Return seconds of a budget that a run has, where so many have passed: half of them at least, however long it took
    to read the text.
    """
    return max(budget / 2, budget - passed)


def batch_choices(rows: int, row_tokens: float, shares: int) -> list[int]:
    """Return batch sizes to choose from: `rows`, halved while it divides evenly into `shares` and has enough tokens."""
    choices = [rows]
    while choices[-1] % (2 * shares) == 0 and choices[-1] // 2 * row_tokens >= _LEAST_TOKENS:
        choices.append(choices[-1] // 2)
    return choices


def choose_rows(choices: list[int], budget: float, row_seconds: float, fixed_seconds: float) -> int:
    """Return the first choice whose half brings too few steps more: the more there are already, the more it has to
    bring.

    budget, row_seconds: seconds, of the run and per row. fixed_seconds: of a step, independent of its rows.
    """
    chosen, *smaller = choices
    for rows in smaller:
        before, seconds = (count * row_seconds + fixed_seconds for count in (chosen, rows))
        if before < (_LEAST_GAIN + budget / before / _MORE_STEPS) * seconds:
            break
        chosen = rows
    return chosen


_SLOW_STEPS = 3  # the first ones, which do not count
_FEW_STEPS = 10
_SHORTEST, _LONGEST = 2.0, 30.0  # seconds of recent steps that are averaged
_SHARE, _LATEST_SHARE = (
    0.05,
    0.15,
)  # of the budget: the speed may be known after the first, and is assumed to be after the second


class Throughput:
    """Seconds per step, and per token of validation."""

    def __init__(self, step: int, seconds: float, budget: float | None, token_seconds: float | None) -> None:
        """Start to measure.

        step, seconds: where the run starts or resumes. budget: seconds for the whole run. token_seconds: seconds per
        token of validation, if they were measured before.
        """
        self._first, self._budget = step, budget
        self._window = _LONGEST if budget is None else min(_LONGEST, max(_SHORTEST, _SHARE * budget))
        self._marks = deque([(step, seconds)])
        self.token_seconds = token_seconds

    def stepped(self, step: int, seconds: float) -> None:
        """Record the time of all steps so far, in seconds."""
        if step <= self._first + _SLOW_STEPS + 1:
            self._marks = deque([self._marks[-1]])
        self._marks.append((step, seconds))
        while len(self._marks) > _FEW_STEPS + 1 and seconds - self._marks[1][1] >= self._window:
            self._marks.popleft()

    def validated(self, tokens: int, seconds: float) -> None:
        self.token_seconds = seconds / max(1, tokens)

    @property
    def step_seconds(self) -> float | None:
        """The mean of recent steps, or the last of the slow first ones if there are no others; None without any."""
        (first, began), (last, ended) = self._marks[0], self._marks[-1]
        return (ended - began) / (last - first) if last > first else None

    def is_known(self, elapsed: float) -> bool:
        """Return whether enough steps were measured to plan the rest of the run."""
        if self._budget is None or self.step_seconds is None:
            return False
        steps, seconds = (last - first for first, last in zip(self._marks[0], self._marks[-1], strict=True))
        is_enough = steps >= _FEW_STEPS and seconds >= min(_LONGEST, _SHARE * self._budget)
        return is_enough or elapsed >= _LATEST_SHARE * self._budget

    def validation_seconds(self, tokens: int, step_tokens: float) -> float:
        """Return seconds to validate on `tokens` tokens. step_tokens: of a training step, for a first estimate."""
        if self.token_seconds is not None:
            return tokens * self.token_seconds
        return tokens * FORWARD_SHARE * (self.step_seconds or 0.0) / max(1.0, step_tokens)


def most_steps(objective: Objective) -> int:
    """Return the number of steps after which a run of minutes ends, whatever is left of them."""
    if math.isinf(objective.most_passes):
        return sys.maxsize
    tokens = math.ceil(objective.most_passes * objective.epoch)
    return max(_FEW, 1 + bisect_left(range(1, tokens), tokens, key=objective.tokens))


class Timetable:
    """The plan of one run, adjusted as it proceeds. All processes follow the first one's.

    layout: None until the number of steps is known. plans: how often the clock has set that number. save_seconds: the
    duration of the last checkpoint. notes: notes for users, kept until they are reported. first_sample: tokens of the
    validation before the first step.
    """

    def __init__(self, trainer: Trainer, setup: Setup, resumed: RunProgress | None, began: float) -> None:
        """Plan the run.

        began: when the minutes of this process began, by the monotonic clock; half of them are for training, however
        long it took to read the text.
        """
        self.trainer, self.objective, self.setup, self.training = trainer, trainer.objective, setup, setup.training
        self.budget = None if self.training.minutes is None else 60 * self.training.minutes  # seconds
        self.layout: Layout | None = None
        self.first = trainer.step
        self.plans, self.save_seconds, token_seconds = 0, 0.0, None
        self.notes: list[str] = []
        self.first_sample: int | None = None
        self.began = began
        if self.budget is not None:
            late = self.elapsed + time_left(self.budget, self.elapsed) - self.budget
            if self.elapsed > _LONG_BEFORE * self.budget:
                self.notes.append(
                    f"{self.elapsed:.0f} of {self.budget:.0f} s passed before training: importing torch, reading the "
                    f"text, choosing sizes{'; training and its validation still get half of the minutes' * (late > 0)}"
                )
            self.began += max(0.0, late)
        if resumed is not None:
            self.began -= resumed.elapsed
            self.plans, token_seconds = resumed.plans, resumed.token_seconds
            self.first_sample = None if resumed.before is None else resumed.before["read_tokens"]
            if resumed.every is not None and resumed.sample is not None:
                self.layout = Layout(resumed.every, resumed.sample)
        self.most_steps = most_steps(self.objective)
        self.pace = Throughput(trainer.step, trainer.seconds, self.budget, token_seconds)
        if trainer.steps is not None and self.layout is None:
            self._lay_out(trainer.steps)

    @property
    def elapsed(self) -> float:
        """Seconds of the whole run, including those before it was resumed."""
        return time.monotonic() - self.began

    def step_done(self) -> bool:
        """Record a step; return True if the number of steps changed, as it may if the budget is in minutes.

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
            if steps == self.most_steps:
                passes = self.objective.tokens(steps) / self.objective.epoch
                self.notes.append(
                    f"to avoid overfitting, the run ends after {passes:,.0f} passes over the text, before the minutes "
                    "do; for more passes, give epochs in place of minutes"
                )
        return True

    def validation_is_due(self) -> bool:
        every = self.training.validate_every or (None if self.layout is None else self.layout.every)
        step = self.trainer.step
        return self.objective.validation_tokens > 0 and (
            self.trainer.is_over or (every is not None and step % every == 0)
        )

    def validated(self, tokens: int, seconds: float) -> None:
        """Record a validation; validate less often from now on if all validations would take too large a share."""
        self.pace.validated(tokens, seconds)
        if self.budget is None or self.layout is None or self.training.validate_every is not None:
            return
        every, sample = self.layout
        times = (self.trainer.steps or 0) // every
        too_long = times * self._validation_seconds(sample) / (LEARNING_SHARE * self.budget)
        every = int(self.setup.processes.broadcast(float(every * max(1, math.ceil(too_long - 0.1)))))
        self.layout = Layout(every, sample)

    def sample(self) -> int:
        """Return tokens in a validation; until the number of steps is known, as for a run that ends here."""
        return self.layout.sample if self.layout is not None else self._layout_of(self.trainer.step).sample

    def set_first_sample(self) -> int:
        """Return tokens in the validation before the first step, and so in later ones."""
        sample, token_seconds = self.sample(), self.pace.token_seconds
        if self.layout is None and self.budget and token_seconds and not self.training.valid_sample:
            share = LEARNING_SHARE * self.budget / (VALIDATIONS + 1)
            affordable = int(self.setup.processes.broadcast(share / token_seconds))
            sample = min(self.objective.validation_tokens, max(sample, affordable))
        self.first_sample = sample
        return sample

    def final_sample(self) -> int:
        """Return tokens in the last validation: the whole text, or as much of it as fits the minutes."""
        sample, whole = self.sample(), self.objective.validation_tokens
        share = self._final_seconds(sample) / max(1e-9, self._validation_seconds(whole))
        tokens = whole if sample >= whole or self.budget is None else max(sample, min(whole, round(share * whole)))
        return int(self.setup.processes.broadcast(float(tokens)))

    def seconds_left(self) -> float | None:
        """Return the seconds until the run ends; None if that is not known."""
        steps = self.trainer.steps
        if steps is None or self.pace.step_seconds is None:
            return None if self.budget is None else max(0.0, self.budget - self.elapsed)
        return self._seconds_until(steps)

    def _steps_in_time(self) -> int:
        """Return steps that fit the minutes; the planned number if that is close enough; -1 if it is not known yet."""
        trainer, pace, budget = self.trainer, self.pace, self.budget
        before = -1 if trainer.steps is None else trainer.steps
        if budget is None or not pace.is_known(self.elapsed) or trainer.is_over:
            return before
        if self.setup.machine.compiled and trainer.step == self.first + 1:  # most of that step was the compiler's
            return before
        assert pace.step_seconds is not None
        left = budget - self.elapsed
        if before >= 0 and abs(left - self._seconds_until(before)) <= KEPT_PLAN * budget:
            return before
        ends = range(trainer.step, trainer.step + max(0, int(left / pace.step_seconds)) + 1)
        fitting = bisect_right(ends, left, key=self._seconds_until)
        return max(trainer.step, min(ends[max(0, fitting - 1)], self.most_steps))

    def _seconds_until(self, steps: int) -> float:
        """Return seconds until the end of a run of `steps` steps, whose validations and checkpoints come with them."""
        assert self.pace.step_seconds is not None
        return (steps - self.trainer.step) * self.pace.step_seconds + self._seconds_between(steps)

    def _lay_out(self, steps: int) -> None:
        """Plan validation, once the number of steps is known."""
        self.layout = self._layout_of(steps)
        whole = self.objective.validation_tokens
        if self.layout.sample < whole:
            self.notes.append(
                f"validation during training reads {self.layout.sample:,} of {whole:,} tokens; the last one reads "
                f"{'all' if self.budget is None else 'as many as fit the minutes'}"
            )

    def _layout_of(self, steps: int) -> Layout:
        planned = layout(self.training, steps, self.objective.tokens(steps), self.objective.validation_tokens)
        return planned if self.first_sample is None else planned._replace(sample=self.first_sample)

    def _seconds_between(self, steps: int) -> float:
        """Return seconds of the validation and the checkpoints that remain in a run of `steps` steps."""
        done, (every, sample) = self.trainer.step, self.layout or self._layout_of(steps)
        if not self.objective.validation_tokens:
            return self.save_seconds
        times = -(-steps // every) - done // every
        validation = times * self._validation_seconds(sample)
        saving = self._saving_seconds(steps, times, (steps - done) * (self.pace.step_seconds or 0.0) + validation)
        return validation + saving + self._final_seconds(sample)

    def _saving_seconds(self, steps: int, validations: int, seconds: float) -> float:
        """Return seconds of the checkpoints of the next `seconds`, and of the model itself.

        One comes with a validation, if enough time has passed since the one before.
        """
        own = self.save_seconds
        if (every := self.training.save_every) is not None:
            return (steps // every - self.trainer.step // every + 1) * own
        return min(validations * own, own + SAVING_SHARE * seconds) + own

    def _final_seconds(self, sample: int) -> float:
        """Return seconds of the last validation; 0 if every sample is the whole text."""
        whole = self.objective.validation_tokens
        if sample >= whole:
            return 0.0
        seconds = self._validation_seconds(whole)
        return seconds if self.budget is None else min(seconds, FINAL_SHARE * self.budget)

    def _validation_seconds(self, tokens: int) -> float:
        return self.pace.validation_seconds(tokens, self.objective.tokens(1))
