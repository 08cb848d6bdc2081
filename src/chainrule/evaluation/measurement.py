"""The figures of a text under a model: perplexity, bits per byte, their breakdown; do distributions sum to one?

Bits per byte are about the text itself: they include the spelling of unknown tokens (see `token_scores.py`), and can be
compared across vocabularies and tokenizers. Perplexity per token is over the model's vocabulary, as the literature
reports it: an unknown token counts as <unk>, without its spelling.

A breakdown is by a property of tokens, their position in the document or their frequency in training, in ranges that
double: 0, 1, 2-3, 4-7, and so on. A model whose distributions do not sum to one has no perplexity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.results import finite, finite_figures, named_figures
from chainrule.drawing.pages import html_table
from chainrule.evaluation.resampling import Documents, interval
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.protocol import LanguageModel

_FEW = 10  # documents of so much less than the context leave it unused
NO_DISTRIBUTION = "from scores that do not sum to one: not a perplexity, and not comparable with other models"


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Sums over a text; log-probabilities are in nats.

    The end of each document counts as a token, a word, a character and a byte, unless ends were left out.
    matched: how many tokens got their probability from an n-gram of length 1, 2, ...; n-gram models only.
    """

    documents: int
    tokens: int
    oov: int
    impossible: int = 0  # tokens with probability zero; a single one makes that of the text zero
    words: int  # of the normalised text, separated by white space
    characters: int  # code points of the normalised text
    bytes: int
    log_prob: float  # of all tokens, unknown ones as <unk>
    log_prob_without_oov: float
    spelling_log_prob: float  # of the spellings of unknown tokens
    text_log_prob: float  # of the text as a string
    matched: tuple[int, ...] | None
    is_distribution: bool = True  # if False, no figure can be compared with another model's
    row_sums: RowSums | None = None  # of the distributions at some positions of the text; n-gram models only
    seconds: float
    text_signature: str  # the text: bits per byte are comparable only if it is equal
    token_signature: str  # its tokenization: perplexities per token are comparable only if it is equal, too
    model_signature: str  # the model's context and how it spells unknown tokens
    per_document: Documents = field(compare=False, repr=False)
    by_position: Breakdown | None = field(default=None, compare=False, repr=False)  # in the document, from 1
    by_frequency: Breakdown | None = field(default=None, compare=False, repr=False)  # in the training text
    context: int | None = field(default=None, compare=False, repr=False)  # tokens, where lines may leave it unused

    def notes(self) -> Iterator[str]:
        """Yield that documents are far shorter than what the model reads at once, if they are."""
        mean = self.tokens / max(self.documents, 1)
        if self.context is not None and self.documents > 1 and _FEW * mean <= self.context:
            yield (
                f"each line is a document, of {mean:.0f} tokens on average, and the model reads up to "
                f"{self.context:,}: if lines belong together, --document file lets it see those before"
            )

    @property
    def perplexity(self) -> float:
        """The perplexity per token, over the vocabulary: exp(-log_prob / tokens)."""
        return _perplexity(self.log_prob, self.tokens)

    @property
    def perplexity_without_oov(self) -> float:
        """As `perplexity`, with unknown tokens left out of both the sum and the count."""
        return _perplexity(self.log_prob_without_oov, self.tokens - self.oov)

    @property
    def word_perplexity(self) -> float:
        """The perplexity per word of the text as a string, spelling included: comparable between all models."""
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
        """Return one figure a line, for people."""
        lines = [f"{name:<26}{value:>16}  {remark}".rstrip() for name, value, remark in self.rows()]
        if not self.is_distribution:
            lines.append(f"* {NO_DISTRIBUTION}")
        return "\n".join([*lines, f"signature  {self.signature}"])

    def _repr_html_(self) -> str:
        title = f"measured on {self.tokens:,} tokens" + f"; * {NO_DISTRIBUTION}" * (not self.is_distribution)
        return html_table(title, [], [*self.rows(), ("signature", self.signature, "")])

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the figures for people: name, value and remark of each."""
        low, high = self.interval
        bounds = f"; {low:.4f} to {high:.4f} at 95 %" if math.isfinite(low) else ""
        per_token = "a token, </s> counted" if "</s>" in self.text_signature else "a token, </s> left out"
        plural = "s" * (self.documents != 1)
        mark = "" if self.is_distribution else "*"
        figures = [
            (f"perplexity{mark}", _figure(self.perplexity), per_token),
            (f"  without unknown tokens{mark}", _figure(self.perplexity_without_oov), ""),
            (f"bits per byte{mark}", f"{self.bits_per_byte:.4f}", "with spelling" + bounds),
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
            mean = sum(n * count for n, count in enumerate(self.matched, 1)) / max(sum(self.matched), 1)
            figures.append(("matched", f"{mean:.2f}", f"tokens on average; {shares}"))
        if self.row_sums:
            mean, contexts = self.row_sums
            warning = "" if abs(mean - 1) < _ROUNDING else ": not a distribution, so the perplexity is not one"
            figures.append(
                ("mean row sum", f"{mean:.6f}", f"of the distributions at {contexts} positions of the text{warning}")
            )
        return figures

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name, as numbers and strings (infinities included): a row for pandas.

        good:  pandas.DataFrame([model.evaluate(file).to_dict() for file in files])
        """
        low, high = self.interval
        return {
            **named_figures(self, ("documents", "tokens", "oov", "impossible", "is_distribution")),
            "oov_rate": self.oov / self.tokens if self.tokens else 0.0,
            **named_figures(self, ("words", "characters", "bytes")),
            **named_figures(self, ("log_prob", "log_prob_without_oov", "spelling_log_prob", "text_log_prob")),
            **named_figures(self, ("perplexity", "perplexity_without_oov", "word_perplexity", "character_perplexity")),
            "bits_per_byte": self.bits_per_byte,
            "bits_per_byte_low": low,
            "bits_per_byte_high": high,
            "seconds": self.seconds,
            "signature": self.signature,
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row of the figures."""
        return [self.to_dict()]

    def as_json(self) -> dict[str, Any]:
        """Return the figures by name for JSON, with null for infinity."""
        figures: dict[str, Any] = finite_figures(self.to_dict())
        signature = figures.pop("signature")
        matched = self.matched and list(self.matched)
        mean = finite(self.row_sums.mean) if self.row_sums else None
        return {**figures, "matched": matched, "mean_row_sum": mean, "signature": signature}


def _perplexity(log_prob: float, tokens: int) -> float:
    """Return exp(-log P / tokens); infinite if a probability is zero or the result too large for a float."""
    if tokens == 0:
        return math.inf
    try:
        return math.exp(-log_prob / tokens)
    except OverflowError:
        return math.inf


_ROUNDING = 1e-3  # a row sum that differs from one by less is shown without a warning


def _figure(number: float) -> str:
    """Return a figure with four decimals, or in scientific notation from a billion on."""
    return f"{number:,.4f}" if number < 1e9 else f"{number:.4e}"


GROUPS = 40


@dataclass(frozen=True)
class Breakdown:
    """The cost of the tokens of each group, and their size in bytes, including the white space before them."""

    nats: Float64[ndarray, " groups"]
    bytes: Int64[ndarray, " groups"]

    @classmethod
    def of(cls, values: Int64[ndarray, " T"], nats: Float64[ndarray, " T"], sizes: Int64[ndarray, " T"]) -> Breakdown:
        """Return the cost and size of the tokens, grouped by powers of two of a property.

        values: the property of each token, 0 or more. nats: the cost of each token. sizes: its size in bytes.
        """
        _, groups = np.frexp(values)  # 0 for 0, 1 for 1, 2 for 2 and 3, ...
        groups = np.minimum(groups, GROUPS - 1)
        return cls(np.bincount(groups, nats, GROUPS), np.bincount(groups, sizes, GROUPS).astype(np.int64))

    def __add__(self, other: Breakdown) -> Breakdown:
        return Breakdown(self.nats + other.nats, self.bytes + other.bytes)

    @property
    def groups(self) -> list[int]:
        """The groups that have bytes."""
        return np.flatnonzero(self.bytes).tolist()

    def bits_per_byte(self, group: int) -> float:
        """Return the bits per byte of a group; infinite if one of its tokens has probability zero, NaN if it has no
        bytes.
        """
        if not self.bytes[group]:
            return math.nan
        return float(self.nats[group] / math.log(2) / self.bytes[group])

    def as_json(self) -> list[dict[str, Any]]:
        """Return, for each group that has bytes, its first and last value, and its figures."""
        return [
            {
                "first": bounds(group)[0],
                "last": bounds(group)[1],
                "bytes": int(self.bytes[group]),
                "bits_per_byte": finite(self.bits_per_byte(group)),
            }
            for group in self.groups
        ]


def bounds(group: int) -> tuple[int, int]:
    """Return the first and the last value of a group."""
    return (1 << group >> 1, (1 << group) - 1)


def group_name(group: int) -> str:
    first, last = bounds(group)
    return f"{first:,}" if first == last else f"{first:,}-{last:,}"


_CONTEXTS = 64
_MAX_PROBS = 1 << 24  # computed in all
_BATCH_PROBS = 1 << 20  # computed at a time
_MAX_CONTEXT = 32  # tokens; more than any n-gram has


class RowSums(NamedTuple):
    """The mean of the sums of the distributions after some contexts, and the number of contexts."""

    mean: float
    contexts: int


def row_sums(model: LanguageModel[Any], stream: Int32[ndarray, " T"]) -> RowSums | None:
    """Return the sums at evenly spaced positions of a stream of documents, each ending with </s>; None for an empty
    stream.
    """
    if not stream.size:
        return None
    contexts = min(stream.size, _CONTEXTS, max(4, _MAX_PROBS // model.vocabulary_size))
    starts = np.concatenate([[0], np.flatnonzero(stream == END) + 1])
    prefixes = []
    for position in np.linspace(0, stream.size, contexts, endpoint=False).astype(np.int64).tolist():
        start = int(starts[np.searchsorted(starts, position, side="right") - 1])
        prefixes.append(stream[max(start, position - _MAX_CONTEXT) : position])
    rows = max(1, _BATCH_PROBS // model.vocabulary_size)
    sums: list[float] = []
    for start in range(0, contexts, rows):
        log_probs = model.next_log_probs(model.start(prefixes[start : start + rows]))
        sums += np.exp(log_probs, dtype=np.float64).sum(axis=1).tolist()
    return RowSums(float(np.mean(sums)), contexts)
