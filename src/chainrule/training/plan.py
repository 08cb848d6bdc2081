"""How a run is planned: the rows of a step, and how often and on how much text it validates.

Nothing here reads the clock: durations are arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from chainrule.training.config import TrainingConfig

VALIDATIONS, _FEWEST = 10, 3  # per run, by default
LEARNING_SHARE, FINAL_SHARE = 0.02, 0.05  # of the minutes: validation during training, and at the end
_SMALL_SAMPLE, _SMALLEST_SAMPLE = 1024, 64  # tokens, if the budget is in minutes
_STEPS_SAMPLE = 8192  # at least, if the budget is not in minutes
FORWARD_SHARE = 1 / 3  # of the operations of a training step, which also has a backward pass
KEPT_PLAN = 0.02  # a plan changes only if it misses the minutes by more than this share
_WANTED_STEPS = 200  # with fewer, more steps of fewer rows learn more
_LEAST_TOKENS = 256  # in a step
_LEAST_GAIN = 1.8  # in steps, for halving the batch to pay: the optimiser's own work stays the same


class Layout(NamedTuple):
    """Steps between validations, and the tokens that each one reads."""

    every: int
    sample: int


def layout(training: TrainingConfig, steps: int, tokens: int, text: int) -> Layout:
    """When a run validates, and on how much text: a function of its length, not of the machine.

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


def batch_choices(rows: int, row_tokens: float, shares: int) -> list[int]:
    """Batch sizes to choose from: `rows`, batch_choices while it divides evenly into `shares` and has enough tokens."""
    choices = [rows]
    while choices[-1] % (2 * shares) == 0 and choices[-1] // 2 * row_tokens >= _LEAST_TOKENS:
        choices.append(choices[-1] // 2)
    return choices


def choose_rows(choices: list[int], budget: float, row_seconds: float, fixed_seconds: float) -> int:
    """The first choice that gives a run enough steps; it goes on halving only while that gives many more steps.

    budget, row_seconds: seconds, of the run and per row. fixed_seconds: of a step, independent of its rows.
    """
    chosen, *smaller = choices
    for rows in smaller:
        before, seconds = (count * row_seconds + fixed_seconds for count in (chosen, rows))
        if budget / before >= _WANTED_STEPS or before < _LEAST_GAIN * seconds:
            break
        chosen = rows
    return chosen
