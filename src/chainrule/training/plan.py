"""How a run is laid out: the steps it has time for, the rows of a step, and how much of a text validation reads.

Nothing here reads the clock: what steps and validation take is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from chainrule.training.config import TrainingConfig

VALIDATIONS, _FEWEST = 10, 3  # in a run, by default
LEARNING_SHARE, FINAL_SHARE = 0.02, 0.05  # of the minutes, for validation while the network learns and at the end
_SMALL_SAMPLE, _SMALLEST_SAMPLE = 1024, 64  # tokens, in a run of minutes
_STEPS_SAMPLE = 8192  # at least, where no clock runs
FORWARD_SHARE = 1 / 3  # of a step's operations, which go back, too
KEPT_PLAN = 0.02  # of the minutes may be missed before a plan is changed
_WANTED_STEPS = 200  # fewer of them learn less than smaller ones would
_LEAST_TOKENS = 256  # in a step
_LEAST_GAIN = 1.8  # in steps, when a batch is halved: the optimiser's own work does not become less


class Layout(NamedTuple):
    """Steps between validations, and the tokens that each of them reads."""

    every: int
    sample: int


def layout(training: TrainingConfig, steps: int, tokens: int, text: int) -> Layout:
    """How a run is validated while it learns: a function of its length, not of the machine.

    tokens: learnt from in all steps. text: tokens of the text to validate on. A sample is as large as a small share of
    the run's operations allows; of a short run in minutes, there are fewer.
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


def halved(rows: int, row_tokens: float, shares: int) -> list[int]:
    """`rows`, and half of them again and again, as long as they can be shared out and are not too few to learn from."""
    choices = [rows]
    while choices[-1] % (2 * shares) == 0 and choices[-1] // 2 * row_tokens >= _LEAST_TOKENS:
        choices.append(choices[-1] // 2)
    return choices


def fitted_rows(choices: list[int], budget: float, row_seconds: float, beside: float) -> int:
    """The first choice with which a run has enough steps; of fewer rows, as long as these make it many more steps.

    budget: seconds. row_seconds: of each row of a step. beside: seconds of a step that do not depend on its rows.
    """
    fitted, *smaller = choices
    for rows in smaller:
        before, seconds = (each * row_seconds + beside for each in (fitted, rows))
        if budget / before >= _WANTED_STEPS or before < _LEAST_GAIN * seconds:
            break
        fitted = rows
    return fitted
