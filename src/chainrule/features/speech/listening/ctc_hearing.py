"""How networks of CTC hear a recording: in windows, whose log-probabilities are joined and searched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError
from chainrule.features.speech.ctc import DecodedUtterance, Decoder, Heard, HeardWord, with_confidences
from chainrule.features.speech.listening.listener import Listener
from chainrule.features.speech.listening.windows import InSteps, Windows
from chainrule.features.speech.search.alignment import best_path
from chainrule.features.speech.search.alphabet import Alphabet
from chainrule.features.speech.search.search import Labels
from chainrule.features.speech.whisper.options import WHISPER_ONLY
from chainrule.models.any_model import check_model
from chainrule.models.model import Model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.features.speech.options import TranscribeOptions
    from chainrule.features.speech.sounds.sound import Sound


class CtcNetwork(Listener, InSteps, Protocol):
    """A `Listener` that gives log-probabilities of labels at each step.

    columns: the label of each column; that of the blank is empty.
    """

    @property
    def columns(self) -> tuple[str, ...]: ...

    def log_probs(self, sound: Sound) -> Float32[ndarray, "S C"]:
        """Return log-probabilities of the labels of a sound that is read at once. Raises TextError: it is too short."""


class CtcTranscriber:
    """Implements `Transcriber`: the search of `chainrule ctc`, or the likeliest label of each step."""

    def __init__(self, network: CtcNetwork, options: TranscribeOptions) -> None:
        """Prepare the search. Raises SettingError."""
        options.refuse(WHISPER_ONLY, "a network of CTC")
        self.network, self.columns = network, columns_of(network, lower_case=options.lower_case)
        self.blank = self.columns.index("")
        self._window = options.window, options.overlap
        self.windows("")
        self.decoder: Decoder | None = None
        alphabet = alphabet_of(self.columns)
        self.labels = Labels(alphabet)
        if not options.greedy:
            if options.language_model is not None:
                check_model(options.language_model, Model)
            self.decoder = Decoder(options.language_model, options, alphabet)
            self.labels = self.decoder.labels_of(tuple(alphabet.labels))

    def begin(self, id: str, name: str) -> CtcHearing:
        """Implement `Transcriber.begin`."""
        return CtcHearing(self, id, name)

    def windows(self, name: str) -> Windows:
        """Return what reads a recording in windows. Raises SettingError."""
        return Windows(self.network, self.network.log_probs, name, *self._window)

    def greedy(self, log_probs: Float32[ndarray, "S C"]) -> Heard:
        """Return the text of the likeliest label of each step."""
        path = best_path(log_probs, self.blank)
        words = words_of([(self.columns[label], start, stop) for label, start, stop in path.labels])
        return Heard(" ".join(own.word for own in words), words, path.log_prob, 0.0)


class CtcHearing:
    """Implements `Hearing`."""

    def __init__(self, transcriber: CtcTranscriber, id: str, name: str) -> None:
        self._transcriber, self._id, self._windows = transcriber, id, transcriber.windows(name)
        self._decoding = None if transcriber.decoder is None else transcriber.decoder.begin(transcriber.labels)
        self._parts: list[Float32[ndarray, "S C"]] = []
        self._asked, self._certain = 0, list[str]()

    def add(self, sound: Sound) -> None:
        """Implement `Hearing.add`."""
        for log_probs in self._windows.add(sound.samples):
            self.take(log_probs)

    def take(self, log_probs: Float32[ndarray, "S C"]) -> None:
        """Take the log-probabilities of the steps that come next."""
        self._parts.append(log_probs)
        if self._decoding is not None:
            self._decoding.run(log_probs)

    def certain(self) -> Sequence[str]:
        """Implement `Hearing.certain`: what all texts of the search share, or words that a space has ended."""
        if len(self._parts) != self._asked:
            self._asked, self._certain = len(self._parts), self._words_so_far()
        return self._certain

    def _words_so_far(self) -> list[str]:
        if self._decoding is not None:
            return self._decoding.certain()
        columns = self._transcriber.columns
        path = np.concatenate([part.argmax(1) for part in self._parts] or [np.empty(0, np.int64)])
        labels = path[np.append(True, path[1:] != path[:-1])] if len(path) else path
        return "".join(columns[label] for label in labels.tolist()).rpartition(" ")[0].split()

    def end(self, progress: Progress = silent) -> DecodedUtterance:
        """Implement `Hearing.end`."""
        for rest in self._windows.end():
            self.take(rest)
        log_probs = self.log_probs()
        if self._decoding is None:
            best = self._transcriber.greedy(log_probs)
            words = with_confidences(best.words, log_probs, self._transcriber.labels)
            nbest: tuple[Heard, ...] = (Heard(best.text, words, best.ctc, best.lm),)
        else:
            nbest = self._decoding.finish(log_probs)
        return DecodedUtterance(self._id, nbest, "log-probabilities")

    def alone(self) -> str:
        """Implement `Hearing.alone`."""
        return self._transcriber.greedy(self.log_probs()).text

    def log_probs(self) -> Float32[ndarray, "S C"]:
        """Return the log-probabilities of all steps so far."""
        return np.concatenate([np.empty((0, len(self._transcriber.columns)), np.float32), *self._parts])


def columns_of(network: CtcNetwork, *, lower_case: bool = False) -> tuple[str, ...]:
    """Return the labels of a network's columns, perhaps in small letters. Raises SettingError if two are the same."""
    columns = tuple(label.lower() for label in network.columns) if lower_case else network.columns
    if len(set(columns)) < len(columns):
        raise SettingError("the model writes capitals and small letters; leave out lower_case")
    return columns


def alphabet_of(columns: Sequence[str]) -> Alphabet:
    """Return the labels of columns as the search knows them."""
    if any(len(label) > 1 for label in columns):  # <s>, <unk>, or parts of words
        return Alphabet.build_alphabet(columns)
    return Alphabet([*columns], is_bpe=False)


def words_of(characters: Sequence[tuple[str, int, int]]) -> tuple[HeardWord, ...]:
    """Return words with their first step, and the one after their last."""
    words: list[HeardWord] = []
    is_new = True
    for character, start, stop in characters:
        if character == " ":
            is_new = True
        elif is_new:
            words.append(HeardWord(character, start, stop))
            is_new = False
        else:
            words[-1] = HeardWord(words[-1].word + character, words[-1].start, stop)
    return tuple(words)
