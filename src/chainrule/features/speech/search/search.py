"""Prefix beam search over CTC's outputs with a language model: from log-probabilities of labels to beams.

The frames are gone through in compiled code; where beams have ended words that are new, they are scored at once. What a
language model has to do for it is `WordModel`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from chainrule.features.speech.search import search_kernels as kernels
from chainrule.features.speech.search.alphabet import BPE_TOKEN
from chainrule.features.speech.search.beams import (
    NO_FRAMES,
    Beam,
    LMBeam,
    OutputBeam,
    merge_beams,
    normalize_whitespace,
    sort_and_trim_beams,
)
from chainrule.features.speech.search.config import DEFAULTS
from chainrule.features.speech.search.forgetting import reached
from chainrule.features.speech.search.words import CODE_POINTS, NO_WORDS, Hotwords, Words, code_points, table_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.features.speech.search.alphabet import Alphabet

    # By a text, and whether it is whole: the scores with and without hotwords, and the state of the language model.
    Cache = dict[tuple[str, bool], tuple[float, float, Any]]

_ROOM = 1 << 12  # texts, words and spans for which there is room at first


class WordModel(Protocol):
    """A language model as the search sees it: it scores words after states. Scores are weighted, and added up."""

    @property
    def order(self) -> int:
        """How many words decide on a probability, the predicted one included; 0 if all words do."""

    @property
    def known(self) -> Words | None:
        """The words that it knows, of which beginnings cost nothing; None if every word may be."""

    def get_start_state(self) -> Any:
        """Return the state before the first word."""

    def score_words(
        self, states: Sequence[Any], words: Sequence[str | None], is_last: bool
    ) -> tuple[list[float], list[Any]]:
        """Return the score of each word after its state, and the state after it. None: no word, at the end of a text.

        is_last: whether the texts end there.
        """


class RowModel(Protocol):
    """An n-gram model, as the attribute `rows` of a WordModel, that needs no texts: words have ids, states addresses.

    word_ids: of the nodes of `known`, and one more for words that are not known; 0 for words without a separate
    probability. weights: alpha, the nats of a log10, beta, and what is added to the log10 P of an unknown word.
    """

    word_ids: Int64[ndarray, " nodes+1"]

    @property
    def weights(self) -> tuple[float, float, float, float]: ...

    def score_ids(
        self, ids: Int64[ndarray, " n"], before: Int64[ndarray, " n"]
    ) -> tuple[Float64[ndarray, " n"], Int64[ndarray, "n state"]]:
        """Return log10 P of words after states at these addresses, and the states after them."""

    def address_of(self, state: Any) -> int: ...
    def state_at(self, address: int, owner: Any) -> Any: ...


class PartialScorer(Protocol):
    """A language model that scores the beginnings of words by itself, which is slow."""

    def score_partial_token(self, partial_token: str) -> float:
        """Return the score of an unfinished word, which the whole word replaces."""


@dataclass(frozen=True)
class Limits:
    """How wide the search is; see `CtcConfig`.

    prunes_history: whether to keep one of the beams that no word to come can tell apart. copies: whether to do as
    pyctcdecode in two places where it errs: a text that ends in a space scores an empty word there, and the break after
    a piece such as ▁⁇▁ takes place in whichever beam comes next.
    """

    width: int = DEFAULTS.beam
    prune: float = DEFAULTS.beam_prune_logp
    least: float = DEFAULTS.token_min_logp
    prunes_history: bool = False
    copies: bool = False


class Labels:
    """An alphabet as the compiled search reads it."""

    def __init__(self, alphabet: Alphabet) -> None:
        self.names, self.are_pieces = alphabet.labels, alphabet.is_bpe
        self.ids = {label: i for i, label in enumerate(self.names)}
        sizes = np.fromiter(map(len, self.names), np.int64, len(self.names))
        self.offsets = np.concatenate([[0], np.cumsum(sizes)])
        self.codes = code_points("".join(self.names))
        self.kinds = np.array([self._kind(label) for label in self.names], np.int64)
        self.closed = {label.strip(BPE_TOKEN) for label in self.names if self.are_pieces and label.endswith(BPE_TOKEN)}

    def _kind(self, label: str) -> int:
        if label == "":
            return kernels.BLANK
        if not self.are_pieces:
            return kernels.SPACE if label == " " else kernels.PLAIN
        if label == BPE_TOKEN:  # begins a word, and ends it
            return kernels.STARTS | kernels.ENDS
        starts, ends = label.startswith(BPE_TOKEN), label.endswith(BPE_TOKEN)
        return kernels.STARTS * starts | kernels.ENDS * ends

    def choose(
        self, log_probs: Float64[ndarray, "T labels"], least: float, *, in_order_of_sets: bool
    ) -> tuple[Int64[ndarray, " chosen"], Int64[ndarray, " T+1"]]:
        """Return the labels of each frame that have at least a log-probability, and the best one; where each frame's
        begin.
        """
        chosen = log_probs >= least
        frames = np.arange(len(log_probs))
        if len(log_probs):
            chosen[frames, log_probs.argmax(axis=1)] = True
        labels = np.ascontiguousarray(np.nonzero(chosen)[1])
        offsets = np.concatenate([[0], np.cumsum(chosen.sum(axis=1))])
        if in_order_of_sets:  # the order in which pyctcdecode goes through them, where it matters
            for low, high in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
                labels[low:high] = list(set(labels[low:high].tolist()) | {int(labels[low])})
        return labels, offsets


class Search:
    """One search. `load` sets the beams to go on from, `run` reads frames, `beams` and `finish` give what is found."""

    def __init__(
        self,
        labels: Labels,
        model: WordModel | None,
        limits: Limits,
        hotwords: Hotwords,
        partial: PartialScorer | None = None,
    ) -> None:
        """Begin a search. partial: scores the beginnings of words, where the model's `known` does not say all."""
        self._labels, self._model, self._limits = labels, model, limits
        self._hotwords, self._partial = hotwords, partial
        known = None if model is None else model.known
        self._known = NO_WORDS if known is None else known
        self._texts = np.zeros((_ROOM, 4), np.int32)
        self._text_scores = np.zeros(_ROOM)
        self._text_slots = np.full(table_size(_ROOM), -1, np.int32)
        self._words = np.zeros((_ROOM, 5), np.int32)
        self._word_scores = np.zeros(_ROOM)
        self._word_slots = np.full(table_size(_ROOM), -1, np.int32)
        self._spans = np.zeros((_ROOM, 3), np.int32)
        self._counts = np.zeros(kernels.COUNTERS, np.int64)
        self._counts[[kernels.TEXTS, kernels.WORDS, kernels.SPANS]] = 1
        self._words[0, kernels.KNOWN] = 0 if self._known.size > 1 else -1
        self._words[0, kernels.HOT] = 0 if hotwords.words.size > 1 else -1
        self._texts[0, kernels.STATUS] = kernels.SCORED
        self._raw = np.zeros(_ROOM)  # the score of each text without its hotwords
        self._states: dict[int, Any] = {}
        readable = not any("<" in name for name in labels.names)  # no word can be spelled that looks like a marker
        self._rows: RowModel | None = getattr(model, "rows", None) if readable else None
        self._addresses = np.zeros(_ROOM, np.int64)  # of the states of texts, where the model has rows
        self._owners: list[Any] = []  # what holds the states
        self._spelled: dict[int, str] = {0: ""}
        self._scored_words = 1
        order = 0 if model is None else model.order
        history = max(1, order - 1) if limits.prunes_history and (model is None or order) else 0
        scores_words = partial is None and known is not None
        offset = getattr(model, "unknown_offset", 0.0)
        self._settings = np.array(
            [
                *(limits.prune, hotwords.weight, offset, model is not None, history, limits.width),
                *(labels.are_pieces, limits.copies, 0, scores_words, partial is not None),
            ],
            np.float64,
        )
        self._beams = np.zeros((0, kernels.BEAM_FIELDS), np.int32)
        self._logits = np.zeros(0)

    def load(self, beams: Sequence[Beam], cache: Cache | None = None) -> None:
        """Set the beams to go on from. cache: the scores and states of their texts; by default those of the start."""
        rows = np.zeros((max(len(beams), self._limits.width), kernels.BEAM_FIELDS), np.int32)
        self._beams, self._logits = rows, np.zeros(len(rows))
        cached = {("", False): (0.0, 0.0, None)} if cache is None else cache
        for row, beam in enumerate(beams):
            self._make_room(len(beam.text) + len(beam.partial_word) + 2)
            text = self._text(beam.text, cached)
            if beam.next_word:
                text = self._longer(text, beam.next_word)
                self._score_texts(np.array([text]))
            breaks = self._labels.are_pieces and beam.partial_word in self._labels.closed
            last = -1 if beam.last_char is None else self._labels.ids.get(beam.last_char, -1)
            rows[row] = (
                text,
                self._word(beam.partial_word),
                last,
                self._span(beam),
                *beam.partial_frames,
                breaks,
                -1,
                -1,
            )
            self._logits[row] = beam.logit_score
        self._counts[kernels.BEAMS] = len(beams)

    def _text(self, text: str, cache: Cache) -> int:
        node = 0
        for word in text.split():
            node = self._longer(node, word)
        if self._model is None:
            self._text_scores[node] = self._hotwords.weight * int(self._texts[node, kernels.HOTWORDS])
        elif node not in self._states:
            _, raw, state = cache.get((text, False), (0.0, 0.0, None))
            self._states[node] = self._model.get_start_state() if state is None else state
            if self._rows is not None:
                self._addresses[node] = self._rows.address_of(self._states[node])
            self._raw[node] = raw
            self._text_scores[node] = raw + self._hotwords.weight * int(self._texts[node, kernels.HOTWORDS])
        self._texts[node, kernels.STATUS] = kernels.SCORED
        return node

    def _longer(self, text: int, word: str) -> int:
        self._make_room(len(word) + 2)
        arguments = self._texts, self._text_slots, self._words, self._hotwords.words.ends, self._counts
        return kernels.longer_text(text, self._word(word), *arguments)

    def _word(self, word: str) -> int:
        node, known, hot = 0, self._known, self._hotwords.words
        tries = known.trie, known.slots, hot.trie, hot.slots, hot.shortest
        own = self._words, self._word_scores, self._word_slots
        for code in code_points(word).tolist():
            node = kernels.longer_word(node, code, *own, *tries, self._settings, self._counts)
        self._score_beginnings()
        return node

    def _span(self, beam: Beam) -> int:
        node = 0
        for start, stop in beam.text_frames:
            self._make_room(1)
            new = int(self._counts[kernels.SPANS])
            self._spans[new] = node, start, stop
            self._counts[kernels.SPANS], node = new + 1, new
        return node

    def _make_room(self, more: int) -> None:
        """Make room for so many more texts, words and spans."""
        texts, words, spans = self._counts[[kernels.TEXTS, kernels.WORDS, kernels.SPANS]].tolist()
        if texts + more > len(self._texts):
            own_arrays = self._texts, self._text_scores, self._raw, self._addresses
            self._texts, self._text_scores, self._raw, self._addresses = (
                _longer_array(own, texts + more) for own in own_arrays
            )
            self._text_slots = np.full(table_size(len(self._texts)), -1, np.int32)
            kernels.rehash(self._texts, texts, self._text_slots)
        if words + more > len(self._words):
            self._words, self._word_scores = (
                _longer_array(own, words + more) for own in (self._words, self._word_scores)
            )
            self._word_slots = np.full(table_size(len(self._words)), -1, np.int32)
            kernels.rehash(self._words, words, self._word_slots)
        if spans + more > len(self._spans):
            self._spans = _longer_array(self._spans, spans + more)

    def forget_states(self) -> None:
        """Drop the model's states of texts that no beam has: such a text is scored again if it comes back."""
        nodes = self._beams[: self._counts[kernels.BEAMS], kernels.TEXT]
        self._states = {node: self._states[node] for node in {0, *nodes.tolist()} & self._states.keys()}
        self._texts[1 : self._counts[kernels.TEXTS], kernels.STATUS] = kernels.NEW
        self._texts[nodes, kernels.STATUS] = kernels.SCORED

    def forget(self) -> None:
        """Drop what no beam goes back to, so that memory does not grow with the frames: no result changes."""
        beams, counts = self._beams[: self._counts[kernels.BEAMS]], self._counts
        texts, of_text = reached(self._texts[: counts[kernels.TEXTS]], beams[:, kernels.TEXT])
        spans, of_span = reached(self._spans[: counts[kernels.SPANS]], beams[:, kernels.SPAN])
        used = np.concatenate([beams[:, kernels.WORD], self._texts[texts, kernels.LAST_WORD]])
        words, of_word = reached(self._words[: counts[kernels.WORDS]], used)
        self._states = {int(of_text[node]): self._states[node] for node in texts.tolist() if node in self._states}
        self._spelled = {int(of_word[node]): self._spelled[node] for node in words.tolist() if node in self._spelled}
        self._texts, self._text_scores = self._texts[texts], self._text_scores[texts]
        self._raw, self._addresses = self._raw[texts], self._addresses[texts]
        self._words, self._word_scores, self._spans = self._words[words], self._word_scores[words], self._spans[spans]
        for rows, field, numbers in (
            *((self._texts, kernels.PARENT, of_text), (self._texts, kernels.LAST_WORD, of_word)),
            *((self._words, kernels.PARENT, of_word), (self._spans, kernels.PARENT, of_span)),
            *((beams, kernels.TEXT, of_text), (beams, kernels.WORD, of_word), (beams, kernels.SPAN, of_span)),
        ):
            rows[:, field] = numbers[rows[:, field]]
        counts[[kernels.TEXTS, kernels.WORDS, kernels.SPANS]] = len(texts), len(words), len(spans)
        self._scored_words = len(words)
        self._make_room(_ROOM + max(len(texts), len(words)))

    def run(self, log_probs: Float64[ndarray, "T labels"], first: int = 0) -> None:
        """Read frames. first: the number of the first frame. The beams are those of the last frame."""
        labels = self._labels
        in_order = self._limits.copies and labels.are_pieces
        chosen, offsets = labels.choose(log_probs, self._limits.least, in_order_of_sets=in_order)
        most = int(np.diff(offsets).max(initial=1))
        longest = int(np.diff(labels.offsets).max(initial=1))
        room = len(self._beams) * most
        candidates, logits = np.zeros((room, kernels.BEAM_FIELDS), np.int32), np.zeros(room)
        scores, order = np.zeros(room), np.zeros(room, np.int64)
        slots, used = np.full(table_size(room), -1, np.int32), np.zeros(room, np.int64)
        pending = np.zeros(room, np.int64)
        known, hot, counts = self._known, self._hotwords.words, self._counts
        self._settings[kernels.FIRST] = first
        counts[[kernels.FRAME, kernels.FORCED, kernels.EXTENDED]] = 0
        log_probs = np.ascontiguousarray(log_probs, np.float64)
        while True:
            state = kernels.search(
                *(log_probs, chosen, offsets, labels.kinds, labels.codes, labels.offsets, self._beams, self._logits),
                *(candidates, logits, scores, order, slots, used, self._texts, self._text_scores, self._text_slots),
                *(self._words, self._word_scores, self._word_slots, known.trie, known.slots, hot.trie, hot.slots),
                *(hot.shortest, hot.ends, self._spans, pending, self._settings, counts),
            )
            if state == kernels.DONE:
                return
            if state == kernels.NEEDS_ROOM:
                self._make_room(room * max(longest, 1) + 1)
            else:
                if counts[kernels.PENDING]:
                    self._score_texts(pending[: counts[kernels.PENDING]])
                self._score_beginnings()

    def _score_texts(self, nodes: Int64[ndarray, " texts"]) -> None:
        if self._rows is not None:
            self._score_rows(self._rows, nodes)
            return
        rows = self._texts[nodes]
        scores = self._hotwords.weight * rows[:, kernels.HOTWORDS]
        if self._model is not None:
            parents = rows[:, kernels.PARENT]
            before = [self._states[parent] for parent in parents.tolist()]
            words = self._spell(rows[:, kernels.LAST_WORD].tolist())
            own, after = self._model.score_words(before, words, is_last=False)
            self._states.update(zip(nodes.tolist(), after, strict=True))
            self._raw[nodes] = self._raw[parents] + own
            scores += self._raw[nodes]
        self._text_scores[nodes] = scores
        self._texts[nodes, kernels.STATUS] = kernels.SCORED

    def _score_rows(self, model: RowModel, nodes: Int64[ndarray, " texts"]) -> None:
        ids, before = np.empty(len(nodes), np.int64), np.empty(len(nodes), np.int64)
        kernels.ask(nodes, self._texts, self._words, model.word_ids, self._addresses, ids, before)
        log10_probs, after = model.score_ids(ids, before)
        self._owners.append(after)
        place = after.ctypes.data, after.strides[0]
        results = self._texts, self._raw, self._addresses, self._text_scores
        kernels.enter(nodes, ids, log10_probs, *place, *model.weights, float(self._hotwords.weight), *results)

    def _state(self, node: int) -> Any:
        """Return the language model's state after a text; None if it has none."""
        if node not in self._states and self._rows is not None and self._addresses[node]:
            self._states[node] = self._rows.state_at(int(self._addresses[node]), self._owners)
        return self._states.get(node)

    def _score_beginnings(self) -> None:
        """Score new beginnings of words by the model itself; those of hotwords have their scores."""
        if self._partial is None:
            return
        count = int(self._counts[kernels.WORDS])
        nodes = range(self._scored_words, count)
        for node, word in zip(nodes, self._spell(list(nodes)), strict=True):
            if self._words[node, kernels.HOT] < 0:
                self._word_scores[node] = self._partial.score_partial_token(word)
        self._scored_words = count

    def _spell(self, nodes: list[int]) -> list[str]:
        spelled = self._spelled
        missing = [node for node in dict.fromkeys(nodes) if node not in spelled]
        if missing:
            wanted = np.array(missing, np.int64)
            offsets = np.concatenate([[0], np.cumsum(self._words[wanted, kernels.LENGTH], dtype=np.int64)])
            codes = np.zeros(int(offsets[-1]), np.int32)
            kernels.spell(self._words, wanted, codes, offsets)
            text = codes.tobytes().decode(CODE_POINTS, "surrogatepass")
            places = offsets.tolist()
            for node, low, high in zip(missing, places[:-1], places[1:], strict=True):
                spelled[node] = text[low:high]
        return [spelled[node] for node in nodes]

    def beams(self) -> list[Beam]:
        """Return the beams after the last frame, best first."""
        count = int(self._counts[kernels.BEAMS])
        rows, logits = self._beams[:count].tolist(), self._logits[:count].tolist()
        return [
            Beam(
                self._text_of(text),
                "",
                self._spell([word])[0],
                None if last < 0 else self._labels.names[last],
                self._frames_of(span),
                (start, stop),
                logit,
            )
            for (text, word, last, span, start, stop, *_), logit in zip(rows, logits, strict=True)
        ]

    def shared(self) -> str:
        """Return the text that all beams begin with: no frame to come can change it."""
        nodes = set(self._beams[: self._counts[kernels.BEAMS], kernels.TEXT].tolist())
        while len(nodes) > 1:  # a text has a higher number than what it continues
            last = max(nodes)
            nodes = nodes - {last} | {int(self._texts[last, kernels.PARENT])}
        return self._text_of(nodes.pop())

    def _text_of(self, node: int) -> str:
        words = []
        while node:
            words.append(int(self._texts[node, kernels.LAST_WORD]))
            node = int(self._texts[node, kernels.PARENT])
        return " ".join(self._spell(words[::-1]))

    def _frames_of(self, span: int) -> list[tuple[int, int]]:
        frames = []
        while span:
            span, start, stop = self._spans[span].tolist()
            frames.append((start, stop))
        return frames[::-1]

    def finish(self, cache: Cache, *, force_next_word: bool = False, is_end: bool = False) -> list[LMBeam]:
        """Return the beams with their scores, best first; cache: gets the scores and states of their texts.

        force_next_word: whether words end where the frames do. is_end: whether texts do, too.
        """
        beams, texts = self.beams(), self._beams[: self._counts[kernels.BEAMS], kernels.TEXT].tolist()
        nodes = {beam.text: node for beam, node in zip(beams, texts, strict=True)}
        for text, node in nodes.items():
            cache[text, False] = float(self._text_scores[node]), float(self._raw[node]), self._state(node)
        if force_next_word or is_end:
            beams = merge_beams(_ended(beam) for beam in beams)
            self._score_last(beams, nodes, cache, is_end=is_end)
        scored = [self._scored(beam, cache, is_end=is_end) for beam in beams]
        best = max((beam.lm_score for beam in scored), default=0.0)
        return sort_and_trim_beams(
            (beam for beam in scored if beam.lm_score >= best + self._limits.prune), self._limits.width
        )

    def _score_last(self, beams: Sequence[Beam], nodes: dict[str, int], cache: Cache, *, is_end: bool) -> None:
        fresh = [beam for beam in beams if (beam.whole_text, is_end) not in cache]
        counted = [self._longer(nodes[beam.text], beam.next_word) for beam in fresh]
        bonuses = [self._hotwords.weight * int(self._texts[node, kernels.HOTWORDS]) for node in counted]
        if self._model is None:
            cache.update(
                ((beam.whole_text, is_end), (bonus, 0.0, None)) for beam, bonus in zip(fresh, bonuses, strict=True)
            )
            return
        words = [beam.next_word if beam.next_word or self._limits.copies else None for beam in fresh]
        before = [self._state(nodes[beam.text]) for beam in fresh]
        scores, states = self._model.score_words(before, words, is_last=is_end)
        for beam, bonus, score, state in zip(fresh, bonuses, scores, states, strict=True):
            raw = float(self._raw[nodes[beam.text]]) + score
            cache[beam.whole_text, is_end] = raw + bonus, raw, state

    def _scored(self, beam: Beam, cache: Cache, *, is_end: bool) -> LMBeam:
        """Return a beam with its score; its next word becomes a part of its text."""
        of_text = cache[beam.whole_text, is_end][0]
        of_word = float(self._word_scores[self._word(beam.partial_word)]) if beam.partial_word else 0.0
        logit = beam.logit_score
        score = logit + of_text + of_word if self._model is None else logit + (of_text + of_word)  # as the kernel
        own = replace(beam, text=beam.whole_text, next_word="")
        return LMBeam(**vars(own), lm_score=score)


def _longer_array(array: ndarray, least: int) -> ndarray:
    longer = np.zeros((max(2 * len(array), least), *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def _ended(beam: Beam) -> Beam:
    frames = [*beam.text_frames, beam.partial_frames] if beam.partial_word else beam.text_frames
    return Beam(beam.text, beam.partial_word, "", None, frames, NO_FRAMES, beam.logit_score)


def output_beam(beam: LMBeam, cache: Cache) -> OutputBeam:
    """Return a beam of a whole text, with the words' frames."""
    _, _, state = cache.get((beam.text, True), (0.0, 0.0, None))
    frames = list(zip(beam.text.split(), beam.text_frames, strict=False))
    return OutputBeam(normalize_whitespace(beam.text), state, frames, beam.logit_score, beam.lm_score)
