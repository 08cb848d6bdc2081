"""Output during training: a line that is overwritten, at a terminal, and lines that stay."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from chainrule.cli.shared.screen import note
from chainrule.cli.shared.wrong_usage import with_flags
from chainrule.evaluation.comparison import is_untrained

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.training.reports import Report

_PATIENCE = 30.0  # seconds between lines, where there is no terminal


class TrainingScreen:
    """A callback for training reports; prints them to standard error."""

    def __init__(self, before_first: Callable[[], None]) -> None:
        """before_first: called before the first line."""
        self._before_first: Callable[[], None] | None = before_first
        self._is_terminal = sys.stderr.isatty()
        self._width = 0  # of the line that may be overwritten
        self._written = time.monotonic()

    def __call__(self, report: Report) -> None:
        if self._before_first is not None:
            self._before_first()
            self._before_first = None
        if report.note is not None:
            for line in report.note.splitlines():
                note(with_flags(line))
        stays = report.valid_loss is not None or report.step == report.steps
        if not stays and not self._is_terminal and time.monotonic() - self._written < _PATIENCE:
            return
        self._written = time.monotonic()
        line = str(report)
        if self._is_terminal:
            sys.stderr.write("\r" + line.ljust(self._width) + ("\n" if stays else ""))
            self._width = 0 if stays else len(line)
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Ends a line that could still be overwritten."""
        if self._width:
            sys.stderr.write("\n")
            self._width = 0


def validated_on(validation: dict[str, Any]) -> str:
    """What a network was validated on, in words; a masked network predicts only some of the tokens that it reads."""
    predictions, read, whole = (validation[name] for name in ("tokens", "read_tokens", "text_tokens"))
    part = "" if read == whole else f" ({read / whole:.0%} of the text, to save time)"
    return f"{predictions:,} tokens{part}"


def note_untrained(validation: dict[str, Any]) -> None:
    """Prints a note where a network has learned no more than token frequencies."""
    if is_untrained({"validation": validation}):
        note(f"this is no better than token frequencies alone, {validation['unigram_loss']:.4f} nats")
        note("the network has learned nothing from context yet; train it longer, or make it smaller")
