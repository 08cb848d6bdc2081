"""SyntaxGym's test suites: whether a model is surprised where a grammar says so.

A suite has items, an item has conditions (versions of a sentence), and a condition has regions. A prediction is a
formula over the surprisals of regions, such as

    [(5;%reduced%) > (5;%full%)] & [(5;%reduced%) - (5;%full%) > 0]

where (5;%reduced%) is the surprisal of region 5 of the condition "reduced", in bits, and (*;%reduced%) that of all its
regions. + and - bind before < > and =, and these before & and |, which are read from left to right; brackets are [ ] or
( ). a = b holds if |a - b| is at most 0.001 + 0.00001 |b| (Gauthier et al. 2020; Hu et al. 2020).

The sentence is its regions without leading space, joined by single spaces; empty regions are left out and cost nothing.
The space before a region is a part of it. A token belongs to the region of its last visible byte. A tie is counted as
wrong, and reported: guessing at ties, a model that knows nothing of a construction gets up to half of its items.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from chainrule.base.files import parse_json
from chainrule.base.progress import Progress, silent
from chainrule.base.tables import text_table
from chainrule.errors import TextError
from chainrule.evaluation.resampling import share_cells, wilson_interval
from chainrule.evaluation.surprisal import log_word_ends
from chainrule.evaluation.token_scores import score_tokens
from chainrule.text.corpus.plain_text import lines_of
from chainrule.text.corpus.records import Record, as_written, bad_record, raise_error
from chainrule.text.numbers import whole_number_of
from chainrule.text.tokenization.tokenizer import documents_of
from chainrule.text.units import is_white, split_words, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.evaluation.token_scores import Speller
    from chainrule.protocol import LanguageModel
    from chainrule.text.corpus.records import OnBad
    from chainrule.text.tokenization.detokenizer import Alignment
    from chainrule.text.tokenization.tokenizer import Tokenizer

    # Sentences, each as the contents of its regions -> the bits of each region.
    ScoreRegions = Callable[[Sequence[Sequence[str]]], Sequence[Float64[ndarray, " regions"]]]
    Bits = Mapping[str, Mapping[int, float]]  # by condition and number of region

_TOGETHER = 256  # sentences scored at a time
_ROUNDING = 2e-7  # of the sum of what a comparison adds up: what differs by less differs by rounding
_DEEPEST = 50  # brackets in brackets
_EQUAL = 1e-3, 1e-5  # SyntaxGym's tolerance of =: absolute and relative


class RegionSum(NamedTuple):
    """The surprisal of a region; number: None for all regions of the condition."""

    number: int | None
    condition: str


class Operation(NamedTuple):
    """An operator, + - < > = & or |, between two formulas."""

    operator: str
    left: Formula
    right: Formula


Formula = float | RegionSum | Operation


@dataclass(frozen=True)
class Item:
    """A set of sentences that differ in one thing. conditions: the contents of the regions, by name and number."""

    number: str
    conditions: Mapping[str, Mapping[int, str]]


@dataclass(frozen=True)
class Suite:
    """A file of items, and the formulas that are predicted to hold in each. formulas: as written and as read."""

    name: str
    formulas: Sequence[tuple[str, Formula]]
    items: Sequence[Item]


@dataclass(frozen=True)
class ItemAccuracy:
    """In how many items a prediction holds. ties: items in which it fails by a tie alone; they count as wrong."""

    items: int
    correct: int
    ties: int

    @property
    def share(self) -> float:
        return self.correct / self.items

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval."""
        return wilson_interval(self.share, self.items)

    def as_json(self) -> dict[str, Any]:
        low, high = self.interval
        counts = {"items": self.items, "correct": self.correct, "ties": self.ties}
        return {**counts, "accuracy": self.share, "low": low, "high": high}


@dataclass(frozen=True)
class SuiteAccuracy:
    """The accuracy on a suite: items in which all predictions hold, and that of each prediction, with its formula."""

    name: str
    all: ItemAccuracy
    predictions: Sequence[tuple[str, ItemAccuracy]]
    items: Sequence[Mapping[str, Any]] = field(default=(), compare=False, repr=False)  # as in `JudgedSuites`

    def as_json(self) -> dict[str, Any]:
        predictions = [{"formula": formula, **accuracy.as_json()} for formula, accuracy in self.predictions]
        return {"suite": self.name, **self.all.as_json(), "predictions": predictions}


@dataclass(frozen=True)
class JudgedSuites:
    """The accuracy on each suite, over which it iterates; and what each item got."""

    row_of: ClassVar[str] = "item"
    suites: list[SuiteAccuracy]

    def __iter__(self) -> Iterator[SuiteAccuracy]:
        return iter(self.suites)

    def __str__(self) -> str:
        """The accuracies in a table: of suites, of each of several predictions, and the mean over suites."""
        rows = []
        for suite in self.suites:
            parts = suite.predictions if len(suite.predictions) > 1 else ()
            for name, own in ((suite.name, suite.all), *((f"  {formula}", accuracy) for formula, accuracy in parts)):
                rows.append([name, f"{own.items:,}", *share_cells(own.share, own.interval), f"{own.ties:,}"])
        if len(self.suites) > 1:
            items, ties = (sum(getattr(suite.all, name) for suite in self.suites) for name in ("items", "ties"))
            mean = sum(suite.all.share for suite in self.suites) / len(self.suites)
            rows.append([f"mean of {len(self.suites)} suites", f"{items:,}", f"{mean:.1%}", "", f"{ties:,}"])
        return text_table(["suite", "items", "accuracy", "95 %", "ties"], rows)

    def as_json(self) -> list[dict[str, Any]]:
        """The accuracy on each suite."""
        return [suite.as_json() for suite in self.suites]

    def to_records(self) -> list[Mapping[str, Any]]:
        """A row for each item: whether all predictions hold, and which; and the bits of each condition's regions."""
        return [item for suite in self.suites for item in suite.items]


def _judged(suites: Sequence[Suite], score_regions: ScoreRegions, progress: Progress = silent) -> JudgedSuites:
    """The accuracy on each suite. score_regions: a function from sentences, as regions, to the bits of each region."""
    pairs = [(item, name) for suite in suites for item in suite.items for name in item.conditions]
    sentences = [list(item.conditions[name].values()) for item, name in pairs]
    bits: dict[int, dict[str, dict[int, float]]] = {}
    for first in range(0, len(sentences), _TOGETHER):
        progress("judging suites", first, len(sentences))
        rows = score_regions(sentences[first : first + _TOGETHER])
        for (item, name), row in zip(pairs[first : first + _TOGETHER], rows, strict=True):
            bits.setdefault(id(item), {})[name] = dict(zip(item.conditions[name], row.tolist(), strict=True))
    return JudgedSuites([_judge(suite, [bits[id(item)] for item in suite.items]) for suite in suites])


def judge_suites(model: Any, names: Sequence[str], progress: Progress, word_ends: bool, on_bad: OnBad) -> JudgedSuites:
    """As `CausalModel.judge_suites`, for files."""
    suites: list[Suite] = []
    for name in names:
        suite = read_suite(name, on_bad)
        for other, known in zip(names, suites, strict=False):
            if (known.formulas, known.items) == (suite.formulas, suite.items):
                raise TextError(f"{name}: is the same suite as {other}, and would be counted twice; leave one out")
        suites.append(suite)

    def score(sentences: Sequence[Sequence[str]]) -> list[Float64[ndarray, " regions"]]:
        return region_bits(model.language_model, model.speller, model.tokenizer, sentences, word_ends=word_ends)

    return _judged(suites, score, progress)


def _judge(suite: Suite, bits: Sequence[Bits]) -> SuiteAccuracy:
    """Return the accuracy on a suite. bits: those of each item."""
    strict, lenient = (
        np.array([[holds(formula, own, ties=ties) for own in bits] for _, formula in suite.formulas])
        for ties in (False, True)
    )

    def accuracy(strictly: Any, leniently: Any) -> ItemAccuracy:
        correct = int(np.count_nonzero(strictly))
        return ItemAccuracy(len(bits), correct, int(np.count_nonzero(leniently)) - correct)

    predictions = [(text, accuracy(*rows)) for (text, _), *rows in zip(suite.formulas, strict, lenient, strict=True)]
    items = [
        {
            "suite": suite.name,
            "item": item.number,
            "right": bool(strict[:, i].all()),
            "tie": bool(lenient[:, i].all() and not strict[:, i].all()),
            "predictions": strict[:, i].tolist(),
            "bits": {condition: list(regions.values()) for condition, regions in own.items()},
        }
        for i, (item, own) in enumerate(zip(suite.items, bits, strict=True))
    ]
    return SuiteAccuracy(suite.name, accuracy(strict.all(axis=0), lenient.all(axis=0)), predictions, items)


def holds(formula: Formula, bits: Bits, *, ties: bool = False) -> bool:
    """Whether a formula is true. ties: whether < and > hold between equal numbers.

    Sums that are not numbers (infinity less infinity) are a tie.
    """
    assert isinstance(formula, Operation)
    if formula.operator in "&|":
        sides = (holds(side, bits, ties=ties) for side in (formula.left, formula.right))
        return all(sides) if formula.operator == "&" else any(sides)
    (left, left_size), (right, right_size) = (_sum(side, bits) for side in (formula.left, formula.right))
    if formula.operator == "=":
        return left == right or abs(left - right) <= _EQUAL[0] + _EQUAL[1] * abs(right)
    size = left_size + right_size
    is_rounding = math.isfinite(size) and abs(left - right) <= _ROUNDING * size
    if left == right or is_rounding or math.isnan(left) or math.isnan(right):
        return ties
    return left < right if formula.operator == "<" else left > right


def _sum(formula: Formula, bits: Bits) -> tuple[float, float]:
    """The value of a formula, and the sum of what it adds up, whatever the signs."""
    if isinstance(formula, Operation):
        (left, left_size), (right, right_size) = (_sum(side, bits) for side in (formula.left, formula.right))
        return left + right if formula.operator == "+" else left - right, left_size + right_size
    if isinstance(formula, RegionSum):
        regions = bits[formula.condition]
        value = math.fsum(regions.values()) if formula.number is None else regions[formula.number]
        return value, abs(value)
    return formula, abs(formula)


_PARTS = re.compile(r"\s*(?:\(\s*(\d+|\*)\s*;\s*%([^%]*)%\s*\)|(\d+(?:\.\d+)?)|([]\[()<>=&|+-]))")
_LEVELS = ("&|", "<>=", "+-")
_CLOSING = {"[": "]", "(": ")"}


def parse_formula(text: str) -> Formula:
    """Reads the formula of a prediction. Raises TextError, which says where it is wrong.

    good:  parse_formula("[(6;%a%) + (7;%a%)] < (6;%b%)")
    bad:   parse_formula("(6;%a%) < (6;%b%) < 3")  # one comparison of two sums
    """
    parts: list[tuple[int, str | float | RegionSum]] = []
    position = 0
    while text[position:].strip():
        match = _PARTS.match(text, position)
        if match is None:
            place = position + len(text[position:]) - len(text[position:].lstrip())
            raise _wrong(text, place, "expected (region;%condition%), a number, an operator or a bracket")
        number, condition, constant, symbol = match.groups()
        part: str | float | RegionSum = symbol
        if number is not None:
            part = RegionSum(None if number == "*" else int(number[:18]), condition)
        elif constant is not None:
            part = float(constant)
        parts.append((match.end() - len(match.group().lstrip()), part))
        position = match.end()
    reader = _Reader(text, parts)
    formula = reader.read(0, 0)
    if reader.next < len(parts):
        raise _wrong(text, parts[reader.next][0], "expected an operator, or the end")
    if not _is_truth(formula):
        raise _wrong(text, 0, "it is a sum, which is not true or false; compare it by < > or =")
    return formula


class _Reader:
    """Reads the parts of a formula by recursive descent; `next` is the part that comes next."""

    def __init__(self, text: str, parts: Sequence[tuple[int, str | float | RegionSum]]) -> None:
        self._text, self._parts, self.next = text, parts, 0

    def read(self, level: int, depth: int) -> Formula:
        """The longest formula from here whose operators outside brackets bind at least like those of a level."""
        if level == len(_LEVELS):
            return self._atom(depth)
        left = self.read(level + 1, depth)
        while (symbol := self._symbol()) and symbol in _LEVELS[level]:
            place = self._parts[self.next][0]
            self.next += 1
            right = self.read(level + 1, depth)
            for side in (left, right):
                if _is_truth(side) != (level == 0):
                    wanted = "comparisons" if level == 0 else "sums"
                    raise _wrong(self._text, place, f"{symbol} is for {wanted}")
            left = Operation(symbol, left, right)
        return left

    def _atom(self, depth: int) -> Formula:
        if self.next == len(self._parts):
            raise _wrong(self._text, len(self._text), "it ends too early")
        place, part = self._parts[self.next]
        self.next += 1
        if not isinstance(part, str):
            return part
        if part not in _CLOSING:
            raise _wrong(self._text, place, "expected (region;%condition%), a number or an opening bracket")
        if depth == _DEEPEST:
            raise _wrong(self._text, place, f"expected at most {_DEEPEST} brackets in each other")
        inside = self.read(0, depth + 1)
        if self._symbol() != _CLOSING[part]:
            raise _wrong(self._text, place, f"this {part} is not closed by {_CLOSING[part]}")
        self.next += 1
        return inside

    def _symbol(self) -> str | None:
        part = self._parts[self.next][1] if self.next < len(self._parts) else None
        return part if isinstance(part, str) else None


def _is_truth(formula: Formula) -> bool:
    return isinstance(formula, Operation) and formula.operator in "<>=&|"


def _wrong(text: str, place: int, reason: str) -> TextError:
    return TextError(f"the formula {text!r} is wrong at character {place + 1}: {reason}")


def _regions_in(formula: Formula) -> Iterator[RegionSum]:
    if isinstance(formula, RegionSum):
        yield formula
    elif isinstance(formula, Operation):
        yield from _regions_in(formula.left)
        yield from _regions_in(formula.right)


def read_suite(name: str, on_bad: OnBad = raise_error) -> Suite:
    """Reads a suite, a JSON file as SyntaxGym has them, perhaps compressed.

    on_bad: a callback that gets a TextError with file and item for each item that the formulas cannot be applied to, or
    that is not of the format; it is left out. Raises TextError if the file or a formula is wrong, or no item is left.
    """
    try:
        record = parse_json("\n".join(lines_of(name)))
    except (ValueError, RecursionError) as error:
        raise TextError(f"{name}: is not JSON ({error}); expected a suite of SyntaxGym") from None
    try:
        metric = record.get("meta", {}).get("metric", "sum")
        title = record.get("meta", {}).get("name") or name
        written = [str(prediction["formula"]) for prediction in record["predictions"]]
        items = list(record["items"])
    except (KeyError, TypeError, AttributeError):
        raise TextError(
            f"{name}: is not a suite of SyntaxGym; expected an object with predictions, each with a formula, and items"
        ) from None
    if metric != "sum":
        raise TextError(f"{name}: the metric of the regions is {metric!r}; only 'sum' can be measured")
    if not written:
        raise TextError(f"{name}: there are no predictions in it, so that there is nothing to measure")
    formulas = []
    for text in written:
        try:
            formulas.append((text, parse_formula(text)))
        except TextError as error:
            raise TextError(f"{name}: {error}") from None
    kept: list[Item] = []
    for place, record in enumerate(items, 1):
        number = str(place if not isinstance(record, dict) else as_written(record.get("item_number", place)))
        try:
            item = _item(record, number, formulas)
            same = next((other for other in kept if number == other.number), None)
            if same is not None:
                raise TextError("there is an item of this number before it; give each its own item_number")
            same = next((other for other in kept if item.conditions == other.conditions), None)
            if same is not None:
                raise TextError(f"has the same sentences as item {same.number}, and would be counted twice")
            kept.append(item)
        except TextError as error:
            on_bad(bad_record(Record({"item": record}, f"{name}, item {number}"), str(error)))
    if not kept:
        raise TextError(f"{name}: there is no item that can be measured in it")
    return Suite(str(title), formulas, kept)


def _item(record: Any, number: str, formulas: Iterable[tuple[str, Formula]]) -> Item:
    """Raises TextError, which does not say which item it is."""
    conditions: dict[str, dict[int, str]] = {}
    try:
        for condition in record["conditions"]:
            regions: dict[int, str] = {}
            for region in condition["regions"]:
                own, content = region["region_number"], region["content"]
                own = whole_number_of(own) if isinstance(own, str) else int(own)
                if own in regions:
                    raise TextError(f"condition {condition['condition_name']!r} has region {own} twice")
                if not isinstance(content, str):
                    raise TextError(f"the content of region {own} is {content!r}; expected a string")
                regions[own] = content
            name = str(condition["condition_name"])
            if name in conditions:
                raise TextError(f"condition {name!r} is there twice")
            if [*regions] != sorted(regions):
                raise TextError(
                    f"the regions of condition {name!r} are listed as {', '.join(map(str, regions))}; expected them in "
                    "the order of their numbers, which is that of the sentence"
                )
            if not any(content.strip() for content in regions.values()):
                raise TextError(f"all regions of condition {name!r} are empty")
            conditions[name] = regions
    except (KeyError, TypeError, ValueError):
        raise TextError(
            "is not an item of a suite; expected conditions with condition_name and regions, and these with "
            "region_number and content"
        ) from None
    for text, formula in formulas:
        for region in _regions_in(formula):
            if region.condition not in conditions:
                raise TextError(
                    f"there is no condition {region.condition!r}, which the formula {text!r} names; there are "
                    f"{', '.join(map(repr, conditions)) or 'none'}"
                )
            if region.number is not None and region.number not in conditions[region.condition]:
                raise TextError(
                    f"condition {region.condition!r} has no region {region.number}, which the formula "
                    f"{text!r} names; it has {', '.join(map(str, conditions[region.condition]))}"
                )
    return Item(number, conditions)


def region_bits(
    model: LanguageModel[Any],
    speller: Speller,
    tokenizer: Tokenizer,
    sentences: Sequence[Sequence[str]],
    *,
    word_ends: bool = True,
) -> list[Float64[ndarray, " regions"]]:
    """The surprisal of each region of some sentences, in bits, unknown words with their spelling; 0 of an empty one.

    sentences: the contents of their regions. word_ends: whether the end of a word is paid for in the region where it
    ends, and not in the next, see `chainrule.evaluation.surprisal`. What has the same tokens after the same tokens
    costs the same to the last bit, whatever the batch.
    """
    texts = [" ".join(region.lstrip() for region in regions if region.strip()) for regions in sentences]
    encoded = tokenizer.encode_texts(texts)
    total = score_tokens(model, speller, encoded).spelled
    aligned = tokenizer.align(encoded)
    is_first = np.diff(words_of(encoded.ids, aligned).of_tokens, prepend=-1) > 0  # of a word
    is_last = np.append(is_first[1:], True)
    if word_ends:
        ends = log_word_ends(model, tokenizer, documents_of(encoded.ids))
        before, after = (np.concatenate([own[part] for own in ends]) for part in (slice(-1), slice(1, None)))
        total = total - np.where(is_first, before, 0) + np.where(is_last, after, 0)
    nats, costs, start, byte = [], dict[tuple[bytes, tuple[bytes, ...], bool], float](), 0, 0
    for regions, tokens in zip(sentences, documents_of(encoded.ids), strict=True):
        stop = start + len(tokens)
        ids = tokens.tobytes()
        spelled = [encoded.surface(i) for i in range(start, stop)]
        for i in range(len(tokens)):
            key = ids[: 4 * (i + 1)], tuple(spelled[: i + 1]), bool(is_last[start + i])
            total[start + i] = costs.setdefault(key, float(total[start + i]))
        of_tokens = _regions_of(regions, aligned, slice(start, stop), byte, tokenizer)
        nats.append(np.bincount(of_tokens, weights=total[start:stop], minlength=len(regions)))
        byte, start = int(aligned.stops[stop]), stop + 1
    return [-own / math.log(2) + 0.0 for own in nats]


def _regions_of(
    regions: Sequence[str], aligned: Alignment, tokens: slice, first_byte: int, tokenizer: Tokenizer
) -> Int64[ndarray, " T"]:
    """The region of each token of a sentence. first_byte: where the sentence begins in the aligned text.

    Borders are found by counting visible bytes, since a tokenizer may remove spaces or put them elsewhere.
    """
    text = aligned.text[first_byte : aligned.stops[tokens.stop] - 1]
    counts = np.cumsum(~is_white(text))  # of visible bytes, up to each byte
    borders = np.cumsum([len("".join(split_words(region)).encode("utf-8", "replace")) for region in regions])
    if counts.size and counts[-1] != borders[-1]:  # the normalised text has other characters
        borders = np.array([_visible(regions[: i + 1], tokenizer) for i in range(len(regions))])
    last = np.clip(aligned.stops[tokens] - first_byte - 1, 0, None)
    previous = np.concatenate([[0], counts])[np.maximum(aligned.starts[tokens] - first_byte, 0)]
    seen = np.maximum(counts[last], np.minimum(previous + 1, borders[-1]))  # a token of white space belongs to the next
    return np.minimum(np.searchsorted(borders, seen), len(regions) - 1)


def _visible(regions: Sequence[str], tokenizer: Tokenizer) -> int:
    """How many visible bytes the normalised text of the first regions of a sentence has."""
    text = " ".join(region.lstrip() for region in regions if region.strip())
    aligned = tokenizer.align(tokenizer.encode_texts([text]))
    return int(np.count_nonzero(~is_white(aligned.text)))
