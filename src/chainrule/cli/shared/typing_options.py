"""The options of verbs that complete and correct what is being typed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.api.models.model import Model
    from chainrule.applications.correction.corrector import Corrector


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TypingOptions:
    """What corrects what is being typed."""

    correct: Annotated[
        bool | None,
        Parameter(
            negative="--no-correct",
            help="Also suggest a correction of the word just typed; by default if the model's tokens are words.",
        ),
    ] = None
    channel: Annotated[
        str | None, Parameter(help="Errors to correct: keyboard (the default), ocr, or a file of train channel.")
    ] = None
    lexicon: Annotated[
        Path | None, Parameter(help="The correct words, one on each line, perhaps with counts; by default the model's.")
    ] = None

    def check(self) -> None:
        """Raises CycloptsError where options contradict each other."""
        if self.correct is False and (self.channel is not None or self.lexicon is not None):
            raise CycloptsError(msg="--channel and --lexicon are for corrections; leave out --no-correct.")

    def check_files(self) -> None:
        """Raises SettingError where a file that corrections need is not there, before a model is opened."""
        is_named = self.channel in (None, "keyboard", "ocr")
        for name, path in (("--channel", None if is_named else self.channel), ("--lexicon", self.lexicon)):
            if path is not None and not Path(path).is_file():
                raise SettingError(f"{name} {path}: there is no such file")

    def wants_corrector(self, model: Model) -> bool:
        """Whether to correct: not if the model's tokens are no words and nobody asked."""
        from chainrule.api.texts.correct import has_words

        if self.correct is not None:
            return self.correct
        return self.channel is not None or self.lexicon is not None or has_words(model)

    def corrector(self, model: Model, keep: Sequence[str] = ()) -> Corrector:
        """keep: words that are never changed. Raises SettingError, TextError, ModelFormatError."""
        from chainrule.api.texts.correct import corrector
        from chainrule.applications.correction.corrector import CorrectionConfig

        channel = self.channel
        errors: Any = "keyboard" if channel is None else channel if channel in ("keyboard", "ocr") else Path(channel)
        return corrector(model, errors, lexicon=self.lexicon, config=CorrectionConfig(keep=tuple(keep)))
