"""How well a seq2seq model predicts the targets, and how close its own texts come to them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule import __version__
from chainrule.base.results import finite_figures
from chainrule.evaluation.likelihood import token_signature
from chainrule.evaluation.resampling import Documents, interval
from chainrule.features.metrics.text_scores import TextScores, measure_summaries, measure_translations
from chainrule.protocol import END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.text.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class PairMeasurement:
    """Likelihood of the targets given their sources, and scores of the texts that the model writes.

    tokens: the number of tokens of the targets, </s> included. unknown: how many of them count as <unk>; bits per byte
    are NaN if there are any, since the model does not spell them. documents: the cost of each target, in nats, and its
    number of bytes.
    """

    tokens: int
    unknown: int
    documents: Documents
    scores: TextScores
    signature: str
    of: str = "pair"  # whatever has a text that scores measure: a pair of texts, or a picture

    @property
    def perplexity(self) -> float:
        """The perplexity per token of the targets, </s> counted."""
        return math.exp(math.fsum(self.documents.nats.tolist()) / self.tokens)

    @property
    def bits_per_byte(self) -> float:
        """The bits per byte of the targets given the sources."""
        if self.unknown:
            return math.nan
        return math.fsum(self.documents.nats.tolist()) / math.log(2) / int(self.documents.bytes.sum())

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % bootstrap interval of bits per byte, over pairs."""
        return (math.nan, math.nan) if self.unknown else interval(self.documents)

    def __str__(self) -> str:
        low, high = self.interval
        bits = f"{self.bits_per_byte:.4f}  95 %: {low:.4f}-{high:.4f}"
        if self.unknown:
            bits = f"not measured; target tokens that the model does not know: {self.unknown:,}"
        return (
            f"{self.scores.texts:,} {self.of}{'s' * (self.scores.texts != 1)}, {self.tokens:,} target tokens\n"
            f"perplexity     {self.perplexity:,.4f}  per target token, </s> counted\n"
            f"bits per byte  {bits}\n\n{self.scores}\n\nsignature  {self.signature}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name: a row for pandas."""
        low, high = self.interval
        return {
            f"{self.of}s": self.scores.texts,
            "tokens": self.tokens,
            "unknown": self.unknown,
            "perplexity": self.perplexity,
            "bits_per_byte": self.bits_per_byte,
            "bits_per_byte_low": low,
            "bits_per_byte_high": high,
            **self.scores.to_dict(),
            "signature": self.signature,
        }

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row of the figures."""
        return [self.to_dict()]

    def as_json(self) -> dict[str, Any]:
        """Return `to_dict` for JSON, with null for NaN and infinity, and the variant of each score."""
        return {
            **finite_figures(self.to_dict()),
            "variants": {score.name: score.variant for score in self.scores.scores},
        }


def measure_pairs(
    targets: Sequence[str], log_probs: Float64[ndarray, " pairs"], texts: Sequence[str], tokenizer: Tokenizer
) -> PairMeasurement:
    """Measure the output of a seq2seq model.

    log_probs: of the targets, in nats. texts: those that the model wrote from the sources. tokenizer: of the targets.
    Raises SettingError if sacrebleu is not installed.
    """
    translations = measure_translations(texts, targets)
    summaries = measure_summaries(texts, [[target] for target in targets])
    scores = TextScores(len(targets), translations.scores + summaries.scores)
    return measure_targets(targets, log_probs, tokenizer, scores)


def measure_targets(
    targets: Sequence[str],
    log_probs: Float64[ndarray, " pairs"],
    tokenizer: Tokenizer,
    scores: TextScores,
    *,
    of: str = "pair",
) -> PairMeasurement:
    """Return the measurement of `measure_pairs`, with scores that were computed already."""
    encoded = tokenizer.encode_texts(targets)
    stops = tokenizer.align(encoded).stops[encoded.ids == END]
    return PairMeasurement(
        tokens=int(encoded.ids.size),
        unknown=int(np.count_nonzero(encoded.ids == UNKNOWN)),
        documents=Documents(-log_probs, np.diff(stops, prepend=0)),
        scores=scores,
        signature=f"{token_signature(tokenizer)}|v:{__version__}",
        of=of,
    )
