"""The words of a text on Spark, and their counts: a pass over it, whose rows are put together on the driver one by one.

Ids are those of the local model: in the order in which tokens first occur in the files. The rows of a data frame have
no order, so that their tokens are ordered by their bytes.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import TextError
from chainrule.spark.rows import rows_at_driver
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS, Vocabulary

if TYPE_CHECKING:
    from jaxtyping import Int64
    from numpy import ndarray

    from chainrule.spark.documents import Documents
    from chainrule.spark.workers import TokenizerParts
    from chainrule.text.tokenization.tokenizer import Tokenizer

_PLACE_BITS = 32


def learn_tokenizer(
    documents: Documents, parts: TokenizerParts, learner: Tokenizer
) -> tuple[Tokenizer, Int64[ndarray, " V"]]:
    """The tokenizer with all tokens of a text, and the count of each; a tokenizer that does not grow as it is.

    parts: those of `learner`. Raises TextError.
    """
    from pyspark import StorageLevel

    from chainrule.spark.workers import WORDS, learn_words

    with ExitStack() as stack:
        rows = documents.frame.mapInArrow(partial(learn_words, parts=parts), WORDS).persist(StorageLevel.DISK_ONLY)
        stack.callback(rows.unpersist)
        if not rows.count():
            name = ", ".join(documents.files.values()) or "the data frame"
            raise TextError(f"{name}: there is no text in it; at least one document is needed")
        _raise_error(documents, rows)
        if not parts.grows:
            return learner, np.sum([np.frombuffer(row.counts, np.int64) for row in rows_at_driver(rows)], axis=0)
        words = _Words()
        for row in rows_at_driver(rows):
            words.add(row)
    return words.added_to(learner, in_order=bool(documents.files))


class _Words:
    """Tokens with their counts, and with the first place of each: the file, the piece of it, and the place in that."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self.counts = np.zeros(0, np.int64)
        self.places = np.zeros((3, 0), np.int64)

    def add(self, row: Any) -> None:
        """Adds a row of WORDS; they may come in any order."""
        own = Vocabulary(row.tokens.split(b"\n") if row.tokens else ())
        ids = self.vocabulary.absorb(own)
        new = len(self.vocabulary) - self.counts.size
        self.counts = np.pad(self.counts, (0, new))
        self.places = np.pad(self.places, ((0, 0), (0, new)), constant_values=np.iinfo(np.int64).max)
        self.counts[ids] += np.frombuffer(row.counts, np.int64)
        places = (row.place << _PLACE_BITS) + np.arange(ids.size)
        known = self.places[:, ids]
        at = np.stack([np.full(ids.size, row.source), np.full(ids.size, row.start), places])
        differs = at != known
        first = np.argmax(differs, axis=0)  # the first of the three numbers that differs
        columns = np.arange(ids.size)
        is_before = at[first, columns] < known[first, columns]
        self.places[:, ids[is_before]] = at[:, is_before]

    def added_to(self, learner: Tokenizer, *, in_order: bool) -> tuple[Tokenizer, Int64[ndarray, " V"]]:
        """The learner with these tokens, and the count of each. in_order: of their places, or else of their bytes."""
        tokens = self.vocabulary.tokens()
        ordinary = range(len(MARKER_TOKENS), len(tokens))
        if in_order:
            order = np.lexsort(self.places[::-1, ordinary.start :]) + ordinary.start
        else:
            order = np.array(sorted(ordinary, key=lambda i: tokens[i]), np.int64)
        ids = learner.vocabulary.absorb(Vocabulary([tokens[i] for i in order.tolist()]))
        counts = np.zeros(len(learner.vocabulary), np.int64)
        counts[ids] = self.counts[np.concatenate([np.arange(ordinary.start), order])]
        return learner, counts


def _raise_error(documents: Documents, rows: Any) -> None:
    """Raises TextError for the first row with an error."""
    errors = rows.where("error is not null").collect()
    if errors:
        row = min(errors, key=lambda row: (row.source, row.start))
        raise TextError(f"{documents.locate(row.source, row.start)}: {row.error}")
