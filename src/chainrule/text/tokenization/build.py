"""Builds a tokenizer from its configuration: learns it from a text or reads a file, and limits its vocabulary."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.files import check_small, read_file
from chainrule.base.options import called_here
from chainrule.base.progress import Progress, silent
from chainrule.base.scratch import parts_released, token_counts
from chainrule.errors import SettingError, TextError, os_errors_as
from chainrule.protocol import UNKNOWN
from chainrule.text.corpus.block import LINE_FEED, byte_array
from chainrule.text.corpus.corpus import Corpus
from chainrule.text.corpus.streams import STANDARD_INPUT
from chainrule.text.tokenization.config import BUILT_IN, LEARNED, OF_WORDS, SUBWORD_VOCABULARY
from chainrule.text.tokenization.splitters import Normaliser, splitter_named
from chainrule.text.tokenization.tokenizer import Tokenizer
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Int32, Int64
    from numpy import ndarray

    from chainrule.text.corpus.corpus import Source
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.splitters import Splitter
    from chainrule.text.tokenization.vocabulary import Markers

_BATCH = 1 << 20  # tokens processed at a time


def prepare_tokenizer(
    config: TokenizerConfig, markers: Markers, source: Source, progress: Progress = silent
) -> Tokenizer:
    """Return the tokenizer of a configuration before `source` is encoded. Learns subwords; words are added in encoding.

    Raises SettingError, EstimationError, TextError.
    """
    normaliser = Normaliser(config.normalise)
    kind = os.fspath(config.kind)
    if kind in LEARNED:
        splitter = _learn_splitter(kind, config.vocabulary_size or SUBWORD_VOCABULARY, normaliser, source, progress)
    else:
        splitter = splitter_of(kind)
    if config.vocabulary is not None:
        listed_tokens(config.vocabulary, normaliser)  # raises errors before the work, not after it
    return Tokenizer(splitter, Vocabulary(splitter.alphabet), markers, normaliser)


def splitter_of(kind: str) -> Splitter:
    """Return a splitter by its name, or from a tokenizer.json by its path. Raises SettingError, ModelFormatError."""
    if kind in LEARNED:
        raise SettingError(
            f"{kind} subwords are learned from a text; name a tokenizer.json, or the folder of a model that has them"
        )
    if kind in BUILT_IN:
        return splitter_named(kind)
    if not os.path.isfile(kind):
        if os.sep in kind or kind.endswith(".json"):
            what = "is no regular file" if os.path.exists(kind) else "there is no such file"
            raise SettingError(f"{kind}: {what}; expected a tokenizer.json or a model folder")
        raise SettingError(
            f"there is no tokenizer called {kind!r}; choose one of {', '.join((*BUILT_IN, *LEARNED))}, or give the "
            f"path of a tokenizer.json or of a model folder{called_here('tokenizer', kind)}"
        )
    from chainrule.text.tokenization.subword import Subword

    with os_errors_as(SettingError, kind, "read"):
        definition = read_file(kind)
    return Subword(definition, kind)


class Tokenized(NamedTuple):
    """A tokenizer, and a text as one stream of ids."""

    tokenizer: Tokenizer
    stream: Int32[ndarray, " T"]
    left_out: Sequence[bytes]  # words of the text that were excluded from the vocabulary
    literal_unknowns: int  # how often the text itself has <unk>


def limit_vocabulary(tokenizer: Tokenizer, stream: Int32[ndarray, " T"], config: TokenizerConfig) -> Tokenized:
    """Limit a tokenizer to the tokens that a configuration keeps, and replace the others in the stream by <unk>.

    The stream is changed in place, since it may be larger than memory.
    """
    if not config.is_limited:
        return Tokenized(tokenizer, stream, (), _literal_unknowns(tokenizer, stream))
    tokens = tokenizer.vocabulary.tokens()
    if config.vocabulary is not None:
        kept = listed_tokens(config.vocabulary, tokenizer.normaliser)
    else:
        counts = token_counts(stream, len(tokens))
        kept = [tokens[token] for token in most_frequent(counts, config.min_count, config.vocabulary_size)]
    return keep_tokens(kept, tokenizer, stream)


def keep_tokens(kept: Sequence[bytes], tokenizer: Tokenizer, stream: Int32[ndarray, " T"]) -> Tokenized:
    """Limit a tokenizer as `limit_vocabulary` does, to the tokens to keep, in this order."""
    tokens, vocabulary, first = tokenizer.vocabulary.tokens(), Vocabulary(kept), len(MARKER_TOKENS)
    numbers = np.arange(len(tokens), dtype=np.int32)  # the new id of each token
    numbers[first:] = vocabulary.encode(byte_array(b" ".join(tokens[first:]) + b"\n")).ids[:-1]
    left_out = [tokens[token] for token in np.flatnonzero(numbers == UNKNOWN).tolist() if token != UNKNOWN]
    literals = _literal_unknowns(tokenizer, stream)
    for part in parts_released(stream, _BATCH):
        part[:] = numbers[part]
    return Tokenized(tokenizer.with_vocabulary(vocabulary), stream, left_out, literals)


def _literal_unknowns(tokenizer: Tokenizer, stream: Int32[ndarray, " T"]) -> int:
    """Return how often a text has the literal <unk>, which alone is unknown to a vocabulary of words that it was added
    to.
    """
    if tokenizer.markers != "keep" or tokenizer.name not in OF_WORDS:
        return 0
    return sum(int(np.count_nonzero(part == UNKNOWN)) for part in parts_released(stream, _BATCH))


def most_frequent(counts: Int64[ndarray, " V"], min_count: int, size: int | None) -> list[int]:
    """Return the ids of the tokens with at least `min_count`, at most `size` with the markers. Ties go to lower ids."""
    frequent = np.flatnonzero(counts >= min_count)
    frequent = frequent[frequent >= len(MARKER_TOKENS)]
    if size is not None:
        by_count = np.argsort(-counts[frequent], kind="stable")
        frequent = np.sort(frequent[by_count[: size - len(MARKER_TOKENS)]])
    return frequent.tolist()


def _learn_splitter(kind: str, size: int, normaliser: Normaliser, source: Source, progress: Progress) -> Splitter:
    from chainrule.text.tokenization.subword_training import train_subword

    for name in filter(_is_read_once, source.sources):
        shown = "standard input, -" if name == STANDARD_INPUT else name
        raise TextError(f"{shown}: can be read only once, but {kind} reads its text twice; give it a file")

    def documents() -> Iterator[list[str]]:
        for block in source.blocks(progress, f"reading for {kind}"):
            text = normaliser(block.text, block.document_end).tobytes()
            yield [document.decode() for document in text.split(bytes([block.document_end]))]

    return train_subword(kind, documents, size, progress)


def _is_read_once(name: str) -> bool:
    """Return whether a source is standard input, or a pipe such as <(zcat corpus.gz)."""
    return name == STANDARD_INPUT or (os.path.exists(name) and not os.path.isfile(name) and not os.path.isdir(name))


def listed_tokens(path: str | os.PathLike[str], normaliser: Normaliser) -> list[bytes]:
    """Return the tokens of a file, one a line, without empty lines, markers and duplicates. Raises TextError."""
    with os_errors_as(TextError, os.fspath(path), "read"):
        if os.path.exists(path) and not os.path.isdir(path):  # else Corpus says what is wrong, or reads a whole folder
            check_small(path)
    tokens: dict[bytes, None] = {}
    for block in Corpus.of(path).blocks():
        text = normaliser(block.text, LINE_FEED).tobytes()
        for i, token in enumerate(text.split(b"\n"), block.first):
            if len(token.split(b" ")) > 1:
                raise TextError(f"{os.fspath(path)}, line {i}: a token has no space in it; expected one token a line")
            tokens[token] = None
    for left_out in (b"", *(marker.encode() for marker in MARKER_TOKENS)):
        tokens.pop(left_out, None)
    if not tokens:
        raise TextError(f"{os.fspath(path)}: there is no token in it; expected one a line")
    return list(tokens)
