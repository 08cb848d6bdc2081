"""What steps and validation take on this machine, as measured lately."""

from __future__ import annotations

from collections import deque

from chainrule.training.plan import FORWARD_SHARE

_SLOW_STEPS = 3  # the first ones, which say nothing of the speed
_FEW_STEPS = 10
_SHORTEST, _LONGEST = 2.0, 30.0  # seconds that are looked back at
_SHARE, _LATEST_SHARE = 0.05, 0.15  # of a budget, after which the speed is known, or has to be


class Pace:
    """Measured seconds of a step, and of validation per token."""

    def __init__(self, step: int, seconds: float, budget: float | None, token_seconds: float | None) -> None:
        """step, seconds: where the run begins, or goes on. budget: seconds for all of it. token_seconds: of validation,
        where it was measured before.
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
        """The mean of the last steps; of the slow first ones where there are no others; None where there are none."""
        last, ended = self._marks[-1]
        first, began = self._marks[0] if last > self._marks[0][0] else self._start
        return (ended - began) / (last - first) if last > first else None

    def is_known(self, elapsed: float) -> bool:
        """Whether the steps so far say how many there will be."""
        if self._budget is None or self.step_seconds is None:
            return False
        steps, seconds = (last - first for first, last in zip(self._marks[0], self._marks[-1], strict=True))
        is_enough = steps >= _FEW_STEPS and seconds >= min(_LONGEST, _SHARE * self._budget)
        return is_enough or elapsed >= _LATEST_SHARE * self._budget

    def validation_seconds(self, tokens: int, step_tokens: float) -> float:
        """For so many tokens. step_tokens: learnt from in a step, which tell as long as nothing was validated on."""
        if self.token_seconds is not None:
            return tokens * self.token_seconds
        return tokens * FORWARD_SHARE * (self.step_seconds or 0.0) / max(1.0, step_tokens)
