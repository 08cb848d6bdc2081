"""The likelihood of a text, and the figures that follow from it: perplexity and bits per byte.

What is measured: log P(text) = sum over tokens and document ends of log P(token | context), where an unknown token
costs P(<unk> | context) P(its spelling). So bits per byte are about the text itself and can be compared across
vocabularies and tokenisations. Perplexity is per token and closed over the vocabulary, as everyone reports it: <unk>
without its spelling.
"""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from chainrule import __version__
from chainrule.progress import Progress, silent
from chainrule.protocol import UNKNOWN
from chainrule.text.tokenizer import documents_of

if TYPE_CHECKING:
    from chainrule.protocol import Scorer
    from chainrule.text.corpus import Source
    from chainrule.text.tokenizer import Tokenizer


class Speller(Protocol):
    name: str

    def log_prob(self, token: bytes) -> float: ...


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Sums over a text, in nats. `tokens` counts every prediction: the </s> of each document too."""

    documents: int
    tokens: int
    oov: int
    log_prob: float  # of all tokens, <unk> for the unknown ones
    log_prob_without_oov: float
    spelling_log_prob: float  # of the unknown tokens' spellings
    bytes: int  # of the normalised text, one for each document's end
    seconds: float
    text_signature: str  # what was measured: must be equal before two figures may be compared
    model_signature: str  # what measured it

    @property
    def perplexity(self) -> float:
        return _perplexity(self.log_prob, self.tokens)

    @property
    def perplexity_without_oov(self) -> float:
        """Both the log-probabilities and the number of unknown tokens are taken away."""
        return _perplexity(self.log_prob_without_oov, self.tokens - self.oov)

    @property
    def bits_per_byte(self) -> float:
        return -(self.log_prob + self.spelling_log_prob) / math.log(2) / self.bytes

    @property
    def signature(self) -> str:
        return f"{self.text_signature}+{self.model_signature}"

    def as_json(self) -> dict[str, Any]:
        """Every figure by name; null stands for infinity, which JSON does not have."""
        figures = {
            "documents": self.documents,
            "tokens": self.tokens,
            "oov": self.oov,
            "oov_rate": self.oov / self.tokens,
            "log_prob": self.log_prob,
            "log_prob_without_oov": self.log_prob_without_oov,
            "spelling_log_prob": self.spelling_log_prob,
            "perplexity": self.perplexity,
            "perplexity_without_oov": self.perplexity_without_oov,
            "bits_per_byte": self.bits_per_byte,
            "bytes": self.bytes,
            "seconds": self.seconds,
        }
        finite = {name: value if math.isfinite(value) else None for name, value in figures.items()}
        return {**finite, "signature": self.signature}


def measure(
    scorer: Scorer, tokenizer: Tokenizer, speller: Speller, source: Source, progress: Progress = silent
) -> Measurement:
    """The likelihood of a source's documents. Raises TextError where it cannot be read or has no text."""
    began = time.perf_counter()
    documents = tokens = oov = size = 0
    log_prob = log_prob_without_oov = spelling = 0.0
    digest = hashlib.sha256()
    for block in source.blocks(progress, "evaluating"):
        encoded = tokenizer.encode_block(block)
        sequences = documents_of(encoded.ids)
        scores = np.concatenate(scorer.score(sequences), dtype=np.float64)
        unknown = np.flatnonzero(encoded.ids == UNKNOWN)
        normalised = tokenizer.align(encoded).text
        documents += len(sequences)
        tokens += scores.size
        oov += unknown.size
        size += normalised.size
        log_prob += float(scores.sum())
        log_prob_without_oov += float(scores[encoded.ids != UNKNOWN].sum())
        spelling += math.fsum(speller.log_prob(encoded.surface(place)) for place in unknown.tolist())
        digest.update(normalised.data)
    return Measurement(
        documents=documents,
        tokens=tokens,
        oov=oov,
        log_prob=log_prob,
        log_prob_without_oov=log_prob_without_oov,
        spelling_log_prob=spelling,
        bytes=size,
        seconds=time.perf_counter() - began,
        text_signature=f"text:{digest.hexdigest()[:8]}|oov:spelled|predict:tokens,</s>|v:{__version__}",
        model_signature=(
            f"tok:{tokenizer.name}|loses:{tokenizer.loses}|vocab:{tokenizer.vocabulary_size}|spell:{speller.name}|context:line"
        ),
    )


def _perplexity(log_prob: float, tokens: int) -> float:
    """exp(-log P / tokens); infinite where something had no probability, or too large for a number."""
    if tokens == 0:
        return math.inf
    try:
        return math.exp(-log_prob / tokens)
    except OverflowError:
        return math.inf
