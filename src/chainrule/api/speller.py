"""The speller of a model that is trained, learned from the rarest words of its text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.ngram.config import NGramConfig
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.splitters import SEPARATORS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import DataclassInstance
    from jaxtyping import Int32, Int64
    from numpy import ndarray

    from chainrule.ngram.spelling.speller import Speller
    from chainrule.text.tokenizer import Tokenizer


_COUNTED_AT_ONCE = 1 << 20  # tokens


def learnt_speller(
    tokenizer: Tokenizer,
    stream: Int32[ndarray, " tokens"],
    config: DataclassInstance,
    left_out: Sequence[bytes] = (),
) -> Speller:
    """As `speller_of_counts`, for the tokens of a stream."""
    return speller_of_counts(tokenizer, token_counts(stream, tokenizer.vocabulary_size), config, left_out)


def token_counts(stream: Int32[ndarray, " tokens"], vocabulary_size: int) -> Int64[ndarray, " vocab"]:
    """How often each token stands in a stream."""
    counts = np.zeros(vocabulary_size, np.int64)
    for start in range(0, stream.size, _COUNTED_AT_ONCE):  # np.bincount copies what it counts
        counts += np.bincount(stream[start : start + _COUNTED_AT_ONCE], minlength=counts.size)
    return counts


def speller_of_counts(
    tokenizer: Tokenizer, counts: Int64[ndarray, " vocab"], config: DataclassInstance, left_out: Sequence[bytes] = ()
) -> Speller:
    """Learns from the types that a limited vocabulary left out, and where there are few, from the rarest by `counts`.

    How many unseen types to expect: none of a tokenizer that spells everything; one, so that P(<unk>) stays as it is,
    where the model gives <unk> the mass of all of them: where it has seen <unk> as a token, or its unigrams are not
    interpolated; else as `unseen_types` says, since <unk> has the probability of a single one.
    """
    from chainrule.ngram.spelling.speller import ENOUGH, Speller, rare_spellings, unseen_types

    has_whole_mass = counts[UNKNOWN] > 0 or (isinstance(config, NGramConfig) and config.unknown_has_whole_mass)
    counts = counts.astype(np.int64)  # a copy
    counts[[UNKNOWN, BEGIN, END]] = 0
    spellings = left_out[:: max(1, len(left_out) // (2 * ENOUGH))]
    if len(spellings) < ENOUGH:
        spellings = [*spellings, *rare_spellings(tokenizer.vocabulary.tokens(), counts)]
    unseen = 0 if tokenizer.spells_everything else 1 if has_whole_mass else unseen_types(counts)
    return Speller.train(spellings, tokenizer.vocabulary, unseen_types=unseen, never=SEPARATORS)
