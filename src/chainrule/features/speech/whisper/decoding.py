"""One window of Whisper: the search for its text, and what is tried again where the text looks wrong."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.decoding.beam import search
from chainrule.decoding.config import SamplingConfig
from chainrule.decoding.limits import Constraints
from chainrule.decoding.sampling import sample
from chainrule.features.seq2seq.options import TargetBeam
from chainrule.features.speech.whisper.rules import RuledModel
from chainrule.protocol import BEGIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.features.seq2seq.network.model import SourceConditionedModel
    from chainrule.features.speech.search.language_model import ShallowFusion
    from chainrule.features.speech.whisper.config import WhisperConfig
    from chainrule.features.speech.whisper.options import WhisperOptions
    from chainrule.features.speech.whisper.rules import TokenForms

_NOTHING = np.empty(0, np.int32)


class WindowText(NamedTuple):
    """A text of a window.

    tokens: with times, without the end. log_prob: of tokens and end given the sound, in nats. lm: what the language
    model adds. length: the tokens predicted, with the end.
    """

    tokens: list[int]
    log_prob: float
    lm: float
    length: int

    @property
    def mean(self) -> float:
        """What texts are ranked by: the mean over tokens, as in OpenAI's search."""
        return (self.log_prob + self.lm) / self.length


class DecodedWindow(NamedTuple):
    """The texts of a window, best first, and what says whether they are right.

    temperature: that they were drawn at; 0: searched for. compression_ratio: how often the best text repeats itself.
    no_speech: the probability of silence.
    """

    texts: list[WindowText]
    temperature: float
    compression_ratio: float
    no_speech: float

    @property
    def mean_log_prob(self) -> float:
        """Of the best text given the sound, as OpenAI counts it."""
        best = self.texts[0]
        return best.log_prob / (len(best.tokens) + 1)

    def is_silence(self, options: WhisperOptions) -> bool:
        """Return whether nothing is said."""
        if options.no_speech_threshold is None or self.no_speech <= options.no_speech_threshold:
            return False
        return options.logprob_threshold is None or self.mean_log_prob <= options.logprob_threshold

    def looks_wrong(self, options: WhisperOptions) -> bool:
        """Return whether another temperature should be tried."""
        repeats, least = options.compression_ratio_threshold, options.logprob_threshold
        is_unlikely = least is not None and self.mean_log_prob < least
        if is_unlikely and options.no_speech_threshold is not None and self.no_speech > options.no_speech_threshold:
            return False
        return is_unlikely or (repeats is not None and self.compression_ratio > repeats)


class WindowDecoder:
    """Finds the texts of windows. beam: how many hypotheses. best: how many texts."""

    def __init__(
        self, config: WhisperConfig, forms: TokenForms, options: WhisperOptions, *, beam: int, best: int
    ) -> None:
        self._config, self._forms, self._options = config, forms, options
        self._beam = TargetBeam(size=max(beam, best), best=best, stop="full")

    def decode(
        self,
        given: SourceConditionedModel,
        before: Sequence[int],
        asked: Sequence[int],
        fusion: ShallowFusion | None,
        *,
        number: int,
        is_whole: bool,
    ) -> DecodedWindow:
        """Return the texts of a window.

        before: the text of earlier windows. asked: the tokens of the language and of the task. number: of the window.
        is_whole: whether the recording has no other one. Raises SettingError.
        """
        config, options = self._config, self._options
        half = config.learned_positions // 2
        told = [] if config.previous is None or not before else [config.previous, *before[-(half - 1) :]]
        state = given.stepping.read([np.array([*told, BEGIN], np.int32)])
        no_speech = 0.0
        if config.no_speech is not None:
            no_speech = float(np.exp(given.next_log_probs(state)[0, config.no_speech]))
        asked = [*asked, *([] if options.timestamps else [config.no_timestamps])]
        if asked:
            state = given.stepping.read([np.array(asked, np.int32)], state)
        room = min(half, config.learned_positions - len(told) - len(asked) - 1)
        constraints = Constraints(max_tokens=max(1, room))
        parts = given, state, config, self._forms
        alone = RuledModel(*parts, timed=options.timestamps)
        fused = alone
        if fusion is not None:
            fused = RuledModel(*parts, timed=options.timestamps, fusion=fusion, is_whole=is_whole)
        decoded = None
        for temperature in options.temperatures:
            if temperature:
                texts = self._drawn(alone, fused, constraints, temperature, number)
            else:
                texts = self._searched(fused, constraints)
            decoded = DecodedWindow(texts, temperature, repetition(self._forms.text(texts[0].tokens)), no_speech)
            if not decoded.looks_wrong(options):
                break
        assert decoded is not None
        return decoded

    def _searched(self, model: RuledModel, constraints: Constraints) -> list[WindowText]:
        [result] = search(model, [_NOTHING], self._beam, constraints)
        texts = []
        for found in result.hypotheses:
            tokens, ended = found.tokens.tolist(), found.ending == "end"
            lm = model.fused(tokens, ended=ended)
            texts.append(WindowText(tokens, found.log_prob - lm, lm, len(tokens) + ended))
        return texts

    def _drawn(
        self, alone: RuledModel, fused: RuledModel, constraints: Constraints, temperature: float, number: int
    ) -> list[WindowText]:
        """Draw as many texts as the search has hypotheses, without the language model, which only ranks them."""
        drawn = sample(
            alone,
            [_NOTHING],
            SamplingConfig(temperature=temperature),
            constraints,
            seed=self._options.seed,
            texts_per_prefix=self._beam.size,
            first=number * self._beam.size,
        )
        texts = []
        for one in drawn:
            tokens, ended = one.tokens.tolist(), one.ending == "end"
            texts.append(WindowText(tokens, one.log_prob, fused.fused(tokens, ended=ended), len(tokens) + ended))
        return sorted(texts, key=lambda text: -text.mean)[: self._beam.best]


def language_probs(given: SourceConditionedModel, config: WhisperConfig) -> Float32[ndarray, " languages"]:
    """Return the probability of each language, given a window."""
    state = given.stepping.read([np.array([BEGIN], np.int32)])
    log_probs = given.next_log_probs(state)[0, list(config.language_tokens)]
    shares = np.exp(log_probs - log_probs.max())
    return np.asarray(shares / shares.sum())


def repetition(text: str) -> float:
    """Return how many times smaller zlib makes a text: a text that repeats itself, more than 2.4 times."""
    data = text.strip().encode("utf-8", "replace")
    return len(data) / len(zlib.compress(data))
