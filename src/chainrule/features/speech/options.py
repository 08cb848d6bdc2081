"""The options of verbs on speech: keywords in Python, flags on the command line. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.base.options import option
from chainrule.errors import SettingError
from chainrule.features.speech.search.config import CtcConfig
from chainrule.features.speech.whisper.options import WhisperOptions
from chainrule.text.word_lists import read_words

if TYPE_CHECKING:
    from collections.abc import Callable, Set
    from os import PathLike
    from typing import Self

    from chainrule.errors import ChainruleError
    from chainrule.models.model import Model
    from chainrule.models.progress_line import ProgressOption


@dataclass(frozen=True, kw_only=True)
class DecodingOptions(CtcConfig):
    """How what a network heard becomes texts: as `CtcConfig`, and what is known of the words.

    words: the only words that there are; by default those of a model of whole words. hotwords: words and phrases that
    are expected. on_error: a callback that gets what is wrong with an utterance, which is then left out; without it,
    the error is raised.
    """

    words: tuple[str, ...] = option(
        (), "a file of the only words allowed, one a line; by default the model's words", reads=Path, parse=read_words
    )
    hotwords: tuple[str, ...] = option(
        (), "a file of words and phrases that are expected, one a line", reads=Path, parse=read_words
    )
    on_error: Callable[[ChainruleError], object] | None = option(None, "a callback for errors", flag=None)
    progress: ProgressOption = option(None, "whether progress is shown, or a callback", flag=None)


@dataclass(frozen=True, kw_only=True)
class CtcOptions(DecodingOptions):
    """As `DecodingOptions`, and what the columns are.

    labels: of the columns, or a file of them; by default those that the outputs come with. blank, space: the labels
    that are CTC's blank and the space, where `Alphabet.build_alphabet` does not know them by their names.
    """

    labels: tuple[str, ...] | str | PathLike[str] | None = option(
        None,
        "the labels of the columns: a file with one on each line, or JSON, such as vocab.json; .npz and JSON lines may "
        "have theirs",
        reads=Path,
    )
    blank: str | None = option(
        None, "the label of the blank; by default an empty label, <pad>, [PAD], <blank>, <blk> or _, or - as the first"
    )
    space: str | None = option(None, "the label of the space; by default a space, | or <space>")


@dataclass(frozen=True)
class TranscribeOptions(DecodingOptions, WhisperOptions):
    """As `DecodingOptions`, of sounds. language_model: any; without one, the network alone decides."""

    language_model: Model | None = option(None, "a language model", flag=None)
    _: KW_ONLY
    greedy: bool = option(
        False, "take the likeliest label of each step, without a search and a language model", is_switch=True
    )
    lower_case: bool = option(False, "write small letters where the model's labels are capitals", is_switch=True)
    window: float | None = option(
        None,
        "seconds that a network hears at once: longer sounds are heard in overlapping windows; by default 30, or 300 "
        "with a network that train speech made",
        least=0.1,
        most=3600,
    )
    overlap: float | None = option(
        None,
        "seconds at either end of a window that are heard again in its neighbour, and only give context; by default a "
        "sixth of the window",
        least=0.01,
        most=600,
    )
    texts: int | None = option(
        None, "how many texts of each sound are kept; by default as many as hypotheses", least=1, flag=None
    )

    def refuse(self, names: Set[str], network: str) -> None:
        """Raise SettingError where an option was given that has no effect. names: of such options, for the network."""
        defaults = {field.name: field.default for field in fields(self)}
        for name in sorted(name for name in self.given.keys() & names if getattr(self, name) != defaults[name]):
            raise SettingError(f"{name} is {getattr(self, name)!r}, which has no effect on {network}; leave it out")

    def greedily(self) -> Self:
        """Return the same options for the network alone, without a search."""
        return replace(self, language_model=None, greedy=True, words=())


@dataclass(frozen=True)
class MeasureSpeechOptions(TranscribeOptions):
    """As `TranscribeOptions`, where texts are measured against references."""

    plain_words: bool = option(False, "of sounds: compare words in small letters, without punctuation", is_switch=True)
