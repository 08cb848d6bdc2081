"""The text that a network is validated on while it is trained, and the file that the ids of a long text lie in."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import OutputError, TextError
from chainrule.protocol import END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.ngram.spelling.speller import Speller
    from chainrule.text.corpus import Source
    from chainrule.text.tokenizer import Tokenizer
    from chainrule.training.config import TrainingConfig
    from chainrule.training.validation import Validation

_SPELLED = 1000  # words that the cost of unknown ones is estimated from


@contextmanager
def ids_file(folder: Path | None) -> Iterator[Any]:
    """A file without a name, which is gone when nothing is mapped from it any more. Raises OutputError.

    It lies in the folder, or where this will be: a folder is made only when there is something to keep in it.
    """
    place = None if folder is None else next(each for each in (folder, *folder.parents) if each.exists())
    try:
        file = tempfile.TemporaryFile(dir=place)  # noqa: SIM115
    except OSError as error:
        raise OutputError(f"{place or tempfile.gettempdir()}: cannot be written: {error.strerror}") from error
    with file:
        yield file


def kept_for_validation(
    tokenizer: Tokenizer,
    stream: Int32[ndarray, " tokens"],
    training: TrainingConfig,
    left_out: Sequence[bytes],
    speller: Callable[[], Speller],
) -> tuple[Int32[ndarray, " tokens"], Validation | None]:
    """A stream without its last share, which is cut off after a document if it can be, and that share.

    Raises TextError where nothing would be left of it.
    """
    from chainrule.training.validation import Validation

    if not training.valid_share:
        return stream, None
    wanted = min(int(training.valid_share * stream.size), training.valid_tokens)
    if not wanted:
        raise TextError(
            f"the last {training.valid_share:g} of {stream.size:,} tokens is nothing to validate on; "
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
        words = list(left_out[:: max(1, len(left_out) // _SPELLED)])
        spelling = unknown * _spelled(speller(), words) / len(words)
        size += unknown * (sum(map(len, words)) // len(words) - len("<unk>"))
    return stream[:cut], Validation(stream=kept, bytes=size, spelling=spelling)


def validated_on(
    source: Source,
    tokenizer: Tokenizer,
    training: TrainingConfig,
    speller: Callable[[], Speller],
    progress: Progress,
) -> Validation:
    """The beginning of a source, as far as it is wanted. Raises TextError."""
    from chainrule.training.validation import Validation

    parts: list[Int32[ndarray, " tokens"]] = []
    size, spelling, tokens = 0, 0.0, 0
    for block in source.blocks(progress, "reading to validate on"):
        encoded = tokenizer.encode_block(block)
        places = np.flatnonzero(encoded.ids == UNKNOWN)
        if places.size:
            spelling += _spelled(speller(), [encoded.surface(place) for place in places.tolist()])
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


def _spelled(speller: Speller, words: list[bytes]) -> float:
    """What the spelling of unknown words costs, in nats, when there are so many that might have been meant."""
    costs = -np.asarray(speller.log_probs(words), np.float64)
    return float(costs.sum() - len(words) * np.log(max(1, speller.unseen_types)))
