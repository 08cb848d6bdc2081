"""What `chainrule evaluate` has to know of kinds of models that are not measured on plain texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from cyclopts import CycloptsError

from chainrule.cli.shared.texts import RECORD_FLAGS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chainrule.cli.shared.results import ResultOptions
    from chainrule.cli.shared.texts import TextOptions
    from chainrule.text.tokenization.vocabulary import Markers


@dataclass(frozen=True)
class Given:
    """What was given of the arguments of `evaluate` that are not for one kind of models."""

    texts: tuple[str, ...]
    reading: TextOptions
    tokenizer: str | None
    markers: Markers | None
    ends: bool
    show: ResultOptions
    flags: dict[str, Any]  # of all kinds, by family

    def refuse_texts(self, flags: str, what: str) -> None:
        """Raises CycloptsError where texts or their options are given. flags: that measure; what: such models."""
        if self.texts or not self.reading.has_only(*RECORD_FLAGS) or not self.ends:
            raise CycloptsError(msg=f"{flags} measure {what}; leave out texts and their options.")
        if self.tokenizer is not None or self.markers is not None:
            raise CycloptsError(
                msg=f"{what.capitalize()} have their own tokenizers; leave out --tokenizer and --markers."
            )


class ShellMeasure(NamedTuple):
    """How models of a kind are measured by the shell.

    flags: the class of their flags, a parameter of `evaluate`. none: its value where no flag is given. measure: shows
    the result for a model, its flags and what else was given. Raises CycloptsError, SettingError, TextError,
    ModelFormatError. also: families whose flags it takes, too.
    """

    flags: Any
    none: Any
    measure: Callable[[Path, Any, Given], None]
    also: tuple[str, ...] = ()
