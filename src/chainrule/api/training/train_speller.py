"""Trains the speller of a model on the rarest words of its training text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.scratch import parts_released
from chainrule.ngram.config import NGramConfig
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.tokenization.splitters import SEPARATORS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import DataclassInstance
    from jaxtyping import Int32, Int64
    from numpy import ndarray

    from chainrule.ngram.speller import Speller
    from chainrule.text.tokenization.tokenizer import Tokenizer


_BATCH = 1 << 20  # tokens


def train_speller(
    tokenizer: Tokenizer,
    stream: Int32[ndarray, " tokens"],
    config: DataclassInstance,
    left_out: Sequence[bytes] = (),
) -> Speller:
    """Trains a speller on the tokens of a stream, as `speller_of_counts` does on their counts."""
    return speller_of_counts(tokenizer, token_counts(stream, tokenizer.vocabulary_size), config, left_out)


def token_counts(stream: Int32[ndarray, " tokens"], vocabulary_size: int) -> Int64[ndarray, " vocab"]:
    """How often each token occurs in a stream."""
    counts = np.zeros(vocabulary_size, np.int64)
    for part in parts_released(stream, _BATCH):  # np.bincount copies its input
        counts += np.bincount(part, minlength=counts.size)
    return counts


def speller_of_counts(
    tokenizer: Tokenizer, counts: Int64[ndarray, " vocab"], config: DataclassInstance, left_out: Sequence[bytes] = ()
) -> Speller:
    """Trains a speller on the types that a limited vocabulary left out and, if they are few, on the rarest others.

    The number of unseen types: none, if the tokenizer spells everything. One, which leaves P(<unk>) as it is, if the
    model gives <unk> the mass of all of them, because <unk> occurred in its text or its unigrams are not interpolated.
    Else as `unseen_types` estimates it, since <unk> then has the probability of a single type.
    """
    from chainrule.ngram.speller import ENOUGH, Speller, rare_spellings, unseen_types

    has_whole_mass = counts[UNKNOWN] > 0 or (isinstance(config, NGramConfig) and config.unknown_has_whole_mass)
    counts = counts.astype(np.int64)  # a copy
    counts[[UNKNOWN, BEGIN, END]] = 0
    spellings = left_out[:: max(1, len(left_out) // (2 * ENOUGH))]
    if len(spellings) < ENOUGH:
        spellings = [*spellings, *rare_spellings(tokenizer.vocabulary.tokens(), counts)]
    unseen = 0 if tokenizer.spells_everything else 1 if has_whole_mass else unseen_types(counts)
    return Speller.train(spellings, tokenizer.vocabulary, unseen_types=unseen, never=SEPARATORS)
