"""The rank of each token of a text: how many tokens the model found likelier in its place, plus one (GLTR, Gehrmann
2019). Machines write the likeliest tokens more often than people do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.distributions import top_of
from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.protocol import END
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.protocol import LanguageModel
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Tokens = Int32[ndarray, " T"]

BOUNDS = (10, 100, 1000)  # the highest ranks of GLTR's first three groups
_LIKELIER = 3  # tokens to name
_TOGETHER = 32  # texts


class RankedText(NamedTuple):
    """A text with the rank of each token among all tokens, given those before it.

    pieces: the tokens as text, each with the white space before it. likelier: the likeliest tokens in its place.
    """

    pieces: list[str]
    ranks: Int64[ndarray, " T"]
    log_probs: Float64[ndarray, " T"]  # nats; <unk> for unknown tokens
    likelier: list[list[str]]

    @property
    def groups(self) -> Int64[ndarray, " T"]:
        """The group of each token: 0 for the top 10, then to 100, to 1000, and the rest."""
        return np.asarray(np.searchsorted(BOUNDS, self.ranks))

    @property
    def shares(self) -> list[float]:
        """The share of the tokens in each group."""
        counts = np.bincount(self.groups, minlength=len(BOUNDS) + 1)
        return (counts / len(self.ranks)).tolist()

    @property
    def mean_log_prob(self) -> float:
        return float(self.log_probs.mean())

    @property
    def mean_log_rank(self) -> float:
        return float(np.log(self.ranks).mean())


def rank_texts(
    model: LanguageModel[Any],
    tokenizer: Tokenizer,
    texts: Sequence[str],
    progress: Progress = silent,
    *,
    likelier: int = _LIKELIER,
) -> list[RankedText]:
    """likelier: how many tokens to name. Raises TextError for a text without tokens; MarkerError."""
    encoded = tokenizer.encode_texts(texts)
    sequences, pieces = documents_of(encoded.ids), _pieces(tokenizer, texts)
    for number, sequence in enumerate(sequences, 1):
        if not len(sequence):
            raise TextError(f"text {number}: is empty; expected some words")
    ranked: list[RankedText] = [RankedText([], np.empty(0, np.int64), np.empty(0), [])] * len(sequences)
    order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]))
    done, total = 0, sum(map(len, sequences))

    def report(tokens: int) -> None:
        nonlocal done
        done += tokens
        progress("ranking", done, total)

    for first in range(0, len(order), _TOGETHER):
        own = order[first : first + _TOGETHER]
        columns = _rank_batch(model, [sequences[i] for i in own], likelier, report)
        for i, (ranks, log_probs, best) in zip(own, columns, strict=True):
            ranked[i] = RankedText(pieces[i], ranks, log_probs, [tokenizer.shown(row) for row in best])
    return ranked


def _rank_batch(
    model: LanguageModel[Any], sequences: Sequence[Tokens], likelier: int, report: Callable[[int], None]
) -> list[tuple[Int64[ndarray, " T"], Float64[ndarray, " T"], Int32[ndarray, "T k"]]]:
    """Steps through some sequences. report: called after each step, with how many tokens were ranked."""
    lengths = [len(sequence) for sequence in sequences]
    named = min(likelier, model.vocabulary_size)
    columns = [
        (np.empty(length, np.int64), np.empty(length), np.empty((length, named), np.int32)) for length in lengths
    ]
    state = model.start([np.empty(0, np.int32)] * len(sequences))
    active = np.arange(len(sequences))
    for position in range(max(lengths)):
        rows = model.next_log_probs(state)
        tokens = np.array([sequences[i][position] for i in active.tolist()], np.int32)
        own = rows[np.arange(len(active)), tokens]
        ranks = 1 + (rows > own[:, None]).sum(axis=1)
        _, best = top_of(rows, named)
        for row, i in enumerate(active.tolist()):
            columns[i][0][position], columns[i][1][position] = ranks[row], own[row]
            columns[i][2][position] = best[row]
        report(len(active))
        goes_on = np.array([lengths[i] > position + 1 for i in active.tolist()], np.bool_)
        if not goes_on.any():
            break
        active, kept = active[goes_on], np.flatnonzero(goes_on).astype(np.int32)
        state = model.advance(model.select(state, kept), tokens[goes_on])
    return columns


def _pieces(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[str]]:
    """The text of each token with the white space before it; of a character cut in two, all is its first token's."""
    encoded = tokenizer.encode_texts(texts)
    aligned = tokenizer.align(encoded)
    is_border = np.append((aligned.text & 0xC0) != 0x80, True)  # where a character begins
    borders = np.flatnonzero(is_border)
    stops = borders[np.searchsorted(borders, aligned.stops)]
    text, begin = aligned.text.tobytes(), 0
    pieces: list[list[str]] = [[]]
    for token, stop in zip(encoded.ids.tolist(), stops.tolist(), strict=True):
        if token == END:
            pieces.append([])
        else:
            pieces[-1].append(text[begin:stop].decode("utf-8", "replace"))
        begin = max(begin, stop)
    return pieces[:-1]
