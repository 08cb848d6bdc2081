"""Opens word vectors: model folders, and files of word2vec, GloVe and fastText."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule import __version__
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.api.tokenizers import tokenizer_from
from chainrule.api.vectors.word_vectors import FAMILY, WordVectors
from chainrule.errors import ModelFormatError, TextError
from chainrule.storage.model_folder import VOCABULARY_ARRAYS, open_model, saved_family
from chainrule.text.tokenization.splitters import splitter_named
from chainrule.text.tokenization.tokenizer import Tokenizer
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS, Vocabulary
from chainrule.text.vector_files import read_all_vectors
from chainrule.vectors.fasttext import FastText, Ngrams, is_fasttext, means_of, read_fasttext, units_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy import ndarray


_MOST = 1e15  # of a number of a vector; the squares of such still have a sum


def is_vectors_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a model folder of word vectors. Raises ModelFormatError."""
    return saved_family(Path(path)) == FAMILY


@shows_progress
def load_vectors(path: str | os.PathLike[str], *, progress: ProgressOption = None) -> WordVectors:
    """Opens word vectors: a model folder, which is mapped into memory, or a file of word2vec, GloVe or fastText (.bin).

    Raises ModelFormatError, TextError.

    good:  chainrule.load_vectors("words/").nearest("king")
    """
    if Path(path).is_dir():
        return _load_folder(Path(path))
    if is_fasttext(path):
        return _of_fasttext(read_fasttext(path), os.fspath(path))
    if not Path(path).exists():
        raise TextError(f"{os.fspath(path)}: there is no such file or folder; expected word vectors")
    words, rows = read_all_vectors(os.fspath(path), callback(progress))
    return _of_file(words, {"vectors": rows}, os.fspath(path))


def _load_folder(path: Path) -> WordVectors:
    entry, arrays, _, _ = open_model(path)
    if entry.family != FAMILY:
        raise ModelFormatError(f"{path}: is a model of family {entry.family!r}; expected word vectors")
    try:
        tokenizer = tokenizer_from(entry.tokenizer, arrays, VOCABULARY_ARRAYS, None)
        own = {name: array for name, array in arrays.items() if not name.startswith(VOCABULARY_ARRAYS)}
        lengths = entry.settings.get("ngrams")
        ngrams = Ngrams(*(int(length) for length in lengths)) if lengths else None
        return WordVectors(tokenizer, own, entry.settings, entry.record, ngrams)
    except KeyError as error:
        raise ModelFormatError(f"{path}: the array {error} is missing; the model is incomplete") from error
    except (TypeError, ValueError, ModelFormatError) as error:
        raise ModelFormatError(f"{path}: {error}") from error


def _of_file(
    words: Sequence[bytes],
    arrays: dict[str, ndarray],
    name: str,
    settings: dict[str, Any] | None = None,
    ngrams: Ngrams | None = None,
) -> WordVectors:
    """The vectors of a file, without those of markers and of words that are empty or have white space."""
    markers = {marker.encode() for marker in MARKER_TOKENS}
    kept = [i for i, word in enumerate(words) if word not in markers and len(word.split()) == 1 and b"\0" not in word]
    if not kept:
        raise TextError(f"{name}: has no words; expected word vectors")
    if len(kept) < len(words):
        by_word = "vectors", "counts", "centres", "contexts"
        arrays = {name: array[kept] if name in by_word else array for name, array in arrays.items()}
    try:
        vocabulary = Vocabulary([words[i] for i in kept])
    except ModelFormatError as error:
        raise ModelFormatError(f"{name}: {error}; expected each word once") from error
    tokenizer = Tokenizer(splitter_named("whitespace"), vocabulary)
    record = {"family": FAMILY, "settings": settings or {}, "read_from": name, "chainrule": __version__}
    return WordVectors(tokenizer, arrays, settings or {}, record, ngrams)


def _of_fasttext(model: FastText, name: str) -> WordVectors:
    words = len(model.words)
    arrays: dict[str, ndarray] = {"counts": model.counts, "vectors": model.inputs[:words]}
    if model.outputs.shape == (words, model.inputs.shape[1]):  # those of a supervised model are of labels
        arrays["contexts"] = model.outputs
    settings: dict[str, Any] = {"method": model.method, "loss": model.loss, "window": model.window}
    settings |= {"epochs": model.epochs, "negatives": model.negatives, "sample": model.sample}
    if model.ngrams is not None:
        units = units_of(model.words, model.ngrams)
        rows = np.concatenate([np.arange(words), words + units.seen])[units.rows]
        with np.errstate(all="ignore"):  # of damaged numbers, which are refused below
            arrays["vectors"] = means_of(units, model.inputs, rows)
        arrays |= {"centres": model.inputs[:words], "ngrams": model.inputs[words:], "buckets": model.seen}
        settings["ngrams"] = list(model.ngrams)
    largest = np.abs(arrays["vectors"]).max(axis=1)
    if not (is_sound := largest < _MOST).all():  # NaN, too
        word = model.words[int(np.argmin(is_sound))].decode(errors="replace")
        raise ModelFormatError(f"{name}: the vector of {word!r} has numbers that no training gives; it is damaged")
    return _of_file(model.words, arrays, name, settings, model.ngrams)
