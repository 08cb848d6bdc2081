"""Pseudo-log-likelihood of sentences under bidirectional models: good for ranking sentences, but no probability."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from chainrule.protocol import END, UNKNOWN, Scorer
from chainrule.text.tokenization.tokenizer import documents_of
from chainrule.text.units import begins_word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float32, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.evaluation.token_scores import Speller
    from chainrule.text.tokenization.tokenizer import Tokenizer

Pseudo = Literal["original", "word-l2r"]


class PseudoScorer(Scorer, Protocol):
    """A bidirectional network. masks: whether it reads a mask in the position that it predicts."""

    masks: bool

    def score_left_to_right(
        self,
        sequences: Sequence[Int32[ndarray, " T"]],
        begins: Bool[ndarray, " V"],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
    ) -> list[Float32[ndarray, " T"]]:
        """Score each token without the rest of its word. begins: whether a token of the vocabulary begins a word."""


def pseudo_log_likelihoods(
    model: PseudoScorer,
    speller: Speller,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    pseudo: Pseudo | None = None,
    *,
    given: Sequence[int] | None = None,
    until: Sequence[int] | None = None,
) -> tuple[Float64[ndarray, " texts"], Int64[ndarray, " texts"]]:
    """Return the pseudo-log-likelihood of each text (Salazar et al. 2020), in nats, and its number of tokens.

    Unknown tokens include their spelling; </s> is not counted.
    pseudo: "original" predicts each token from all others; "word-l2r" hides the rest of its word from it, too (Kauf and
    Ivanova 2023). None for the latter if the network masks. Raises SettingError if word-l2r is chosen and it does not.
    given: for each text, how many of its first tokens are context only, and not scored; by default none. until: for
    each text, the index of the token from which on the rest is context only; by default there is no such rest.
    """
    encoded = tokenizer.encode_texts(texts)
    sequences = documents_of(encoded.ids)
    firsts = [0] * len(sequences) if given is None else given
    stops = [len(sequence) for sequence in sequences] if until is None else until
    prefixes = [sequence[:first] for sequence, first in zip(sequences, firsts, strict=True)]
    rest = [sequence[first:] for sequence, first in zip(sequences, firsts, strict=True)]
    if pseudo == "word-l2r" or (pseudo is None and model.masks):
        scores = model.score_left_to_right(rest, begins_word(tokenizer), prefixes=prefixes)
    else:
        scores = model.score(rest, prefixes=prefixes, end=False)
    sizes = np.array(stops, np.int64) - np.array(firsts, np.int64)
    own = (log_probs[:size] for log_probs, size in zip(scores, sizes.tolist(), strict=True))
    totals = np.array([log_probs.sum(dtype=np.float64) for log_probs in own])
    positions = np.flatnonzero(encoded.ids == UNKNOWN)
    documents = np.cumsum(encoded.ids == END)
    starts = np.concatenate([[0], np.flatnonzero(encoded.ids == END) + 1])
    in_document = positions - starts[documents[positions]]
    is_counted = (in_document >= np.array(firsts, np.int64)[documents[positions]]) & (
        in_document < np.array(stops, np.int64)[documents[positions]]
    )
    positions = positions[is_counted]
    spelling = speller.log_probs([encoded.surface(i) for i in positions.tolist()])
    np.add.at(totals, documents[positions], spelling)
    return totals, sizes
