"""What a training on one stream of text needs besides the text: validation text, speller, initial token vectors.

The speller learns from the rarest words of the training text. Vectors come from our own folders, or from any file of
word vectors that we read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.scratch import token_counts
from chainrule.errors import ModelFormatError, SettingError, TextError
from chainrule.models.families.table import FAMILIES, family_of
from chainrule.models.files.opening import load
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.storage.sources import local_path
from chainrule.text.tokenization.config import OF_WORDS
from chainrule.text.tokenization.splitters import JOINER, SEPARATORS
from chainrule.text.tokenization.vocabulary import Vocabulary
from chainrule.text.tokenization.vocabulary_kernels import FIRST_ORDINARY
from chainrule.text.vector_files import Vectors, read_vectors, words_of_file
from chainrule.training.config import InitialVectors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _typeshed import DataclassInstance
    from jaxtyping import Int32, Int64
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
    *,
    whole_documents: bool = False,
) -> tuple[Int32[ndarray, " tokens"], Validation | None]:
    """Splits off the end of a stream for validation, at the end of a document if possible.

    left_out: words outside the vocabulary, to estimate the spelling of unknown ones. whole_documents: no document is
    cut; the last one is split off where it is longer than wanted. Raises TextError if nothing would be left to train or
    to validate on.
    """
    from chainrule.ngram.speller import LITERAL
    from chainrule.training.job import Validation

    if not training.valid_share:
        return stream, None
    wanted = min(int(training.valid_share * stream.size), training.valid_tokens)
    advice = "give a text for it (validation=...), more text, or valid_share=0"
    if not wanted:
        raise TextError(
            f"the last {training.valid_share:g} of {stream.size:,} tokens leaves nothing to validate on; {advice}"
        )
    cut = stream.size - wanted
    ends = np.flatnonzero(stream[cut - 1 : -1] == END)
    if ends.size:
        cut += int(ends[0])
    elif whole_documents:
        before = np.flatnonzero(stream[: cut - 1] == END)
        if not before.size:
            raise TextError(f"the text is one document, so that nothing is left to validate on; {advice}")
        cut = int(before[-1]) + 1
    kept = stream[cut:].copy()
    unknown = int(np.count_nonzero(kept == UNKNOWN))
    size = len(tokenizer.decode(kept).encode())
    spelling = 0.0
    if unknown and left_out:
        words = list(left_out[:: max(1, len(left_out) // _SPELLED_WORDS)])
        literals = unknown * speller().literal_share  # which the stream does not tell from other unknown words
        spelling = (unknown - literals) * _spelling_cost(speller(), words) / len(words)
        spelling += literals * _spelling_cost(speller(), [LITERAL]) if literals else 0.0
        size += round((unknown - literals) * (sum(map(len, words)) // len(words) - len(LITERAL)))
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


def train_speller(
    tokenizer: Tokenizer,
    stream: Int32[ndarray, " tokens"],
    config: DataclassInstance,
    left_out: Sequence[bytes] = (),
    literals: float = 0,
) -> Speller:
    """Trains a speller on the tokens of a stream, as `speller_of_counts` does on their counts."""
    return speller_of_counts(tokenizer, token_counts(stream, tokenizer.vocabulary_size), config, left_out, literals)


def speller_of_counts(
    tokenizer: Tokenizer,
    counts: Int64[ndarray, " vocab"],
    config: DataclassInstance,
    left_out: Sequence[bytes] = (),
    literals: float = 0,
) -> Speller:
    """Trains a speller on the types that a limited vocabulary left out and, if they are few, on the rarest others.

    literals: how many of the unknown tokens are a literal <unk> of the text.

    The number of unseen types that the speller stands for is none if the tokenizer spells everything. It is one, which
    leaves P(<unk>) unchanged, if the model gives <unk> the mass of all of them, because <unk> occurred in its text or
    its unigrams are not interpolated. Else as `unseen_types` estimates it, since <unk> then has the probability of a
    single type.
    """
    from chainrule.ngram.speller import ENOUGH, Speller, rare_spellings, unseen_types

    literal_share = literals / max(int(counts[UNKNOWN]), 1)
    has_whole_mass = counts[UNKNOWN] > 0 or FAMILIES[family_of(config)].unknown_mass(config)
    counts = counts.astype(np.int64)  # a copy
    counts[[UNKNOWN, BEGIN, END]] = 0
    spellings = left_out[:: max(1, len(left_out) // (2 * ENOUGH))]
    if len(spellings) < ENOUGH:
        spellings = [*spellings, *rare_spellings(tokenizer.vocabulary.tokens(), counts)]
    unseen = 0 if tokenizer.spells_everything else 1 if has_whole_mass else unseen_types(counts)
    return Speller.train(
        spellings, tokenizer.vocabulary, unseen_types=unseen, never=SEPARATORS, literal_share=literal_share
    )


def check_fixed(*sources: str | os.PathLike[str] | None, fixed: bool) -> None:
    """Raises SettingError where vectors are to be kept and none are given."""
    if fixed and all(source is None for source in sources):
        raise SettingError("fixed_vectors is given without vectors; name word vectors, or leave fixed_vectors out")


def initial_vectors(
    source: str | os.PathLike[str] | None, tokens: Sequence[bytes], progress: Progress, *, fixed: bool
) -> InitialVectors | None:
    """The vectors that a vocabulary's tokens are initialised with; None where no source is given.

    fixed: whether they are never updated. Raises TextError, ModelFormatError.
    """
    return None if source is None else InitialVectors(vectors_of_tokens(source, tokens, progress), fixed)


def with_words_of(tokenizer: Tokenizer, source: str | os.PathLike[str], progress: Progress) -> Tokenizer:
    """The tokenizer with all words of some vectors at the end of its vocabulary, unless it cuts words into pieces.

    So words that have a vector are known, whether or not the training text has them. Raises TextError,
    ModelFormatError.
    """
    if tokenizer.name not in OF_WORDS:
        return tokenizer
    name = os.fspath(local_path(source, is_whole=True))
    if _is_text_of_vectors(name):
        words = words_of_file(name, progress)
    else:
        words = [word.encode() for word in _word_vectors(source).words]
    tokens = dict.fromkeys(tokenizer.vocabulary.tokens())
    tokens |= dict.fromkeys(word for word in words if len(word.split()) == 1)
    return tokenizer.with_vocabulary(Vocabulary(list(tokens)[FIRST_ORDINARY:]))


def _is_text_of_vectors(source: str | os.PathLike[str]) -> bool:
    """Return whether a source is a file with a vector a line, which is read line by line."""
    return not Path(source).is_dir() and Path(source).suffix != ".bin"


def _word_vectors(source: str | os.PathLike[str]) -> Any:
    """Return the word vectors of a folder or a binary file. Raises ModelFormatError."""
    vectors = load(source)
    if vectors.family != "vectors":
        raise ModelFormatError(f"{os.fspath(source)}: is a model of family {vectors.family!r}; expected word vectors")
    return vectors


def vectors_of_tokens(source: str | os.PathLike[str], tokens: Sequence[bytes], progress: Progress) -> Vectors:
    """The vectors of tokens by their ids. If the source has n-grams, words that it does not know have vectors, too.

    Raises TextError, ModelFormatError.
    """
    name = os.fspath(local_path(source, is_whole=True))
    if _is_text_of_vectors(name):
        return read_vectors(name, tokens, progress)
    vectors = _word_vectors(source)
    ids, rows = [], []
    for token_id, token in enumerate(tokens[FIRST_ORDINARY:], FIRST_ORDINARY):
        word = token.decode(errors="replace")
        vector = vectors.vector_of(word)
        if vector is None and JOINER in word:
            vector = vectors.vector_of(word.removeprefix(JOINER).removesuffix(JOINER))
        if vector is not None:
            ids.append(token_id)
            rows.append(vector)
    found = np.array(rows, np.float32).reshape(len(rows), vectors.vectors.shape[1])
    return Vectors(name, np.array(ids, np.int64), found)
