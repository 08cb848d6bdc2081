"""Was a text written by a model? Ranks of its tokens (GLTR), and DetectGPT.

The rank of a token is how many tokens the model found likelier in its place, plus one (Gehrmann 2019). Machines write
the likeliest tokens more often than people do.

DetectGPT (Mitchell et al. 2023): is a text likelier than the texts around it? What a model wrote lies near a peak of
its own log-probability; what a person wrote does not. The texts around one are made by a masked model, which fills some
of its tokens anew. The measure is equation 1 of the paper, normalised as in its section 4: (log p(x) - mean log p(x'))
/ the standard deviation of log p(x'), where log p is a mean over tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from chainrule.base.distributions import top_of
from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.evaluation.token_scores import score_documents
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float32, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.evaluation.token_scores import Speller
    from chainrule.protocol import LanguageModel
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Tokens = Int32[ndarray, " T"]

MASKED_SHARE = 0.15  # of the tokens, as in the paper


class Filler(Protocol):
    """A masked model."""

    def fill(self, sequence: Int32[ndarray, " T"]) -> Float32[ndarray, "masks V"]:
        """Return log P(token | the rest) for every token at each mask, <s>, of a sequence."""


def perturb(
    filler: Filler, tokenizer: Tokenizer, text: str, count: int, rng: np.random.Generator, share: float = MASKED_SHARE
) -> list[str]:
    """Return a text with a share of its tokens filled anew, at least one, `count` times. Raises MarkerError."""
    encoded = tokenizer.encode_texts([text])
    ids = encoded.ids[:-1]
    surfaces = [encoded.surface(i) for i in range(len(ids))]
    texts = []
    for _ in range(count):
        places = np.sort(rng.choice(len(ids), max(1, round(share * len(ids))), replace=False))
        masked = ids.copy()
        masked[places] = BEGIN
        probs = np.exp(filler.fill(masked).astype(np.float64))
        probs[:, UNKNOWN] = 0
        changed = list(surfaces)
        for place, row in zip(places.tolist(), probs / probs.sum(1, keepdims=True), strict=True):
            changed[place] = tokenizer.vocabulary.token_bytes(int(rng.choice(len(row), p=row)))
        texts.append(tokenizer.restore(b" ".join(changed)).decode("utf-8", "replace"))
    return texts


def curvatures(
    model: LanguageModel[Any],
    speller: Speller,
    tokenizer: Tokenizer,
    filler: Filler,
    filler_tokenizer: Tokenizer,
    texts: Sequence[str],
    perturbations: int,
    *,
    seed: int,
    progress: Progress = silent,
) -> Float64[ndarray, " texts"]:
    """Return the normalised curvature of each text; 0 where all its perturbations are equally likely.

    Text i has a separate random stream, from the seed and i. Raises MarkerError.
    """
    found = np.zeros(len(texts))
    for i, text in enumerate(texts):
        progress("perturbing", i, len(texts))
        others = perturb(filler, filler_tokenizer, text, perturbations, np.random.default_rng([seed, i]))
        log_probs, sizes = score_documents(model, speller, tokenizer.encode_texts([text, *others]), end=False)
        means = log_probs / np.maximum(sizes, 1)
        deviation = means[1:].std(ddof=1)
        found[i] = (means[0] - means[1:].mean()) / deviation if deviation > 0 else 0.0
    return found


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
    """Rank the tokens of each text.

    likelier: how many of the likeliest tokens to name in each place. Raises TextError for a text without tokens;
    MarkerError.
    """
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
    """Rank the tokens of some sequences, step by step.

    report: called after each step, with how many tokens were ranked.
    """
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
    """Return the text of each token with the white space before it; a character that is split among tokens belongs to
    the first.
    """
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
