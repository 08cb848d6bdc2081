"""How a run is laid out: the steps it has time for, the rows of a step, and how much of a text validation reads.

Nothing here reads the clock: what steps and validation take is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from chainrule.training.config import TrainingConfig

VALIDATIONS, _FEWEST = 10, 3  # in a run, by default
LEARNING_SHARE, FINAL_SHARE = 0.03, 0.06  # of the minutes, for validation while the network learns and at the end
_SMALLEST_SAMPLE = 1024  # tokens
FORWARD_SHARE = 1 / 3  # of a step's operations, which go back, too
KEPT_PLAN = 0.02  # of the minutes may be missed before a plan is changed
_WANTED_STEPS = 300  # fewer of them learn less than smaller ones would
_LEAST_TOKENS = 256  # in a step
_LEAST_GAIN = 1.4  # in steps, when a batch is halved: the optimiser's own work does not become less
_USUAL_SHARE = 0.5  # of the operations that a machine does in large products are done in a step


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
            times = min(VALIDATIONS, max(_FEWEST, allowed // min(_SMALLEST_SAMPLE, max(1, text))))
        every = max(1, steps // times)
    sample = training.valid_sample or max(_SMALLEST_SAMPLE, allowed // max(1, steps // every))
    return Layout(every, min(text, sample))


def fitted_batch(
    rows: int, row_tokens: float, shares: int, seconds: float, flops: float, row_flops: float, step_flops: float
) -> int:
    """`rows`, halved while a run would have too few steps to learn much.

    row_tokens: learnt from in a row. shares: what rows must be a multiple of. seconds: for all steps. flops: that the
    machine does in a second, in large products. row_flops: of a row, forward and back; step_flops: of the optimiser.
    """

    def steps(of_rows: int) -> float:
        return _USUAL_SHARE * flops * seconds / (of_rows * row_flops + step_flops)

    while (
        rows % (2 * shares) == 0
        and rows // 2 * row_tokens >= _LEAST_TOKENS
        and steps(rows) < _WANTED_STEPS
        and steps(rows // 2) >= _LEAST_GAIN * steps(rows)
    ):
        rows //= 2
    return rows
