"""How often words stand near one another, counted on a text: a matrix, or a file of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.api.train_vectors import WORDS, read_words
from chainrule.api.validation_text import ids_file
from chainrule.base.files import compressing, replace_file
from chainrule.errors import OutputError
from chainrule.text.corpus import source_of
from chainrule.text.tokenizer_config import TokenizerConfig, as_config
from chainrule.vectors.cooccurrence_config import CooccurrenceConfig
from chainrule.vectors.cooccurrence_kernels import UNIT
from chainrule.vectors.cooccurrences import Cooccurrences, count_cooccurrences
from chainrule.vectors.pair_kernels import FIRST

if TYPE_CHECKING:
    import os
    from typing import BinaryIO

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.text.corpus import Paths, Source
    from chainrule.text.vocabulary import Markers

_RECORD = np.dtype([("word", "<i4"), ("context", "<i4"), ("count", "<f8")])  # of GloVe's cooccur
_AT_ONCE = 1 << 18  # pairs


class Together(NamedTuple):
    """words: by falling frequency; occurrences: of each; counted: which stands near which, and how often."""

    words: list[str]
    occurrences: list[int]
    counted: Cooccurrences

    @property
    def pairs(self) -> int:
        """That stand together at all."""
        return int(self.counted.columns.size)

    def matrix(self) -> Float64[ndarray, "words words"]:
        """A row a word, a column a context. For small vocabularies."""
        return self.counted.dense()

    @shows_progress
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, progress: ProgressOption = None) -> None:
        """Lines of word, context and count, with tabs between, compressed as the name says; or, where this ends in
        .bin, as GloVe's cooccur writes them, with its vocabulary in NAME.vocab.txt. Raises OutputError.
        """
        target, on_progress = Path(path), callback(progress)
        if target.exists() and not overwrite:
            raise OutputError(f"{target}: exists already; use overwrite=True to replace it, or choose another name")
        if target.suffix != ".bin":
            with replace_file(target) as raw, compressing(raw, target) as file:
                self._write_lines(file, on_progress)
            return
        with replace_file(target) as file:
            for start in range(0, self.pairs, _AT_ONCE):
                part = self._records(start)
                part["word"] += 1
                part["context"] += 1
                file.write(part.data)
                on_progress("writing co-occurrences", start, self.pairs)
        with replace_file(target.with_name(target.stem + ".vocab.txt")) as file:
            for word, count in zip(self.words, self.occurrences, strict=True):
                file.write(f"{word} {count}\n".encode())

    def _write_lines(self, file: BinaryIO, progress: Progress) -> None:
        for start in range(0, self.pairs, _AT_ONCE):
            part = self._records(start)
            lines = (
                f"{self.words[word]}\t{self.words[context]}\t{count:.9g}\n" for word, context, count in part.tolist()
            )
            file.write("".join(lines).encode())
            progress("writing co-occurrences", start, self.pairs)

    def _records(self, start: int) -> ndarray:
        """Some of the pairs, from one on."""
        starts, stop = self.counted.starts, min(start + _AT_ONCE, self.pairs)
        first, last = np.searchsorted(starts, start, "right") - 1, np.searchsorted(starts, stop, "left")
        in_each = np.diff(np.clip(starts[first : last + 1], start, stop))
        part = np.empty(stop - start, _RECORD)
        part["word"] = np.repeat(np.arange(first, last, dtype=np.int32), in_each)
        part["context"] = self.counted.columns[start:stop]
        part["count"] = self.counted.sums[start:stop] * (1 / UNIT)
        return part


@shows_progress
def count_together(
    source: Source | Paths,
    config: CooccurrenceConfig | None = None,
    *,
    tokenizer: TokenizerConfig | str = WORDS,
    markers: Markers = "error",
    progress: ProgressOption = None,
) -> Together:
    """How often words stand within a window of one another, a line a document.

    Words that the tokenizer's vocabulary leaves out are taken out of the text first, as GloVe does. Raises TextError,
    SettingError, OutputError.

    >>> text = Lines(["we like deep nets", "we like nets"])
    >>> config = CooccurrenceConfig(window=1, weighting="flat")
    >>> together = count_together(text, config, tokenizer="whitespace")
    >>> together.words
    ['we', 'like', 'nets', 'deep']
    >>> together.matrix().astype(int).tolist()
    [[0, 2, 0, 0], [2, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]]
    """
    on_progress = callback(progress)
    with ids_file(None) as file:
        learner, stream = read_words(source_of(source), as_config(tokenizer), markers, on_progress, file)
        tokens = learner.vocabulary.tokens()
        counted = count_cooccurrences(stream, len(tokens) - FIRST, config or CooccurrenceConfig(), on_progress)
        occurrences = np.bincount(stream, minlength=len(tokens))[FIRST:].tolist()
    return Together([token.decode(errors="replace") for token in tokens[FIRST:]], occurrences, counted)
