"""Decodes what a network heard, CTC's outputs, with a language model: texts, n-best lists, the times of words."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from chainrule.base.options import takes
from chainrule.base.results import Shown
from chainrule.base.tables import printable
from chainrule.errors import ChainruleError, SettingError, TextError
from chainrule.features.speech.options import CtcOptions, DecodingOptions
from chainrule.features.speech.search.alphabet import Alphabet, check_spelling
from chainrule.features.speech.search.beams import START
from chainrule.features.speech.search.language_model import ShallowFusion
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
    from collections.abc import Iterable, Iterator

    from jaxtyping import Float
    from numpy import ndarray

    from chainrule.features.speech.search.logits import Kind
    from chainrule.features.speech.search.search import Cache

    Outputs = str | os.PathLike[str] | Float[ndarray, "T labels"] | Iterable[Float[ndarray, "T labels"]]


class HeardWord(NamedTuple):
    """A word with its first frame, and the one after its last."""

    word: str
    start: int
    stop: int


@dataclass(frozen=True)
class Heard:
    """A text that an utterance may be.

    ctc: log P of its labels, in nats. lm: what the language model and hotwords add to it. Beams are ranked by the sum.
    """

    text: str
    words: tuple[HeardWord, ...]
    ctc: float
    lm: float

    @property
    def score(self) -> float:
        """What the texts of an utterance are ranked by."""
        return self.ctc + self.lm


@dataclass(frozen=True)
class DecodedUtterance:
    """The best texts of an utterance, best first. kind: what its numbers were. reference: of its file."""

    id: str
    nbest: tuple[Heard, ...]
    kind: Kind
    reference: str | None = None

    @property
    def text(self) -> str:
        """The best text."""
        return self.nbest[0].text

    def shown(self, number: int | None = None, frame: float = 1, nbest: int = 1) -> Shown:
        """Return the best text as a line; of a sound, with its path, or several in the format of Moses.

        number: of the sound, from 0; None where only texts are shown. frame, nbest: as for `as_json`.
        """
        if number is None:
            text = self.text
        elif nbest > 1:
            text = "\n".join(
                f"{number} ||| {printable(own.text)} ||| ctc= {own.ctc:.4f} lm= {own.lm:.4f} ||| {own.score:.4f}"
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
            best["nbest"] = [{"text": own.text, "ctc": own.ctc, "lm": own.lm} for own in self.nbest[:nbest]]
        return best

    def to_records(self, frame: float = 1, nbest: int = 1) -> list[dict[str, Any]]:
        """Return a row for each of the best texts. frame, nbest: as for `as_json`."""
        return [self._row(heard, frame) for heard in self.nbest[:nbest]]

    def _row(self, heard: Heard, frame: float) -> dict[str, Any]:
        words = [
            {"word": word, "start": round(start * frame, 3), "end": round(stop * frame, 3)}
            for word, start, stop in heard.words
        ]
        return {"id": self.id, "text": heard.text, "ctc": heard.ctc, "lm": heard.lm, "words": words}

    def to_dict(self, most: int | None = None) -> dict[str, Any]:
        """Return the texts as a list that `rescore` reads, where another model replaces `fusion`.

        most: how many hypotheses at most.
        """
        hypotheses = [
            {"text": heard.text, "scores": {"ctc": heard.ctc, "fusion": heard.lm}} for heard in self.nbest[:most]
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
    return decoded(_utterances(outputs), Decoder(model, options, _labels_of(options)), options)


class Decodes(Protocol):
    """What makes texts of an utterance."""

    def decode(self, utterance: Utterance) -> DecodedUtterance:
        """Return the texts of an utterance. Raises SettingError, which says where."""


def decoded(
    utterances: Iterable[Utterance | TextError], decoder: Decodes, options: DecodingOptions
) -> Iterator[DecodedUtterance]:
    """Decode one utterance after the other. Raises TextError, SettingError; `on_error` gets them if it is given."""
    with showing(options.progress) as progress:
        for number, utterance in enumerate(utterances, 1):
            try:
                if isinstance(utterance, TextError):
                    raise utterance
                result = decoder.decode(utterance)
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
        self._fusion: ShallowFusion | None = None
        if model is not None:
            self._fusion = ShallowFusion(
                model.language_model,
                model.tokenizer,
                alpha=options.alpha,
                beta=options.beta,
                unknown_offset=options.unk_score_offset,
                words=options.words or None,
            )
        elif options.words:
            raise SettingError("words limit what a language model knows; give one, or leave words out")
        self._alphabets: dict[tuple[str, ...], Labels] = {}
        self._special = (options.blank, options.space) if isinstance(options, CtcOptions) else (None, None)
        if isinstance(labels, Alphabet):
            self._alphabets[tuple(labels.labels)] = self._checked(labels)
        elif self._labels is not None:
            self._alphabet(self._labels)

    def decode(self, utterance: Utterance) -> DecodedUtterance:
        """Decode an utterance. Raises SettingError, which says where."""
        given = self._labels if self._labels is not None else utterance.labels
        if given is None:
            raise SettingError(f"{utterance.place}: there are no labels for the columns; name them with labels")
        if not utterance.id or any(character.isspace() for character in utterance.id):
            raise SettingError(f"{utterance.place}: the id is {utterance.id!r}; expected a text without white space")
        with _placed(utterance.place):
            labels = self._alphabet(given)
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
        search = Search(labels, self._fusion, self._limits, self._hotwords)
        cache: Cache = {("", False): (0.0, 0.0, None)}
        search.load([START], cache)
        search.run(as_log_probs(matrix, kind))
        beams = [output_beam(beam, cache) for beam in search.finish(cache, is_end=True)]
        nbest = tuple(
            Heard(
                beam.text,
                tuple(HeardWord(word, *frames) for word, frames in beam.text_frames),
                beam.logit_score,
                beam.lm_score - beam.logit_score,
            )
            for beam in beams
        )
        return DecodedUtterance(utterance.id, nbest, kind, utterance.reference)

    def _alphabet(self, labels: tuple[str, ...]) -> Labels:
        if labels not in self._alphabets:
            self._alphabets[labels] = self._checked(Alphabet.build_alphabet(labels, *self._special))
        return self._alphabets[labels]

    def _checked(self, alphabet: Alphabet) -> Labels:
        """Return the labels as the search reads them. Raises SettingError if they cannot spell what is expected."""
        check_spelling(alphabet, self._expected, "hotwords", least=1)
        if self._fusion is not None:
            self._fusion.check_spelling(alphabet)
        return Labels(alphabet)


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
