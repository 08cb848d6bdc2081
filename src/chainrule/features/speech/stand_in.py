"""A drop-in replacement for pyctcdecode, with any language model: n-grams, networks, mixtures, ARPA and KenLM's files.

    from chainrule.ctc import build_ctcdecoder            # in place of: from pyctcdecode import build_ctcdecoder
    decoder = build_ctcdecoder(labels, "lm.arpa")         # or the folder of any language model
    decoder.decode(logits)                                # (frames, labels)
    chainrule.ctc.install()                               # `import pyctcdecode` gets this module, also in transformers

Names, arguments, defaults and results are pyctcdecode's; so are two slips, which copies_slips=False mends (see `Limits`
in `search/search.py`). Beams are objects, as in its version 0.6, and can be unpacked as tuples, as in 0.5.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import shutil
import sys
from functools import partial
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

import numpy as np

from chainrule.errors import SettingError
from chainrule.features.kenlm import stand_in as kenlm
from chainrule.features.speech.search.alphabet import (
    BPE_TOKEN,
    UNK_BPE_TOKEN,
    UNK_TOKEN,
    Alphabet,
    verify_alphabet_coverage,
)
from chainrule.features.speech.search.beams import START as EMPTY_START_BEAM
from chainrule.features.speech.search.beams import Beam, LMBeam, OutputBeam
from chainrule.features.speech.search.config import DEFAULTS
from chainrule.features.speech.search.language_model import AbstractLMState
from chainrule.features.speech.search.logits import as_log_probs, check_outputs, kind_of
from chainrule.features.speech.search.search import Labels, Limits, Search, output_beam
from chainrule.features.speech.search.word_models import (
    ATTRS,
    LOG_BASE_CHANGE_FACTOR,
    UNIGRAMS,
    AbstractLanguageModel,
    FusedLanguageModel,
    HotwordScorer,
    KenlmRows,
    KenlmState,
    MultiLanguageModel,
    MultiLanguageModelState,
    WeightedLanguageModel,
    load_unigram_set_from_arpa,
)
from chainrule.features.speech.search.words import NO_WORDS, Hotwords, Words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from multiprocessing.pool import Pool

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.features.speech.search.search import Cache
    from chainrule.models.model import Model

__all__ = [
    "BPE_TOKEN",
    "EMPTY_START_BEAM",
    "UNK_BPE_TOKEN",
    "UNK_TOKEN",
    "AbstractLMState",
    "AbstractLanguageModel",
    "Alphabet",
    "Beam",
    "BeamSearchDecoderCTC",
    "FusedLanguageModel",
    "HotwordScorer",
    "KenlmState",
    "LMBeam",
    "LanguageModel",
    "MultiLanguageModel",
    "MultiLanguageModelState",
    "OutputBeam",
    "build_ctcdecoder",
    "install",
    "load_unigram_set_from_arpa",
    "verify_alphabet_coverage",
]

T = TypeVar("T")
logger = logging.getLogger(__name__)

DEFAULT_ALPHA, DEFAULT_BETA = DEFAULTS.alpha, DEFAULTS.beta
DEFAULT_UNK_LOGP_OFFSET = DEFAULTS.unk_score_offset
DEFAULT_BEAM_WIDTH, DEFAULT_HOTWORD_WEIGHT = DEFAULTS.beam, DEFAULTS.hotword_weight
DEFAULT_PRUNE_LOGP, DEFAULT_MIN_TOKEN_LOGP = DEFAULTS.beam_prune_logp, DEFAULTS.token_min_logp
DEFAULT_PRUNE_BEAMS, DEFAULT_SCORE_LM_BOUNDARY = False, True
_ALPHABET, _LANGUAGE_MODEL = "alphabet.json", "language_model"
_PARTS = ("", ".alphabet", ".constants", ".decoder", ".language_model")  # of pyctcdecode


def install() -> None:
    """Make `import pyctcdecode` import this module, everywhere in this process."""
    for name in _PARTS:
        sys.modules[f"pyctcdecode{name}"] = sys.modules[__name__]


class LanguageModel(WeightedLanguageModel):
    """An n-gram model of words, as KenLM's module or `chainrule.kenlm` opens it."""

    def __init__(
        self,
        kenlm_model: Any,
        unigrams: Collection[str] | None = None,
        alpha: float = DEFAULT_ALPHA,
        beta: float = DEFAULT_BETA,
        unk_score_offset: float = DEFAULT_UNK_LOGP_OFFSET,
        score_boundary: bool = DEFAULT_SCORE_LM_BOUNDARY,
    ) -> None:
        """Store the model, and the words that it knows. unigrams: the words that there are; without them, every
        beginning of a word costs unk_score_offset.

        score_boundary: whether texts begin and end as sentences do.
        """
        super().__init__(alpha, beta, unk_score_offset, score_boundary)
        self._kenlm_model = kenlm_model
        self._state_class = sys.modules[type(kenlm_model).__module__].State
        self._are_unknown: dict[str, bool] = {}
        self._unigram_set = {word for word in unigrams or () if word in kenlm_model}
        if unigrams is None:
            logger.warning("no unigrams were given: every unfinished word counts as unknown, and texts may be worse")
        elif len(self._unigram_set) < 0.1 * len(set(unigrams)):
            logger.warning("the model knows fewer than a tenth of the unigrams: do they belong together?")
        self.known = self._char_trie = Words(self._unigram_set) if self._unigram_set else NO_WORDS
        is_ours = isinstance(kenlm_model, kenlm.Model) and (type(self).score, type(self).score_words) == _OWN_SCORES
        self.rows = KenlmRows.of(self, kenlm_model, self.known) if is_ours else None

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return int(self._kenlm_model.order)

    def get_start_state(self) -> KenlmState:
        """Return the state after <s>, or the empty context."""
        state = self._state_class()
        model = self._kenlm_model
        (model.BeginSentenceWrite if self.score_boundary else model.NullContextWrite)(state)
        return KenlmState(state)

    def score(self, prev_state: Any, word: str, is_last_word: bool = False) -> tuple[float, KenlmState]:
        """Return alpha x ln P(word | state) + beta; an unknown word's log10 P gets unk_score_offset."""
        [score], [state] = self.score_words([prev_state], [word], is_last_word)
        return score, state

    def score_words(
        self, states: Sequence[Any], words: Sequence[str | None], is_last: bool
    ) -> tuple[list[float], list[KenlmState]]:
        """Implement `WordModel.score_words`."""
        starts = [before if isinstance(before, KenlmState) else KenlmState(before) for before in states]
        score_all = self._score_one_by_one if not isinstance(self._kenlm_model, kenlm.Model) else self._score_at_once
        log10_probs, after = score_all(starts, [word or "" for word in words])
        log10_probs = [
            log10_prob + self._offset(word or "") for log10_prob, word in zip(log10_probs, words, strict=True)
        ]
        betas = [self.beta] * len(words)
        for i in (i for i, word in enumerate(words) if word is None):
            log10_probs[i], after[i], betas[i] = 0.0, starts[i], 0.0
        if is_last and self.score_boundary:
            ends, _ = score_all(after, ["</s>"] * len(words))
            log10_probs = [log10_prob + end for log10_prob, end in zip(log10_probs, ends, strict=True)]
        alpha = self.alpha
        scores = [alpha * one * LOG_BASE_CHANGE_FACTOR + beta for one, beta in zip(log10_probs, betas, strict=True)]
        return scores, after

    def _offset(self, word: str) -> float:
        """Return what is added to the log10 P of a word."""
        is_unknown = self._are_unknown.get(word)
        if is_unknown is None:
            known = self._unigram_set
            is_unknown = self._are_unknown[word] = bool(known and word not in known) or word not in self._kenlm_model
        return self.unk_score_offset if is_unknown else 0.0

    def _score_one_by_one(
        self, states: Sequence[KenlmState], words: Sequence[str]
    ) -> tuple[list[float], list[KenlmState]]:
        after = [KenlmState(self._state_class()) for _ in words]
        score = self._kenlm_model.BaseScore
        scores = [score(one.state, word, end.state) for one, word, end in zip(states, words, after, strict=True)]
        return scores, after

    def _score_at_once(
        self, states: Sequence[KenlmState], words: Sequence[str]
    ) -> tuple[list[float], list[KenlmState]]:
        addresses = np.array([one.address or ctypes.addressof(one.state) for one in states], np.int64)
        scores, rows = self._kenlm_model.score_words(words, addresses)
        first, size = rows.ctypes.data, rows.strides[0]
        return scores.tolist(), [KenlmState(None, first + i * size, rows) for i in range(len(words))]

    def _save_model(self, folder: Path) -> None:
        path = os.fsdecode(self._kenlm_model.path)
        shutil.copy2(path, folder / os.path.basename(path))

    @staticmethod
    def parse_directory_contents(filepath: str) -> dict[str, str]:
        """Return the paths of a saved model's settings, unigrams and model. Raises SettingError if it is not so."""
        names = sorted(name for name in os.listdir(filepath) if not name.startswith((".", "__")))
        models = [name for name in names if name not in (ATTRS, UNIGRAMS)]
        if len(names) != 3 or len(models) != 1:
            raise SettingError(
                f"{filepath}: has {', '.join(names) or 'nothing'}; expected {ATTRS}, {UNIGRAMS} and one model"
            )
        return {
            "json_attrs": f"{filepath}/{ATTRS}",
            "unigrams": f"{filepath}/{UNIGRAMS}",
            "kenlm": f"{filepath}/{models[0]}",
        }

    @classmethod
    def load_from_dir(cls, filepath: str, unigram_encoding: str | None = None) -> Any:
        """Open a model that `save_to_dir` wrote. Raises SettingError, ModelFormatError, OSError."""
        paths = cls.parse_directory_contents(filepath)
        attrs = json.loads(Path(paths["json_attrs"]).read_text(encoding="utf-8"))
        if not isinstance(attrs, dict) or attrs.keys() != set(cls.JSON_ATTRS):
            raise SettingError(f"{paths['json_attrs']}: expected an object with {', '.join(cls.JSON_ATTRS)}")
        unigrams = Path(paths["unigrams"]).read_text(encoding=unigram_encoding or "utf-8").splitlines()
        if os.path.isdir(paths["kenlm"]):
            return FusedLanguageModel(_load(paths["kenlm"]), unigrams or None, **attrs)
        return cls(kenlm.Model(paths["kenlm"]), unigrams, **attrs)


_OWN_SCORES = LanguageModel.score, LanguageModel.score_words  # a program's subclass may have others


def _load(path: str) -> Model:
    from chainrule.models.files.opening import load
    from chainrule.models.model import Model

    return load(path, Model)


class BeamSearchDecoderCTC:
    """Decodes CTC's outputs, with a language model or without.

    Models are kept in the class, by a key, so that processes that are forked from this one share them.
    """

    model_container: ClassVar[dict[bytes, AbstractLanguageModel | None]] = {}

    def __init__(
        self, alphabet: Alphabet, language_model: AbstractLanguageModel | None = None, *, copies_slips: bool = True
    ) -> None:
        """Store both parts. copies_slips: whether to err where pyctcdecode does, for the same scores; see `Limits`."""
        self._alphabet, self._labels, self._copies = alphabet, Labels(alphabet), copies_slips
        self._model_key = os.urandom(16)
        BeamSearchDecoderCTC.model_container[self._model_key] = language_model

    @classmethod
    def clear_class_models(cls) -> None:
        """Forget the language models of all decoders."""
        BeamSearchDecoderCTC.model_container.clear()

    def cleanup(self) -> None:
        """Forget the language model of this decoder."""
        BeamSearchDecoderCTC.model_container.pop(self._model_key, None)

    @property
    def _language_model(self) -> AbstractLanguageModel | None:
        return BeamSearchDecoderCTC.model_container[self._model_key]

    def reset_params(
        self,
        alpha: float | None = None,
        beta: float | None = None,
        unk_score_offset: float | None = None,
        lm_score_boundary: bool | None = None,
    ) -> None:
        """Change settings of the language model, if there is one; None leaves one unchanged. Raises SettingError."""
        params = {
            "alpha": alpha,
            "beta": beta,
            "unk_score_offset": unk_score_offset,
            "score_boundary": lm_score_boundary,
        }
        if self._language_model is not None:
            self._language_model.reset_params(**{name: value for name, value in params.items() if value is not None})

    def _search(
        self, beam_width: int, beam_prune_logp: float, token_min_logp: float, prune_history: bool, hotwords: Hotwords
    ) -> Search:
        model = self._language_model
        own = isinstance(model, WeightedLanguageModel) and (
            type(model).score_partial_token is WeightedLanguageModel.score_partial_token
        )
        limits = Limits(beam_width, beam_prune_logp, token_min_logp, prune_history, self._copies)
        return Search(self._labels, model, limits, hotwords, None if own else model)

    def _log_probs(self, logits: object) -> Float64[ndarray, "T labels"]:
        matrix = check_outputs(logits, len(self._labels.names))
        return as_log_probs(matrix, kind_of(matrix))

    def get_starting_state(self) -> tuple[list[Beam], Cache, dict[str, float]]:
        """Return the beams and caches with which `partial_decode_beams` begins."""
        model = self._language_model
        cache: Cache = {} if model is None else {("", False): (0.0, 0.0, model.get_start_state())}
        return [EMPTY_START_BEAM], cache, {}

    def partial_decode_beams(
        self,
        logits: Float64[ndarray, "T labels"],
        cached_lm_scores: Cache,
        cached_p_lm_scores: dict[str, float],  # pyctcdecode's own; here the search keeps them
        beams: Sequence[Beam],
        processed_frames: int,
        beam_width: int = DEFAULT_BEAM_WIDTH,
        beam_prune_logp: float = DEFAULT_PRUNE_LOGP,
        token_min_logp: float = DEFAULT_MIN_TOKEN_LOGP,
        prune_history: bool = DEFAULT_PRUNE_BEAMS,
        hotword_scorer: HotwordScorer | None = None,
        force_next_word: bool = False,
        is_end: bool = False,
    ) -> list[LMBeam]:
        """Go on from beams with more frames, of which `processed_frames` came before. Raises SettingError.

        force_next_word: whether words end where the frames do. is_end: whether the text does.
        """
        hotwords = Hotwords() if hotword_scorer is None else hotword_scorer.hotwords
        search = self._search(beam_width, beam_prune_logp, token_min_logp, prune_history, hotwords)
        search.load(beams, cached_lm_scores)
        search.run(self._log_probs(logits), processed_frames)
        return search.finish(cached_lm_scores, force_next_word=force_next_word, is_end=is_end)

    def decode_beams(
        self,
        logits: Float64[ndarray, "T labels"],
        beam_width: int = DEFAULT_BEAM_WIDTH,
        beam_prune_logp: float = DEFAULT_PRUNE_LOGP,
        token_min_logp: float = DEFAULT_MIN_TOKEN_LOGP,
        prune_history: bool = DEFAULT_PRUNE_BEAMS,
        hotwords: Iterable[str] | None = None,
        hotword_weight: float = DEFAULT_HOTWORD_WEIGHT,
        lm_start_state: Any = None,
    ) -> list[OutputBeam]:
        """Return the best texts, best first, with the frames of their words. Raises SettingError.

        logits: (frames, labels): logits, log-probabilities or probabilities. beam_width: how many beams are kept.
        beam_prune_logp: beams this far below the best are dropped. token_min_logp: labels below are ignored, but for
        the best of a frame. prune_history: whether to keep only one of the beams that no word to come can tell apart.
        hotwords: words that are expected, each of which adds hotword_weight. lm_start_state: a beam's `last_lm_state`.
        """
        _, cache, _ = self.get_starting_state()
        if cache and lm_start_state is not None:
            cache["", False] = 0.0, 0.0, lm_start_state
        own = Hotwords.of(hotwords, hotword_weight)
        search = self._search(beam_width, beam_prune_logp, token_min_logp, prune_history, own)
        search.load([EMPTY_START_BEAM], cache)
        search.run(self._log_probs(logits))
        return [output_beam(beam, cache) for beam in search.finish(cache, is_end=True)]

    def decode(
        self,
        logits: Float64[ndarray, "T labels"],
        beam_width: int = DEFAULT_BEAM_WIDTH,
        beam_prune_logp: float = DEFAULT_PRUNE_LOGP,
        token_min_logp: float = DEFAULT_MIN_TOKEN_LOGP,
        hotwords: Iterable[str] | None = None,
        hotword_weight: float = DEFAULT_HOTWORD_WEIGHT,
        lm_start_state: Any = None,
    ) -> str:
        """Return the best text; the arguments are those of `decode_beams`, with prune_history. Raises SettingError."""
        limits = beam_width, beam_prune_logp, token_min_logp, True
        return self.decode_beams(logits, *limits, hotwords, hotword_weight, lm_start_state)[0].text

    def _decode_beams_mp_safe(self, logits: Float64[ndarray, "T labels"], **settings: Any) -> list[OutputBeam]:
        return [beam.get_mp_safe_beam() for beam in self.decode_beams(logits, **settings)]

    def decode_beams_batch(
        self,
        pool: Pool | None,
        logits_list: Iterable[Float64[ndarray, "T labels"]],
        beam_width: int = DEFAULT_BEAM_WIDTH,
        beam_prune_logp: float = DEFAULT_PRUNE_LOGP,
        token_min_logp: float = DEFAULT_MIN_TOKEN_LOGP,
        prune_history: bool = DEFAULT_PRUNE_BEAMS,
        hotwords: Iterable[str] | None = None,
        hotword_weight: float = DEFAULT_HOTWORD_WEIGHT,
    ) -> list[list[OutputBeam]]:
        """Return the texts of `decode_beams`, for many matrices; without states of KenLM's.

        pool: processes that were forked after the decoder was made; without it, or if they were spawned, one by one.
        """
        decode = partial(
            self._decode_beams_mp_safe,
            beam_width=beam_width,
            beam_prune_logp=beam_prune_logp,
            token_min_logp=token_min_logp,
            prune_history=prune_history,
            hotwords=None if hotwords is None else list(hotwords),
            hotword_weight=hotword_weight,
        )
        return self._map(decode, pool, logits_list)

    def decode_batch(
        self,
        pool: Pool | None,
        logits_list: Iterable[Float64[ndarray, "T labels"]],
        beam_width: int = DEFAULT_BEAM_WIDTH,
        beam_prune_logp: float = DEFAULT_PRUNE_LOGP,
        token_min_logp: float = DEFAULT_MIN_TOKEN_LOGP,
        hotwords: Iterable[str] | None = None,
        hotword_weight: float = DEFAULT_HOTWORD_WEIGHT,
    ) -> list[str]:
        """Return the texts of `decode`, for many matrices; `pool` as in `decode_beams_batch`."""
        decode = partial(
            self.decode,
            beam_width=beam_width,
            beam_prune_logp=beam_prune_logp,
            token_min_logp=token_min_logp,
            hotwords=None if hotwords is None else list(hotwords),
            hotword_weight=hotword_weight,
        )
        return self._map(decode, pool, logits_list)

    def _map(self, decode: Callable[[Any], T], pool: Pool | None, logits_list: Iterable[Any]) -> list[T]:
        if pool is not None and isinstance(pool._ctx, SpawnContext):  # type: ignore[attr-defined]
            logger.warning("the pool's processes were spawned and lack the language model; decoding in this process")
            pool = None
        if pool is None:
            return [decode(logits) for logits in logits_list]
        matrices = list(logits_list)
        for matrix in matrices:
            check_outputs(matrix, len(self._labels.names))
        return pool.map(decode, matrices)

    def save_to_dir(self, filepath: str) -> None:
        """Write the alphabet and the language model into a folder that exists."""
        Path(filepath, _ALPHABET).write_text(self._alphabet.dumps(), encoding="utf-8")
        if self._language_model is not None:
            folder = Path(filepath, _LANGUAGE_MODEL)
            folder.mkdir()
            self._language_model.save_to_dir(str(folder))

    @staticmethod
    def parse_directory_contents(filepath: str) -> dict[str, str | None]:
        """Return the paths of a saved decoder's alphabet and language model, if it has one. Raises SettingError."""
        names = sorted(name for name in os.listdir(filepath) if not name.startswith((".", "__")))
        if _ALPHABET not in names:
            raise SettingError(f"{filepath}: has no {_ALPHABET}, only {', '.join(names) or 'nothing'}")
        model = os.path.join(filepath, _LANGUAGE_MODEL) if _LANGUAGE_MODEL in names else None
        return {"alphabet": os.path.join(filepath, _ALPHABET), "language_model": model}

    @classmethod
    def load_from_dir(cls, filepath: str, unigram_encoding: str | None = None) -> Self:
        """Open a decoder that `save_to_dir`, or pyctcdecode's, wrote. Raises SettingError, OSError."""
        paths = cls.parse_directory_contents(filepath)
        alphabet = Alphabet.loads(Path(cast("str", paths["alphabet"])).read_text(encoding="utf-8"))
        folder = paths["language_model"]
        return cls(alphabet, None if folder is None else LanguageModel.load_from_dir(folder, unigram_encoding))

    @classmethod
    def load_from_hf_hub(cls, model_id: str, cache_dir: str | None = None, **kwargs: Any) -> Self:
        """Open a decoder of the Hugging Face hub; kwargs are snapshot_download's. Raises ImportError, as well."""
        from huggingface_hub import snapshot_download

        folder = cache_dir or os.path.join(Path.home(), ".cache", "pyctcdecode")
        return cls.load_from_dir(snapshot_download(model_id, cache_dir=folder, **kwargs))


def build_ctcdecoder(
    labels: Sequence[str],
    kenlm_model_path: str | os.PathLike[str] | Model | None = None,
    unigrams: Collection[str] | None = None,
    alpha: float = DEFAULT_ALPHA,
    beta: float = DEFAULT_BETA,
    unk_score_offset: float = DEFAULT_UNK_LOGP_OFFSET,
    lm_score_boundary: bool = DEFAULT_SCORE_LM_BOUNDARY,
) -> BeamSearchDecoderCTC:
    """Return a decoder for a network's labels, in the order of its columns; see `Alphabet.build_alphabet`.

    kenlm_model_path: an ARPA file or a binary of KenLM's; also a folder of any language model, or a model that is open.
    unigrams: the words that there are; by default those of an ARPA file. alpha: the weight of the language model, beta:
    what each word adds to the score; unk_score_offset: what an unknown word adds to its log10 P. lm_score_boundary:
    whether texts begin and end as sentences do. Raises SettingError, ModelFormatError, OSError.
    """
    alphabet = Alphabet.build_alphabet(labels)
    settings = alpha, beta, unk_score_offset, lm_score_boundary
    if kenlm_model_path is None:
        return BeamSearchDecoderCTC(alphabet)
    if not isinstance(kenlm_model_path, (str, os.PathLike)):
        return BeamSearchDecoderCTC(alphabet, FusedLanguageModel(kenlm_model_path, unigrams, *settings))
    path = os.fspath(kenlm_model_path)
    if os.path.isdir(path):
        return BeamSearchDecoderCTC(alphabet, FusedLanguageModel(_load(path), unigrams, *settings))
    if unigrams is None and path.endswith(".arpa"):
        unigrams = load_unigram_set_from_arpa(path)
    if unigrams is not None:
        verify_alphabet_coverage(alphabet, unigrams)
    return BeamSearchDecoderCTC(alphabet, LanguageModel(kenlm.Model(path), unigrams, *settings))
