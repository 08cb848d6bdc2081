"""Curating a corpus by perplexity: the documents that a model finds likeliest, or more like one text than another.

A document's score is its cross-entropy, bits a token with </s> counted and unknown tokens spelled; or, given two
models, the difference of their cross-entropies, per token of the first (Moore and Lewis, Intelligent selection of
language model training data, 2010): low where a document is like what the first model was trained on and unlike what
the other was.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError, TextError
from chainrule.evaluation.token_costs import price_documents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Float32, Float64
    from numpy import ndarray

    from chainrule.api.model import Model
    from chainrule.evaluation.lowest_scores import ScoreFile, Threshold
    from chainrule.text.block import Block
    from chainrule.text.corpus import Source


def document_scores(block: Block, model: Model, other: Model | None = None) -> Float64[ndarray, " documents"]:
    """The score of each document of a block, in bits a token."""
    log_probs, tokens = price_documents(model.language_model, model.speller, model.tokenizer.encode_block(block))
    if other is not None:
        theirs, _ = price_documents(other.language_model, other.speller, other.tokenizer.encode_block(block))
        log_probs = log_probs - theirs
    return -log_probs / tokens / math.log(2)


def scored(
    source: Source, scores: ScoreFile, model: Model, other: Model | None = None, progress: Progress = silent
) -> Iterator[tuple[Block, Float32[ndarray, " documents"]]]:
    """Every block with the scores of its documents, which are also put into the file. Raises TextError."""
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
    """The documents that are kept, and the score up to which they are.

    keep: a share of the documents; below: a score in bits a token. One of both is given. Raises SettingError; TextError
    as the source is read.
    """
    check_limits(keep, below)
    if below is not None:
        return _below(scored(source, scores, model, other, progress), below), below
    for _ in scored(source, scores, model, other, progress):
        pass
    threshold = scores.lowest(max(1, round((keep or 0) * scores.size)))
    return chosen(source, scores, threshold, progress), threshold.value


def check_limits(keep: float | None, below: float | None) -> None:
    """Raises SettingError."""
    if (keep is None) == (below is None):
        raise SettingError("give either keep, a share of the documents, or below, a score in bits a token")
    if keep is not None and not 0 < keep <= 1:
        raise SettingError(f"the share to keep is {keep}; expected more than 0 and at most 1, such as 0.3")
    if below is not None and math.isnan(below):
        raise SettingError("the score to stay below is not a number; expected bits a token, such as 7.5")


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


def _below(blocks: Iterator[tuple[Block, Float32[ndarray, " documents"]]], limit: float) -> Iterator[Block]:
    for block, scores in blocks:
        passes = scores <= limit
        if passes.any():
            yield block.select(passes, block.stops())
