"""Minimal pairs: whether a model gives an acceptable sentence a higher probability than an unacceptable one.

Pairs are judged by several rules: by the log-probabilities of the sentences, and by these divided by their numbers of
tokens, characters or bytes, since longer sentences are less probable whatever they say (Lau et al. 2017). The scores
include the spelling of unknown words, so that sentences that differ only in those differ in score.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.base.tables import text_table
from chainrule.errors import SettingError, TextError
from chainrule.evaluation.pseudo_likelihood import Pseudo, pseudo_log_likelihoods
from chainrule.evaluation.resampling import share_cells
from chainrule.evaluation.token_scores import score_documents
from chainrule.features.metrics.classification import Accuracy
from chainrule.protocol import END, UNKNOWN
from chainrule.text.corpus.reading import FORMATS, TABLES, UTF_8, suggest_fields, text_suffix
from chainrule.text.corpus.record_blocks import fields_beside
from chainrule.text.corpus.records import Record, as_written, raise_error, read_field, read_items
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
# What the fields of files are called; of those that a record has, the first is read.
GOOD = ("sentence_good", "good", "grammatical", "acceptable")
BAD = ("sentence_bad", "bad", "ungrammatical", "unacceptable")
_BATCH = 512  # pairs judged at a time
_ROUNDING = 2e-7  # relative: scores that differ by less differ by rounding, since models score in float32


@dataclass(frozen=True)
class MinimalPair:
    """An acceptable sentence and an unacceptable one.

    set: the name of its set of pairs. field: its field of linguistics. record: what it was read from.
    """

    good: str
    bad: str
    set: str
    field: str
    record: Record = dataclasses.field(default=Record({}, "a pair"), compare=False, repr=False)


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


@dataclass(frozen=True)
class JudgedPairs:
    """The accuracy on each group of pairs, over which it iterates: sets, fields, and all; and what each pair got.

    good, bad: the scores of the sentences by each rule, in nats. tokens: how many the scores sum over.
    """

    row_of: ClassVar[str] = "pair"
    groups: list[GroupAccuracy]
    pairs: Sequence[MinimalPair] = field(repr=False)
    good: Scores = field(repr=False)
    bad: Scores = field(repr=False)
    tokens: Int64[ndarray, "2 pairs"] = field(repr=False)

    def __iter__(self) -> Iterator[GroupAccuracy]:
        return iter(self.groups)

    def __getitem__(self, index: int) -> GroupAccuracy:
        return self.groups[index]

    def __str__(self) -> str:
        """The accuracies in a table."""
        titles = {"sum": "sum", **{rule: f"per {rule}" for rule in RULES[1:]}}
        header = ["", "pairs", *(cell for rule in RULES for cell in (titles[rule], "95 %")), "ties"]
        rows = []
        for group in self.groups:
            figures = [
                cell for rule in RULES for cell in share_cells(group.by_rule[rule].share, group.by_rule[rule].interval)
            ]
            name = group.name if group.kind == "set" else f"{group.kind} {group.name}".rstrip()
            rows.append([name, f"{group.pairs:,}", *figures, f"{group.by_rule['sum'].ties:,}"])
        return text_table(header, rows)

    def as_json(self) -> list[dict[str, Any]]:
        """The accuracy on each group."""
        return [group.as_json() for group in self.groups]

    def to_records(self) -> list[dict[str, Any]]:
        """A row for each pair: the fields of its record, both log-probabilities in nats, and whether the good sentence
        wins by each rule.
        """
        ties = _are_ties(self.good, self.bad)
        wins = (self.good > self.bad) & ~ties
        others = dict.fromkeys(name for pair in self.pairs for name in pair.record.fields)
        kept = [name for name in others if name not in (*GOOD, *BAD, "UID")]
        rows = []
        for i, pair in enumerate(self.pairs):
            own = {
                "set": pair.set,
                "good": pair.good,
                "bad": pair.bad,
                "log_prob_good": float(self.good[0, i]),
                "log_prob_bad": float(self.bad[0, i]),
                "tokens_good": int(self.tokens[0, i]),
                "tokens_bad": int(self.tokens[1, i]),
                "right": bool(wins[0, i]),
                "tie": bool(ties[0, i]),
                **{f"right_per_{rule}": bool(wins[j, i]) for j, rule in enumerate(RULES) if j},
            }
            beside = {name: pair.record.fields.get(name) for name in kept}
            rows.append({**fields_beside(beside, own, ""), **own})
        return rows

    def notes(self) -> Iterator[str]:
        """Which pairs have equal sentences (BLiMP has seven)."""
        same = [pair for pair in self.pairs if pair.good == pair.bad]
        if same:
            others = f", and those of {len(same) - 1:,} other pairs," if len(same) > 1 else ""
            yield f"{same[0].record.location}: both sentences{others} are the same, so that there is a tie"


def read_pairs(
    names: Iterable[str],
    on_bad: OnBad = raise_error,
    fields: tuple[str, str] | None = None,
    *,
    encoding: str = UTF_8,
) -> list[MinimalPair]:
    """Reads pairs from JSON lines in BLiMP's format, CSV, TSV or Parquet.

    Fields: `sentence_good`, `sentence_bad`, or others of GOOD and BAD; optionally `UID`, the set (by default the name
    of the file), and `field`. A table of two columns needs no names. fields: the names of both sentences. on_bad: a
    callback that gets a TextError with file and line for each pair with a missing or empty sentence, which is left out.
    Raises TextError if a file has no pair.
    """
    wanted = (GOOD, BAD) if fields is None else ((fields[0],), (fields[1],))

    def header(cells: Sequence[str], place: str) -> tuple[Sequence[str], bool]:
        missing = next((own[0] for own in wanted if set(own).isdisjoint(cells)), None)
        if missing is None:
            return cells, True
        if fields is None and len(cells) == 2:
            return (GOOD[0], BAD[0]), False
        raise TextError(f"{place}: there is no column {missing!r}; {suggest_fields(cells, 'fields=...')}")

    pairs: list[MinimalPair] = []
    for name in _files(names):
        read = partial(_pair, name=name, wanted=wanted)
        expected = "records with sentence_good and sentence_bad, or a table of two columns"
        own = read_items(name, read, "pair", on_bad, header, expected=expected, encoding=encoding)
        _check_first(own)
        pairs += own
    return pairs


def _check_first(pairs: Sequence[MinimalPair]) -> None:
    """Raises TextError where the first row of a table without names seems to have them."""
    first, *others = pairs
    are_words = len(first.good.split()) == len(first.bad.split()) == 1
    columns = [[pair.good for pair in others], [pair.bad for pair in others]]
    are_sentences = any(all(len(cell.split()) > 1 for cell in column) for column in columns)
    if are_words and first.record.number == 1 and others and are_sentences:
        raise TextError(
            f"{first.record.location}: {first.good!r} and {first.bad!r} seem to be the names of columns; name those of "
            "the good and the bad sentences with fields=..."
        )


def _files(names: Iterable[str]) -> Iterator[str]:
    """The given files; a folder stands for its files of JSON lines, or else for its tables. Raises TextError if it has
    none.
    """
    for name in names:
        if not os.path.isdir(name):
            yield name
            continue
        files = sorted(os.listdir(name))
        chosen = [file for file in files if FORMATS.get(text_suffix(file)) == "json"]
        chosen = chosen or [file for file in files if text_suffix(file) in TABLES]
        if not chosen:
            raise TextError(f"{name}: there is no file of pairs (.jsonl, .tsv, .csv, .parquet) in this folder")
        yield from (os.path.join(name, file) for file in chosen)


def judge(
    pairs: Sequence[MinimalPair],
    score_texts: ScoreTexts,
    progress: Progress = silent,
    *,
    ends: bool = True,
    tokenizer: Tokenizer | None = None,
) -> JudgedPairs:
    """The accuracy on each set, on each field if pairs have one, in the order of their first pairs, and on all pairs.

    score_texts: a function from sentences to their log-probabilities and numbers of tokens.
    ends: whether the scores include the end of the sentence, which then counts as a token, a character and a byte.
    tokenizer: two sentences with the same tokens are a tie by every rule.
    """
    parts: list[tuple[Scores, Scores, Int64[ndarray, "2 pairs"]]] = []
    for first in range(0, len(pairs), _BATCH):
        progress("judging pairs", first, len(pairs))
        batch = pairs[first : first + _BATCH]
        goods, bads = [pair.good for pair in batch], [pair.bad for pair in batch]
        (good, tokens), (bad, other) = (_by_rule(texts, score_texts, ends) for texts in (goods, bads))
        if tokenizer is not None:
            both = zip(_tokens_of(tokenizer, goods), _tokens_of(tokenizer, bads), strict=True)
            is_same = np.array([one == other for one, other in both])
            good[:, is_same] = bad[:, is_same]
        parts.append((good, bad, np.array([tokens, other])))
    good, bad, sizes = (np.concatenate(own, axis=1) for own in zip(*parts, strict=True))
    groups: dict[tuple[str, str], list[int]] = {}
    for kind in ("set", "field"):
        for i, pair in enumerate(pairs):
            if name := getattr(pair, kind):
                groups.setdefault((kind, name), []).append(i)
    by_group = [GroupAccuracy(*group, _accuracies(good[:, rows], bad[:, rows])) for group, rows in groups.items()]
    return JudgedPairs([*by_group, GroupAccuracy("all", "", _accuracies(good, bad))], pairs, good, bad, sizes)


def judge_pairs(
    model: Any,
    names: Sequence[str],
    progress: Progress,
    ends: bool,
    pseudo: Pseudo | None,
    fields: tuple[str, str] | None,
    encoding: str,
    on_bad: OnBad,
) -> JudgedPairs:
    """As `ScoringModel.judge_pairs`, for files."""
    fills = model.is_bidirectional
    if pseudo is not None and pseudo not in get_args(Pseudo):
        raise SettingError(f"pseudo is {pseudo!r}; expected {' or '.join(get_args(Pseudo))}")
    if pseudo is not None and not fills:
        raise SettingError(
            f"a model of family {model.family!r} has no pseudo-log-likelihoods; leave pseudo out, which is for "
            "bidirectional networks"
        )

    def score(texts: Sequence[str]) -> tuple[Float64[ndarray, " texts"], Int64[ndarray, " texts"]]:
        if fills:
            return pseudo_log_likelihoods(model.engine, model.speller, model.tokenizer, texts, pseudo)
        return score_documents(model.engine, model.speller, model.tokenizer.encode_texts(texts), end=ends)

    pairs = read_pairs(names, on_bad, fields, encoding=encoding)
    return judge(pairs, score, progress, ends=ends and not fills, tokenizer=model.tokenizer)


def _pair(record: Record, name: str, wanted: Sequence[Sequence[str]]) -> MinimalPair:
    """Raises TextError."""
    good, bad = (_sentence(record, names) for names in wanted)
    return MinimalPair(good, bad, _name(record, "UID", name), _name(record, "field", ""), record)


def _sentence(record: Record, names: Sequence[str]) -> str:
    """Raises TextError. names: what the field may be called."""
    field = next((name for name in names if name in record.fields), names[0])
    sentence = read_field(record.fields, field)
    if not isinstance(sentence, str) or not sentence.strip():
        raise TextError(f"{field} is {sentence!r}; expected a sentence")
    return sentence


def _name(record: Record, field: str, default: str) -> str:
    """Raises TextError."""
    name = as_written(record.fields.get(field))
    if name is None:
        return default
    if not isinstance(name, str | int) or isinstance(name, bool):
        raise TextError(f"{field} is {name!r}; expected a name, or nothing")
    return str(name)


def _by_rule(texts: Sequence[str], score_texts: ScoreTexts, ends: bool) -> tuple[Scores, Int64[ndarray, " texts"]]:
    """The scores, and the numbers of tokens."""
    log_probs, tokens = score_texts(texts)
    characters = [len(text) + ends for text in texts]
    sizes = [len(text.encode("utf-8", "replace")) + ends for text in texts]
    return log_probs / np.array([np.ones(len(texts)), np.maximum(tokens, 1), characters, sizes]), tokens


def _tokens_of(tokenizer: Tokenizer, texts: Sequence[str]) -> list[tuple[list[int], list[bytes]]]:
    """The token ids of each text, and the spellings of its unknown tokens."""
    encoded = tokenizer.encode_texts(texts)
    unknown: list[list[bytes]] = [[] for _ in texts]
    positions = np.flatnonzero(encoded.ids == UNKNOWN)
    for position, text in zip(positions.tolist(), np.cumsum(encoded.ids == END)[positions].tolist(), strict=True):
        unknown[text].append(encoded.surface(position))
    return list(zip([ids.tolist() for ids in documents_of(encoded.ids)], unknown, strict=True))


def _accuracies(good: Scores, bad: Scores) -> dict[str, Accuracy]:
    return {rule: _accuracy(*scores) for rule, *scores in zip(RULES, good, bad, strict=True)}


def _accuracy(good: Float64[ndarray, " pairs"], bad: Float64[ndarray, " pairs"]) -> Accuracy:
    """How often the good sentences win."""
    is_tie = _are_ties(good, bad)
    return Accuracy(good.size, int(np.count_nonzero((good > bad) & ~is_tie)), int(np.count_nonzero(is_tie)))


def _are_ties(good: Float64[ndarray, "*rules pairs"], bad: Float64[ndarray, "*rules pairs"]) -> Any:
    """Whether scores are the same but for rounding. Two sentences of probability zero are a tie."""
    return np.isclose(good, bad, rtol=_ROUNDING, atol=0)
