"""Log-probabilities of texts after contexts.

A pair says where the continuation begins in the text; tokens may span that border. So both are tokenized as one text,
and the continuation consists of the tokens that end after the border, one that spans it included. White space at the
end of a context belongs to the continuation.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.errors import SettingError
from chainrule.protocol import END
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int32
    from numpy import ndarray

    from chainrule.protocol import Scorer
    from chainrule.text.tokenization.detokenizer import Alignment
    from chainrule.text.tokenization.tokenizer import Tokenizer
    from chainrule.text.tokenization.vocabulary import Encoded

    Tokens = Int32[ndarray, " T"]


class Pair(NamedTuple):
    """A context, and the text after it."""

    context: str
    continuation: str


def score_continuations(
    model: Scorer, tokenizer: Tokenizer, contexts: Sequence[str], continuations: Sequence[str]
) -> Float64[ndarray, " texts"]:
    """Return log P(continuation </s> | context) in nats; an unknown word counts as <unk>, without its spelling.

    Raises SettingError if there are not as many of both; MarkerError.
    """
    if len(contexts) != len(continuations):
        raise SettingError(f"there are {len(contexts)} prompts for {len(continuations)} texts; expected one for each")
    if not contexts:
        return np.empty(0)
    encoded, given = split_pairs([Pair(*pair) for pair in zip(contexts, continuations, strict=True)], tokenizer)
    sequences = documents_of(encoded.ids)
    prefixes = [sequence[:first] for sequence, first in zip(sequences, given, strict=True)]
    rest = [sequence[first:] for sequence, first in zip(sequences, given, strict=True)]
    return np.array([row.sum(dtype=np.float64) for row in model.score(rest, prefixes=prefixes)])


def text_of(pair: Pair) -> str:
    return pair.context + pair.continuation


def split_pairs(pairs: Sequence[Pair], tokenizer: Tokenizer) -> tuple[Encoded, list[int]]:
    """Return the pairs, each joined to one encoded text, and the number of tokens of each context. Raises
    MarkerError.
    """
    encoded = tokenizer.encode_texts([text_of(pair) for pair in pairs])
    contexts = list(dict.fromkeys(pair.context.rstrip() for pair in pairs))
    encoded_contexts = tokenizer.encode_texts(contexts)
    normalised_contexts = dict(zip(contexts, _texts(encoded_contexts, tokenizer.align(encoded_contexts)), strict=True))
    aligned = tokenizer.align(encoded)
    ends = np.flatnonzero(encoded.ids == END)
    firsts = np.concatenate([[0], ends[:-1] + 1])
    given = []
    for pair, text, first, end in zip(pairs, _texts(encoded, aligned), firsts, ends, strict=True):
        begin = aligned.starts[end] - len(text)
        border = begin + _shared_length(normalised_contexts[pair.context.rstrip()], text)
        is_given = (aligned.stops[first:end] <= border) & (aligned.starts[first:end] < border)
        given.append(int(np.argmin(np.append(is_given, False))))
    return encoded, given


def _texts(encoded: Encoded, aligned: Alignment) -> list[bytes]:
    """Return the normalised text of each document."""
    borders = [-1, *aligned.starts[encoded.ids == END].tolist()]
    return [aligned.text[last + 1 : border].tobytes() for last, border in pairwise(borders)]


def _shared_length(context: bytes, text: bytes) -> int:
    """Return the length of the prefix that a context shares with a text: all of it, unless a normaliser joins both at
    the border.
    """
    if text.startswith(context):
        return len(context)
    return next(i for i, (one, other) in enumerate(zip(context + b"\n", text + b"\0", strict=False)) if one != other)
