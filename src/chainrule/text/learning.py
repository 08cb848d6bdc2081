"""From a configuration to a tokenizer: made, learnt from a text, read from a file, and its vocabulary limited."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import SettingError, TextError
from chainrule.progress import Progress, silent
from chainrule.protocol import END
from chainrule.text.block import LINE_FEED
from chainrule.text.corpus import Corpus
from chainrule.text.normalising import Normaliser
from chainrule.text.splitters import splitter_named
from chainrule.text.streams import STANDARD_INPUT
from chainrule.text.tokenizer import Tokenizer
from chainrule.text.tokenizer_config import BUILT_IN, LEARNT, SUBWORD_VOCABULARY
from chainrule.text.vocabulary import MARKER_TOKENS, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.text.corpus import Source
    from chainrule.text.splitters import Splitter
    from chainrule.text.tokenizer_config import TokenizerConfig
    from chainrule.text.vocabulary import Markers


def prepared(config: TokenizerConfig, markers: Markers, source: Source, progress: Progress = silent) -> Tokenizer:
    """The tokenizer of a configuration, as far as it is known before `source` is encoded; subword pieces are learnt.

    Raises SettingError, EstimationError, TextError.
    """
    normaliser = Normaliser(config.normalise)
    kind = os.fspath(config.kind)
    if kind in LEARNT:
        splitter = _learnt(kind, config.vocabulary_size or SUBWORD_VOCABULARY, normaliser, source, progress)
    else:
        splitter = splitter_of(kind)
    tokens = splitter.alphabet if config.vocabulary is None else _listed(config.vocabulary, normaliser)
    return Tokenizer(splitter, Vocabulary(tokens), markers, normaliser)


def splitter_of(kind: str) -> Splitter:
    """A splitter by its name, or from a tokenizer.json by its path. Raises SettingError, ModelFormatError."""
    if kind in LEARNT:
        raise SettingError(
            f"{kind} pieces are learnt from a text; name their tokenizer.json, or the folder of a model that has them"
        )
    if kind in BUILT_IN:
        return splitter_named(kind)
    if not os.path.isfile(kind):
        if os.sep in kind or kind.endswith(".json"):
            raise SettingError(f"{kind}: there is no such file; expected a tokenizer.json or a model folder")
        raise SettingError(
            f"there is no tokenizer called {kind!r}; choose one of {', '.join((*BUILT_IN, *LEARNT))}, or name the file "
            "of one (tokenizer.json), or a model folder"
        )
    from chainrule.text.subword import Subword

    try:
        with open(kind, "rb") as file:
            return Subword(file.read(), kind)
    except OSError as error:
        raise SettingError(f"{kind}: cannot be read: {error.strerror}") from error


def limited(
    tokenizer: Tokenizer, stream: Int32[ndarray, " tokens"], config: TokenizerConfig
) -> tuple[Tokenizer, Int32[ndarray, " tokens"]]:
    """A tokenizer that knows only the tokens that a configuration keeps, and the stream with <unk> for the others.

    Of tokens as frequent as each other, those that came first are kept.
    """
    if not config.grows or (config.min_count == 1 and config.vocabulary_size is None):
        return tokenizer, stream
    counts = np.bincount(stream, minlength=tokenizer.vocabulary_size)
    kept = np.flatnonzero(counts >= config.min_count)
    kept = kept[kept > END]
    if config.vocabulary_size is not None:
        by_count = np.argsort(-counts[kept], kind="stable")
        kept = np.sort(kept[by_count[: config.vocabulary_size - len(MARKER_TOKENS)]])
    numbers = np.zeros(tokenizer.vocabulary_size, np.int32)  # UNKNOWN
    numbers[: END + 1] = np.arange(END + 1)
    numbers[kept] = np.arange(END + 1, END + 1 + kept.size)
    tokens = tokenizer.vocabulary.tokens()
    vocabulary = Vocabulary(tokens[token] for token in kept.tolist())
    return Tokenizer(tokenizer.splitter, vocabulary, tokenizer.markers, tokenizer.normaliser), numbers[stream]


def _learnt(kind: str, size: int, normaliser: Normaliser, source: Source, progress: Progress) -> Splitter:
    from chainrule.text.subword_training import trained

    if STANDARD_INPUT in source.sources:
        raise TextError(f"standard input, -, can be read only once, but {kind} reads its text twice; give it a file")

    def documents() -> Iterator[list[str]]:
        for block in source.blocks(progress, f"reading for {kind}"):
            text = normaliser(block.text, block.document_end).tobytes()
            yield [document.decode() for document in text.split(bytes([block.document_end]))]

    return trained(kind, documents, size, progress)


def _listed(path: str | os.PathLike[str], normaliser: Normaliser) -> list[bytes]:
    """The tokens of a file, one a line; empty lines, our markers and repetitions do not count. Raises TextError."""
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
