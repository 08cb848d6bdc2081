"""The options of training speech models: keywords in Python, flags on the command line."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from chainrule.base.options import changed, option
from chainrule.models.run_options import RunOptions
from chainrule.verbs.training.options import TextRunOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chainrule.errors import TextError
    from chainrule.features.speech.network_config import SpeechConfig
    from chainrule.features.speech.sounds.transcripts import Transcript
    from chainrule.training.config import TrainingConfig


@dataclass(frozen=True)
class TrainSpeechOptions(RunOptions):
    """The network that hears to train, and its transcripts."""

    transcripts: Sequence[Transcript]
    config: SpeechConfig | None = option(None, "its settings", flag=None)
    _: KW_ONLY
    training: TrainingConfig | None = changed(TextRunOptions, "training")
    validation: Sequence[Transcript] | None = option(
        None,
        "sounds with transcripts to choose the best weights by; by default the last of those to train on",
        flag="valid",
        reads="file",
    )
    on_error: Callable[[TextError], object] | None = option(
        None, "a callback for transcripts that cannot be learned from, which are left out", flag=None
    )
