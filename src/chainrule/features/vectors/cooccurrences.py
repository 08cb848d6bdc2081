"""Counts how often words occur near one another in a text; keeps the counts, from which GloVe learns, in a file."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.files import compressing, replace_file
from chainrule.base.options import takes
from chainrule.base.scratch import parts_released, token_counts
from chainrule.errors import OutputError, SettingError
from chainrule.features.vectors.learning.config import CooccurrenceConfig
from chainrule.features.vectors.learning.cooccurrence_kernels import UNIT
from chainrule.features.vectors.learning.cooccurrences import (
    RECORD,
    count_stream,
    read_cooccurrence_file,
    vocabulary_path,
)
from chainrule.features.vectors.options import CooccurrenceOptions
from chainrule.models.files.tokenizers import tokenize_source
from chainrule.models.progress_line import ProgressOption, callback, showing, shows_progress
from chainrule.models.run import ids_file
from chainrule.text.corpus.corpus import source_of
from chainrule.text.tokenization.build import keep_tokens, limit_vocabulary, listed_tokens
from chainrule.text.tokenization.config import LEARNED, as_config
from chainrule.text.tokenization.splitters import JOINER, Normaliser
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS, Vocabulary
from chainrule.text.tokenization.vocabulary_kernels import FIRST_ORDINARY

if TYPE_CHECKING:
    from typing import BinaryIO

    from jaxtyping import Float64, Int32
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.features.vectors.learning.cooccurrences import Cooccurrences
    from chainrule.text.corpus.corpus import Source
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.tokenizer import Tokenizer
    from chainrule.text.tokenization.vocabulary import Markers

_AT_ONCE, _BATCH = 1 << 18, 1 << 20  # pairs; tokens


class CooccurrenceMatrix(NamedTuple):
    """Counted co-occurrences.

    words: by falling frequency; occurrences: how often each occurs, 0 where a file does not say; counted: which words
    occur near which, and how often; record: what was counted, for JSON.
    """

    words: list[str]
    occurrences: list[int]
    counted: Cooccurrences
    record: dict[str, Any]

    @property
    def pairs(self) -> int:
        """The number of pairs of words that occur near each other at all."""
        return int(self.counted.columns.size)

    def matrix(self) -> Float64[ndarray, "words words"]:
        """Return a row a word, a column a context. For small vocabularies."""
        return self.counted.dense()

    @shows_progress
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, progress: ProgressOption = None) -> None:
        """Write lines of word, context and count, with tabs between, compressed as the name says; or, where this ends
        in .bin, as GloVe's cooccur writes them, with its vocabulary in NAME.vocab.txt.

        Raises OutputError.
        """
        target, on_progress = Path(path), callback(progress)
        for path in files_of(target):
            if path.exists() and not overwrite:
                raise OutputError(f"{path}: exists already; use overwrite=True to replace it, or choose another name")
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
        with replace_file(vocabulary_path(target)) as file:
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
        """Return some of the pairs, from a given one on."""
        starts, stop = self.counted.starts, min(start + _AT_ONCE, self.pairs)
        first, last = np.searchsorted(starts, start, "right") - 1, np.searchsorted(starts, stop, "left")
        in_each = np.diff(np.clip(starts[first : last + 1], start, stop))
        part = np.empty(stop - start, RECORD)
        part["word"] = np.repeat(np.arange(first, last, dtype=np.int32), in_each)
        part["context"] = self.counted.columns[start:stop]
        part["count"] = self.counted.sums[start:stop] * (1 / UNIT)
        return part


def files_of(path: Path) -> list[Path]:
    """Return the files that co-occurrences saved under this name consist of."""
    return [path, vocabulary_path(path)] if path.suffix == ".bin" else [path]


@shows_progress
def read_cooccurrences(path: str | os.PathLike[str], *, progress: ProgressOption = None) -> CooccurrenceMatrix:
    """Return co-occurrences from a file of `CooccurrenceMatrix.save`, or of GloVe's cooccur and vocab_count.

    Raises TextError.

    good:  chainrule.train_vectors(chainrule.read_cooccurrences("pairs.bin"), chainrule.VectorsConfig(method="glove"))
    """
    read = read_cooccurrence_file(Path(path), callback(progress))
    words = [word.decode(errors="replace") for word in read.words]
    return CooccurrenceMatrix(
        words, read.occurrences or len(words) * [0], read.counted, {"data": {str(path): read.digest}}
    )


def read_words(
    source: Source, tokenizer: TokenizerConfig, markers: Markers, progress: Progress, file: Any = None
) -> tuple[Tokenizer, Int32[ndarray, " tokens"]]:
    """Encode a text as ids of words without joiners, numbered from the most frequent on.

    Raises TextError, SettingError.
    """
    if os.fspath(tokenizer.kind) in LEARNED:
        raise SettingError(
            f"{tokenizer.kind} splits words into subwords, but vectors are of whole words; choose word or whitespace"
        )
    if tokenizer.vocabulary is not None:
        listed_tokens(tokenizer.vocabulary, Normaliser(tokenizer.normalise))  # raises errors before the work
    every_word = replace(tokenizer, min_count=1, vocabulary_size=None, vocabulary=None)
    learner, stream, *_ = tokenize_source(source, every_word, markers, progress, file=file)
    learner, stream, *_ = limit_vocabulary(_without_joiners(learner, stream), stream, tokenizer)
    tokens = learner.vocabulary.tokens()
    counts = token_counts(stream, len(tokens))
    order = FIRST_ORDINARY + np.argsort(-counts[FIRST_ORDINARY:], kind="stable")
    ordered = keep_tokens([tokens[token] for token in order.tolist()], learner, stream)
    return ordered.tokenizer, ordered.stream


@takes(CooccurrenceOptions)
def count_cooccurrences(options: CooccurrenceOptions) -> CooccurrenceMatrix:
    """Count how often words occur within a window of one another; each line is a document.

    Words that are not in the tokenizer's vocabulary are removed from the text first, as GloVe does. Raises TextError,
    SettingError, OutputError.

    >>> text = Lines(["we like deep nets", "we like nets"])
    >>> config = CooccurrenceConfig(window=1, weighting="flat")
    >>> together = count_cooccurrences(text, config, tokenizer="whitespace")
    >>> together.words
    ['we', 'like', 'nets', 'deep']
    >>> together.matrix().astype(int).tolist()
    [[0, 2, 0, 0], [2, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]]
    """
    source, config = source_of(options.source), options.config or CooccurrenceConfig()
    with showing(options.progress) as progress, ids_file(None) as file:
        learner, stream = read_words(source, as_config(options.tokenizer), options.markers, progress, file)
        tokens = learner.vocabulary.tokens()
        counted = count_stream(stream, len(tokens) - FIRST_ORDINARY, config, progress)
        occurrences = np.bincount(stream, minlength=len(tokens))[FIRST_ORDINARY:].tolist()
    words = [token.decode(errors="replace") for token in tokens[FIRST_ORDINARY:]]
    return CooccurrenceMatrix(words, occurrences, counted, {**source.record, "counting": asdict(config)})


def _without_joiners(tokenizer: Tokenizer, stream: Int32[ndarray, " T"]) -> Tokenizer:
    """Return the tokenizer with tokens as people write them, `,` for `￭,`, `,￭` and `￭,￭`; renumber the stream in
    place.

    For models that learn about words and never write a text: the white space between tokens is lost.
    """
    if tokenizer.name != "word":
        return tokenizer
    tokens, first, joiner = tokenizer.vocabulary.tokens(), len(MARKER_TOKENS), JOINER.encode()
    merged: dict[bytes, int] = {}
    numbers = np.arange(len(tokens), dtype=np.int32)  # the new id of each token
    for i, token in enumerate(tokens[first:], first):
        numbers[i] = merged.setdefault(token.removeprefix(joiner).removesuffix(joiner), first + len(merged))
    for part in parts_released(stream, _BATCH):
        part[:] = numbers[part]
    return tokenizer.with_vocabulary(Vocabulary(list(merged)))
