"""The validation text of a network's training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import TextError
from chainrule.protocol import END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.ngram.speller import Speller
    from chainrule.text.corpus.corpus import Source
    from chainrule.text.tokenization.tokenizer import Tokenizer
    from chainrule.training.config import TrainingConfig
    from chainrule.training.job import Validation

_SPELLED_WORDS = 1000  # words, at most, that the cost of spelling unknown ones is estimated from


def split_off_validation(
    tokenizer: Tokenizer,
    stream: Int32[ndarray, " tokens"],
    training: TrainingConfig,
    left_out: Sequence[bytes],
    speller: Callable[[], Speller],
) -> tuple[Int32[ndarray, " tokens"], Validation | None]:
    """Splits off the end of a stream for validation, at the end of a document if possible.

    left_out: words outside the vocabulary, to estimate the spelling of unknown ones. Raises TextError if the part for
    validation would be empty.
    """
    from chainrule.training.job import Validation

    if not training.valid_share:
        return stream, None
    wanted = min(int(training.valid_share * stream.size), training.valid_tokens)
    if not wanted:
        raise TextError(
            f"the last {training.valid_share:g} of {stream.size:,} tokens leaves nothing to validate on; "
            "give a text for it (validation=...), more text, or valid_share=0"
        )
    cut = stream.size - wanted
    ends = np.flatnonzero(stream[cut - 1 : -1] == END)
    cut += int(ends[0]) if ends.size else 0
    kept = stream[cut:].copy()
    unknown = int(np.count_nonzero(kept == UNKNOWN))
    size = len(tokenizer.decode(kept).encode())
    spelling = 0.0
    if unknown and left_out:
        words = list(left_out[:: max(1, len(left_out) // _SPELLED_WORDS)])
        spelling = unknown * _spelling_cost(speller(), words) / len(words)
        size += unknown * (sum(map(len, words)) // len(words) - len("<unk>"))
    return stream[:cut], Validation(stream=kept, bytes=size, spelling=spelling)


def read_validation(
    source: Source,
    tokenizer: Tokenizer,
    training: TrainingConfig,
    speller: Callable[[], Speller],
    progress: Progress,
) -> Validation:
    """Reads the beginning of a source, up to valid_tokens tokens. Raises TextError."""
    from chainrule.training.job import Validation

    parts: list[Int32[ndarray, " tokens"]] = []
    size, spelling, tokens = 0, 0.0, 0
    for block in source.blocks(progress, "reading to validate on"):
        encoded = tokenizer.encode_block(block)
        unknown = np.flatnonzero(encoded.ids == UNKNOWN)
        if unknown.size:
            spelling += _spelling_cost(speller(), [encoded.surface(i) for i in unknown.tolist()])
        parts.append(encoded.ids)
        size += tokenizer.align(encoded).text.size
        tokens += encoded.ids.size
        if tokens >= training.valid_tokens:
            break
    stream = np.concatenate(parts) if parts else np.empty(0, np.int32)
    if stream.size > training.valid_tokens:
        size = round(size * training.valid_tokens / stream.size)
        spelling *= training.valid_tokens / stream.size
        stream = stream[: training.valid_tokens]
    return Validation(stream=stream, bytes=size, spelling=spelling)


def _spelling_cost(speller: Speller, words: list[bytes]) -> float:
    """What the spelling of unknown words costs in nats, less the log of the number of types that <unk> stands for."""
    costs = -np.asarray(speller.log_probs(words), np.float64)
    return float(costs.sum() - len(words) * np.log(max(1, speller.unseen_types)))
