"""The measured speed of steps and of validation."""

from __future__ import annotations

from collections import deque

from chainrule.training.plan import FORWARD_SHARE

_SLOW_STEPS = 3  # the first ones, which do not count
_FEW_STEPS = 10
_SHORTEST, _LONGEST = 2.0, 30.0  # seconds of recent steps that are averaged
_SHARE, _LATEST_SHARE = (
    0.05,
    0.15,
)  # of the budget: the speed may be known after the first, and is assumed to be after the second


class Pace:
    """Seconds per step, and per token of validation."""

    def __init__(self, step: int, seconds: float, budget: float | None, token_seconds: float | None) -> None:
        """step, seconds: where the run starts or resumes. budget: seconds for the whole run. token_seconds: of
        validation, if it was measured before.
        """
        self._start, self._budget = (step, seconds), budget
        self._window = _LONGEST if budget is None else min(_LONGEST, max(_SHORTEST, _SHARE * budget))
        self._marks = deque([(step, seconds)])
        self.token_seconds = token_seconds

    def stepped(self, step: int, seconds: float) -> None:
        """seconds: of all steps so far."""
        if step <= self._start[0] + _SLOW_STEPS:
            self._marks.clear()
        self._marks.append((step, seconds))
        while len(self._marks) > _FEW_STEPS + 1 and seconds - self._marks[1][1] >= self._window:
            self._marks.popleft()

    def validated(self, tokens: int, seconds: float) -> None:
        self.token_seconds = seconds / max(1, tokens)

    @property
    def step_seconds(self) -> float | None:
        """The mean of recent steps, or of the slow first ones if there are no others; None if there are none."""
        last, ended = self._marks[-1]
        first, began = self._marks[0] if last > self._marks[0][0] else self._start
        return (ended - began) / (last - first) if last > first else None

    def is_known(self, elapsed: float) -> bool:
        """Whether enough steps were measured to plan the rest of the run."""
        if self._budget is None or self.step_seconds is None:
            return False
        steps, seconds = (last - first for first, last in zip(self._marks[0], self._marks[-1], strict=True))
        is_enough = steps >= _FEW_STEPS and seconds >= min(_LONGEST, _SHARE * self._budget)
        return is_enough or elapsed >= _LATEST_SHARE * self._budget

    def validation_seconds(self, tokens: int, step_tokens: float) -> float:
        """Seconds to validate on `tokens` tokens. step_tokens: of a training step, for a first estimate."""
        if self.token_seconds is not None:
            return tokens * self.token_seconds
        return tokens * FORWARD_SHARE * (self.step_seconds or 0.0) / max(1.0, step_tokens)
