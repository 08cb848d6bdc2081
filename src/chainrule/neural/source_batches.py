"""Sources of a conditional model as one array: tokens with </s> and padding, or vectors, with padding if of regions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.arguments import as_tokens
from chainrule.neural.scoring_batches import padded
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Shaped
    from numpy import ndarray

    from chainrule.neural.config.conditional import ConditionalConfig


class SourceBatch(NamedTuple):
    """Sources in one array, and which positions hold a token or vector, not padding."""

    inputs: Shaped[ndarray, "M S ..."]
    is_token: Bool[ndarray, "M S"]


def batch_sources(
    sources: Sequence[Shaped[ndarray, "*shape"]], config: ConditionalConfig, *, length: int | None = None
) -> SourceBatch:
    """length: to pad to; by default that of the longest source, if of tokens with its </s>."""
    if config.reads_regions:
        lengths = np.array([len(source) for source in sources])
        length = int(lengths.max()) if length is None else length
        rows = np.zeros((len(sources), length, sources[0].shape[1]), np.float32)
        for row, source in zip(rows, sources, strict=True):
            row[: len(source)] = source
        return SourceBatch(rows, np.arange(length) < lengths[:, None])
    if config.reads_vectors:
        return SourceBatch(np.stack(sources), np.ones((len(sources), config.max_source), bool))
    ended = [np.append(as_tokens(source), np.int32(END)) for source in sources]
    lengths = np.array([len(row) for row in ended])
    length = int(lengths.max()) if length is None else length
    return SourceBatch(padded(ended, END, length=length), np.arange(length) < lengths[:, None])


def source_length(source: Shaped[ndarray, "*shape"], config: ConditionalConfig) -> int:
    """The positions of a source that the decoder attends to."""
    if config.reads_regions:
        return len(source)
    return config.max_source if config.reads_vectors else len(source) + 1
