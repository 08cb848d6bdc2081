"""A small ARPA file by hand, and helpers for tests of ARPA files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.ngram.trie.table import Table
    from chainrule.text.tokenization.vocabulary import Vocabulary

# Log10 by hand: p(a) = 10^-0.5, p(b|a) = 10^-0.25, p(b|<s>) = back-off(<s>) + p(b) = 10^-(0.125 + 1).
SMALL = r"""\data\
ngram 1=5
ngram 2=4
ngram 3=2

\1-grams:
-2	<unk>	0
0	<s>	-0.125
-1.5	</s>	0
-0.5	a	-0.75
-1	b	-0.375

\2-grams:
-0.5	<s> a	-0.0625
-0.25	a b	-0.1
-0.3	b </s>	0
-0.75	b a	0

\3-grams:
-0.15	<s> a b
-0.2	a b </s>

\end\
"""


Values = dict[tuple[str, ...], tuple[float, float]]


def written(folder: Path, text: str | bytes, name: str = "m.arpa") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def ngrams_of(table: Table, vocabulary: Vocabulary) -> Values:
    """Every n-gram with its log10 probability and back-off, straight from the trie's definition."""
    spelled = [token.decode() for token in vocabulary.tokens()]
    actual: Values = {}
    above: list[tuple[str, ...]] = [()]
    for order in range(1, table.order + 1):
        level, contexts = table.level(order), table.level(order - 1)
        sizes = np.diff(table.begin[contexts.start : contexts.stop + 1])
        starts = np.repeat(np.arange(len(above)), sizes)
        assert len(starts) == level.stop - level.start
        above = [(*above[c], spelled[w]) for c, w in zip(starts, table.words[level], strict=True)]
        for node, ngram in zip(range(level.start, level.stop), above, strict=True):
            backoff = table.log_backoffs[node] if order < table.order else 0
            actual[ngram] = (table.log_probs[node] / math.log(10), backoff / math.log(10))
    return actual


def ngrams_in(text: str) -> Values:
    """Every n-gram of an ARPA file with tabs, straight from the format's definition."""
    actual: Values = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) > 1:
            actual[tuple(fields[1].split(" "))] = (float(fields[0]), float(fields[2]) if len(fields) > 2 else 0)
    return actual


def assert_close(actual: Values, expected: Values, tolerance: float = 1e-6) -> None:
    assert actual.keys() == expected.keys()
    ngrams = [ngram for ngram in expected if ngram != ("<s>",)]  # its own probability is never asked for
    differences = np.abs(np.array([actual[ngram] for ngram in ngrams]) - [expected[ngram] for ngram in ngrams])
    worst = int(differences.max(axis=1).argmax())
    assert differences[worst].max() <= tolerance, (ngrams[worst], actual[ngrams[worst]], expected[ngrams[worst]])
