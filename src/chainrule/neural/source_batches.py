"""Sources of a conditional model as one array: tokens with </s> and padding, or vectors, of which all have as many."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.token_checks import as_tokens
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
    """length: to pad tokens to; by default that of the longest source with its </s>."""
    if config.reads_vectors:
        return SourceBatch(np.stack(sources), np.ones((len(sources), config.max_source), bool))
    rows = [np.append(as_tokens(source), np.int32(END)) for source in sources]
    lengths = np.array([len(row) for row in rows])
    length = int(lengths.max()) if length is None else length
    return SourceBatch(padded(rows, END, length=length), np.arange(length) < lengths[:, None])


def source_length(source: Shaped[ndarray, "*shape"], config: ConditionalConfig) -> int:
    """The positions of a source that the decoder attends to."""
    return config.max_source if config.reads_vectors else len(source) + 1
