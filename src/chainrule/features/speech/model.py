"""SpeechModel: writes what is said in sounds. A network that was trained by CTC, its labels, and the training record.

model = chainrule.train_speech(chainrule.read_transcripts("train.tsv"))
next(model.transcribe(["hello.wav"], chainrule.load("lm/"))).text
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from chainrule.base.arguments import as_path
from chainrule.base.options import takes
from chainrule.drawing.plots import PICTURE_SUFFIXES
from chainrule.errors import TextError, opening_folder
from chainrule.features.speech.ctc import DecodedUtterance, Decoder, Heard, HeardWord, decoded
from chainrule.features.speech.measurement import SpeechMeasurement
from chainrule.features.speech.options import TranscribeOptions
from chainrule.features.speech.search.alignment import align, best_path
from chainrule.features.speech.search.alphabet import Alphabet
from chainrule.features.speech.search.logits import Utterance
from chainrule.features.speech.sounds.features import HOP_SECONDS, log_mel, normalised
from chainrule.features.speech.sounds.sound import Sound, read_sound
from chainrule.features.speech.sounds.transcripts import check_transcripts, clean_text
from chainrule.models.any_model import AnyModel, check_model
from chainrule.models.files.model_card import model_card
from chainrule.models.files.tokenizers import tokenizer_entry
from chainrule.models.model import Model
from chainrule.models.model_info import info_of_network, size_of
from chainrule.models.progress_line import ProgressOption, callback, showing, shows_progress
from chainrule.neural.config import settings_of
from chainrule.storage.model_folder import VOCABULARY_ARRAYS, open_model, save_model
from chainrule.text.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import Self

    from jaxtyping import Float32, Int16
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.features.speech.network import SpeechNetwork
    from chainrule.features.speech.sounds.transcripts import Transcript
    from chainrule.models.model_info import ModelInfo
    from chainrule.models.open_options import OpenOptions

FAMILY = "speech"
BLANK = 0


class AlignedText(NamedTuple):
    """A text with the steps of each of its characters: the first one, and the one after the last. log_prob: of the
    likeliest alignment, in nats. frames: the log-mel frames. log_probs: what the network heard, (steps, labels).
    """

    text: str
    characters: tuple[tuple[str, int, int], ...]
    log_prob: float
    frames: Int16[ndarray, "T M"]
    log_probs: Float32[ndarray, "S C"]


class SpeechModel(AnyModel):
    """P(label | sound) at each step, and texts of it."""

    family = FAMILY
    attention_files: ClassVar[tuple[str, ...]] = PICTURE_SUFFIXES
    capability: ClassVar[str] = "hears sounds (chainrule transcribe, or chainrule.load(path).transcribe)"

    def __init__(self, network: SpeechNetwork, record: dict[str, Any] | None = None) -> None:
        self.network, self.record = network, record or {}

    @classmethod
    def open(cls, path: Path, options: OpenOptions, progress: Progress) -> Self:
        """Implement `AnyModel.open`."""
        from chainrule.features.speech.network import put_together_speech

        entry, arrays, _, _ = open_model(path)
        with opening_folder(path, ValueError):
            weights = {name: array for name, array in arrays.items() if not name.startswith(VOCABULARY_ARRAYS)}
            network = put_together_speech(entry.settings.get("network"), weights)
        return cls(network, entry.record)

    def drawn_network(self) -> Any:
        """Implement `AnyModel.drawn_network`."""
        return self.network

    def info(self, *, size: int | None = None) -> ModelInfo:
        """Implement `AnyModel.info`."""
        name = f"none; it writes {''.join(self.labels)!r}"
        return info_of_network(FAMILY, name, len(self.labels) + 1, self.record, size=size)  # and the blank

    def __repr__(self) -> str:
        return f"<SpeechModel: {self.network.config.encoder}, {len(self.labels)} labels{size_of(self.record)}>"

    def _repr_html_(self) -> str:
        return self.info()._repr_html_()

    @property
    def labels(self) -> tuple[str, ...]:
        """The characters that the model writes."""
        return self.network.config.labels

    @property
    def step_seconds(self) -> float:
        """The seconds from one step of the network's outputs to the next."""
        return self.network.config.stacked * HOP_SECONDS

    @property
    def alphabet(self) -> Alphabet:
        """The labels of the network's columns, the blank first."""
        return Alphabet(["", *self.labels], is_bpe=False)

    def sound(self, given: Sound | str | os.PathLike[str]) -> Sound:
        """Return a sound at the rate that the network reads. Raises TextError."""
        return given if isinstance(given, Sound) else read_sound(given, self.network.config.rate)

    def frames(self, given: Sound | str | os.PathLike[str]) -> Int16[ndarray, "T M"]:
        """Return the log-mel frames of a sound, in steps of 1/512 of a nat. Raises TextError."""
        sound, config = self.sound(given), self.network.config
        if sound.rate != config.rate:
            raise TextError(
                f"{sound.name}: has {sound.rate:,} samples a second, and the model reads {config.rate:,}; give a file, "
                "which is converted, or resample it"
            )
        return log_mel(sound, config.mels)

    def log_probs(self, given: Sound | str | os.PathLike[str]) -> Float32[ndarray, "S C"]:
        """Return what the network hears: log-probabilities of the blank and of each label, a row for each step.

        Raises TextError.
        """
        return self._log_probs(self.frames(given))

    @takes(TranscribeOptions)
    def transcribe(
        self, sounds: Iterable[Sound | str | os.PathLike[str]], options: TranscribeOptions
    ) -> Iterator[DecodedUtterance]:
        """Return what is said in each sound, the likeliest texts first, lazily; frames of words are `step_seconds`
        long.

        sounds: files, or `Sound`s. The options are those of `TranscribeOptions`. Raises TextError, SettingError; of a
        single sound, `on_error` gets them if it is given.

        good:  [heard.text for heard in model.transcribe(["hello.wav"], chainrule.load("lm/"))]
        """
        if isinstance(sounds, str | os.PathLike | Sound):
            raise TypeError("transcribe takes several sounds; put a single one in a list")
        return self._decoded((self._heard(given) for given in sounds), options)

    @takes(TranscribeOptions)
    def evaluate(self, transcripts: Sequence[Transcript], options: TranscribeOptions) -> SpeechMeasurement:
        """Return word and character error rates of the texts that the model writes, with intervals: of the likeliest
        label of each step, and with a language model, if one is given, also the gain by it.

        transcripts: as `read_transcripts` gives them. The options are those of `TranscribeOptions`. Raises TextError,
        SettingError.

        good:  print(model.evaluate(chainrule.read_transcripts("test.tsv"), chainrule.load("lm/")))
        """
        transcripts = check_transcripts(transcripts, self.network.config.mels)
        with showing(options.progress) as progress:
            heard = []
            for number, item in enumerate(transcripts):
                progress("listening", number, len(transcripts))
                heard.append(Utterance(str(number), self._log_probs(item.frames), item.place))
            greedy = [self._greedy(item).text for item in heard]
            with_model = None
            if options.language_model is not None and not options.greedy:
                decoder = self._decoder(options)
                with_model = []
                for number, utterance in enumerate(heard):
                    progress("decoding", number, len(heard))
                    with_model.append(decoder.decode(utterance).text)
        references = [item.text for item in transcripts]
        return SpeechMeasurement.of(references, greedy, with_model)

    def align(self, given: Sound | str | os.PathLike[str], text: str | None = None) -> AlignedText:
        """Return when each character of a text is said in a sound, by the likeliest alignment (Viterbi).

        text: by default what the network writes itself. Raises TextError where it has a character that is no label, or
        needs more steps than there are.
        """
        frames = self.frames(given)
        log_probs = self._log_probs(frames)
        if text is None:
            aligned = best_path(log_probs, BLANK)
        else:
            text = clean_text(text)
            aligned = align(log_probs, self.columns(text), BLANK)
        characters = tuple((self.labels[label - 1], start, stop) for label, start, stop in aligned.labels)
        return AlignedText("".join(own for own, *_ in characters), characters, aligned.log_prob, frames, log_probs)

    def columns(self, text: str) -> list[int]:
        """Return the columns of a text's characters. Raises TextError where one is no label."""
        column = {label: number for number, label in enumerate(self.labels, 1)}
        unknown = sorted(set(text) - set(column))
        if unknown:
            raise TextError(f"the text {text!r} has {', '.join(map(repr, unknown))}, which the model has never written")
        return [column[character] for character in text]

    @shows_progress
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, progress: ProgressOption = None) -> None:
        """Write a model folder. Raises OutputError."""
        from chainrule.neural.saving import arrays_of

        tokenizer = Tokenizer.untrained("whitespace")  # of none of its texts, but every folder has one
        arrays = arrays_of(self.network)
        size = sum(array.nbytes for array in arrays.values())
        arrays |= {VOCABULARY_ARRAYS + name: array for name, array in tokenizer.vocabulary.arrays().items()}
        save_model(
            as_path(path),
            family=FAMILY,
            settings={"network": settings_of(self.network.config)},
            tokenizer=tokenizer_entry(tokenizer),
            arrays=arrays,
            record=self.record,
            card=model_card(self.info(size=size).rows()),
            overwrite=overwrite,
            progress=callback(progress),
        )

    def _log_probs(self, frames: Int16[ndarray, "T M"]) -> Float32[ndarray, "S C"]:
        return self.network.log_probs(normalised(frames))

    def _heard(self, given: Sound | str | os.PathLike[str]) -> Utterance | TextError:
        try:
            name = given.name if isinstance(given, Sound) else os.fspath(given)
            return Utterance("_".join(name.split()) or "sound", self.log_probs(given), name)
        except TextError as error:
            return error

    def _decoded(
        self, heard: Iterable[Utterance | TextError], options: TranscribeOptions
    ) -> Iterator[DecodedUtterance]:
        return decoded(heard, _Greedy(self) if options.greedy else self._decoder(options), options)

    def _decoder(self, options: TranscribeOptions) -> Decoder:
        if options.language_model is not None:
            check_model(options.language_model, Model)
        return Decoder(options.language_model, options, self.alphabet)

    def _greedy(self, heard: Utterance) -> DecodedUtterance:
        path = best_path(np.asarray(heard.outputs), BLANK)
        words = _words([(self.labels[label - 1], start, stop) for label, start, stop in path.labels])
        text = " ".join(own.word for own in words)
        return DecodedUtterance(heard.id, (Heard(text, words, path.log_prob, 0.0),), "log-probabilities")


class _Greedy:
    """In the place of a `Decoder`: the likeliest label of each step."""

    def __init__(self, model: SpeechModel) -> None:
        self._model = model

    def decode(self, utterance: Utterance) -> DecodedUtterance:
        """Implement `Decoder.decode`."""
        return self._model._greedy(utterance)


def _words(characters: Sequence[tuple[str, int, int]]) -> tuple[HeardWord, ...]:
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
