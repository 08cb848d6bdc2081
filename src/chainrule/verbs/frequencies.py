"""Counts and relative frequencies of n-grams in a text, before any smoothing; and how frequent single words are."""

from __future__ import annotations

import math
import os
import unicodedata
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError, TextError
from chainrule.models.files.tokenizers import tokenize_source
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.corpus.corpus import source_of
from chainrule.text.lookup import looked_up
from chainrule.text.numbers import number_of
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.models.model import Model
    from chainrule.text.corpus.corpus import Paths, Source
    from chainrule.text.tokenization.config import TokenizerConfig

_ROOT = 0


class Frequencies:
    """Counts of n-grams, and relative frequencies: the estimates of maximum likelihood, which are 0 for the unseen.

    count_markers: whether <s> and </s> count as words, once for each document.
    Raises TextError, SettingError.

    good:  Frequencies("corpus.txt", order=2).prob("dog", "the")          # count(the dog) / count(the)
    """

    def __init__(
        self,
        source: Source | Paths,
        *,
        order: int = 3,
        tokenizer: TokenizerConfig | str = "word",
        count_markers: bool = True,
        progress: Progress = silent,
    ) -> None:
        from chainrule.ngram.config import NGramConfig
        from chainrule.ngram.counting.count import count_ngrams

        order = NGramConfig(order=order).order  # checks it
        self._tokenizer, stream, *_ = tokenize_source(source_of(source), tokenizer, progress=progress)
        self._counts = count_ngrams(stream, self._tokenizer.vocabulary_size, order, progress)
        self._documents = int(np.count_nonzero(stream == END))
        self._count_markers = count_markers
        ends = 2 * self._documents if count_markers else 0
        self.total = stream.size - self._documents + ends  # number of words

    def count(self, *words: str) -> int:
        """Return how often these words follow one another.

        Raises SettingError if there are more of them than the order.
        """
        if not 1 <= len(words) <= self._counts.order:
            raise SettingError(f"{len(words)} words cannot be counted; expected 1 to {self._counts.order}, the order")
        ids = self._ids(words)
        if ids == [BEGIN] and self._count_markers:
            return self._documents
        node = self._node(ids)
        return 0 if node is None else int(self._counts.counts[node])

    def prob(self, word: str, *context: str) -> float:
        """Return count(context word) / count(context), or without a context count(word) / total; 0 for 0 / 0."""
        denominator = self.count(*context) if context else self.total
        return self.count(*context, word) / denominator if denominator else 0.0

    def followers(self, *context: str) -> dict[str, int]:
        """Return how often each token follows this context, the most frequent first. Raises as `count`."""
        if len(context) >= self._counts.order:
            raise SettingError(f"{len(context)} words of context; expected at most {self._counts.order - 1}, order - 1")
        node = self._node(self._ids(context))
        first, last = (0, 0) if node is None else self._counts.begin[node : node + 2].tolist()
        pairs = zip(self._counts.words[first:last].tolist(), self._counts.counts[first:last].tolist(), strict=True)
        counts = {token: count for token, count in pairs if count and (self._count_markers or token != END)}
        ordered = sorted(counts, key=lambda token: -counts[token])
        return {self._tokenizer.vocabulary.token(token): counts[token] for token in ordered}

    def _ids(self, words: Sequence[str]) -> list[int]:
        return [self._tokenizer.vocabulary.id_of(word) for word in words]

    def _node(self, ids: Sequence[int]) -> int | None:
        """Return the node of these tokens; None if they were not seen."""
        if UNKNOWN in ids or (not self._count_markers and {BEGIN, END} & set(ids)):
            return None
        node = _ROOT
        for token in ids:
            first, last = self._counts.begin[node : node + 2].tolist()
            child = first + int(np.searchsorted(self._counts.words[first:last], np.int32(token)))
            if child == last or self._counts.words[child] != token:
                return None
            node = child
        return node


class WordFrequencies:
    """ln of the relative frequency of words: of counts, or under a unigram model.

    A word that has no count, or 0, has that of the word without the punctuation and symbols (Unicode's P and S) around
    it, or in lower case, or both. ’ and ' count as the same.

    source: a file, whose lines are a word, a tab and its count, each word once (longer n-grams are left out), a
    dictionary, or a unigram model or its folder. Raises TextError; SettingError if the model is not a unigram model.

    good:  WordFrequencies({"the": 3, "dog": 1}).log_frequencies(["Dog."])  # [ln 1/4]
    """

    def __init__(self, source: str | os.PathLike[str] | Mapping[str, float] | Model) -> None:
        self._model: Any = None
        self._counts: dict[str, float] = {}  # of looked-up forms
        read: Any = source
        if isinstance(source, str | os.PathLike):
            path = Path(source)
            if path.is_dir() or path.name.endswith((".arpa", ".arpa.gz")):
                from chainrule.models.files.opening import load

                read = load(path)
            else:
                read = _read_counts(path)
        order = getattr(getattr(read, "engine", None), "order", None)
        if isinstance(read, Mapping):
            _check_counts(read)
            for word, count in read.items():
                form = looked_up(word)
                self._counts[form] = self._counts.get(form, 0.0) + count
            self._log_total = math.log(math.fsum(read.values()) or 1.0)
        elif order != 1:
            found = "is no n-gram model" if order is None else f"is an n-gram model of order {order}"
            shown = os.fspath(source) if isinstance(source, str | os.PathLike) else "the model of frequencies"
            raise SettingError(f"{shown}: {found}; frequencies come from one of order 1, or from a file of counts")
        else:
            self._model = read
        self._known: dict[str, float | None] = {}

    def log_frequencies(self, words: Sequence[str]) -> list[float | None]:
        """Return the logarithm of each word's frequency; None if it has no count, and of the markers, which are no
        words of a text.
        """
        self._known |= dict.fromkeys(MARKER_TOKENS)
        new = [word for word in dict.fromkeys(words) if word not in self._known]
        if self._model is None:
            self._known |= {word: self._counted(word) for word in new}
        elif new:
            from chainrule.evaluation.token_scores import score_tokens

            encoded = self._model.tokenizer.encode_texts(new)
            scored = score_tokens(self._model.engine, self._model.speller, encoded, end=False).spelled
            log_probs = np.add.reduceat(scored, np.flatnonzero(np.append(END, encoded.ids[:-1]) == END))
            self._known |= dict(zip(new, log_probs.tolist(), strict=True))
        return [self._known[word] for word in words]

    def _counted(self, word: str) -> float | None:
        word = looked_up(word)
        bare = _without_marks_around(word)
        for form in (word, bare, word.lower(), bare.lower()):
            if count := self._counts.get(form):
                return math.log(count) - self._log_total
        return None


def _without_marks_around(word: str) -> str:
    """Return the word without Unicode's punctuation and symbols (P and S) at its ends: “Hello”, becomes Hello."""
    inside = [i for i, character in enumerate(word) if unicodedata.category(character)[0] not in "PS"]
    return word[inside[0] : inside[-1] + 1] if inside else ""


def _check_counts(counts: Mapping[str, float]) -> None:
    """Raise SettingError unless all are words with counts, 0 or more."""
    for word, count in counts.items():
        if not isinstance(word, str) or not isinstance(count, Real) or not 0 <= count < math.inf:
            raise SettingError(f"frequencies have {word!r}: {count!r}; expected a word and its count, 0 or more")


def _read_counts(path: Path) -> dict[str, float]:
    """Read the counts in a file. Raises TextError with file and line."""
    from chainrule.text.corpus.plain_text import lines_of

    counts: dict[str, float] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(lines_of(path), 1):
        word, tab, count = line.rpartition("\t")
        if not line.strip() or " " in word:
            continue
        try:
            value = number_of(count)
        except ValueError:
            value = math.nan
        if not tab or not 0 <= value < math.inf:
            raise TextError(f"{path}, line {number}: is {line[:40]!r}; expected a word, a tab and its count")
        if word in counts:
            raise TextError(
                f"{path}, line {number}: {word!r} was counted on line {lines[word]} already; give each word one line, "
                "with the sum of its counts"
            )
        counts[word], lines[word] = value, number
    if not any(counts.values()):
        raise TextError(f"{path}: no word is counted in it; expected lines of a word, a tab and its count")
    return counts
