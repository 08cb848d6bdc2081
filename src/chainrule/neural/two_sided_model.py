"""Networks that see both sides of a token, as scorers of texts: pseudo-log-likelihoods, which are no probabilities.

A masked network sees the mask in place of the token that it is asked for, so it reads a text once for each of its
tokens; one whose directions are apart never sees that token, and reads a text once. The mask is <s>, which no text
holds and no network predicts. Legend: B batch, T time, D width, V vocabulary.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from chainrule.errors import SettingError
from chainrule.neural.encoders.directions import Apart
from chainrule.neural.framing import framed, padding
from chainrule.neural.scoring import padded
from chainrule.neural.vectors import static_vectors, token_vectors
from chainrule.protocol import BEGIN, END, as_tokens, check_log_probs, check_prefixes, check_tokens
from chainrule.text.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Bool, Float32, Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.network import Network

    Tokens = Int32[ndarray, " tokens"]

MASK = BEGIN
_TOGETHER = 1 << 13  # tokens in a batch


class _Asked(NamedTuple):
    """What a network reads to tell the tokens at some of its places, of the same row."""

    inputs: Int64[ndarray, " inputs"]
    places: Int64[ndarray, " asked"]
    targets: Int64[ndarray, " asked"]


class TwoSidedModel:
    """A Scorer and an Embedder; no LanguageModel."""

    def __init__(self, network: Network) -> None:
        """Sets the network to evaluation: nothing is dropped out."""
        self.network = network.eval()
        self.vocabulary_size = network.vocabulary_size
        self.masks = not isinstance(network.encoder, Apart)

    def score(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " tokens"]]:
        """log P(token | all others) of each token (Salazar 2020), its prefix among the others."""
        return self._score(sequences, prefixes, end=end, begins=None)

    def score_left_to_right(
        self, sequences: Sequence[Tokens], begins: Bool[ndarray, " vocab"]
    ) -> list[Float32[ndarray, " tokens"]]:
        """As `score`, but that the later tokens of its own word are masked, too (Kauf and Ivanova 2023).

        begins: whether a token begins a word. Raises SettingError where nothing is masked.
        """
        if not self.masks:
            raise SettingError(
                "directions that are apart mask nothing, so that no word can be masked; score it as it is"
            )
        return self._score(sequences, None, end=False, begins=begins)

    def score_stream(self, stream: Tokens) -> Float32[ndarray, " tokens"]:
        """As `Scorer.score_stream`: each document by itself."""
        check_tokens(as_tokens(stream), self.vocabulary_size)
        return np.concatenate([np.empty(0, np.float32), *self.score(documents_of(stream))])

    @torch.inference_mode()
    def fill(self, sequence: Tokens) -> Float32[ndarray, "masks vocab"]:
        """log P(token | the rest) for every token at each mask of a sequence, the others staying masks; a gap in a text
        is not its end.

        Raises SettingError where there are several and the directions are apart: these have never seen a mask.
        """
        check_tokens(as_tokens(sequence), self.vocabulary_size)
        masks = np.flatnonzero(sequence == MASK)
        if not self.masks and len(masks) > 1:
            raise SettingError(f"there are {len(masks)} masks, but a network that is not masked fills in one at a time")
        inputs = framed(sequence, self.network)
        found = np.empty((len(masks), self.vocabulary_size), np.float32)
        for log_probs, mask in zip(found, masks.tolist(), strict=True):
            asked = self._seen(inputs, np.array([mask + 1]))
            hidden = self.network(torch.from_numpy(asked.inputs)[None])[0][0, asked.places]
            log_probs[:] = _without_end(self.network.output.log_probs(hidden)[0].numpy())
        return found

    def vectors(self, sequences: Sequence[Tokens], layer: int | None = None) -> list[Float32[ndarray, "tokens D"]]:
        """As `Embedder.vectors`."""
        return token_vectors(self.network, sequences, layer)

    def static_vectors(self) -> Float32[ndarray, "vocab D"]:
        """As `Embedder.static_vectors`."""
        return static_vectors(self.network)

    def _score(
        self,
        sequences: Sequence[Tokens],
        prefixes: Sequence[Tokens] | None,
        *,
        end: bool,
        begins: Bool[ndarray, " vocab"] | None,
    ) -> list[Float32[ndarray, " tokens"]]:
        check_prefixes(len(sequences), prefixes)
        asked: list[_Asked] = []
        sizes = []
        for i, sequence in enumerate(sequences):
            before = as_tokens([] if prefixes is None else prefixes[i])
            text = np.concatenate([before, as_tokens(sequence)])
            check_tokens(text, self.vocabulary_size)
            own = list(self._asked(text, len(before), end, begins))
            sizes.append((len(own), len(sequence) + end))
            asked += own
        parts = self._log_probs(asked)
        edges = pairwise(np.cumsum([0, *(number for number, _ in sizes)]).tolist())
        empty = np.empty(0, np.float32)
        found = [np.concatenate([empty, *parts[first:last]]) for first, last in edges]
        for each in found:
            check_log_probs(each)
        return found

    def _asked(self, text: Tokens, first: int, end: bool, begins: Bool[ndarray, " vocab"] | None) -> Iterator[_Asked]:
        """What is read for the tokens of a text from the first on, and for its end; all scored tokens in order."""
        inputs = framed(text, self.network)
        places = np.arange(first + 1, len(text) + 1)
        if self.masks:
            behind = _word_ends(text, begins)
            for place in places.tolist():
                masked = inputs.copy()
                masked[place : behind[place - 1] + 1] = MASK
                yield self._seen(masked, np.array([place]))._replace(targets=text[place - 1 : place])
        elif places.size:
            yield _Asked(inputs, places, text[first:])
        if end:
            masked = np.append(inputs[: len(text) + 1], MASK)
            yield self._seen(masked, np.array([len(text) + 1]))._replace(targets=np.array([END]))

    def _seen(self, inputs: Int64[ndarray, " inputs"], places: Int64[ndarray, " asked"]) -> _Asked:
        """As much around one place as the network sees at once; the targets are not said yet."""
        context = self.network.causal.context
        if context is None or len(inputs) <= context:
            return _Asked(inputs, places, places)
        begin = min(max(0, int(places[0]) - context // 2), len(inputs) - context)
        return _Asked(inputs[begin : begin + context], places - begin, places)

    @torch.inference_mode()
    def _log_probs(self, asked: Sequence[_Asked]) -> list[Float32[ndarray, " asked"]]:
        """Of the targets; rows of about the same length are read together."""
        found: list[Float32[ndarray, " asked"]] = [np.empty(0, np.float32)] * len(asked)
        for batch in _batches([len(each.inputs) for each in asked]):
            rows = [asked[number] for number in batch]
            hidden = self._read([row.inputs for row in rows])
            lines = np.repeat(np.arange(len(rows)), [row.places.size for row in rows])
            chosen = hidden[lines, np.concatenate([row.places for row in rows])]  # (asked, D)
            targets = torch.from_numpy(np.concatenate([row.targets for row in rows]).astype(np.int64))
            log_probs = self.network.output.log_probs_of(chosen, targets.to(chosen.device)).cpu().numpy()
            edges = pairwise(np.cumsum([0, *(row.places.size for row in rows)]).tolist())
            for number, (first, last) in zip(batch, edges, strict=True):
                found[number] = log_probs[first:last]
        return found

    def _read(self, rows: Sequence[Int64[ndarray, " inputs"]]) -> Tensor:
        """(B, T, D); the network itself sees to the borders of documents."""
        device = self.network.device
        tokens = torch.from_numpy(padded(rows, END)).to(device)
        hidden: Tensor = self.network(tokens, None, padding([len(row) for row in rows], device))[0]
        return hidden


def _without_end(log_probs: Float32[ndarray, " vocab"]) -> Float32[ndarray, " vocab"]:
    """As they are where it is known that the text goes on."""
    log_probs = log_probs.copy()
    log_probs[END] = -np.inf
    return np.asarray(log_probs - np.logaddexp.reduce(log_probs))


def _word_ends(text: Tokens, begins: Bool[ndarray, " vocab"] | None) -> Int64[ndarray, " tokens"]:
    """The place behind the word of each token; without `begins`, every token is one."""
    if begins is None:
        return np.arange(1, len(text) + 1)
    edges = np.append(np.flatnonzero(begins[text]), len(text))
    return np.asarray(edges[np.searchsorted(edges, np.arange(len(text)), side="right")])


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """The numbers of rows of about the same length, the longest first."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > _TOGETHER:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
