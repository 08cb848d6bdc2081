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

from chainrule.base.distributions import check_log_probs
from chainrule.base.tokens import as_tokens, check_prefixes, check_tokens
from chainrule.errors import SettingError
from chainrule.neural.encoders.directions import Apart
from chainrule.neural.framing import framed, padding
from chainrule.neural.scoring import batched, padded
from chainrule.neural.vectors import static_vectors, token_vectors
from chainrule.protocol import BEGIN, END
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
    """What a network reads to tell the tokens at some of its positions."""

    inputs: Int64[ndarray, " inputs"]
    positions: Int64[ndarray, " asked"]
    targets: Int64[ndarray, " asked"]
    scored: Float32[ndarray, " asked"]  # where their log-probabilities go


class _Text(NamedTuple):
    """Tokens, of which those from `first` on are scored, and where their scores go."""

    tokens: Tokens
    first: int
    scored: Float32[ndarray, " scored"]


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
        """log P(token | all others) of each token (Salazar 2020), its prefix among the others.

        That the text ends is given and not asked, so that the score of </s> is 0.
        """
        return self._score(sequences, prefixes, end=end, begins=None)

    def score_left_to_right(
        self,
        sequences: Sequence[Tokens],
        begins: Bool[ndarray, " vocab"],
        *,
        prefixes: Sequence[Tokens] | None = None,
    ) -> list[Float32[ndarray, " tokens"]]:
        """As `score`, but that the later tokens of its own word are masked, too (Kauf and Ivanova 2023).

        begins: whether a token begins a word. Raises SettingError where nothing is masked.
        """
        if not self.masks:
            raise SettingError(
                "directions that are apart mask nothing, so that no word can be masked; score it as it is"
            )
        return self._score(sequences, prefixes, end=False, begins=begins)

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
            around = self._around(len(inputs), mask + 1)
            hidden = self._read([inputs[around]])[0, mask + 1 - around.start]
            log_probs[:] = _without_end(self.network.output.log_probs(hidden[None])[0].cpu().numpy())
        return found

    def vectors(
        self, sequences: Sequence[Tokens], layer: int | None = None, *, bfloat16: bool = False
    ) -> list[Float32[ndarray, "tokens D"]]:
        """As `Embedder.vectors`."""
        return token_vectors(self.network, sequences, layer, bfloat16=bfloat16)

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
        found = [np.zeros(len(sequence) + end, np.float32) for sequence in sequences]
        texts = []
        for i, sequence in enumerate(sequences):
            before = as_tokens([] if prefixes is None else prefixes[i])
            texts.append(_Text(np.concatenate([before, as_tokens(sequence)]), len(before), found[i][: len(sequence)]))
            check_tokens(texts[-1].tokens, self.vocabulary_size)
        texts.sort(key=lambda text: -len(text.tokens))
        asked = (each for text in texts for each in self._asked(text, begins))
        for batch in batched(asked, lambda each: len(each.inputs), _TOGETHER):
            self._ask(batch)
        for each in found:
            check_log_probs(each)
        return found

    def _asked(self, text: _Text, begins: Bool[ndarray, " vocab"] | None) -> Iterator[_Asked]:
        """What is read for the tokens of a text from its first on."""
        inputs = framed(text.tokens, self.network)
        positions = np.arange(text.first + 1, len(text.tokens) + 1)
        targets = text.tokens[text.first :].astype(np.int64)
        if not self.masks:
            if positions.size:
                yield _Asked(inputs, positions, targets, text.scored)
            return
        behind = _word_ends(text.tokens, begins)
        for number, position in enumerate(positions.tolist()):
            own = slice(number, number + 1)
            around = self._around(len(inputs), position)
            masked = inputs[around].copy()
            masked[position - around.start : behind[position - 1] + 1 - around.start] = MASK
            yield _Asked(masked, positions[own] - around.start, targets[own], text.scored[own])

    def _around(self, inputs: int, position: int) -> slice:
        """As much around one position as was read at once in training."""
        context = self.network.config.context
        begin = min(max(0, position - context // 2), max(0, inputs - context))
        return slice(begin, min(begin + context, inputs))

    @torch.inference_mode()
    def _ask(self, rows: Sequence[_Asked]) -> None:
        """Fills in what is scored."""
        hidden = self._read([row.inputs for row in rows])
        lines = np.repeat(np.arange(len(rows)), [row.positions.size for row in rows])
        chosen = hidden[lines, np.concatenate([row.positions for row in rows])]  # (asked, D)
        targets = torch.from_numpy(np.concatenate([row.targets for row in rows]))
        log_probs = self.network.output.log_probs_of(chosen, targets.to(chosen.device)).cpu().numpy()
        edges = pairwise(np.cumsum([0, *(row.positions.size for row in rows)]).tolist())
        for row, (first, last) in zip(rows, edges, strict=True):
            row.scored[:] = log_probs[first:last]

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
    """The position behind the word of each token; without `begins`, every token is one."""
    if begins is None:
        return np.arange(1, len(text) + 1)
    edges = np.append(np.flatnonzero(begins[text]), len(text))
    return np.asarray(edges[np.searchsorted(edges, np.arange(len(text)), side="right")])
