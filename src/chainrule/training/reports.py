"""Progress reports of a run, for its callback, log.jsonl and TensorBoard; defers Ctrl-C to the end of a step.

SIGTERM is deferred in the same way.
"""

from __future__ import annotations

import json
import math
import signal
import threading
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from chainrule.base.progress import format_duration
from chainrule.errors import OutputError, SettingError, os_errors_as

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOG = "log.jsonl"
REPORTED_FIGURES = ("bits_per_byte", "accuracy", "mean_average_precision", "pearson")  # beside a validation loss


@dataclass(frozen=True, kw_only=True)
class Report:
    """The state of a run. Losses are nats per token."""

    step: int
    steps: int | None  # None until the speed is known
    tokens: int
    epoch: float
    loss: float  # the mean since the previous report
    gradient: float  # the norm in the last step, before clipping
    rate: float  # the learning rate, as a share of its peak
    seconds: float  # of training steps
    tokens_per_second: float
    peak_share: float  # of the floating-point speed of this machine
    memory: int | None  # bytes
    seconds_left: float | None = None  # validation included
    valid_loss: float | None = None
    valid_tokens: int | None = None  # that it read, perhaps not the whole text
    bits_per_byte: float | None = None
    accuracy: float | None = None  # the share of labels that are right
    mean_average_precision: float | None = None  # of boxes
    pearson: float | None = None  # the correlation with ratings, which the choice of the weights then follows
    is_best: bool = False
    saved: bool = False
    note: str | None = None  # what users should know, a sentence a line; each is reported once

    def __str__(self) -> str:
        """Return one line, for people."""
        of = "" if self.steps is None else f" of {self.steps:,}"
        parts = [f"step {self.step:,}{of}"]
        if not math.isnan(self.loss):
            parts.append(f"loss {self.loss:.4f}")
        if self.valid_loss is not None:
            bits = "" if self.bits_per_byte is None else f", {self.bits_per_byte:.4f} bits per byte"
            right = "" if self.accuracy is None else f", {self.accuracy:.1%} right"
            right = right if self.pearson is None else f", Pearson {self.pearson:.4f}"
            found = self.mean_average_precision
            boxes = "" if found is None else f", average precision {found:.4f}"
            parts.append(f"validation {self.valid_loss:.4f}{bits}{right}{boxes}{' *' if self.is_best else ''}")
        if self.step:
            parts += [
                f"{self.tokens_per_second:,.0f} tokens/s",
                f"{self.peak_share:.0%} of peak",
                f"rate {self.rate:.3f}",
            ]
        if self.memory is not None:
            parts.append(f"{self.memory / 1e9:.2f} GB")
        if self.seconds_left is not None and self.step != self.steps:
            parts.append(f"{format_duration(self.seconds_left)} left")
        return "  ".join(parts)


class OnReport(Protocol):
    """A callback for reports."""

    def __call__(self, report: Report) -> None: ...


def ignore(report: Report) -> None:
    """Do nothing."""


class Log:
    """log.jsonl, with a line for each report and each event; and TensorBoard's files."""

    def __init__(self, folder: Path | None, *, tensorboard: bool, keep: int = 0, step: int = 0) -> None:
        """Open the log. keep: bytes of an existing log to keep, up to this step. Raises OutputError, SettingError."""
        self.path = None if folder is None else folder / LOG
        self.bytes = keep
        self._board = _tensorboard(folder, step) if tensorboard and folder is not None else None
        if self.path is not None:
            with os_errors_as(OutputError, self.path, "written"):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with open(self.path, "ab") as file:
                    file.truncate(keep)

    def report(self, report: Report) -> None:
        self.line({name: value for name, value in asdict(report).items() if value is not None})
        if self._board is not None:
            for name in ("loss", "valid_loss", *REPORTED_FIGURES, "rate", "gradient", "tokens_per_second"):
                value = getattr(report, name)
                if value is not None and not math.isnan(value):
                    self._board.add_scalar(name, value, report.step)

    def line(self, values: dict[str, Any]) -> None:
        """Write a line. Raises OutputError."""
        if self.path is None:
            return
        finite = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in values.items()
        }
        data = json.dumps(finite).encode() + b"\n"
        then = "make room, and continue with resume=True"
        with os_errors_as(OutputError, self.path, "written", then), open(self.path, "ab") as file:
            file.write(data)
        self.bytes += len(data)

    def close(self) -> None:
        if self._board is not None:
            with suppress(OSError):
                self._board.close()


def _tensorboard(folder: Path, step: int) -> Any:
    """Return a TensorBoard writer that continues after a step; what earlier runs wrote of later steps is hidden."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise SettingError(
            f"tensorboard is not installed ({error}); install it with pip install tensorboard, or leave it out"
        ) from None
    with os_errors_as(OutputError, folder / "tensorboard", "written"):
        return SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)


class Interruption:
    """The signal that asked the run to stop; 0: none."""

    signal = 0


@contextmanager
def interruptions() -> Iterator[Interruption]:
    """Note the first Ctrl-C or SIGTERM; a second one ends the process at once. Works in the main thread only."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before = {signal_number: signal.getsignal(signal_number) for signal_number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for signal_number, handler in before.items():
            signal.signal(signal_number, handler)

    def note(signal_number: int, frame: object) -> None:
        interruption.signal = signal_number
        restore()

    for signal_number in before:
        signal.signal(signal_number, note)
    try:
        yield interruption
    finally:
        restore()


def is_untrained(record: dict[str, Any]) -> bool:
    """Return whether a model's record has a validation loss no better than a unigram model's."""
    validation = record.get("validation", {})
    return "unigram_loss" in validation and validation["loss"] >= validation["unigram_loss"]
