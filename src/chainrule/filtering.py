"""Curating a corpus by perplexity: the documents that a model finds likeliest, or more like one text than another.

A document's score is its cross-entropy, bits a token with </s> counted and unknown tokens spelled; or, given two
models, the difference of their cross-entropies, per token of the first (Moore and Lewis, Intelligent selection of
language model training data, 2010): low where a document is like what the first model was trained on and unlike what
the other was.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from chainrule.errors import TextError
from chainrule.evaluation.pricing import priced_documents
from chainrule.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Float32, Float64
    from numpy import ndarray

    from chainrule.evaluation.selection import ScoreFile, Threshold
    from chainrule.model import Model
    from chainrule.text.block import Block
    from chainrule.text.corpus import Source


def document_scores(block: Block, model: Model, other: Model | None = None) -> Float64[ndarray, " documents"]:
    """The score of each document of a block, in bits a token."""
    log_probs, tokens = priced_documents(model.language_model, model.speller, model.tokenizer.encode_block(block))
    if other is not None:
        theirs, _ = priced_documents(other.language_model, other.speller, other.tokenizer.encode_block(block))
        log_probs = log_probs - theirs
    return -log_probs / tokens / math.log(2)


def scored(
    source: Source, scores: ScoreFile, model: Model, other: Model | None = None, progress: Progress = silent
) -> Iterator[tuple[Block, Float32[ndarray, " documents"]]]:
    """Every block with the scores of its documents, which are also put into the file. Raises TextError."""
    for block in source.blocks(progress, "scoring"):
        yield block, scores.append(document_scores(block, model, other))


def chosen(source: Source, scores: ScoreFile, threshold: Threshold, progress: Progress = silent) -> Iterator[Block]:
    """A source that has been scored, once more: the documents that pass, in their order.

    Raises TextError, also where it has not as many documents as scores.
    """
    place = 0
    for block in source.blocks(progress, "filtering"):
        stops = block.stops()
        found = scores.read(place, stops.size)
        place += stops.size
        if found.size < stops.size:
            break
        passing = threshold.passes(found)
        if passing.any():
            yield block.select(passing, stops)
    if place != scores.size:
        names = ", ".join(source.sources)
        raise TextError(f"{names}: has changed since it was scored; keep it as it is, and let no pipe be read twice")
