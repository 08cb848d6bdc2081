"""Word vectors as users hold them: neighbours, analogies, the odd one out, how likely contexts are, files."""

from __future__ import annotations

import os
import re
import unicodedata
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule import __version__
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.api.tokenizers import tokenizer_from
from chainrule.base.files import check_new_file
from chainrule.errors import ModelFormatError, OutputError, SettingError, TextError
from chainrule.report.model_card import model_card, model_rows
from chainrule.storage.config_json import TokenizerEntry
from chainrule.storage.model_folder import VOCABULARY_ARRAYS, check_target, open_model, save_model, saved_family
from chainrule.text.block import LINE_FEED, byte_array
from chainrule.text.reading import text_suffix
from chainrule.text.splitters import splitter_named
from chainrule.text.tokenizer import Tokenizer
from chainrule.text.vectors import FileLayout, read_all_vectors, write_vectors
from chainrule.text.vocabulary import MARKER_TOKENS, Vocabulary
from chainrule.text.vocabulary_kernels import FIRST_ORDINARY
from chainrule.vectors.analogies import Rule, answers, best
from chainrule.vectors.fasttext import FastText, is_fasttext, read_fasttext, write_fasttext
from chainrule.vectors.subwords import Ngrams, Units, units_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32
    from numpy import ndarray

FAMILY = "vectors"

_NOT_FINITE = "the vectors hold numbers that are not finite, so the file is damaged; get it again, or train them again"
_LAYOUTS: dict[str, FileLayout] = {".vec": "word2vec", ".txt": "glove", ".bin": "binary"}


class Similar(NamedTuple):
    """A word and how well it fits: a cosine, unless said otherwise."""

    word: str
    score: float


class WordVectors:
    """Words, each with its vector; by falling frequency, where that is known.

    `vectors` is what words are compared by, (words, D). `contexts` is the other matrix: of the words around, where the
    file has it. With n-grams, words that are unknown have vectors, too.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        arrays: dict[str, ndarray],
        settings: dict[str, Any],
        record: dict[str, Any],
        ngrams: Ngrams | None = None,
    ) -> None:
        """arrays: vectors, and perhaps contexts, counts, centres, ngrams, buckets. Raises ModelFormatError."""
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

    def __len__(self) -> int:
        return len(self.vectors)

    def __contains__(self, word: str) -> bool:
        return self.row_of(word) is not None

    def __getitem__(self, word: str) -> Float32[ndarray, " D"]:
        """The vector of a word. Raises SettingError where it has none."""
        return self._known(word)

    @property
    def vectors(self) -> Float32[ndarray, "words D"]:
        return self.arrays["vectors"]

    @cached_property
    def words(self) -> list[str]:
        return [token.decode(errors="replace") for token in self.tokenizer.vocabulary.tokens()[FIRST_ORDINARY:]]

    @cached_property
    def directions(self) -> Float32[ndarray, "words D"]:
        """The vectors with length 1; zeros stay zeros."""
        lengths = np.sqrt(np.einsum("ij,ij->i", self.vectors, self.vectors))
        if not np.isfinite(lengths).all():
            raise ModelFormatError(_NOT_FINITE)
        return self.vectors / np.where(lengths == 0, 1, lengths)[:, None]

    def row_of(self, word: str) -> int | None:
        """Of the word as it is, as the text was normalised, or in lower case; None where it is unknown."""
        normal = self._normalised(word).decode("utf-8", "replace")
        for spelled in (word, normal, word.lower()):
            token = self.tokenizer.vocabulary.id_of(spelled)
            if token >= FIRST_ORDINARY:
                return token - FIRST_ORDINARY
        return None

    def vector_of(self, word: str) -> Float32[ndarray, " D"] | None:
        """None where a word is unknown and has no n-grams either."""
        row = self.row_of(word)
        if row is not None:
            return self.vectors[row]
        if self.ngrams is None:
            return None
        wanted = self.ngrams.of(self._normalised(word))
        buckets = self.arrays["buckets"]
        places = np.searchsorted(buckets, wanted)
        places = places[(places < len(buckets)) & (buckets[np.minimum(places, len(buckets) - 1)] == wanted)]
        return self.arrays["ngrams"][places].sum(axis=0) / np.float32(wanted.size) if places.size else None

    def _normalised(self, word: str) -> bytes:
        """As the text was, in UTF-8."""
        return self.tokenizer.normaliser(byte_array(word.encode("utf-8", "replace")), LINE_FEED).tobytes()

    def nearest(self, word: str, *, top: int = 10, restrict: int | None = None) -> list[Similar]:
        """The words whose vectors have the largest cosine with a word's, best first.

        restrict: to so many of the most frequent. Raises SettingError.
        """
        vector = self._known(word)
        length = float(np.linalg.norm(vector))
        row = self.row_of(word)
        return self._best(self._among(restrict) @ (vector / (length or 1)), top, () if row is None else (row,))

    def analogy(
        self, a: str, b: str, c: str, *, rule: Rule = "add", top: int = 10, restrict: int | None = None
    ) -> list[Similar]:
        """What c is to, as a is to b, best first: a man to a king is a woman to what?

        rule: add, 3CosAdd; multiply, 3CosMul. Raises SettingError.
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
        """The words with the cosine of each with the mean of all directions, the odd one first. Raises SettingError."""
        if len(words) < 3:
            raise SettingError("fewer than three words were given; the odd one out needs two others to compare it with")
        rows = np.array([self._known(word) for word in words])
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / np.where(lengths == 0, 1, lengths)
        middle = rows.mean(axis=0)
        scores = rows @ middle / (np.linalg.norm(middle) or 1)
        order = np.argsort(scores, kind="stable")
        return [Similar(words[i], float(scores[i])) for i in order]

    def context_probabilities(self, word: str) -> Float32[ndarray, " words"]:
        """P(context | word) = exp(w c) / the sum of that over all contexts: a softmax, which sums to one.

        Exact for the loss softmax; for negative sampling it is no more than proportional to what was learned, times how
        frequent a context is. Raises SettingError where the contexts' vectors are not known.
        """
        contexts = self.arrays.get("contexts")
        if contexts is None or len(contexts) != len(self) or self.settings.get("method") != "skipgram":
            raise SettingError("there are no vectors of contexts: they come with skip-gram, and other files lack them")
        logits = contexts @ self._known(word)
        likely = np.exp(logits - logits.max())
        return likely / likely.sum()

    def likeliest_contexts(self, word: str, *, top: int = 10) -> list[Similar]:
        """With P(context | word) as the score. Raises SettingError."""
        return self._best(self.context_probabilities(word), top, ())

    @shows_progress
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, progress: ProgressOption = None) -> None:
        """To a model folder; or by the name: .vec, word2vec's text; .txt, GloVe's; .bin, fastText's where there are
        n-grams, else word2vec's binary. The texts may be compressed. Raises OutputError.

        good:  chainrule.load_vectors("words/").save("words.vec.gz")
        """
        target, on_progress = Path(path), callback(progress)
        suffix = suffix_of(target)
        if suffix is None:
            self._save_folder(target, overwrite=overwrite)
            return
        check_new_file(target, overwrite=overwrite)
        words = self.tokenizer.vocabulary.tokens()[FIRST_ORDINARY:]
        if suffix == ".bin" and self.ngrams is not None:
            write_fasttext(target, self._as_fasttext(words), on_progress)
        else:
            write_vectors(target, words, self.vectors, on_progress, layout=_LAYOUTS[suffix])

    def rows(self) -> list[tuple[str, str]]:
        """For people: names and values, as the model card has them."""
        size = sum(array.nbytes for array in self.arrays.values())
        return model_rows(FAMILY, self.tokenizer.name, len(self.tokenizer.vocabulary), self.record, size=size)

    def _save_folder(self, target: Path, *, overwrite: bool) -> None:
        arrays = {name: np.ascontiguousarray(array) for name, array in self.arrays.items()}
        arrays |= {VOCABULARY_ARRAYS + name: array for name, array in self.tokenizer.vocabulary.arrays().items()}
        save_model(
            target,
            family=FAMILY,
            settings=self.settings,
            tokenizer=TokenizerEntry(
                kind=self.tokenizer.name,
                markers=self.tokenizer.markers,
                normalise=self.tokenizer.normaliser.steps,
                unicode=unicodedata.unidata_version,
            ),
            arrays=arrays,
            record=self.record,
            card=model_card(self.rows()),
            overwrite=overwrite,
        )

    def _as_fasttext(self, words: list[bytes]) -> FastText:
        buckets = self.arrays["buckets"]
        contexts = self.arrays.get("contexts", np.zeros_like(self.vectors))
        said = {}
        for name in ("window", "epochs", "negatives"):
            value = self.settings.get(name)
            if type(value) is int and 0 < value < 1 << 31:
                said[name] = value
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
            **said,
        )

    def _known(self, word: str) -> Float32[ndarray, " D"]:
        vector = self.vector_of(word)
        if vector is None:
            raise SettingError(self._unknown(word))
        if not np.isfinite(vector).all():
            raise ModelFormatError(_NOT_FINITE)
        return vector

    def _unknown(self, word: str) -> str:
        return f"{word!r} has no vector: it is not among the {len(self):,} words, and none of its n-grams has a vector"

    def _among(self, restrict: int | None) -> Float32[ndarray, "words D"]:
        if restrict is not None and restrict < 1:
            raise SettingError(f"restrict is {restrict}; expected 1 or more")
        return self.directions[:restrict]

    def _best(self, scores: Float32[ndarray, " words"], top: int, without: Sequence[int]) -> list[Similar]:
        _check_top(top)
        places, found = best(scores[None], top + len(without))
        pairs = zip(places[0].tolist(), found[0].tolist(), strict=True)
        return [Similar(self.words[place], score) for place, score in pairs if place not in without][:top]


def _check_ngrams(ngrams: Ngrams, buckets: ndarray, rows: int) -> None:
    """Raises ModelFormatError."""
    if len(buckets) != rows or buckets.dtype != np.int64 or not ngrams.is_sound:
        raise ModelFormatError(f"the n-grams {tuple(ngrams)} have {len(buckets)} buckets and {rows} vectors; damaged")
    if buckets.size and (buckets[0] < 0 or buckets[-1] >= ngrams.buckets or (np.diff(buckets) <= 0).any()):
        raise ModelFormatError("the buckets of the n-grams do not rise from 0 to their number; the file is damaged")


def _check_top(top: int) -> None:
    if top < 1:
        raise SettingError(f"top is {top}; expected 1 or more")


def suffix_of(path: Path) -> str | None:
    """How the name of a file of vectors says that it is written; None for a folder."""
    suffix = text_suffix(path.name)
    return suffix if suffix in _LAYOUTS else None


def check_vectors_target(target: Path, *, overwrite: bool) -> None:
    """Checks, before the work, that vectors may be saved under this name. Raises OutputError."""
    if suffix_of(target) is not None:
        check_new_file(target, overwrite=overwrite)
        return
    if re.search(r"\.(arpa|[a-z]{2,4}|gguf)(\.(gz|zst|xz|bz2))?$", target.name) and not target.is_dir():
        raise OutputError(
            f"{target}: its ending is of no format for word vectors; name a .vec, .txt or .bin file, or a folder"
        )
    check_target(target, overwrite=overwrite)


def is_vectors_folder(path: str | os.PathLike[str]) -> bool:
    """Whether there is a model folder whose model is word vectors. Raises ModelFormatError."""
    return saved_family(Path(path)) == FAMILY


@shows_progress
def load_vectors(path: str | os.PathLike[str], *, progress: ProgressOption = None) -> WordVectors:
    """Opens word vectors: a model folder, which is mapped; a file of word2vec, text or binary; of GloVe; or a .bin of
    fastText. Raises ModelFormatError, TextError.

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
        ngrams = Ngrams(*(int(number) for number in lengths)) if lengths else None
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
    """Words with white space, our markers and empty ones are left out, since no text has them as tokens."""
    markers = {marker.encode() for marker in MARKER_TOKENS}
    kept = [i for i, word in enumerate(words) if word not in markers and len(word.split()) == 1 and b"\0" not in word]
    if not kept:
        raise TextError(f"{name}: there is no word in it; expected word vectors")
    if len(kept) < len(words):
        own = "vectors", "counts", "centres", "contexts"
        arrays = {each: array[kept] if each in own else array for each, array in arrays.items()}
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
    if model.outputs.shape == (words, model.inputs.shape[1]):  # a supervised model's are of labels
        arrays["contexts"] = model.outputs
    settings: dict[str, Any] = {"method": model.method, "loss": model.loss, "window": model.window}
    settings |= {"epochs": model.epochs, "negatives": model.negatives, "sample": model.sample}
    if model.ngrams is not None:
        units = units_of(model.words, model.ngrams)
        rows = np.concatenate([np.arange(words), words + units.seen])[units.rows]
        arrays["vectors"] = means_of(units, model.inputs, rows)
        arrays |= {"centres": model.inputs[:words], "ngrams": model.inputs[words:], "buckets": model.seen}
        settings["ngrams"] = list(model.ngrams)
    return _of_file(model.words, arrays, name, settings, model.ngrams)


def means_of(
    units: Units, inputs: Float32[ndarray, "rows D"], rows: ndarray | None = None
) -> Float32[ndarray, "words D"]:
    """The vector of each word: the mean of its units'. rows: of the inputs, the row of each unit."""
    rows = units.rows if rows is None else rows
    means = np.empty((units.starts.size - 1, inputs.shape[1]), np.float32)
    for start in range(0, len(means), 1 << 12):
        edges = units.starts[start : start + (1 << 12) + 1]
        summed = np.add.reduceat(inputs[rows[edges[0] : edges[-1]]], edges[:-1] - edges[0])
        means[start : start + len(summed)] = summed / np.diff(edges)[:, None].astype(np.float32)
    return means
