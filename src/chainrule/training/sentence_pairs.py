"""Pairs of parts of a text, half of which follow each other (Devlin et al. 2019, appendix A.2): the rows of each step.

A line is a sentence, and an empty line ends a document. Lines that follow each other in a document and fill a row are a
run. A run is cut in two between lines; of about half of the rows, the second part is drawn from another run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.errors import TextError
from chainrule.neural.scoring import padded, rounded_up
from chainrule.neural.sentence_pairs import MARKERS, pair_tokens
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Int32, Int64
    from numpy import ndarray

_FOLLOWING = 0.5  # share of rows


class PairRows(NamedTuple):
    """</s> a </s> b </s>, padded with </s>; where b begins, and where the padding does; and whether b follows a."""

    tokens: Int64[ndarray, "B T"]
    second: Int64[ndarray, " B"]
    lengths: Int64[ndarray, " B"]
    follows: Bool[ndarray, " B"]


class SentencePairs:
    """The runs of a text, and pairs made of them."""

    def __init__(
        self, stream: Int32[ndarray, " tokens"], longest: int, seed: int, *, name: str = "the training text"
    ) -> None:
        """longest: tokens in a row, at most. name: for messages. Raises TextError if there are fewer than two runs."""
        ends = np.flatnonzero(stream == END)
        if not ends.size or ends[-1] != stream.size - 1:
            ends = np.append(ends, stream.size)
        self.stream, self.room, self.seed = stream, longest - MARKERS, seed
        self._edges = np.concatenate([[0], ends + 1])  # where lines begin; the one after the last, too
        lengths = np.diff(self._edges) - 1
        self._tokens_before = np.concatenate([[0], np.cumsum(lengths)])  # each line, and all
        self._document_ends = _document_ends(lengths)
        self.runs = _runs(self._fitting(np.arange(lengths.size), self.room), self._document_ends)
        if len(self.runs) < 2:
            raise TextError(
                f"{name} has fewer than two pairs of lines that follow each other, which next_sentence reads; give "
                "more text, a sentence a line, with empty lines between documents only"
            )

    def rows(self, runs: Sequence[int], rng: np.random.Generator) -> PairRows:
        """A pair of each of these runs."""
        pairs, follows = [], rng.random(len(runs)) < _FOLLOWING
        for run, is_next in zip(runs, follows.tolist(), strict=True):
            first, end = self.runs[run]
            middle = int(rng.integers(first + 1, end))
            a = self._line_tokens(first, middle)
            b = self._line_tokens(middle, end) if is_next else self._drawn(run, self.room - len(a), rng)
            pairs.append(pair_tokens(a, b, END, self.room))
        tokens = [row for row, _ in pairs]
        return PairRows(
            padded(tokens, END, length=min(rounded_up(max(map(len, tokens))), self.room + MARKERS)),
            np.array([second for _, second in pairs]),
            np.array([len(row) for row in tokens]),
            follows,
        )

    def runs_of_step(self, step: int, batch: int) -> list[int]:
        """Each epoch reads all runs, in another order."""
        indices = np.arange(step * batch, (step + 1) * batch)
        epochs, places = np.divmod(indices, len(self.runs))
        orders = {epoch: self._order(epoch) for epoch in np.unique(epochs).tolist()}
        return [int(orders[epoch][place]) for epoch, place in zip(epochs.tolist(), places.tolist(), strict=True)]

    def _order(self, epoch: int) -> Int64[ndarray, " runs"]:
        return np.random.default_rng([self.seed, epoch]).permutation(len(self.runs))

    def _drawn(self, run: int, room: int, rng: np.random.Generator) -> Int32[ndarray, " tokens"]:
        """Lines that follow each other, from any line of another run on, as many as fit; one at least.

        They do not end with that run, or drawn parts would be shorter than others; but they do where `run` begins.
        """
        other = int(rng.integers(len(self.runs) - 1))
        begin = int(rng.integers(*self.runs[other + (other >= run)]))
        own = self.runs[run][0]
        limit = int(self._document_ends[begin])
        fitting = int(self._fitting(np.array([begin]), room)[0])
        return self._line_tokens(begin, min(max(begin + 1, fitting), limit, own if begin < own else limit))

    def _fitting(self, lines: Int64[ndarray, " lines"], room: int) -> Int64[ndarray, " lines"]:
        """The line after the last that fits into `room` tokens together with all from each of these on."""
        return np.searchsorted(self._tokens_before, self._tokens_before[lines] + room, "right") - 1

    def _line_tokens(self, first: int, end: int) -> Int32[ndarray, " tokens"]:
        """The tokens of lines, without what separates them."""
        part = self.stream[self._edges[first] : self._edges[end]]
        return part[part != END]


def _document_ends(lengths: Int64[ndarray, " lines"]) -> Int64[ndarray, " lines"]:
    """The line after the last of each line's document; an empty line ends one, and is none."""
    borders = np.append(np.flatnonzero(lengths == 0), lengths.size)
    return np.asarray(borders[np.searchsorted(borders, np.arange(lengths.size))])


def _runs(fitting: Int64[ndarray, " lines"], document_ends: Int64[ndarray, " lines"]) -> list[tuple[int, int]]:
    """The first line of each run, and the one after its last: two lines at least, none of them empty.

    fitting: from each line on, the line after the last that fits into a row.
    """
    lines = fitting.size
    ends = np.minimum(np.maximum(fitting, np.arange(lines) + 2), document_ends).tolist()
    runs, first = [], 0
    while first < lines:
        end = ends[first]
        if end - first >= 2:
            runs.append((first, end))
        first = max(end, first + 1)
    return runs
