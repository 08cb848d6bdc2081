"""How Whisper hears a recording: window after window, each from the last time that is written in the one before.

Legend: M mel bands.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError, TextError
from chainrule.features.speech.ctc import DecodedUtterance, Heard, HeardLanguage, HeardSegment, HeardWord
from chainrule.features.speech.search.language_model import fusion_of
from chainrule.features.speech.whisper.decoding import WindowDecoder, language_probs
from chainrule.features.speech.whisper.frames import FrameStream, windowed
from chainrule.features.speech.whisper.options import BEAM, CTC_ONLY
from chainrule.features.speech.whisper.word_times import token_steps
from chainrule.models.any_model import check_model
from chainrule.models.model import Model
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.features.seq2seq.network.model import NeuralSeq2SeqModel, SourceConditionedModel
    from chainrule.features.speech.options import TranscribeOptions
    from chainrule.features.speech.search.language_model import ShallowFusion
    from chainrule.features.speech.sounds.sound import Sound
    from chainrule.features.speech.whisper.config import WhisperConfig
    from chainrule.features.speech.whisper.decoding import DecodedWindow, WindowText
    from chainrule.features.speech.whisper.rules import TokenForms
    from chainrule.text.tokenization.tokenizer import Tokenizer

_FORGETS = 0.5  # a text that was drawn at a higher temperature is not read before the next window


class _Part(NamedTuple):
    """A stretch of a window's text between two times. first, last: its steps in the window."""

    tokens: list[int]
    first: int
    last: int


class _Path(NamedTuple):
    """A text of all windows so far, by their texts. rank: the sum of their means."""

    text: str
    log_prob: float
    lm: float
    rank: float


class WhisperTranscriber:
    """Implements `Transcriber`."""

    def __init__(
        self,
        model: NeuralSeq2SeqModel,
        config: WhisperConfig,
        tokenizer: Tokenizer,
        forms: TokenForms,
        options: TranscribeOptions,
    ) -> None:
        """Prepare the search. model: of texts given frames. Raises SettingError."""
        options.refuse(CTC_ONLY, "Whisper")
        self.model, self.options, self.config, self.forms = model, options, config, forms
        self.language = None if options.language is None else config.language(options.language)
        self.task = config.task(options.task)
        if not options.temperatures:
            raise SettingError("there are no temperatures; expected one or more, such as 0")
        if options.language_model is not None:
            check_model(options.language_model, Model)
        self.fusion = fusion_of(options.language_model, options)
        beam = options.beam if "beam" in options.given else max(BEAM, options.texts or 0)
        beam = 1 if options.greedy else beam
        self.texts = min(options.texts or beam, beam)
        self.decoder = WindowDecoder(config, self.forms, options, beam=beam, best=self.texts)
        self.prompt = []
        if options.initial_prompt:
            [ids] = documents_of(tokenizer.encode_texts([f" {options.initial_prompt.strip()}"]).ids)
            self.prompt = ids.tolist()

    def begin(self, id: str, name: str) -> WhisperHearing:
        """Implement `Transcriber.begin`."""
        return WhisperHearing(self, id, name)

    def asked(self, language: str | None) -> list[int]:
        """Return the tokens of the language and of the task."""
        if language is None:
            return list(self.task)
        return [self.config.language_tokens[self.config.languages.index(language)], *self.task]


class WhisperHearing:
    """Implements `Hearing`."""

    def __init__(self, transcriber: WhisperTranscriber, id: str, name: str) -> None:
        self._transcriber, self._id, self._name = transcriber, id, name
        self._config = transcriber.config
        self._stream = FrameStream(self._config)
        self._listening = _Listening(transcriber, transcriber.fusion)
        self._recording: tuple[Float32[ndarray, "T M"], int] | None = None

    def add(self, sound: Sound) -> None:
        """Implement `Hearing.add`: what is loud anywhere in a recording changes all frames, so no text is written."""
        self._stream.add(sound.samples)

    def certain(self) -> Sequence[str]:
        """Implement `Hearing.certain`: the text of the windows that are whole, as if nothing louder followed."""
        window = self._config.window_frames
        if self._stream.count >= self._listening.first + window:
            frames = self._stream.so_far()
            while len(frames) >= self._listening.first + window:
                self._listening.hear(frames, len(frames), is_whole=False)
        return self._listening.paths[0].text.split()

    def end(self, progress: Progress = silent) -> DecodedUtterance:
        """Implement `Hearing.end`."""
        if self._stream.seconds * self._config.rate < self._config.hop:
            milliseconds = 1000 * self._config.hop / self._config.rate
            raise TextError(
                f"{self._name}: is {1000 * self._stream.seconds:.3g} ms long; expected {milliseconds:g} ms or more"
            )
        self._recording = self._stream.end()
        self._listening.hear_all(*self._recording, progress)
        return self._listening.decoded(self._id)

    def alone(self) -> str:
        """Implement `Hearing.alone`."""
        if self._transcriber.fusion is None:
            return self._listening.decoded(self._id).text
        assert self._recording is not None
        listening = _Listening(self._transcriber, None)
        listening.hear_all(*self._recording)
        return listening.decoded(self._id).text


class _Listening:
    """The texts of a recording so far. first: the frame that the next window begins with. paths: best first."""

    def __init__(self, transcriber: WhisperTranscriber, fusion: ShallowFusion | None) -> None:
        self._transcriber, self._config, self._fusion = transcriber, transcriber.config, fusion
        self._options, self._forms = transcriber.options, transcriber.forms
        self.first = 0
        self.paths = [_Path("", 0.0, 0.0, 0.0)]
        self._number = 0
        self._before = list(transcriber.prompt)
        self._segments: list[HeardSegment] = []
        self._words: list[HeardWord] = []
        self._language = None if transcriber.language is None else HeardLanguage(transcriber.language, None)

    def hear_all(self, frames: Float32[ndarray, "T M"], count: int, progress: Progress = silent) -> None:
        """Hear all windows that are left. count: the frames of the recording; silence follows."""
        is_whole = count <= self._config.window_frames
        while self.first < count:
            progress("transcribing", self.first, count)
            self.hear(frames, count, is_whole=is_whole)

    def hear(self, frames: Float32[ndarray, "T M"], count: int, *, is_whole: bool) -> None:
        """Hear the next window. is_whole: whether the recording has no other one."""
        config, options, begin = self._config, self._options, self.first // 2
        size = min(config.window_frames, count - self.first)
        given = self._transcriber.model.given([windowed(frames, self.first, config)])
        asked = self._transcriber.asked(self._language_of(given))
        decoded = self._transcriber.decoder.decode(
            given, self._before, asked, self._fusion, number=self._number, is_whole=is_whole
        )
        self._number += 1
        if decoded.is_silence(options):
            self.first += size
            return
        parts, steps = parts_of(decoded.texts[0].tokens, size // 2, config)
        own = [part for part in parts if part.first < part.last and self._forms.text(part.tokens).strip()]
        self._segments += [self._segment(part, begin, decoded) for part in own]
        if options.word_timestamps and own:
            self._words += self._words_of(own, begin, size // 2, given, asked)
        self.paths = self._longer(own, decoded, is_read=2 * steps >= size)
        if not options.condition_on_previous_text or decoded.temperature > _FORGETS:
            self._before = []
        else:
            self._before += [token for part in own for token in part.tokens]
        self.first += max(2, min(2 * steps, size))

    def decoded(self, id: str) -> DecodedUtterance:
        """Return the texts."""
        nbest = [Heard(path.text.strip(), (), path.log_prob, path.lm, path.rank) for path in self.paths]
        options = self._options
        return DecodedUtterance(
            id,
            (replace(nbest[0], words=tuple(self._words)), *nbest[1:]),
            "tokens",
            language=self._language,
            segments=tuple(self._segments),
            weights=None if self._fusion is None else {"alpha": options.alpha, "beta": options.beta},
        )

    def _language_of(self, given: SourceConditionedModel) -> str | None:
        """Return the language that was asked for, or else the likeliest in the first window."""
        if self._language is None and self._config.languages:
            probs = language_probs(given, self._config)
            likeliest = int(probs.argmax())
            self._language = HeardLanguage(self._config.languages[likeliest], float(probs[likeliest]))
        return None if self._language is None else self._language.code

    def _segment(self, part: _Part, begin: int, decoded: DecodedWindow) -> HeardSegment:
        return HeardSegment(
            self._forms.text(part.tokens).strip(),
            begin + part.first,
            begin + part.last,
            decoded.mean_log_prob,
            decoded.no_speech,
            decoded.temperature,
            decoded.compression_ratio,
        )

    def _words_of(
        self, parts: Sequence[_Part], begin: int, steps: int, given: SourceConditionedModel, asked: Sequence[int]
    ) -> Iterator[HeardWord]:
        """Yield the words of a window with their steps in the recording."""
        tokens = [token for part in parts for token in part.tokens if token < self._config.text]
        first = (begin + token_steps(given, asked, tokens, steps, self._config)).tolist()
        for places in self._forms.words(tokens):
            word = self._forms.text([tokens[place] for place in places]).strip()
            if word:
                yield HeardWord(word, first[places[0]], first[places[-1] + 1])

    def _longer(self, parts: Sequence[_Part], decoded: DecodedWindow, *, is_read: bool) -> list[_Path]:
        """Return the best texts with those of a window. is_read: whether the next window begins after this one."""
        best, *others = decoded.texts
        tokens = [token for part in parts for token in part.tokens]
        texts: list[tuple[str, WindowText]] = [(self._forms.text(tokens), best)]
        if is_read:  # else the others may end elsewhere
            texts += [(self._forms.text(other.tokens), other) for other in others]
        longer = [
            _Path(path.text + text, path.log_prob + own.log_prob, path.lm + own.lm, path.rank + own.mean)
            for path in self.paths
            for text, own in texts
        ]
        distinct: dict[str, _Path] = {}
        for path in sorted(longer, key=lambda path: -path.rank):
            distinct.setdefault(path.text.strip(), path)
        return list(distinct.values())[: self._transcriber.texts]


def parts_of(tokens: Sequence[int], steps: int, config: WhisperConfig) -> tuple[list[_Part], int]:
    """Return the stretches of a window's text between times, and after how many steps the next window begins.

    What follows the last pair of times is cut off in the middle, so it is heard again. steps: of the window.
    """
    first_time = config.first_time
    is_time = [token >= first_time for token in tokens]
    breaks = [place for place, (one, other) in enumerate(pairwise(is_time), 1) if one and other]
    ends_once = is_time[-2:] == [False, True]
    if not breaks:
        times = [token - first_time for token in tokens if token >= first_time]
        last = times[-1] if times and times[-1] else steps
        return [_Part(list(tokens), 0, last)], steps
    if ends_once:
        breaks.append(len(tokens))
    parts = []
    for start, stop in pairwise([0, *breaks]):
        own = list(tokens[start:stop])
        parts.append(_Part(own, max(0, own[0] - first_time), max(0, own[-1] - first_time)))
    return parts, steps if ends_once else tokens[breaks[-1] - 1] - first_time
