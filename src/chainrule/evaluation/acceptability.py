"""Which of two sentences a model finds likelier: minimal pairs, one sentence acceptable, the other not.

A pair is judged by each of several rules: by the log-probabilities of the sentences, and by these divided by their
tokens, characters and bytes, since a longer sentence is less likely whatever it says (Lau et al. 2017). Unknown words
are spelled, so that they are not told apart by <unk> alone.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.evaluation.resampling import LEVEL
from chainrule.protocol import END, UNKNOWN
from chainrule.text.reading import FORMATS, text_suffix
from chainrule.text.records import as_written, field_of, json_objects, refuse
from chainrule.text.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.text.records import OnBad
    from chainrule.text.tokenizer import Tokenizer

    # Sentences -> their log-probabilities in nats, and how many tokens were summed.
    Price = Callable[[Sequence[str]], tuple[Float64[ndarray, " texts"], Int64[ndarray, " texts"]]]
    Scores = Float64[ndarray, "rules texts"]

RULES = ("sum", "token", "character", "byte")
_JUDGED_TOGETHER = 512  # pairs
_ROUNDING = 2e-7  # a share: two scores that differ by less were rounded apart, since models score in float32


@dataclass(frozen=True)
class MinimalPair:
    good: str
    bad: str
    set: str
    field: str


@dataclass(frozen=True)
class Accuracy:
    """How often the good sentence won; a tie is half a win."""

    pairs: int
    wins: int
    ties: int

    @property
    def share(self) -> float:
        return (self.wins + self.ties / 2) / self.pairs

    @property
    def interval(self) -> tuple[float, float]:
        """At 95 %, Wilson's (1927): it holds for few pairs, and at 0 and 1; ties make it a little too wide."""
        z = NormalDist().inv_cdf((1 + LEVEL) / 2)
        n, p = self.pairs, self.share
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)

    def as_json(self) -> dict[str, Any]:
        low, high = self.interval
        return {"accuracy": self.share, "low": low, "high": high, "ties": self.ties}


@dataclass(frozen=True)
class Judged:
    """Some pairs, by rule. kind: what `name` is the name of: set, field, or all, of all pairs."""

    kind: str
    name: str
    by_rule: dict[str, Accuracy]

    @property
    def pairs(self) -> int:
        return self.by_rule["sum"].pairs

    def as_json(self) -> dict[str, Any]:
        rules = {rule: accuracy.as_json() for rule, accuracy in self.by_rule.items()}
        return {"kind": self.kind, "name": self.name, "pairs": self.pairs, **rules}


def read_pairs(names: Iterable[str], on_bad: OnBad = refuse) -> list[MinimalPair]:
    """Pairs from JSON lines in BLiMP's form: `sentence_good`, `sentence_bad`; `UID`, the set, and `field` if they have
    one (by default the name of the file, and none).

    on_bad: gets a TextError with file and line for a pair that is left out, since a sentence is missing or empty; and
    for one whose sentences are equal, which is a tie whatever the model, as there are seven in BLiMP.
    Raises TextError where a file has no pair.
    """
    found: list[MinimalPair] = []
    for name in _files(names):
        before = len(found)
        for place, record in json_objects(name, on_bad):
            try:
                pair = _pair(record, name, place)
            except TextError as error:
                on_bad(error)
                continue
            if pair.good == pair.bad:
                on_bad(TextError(f"{place}: both sentences are {pair.good!r}, so that the pair is a tie"))
            found.append(pair)
        if len(found) == before:
            raise TextError(f"{name}: there is no pair in it; expected JSON lines with sentence_good and sentence_bad")
    return found


def _files(names: Iterable[str]) -> Iterator[str]:
    """A folder is the files of JSON lines in it. Raises TextError where there is none."""
    for name in names:
        if not os.path.isdir(name):
            yield name
            continue
        inside = sorted(each for each in os.listdir(name) if FORMATS.get(text_suffix(each)) == "json")
        if not inside:
            raise TextError(f"{name}: there is no file of JSON lines (.jsonl, also compressed) in this folder")
        yield from (os.path.join(name, each) for each in inside)


def judged(
    pairs: Sequence[MinimalPair],
    price: Price,
    progress: Progress = silent,
    *,
    ends: bool = True,
    tokenizer: Tokenizer | None = None,
) -> list[Judged]:
    """Each set, each field where sets have one, and all, in the order of their first pairs.

    ends: whether the price has that of the end, which counts as a token, a character and a byte then. tokenizer: two
    sentences that it does not tell apart are a tie by every rule.
    """
    parts: list[tuple[Scores, Scores]] = []
    for first in range(0, len(pairs), _JUDGED_TOGETHER):
        progress("judging pairs", first, len(pairs))
        some = pairs[first : first + _JUDGED_TOGETHER]
        goods, bads = [pair.good for pair in some], [pair.bad for pair in some]
        good, bad = _by_rule(goods, price, ends), _by_rule(bads, price, ends)
        if tokenizer is not None:
            as_read = zip(_as_read(tokenizer, goods), _as_read(tokenizer, bads), strict=True)
            is_same = np.array([one == other for one, other in as_read])
            good[:, is_same] = bad[:, is_same]
        parts.append((good, bad))
    good, bad = (np.concatenate(scores, axis=1) for scores in zip(*parts, strict=True))
    groups: dict[tuple[str, str], list[int]] = {}
    for kind in ("set", "field"):
        for number, pair in enumerate(pairs):
            if name := getattr(pair, kind):
                groups.setdefault((kind, name), []).append(number)
    found = [Judged(*group, _accuracies(good[:, inside], bad[:, inside])) for group, inside in groups.items()]
    return [*found, Judged("all", "", _accuracies(good, bad))]


def _pair(record: dict[str, Any], name: str, place: str) -> MinimalPair:
    """Raises TextError."""
    good, bad = (_sentence(record, field, place) for field in ("sentence_good", "sentence_bad"))
    return MinimalPair(good, bad, _name(record, "UID", name, place), _name(record, "field", "", place))


def _sentence(record: dict[str, Any], field: str, place: str) -> str:
    """Raises TextError."""
    sentence = field_of(record, field, place)
    if not isinstance(sentence, str) or not sentence.strip():
        raise TextError(f"{place}: {field} is {sentence!r}; expected a sentence")
    return sentence


def _name(record: dict[str, Any], field: str, default: str, place: str) -> str:
    """Raises TextError."""
    name = as_written(record.get(field))
    if name is None:
        return default
    if not isinstance(name, str | int) or isinstance(name, bool):
        raise TextError(f"{place}: {field} is {name!r}; expected a name, or nothing")
    return str(name)


def _by_rule(texts: Sequence[str], price: Price, ends: bool) -> Scores:
    log_probs, tokens = price(texts)
    characters = [len(text) + ends for text in texts]
    sizes = [len(text.encode("utf-8", "replace")) + ends for text in texts]
    return log_probs / np.array([np.ones(len(texts)), np.maximum(tokens, 1), characters, sizes])


def _as_read(tokenizer: Tokenizer, texts: Sequence[str]) -> list[tuple[list[int], list[bytes]]]:
    """The tokens of each text, and how those are written that the vocabulary lacks."""
    encoded = tokenizer.encode_texts(texts)
    unknown: list[list[bytes]] = [[] for _ in texts]
    places = np.flatnonzero(encoded.ids == UNKNOWN)
    for place, text in zip(places.tolist(), np.cumsum(encoded.ids == END)[places].tolist(), strict=True):
        unknown[text].append(encoded.surface(place))
    return list(zip([ids.tolist() for ids in documents_of(encoded.ids)], unknown, strict=True))


def _accuracies(good: Scores, bad: Scores) -> dict[str, Accuracy]:
    return {rule: _accuracy(*scores) for rule, *scores in zip(RULES, good, bad, strict=True)}


def _accuracy(good: Float64[ndarray, " pairs"], bad: Float64[ndarray, " pairs"]) -> Accuracy:
    """Two impossible sentences are a tie."""
    is_tie = np.isclose(good, bad, rtol=_ROUNDING, atol=0)
    return Accuracy(good.size, int(np.count_nonzero((good > bad) & ~is_tie)), int(np.count_nonzero(is_tie)))
