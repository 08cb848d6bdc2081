"""What people see while a network is trained: a line that changes where there is a terminal, and lines that stay."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from chainrule.cli.screen import note
from chainrule.cli.wrong_usage import with_flags
from chainrule.evaluation.comparison import is_untrained
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
            sys.stderr.write(f"note: {printable(with_flags(report.note))}\n")
        stays = report.valid_loss is not None or report.step == report.steps
        if not stays and not self._changes and time.monotonic() - self._written < _PATIENCE:
            return
        self._written = time.monotonic()
        line = str(report)
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


def note_untrained(validation: dict[str, Any]) -> None:
    """Says so, where a network has not learnt more than how frequent tokens are."""
    if is_untrained({"validation": validation}):
        note(
            "this is no better than the frequencies of the tokens alone, "
            f"{validation['unigram_loss']:.4f} nats: the network has learnt "
            "nothing of the context yet; train it for longer, or make it smaller"
        )
