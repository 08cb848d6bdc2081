"""Options of the verbs that correct text as it is typed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.errors import SettingError
from chainrule.features.correct.channel.ready import CHANNELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.features.correct.corrector.corrector import Corrector
    from chainrule.models.model import Model


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TypingOptions:
    """Options for correcting text as it is typed."""

    correct: Annotated[
        bool | None,
        Parameter(
            negative="--no-correct",
            help="Also suggest a correction of the word just typed; by default if the model's tokens are words.",
        ),
    ] = None
    channel: Annotated[
        str | None,
        Parameter(help="Errors to correct: english (the default), keyboard, ocr, or a file of train channel."),
    ] = None
    lexicon: Annotated[
        Path | None, Parameter(help="The correct words, one on each line, perhaps with counts; by default the model's.")
    ] = None

    def check(self) -> None:
        """Raise CycloptsError where options contradict each other."""
        if self.correct is False and (self.channel is not None or self.lexicon is not None):
            raise CycloptsError(msg="--channel and --lexicon are for corrections; leave out --no-correct.")

    def check_files(self) -> None:
        """Raise SettingError where a file that corrections need is not there, before a model is opened."""
        is_named = self.channel in (None, *CHANNELS)
        for name, path in (("--channel", None if is_named else self.channel), ("--lexicon", self.lexicon)):
            if path is not None and not Path(path).is_file():
                raise SettingError(f"{name} {path}: there is no such file")

    def wants_corrector(self, model: Model) -> bool:
        """Return whether to correct: not if the model's tokens are no words and nobody asked."""
        from chainrule.features.correct.correct import has_words

        if self.correct is not None:
            return self.correct
        return self.channel is not None or self.lexicon is not None or has_words(model)

    def corrector(self, model: Model, keep: Sequence[str] = ()) -> Corrector:
        """Return the corrector of the options.

        keep: words that are never changed. Raises SettingError, TextError, ModelFormatError.
        """
        from chainrule.features.correct.correct import corrector

        channel = "english" if self.channel is None else self.channel
        errors: Any = channel if channel in CHANNELS else Path(channel)
        return corrector(model, channel=errors, lexicon=self.lexicon, keep=tuple(keep))
