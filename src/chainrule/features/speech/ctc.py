"""Decodes what a network heard, CTC's outputs, with a language model: texts, n-best lists, the times of words."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from chainrule.base.options import takes
from chainrule.base.results import Shown
from chainrule.base.tables import printable
from chainrule.errors import ChainruleError, SettingError, TextError
from chainrule.features.speech.options import CtcOptions, DecodingOptions
from chainrule.features.speech.search.alignment import log_probability
from chainrule.features.speech.search.alphabet import Alphabet, check_spelling
from chainrule.features.speech.search.beams import START
from chainrule.features.speech.search.language_model import fusion_of
from chainrule.features.speech.search.logits import (
    Utterance,
    as_log_probs,
    check_meaning,
    check_outputs,
    kind_of,
    read_labels,
    read_utterances,
)
from chainrule.features.speech.search.search import Labels, Limits, Search, output_beam
from chainrule.features.speech.search.words import Hotwords
from chainrule.models.any_model import check_model
from chainrule.models.model import Model
from chainrule.models.progress_line import showing
from chainrule.text.lookup import looked_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jaxtyping import Float
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.features.speech.search.logits import Kind
    from chainrule.features.speech.search.search import Cache

    Outputs = str | os.PathLike[str] | Float[ndarray, "T labels"] | Iterable[Float[ndarray, "T labels"]]

_FRAMES = 128  # after so many, a search forgets states of its language model, which hold the ends of texts
_SELDOM = 16  # after so many times as many, also what none of its texts goes back to, which takes longer


class HeardWord(NamedTuple):
    """A word with its first frame, and the one after its last.

    confidence: the probability that the network gives the word's labels in these frames, over all alignments; None
    where it was not asked for, or where labels are parts of words.
    """

    word: str
    start: int
    stop: int
    confidence: float | None = None


class HeardLanguage(NamedTuple):
    """The language of a recording, by its code. prob: its probability; None where it was chosen."""

    code: str
    prob: float | None


class HeardSegment(NamedTuple):
    """A stretch of a recording, with its first frame, and the one after its last.

    mean_log_prob: of the tokens of its window. no_speech: the probability that nothing is said there. temperature: at
    which its text was drawn; 0: it was searched for. compression_ratio: how often the text repeats itself.
    """

    text: str
    start: int
    stop: int
    mean_log_prob: float
    no_speech: float
    temperature: float
    compression_ratio: float

    def as_json(self, frame: float) -> dict[str, Any]:
        """Return it for JSON. frame: seconds of a frame."""
        times = {"start": round(self.start * frame, 3), "end": round(self.stop * frame, 3)}
        return {**times, **{name: value for name, value in self._asdict().items() if name not in ("start", "stop")}}


@dataclass(frozen=True)
class Heard:
    """A text that an utterance may be.

    ctc: log P of its labels, or of the tokens that a decoder wrote, in nats. lm: what the language model and hotwords
    add to it. rank: what texts are ranked by, if that is not the sum of both.
    """

    text: str
    words: tuple[HeardWord, ...]
    ctc: float
    lm: float
    rank: float | None = None

    @property
    def score(self) -> float:
        """What the texts of an utterance are ranked by."""
        return self.ctc + self.lm if self.rank is None else self.rank


@dataclass(frozen=True)
class DecodedUtterance:
    """The best texts of an utterance, best first.

    kind: what its numbers were. reference: of its file. The others are of networks that write tokens. language: of the
    recording. segments: of the best text. weights: of the language model, by their names.
    """

    id: str
    nbest: tuple[Heard, ...]
    kind: Kind | Literal["tokens"]
    reference: str | None = None
    language: HeardLanguage | None = None
    segments: tuple[HeardSegment, ...] = ()
    weights: dict[str, float] | None = None

    @property
    def text(self) -> str:
        """The best text."""
        return self.nbest[0].text

    @property
    def score_name(self) -> str:
        """What the network's score is called: ctc, or log_prob of tokens."""
        return "log_prob" if self.kind == "tokens" else "ctc"

    def shown(self, number: int | None = None, frame: float = 1, nbest: int = 1) -> Shown:
        """Return the best text as a line; of a sound, with its path, or several in the format of Moses.

        number: of the sound, from 0; None where only texts are shown. frame, nbest: as for `as_json`.
        """
        if number is None:
            text = self.text
        elif nbest > 1:
            text = "\n".join(
                f"{number} ||| {printable(own.text)} ||| {self.score_name}= {own.ctc:.4f} lm= {own.lm:.4f} ||| "
                f"{own.score:.4f}"
                for own in self.nbest[:nbest]
            )
        else:
            text = f"{printable(self.text)}\t{printable(self.id)}"
        return Shown(text, self.as_json(frame, nbest), self.to_records(frame, nbest))

    def as_json(self, frame: float = 1, nbest: int = 1) -> dict[str, Any]:
        """Return the best text for JSON, with its scores and words.

        frame: seconds of a frame; 1: words have the numbers of frames. nbest: more than 1 adds other texts.
        """
        best = self._row(self.nbest[0], frame)
        if nbest > 1:
            best["nbest"] = [{"text": own.text, self.score_name: own.ctc, "lm": own.lm} for own in self.nbest[:nbest]]
        if self.kind == "tokens":
            best["segments"] = [segment.as_json(frame) for segment in self.segments]
        if self.language is not None:
            best |= {"language": self.language.code, "language_prob": self.language.prob}
        return best | (self.weights or {})

    def to_records(self, frame: float = 1, nbest: int = 1) -> list[dict[str, Any]]:
        """Return a row for each of the best texts. frame, nbest: as for `as_json`."""
        return [self._row(heard, frame) for heard in self.nbest[:nbest]]

    def _row(self, heard: Heard, frame: float) -> dict[str, Any]:
        words = [
            {"word": word, "start": round(start * frame, 3), "end": round(stop * frame, 3)}
            | ({} if confidence is None else {"confidence": round(confidence, 4)})
            for word, start, stop, confidence in heard.words
        ]
        return {"id": self.id, "text": heard.text, self.score_name: heard.ctc, "lm": heard.lm, "words": words}

    def to_dict(self, most: int | None = None) -> dict[str, Any]:
        """Return the texts as a list that `rescore` reads, where another model replaces `fusion`.

        most: how many hypotheses at most.
        """
        hypotheses = [
            {"text": heard.text, "scores": {self.score_name: heard.ctc, "fusion": heard.lm}}
            for heard in self.nbest[:most]
        ]
        reference = {} if self.reference is None else {"reference": self.reference}
        return {"id": self.id, "hypotheses": hypotheses, "priors": ["fusion"], **reference}


@takes(CtcOptions)
def decode_ctc(outputs: Outputs, model: Model | None, options: CtcOptions) -> Iterator[DecodedUtterance]:
    """Decode the outputs of a network that was trained by CTC, lazily.

    outputs: a matrix, (frames, labels), of logits, log-probabilities or probabilities; several; or a file: .npy,
    .npz or JSON lines. model: any language model, or None. The options are those of `CtcOptions`. Raises TextError,
    SettingError; of a single utterance, `on_error` gets them if it is given.

    good:  [heard.text for heard in chainrule.decode_ctc("logits.npz", chainrule.load("lm/"), labels="vocab.json")]
    """
    if model is not None:
        check_model(model, Model)
    decoder = Decoder(model, options, _labels_of(options))
    return decoded(_utterances(outputs), lambda utterance, progress: decoder.decode(utterance), options)


def decoded(
    utterances: Iterable[Any], decode: Callable[[Any, Progress], DecodedUtterance], options: DecodingOptions
) -> Iterator[DecodedUtterance]:
    """Decode one utterance, or sound, after the other. One may be a TextError.

    Raises TextError, SettingError; `on_error` gets them if it is given.
    """
    with showing(options.progress) as progress:
        for number, utterance in enumerate(utterances, 1):
            try:
                if isinstance(utterance, TextError):
                    raise utterance
                result = decode(utterance, progress)
            except ChainruleError as error:
                if options.on_error is None:
                    raise
                options.on_error(error)
            else:
                yield result
            progress("decoding", number, None)


class Decoder:
    """The decoder of each alphabet that the utterances have."""

    def __init__(
        self, model: Model | None, options: DecodingOptions, labels: tuple[str, ...] | Alphabet | None = None
    ) -> None:
        """Prepare the search.

        labels: of the columns, or an alphabet; by default those of each utterance. Raises SettingError.
        """
        self._labels = tuple(labels.labels) if isinstance(labels, Alphabet) else labels
        self._hotwords = Hotwords.of(options.hotwords, options.hotword_weight)
        self._expected = [looked_up(word) for phrase in options.hotwords for word in phrase.split()]
        self._limits = Limits(options.beam, options.beam_prune_logp, options.token_min_logp)
        self._fusion = fusion_of(model, options)
        self._alphabets: dict[tuple[str, ...], Labels] = {}
        self._special = (options.blank, options.space) if isinstance(options, CtcOptions) else (None, None)
        if isinstance(labels, Alphabet):
            self._alphabets[tuple(labels.labels)] = self._checked(labels)
        elif self._labels is not None:
            self.labels_of(self._labels)

    def decode(self, utterance: Utterance) -> DecodedUtterance:
        """Decode an utterance. Raises SettingError, which says where."""
        given = self._labels if self._labels is not None else utterance.labels
        if given is None:
            raise SettingError(f"{utterance.place}: there are no labels for the columns; name them with labels")
        if not utterance.id or any(character.isspace() for character in utterance.id):
            raise SettingError(f"{utterance.place}: the id is {utterance.id!r}; expected a text without white space")
        with _placed(utterance.place):
            labels = self.labels_of(given)
            if len(labels.names) > len(given) and np.shape(utterance.outputs)[1:] == (len(given),):
                raise SettingError(
                    f"none of the {len(given)} labels is CTC's blank, and no column is left for it; name the "
                    "label of the blank (blank)"
                )
            if not np.size(utterance.outputs):
                raise SettingError("there are no frames; expected one or more")
            matrix = check_outputs(utterance.outputs, len(labels.names))
            kind = kind_of(matrix)
            check_meaning(matrix, kind)
        decoding, log_probs = self.begin(labels), as_log_probs(matrix, kind)
        decoding.run(log_probs)
        nbest = decoding.finish(log_probs)
        return DecodedUtterance(utterance.id, nbest, kind, utterance.reference)

    def begin(self, labels: Labels) -> Decoding:
        """Return a search that gets its frames in pieces."""
        return Decoding(Search(labels, self._fusion, self._limits, self._hotwords), labels)

    def labels_of(self, labels: tuple[str, ...]) -> Labels:
        """Return the labels of columns as the search reads them. Raises SettingError."""
        if labels not in self._alphabets:
            self._alphabets[labels] = self._checked(Alphabet.build_alphabet(labels, *self._special))
        return self._alphabets[labels]

    def _checked(self, alphabet: Alphabet) -> Labels:
        """Return the labels as the search reads them. Raises SettingError if they cannot spell what is expected."""
        check_spelling(alphabet, self._expected, "hotwords", least=1)
        if self._fusion is not None:
            self._fusion.check_spelling(alphabet)
        return Labels(alphabet)


class Decoding:
    """A search of which the frames come in pieces."""

    def __init__(self, search: Search, labels: Labels) -> None:
        self._search, self._labels, self._frames = search, labels, 0
        self._cache: Cache = {("", False): (0.0, 0.0, None)}
        search.load([START], self._cache)

    def run(self, log_probs: Float[ndarray, "T labels"]) -> None:
        """Read the frames that come next: log-probabilities of labels."""
        for begin in range(0, len(log_probs), _FRAMES):
            part = log_probs[begin : begin + _FRAMES]
            self._search.run(part, self._frames)
            self._frames += len(part)
            if len(part) == _FRAMES:
                self._search.forget_states()
                if self._frames // _FRAMES % _SELDOM == 0:
                    self._search.forget()

    def certain(self) -> list[str]:
        """Return the words at the beginning that all texts of the search share; no frame to come changes them."""
        return self._search.shared().split()

    def finish(self, log_probs: Float[ndarray, "T labels"]) -> tuple[Heard, ...]:
        """Return the texts, best first; the words of the best one have confidences. log_probs: of all frames."""
        beams = [output_beam(beam, self._cache) for beam in self._search.finish(self._cache, is_end=True)]
        best, *others = [
            Heard(
                beam.text,
                tuple(HeardWord(word, *frames) for word, frames in beam.text_frames),
                beam.logit_score,
                beam.lm_score - beam.logit_score,
            )
            for beam in beams
        ]
        words = with_confidences(best.words, log_probs, self._labels)
        return (replace(best, words=words), *others)


def with_confidences(
    words: Iterable[HeardWord], log_probs: Float[ndarray, "T labels"], labels: Labels
) -> tuple[HeardWord, ...]:
    """Return words with the probability of their labels in their frames, where labels spell them in one way."""
    found, blank = [], labels.ids.get("", 0)
    for word in words:
        spelled = [labels.ids[character] for character in word.word if character in labels.ids]
        if not labels.are_pieces and len(spelled) == len(word.word) and word.start < word.stop:
            own = log_probability(log_probs[word.start : word.stop], spelled, blank)
            word = word._replace(confidence=float(np.exp(min(0.0, own))))
        found.append(word)
    return tuple(found)


@contextmanager
def _placed(place: str) -> Iterator[None]:
    try:
        yield
    except SettingError as error:
        raise SettingError(f"{place}: {error}") from error


def _labels_of(options: CtcOptions) -> tuple[str, ...] | None:
    labels = options.labels
    if labels is None or isinstance(labels, tuple):
        return labels
    return tuple(read_labels(Path(labels)))


def _utterances(outputs: Outputs) -> Iterator[Utterance | TextError]:
    if isinstance(outputs, str | os.PathLike):
        return read_utterances(os.fspath(outputs))
    if isinstance(outputs, np.ndarray) and outputs.ndim == 2:
        outputs = [outputs]
    return (Utterance(str(i), np.asarray(matrix), f"matrix {i}") for i, matrix in enumerate(outputs, 1))
