"""A drop-in replacement for the `kenlm` module, over model folders, ARPA files and KenLM's binaries.

    import chainrule.kenlm
    chainrule.kenlm.install()
    import kenlm                                  # imports this module, also inside other libraries
    kenlm.Model("lm/").score("a sentence")        # log10

Log-probabilities are log10, as in KenLM. Unlike KenLM, nothing is printed to standard error.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.threads import map_in_order
from chainrule.errors import ChainruleError, ModelFormatError
from chainrule.features.kenlm.files.binary_kernels import STATE_SIZE
from chainrule.features.kenlm.files.methods import compile_methods
from chainrule.features.kenlm.files.word_queries import Record, queries
from chainrule.features.kenlm.files.word_query_kernels import score_words
from chainrule.protocol import BEGIN, END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.protocol import LanguageModel as Engine
    from chainrule.protocol import Scorer
    from chainrule.text.tokenization.vocabulary import Vocabulary

__all__ = ["ARPALoadComplain", "Config", "FullScoreReturn", "LanguageModel", "LoadMethod", "Model", "State", "install"]

_CACHED_WORDS = 1 << 20  # words whose ids are cached
_BATCH = 1 << 10  # sentences that a thread scores at once
_LOG10_OF_E = float(np.log10(np.e))


def install() -> None:
    """Make `import kenlm` import this module, everywhere in this process."""
    sys.modules["kenlm"] = sys.modules[__name__]


class FullScoreReturn(NamedTuple):
    """The score of a word: log10 P, the length of the matching n-gram, and whether the word is out of vocabulary."""

    log_prob: float
    ngram_length: int
    oov: bool

    def __repr__(self) -> str:
        return f"FullScoreReturn({self.log_prob!r}, {self.ngram_length!r}, {self.oov!r})"


_full_score: Callable[[tuple[float, int, bool]], FullScoreReturn] = partial(tuple.__new__, FullScoreReturn)


class State(ctypes.c_int64 * STATE_SIZE):  # type: ignore[misc]  # queries need memory with an address
    """The context that a model remembers. A new state is the empty context.

    Equal states give the same probabilities to all following words.
    """

    def _numbers(self) -> tuple[int, ...]:
        return tuple(self[: 1 + min(max(self[0], 0), STATE_SIZE - 1)])

    def __eq__(self, other: object) -> bool:
        return self._numbers() == other._numbers() if isinstance(other, State) else NotImplemented

    def __lt__(self, other: State) -> bool:
        return self._numbers() < other._numbers() if isinstance(other, State) else NotImplemented

    def __le__(self, other: State) -> bool:
        return self._numbers() <= other._numbers() if isinstance(other, State) else NotImplemented

    def __gt__(self, other: State) -> bool:
        return self._numbers() > other._numbers() if isinstance(other, State) else NotImplemented

    def __ge__(self, other: State) -> bool:
        return self._numbers() >= other._numbers() if isinstance(other, State) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._numbers())

    def __copy__(self) -> State:
        return type(self).from_buffer_copy(self)

    def __deepcopy__(self, memo: object = None) -> State:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_buffer_copy, (bytes(self),)

    def __repr__(self) -> str:
        return f"<State of {len(self._numbers()) - 1} words>"


class LoadMethod:
    """How KenLM reads a file; ignored here, where files are always mapped and read on demand."""

    LAZY, POPULATE_OR_LAZY, POPULATE_OR_READ, READ, PARALLEL_READ = range(5)


class ARPALoadComplain:
    """When KenLM complains that reading ARPA is slow; ignored here."""

    ALL, EXPENSIVE, NONE = range(3)


class Config:
    """KenLM's options for loading; accepted and ignored."""

    def __init__(self) -> None:
        self.load_method = LoadMethod.POPULATE_OR_READ
        self.show_progress = True
        self.arpa_complain = ARPALoadComplain.ALL


class _Ids(dict[str, int]):
    """A cache of the ids of words."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.vocabulary = vocabulary

    def __missing__(self, word: str) -> int:
        if not isinstance(word, str):
            raise TypeError(f"Argument 'word' has incorrect type (expected str, got {type(word).__name__})")
        word.encode()  # raises UnicodeEncodeError for lone surrogates, as KenLM
        if len(self) >= _CACHED_WORDS:  # bounds the memory
            self.clear()
        word_id = self[word] = self.vocabulary.id_of(word.partition("\0")[0])
        return word_id


class Model:
    """A language model. Raises OSError where it cannot be read, TypeError where `path` is neither str nor bytes."""

    __slots__ = ("__weakref__", "_address", "_ids", "_record", "_scorer", "path")

    def __init__(self, path: str | bytes, config: Config | None = None) -> None:
        """Open a model. path: a model folder, an ARPA file, or a binary of KenLM's build_binary."""
        if config is not None and not isinstance(config, Config):
            raise TypeError(f"Argument 'config' has incorrect type (expected Config, got {type(config).__name__})")
        self.path = os.path.abspath(_as_bytes(path))
        try:
            self._scorer, vocabulary, self._record = _open_model(os.fsdecode(self.path))
        except (ChainruleError, OSError) as error:
            raise OSError(f"Cannot read model '{os.fsdecode(path)}' ({error})") from error
        self._ids = _Ids(vocabulary)
        for field, value in _METHOD_FIELDS.items():
            self._record.numbers[field] = value
        self._address = self._record.address

    @property
    def order(self) -> int:
        return self._record.order

    def BaseScore(self, in_state: State, word: str, out_state: State) -> float:  # noqa: N802
        """Return log10 P(word | in_state), and write out_state."""
        if in_state.__class__ is not State or out_state.__class__ is not State:
            _check_states(in_state, out_state)
        return _score_word(self._address, self._ids[word], _addressof(in_state), _addressof(out_state))

    def BaseFullScore(self, in_state: State, word: str, out_state: State) -> FullScoreReturn:  # noqa: N802
        """Return the score of `BaseScore`, with the length of the matching n-gram, and whether the word is unknown."""
        if in_state.__class__ is not State or out_state.__class__ is not State:
            _check_states(in_state, out_state)
        return _full_score(
            _fully_score_word(self._address, self._ids[word], _addressof(in_state), _addressof(out_state))
        )

    def score_words(
        self, words: Sequence[str], before: Int64[ndarray, " n"]
    ) -> tuple[Float64[ndarray, " n"], Int64[ndarray, "n state"]]:
        """Return the scores of `BaseScore` for many words at once, each after a separate state.

        KenLM's module has no such method. before: the addresses of the states. Returns the log10 P, and the states
        after the words, a row for each.
        """
        return self.score_ids(self.ids_of(words), before)

    def ids_of(self, words: Iterable[str]) -> Int64[ndarray, " n"]:
        """Return the numbers of words; 0 is that of unknown ones. KenLM's module has no such method."""
        return np.array([self._ids[word] for word in words], np.int64)

    def score_ids(
        self, ids: Int64[ndarray, " n"], before: Int64[ndarray, " n"]
    ) -> tuple[Float64[ndarray, " n"], Int64[ndarray, "n state"]]:
        """Return the scores of `score_words`, for words by their numbers."""
        scores, after = np.empty(len(ids)), np.zeros((len(ids), STATE_SIZE), np.int64)
        score_words(self._address, ids, before, after.ctypes.data, scores)
        return scores, after

    @property
    def vocabulary_size(self) -> int:
        """The number of words, <unk>, <s> and </s> included. KenLM's module has no such property."""
        return len(self._ids.vocabulary)

    def BeginSentenceWrite(self, state: State) -> None:  # noqa: N802
        """Set a state to the beginning of a sentence."""
        _check_states(state)
        ctypes.memset(state, 0, ctypes.sizeof(state))
        _score_word(self._address, BEGIN, _addressof(state), _addressof(state))

    def NullContextWrite(self, state: State) -> None:  # noqa: N802
        """Set a state to the empty context."""
        _check_states(state)
        ctypes.memset(state, 0, ctypes.sizeof(state))

    def score(self, sentence: str | bytes, bos: bool = True, eos: bool = True) -> float:
        """Return log10 P of a sentence. bos: after <s>. eos: including </s>.

        good:  model.score("a sentence .")
        bad:   model.score("<s> a sentence .")       # <s> is never predicted
        """
        text = sentence.encode() if sentence.__class__ is str else _as_bytes(sentence)
        state = State()
        return _score_text(self._address, text, bos, eos, _addressof(state))

    def scores(self, sentences: Iterable[str | bytes], bos: bool = True, eos: bool = True) -> Float64[ndarray, " n"]:
        """Return the scores of `score` for many sentences at once, on all processors.

        KenLM's module has no such method.
        """
        texts = [_as_bytes(sentence) for sentence in sentences]
        parts = (texts[first : first + _BATCH] for first in range(0, len(texts), _BATCH))
        scores = map_in_order(lambda part: self._scores_of(part, bool(bos), bool(eos)), parts)
        return np.concatenate([np.empty(0), *scores])

    def _scores_of(self, texts: Sequence[bytes], bos: bool, eos: bool) -> Float64[ndarray, " n"]:
        ids = self._record.encode(texts, is_whole=eos) if bos else None
        if ids is None:
            return np.fromiter(map(self.score, texts, repeat(bos), repeat(eos)), np.float64, len(texts))
        log_probs = self._scorer.score_stream(ids).astype(np.float64)
        ends = ids == END
        if not eos:
            log_probs[ends] = 0
        stops = np.flatnonzero(ends) + 1
        return np.add.reduceat(log_probs, np.concatenate([[0], stops[:-1]])) * _LOG10_OF_E

    def full_scores(
        self, sentence: str | bytes, bos: bool = True, eos: bool = True
    ) -> Iterator[tuple[float, int, bool]]:
        """Yield log10 P of each word, the length of the matching n-gram, and whether the word is unknown."""
        scores, lengths = self._record.score_words(_as_bytes(sentence), begins=bool(bos), ends=bool(eos))
        for score, length in zip(scores, lengths, strict=True):
            yield score, abs(length), length < 0

    def perplexity(self, sentence: str | bytes) -> float:
        """Return the perplexity of a sentence with its </s>, per word; inf if it overflows a float."""
        words = len(_as_bytes(sentence).split()) + 1
        try:
            return 10.0 ** (-self.score(sentence) / words)
        except OverflowError:
            return math.inf

    def __contains__(self, word: str | bytes) -> bool:
        try:
            return self._ids[_as_bytes(word).decode()] != UNKNOWN
        except UnicodeDecodeError:
            return False

    def __repr__(self) -> str:
        return f"<Model from {os.path.basename(self.path)!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path,)


class LanguageModel(Model):
    """KenLM's old name of `Model`."""

    __slots__ = ()


def _open_model(path: str) -> tuple[Scorer, Vocabulary, Record]:
    """Return the engine, vocabulary and record of a model folder, ARPA file or binary. Raises ChainruleError,
    OSError.
    """
    from chainrule.features.kenlm.files.binary import is_binary
    from chainrule.features.kenlm.files.probing import HashedModel
    from chainrule.features.kenlm.files.read import read_binary
    from chainrule.features.kenlm.files.word_queries import record_of_table
    from chainrule.models.files.opening import load
    from chainrule.models.model import Model
    from chainrule.ngram.arpa.read import read_arpa
    from chainrule.ngram.models.table_models import CompactNGramModel, NGramModel

    language_model: Engine[Any]
    if os.path.isdir(path):
        model = load(path, Model)
        language_model, vocabulary = model.language_model, model.tokenizer.vocabulary
    elif is_binary(path):
        language_model, vocabulary = read_binary(path)
    else:  # whatever its name
        table, vocabulary = read_arpa(path)
        language_model = NGramModel(table)
    if isinstance(language_model, HashedModel):
        return language_model, vocabulary, language_model.record
    if not isinstance(language_model, NGramModel | CompactNGramModel):
        raise ModelFormatError(f"{path}: is a model of family {model.family!r}; expected an n-gram model")
    return language_model, vocabulary, record_of_table(language_model.table, vocabulary)


def _check_states(*states: object) -> None:
    for state in states:
        if not isinstance(state, State):
            raise TypeError(f"Argument 'state' has incorrect type (expected State, got {type(state).__name__})")


def _as_bytes(text: str | bytes) -> bytes:
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, bytes):
        return text
    raise TypeError(f"Cannot convert {type(text)} to string")


_addressof = ctypes.addressof
_score_word, _fully_score_word = queries().score_word, queries().fully_score_word
_score_text = queries().score_text
_METHOD_FIELDS = compile_methods(Model, State, FullScoreReturn)
