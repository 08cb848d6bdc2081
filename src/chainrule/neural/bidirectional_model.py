"""Bidirectional networks as scorers of texts: by pseudo-log-likelihoods, which are no probabilities.

A masked network reads a mask in place of the token that it predicts, so it reads a text once for each of its tokens. A
network with separate directions never reads the token that it predicts, so it reads a text once. The mask is <s>, which
no text contains and no network predicts. Legend: B batch, T time, D width, V vocabulary.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from chainrule.base.arguments import after_prefixes, as_tokens, check_tokens
from chainrule.base.distributions import check_log_probs
from chainrule.base.threads import pause
from chainrule.errors import SettingError
from chainrule.neural.device import follow_load
from chainrule.neural.embedding import NetworkVectors
from chainrule.neural.encoders.bidirectional import SeparateDirections
from chainrule.neural.network import add_boundaries, padding_starts
from chainrule.neural.scoring import make_batches, pad
from chainrule.neural.sentence_pairs import MARKERS, pair_tokens, separator
from chainrule.protocol import BEGIN, END
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Bool, Float, Float32, Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.network import Network

    Tokens = Int32[ndarray, " tokens"]

MASK = BEGIN
_TOGETHER = 1 << 13  # tokens in a batch


class _Query(NamedTuple):
    """The inputs of a network, and the positions at which it predicts tokens."""

    inputs: Int64[ndarray, " inputs"]
    positions: Int64[ndarray, " queried"]
    targets: Int64[ndarray, " queried"]
    scores: Float32[ndarray, " queried"]  # filled in with the log-probabilities of the targets


class _Text(NamedTuple):
    """A text, of which the tokens from `first` on are scored."""

    tokens: Tokens
    first: int
    scores: Float32[ndarray, " scored"]  # filled in


class BidirectionalModel(NetworkVectors):
    """A Scorer and an Embedder, but no LanguageModel."""

    def __init__(self, network: Network) -> None:
        """Set the network to evaluation mode, without dropout."""
        self.network = network.eval()
        self.vocabulary_size = network.vocabulary_size
        self.masks = not isinstance(network.encoder, SeparateDirections)

    def score(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " tokens"]]:
        """Return log P(token | all others) of each token (Salazar et al. 2020, equation 1); the others include its
        prefix.

        The end of the text is given, not predicted, so the score of </s> is 0.
        """
        return self._score(sequences, prefixes, end=end, begins=None)

    def score_left_to_right(
        self,
        sequences: Sequence[Tokens],
        begins: Bool[ndarray, " vocab"],
        *,
        prefixes: Sequence[Tokens] | None = None,
    ) -> list[Float32[ndarray, " tokens"]]:
        """Return the scores of `score`, but with the later tokens of the same word masked, too (Kauf and Ivanova 2023).

        begins: whether each token of the vocabulary begins a word. Raises SettingError if the network has no mask.
        """
        if not self.masks:
            raise SettingError(
                "a bidirectional network has no mask, so the rest of a word cannot be masked; use score instead"
            )
        return self._score(sequences, prefixes, end=False, begins=begins)

    def score_stream(self, stream: Tokens) -> Float32[ndarray, " tokens"]:
        """Implement `Scorer.score_stream`; each document by itself."""
        check_tokens(as_tokens(stream), self.vocabulary_size)
        return np.concatenate([np.empty(0, np.float32), *self.score(documents_of(stream))])

    @torch.inference_mode()
    def fill(self, sequence: Tokens) -> Float32[ndarray, "masks vocab"]:
        """Return log P(token | the rest) for every token at each mask of a sequence, with the other masks in place.

        </s> gets no probability, since a gap in a text is not its end. Raises SettingError if there are several masks
        and the network was not trained with masks.
        """
        check_tokens(as_tokens(sequence), self.vocabulary_size)
        masks = np.flatnonzero(sequence == MASK)
        if not self.masks and len(masks) > 1:
            raise SettingError(
                f"there are {len(masks)} masks, but a bidirectional network fills in one; use a masked one"
            )
        inputs = add_boundaries(sequence, self.network)
        log_probs = np.empty((len(masks), self.vocabulary_size), np.float32)
        for row, mask in zip(log_probs, masks.tolist(), strict=True):
            window = self._window(len(inputs), mask + 1)
            hidden = self._read([inputs[window]])[0, mask + 1 - window.start]
            row[:] = _without_end(self.network.output.log_probs(hidden[None])[0].cpu().numpy())
        return log_probs

    @torch.inference_mode()
    def score_following(self, firsts: Sequence[Tokens], seconds: Sequence[Tokens]) -> Float32[ndarray, " pairs"]:
        """Return log P(the second text follows the first) of each pair, in nats.

        Where both texts do not fit, the end of the longer one is cut off. Raises SettingError if the network was not
        trained for it.
        """
        network = self.network
        if network.next_sentence is None:
            raise SettingError(
                "the network was not trained to say whether a sentence follows another; train a masked one with "
                "next_sentence=True"
            )
        longest, end = network.config.context - MARKERS, separator(network.config)
        pairs = [pair_tokens(as_tokens(a), as_tokens(b), end, longest) for a, b in zip(firsts, seconds, strict=True)]
        log_probs = np.empty(len(pairs), np.float32)
        longest_first = sorted(range(len(pairs)), key=lambda place: -len(pairs[place][0]))
        for places in make_batches(longest_first, lambda place: len(pairs[place][0]), _TOGETHER):
            rows = [pairs[place][0] for place in places]
            for row in rows:
                check_tokens(row, self.vocabulary_size)
            tokens = torch.from_numpy(pad(rows, END)).to(network.device)
            second = torch.tensor([pairs[place][1] for place in places], device=network.device)
            starts = padding_starts([len(row) for row in rows], network.device)
            logits = network.next_sentence(network(tokens, None, starts, second)[0])
            log_probs[places] = logits.float().log_softmax(-1)[:, 0].cpu().numpy()
        return log_probs

    def _score(
        self,
        sequences: Sequence[Tokens],
        prefixes: Sequence[Tokens] | None,
        *,
        end: bool,
        begins: Bool[ndarray, " vocab"] | None,
    ) -> list[Float32[ndarray, " tokens"]]:
        scores = [np.zeros(len(sequence) + end, np.float32) for sequence in sequences]
        whole = after_prefixes(sequences, prefixes, self.vocabulary_size, end=False)
        texts = [
            _Text(text, own.start, row[: len(text) - own.start]) for row, (text, own) in zip(scores, whole, strict=True)
        ]
        texts.sort(key=lambda text: -len(text.tokens))
        queries = (query for text in texts for query in self._queries(text, begins))
        for batch in make_batches(queries, lambda query: len(query.inputs), _TOGETHER):
            self._answer(batch)
            pause()
        for row in scores:
            check_log_probs(row)
        return scores

    def _queries(self, text: _Text, begins: Bool[ndarray, " vocab"] | None) -> Iterator[_Query]:
        """Yield one query for a whole text, or one for each of its tokens if these have to be masked."""
        inputs = add_boundaries(text.tokens, self.network)
        positions = np.arange(text.first + 1, len(text.tokens) + 1)
        targets = text.tokens[text.first :].astype(np.int64)
        if not self.masks:
            if positions.size:
                yield _Query(inputs, positions, targets, text.scores)
            return
        word_ends = _word_ends(text.tokens, begins)
        for i, position in enumerate(positions.tolist()):
            own = slice(i, i + 1)
            window = self._window(len(inputs), position)
            masked = inputs[window].copy()
            masked[position - window.start : word_ends[position - 1] + 1 - window.start] = MASK
            yield _Query(masked, positions[own] - window.start, targets[own], text.scores[own])

    def _window(self, inputs: int, position: int) -> slice:
        """Return the inputs around a position, as many as were read at once in training."""
        context = self.network.config.context
        begin = min(max(0, position - context // 2), max(0, inputs - context))
        return slice(begin, min(begin + context, inputs))

    @torch.inference_mode()
    def _answer(self, queries: Sequence[_Query]) -> None:
        """Fill in the scores."""
        hidden = self._read([query.inputs for query in queries])
        rows = np.repeat(np.arange(len(queries)), [query.positions.size for query in queries])
        queried = hidden[rows, np.concatenate([query.positions for query in queries])]  # (queried, D)
        targets = torch.from_numpy(np.concatenate([query.targets for query in queries]))
        log_probs = self.network.output.log_probs_of(queried, targets.to(queried.device)).cpu().numpy()
        edges = pairwise(np.cumsum([0, *(query.positions.size for query in queries)]).tolist())
        for query, (first, last) in zip(queries, edges, strict=True):
            query.scores[:] = log_probs[first:last]

    def _read(self, rows: Sequence[Int64[ndarray, " inputs"]]) -> Float[Tensor, "B T D"]:
        """Return the hidden states of padded rows; the network itself handles the boundaries of documents."""
        follow_load()
        device = self.network.device
        tokens = torch.from_numpy(pad(rows, END)).to(device)
        hidden: Tensor = self.network(tokens, None, padding_starts([len(row) for row in rows], device))[0]
        return hidden


def _without_end(log_probs: Float32[ndarray, " vocab"]) -> Float32[ndarray, " vocab"]:
    """Return the distribution given that the text continues."""
    log_probs = log_probs.copy()
    log_probs[END] = -np.inf
    return np.asarray(log_probs - np.logaddexp.reduce(log_probs))


def _word_ends(text: Tokens, begins: Bool[ndarray, " vocab"] | None) -> Int64[ndarray, " tokens"]:
    """Return the position after the word of each token; without `begins`, every token is a word."""
    if begins is None:
        return np.arange(1, len(text) + 1)
    edges = np.append(np.flatnonzero(begins[text]), len(text))
    return np.asarray(edges[np.searchsorted(edges, np.arange(len(text)), side="right")])
