"""The likelihood of a text, and the figures that follow from it: perplexity and bits per byte.

Bits per byte are about the text itself: an unknown token's spelling is paid for (see `pricing.py`), so they can be
compared across vocabularies and tokenizations. Perplexity per token is closed over the vocabulary, as everyone reports
it: <unk> without its spelling. Every sum is exact (`math.fsum` over the documents), so the figures depend neither on
the size of blocks nor on the number of threads.
"""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule import __version__
from chainrule.base.jit import map_in_order
from chainrule.base.progress import BlockProgress, Progress, silent
from chainrule.drawing.rendering import html_table
from chainrule.evaluation.breakdown import GROUPS, Breakdown
from chainrule.evaluation.pricing import priced, priced_stream
from chainrule.evaluation.resampling import Documents, interval
from chainrule.evaluation.row_sums import RowSums, row_sums
from chainrule.protocol import END
from chainrule.text.block import LINE_FEED, NEVER_IN_UTF8
from chainrule.text.words import is_white

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jaxtyping import Bool, Float32, Float64, Int, Int32, Int64, UInt8
    from numpy import ndarray

    from chainrule.evaluation.pricing import Priced, Prices, Speller
    from chainrule.protocol import LanguageModel, StreamScores
    from chainrule.text.block import Block
    from chainrule.text.corpus import Source
    from chainrule.text.restoring import Alignment
    from chainrule.text.tokenizer import Tokenizer


NO_DISTRIBUTION = "of scores that do not sum to one: no perplexity, and not to be compared with other models"


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Sums over a text, in nats. Unless ends are left out, each document's end counts: a token, word, character, byte.

    matched: how many tokens got their probability from an n-gram of length 1, 2, ...; for n-gram models.
    """

    documents: int
    tokens: int
    oov: int
    impossible: int = 0  # tokens that have no probability: one is enough to make the text's zero
    words: int  # of the normalised text, cut at white space
    characters: int  # code points of the normalised text
    bytes: int
    log_prob: float  # of all tokens, <unk> for the unknown ones
    log_prob_without_oov: float
    spelling_log_prob: float  # of the unknown tokens' spellings
    text_log_prob: float  # of the text as a string
    matched: tuple[int, ...] | None
    is_distribution: bool = True  # without it, no figure may be compared with others'
    row_sums: RowSums | None = None  # of the model's distributions at some places of the text; for n-gram models
    seconds: float
    text_signature: str  # what was measured: must be equal before bits per byte may be compared
    token_signature: str  # the tokens it was cut into: must be equal, too, before perplexities per token may be
    model_signature: str  # what measured it
    per_document: Documents = field(compare=False, repr=False)
    by_position: Breakdown | None = field(default=None, compare=False, repr=False)  # from 1 on, in the document
    by_frequency: Breakdown | None = field(default=None, compare=False, repr=False)  # in the training text

    @property
    def perplexity(self) -> float:
        """Per token, closed over the vocabulary."""
        return _perplexity(self.log_prob, self.tokens)

    @property
    def perplexity_without_oov(self) -> float:
        """Both the log-probabilities and the number of unknown tokens are taken away."""
        return _perplexity(self.log_prob_without_oov, self.tokens - self.oov)

    @property
    def word_perplexity(self) -> float:
        """Of the text as a string, spelling included, so that any two models' can be compared."""
        return _perplexity(self.text_log_prob, self.words)

    @property
    def character_perplexity(self) -> float:
        """As `word_perplexity`, per character."""
        return _perplexity(self.text_log_prob, self.characters)

    @property
    def bits_per_byte(self) -> float:
        return -self.text_log_prob / math.log(2) / self.bytes if self.bytes else math.inf

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The 95 % bootstrap confidence interval of bits per byte, over documents."""
        return interval(self.per_document)

    @property
    def signature(self) -> str:
        return f"{self.text_signature}+{self.token_signature}|{self.model_signature}"

    def __repr__(self) -> str:
        mark, plural = "" if self.is_distribution else "*", "s" * (self.documents != 1)
        return (
            f"<Measurement: perplexity{mark} {_figure(self.perplexity)}, {self.bits_per_byte:.4f}{mark} bits per byte; "
            f"{self.tokens:,} tokens in {self.documents:,} document{plural}>"
        )

    def __str__(self) -> str:
        """Every figure on a line of its own, for people."""
        lines = [f"{name:<26}{value:>16}  {remark}".rstrip() for name, value, remark in self.rows()]
        if not self.is_distribution:
            lines.append(f"* {NO_DISTRIBUTION}")
        return "\n".join([*lines, f"signature  {self.signature}"])

    def _repr_html_(self) -> str:
        title = f"measured on {self.tokens:,} tokens" + f"; * {NO_DISTRIBUTION}" * (not self.is_distribution)
        return html_table(title, [], [*self.rows(), ("signature", self.signature, "")])

    def rows(self) -> list[tuple[str, str, str]]:
        """For people: names, values, and what is to be known of them."""
        low, high = self.interval
        sure = f"; {low:.4f} to {high:.4f} at 95 %" if math.isfinite(low) else ""
        per_token = "a token, </s> counted" if "</s>" in self.text_signature else "a token, </s> left out"
        plural = "s" * (self.documents != 1)
        mark = "" if self.is_distribution else "*"
        figures = [
            (f"perplexity{mark}", _figure(self.perplexity), per_token),
            (f"  without unknown tokens{mark}", _figure(self.perplexity_without_oov), ""),
            (f"bits per byte{mark}", f"{self.bits_per_byte:.4f}", "with spelling" + sure),
            (f"  perplexity per word{mark}", _figure(self.word_perplexity), "with spelling"),
            (f"  per character{mark}", _figure(self.character_perplexity), "with spelling"),
            ("tokens", f"{self.tokens:,}", f"in {self.documents:,} document{plural}, {self.bytes:,} bytes"),
            ("unknown tokens", f"{self.oov:,}", f"{self.oov / max(self.tokens, 1):.2%}"),
            ("log-probability", f"{self.log_prob:,.2f}", "nats"),
        ]
        if self.impossible:
            figures.append(("impossible tokens", f"{self.impossible:,}", "no probability: the text has none"))
        if self.matched:
            shares = ", ".join(f"{n}: {count / self.tokens:.1%}" for n, count in enumerate(self.matched, 1))
            figures.append(("matched", f"{_mean_length(self.matched):.2f}", f"tokens on average; {shares}"))
        if self.row_sums:
            mean, contexts = self.row_sums
            odd = "" if abs(mean - 1) < _PROPER else ": this is no distribution, and its perplexity is no perplexity"
            figures.append(
                ("mean row sum", f"{mean:.6f}", f"of the distributions at {contexts} places of the text{odd}")
            )
        return figures

    def to_dict(self) -> dict[str, Any]:
        """The figures by name, each a number or a string, infinities as they are: a row for pandas.

        good:  pandas.DataFrame([model.evaluate(file).to_dict() for file in files])
        """
        low, high = self.interval
        return {
            "documents": self.documents,
            "tokens": self.tokens,
            "oov": self.oov,
            "impossible": self.impossible,
            "is_distribution": self.is_distribution,
            "oov_rate": self.oov / self.tokens if self.tokens else 0.0,
            "words": self.words,
            "characters": self.characters,
            "bytes": self.bytes,
            "log_prob": self.log_prob,
            "log_prob_without_oov": self.log_prob_without_oov,
            "spelling_log_prob": self.spelling_log_prob,
            "text_log_prob": self.text_log_prob,
            "perplexity": self.perplexity,
            "perplexity_without_oov": self.perplexity_without_oov,
            "word_perplexity": self.word_perplexity,
            "character_perplexity": self.character_perplexity,
            "bits_per_byte": self.bits_per_byte,
            "bits_per_byte_low": low,
            "bits_per_byte_high": high,
            "seconds": self.seconds,
            "signature": self.signature,
        }

    def as_json(self) -> dict[str, Any]:
        """Every figure by name; null stands for infinity, which JSON does not have."""
        figures = self.to_dict()
        signature = figures.pop("signature")
        finite = {name: value if math.isfinite(value) else None for name, value in figures.items()}
        matched = self.matched and list(self.matched)
        mean = self.row_sums.mean if self.row_sums and math.isfinite(self.row_sums.mean) else None
        return {**finite, "matched": matched, "mean_row_sum": mean, "signature": signature}


def measure(
    model: Priced,
    tokenizer: Tokenizer,
    speller: Speller,
    source: Source,
    progress: Progress = silent,
    *,
    in_full: Callable[[Int32[ndarray, " T"]], StreamScores] | None = None,
    running: Running | None = None,
    with_rows: LanguageModel[Any] | None = None,
    ends: bool = True,
    context: str = "document",
    is_distribution: bool = True,
    frequencies: Int64[ndarray, " V"] | None = None,
) -> Measurement:
    """The likelihood of a source's documents.

    in_full: an n-gram model's `score_stream_in_full`, for how long its matches are. running: what scores a text in one
    stream, for a model that sees more than the line. with_rows: the model again, where its distributions are to be
    summed at some places of the text. ends: whether the end of each document is predicted and counted. context: what
    the model knows before a token, for the signature, where nothing runs.
    is_distribution: whether the model's probabilities sum to one. frequencies: how often the training text has each
    token, to tell what the rare ones cost; <unk> is as one that it has not.
    Raises TextError where the source cannot be read or has no text.
    """
    began = time.perf_counter()

    inside = BlockProgress(progress, "evaluating")

    def parts() -> Iterator[tuple[bool, Block]]:
        """Of the first block or not; whole blocks where documents see those before them."""
        for number, block in enumerate(source.blocks(inside, "evaluating")):
            pieces = [block] if running is not None else block.pieces(_PART_BYTES)
            yield from ((number == 0, piece) for piece in pieces)

    def measured(part: tuple[bool, Block]) -> _Part:
        is_first, block = part
        encoded = tokenizer.encode_block(block)
        lengths = None
        if running is not None:
            scored = running.score(encoded.ids, lambda share: inside.report(share * block.text.size))
            prices = priced_stream(encoded, speller, *scored)
        elif in_full is not None:
            scores, lengths, unknown = in_full(encoded.ids)
            prices = priced_stream(encoded, speller, scores, unknown)
        else:
            prices = priced(model, speller, encoded)
        found = _part(encoded.ids, prices, tokenizer.align(encoded), lengths, ends=ends, frequencies=frequencies)
        return found if is_first else replace(found, ids=None)

    digest = hashlib.sha256()
    sums: list[_Sums] = []
    words = characters = tokens = oov = impossible = 0
    matched = np.zeros(0, np.int64)
    first_ids: list[Int32[ndarray, " T"]] = []  # of the first block
    by_position, by_frequency = _NO_TOKENS, _NO_TOKENS
    # A network has threads of its own, and what it holds of a block is much.
    for part in map_in_order(measured, parts()) if running is None else map(measured, parts()):
        if part.ids is not None:
            first_ids.append(part.ids)
        sums.append(part.sums)
        by_position += part.by_position
        by_frequency += part.by_frequency
        tokens += part.tokens
        oov += part.oov
        impossible += part.impossible
        words += part.words
        characters += part.characters
        matched = _added(matched, part.matched)
        digest.update(part.text.data)
    sampled = None if with_rows is None else row_sums(with_rows, np.concatenate(first_ids))
    closed, known, spelling, text, bytes_of = map(np.concatenate, zip(*sums, strict=True))
    documents = len(text)
    return Measurement(
        documents=documents,
        tokens=tokens,
        oov=oov,
        impossible=impossible,
        words=words + ends * documents,
        characters=characters - (not ends) * documents,
        bytes=int(bytes_of.sum()),
        log_prob=math.fsum(closed.tolist()),
        log_prob_without_oov=math.fsum(known.tolist()),
        spelling_log_prob=math.fsum(spelling.tolist()),
        text_log_prob=math.fsum(text.tolist()),
        matched=tuple(matched.tolist()) if in_full else None,
        is_distribution=is_distribution,
        row_sums=sampled,
        seconds=time.perf_counter() - began,
        text_signature=(f"text:{digest.hexdigest()[:8]}|oov:spelled|predict:tokens{',</s>' * ends}|v:{__version__}"),
        token_signature=token_signature(tokenizer),
        model_signature=model_signature(speller, running, context=context, is_distribution=is_distribution),
        per_document=Documents(-text, bytes_of),
        by_position=by_position,
        by_frequency=None if frequencies is None else by_frequency,
    )


def token_signature(tokenizer: Tokenizer) -> str:
    """What perplexities per token are of: how a text is cut, and the vocabulary."""
    return f"tok:{tokenizer.name}|loses:{tokenizer.loses}|vocab:{_vocabulary(tokenizer)}"


def model_signature(
    speller: Speller, running: Running | None, *, context: str = "document", is_distribution: bool = True
) -> str:
    """What measures: how unknown words are spelled, and how much a model sees. The arguments are those of `measure`."""
    seen = f"context:{context}" if running is None else running.signature
    scores = "" if is_distribution else "|scores:no distribution"
    return f"spell:{speller.name}|unseen:{speller.unseen_types}|{seen}{scores}"


class Running(NamedTuple):
    """How a text is scored in one stream."""

    score: Callable[
        [Int32[ndarray, " T"], Callable[[float], None]],
        tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]],
    ]  # of a stream's tokens, and of <unk> at their places; calls what it is given with the share that is done
    signature: str  # how much context a token has


_PART_BYTES = 1 << 18  # of text, that one thread measures at a time: what it makes of them stays in the cache
_NO_TOKENS = Breakdown(np.zeros(GROUPS), np.zeros(GROUPS, np.int64))

_Sums = tuple[
    "Float64[ndarray, ' documents']",  # closed
    "Float64[ndarray, ' documents']",  # closed, known tokens only
    "Float64[ndarray, ' documents']",  # spelling
    "Float64[ndarray, ' documents']",  # all of it
    "Int64[ndarray, ' documents']",  # bytes
]


@dataclass(frozen=True)
class _Part:
    """What is added up of a part of the text, and its normalised text."""

    ids: Int32[ndarray, " T"] | None
    text: UInt8[ndarray, " bytes"]  # as the signature has it
    sums: _Sums
    by_position: Breakdown
    by_frequency: Breakdown
    tokens: int
    oov: int
    impossible: int
    words: int
    characters: int
    matched: Int64[ndarray, " lengths"]


def _part(
    ids: Int32[ndarray, " T"],
    prices: Prices,
    aligned: Alignment,
    lengths: Int[ndarray, " T"] | None,
    *,
    ends: bool,
    frequencies: Int64[ndarray, " V"] | None,
) -> _Part:
    is_end = ids == END
    counted = np.ones(is_end.size, np.bool_) if ends else ~is_end
    nats = -prices.total[counted]
    sizes = np.diff(aligned.stops, prepend=0)[counted]
    by_frequency = _NO_TOKENS
    if frequencies is not None:
        seen = np.where(prices.unknown, 0, frequencies[ids])
        by_frequency = Breakdown.of(seen[counted], nats, sizes)
    return _Part(
        ids=ids,
        text=_with_borders(aligned.text, aligned.starts[is_end]),
        sums=_sums(prices, aligned, is_end, counted),
        by_position=Breakdown.of(_positions(is_end)[counted], nats, sizes),
        by_frequency=by_frequency,
        tokens=int(np.count_nonzero(counted)),
        oov=int(np.count_nonzero(prices.unknown)),
        impossible=int(np.count_nonzero(np.isneginf(prices.closed) & counted)),
        words=_words(aligned.text),
        characters=int(np.count_nonzero((aligned.text & 0xC0) != 0x80)),
        matched=np.zeros(0, np.int64) if lengths is None else np.bincount(lengths[counted])[1:],
    )


def _sums(prices: Prices, aligned: Alignment, is_end: Bool[ndarray, " T"], counted: Bool[ndarray, " T"]) -> _Sums:
    """By document. Of the same document always the same: the order of summation depends on nothing but its tokens."""
    ends = np.flatnonzero(is_end)
    starts = np.concatenate([[0], ends[:-1] + 1])
    stops = aligned.stops[ends]
    sizes = np.diff(stops, prepend=0) - (~counted[ends]).astype(np.int64)
    closed = np.where(counted, prices.closed, 0.0)
    known = np.where(prices.unknown, 0.0, closed)
    total = np.where(counted, prices.total, 0.0)
    columns = (np.add.reduceat(column, starts) for column in (closed, known, prices.spelling, total))
    first, second, third, fourth = columns
    return first, second, third, fourth, sizes


def _positions(is_end: Bool[ndarray, " T"]) -> Int64[ndarray, " T"]:
    """Of each token in its document, from 1 on."""
    starts = np.concatenate([[0], np.flatnonzero(is_end)[:-1] + 1])
    lengths = np.diff(starts, append=is_end.size)
    return np.arange(1, is_end.size + 1) - np.repeat(starts, lengths)


def _with_borders(text: UInt8[ndarray, " bytes"], ends: Int64[ndarray, " documents"]) -> UInt8[ndarray, " bytes"]:
    """A text that is another one where its documents begin and end elsewhere, for the signature.

    Its documents end with newlines; a newline inside one becomes a byte that no text holds. So a text that is read
    line by line stays as it is. ends: where the newlines are that end documents.
    """
    is_inside = text == LINE_FEED
    is_inside[ends] = False
    return np.where(is_inside, np.uint8(NEVER_IN_UTF8), text) if is_inside.any() else text


def _words(text: UInt8[ndarray, " bytes"]) -> int:
    """The number of runs of anything but white space."""
    white = is_white(text)
    return int(np.count_nonzero(~white & np.concatenate([[True], white[:-1]])))


def _added(longer: Int64[ndarray, " a"], other: Int64[ndarray, " b"]) -> Int64[ndarray, " max"]:
    """The sum of two histograms."""
    total = np.zeros(max(longer.size, other.size), np.int64)
    total[: longer.size] += longer
    total[: other.size] += other
    return total


def _vocabulary(tokenizer: Tokenizer) -> str:
    """Its size, and a hash of its tokens."""
    digest = hashlib.sha256()
    for array in tokenizer.vocabulary.arrays().values():
        digest.update(np.ascontiguousarray(array).data)
    return f"{tokenizer.vocabulary_size}:{digest.hexdigest()[:8]}"


def _perplexity(log_prob: float, tokens: int) -> float:
    """exp(-log P / tokens); infinite where something had no probability, or too large for a number."""
    if tokens == 0:
        return math.inf
    try:
        return math.exp(-log_prob / tokens)
    except OverflowError:
        return math.inf


_PROPER = 1e-3  # so close to one a sum has to be that is shown without a remark


def _mean_length(matched: tuple[int, ...]) -> float:
    """Of the n-grams that gave the tokens their probabilities."""
    return sum(n * count for n, count in enumerate(matched, 1)) / max(sum(matched), 1)


def _figure(number: float) -> str:
    """Four decimals, or an exponent where that would be a line of digits."""
    return f"{number:,.4f}" if number < 1e9 else f"{number:.4e}"
