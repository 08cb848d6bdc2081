"""What is trained on: a text as a stream of ids, and what its words are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import TextError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int32, Int64, UInt64
    from numpy import ndarray


@dataclass(frozen=True)
class TrainingText:
    """words: by falling frequency; the word of row r has the id r + FIRST_ORDINARY in the stream. Raises TextError."""

    stream: Int32[ndarray, " tokens"]
    words: Sequence[bytes]
    counts: Int64[ndarray, " words"]

    def __post_init__(self) -> None:
        if len(self.words) < 2:
            seen = "no word" if not self.words else "one word"
            raise TextError(
                f"the text has {seen} that is frequent enough; vectors need two: give more text, or a lower min_count"
            )

    def kept(self, sample: float) -> UInt64[ndarray, " words"]:
        """2^32 times the probability that an occurrence of a word stays: (sqrt(f / sample) + 1) sample / f.

        f: its share of the words. The formula is that of word2vec.c, gensim and fastText; the paper: sqrt(sample / f).
        """
        shares = self.counts / self.counts.sum()
        kept = np.minimum(1, (np.sqrt(shares / sample) + 1) * sample / shares) if sample else np.ones(shares.size)
        return (kept * 2**32).astype(np.uint64)

    def __len__(self) -> int:
        return self.stream.size
