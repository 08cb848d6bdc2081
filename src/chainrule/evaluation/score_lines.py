"""The lines of `chainrule score`: the log-probability, tokens, unknown tokens and text of each document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.results import finite
from chainrule.drawing.score_line_kernels import LARGEST, NUMBERS_ROOM, write_sentences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import UInt8
    from numpy import ndarray

    from chainrule.evaluation.token_scores import SentenceScores
    from chainrule.text.corpus.block import Block


def sentence_lines(scores: SentenceScores, block: Block, per_nat: float = 1.0) -> UInt8[ndarray, " bytes"]:
    """Return the lines for the documents of a block; line ends within them become spaces. per_nat: what a nat is."""
    stops = block.stops()
    out = np.empty(NUMBERS_ROOM * stops.size + block.text.size, np.uint8)
    log_probs = np.where(scores.log_probs == -np.inf, -np.inf, np.clip(per_nat * scores.log_probs, -LARGEST, LARGEST))
    return out[: write_sentences(log_probs, scores.tokens, scores.unknown, block.text, stops, out)]


def sentences_as_json(scores: SentenceScores, block: Block) -> Iterator[dict[str, Any]]:
    """Yield the figures of `sentence_lines` for JSON, where null stands for infinity."""
    columns = scores.log_probs.tolist(), scores.tokens.tolist(), scores.unknown.tolist()
    for text, log_prob, tokens, oov in zip(block.documents(), *columns, strict=True):
        yield {"text": text, "log_prob": finite(log_prob), "tokens": tokens, "oov": oov}
