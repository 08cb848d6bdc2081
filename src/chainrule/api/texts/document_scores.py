"""Scores documents by cross-entropy, to filter a corpus: the likeliest, or those more like one text than another.

A document's score is its cross-entropy in bits per token, with </s> and the spelling of unknown tokens; or, with two
models, the difference of their cross-entropies, per token of the first (Moore and Lewis, Intelligent selection of
language model training data, 2010). It is low for documents like the first model's training text and unlike the
second's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError, TextError
from chainrule.evaluation.token_scores import score_documents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Float32, Float64
    from numpy import ndarray

    from chainrule.api.models.model import Model
    from chainrule.api.texts.filter import ScoreFile, Threshold
    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.corpus import Source


def document_scores(block: Block, model: Model, other: Model | None = None) -> Float64[ndarray, " documents"]:
    """The score of each document of a block, in bits per token."""
    log_probs, tokens = score_documents(model.language_model, model.speller, model.tokenizer.encode_block(block))
    if other is not None:
        theirs, _ = score_documents(other.language_model, other.speller, other.tokenizer.encode_block(block))
        log_probs = log_probs - theirs
    return -log_probs / tokens / math.log(2)


def scored(
    source: Source, scores: ScoreFile, model: Model, other: Model | None = None, progress: Progress = silent
) -> Iterator[tuple[Block, Float32[ndarray, " documents"]]]:
    """Scores every block of a source, and appends the scores to the file. Raises TextError."""
    for block in source.blocks(progress, "scoring"):
        yield block, scores.append(document_scores(block, model, other))


def passing(
    source: Source,
    scores: ScoreFile,
    model: Model,
    other: Model | None = None,
    *,
    keep: float | None = None,
    below: float | None = None,
    progress: Progress = silent,
) -> tuple[Iterator[Block], float]:
    """The documents that pass, and the highest score that passes.

    Give either keep, a share of the documents, or below, a score in bits per token. Raises SettingError; TextError
    while the source is read.
    """
    check_limits(keep, below)
    if below is not None:
        return _below(scored(source, scores, model, other, progress), below), below
    for _ in scored(source, scores, model, other, progress):
        pass
    threshold = scores.lowest(max(1, round((keep or 0) * scores.size)))
    return chosen(source, scores, threshold, progress), threshold.value


def check_limits(keep: float | None, below: float | None) -> None:
    """Raises SettingError unless exactly one limit is given, in its range."""
    if (keep is None) == (below is None):
        raise SettingError("give either keep, a share of the documents, or below, a score in bits per token")
    if keep is not None and not 0 < keep <= 1:
        raise SettingError(f"keep is {keep}; expected a share above 0 and at most 1, such as 0.3")
    if below is not None and math.isnan(below):
        raise SettingError("below is not a number; expected bits per token, such as 7.5")


def chosen(source: Source, scores: ScoreFile, threshold: Threshold, progress: Progress = silent) -> Iterator[Block]:
    """Reads a scored source again: the documents that pass, in order.

    Raises TextError, also if the source no longer has as many documents as scores.
    """
    position = 0
    for block in source.blocks(progress, "filtering"):
        stops = block.stops()
        block_scores = scores.read(position, stops.size)
        position += stops.size
        if block_scores.size < stops.size:
            break
        passing = threshold.passes(block_scores)
        if passing.any():
            yield block.select(passing, stops)
    if position != scores.size:
        names = ", ".join(source.sources)
        raise TextError(
            f"{names}: has changed since it was scored; leave it unchanged until it is filtered, and give no pipe"
        )


def _below(blocks: Iterator[tuple[Block, Float32[ndarray, " documents"]]], limit: float) -> Iterator[Block]:
    for block, scores in blocks:
        passes = scores <= limit
        if passes.any():
            yield block.select(passes, block.stops())
