"""Minimal pairs: whether a model gives an acceptable sentence a higher probability than an unacceptable one.

Pairs are judged by several rules: by the log-probabilities of the sentences, and by these divided by their numbers of
tokens, characters or bytes, since longer sentences are less probable whatever they say (Lau et al. 2017). The scores
include the spelling of unknown words, so that sentences that differ only in those differ in score.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.base.tables import text_table
from chainrule.errors import TextError
from chainrule.evaluation.resampling import share_cells, wilson_interval
from chainrule.protocol import END, UNKNOWN
from chainrule.text.corpus.reading import FORMATS, text_suffix
from chainrule.text.corpus.records import as_written, json_objects, raise_error, read_field
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.text.corpus.records import OnBad
    from chainrule.text.tokenization.tokenizer import Tokenizer

    # Sentences -> their log-probabilities in nats, and how many tokens each sums over.
    ScoreTexts = Callable[[Sequence[str]], tuple[Float64[ndarray, " texts"], Int64[ndarray, " texts"]]]
    Scores = Float64[ndarray, "rules texts"]

RULES = ("sum", "token", "character", "byte")
_BATCH = 512  # pairs judged at a time
_ROUNDING = 2e-7  # relative: scores that differ by less differ by rounding, since models score in float32


@dataclass(frozen=True)
class MinimalPair:
    """An acceptable sentence and an unacceptable one.

    set: the name of its set of pairs. field: its field of linguistics.
    """

    good: str
    bad: str
    set: str
    field: str


@dataclass(frozen=True)
class Accuracy:
    """How often the good sentence wins; a tie counts as half a win."""

    pairs: int
    wins: int
    ties: int

    @property
    def share(self) -> float:
        return (self.wins + self.ties / 2) / self.pairs

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval; ties widen it slightly."""
        return wilson_interval(self.share, self.pairs)

    def figures(self) -> dict[str, float]:
        """Return the accuracy with its interval, by name."""
        low, high = self.interval
        return {"accuracy": self.share, "low": low, "high": high}

    def as_json(self) -> dict[str, Any]:
        return {**self.figures(), "ties": self.ties}


@dataclass(frozen=True)
class GroupAccuracy:
    """The accuracy on a group of pairs by each rule. kind: what `name` names: a "set", a "field", or "all" pairs."""

    kind: str
    name: str
    by_rule: dict[str, Accuracy]

    @property
    def pairs(self) -> int:
        return self.by_rule["sum"].pairs

    def as_json(self) -> dict[str, Any]:
        rules = {rule: accuracy.as_json() for rule, accuracy in self.by_rule.items()}
        return {"kind": self.kind, "name": self.name, "pairs": self.pairs, **rules}


def pairs_table(groups: Sequence[GroupAccuracy]) -> str:
    """Return the accuracies in a table, for people."""
    titles = {"sum": "sum", **{rule: f"per {rule}" for rule in RULES[1:]}}
    header = ["", "pairs", *(cell for rule in RULES for cell in (titles[rule], "95 %")), "ties"]
    rows = []
    for group in groups:
        figures = [
            cell for rule in RULES for cell in share_cells(group.by_rule[rule].share, group.by_rule[rule].interval)
        ]
        name = group.name if group.kind == "set" else f"{group.kind} {group.name}".rstrip()
        rows.append([name, f"{group.pairs:,}", *figures, f"{group.by_rule['sum'].ties:,}"])
    return text_table(header, rows)


def read_pairs(names: Iterable[str], on_bad: OnBad = raise_error) -> list[MinimalPair]:
    """Read pairs from JSON lines in BLiMP's format.

    Fields: `sentence_good`, `sentence_bad`; optionally `UID`, the set (by default the name of the file), and `field`.
    on_bad: a callback that gets a TextError with file and line for each pair with a missing or empty sentence, which is
    left out, and for each pair of equal sentences, which is a tie under any model (BLiMP has seven).
    Raises TextError if a file has no pair.
    """
    pairs: list[MinimalPair] = []
    for name in _files(names):
        before = len(pairs)
        for location, record in json_objects(name, on_bad):
            try:
                pair = _pair(record, name, location)
            except TextError as error:
                on_bad(error)
                continue
            if pair.good == pair.bad:
                on_bad(TextError(f"{location}: both sentences are {pair.good!r}, so that the pair is a tie"))
            pairs.append(pair)
        if len(pairs) == before:
            raise TextError(f"{name}: there is no pair in it; expected JSON lines with sentence_good and sentence_bad")
    return pairs


def _files(names: Iterable[str]) -> Iterator[str]:
    """Yield the given files; a folder stands for its files of JSON lines. Raises TextError if it has none."""
    for name in names:
        if not os.path.isdir(name):
            yield name
            continue
        files = sorted(file for file in os.listdir(name) if FORMATS.get(text_suffix(file)) == "json")
        if not files:
            raise TextError(f"{name}: there is no file of JSON lines (.jsonl, also compressed) in this folder")
        yield from (os.path.join(name, file) for file in files)


def judge(
    pairs: Sequence[MinimalPair],
    score_texts: ScoreTexts,
    progress: Progress = silent,
    *,
    ends: bool = True,
    tokenizer: Tokenizer | None = None,
) -> list[GroupAccuracy]:
    """Return the accuracy on each set, on each field if pairs have one, in the order of their first pairs, and on all
    pairs.

    score_texts: a function from sentences to their log-probabilities and numbers of tokens.
    ends: whether the scores include the end of the sentence, which then counts as a token, a character and a byte.
    tokenizer: two sentences with the same tokens are a tie by every rule.
    """
    parts: list[tuple[Scores, Scores]] = []
    for first in range(0, len(pairs), _BATCH):
        progress("judging pairs", first, len(pairs))
        batch = pairs[first : first + _BATCH]
        goods, bads = [pair.good for pair in batch], [pair.bad for pair in batch]
        good, bad = _by_rule(goods, score_texts, ends), _by_rule(bads, score_texts, ends)
        if tokenizer is not None:
            tokens = zip(_tokens_of(tokenizer, goods), _tokens_of(tokenizer, bads), strict=True)
            is_same = np.array([one == other for one, other in tokens])
            good[:, is_same] = bad[:, is_same]
        parts.append((good, bad))
    good, bad = (np.concatenate(scores, axis=1) for scores in zip(*parts, strict=True))
    groups: dict[tuple[str, str], list[int]] = {}
    for kind in ("set", "field"):
        for i, pair in enumerate(pairs):
            if name := getattr(pair, kind):
                groups.setdefault((kind, name), []).append(i)
    by_group = [GroupAccuracy(*group, _accuracies(good[:, rows], bad[:, rows])) for group, rows in groups.items()]
    return [*by_group, GroupAccuracy("all", "", _accuracies(good, bad))]


def _pair(record: dict[str, Any], name: str, location: str) -> MinimalPair:
    """Return the pair of sentences in a record. Raises TextError."""
    good, bad = (_sentence(record, field, location) for field in ("sentence_good", "sentence_bad"))
    return MinimalPair(good, bad, _name(record, "UID", name, location), _name(record, "field", "", location))


def _sentence(record: dict[str, Any], field: str, location: str) -> str:
    """Return a sentence of a record. Raises TextError."""
    sentence = read_field(record, field, location)
    if not isinstance(sentence, str) or not sentence.strip():
        raise TextError(f"{location}: {field} is {sentence!r}; expected a sentence")
    return sentence


def _name(record: dict[str, Any], field: str, default: str, location: str) -> str:
    """Return the name in a field of a record, or the default. Raises TextError."""
    name = as_written(record.get(field))
    if name is None:
        return default
    if not isinstance(name, str | int) or isinstance(name, bool):
        raise TextError(f"{location}: {field} is {name!r}; expected a name, or nothing")
    return str(name)


def _by_rule(texts: Sequence[str], score_texts: ScoreTexts, ends: bool) -> Scores:
    log_probs, tokens = score_texts(texts)
    characters = [len(text) + ends for text in texts]
    sizes = [len(text.encode("utf-8", "replace")) + ends for text in texts]
    return log_probs / np.array([np.ones(len(texts)), np.maximum(tokens, 1), characters, sizes])


def _tokens_of(tokenizer: Tokenizer, texts: Sequence[str]) -> list[tuple[list[int], list[bytes]]]:
    """Return the token ids of each text, and the spellings of its unknown tokens."""
    encoded = tokenizer.encode_texts(texts)
    unknown: list[list[bytes]] = [[] for _ in texts]
    positions = np.flatnonzero(encoded.ids == UNKNOWN)
    for position, text in zip(positions.tolist(), np.cumsum(encoded.ids == END)[positions].tolist(), strict=True):
        unknown[text].append(encoded.surface(position))
    return list(zip([ids.tolist() for ids in documents_of(encoded.ids)], unknown, strict=True))


def _accuracies(good: Scores, bad: Scores) -> dict[str, Accuracy]:
    return {rule: _accuracy(*scores) for rule, *scores in zip(RULES, good, bad, strict=True)}


def _accuracy(good: Float64[ndarray, " pairs"], bad: Float64[ndarray, " pairs"]) -> Accuracy:
    """Return how often the good sentences win. Two sentences of probability zero are a tie."""
    is_tie = np.isclose(good, bad, rtol=_ROUNDING, atol=0)
    return Accuracy(good.size, int(np.count_nonzero((good > bad) & ~is_tie)), int(np.count_nonzero(is_tie)))
