"""What a SpeechModel is made of: a network that hears, whatever its kind, and its way from samples to words.

A `Listener` is the network. It gives a `Transcriber`, which knows the options of the search, and begins a `Hearing` for
each recording. A hearing gets samples as they come, from a file or a microphone, and gives texts at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from chainrule.base.progress import Progress, silent
from chainrule.features.speech.listening.windows import InSteps
from chainrule.features.speech.sounds.sound import Sound, open_sound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.features.speech.ctc import DecodedUtterance
    from chainrule.features.speech.options import TranscribeOptions
    from chainrule.features.speech.sounds.transcripts import Transcript
    from chainrule.text.tokenization.tokenizer import Tokenizer


class Listener(Protocol):
    """A network that hears, an nn.Module.

    config: its settings, of a class that the registry names and that names the network. rate: samples a second that it
    reads. mels: the bands of log-mel frames that it reads of a `Transcript`; None: it reads the file that this names.
    step_seconds: how long a step is, in which the times of words are counted. tokenizer: of the tokens that it writes;
    None where its labels are in its settings. searches: whether its text is searched for without a language model, too.
    """

    config: Any
    tokenizer: Tokenizer | None
    searches: bool

    @property
    def rate(self) -> int: ...
    @property
    def mels(self) -> int | None: ...
    @property
    def step_seconds(self) -> float: ...

    def writes(self) -> tuple[str, int]:
        """Return what the network writes, in words, and how many labels or tokens there are, for `info`."""

    def transcriber(self, options: TranscribeOptions) -> Transcriber:
        """Return what makes texts of recordings. Raises SettingError where an option is not for this network."""

    def hear(self, transcript: Transcript, hearing: Any) -> None:
        """Let a hearing, of this network's transcriber, have the sound of a transcript. Raises TextError."""


@runtime_checkable
class GivesFeatures(InSteps, Protocol):
    """A `Listener` that has a vector for each step."""

    def features(self, sound: Sound, layer: int | None) -> Float32[ndarray, "S D"]:
        """Return the vectors of a layer for a sound that is read at once; see `SpeechModel.features`."""


class Transcriber(Protocol):
    """Makes texts of recordings, by options that are the same for all."""

    def begin(self, id: str, name: str) -> Hearing:
        """Return what hears one recording. id: for lists and tables, without white space. name: for messages."""


class Hearing(Protocol):
    """One recording while it is heard."""

    def add(self, sound: Sound) -> None:
        """Hear what comes next, at the rate of the network; perhaps later, with what follows. Raises TextError."""

    def certain(self) -> Sequence[str]:
        """Return the words at the beginning that can no longer change."""

    def end(self, progress: Progress = silent) -> DecodedUtterance:
        """Hear the rest, and return the texts. Raises TextError where the recording is too short."""

    def alone(self) -> str:
        """Return the text by the network without a language model and a search, after the end, for `evaluate`."""


def hear_file(transcript: Transcript, hearing: Hearing, rate: int) -> None:
    """Let a hearing have the file that a transcript names; see `Listener.hear`. Raises TextError."""
    for samples in open_sound(transcript.path, rate).blocks:
        hearing.add(Sound(samples, rate, transcript.path))
