"""What people see while a network is trained: a line that changes where there is a terminal, and lines that stay."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, Any

from chainrule.cli.screen import note
from chainrule.report.tables import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.training.reports import Report

_PATIENCE = 30.0  # seconds without a line, where there is no terminal


class TrainingScreen:
    """Told by the trainer; writes to standard error."""

    def __init__(self, begun: Callable[[], None]) -> None:
        """begun: what is to be done before the first line."""
        self._begun: Callable[[], None] | None = begun
        self._changes = sys.stderr.isatty()
        self._width = 0  # of the line that may change
        self._written = time.monotonic()

    def __call__(self, report: Report) -> None:
        if self._begun is not None:
            self._begun()
            self._begun = None
        if report.note is not None:
            sys.stderr.write(f"note: {printable(report.note)}\n")
        stays = report.valid_loss is not None or report.step == report.steps
        if not stays and not self._changes and time.monotonic() - self._written < _PATIENCE:
            return
        self._written = time.monotonic()
        line = described(report)
        if self._changes:
            sys.stderr.write("\r" + line.ljust(self._width) + ("\n" if stays else ""))
            self._width = 0 if stays else len(line)
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Ends a line that could still change."""
        if self._width:
            sys.stderr.write("\n")
            self._width = 0


def validated_on(validation: dict[str, Any]) -> str:
    """How much of its text the validation in a network's record was on, in words; a masked network is asked for some
    of the tokens that it reads.
    """
    predictions, read, whole = (validation[name] for name in ("tokens", "read_tokens", "text_tokens"))
    part = "" if read == whole else f" ({read / whole:.0%} of the text: more would take too much of the minutes)"
    return f"{predictions:,} tokens{part}"


def is_untrained(record: dict[str, Any]) -> bool:
    """Whether a model's record says that it was validated, and no better than unigrams."""
    validation = record.get("validation", {})
    return "unigram_loss" in validation and validation["loss"] >= validation["unigram_loss"]


def note_untrained(validation: dict[str, Any]) -> None:
    """Says so, where a network has not learnt more than how frequent tokens are."""
    if is_untrained({"validation": validation}):
        note(
            "this is no better than the frequencies of the tokens alone, "
            f"{validation['unigram_loss']:.4f} nats: the network has learnt "
            "nothing of the context yet; train it for longer, or make it smaller"
        )


def described(report: Report) -> str:
    """A report in one line."""
    of = "" if report.steps is None else f" of {report.steps:,}"
    parts = [f"step {report.step:,}{of}"]
    if not math.isnan(report.loss):
        parts.append(f"loss {report.loss:.4f}")
    if report.valid_loss is not None:
        bits = "" if report.bits_per_byte is None else f", {report.bits_per_byte:.4f} bits per byte"
        parts.append(f"validation {report.valid_loss:.4f}{bits}{' *' if report.is_best else ''}")
    parts += [
        f"{report.tokens_per_second:,.0f} tokens/s",
        f"{report.peak_share:.0%} of peak",
        f"rate {report.rate:.3f}",
    ]
    if report.memory is not None:
        parts.append(f"{report.memory / 1e9:.2f} GB")
    if report.seconds_left is not None and report.step != report.steps:
        parts.append(f"{_clock(report.seconds_left)} left")
    return "  ".join(parts)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
