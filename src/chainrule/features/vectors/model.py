"""WordVectors: neighbours, analogies, odd one out, likely contexts, saving; and opening folders and files of vectors.

Opens our model folders, and files of word2vec, GloVe and fastText.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from chainrule import __version__
from chainrule.base.arguments import as_path, check_least, check_type
from chainrule.base.files import FolderPath, check_new_file, open_regular
from chainrule.base.tables import count_of
from chainrule.errors import ModelFormatError, OutputError, SettingError, TextError, opening_folder
from chainrule.features.vectors.learning.fasttext import (
    FastText,
    Ngrams,
    is_fasttext,
    means_of,
    read_fasttext,
    units_of,
    write_fasttext,
)
from chainrule.features.vectors.learning.intrinsic import Rule, answers, best
from chainrule.features.vectors.writing import FileLayout, write_vectors
from chainrule.models.any_model import AnyModel
from chainrule.models.files.model_card import model_card
from chainrule.models.files.opening import load
from chainrule.models.files.tokenizers import tokenizer_entry, tokenizer_from
from chainrule.models.model_info import info_of_network
from chainrule.models.progress_line import ProgressOption, callback, shows_progress
from chainrule.storage.model_folder import VOCABULARY_ARRAYS, check_target, open_model, save_model
from chainrule.storage.sources import local_path
from chainrule.text.corpus.block import LINE_FEED, byte_array
from chainrule.text.corpus.reading import text_suffix
from chainrule.text.lookup import looked_up
from chainrule.text.tokenization.splitters import splitter_named
from chainrule.text.tokenization.tokenizer import Tokenizer
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS, Vocabulary
from chainrule.text.tokenization.vocabulary_kernels import FIRST_ORDINARY
from chainrule.text.vector_files import read_all_vectors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.models.model_info import ModelInfo
    from chainrule.models.open_options import OpenOptions

FAMILY = "vectors"

_NOT_FINITE = "some numbers of the vectors are not finite; the file is damaged: get it again, or train again"
_LAYOUTS: dict[str, FileLayout] = {".vec": "word2vec", ".txt": "glove", ".bin": "binary"}


class Similar(NamedTuple):
    """A word with its score, which is a cosine unless a method says otherwise."""

    word: str
    score: float


class WordVectors(AnyModel):
    """Words and their vectors, the most frequent first if frequencies are known.

    `vectors` are compared with each other, (words, D). The array `contexts`, if there is one, holds the vectors of
    words as contexts. With n-grams, unknown words have vectors, too.
    """

    family = FAMILY
    capability: ClassVar[str] = "compares words: nearest, analogy, odd, map and evaluate take it"

    def __init__(
        self,
        tokenizer: Tokenizer,
        arrays: dict[str, ndarray],
        settings: dict[str, Any],
        record: dict[str, Any],
        ngrams: Ngrams | None = None,
    ) -> None:
        """Check the arrays, and store them.

        arrays: by name: vectors, and perhaps contexts, counts, centres, ngrams, buckets. Raises ModelFormatError.
        """
        words = len(tokenizer.vocabulary) - FIRST_ORDINARY
        vectors = arrays["vectors"]
        for name, array in arrays.items():
            if name in ("vectors", "counts", "centres") and len(array) != words:
                raise ModelFormatError(f"the array {name!r} has {len(array):,} rows, expected {words:,}, one a word")
            if name not in ("counts", "buckets", "word_biases", "context_biases") and (
                array.ndim != 2 or array.shape[1] != vectors.shape[1]
            ):
                raise ModelFormatError(f"the array {name!r} is {array.shape}, expected rows of {vectors.shape[1]}")
        if ngrams is not None:
            _check_ngrams(ngrams, arrays["buckets"], len(arrays["ngrams"]))
        self.tokenizer, self.arrays, self.settings, self.record, self.ngrams = (
            tokenizer,
            arrays,
            settings,
            record,
            ngrams,
        )

    @classmethod
    def open(cls, path: Path, options: OpenOptions, progress: Progress) -> Self:
        """Implement `AnyModel.open`; the folder is mapped into memory."""
        entry, arrays, _, _ = open_model(path)
        with opening_folder(path, TypeError, ValueError):
            tokenizer = tokenizer_from(entry.tokenizer, arrays, VOCABULARY_ARRAYS, None)
            own = {name: array for name, array in arrays.items() if not name.startswith(VOCABULARY_ARRAYS)}
            lengths = entry.settings.get("ngrams")
            ngrams = Ngrams(*(int(length) for length in lengths)) if lengths else None
            return cls(tokenizer, own, entry.settings, entry.record, ngrams)

    def info(self, *, size: int | None = None) -> ModelInfo:
        """Implement `AnyModel.info`; vectors have no signature. size: always that of the arrays."""
        parameters = sum(array.size for name, array in self.arrays.items() if name not in ("counts", "buckets"))
        record = {**self.record, "parameters": parameters}
        size = sum(array.nbytes for array in self.arrays.values())
        known = info_of_network(FAMILY, self.tokenizer.name, len(self.tokenizer.vocabulary), record, size=size)
        return replace(known, record=self.record)

    def __len__(self) -> int:
        return len(self.vectors)

    def __contains__(self, word: str) -> bool:
        return self.row_of(word) is not None

    def __getitem__(self, word: str) -> Float32[ndarray, " D"]:
        """Return the vector of a word. Raises SettingError if it has none."""
        return self._known(word)

    @property
    def vectors(self) -> Float32[ndarray, "words D"]:
        return self.arrays["vectors"]

    @cached_property
    def words(self) -> list[str]:
        return [token.decode(errors="replace") for token in self.tokenizer.vocabulary.tokens()[FIRST_ORDINARY:]]

    @cached_property
    def directions(self) -> Float32[ndarray, "words D"]:
        """The vectors scaled to length 1; zero vectors stay zero."""
        lengths = np.sqrt(np.einsum("ij,ij->i", self.vectors, self.vectors))
        if not np.isfinite(lengths).all():
            raise ModelFormatError(_NOT_FINITE)
        return self.vectors / np.where(lengths == 0, 1, lengths)[:, None]

    def row_of(self, word: str) -> int | None:
        """Return the row of a word as written, normalised as the text was, or in lower case; None if it is unknown."""
        normal = self._normalised(word).decode("utf-8", "replace")
        form = looked_up(word)
        for spelled in (word, normal, word.lower(), form, form.lower()):
            token = self.tokenizer.vocabulary.id_of(spelled)
            if token >= FIRST_ORDINARY:
                return token - FIRST_ORDINARY
        return self._other_forms.get(form, self._other_forms.get(form.lower()))

    @cached_property
    def _other_forms(self) -> dict[str, int]:
        """The rows of words that are written in another form than the one in which they are looked up, by that one."""
        forms = ((looked_up(word), row) for row, word in reversed(list(enumerate(self.words))) if not word.isascii())
        return {form: row for form, row in forms if form != self.words[row]}

    def vector_of(self, word: str) -> Float32[ndarray, " D"] | None:
        """Return the vector of a word, if need be from its n-grams; None if it has none."""
        row = self.row_of(word)
        if row is not None:
            return self.vectors[row]
        if self.ngrams is None:
            return None
        wanted = self.ngrams.of(self._normalised(word))
        buckets = self.arrays["buckets"]
        rows = np.searchsorted(buckets, wanted)
        rows = rows[(rows < len(buckets)) & (buckets[np.minimum(rows, len(buckets) - 1)] == wanted)]
        return self.arrays["ngrams"][rows].sum(axis=0) / np.float32(wanted.size) if rows.size else None

    def _normalised(self, word: str) -> bytes:
        """Return a word in UTF-8, normalised as the training text was. Raises TypeError."""
        check_type("word", word, str)
        return self.tokenizer.normaliser(byte_array(word.encode("utf-8", "replace")), LINE_FEED).tobytes()

    def nearest(self, word: str, *, top: int = 10, restrict: int | None = None) -> list[Similar]:
        """Return the words whose vectors have the largest cosine with a word's, best first.

        restrict: consider only this many of the most frequent words. Raises SettingError.
        """
        vector = self._known(word)
        length = float(np.linalg.norm(vector))
        row = self.row_of(word)
        return self._best(self._among(restrict) @ (vector / (length or 1)), top, () if row is None else (row,))

    def analogy(
        self, a: str, b: str, c: str, *, rule: Rule = "add", top: int = 10, restrict: int | None = None
    ) -> list[Similar]:
        """Return the words d for which a is to b as c is to d, best first: man is to king as woman is to what?

        rule: add, 3CosAdd; multiply, 3CosMul. restrict: as in `nearest`. Raises SettingError.
        """
        rows = [self.row_of(word) for word in (a, b, c)]
        for word, row in zip((a, b, c), rows, strict=True):
            if row is None:
                raise SettingError(self._unknown(word))
        _check_top(top)
        among = len(self._among(restrict))
        within = self._among(max(among, *(row + 1 for row in rows if row is not None)))  # the question's words, too
        rows_of, scores = answers(within, np.array([rows]), rule, top if len(within) == among else len(within))
        pairs = zip(rows_of[0].tolist(), scores[0].tolist(), strict=True)
        return [Similar(self.words[row], score) for row, score in pairs if row < among and score > -np.inf][:top]

    def odd(self, words: Sequence[str]) -> list[Similar]:
        """Return the words with their cosines to the mean of all directions, the odd one first. Raises SettingError."""
        if len(words) < 3:
            raise SettingError(f"the words are {', '.join(words) or 'missing'}; expected three or more")
        rows = np.array([self._known(word) for word in words])
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / np.where(lengths == 0, 1, lengths)
        middle = rows.mean(axis=0)
        scores = rows @ middle / (np.linalg.norm(middle) or 1)
        order = np.argsort(scores, kind="stable")
        return [Similar(words[i], float(scores[i])) for i in order]

    def context_probabilities(self, word: str) -> Float32[ndarray, " words"]:
        """Return P(context | word) = exp(w · c) / Σ exp(w · c'), the sum over all contexts c'.

        Exact if trained with the loss softmax. With negative sampling, w · c is near log P(c | w) / P(c) (Levy and
        Goldberg 2014), so frequent contexts get too little. Raises SettingError if there are no vectors of contexts.
        """
        contexts = self.arrays.get("contexts")
        if contexts is None or len(contexts) != len(self) or self.settings.get("method") != "skipgram":
            raise SettingError(
                "there are no vectors of contexts; expected vectors trained with skip-gram, in a model folder"
            )
        logits = contexts @ self._known(word)
        likely = np.exp(logits - logits.max())
        return likely / likely.sum()

    def likeliest_contexts(self, word: str, *, top: int = 10) -> list[Similar]:
        """Return the likeliest contexts of a word, scored by P(context | word). Raises SettingError."""
        return self._best(self.context_probabilities(word), top, ())

    @shows_progress
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, progress: ProgressOption = None) -> None:
        """Write a model folder or, by the ending of the name, a file: .vec, word2vec's text; .txt, GloVe's; .bin,
        fastText's if there are n-grams, else word2vec's binary.

        Texts may be compressed: .vec.gz. Raises OutputError.

        good:  chainrule.load_vectors("words/").save("words.vec.gz")
        """
        target, on_progress = as_path(path), callback(progress)
        suffix = suffix_of(target)
        check_vectors_target(target, overwrite=overwrite)
        if suffix is None or target.is_dir():
            self._save_folder(target, overwrite=overwrite)
            return
        check_new_file(target, overwrite=overwrite)
        words = self.tokenizer.vocabulary.tokens()[FIRST_ORDINARY:]
        if suffix == ".bin" and self.ngrams is not None:
            write_fasttext(target, self._as_fasttext(words), on_progress)
        else:
            write_vectors(target, words, self.vectors, on_progress, layout=_LAYOUTS[suffix])

    def _save_folder(self, target: Path, *, overwrite: bool) -> None:
        arrays = {name: np.ascontiguousarray(array) for name, array in self.arrays.items()}
        arrays |= {VOCABULARY_ARRAYS + name: array for name, array in self.tokenizer.vocabulary.arrays().items()}
        save_model(
            target,
            family=FAMILY,
            settings=self.settings,
            tokenizer=tokenizer_entry(self.tokenizer),
            arrays=arrays,
            record=self.record,
            card=model_card(self.info().rows()),
            overwrite=overwrite,
        )

    def _as_fasttext(self, words: list[bytes]) -> FastText:
        buckets = self.arrays["buckets"]
        contexts = self.arrays.get("contexts", np.zeros_like(self.vectors))
        settings = {}
        for name in ("window", "epochs", "negatives"):
            value = self.settings.get(name)
            if type(value) is int and 0 < value < 1 << 31:
                settings[name] = value
        sample = self.settings.get("sample")
        return FastText(
            words=words,
            counts=self.arrays.get("counts", np.ones(len(words), np.int64)),
            ngrams=self.ngrams,
            seen=buckets,
            inputs=np.concatenate([self.arrays["centres"], self.arrays["ngrams"]]),
            outputs=contexts,
            method=str(self.settings.get("method", "skipgram")),
            loss=str(self.settings.get("loss", "negative")),
            sample=float(sample) if isinstance(sample, int | float) else 0.0,
            **settings,
        )

    def _known(self, word: str) -> Float32[ndarray, " D"]:
        vector = self.vector_of(word)
        if vector is None:
            raise SettingError(self._unknown(word))
        if not np.isfinite(vector).all():
            raise ModelFormatError(_NOT_FINITE)
        return vector

    def _unknown(self, word: str) -> str:
        n_grams = "" if self.ngrams is None else ", and none of its n-grams has a vector"
        return f"{word!r} has no vector: it is not one of the {len(self):,} words{n_grams}"

    def _among(self, restrict: int | None) -> Float32[ndarray, "words D"]:
        if restrict is not None:
            check_least("restrict", restrict, 1)
        return self.directions[:restrict]

    def _best(self, scores: Float32[ndarray, " words"], top: int, without: Sequence[int]) -> list[Similar]:
        _check_top(top)
        rows, best_scores = best(scores[None], top + len(without))
        pairs = zip(rows[0].tolist(), best_scores[0].tolist(), strict=True)
        return [Similar(self.words[row], score) for row, score in pairs if row not in without][:top]


def _check_ngrams(ngrams: Ngrams, buckets: ndarray, rows: int) -> None:
    """Raise ModelFormatError if n-grams do not fit their buckets."""
    if len(buckets) != rows or buckets.dtype != np.int64 or not ngrams.is_sound:
        raise ModelFormatError(
            f"the n-grams {tuple(ngrams)} have {len(buckets)} buckets, but {rows} vectors; the file is damaged"
        )
    if buckets.size and (buckets[0] < 0 or buckets[-1] >= ngrams.buckets or (np.diff(buckets) <= 0).any()):
        raise ModelFormatError("the buckets of the n-grams are not in rising order from 0; the file is damaged")


def _check_top(top: int) -> None:
    check_least("top", top, 1)


def suffix_of(path: Path) -> str | None:
    """Return the ending of a name that says the format of a file of vectors; None for a folder."""
    if isinstance(path, FolderPath):
        return None
    suffix = text_suffix(path.name)
    return suffix if suffix in _LAYOUTS else None


def check_vectors_target(target: Path, *, overwrite: bool) -> None:
    """Check that vectors may be saved under this name, before the work is done. Raises OutputError."""
    if suffix_of(target) is not None:
        check_new_file(target, overwrite=overwrite)
        return
    if re.search(r"\.(arpa|[a-z]{2,4}|gguf)(\.(gz|zst|xz|bz2))?$", target.name) and not (
        target.is_dir() or isinstance(target, FolderPath)
    ):
        raise OutputError(
            f"{target}: its ending names no format of word vectors; expected .vec, .txt or .bin, or a folder"
        )
    check_target(target, overwrite=overwrite)


_LONGEST_LINE = 1 << 16  # bytes, of the first line of a file
_NUMBER = re.compile(rb"-?\d+(\.\d*)?(e[+-]?\d+)?", re.IGNORECASE)
_MOST = 1e15  # of a number of a vector; the squares of such still have a sum


def is_vectors_file(path: Path) -> bool:
    """Return whether a file has word vectors, by its name or its first line."""
    if not path.is_file() or suffix_of(path) is None:
        return False
    if path.name.endswith((".vec", ".vec.gz")) or is_fasttext(path):
        return True
    with open_regular(path) as file:
        fields = file.readline(_LONGEST_LINE).split()
    if len(fields) == 2:  # the numbers of words and of dimensions
        return all(field.isdigit() for field in fields)
    return path.suffix == ".txt" and len(fields) > 2 and all(_NUMBER.fullmatch(field) for field in fields[1:])


def class_of_file(path: Path) -> type[WordVectors]:
    """Return the class that a file of word vectors opens as."""
    return WordVectors


def open_vectors_file(path: Path, options: OpenOptions, progress: Progress) -> WordVectors:
    """Open a file of word vectors. Raises ModelFormatError, TextError."""
    return load_vectors(path, progress=progress)


@shows_progress
def load_vectors(path: str | os.PathLike[str], *, progress: ProgressOption = None) -> WordVectors:
    """Open word vectors: a model folder, which is mapped into memory, or a file of word2vec, GloVe or fastText (.bin).

    Raises ModelFormatError, TextError.

    good:  chainrule.load_vectors("words/").nearest("king")
    """
    path = local_path(path, is_whole=True, progress=progress)
    if path.is_dir():
        return load(path, WordVectors)
    if is_fasttext(path):
        return _of_fasttext(read_fasttext(path), os.fspath(path))
    if not Path(path).exists():
        raise TextError(f"{os.fspath(path)}: there is no such file or folder; expected word vectors")
    found = read_all_vectors(os.fspath(path), callback(progress))
    return _of_file(found.words, {"vectors": found.rows}, os.fspath(path), repeated=found.repeated)


def _of_file(
    words: Sequence[bytes],
    arrays: dict[str, ndarray],
    name: str,
    settings: dict[str, Any] | None = None,
    ngrams: Ngrams | None = None,
    repeated: Sequence[bytes] = (),
) -> WordVectors:
    """Return the vectors of a file, without those of markers and of words that are empty or have white space.

    repeated: the words of rows that were left out. The record has warnings about them, words with white space, and
    words that are not UTF-8.
    """
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
    spaced = [word for word in words if len(word.split()) > 1 or b"\0" in word]
    odd = [words[i] for i in kept if not _is_utf_8(words[i])]
    warnings = [
        f"{name}: {what.format(count_of(len(some), noun), repr(some[0].decode(errors='replace')))}"
        for some, noun, what in (
            (repeated, "row", "left out {} of repeated words, such as {}; the first row of each is kept"),
            (spaced, "word", "left out {} with white space or a zero byte inside, such as {}"),
            (odd, "word", "{} not in UTF-8, such as {}; wrong bytes are shown as U+FFFD"),
        )
        if some
    ]
    if warnings:
        record["warnings"] = warnings
    return WordVectors(tokenizer, arrays, settings or {}, record, ngrams)


def _is_utf_8(word: bytes) -> bool:
    try:
        word.decode()
    except UnicodeDecodeError:
        return False
    return True


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
