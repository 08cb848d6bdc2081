"""How frequent words are: by counts, or under a unigram model."""

from __future__ import annotations

import math
import os
import unicodedata
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import SettingError, TextError
from chainrule.protocol import END
from chainrule.text.lookup import looked_up
from chainrule.text.numbers import number_of
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.models.model import Model


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
