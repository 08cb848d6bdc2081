"""SpeechModel: writes what is said in sounds. A network that hears, of any kind, and how it came to be.

model = chainrule.train_speech(chainrule.read_transcripts("train.tsv"))
next(model.transcribe(["hello.wav"], chainrule.load("lm/"))).text
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from chainrule.base.arguments import as_path
from chainrule.base.options import config_among, takes
from chainrule.drawing.plots import PICTURE_SUFFIXES
from chainrule.errors import TextError, WrongModelError, opening_folder
from chainrule.features.speech.ctc import DecodedUtterance, decoded
from chainrule.features.speech.listening.ctc_hearing import CtcTranscriber, alphabet_of
from chainrule.features.speech.listening.listener import GivesFeatures
from chainrule.features.speech.listening.windows import Windows
from chainrule.features.speech.measurement import SpeechMeasurement, plain_words
from chainrule.features.speech.options import MeasureSpeechOptions, TranscribeOptions
from chainrule.features.speech.search.alignment import align, best_path
from chainrule.features.speech.sounds.features import log_mel
from chainrule.features.speech.sounds.sound import Recording, Sound, open_sound, read_sound
from chainrule.features.speech.sounds.transcripts import MELS, check_transcripts, clean_text
from chainrule.kinds import kinds
from chainrule.models.any_model import AnyModel
from chainrule.models.files.model_card import model_card
from chainrule.models.files.tokenizers import tokenizer_entry, tokenizer_from
from chainrule.models.model_info import info_of_network, size_of
from chainrule.models.progress_line import ProgressOption, callback, showing, shows_progress
from chainrule.neural.config import settings_of
from chainrule.storage.model_folder import TOKENIZER, VOCABULARY_ARRAYS, open_model, save_model
from chainrule.text.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import Self

    from jaxtyping import Float32, Int16
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.features.speech.listening.listener import Hearing, Listener
    from chainrule.features.speech.search.alphabet import Alphabet
    from chainrule.features.speech.sounds.transcripts import Transcript
    from chainrule.models.model_info import ModelInfo
    from chainrule.models.open_options import OpenOptions

    AnySound = Sound | Recording | str | os.PathLike[str]

FAMILY = "speech"
_LIVE_WINDOW = 12.0  # seconds, of recordings that are transcribed while they last


class AlignedText(NamedTuple):
    """A text with the steps of each of its characters: the first one, and the one after the last. log_prob: of the
    likeliest alignment, in nats. frames: log-mel frames. log_probs: what the network heard, (steps, labels), without
    the blank.
    """

    text: str
    characters: tuple[tuple[str, int, int], ...]
    log_prob: float
    frames: Int16[ndarray, "T M"]
    log_probs: Float32[ndarray, "S C"]


class NewWords(NamedTuple):
    """Words of a recording that have become certain. utterance: all that was heard, at the end."""

    words: tuple[str, ...]
    utterance: DecodedUtterance | None = None


class SpeechModel(AnyModel):
    """A network that hears, and texts of what it hears."""

    family = FAMILY
    attention_files: ClassVar[tuple[str, ...]] = PICTURE_SUFFIXES
    capability: ClassVar[str] = "hears sounds (chainrule transcribe, or chainrule.load(path).transcribe)"

    def __init__(self, network: Listener, record: dict[str, Any] | None = None) -> None:
        self.network, self.record = network, record or {}

    @classmethod
    def open(cls, path: Path, options: OpenOptions, progress: Progress) -> Self:
        """Implement `AnyModel.open`."""
        entry, arrays, texts, _ = open_model(path)
        with opening_folder(path, ValueError):
            weights = {name: array for name, array in arrays.items() if not name.startswith(VOCABULARY_ARRAYS)}
            config = config_among([kind.get() for kind in kinds()[FAMILY].configs], entry.settings.get("network"))
            tokenizer = None
            if (definition := texts.get(TOKENIZER)) is not None:
                tokenizer = tokenizer_from(entry.tokenizer, arrays, VOCABULARY_ARRAYS, definition)
            return cls.put_together(config, weights, entry.record, tokenizer)

    @classmethod
    def put_together(
        cls, config: Any, arrays: dict[str, ndarray], record: dict[str, Any], tokenizer: Tokenizer | None = None
    ) -> Self:
        """Return a model from the settings of its network and arrays, which are used without a copy.

        tokenizer: of a network that writes tokens. Raises ModelFormatError.
        """
        from chainrule.neural.saving import check_layers, filled_network

        check_layers(config.layers, arrays)
        network = filled_network(lambda: config.network.get()(config), arrays).eval()
        if tokenizer is not None:
            network.tokenizer = tokenizer
        return cls(network, record)

    def drawn_network(self) -> Any:
        """Implement `AnyModel.drawn_network`."""
        return self.network

    def info(self, *, size: int | None = None) -> ModelInfo:
        """Implement `AnyModel.info`."""
        writes, outputs = self.network.writes()
        return info_of_network(FAMILY, writes, outputs, self.record, size=size)

    def __repr__(self) -> str:
        return f"<SpeechModel: {self.network.config.encoder}, {self.network.writes()[1]} outputs{size_of(self.record)}>"

    def _repr_html_(self) -> str:
        return self.info()._repr_html_()

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the model writes, of CTC: characters, or parts of words."""
        return tuple(label for label in self._by_ctc().columns if label)

    @property
    def is_of_ctc(self) -> bool:
        """Whether the network gives log-probabilities of labels for each step."""
        return isinstance(self.network.transcriber(TranscribeOptions(greedy=True)), CtcTranscriber)

    @property
    def step_seconds(self) -> float:
        """The seconds from one step of the network's outputs to the next."""
        return self.network.step_seconds

    @property
    def alphabet(self) -> Alphabet:
        """The labels of the network's columns, of CTC, as the search knows them."""
        return alphabet_of(self._by_ctc().columns)

    def recording(self, given: AnySound) -> Recording:
        """Return a sound that is read in blocks, at the rate that the network reads. Raises TextError."""
        if not isinstance(given, Sound | Recording):
            return open_sound(given, self.network.rate)
        if given.rate != self.network.rate:
            raise TextError(
                f"{given.name}: has {given.rate:,} samples a second, and the model reads {self.network.rate:,}; give a "
                "file, which is converted, or resample it"
            )
        return Recording.of(given) if isinstance(given, Sound) else given

    def sound(self, given: Sound | str | os.PathLike[str]) -> Sound:
        """Return a sound at the rate that the network reads. Raises TextError."""
        return given if isinstance(given, Sound) else read_sound(given, self.network.rate)

    def frames(self, given: Sound | str | os.PathLike[str]) -> Int16[ndarray, "T M"]:
        """Return the log-mel frames of a sound, in steps of 1/512 of a nat. Raises TextError."""
        sound = self.sound(given)
        self.recording(sound)
        return log_mel(sound, self.network.mels or MELS)

    def log_probs(self, given: AnySound) -> Float32[ndarray, "S C"]:
        """Return what a network of CTC hears: log-probabilities of the labels of its columns, a row for each step.

        Raises TextError.
        """
        recording, hearing = self.recording(given), self._by_ctc().begin("sound", "")
        for samples in recording.blocks:
            hearing.add(Sound(samples, recording.rate, recording.name))
        hearing.end()
        return hearing.log_probs()

    def features(self, given: AnySound, layer: int | None = None) -> Float32[ndarray, "S D"]:
        """Return the vectors that a network of transformers gives for each step of a sound.

        layer: 0 for what the first layer reads, 1 for what it gives, -1 for what the last one gives; None for what the
        output reads. A long sound is heard in windows, as `transcribe` does it. Raises TextError, SettingError.

        good:  model.features("hello.wav").mean(axis=0)
        """
        network = self.network
        if not isinstance(network, GivesFeatures):
            raise WrongModelError("a network that was trained here gives no features; transcribe and align take it")
        recording = self.recording(given)
        windows = Windows(network, lambda sound: network.features(sound, layer), recording.name)
        rows = [found for samples in recording.blocks for found in windows.add(samples)]
        return np.concatenate([*rows, *windows.end()])

    @takes(TranscribeOptions)
    def transcribe(self, sounds: Iterable[AnySound], options: TranscribeOptions) -> Iterator[DecodedUtterance]:
        """Return what is said in each sound, the likeliest texts first, lazily; frames of words are `step_seconds`
        long.

        sounds: files, or `Sound`s. The options are those of `TranscribeOptions`. Raises TextError, SettingError; of a
        single sound, `on_error` gets them if it is given.

        good:  [heard.text for heard in model.transcribe(["hello.wav"], chainrule.load("lm/"))]
        """
        if isinstance(sounds, str | os.PathLike | Sound | Recording):
            raise TypeError("transcribe takes several sounds; put a single one in a list")
        transcriber = self.network.transcriber(options)

        def decode(given: AnySound, progress: Progress) -> DecodedUtterance:
            name = given.name if isinstance(given, Sound | Recording) else os.fspath(given)
            hearing = transcriber.begin("_".join(name.split()) or "sound", name)
            for _ in self._heard(given, hearing, progress):
                pass
            return hearing.end(progress)

        return decoded(sounds, decode, options)

    @takes(TranscribeOptions)
    def listen(self, recording: AnySound, options: TranscribeOptions) -> Iterator[NewWords]:
        """Return the words of a recording as they become certain, while it is read, and at the end the rest.

        recording: of a microphone, as `raw_recording` gives it; or any sound. The options are those of
        `TranscribeOptions`; without a window, windows of 12 s begin every 4 s. Raises TextError, SettingError.

        good:  for new in model.listen(raw_recording(sys.stdin.buffer, 16_000, 16_000)): print(*new.words)
        """
        if options.window is None and not self.network.searches:
            options = replace(options, window=_LIVE_WINDOW, overlap=options.overlap or _LIVE_WINDOW / 3)
        hearing = self.network.transcriber(options).begin("-", "the recording")
        said = 0
        with showing(options.progress) as progress:
            for _ in self._heard(recording, hearing, progress):
                words = hearing.certain()
                if len(words) > said:
                    yield NewWords(tuple(words[said:]))
                    said = len(words)
            utterance = hearing.end(progress)
        yield NewWords(tuple(utterance.text.split()[said:]), utterance)

    def _heard(self, given: AnySound, hearing: Hearing, progress: Progress) -> Iterator[float]:
        """Let a hearing have a sound, lazily, and yield how many seconds it has heard so far. Raises TextError."""
        recording, done = self.recording(given), 0.0
        for samples in recording.blocks:
            hearing.add(Sound(samples, recording.rate, recording.name))
            done += len(samples) / recording.rate
            progress("listening", done, recording.seconds)
            yield done

    @takes(MeasureSpeechOptions)
    def evaluate(self, transcripts: Sequence[Transcript], options: MeasureSpeechOptions) -> SpeechMeasurement:
        """Return word and character error rates of the texts that the model writes, with intervals: of the network
        alone, and with a language model, if one is given, also the gain by it.

        transcripts: as `read_transcripts` gives them. The options: `MeasureSpeechOptions`. Raises TextError,
        SettingError.

        good:  print(model.evaluate(chainrule.read_transcripts("test.tsv"), chainrule.load("lm/")))
        """
        transcripts = check_transcripts(transcripts, self.network.mels)
        is_fused = options.language_model is not None and not options.greedy
        transcriber = self.network.transcriber(options if is_fused or self.network.searches else options.greedily())
        alone, fused = [], []
        with showing(options.progress) as progress:
            for number, item in enumerate(transcripts):
                progress("listening", number, len(transcripts))
                hearing = transcriber.begin(str(number), item.place)
                self.network.hear(item, hearing)
                fused.append(hearing.end(progress).text)
                alone.append(hearing.alone())
        references = [item.text for item in transcripts]
        names = [item.path for item in transcripts]
        if options.plain_words:
            references, alone, fused = ([plain_words(text) for text in texts] for texts in (references, alone, fused))
        return SpeechMeasurement.of(references, alone, fused if is_fused else None, names)

    def align(self, given: Sound | str | os.PathLike[str], text: str | None = None) -> AlignedText:
        """Return when each character of a text is said in a sound, by the likeliest alignment (Viterbi) of CTC.

        text: by default what the network writes itself. Raises TextError where it has a character that is no label, or
        needs more steps than there are.
        """
        sound, ctc = self.sound(given), self._by_ctc()
        log_probs = self.log_probs(sound)
        if text is None:
            aligned = best_path(log_probs, ctc.blank)
        else:
            aligned = align(log_probs, self.columns(clean_text(text)), ctc.blank)
        characters = tuple((ctc.columns[label], start, stop) for label, start, stop in aligned.labels)
        labels = [column for column, label in enumerate(ctc.columns) if label]
        return AlignedText(
            "".join(own for own, *_ in characters),
            characters,
            aligned.log_prob,
            self.frames(sound),
            log_probs[:, labels],
        )

    def columns(self, text: str) -> list[int]:
        """Return the columns of a text's characters. Raises TextError where one is no label."""
        column = {label: number for number, label in enumerate(self._by_ctc().columns)}
        unknown = sorted(set(text) - set(column))
        if unknown:
            raise TextError(f"the text {text!r} has {', '.join(map(repr, unknown))}, which the model has never written")
        return [column[character] for character in text]

    @shows_progress
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, progress: ProgressOption = None) -> None:
        """Write a model folder. Raises OutputError."""
        from chainrule.neural.saving import arrays_of

        # Where there is none, one of none of its texts: every folder has one.
        tokenizer = self.network.tokenizer or Tokenizer.untrained("whitespace")
        definition = tokenizer.splitter.definition
        arrays = arrays_of(self.network)  # type: ignore[arg-type]  # an nn.Module
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
            texts={} if definition is None else {TOKENIZER: definition},
            overwrite=overwrite,
            progress=callback(progress),
        )

    def _by_ctc(self) -> CtcTranscriber:
        """Return the transcriber of a network of CTC. Raises WrongModelError where it is another."""
        transcriber = self.network.transcriber(TranscribeOptions(greedy=True))
        if not isinstance(transcriber, CtcTranscriber):
            raise WrongModelError(
                "the network was not trained by CTC, so that it gives no log-probabilities of labels for each step"
            )
        return transcriber
