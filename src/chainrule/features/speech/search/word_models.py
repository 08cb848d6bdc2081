"""Language models and hotwords as pyctcdecode has them: classes that a program may make, subclass and save."""

from __future__ import annotations

import ctypes
import json
import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from chainrule.errors import SettingError
from chainrule.features.speech.search.config import AVERAGE_WORD, DEFAULTS
from chainrule.features.speech.search.language_model import AbstractLMState, ShallowFusion
from chainrule.features.speech.search.words import Hotwords, Words
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from chainrule.protocol import LanguageModel
    from chainrule.text.tokenization.tokenizer import Tokenizer

ATTRS, UNIGRAMS = "attrs.json", "unigrams.txt"
LOG_BASE_CHANGE_FACTOR = 1.0 / float(np.log10(np.e))


class OpenModel(Protocol):
    """A model with its tokenizer, as `chainrule.load` opens it."""

    @property
    def language_model(self) -> LanguageModel[Any]: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    def save(self, path: Path) -> Any: ...


class KenlmState(AbstractLMState):
    """The state of KenLM's module, or of ours in its place."""

    __slots__ = ("address", "owner", "state")

    def __init__(self, state: Any, address: int = 0, owner: Any = None) -> None:
        """Store a state.

        address: where the state is, in memory that the owner keeps; the state is then made of it by need.
        """
        self.state, self.address, self.owner = state, address, owner


class KenlmRows:
    """An n-gram model of ours as the search asks for it without texts: words are nodes of the known ones, states rows.

    Only where all words of the model are known, so that every other word is unknown to it as well.
    """

    def __init__(self, owner: WeightedLanguageModel, model: Any, known: Words) -> None:
        """Store the model's function of scores, and the ids of the known words.

        owner: has the weights. model: a `Model` of `chainrule.kenlm`.
        """
        self._owner = owner
        self.score_ids = model.score_ids
        ids = np.concatenate([[0], model.ids_of(known.words)])  # 0: an unknown word
        self.word_ids = np.concatenate([ids[known.ends], [0]])

    @property
    def weights(self) -> tuple[float, float, float, float]:
        """alpha, the nats of a log10, beta, and what is added to the log10 of an unknown word."""
        owner = self._owner
        return float(owner.alpha), LOG_BASE_CHANGE_FACTOR, float(owner.beta), float(owner.unk_score_offset)

    @classmethod
    def of(cls, owner: WeightedLanguageModel, model: Any, known: Words) -> KenlmRows | None:
        """Return the rows of a model; None if the model has words that are not among the known ones."""
        others = sum(marker not in known.words for marker in MARKER_TOKENS) if known.size > 1 else 0
        return cls(owner, model, known) if model.vocabulary_size == len(known.words) + others else None

    @staticmethod
    def address_of(state: Any) -> int:
        """Return the address of a state."""
        return state.address or ctypes.addressof(state.state if isinstance(state, KenlmState) else state)

    @staticmethod
    def state_at(address: int, owner: Any) -> KenlmState:
        """Return the state at an address, which is valid as long as its owner lives."""
        return KenlmState(None, address, owner)


class MultiLanguageModelState(AbstractLMState):
    """A state of each of several models."""

    def __init__(self, states: Sequence[AbstractLMState]) -> None:
        self.states = states


class HotwordScorer:
    """What hotwords add to the scores of a text, and their beginnings to those of unfinished words."""

    def __init__(self, match_ptn: re.Pattern[str], char_trie: Any, weight: float = DEFAULTS.hotword_weight) -> None:
        """Store the hotwords and their weight.

        match_ptn: finds the hotwords of a text. char_trie: those words, as `Words` or another iterable.
        """
        self._match_ptn, self._char_trie, self._weight = match_ptn, char_trie, weight

    @classmethod
    def build_scorer(
        cls, hotwords: Iterable[str] | None = None, weight: float = DEFAULTS.hotword_weight
    ) -> HotwordScorer:
        """Return a scorer of hotwords. hotwords: words, or phrases, of which each word counts."""
        words = sorted({word for phrase in hotwords or () for word in phrase.split()}, key=len, reverse=True)
        alternatives = "|".join(map(re.escape, words))
        pattern = rf"(?<!\S)(?:{alternatives})(?!\S)" if words else r"(?!)"
        return cls(re.compile(pattern), Words(words), weight)

    @property
    def hotwords(self) -> Hotwords:
        """The same for the search."""
        words = self._char_trie if isinstance(self._char_trie, Words) else Words(self._char_trie)
        return Hotwords(words, float(self._weight))

    def __contains__(self, item: str) -> bool:
        return self.hotwords.words.has_node(item)

    def score(self, text: str) -> float:
        """Return what the hotwords of a text add to its score."""
        return self._weight * len(self._match_ptn.findall(text))

    def score_partial_token(self, token: str) -> float:
        """Return what the beginning of a word adds: as much of the weight as it is of the shortest hotword it may
        become.
        """
        shortest = self.hotwords.words.shortest_after(token)
        return self._weight * len(token) / shortest if shortest else 0.0


class AbstractLanguageModel(ABC):
    """A language model as the decoder uses it. Scores are added to the log-probabilities of labels, in nats."""

    known: Words | None = None  # for the search, see `WordModel`

    @property
    @abstractmethod
    def order(self) -> int:
        """How many words decide on a probability, the predicted one included; 0 if all do."""

    @abstractmethod
    def get_start_state(self) -> Any:
        """Return the state before the first word."""

    @abstractmethod
    def score_partial_token(self, partial_token: str) -> float:
        """Return the score of an unfinished word, which that of the whole word replaces."""

    @abstractmethod
    def score(self, prev_state: Any, word: str, is_last_word: bool = False) -> tuple[float, Any]:
        """Return the score of a word after a state, and the state after it."""

    def score_words(
        self, states: Sequence[Any], words: Sequence[str | None], is_last: bool
    ) -> tuple[list[float], list[Any]]:
        """Score words as `WordModel.score_words` does; by default one by one."""
        pairs = [self.score(state, word or "", is_last) for state, word in zip(states, words, strict=True)]
        return [score for score, _ in pairs], [state for _, state in pairs]

    def save_to_dir(self, filepath: str) -> None:
        """Save the model in a folder."""
        raise NotImplementedError(f"{type(self).__name__} has no way to be saved")

    @classmethod
    def load_from_dir(cls, filepath: str) -> AbstractLanguageModel:
        """Open a model that `save_to_dir` wrote."""
        raise NotImplementedError(f"{cls.__name__} has no way to be loaded")

    def reset_params(self, **params: Any) -> None:  # noqa: B027  # a model may have none
        """Change settings of the model."""


class WeightedLanguageModel(AbstractLanguageModel):
    """What the language models here share: weights, a vocabulary, and folders with both."""

    JSON_ATTRS = ("alpha", "beta", "unk_score_offset", "score_boundary")

    def __init__(self, alpha: float, beta: float, unk_score_offset: float, score_boundary: bool) -> None:
        self.alpha, self.beta = alpha, beta
        self.unk_score_offset, self.score_boundary = unk_score_offset, score_boundary
        self._unigram_set: set[str] = set()

    @property
    def unknown_offset(self) -> float:
        """What the beginning of an unknown word adds to the score, for the search."""
        return self.unk_score_offset

    def reset_params(self, **params: Any) -> None:
        """Set alpha, beta, unk_score_offset, score_boundary; None leaves one unchanged. Raises SettingError."""
        for name, value in params.items():
            if name not in self.JSON_ATTRS:
                raise SettingError(f"a language model has no parameter {name!r}; it has {', '.join(self.JSON_ATTRS)}")
            kinds = (bool,) if name == "score_boundary" else (int, float)
            if value is not None and (not isinstance(value, kinds) or (bool not in kinds and value is True)):
                raise SettingError(f"{name} is {value!r}; expected {'True or False' if bool in kinds else 'a number'}")
        for name, value in params.items():
            if value is not None:
                setattr(self, name, value)

    def score_partial_token(self, partial_token: str) -> float:
        """Return unk_score_offset for what no known word begins like, times len / 6 if it is longer; 0 for others."""
        if self.known is None or self.known.has_node(partial_token):
            return 0.0
        return self.unk_score_offset * max(1.0, len(partial_token) / AVERAGE_WORD)

    @property
    def serializable_attrs(self) -> dict[str, Any]:
        """The settings that are saved."""
        return {name: getattr(self, name) for name in self.JSON_ATTRS}

    def save_to_dir(self, filepath: str, unigram_encoding: str | None = None) -> None:
        """Write attrs.json, unigrams.txt and the model into a folder that exists."""
        folder = Path(filepath)
        (folder / ATTRS).write_text(json.dumps(self.serializable_attrs), encoding="utf-8")
        words = "".join(f"{word}\n" for word in sorted(self._unigram_set))
        (folder / UNIGRAMS).write_text(words, encoding=unigram_encoding or "utf-8")
        self._save_model(folder)

    @abstractmethod
    def _save_model(self, folder: Path) -> None: ...


class FusedLanguageModel(WeightedLanguageModel):
    """Any language model, of words, subwords or characters: n-grams, a network, a mixture. Scores beams in batches."""

    def __init__(
        self,
        model: OpenModel,
        unigrams: Collection[str] | None = None,
        alpha: float = DEFAULTS.alpha,
        beta: float = DEFAULTS.beta,
        unk_score_offset: float = DEFAULTS.unk_score_offset,
        score_boundary: bool = True,
    ) -> None:
        """Store the model and its words.

        unigrams: the words that there are; by default those of a vocabulary of whole words, and of others any.
        """
        super().__init__(alpha, beta, unk_score_offset, score_boundary)
        self.model = model
        self._unigram_set = set(unigrams or ())
        self._fusion = ShallowFusion(model.language_model, model.tokenizer, words=self._unigram_set or None)
        self.known = self._fusion.known

    @property
    def order(self) -> int:
        """Of a model of words, the length of the longest n-grams; 0 for others."""
        return self._fusion.order

    def get_start_state(self) -> Any:
        """Return the state after <s>."""
        return self._fusion.get_start_state()

    def score(self, prev_state: Any, word: str, is_last_word: bool = False) -> tuple[float, Any]:
        """Return alpha x ln P(word | state) + beta."""
        [score], [state] = self.score_words([prev_state], [word], is_last_word)
        return score, state

    def score_words(
        self, states: Sequence[Any], words: Sequence[str | None], is_last: bool
    ) -> tuple[list[float], list[Any]]:
        """Implement `WordModel.score_words`. An empty word is none."""
        fusion = self._fusion
        fusion.alpha, fusion.beta, fusion.unknown_offset = self.alpha, self.beta, self.unk_score_offset
        fusion.score_boundary = self.score_boundary
        return fusion.score_words(states, [word or None for word in words], is_last)

    def _save_model(self, folder: Path) -> None:
        self.model.save(folder / "model")


class MultiLanguageModel(AbstractLanguageModel):
    """The mean of several language models' scores."""

    def __init__(self, language_models: Sequence[AbstractLanguageModel]) -> None:
        """Store the models. Raises SettingError if there are fewer than two."""
        if len(language_models) < 2:
            raise SettingError(f"{len(language_models)} language models were given; expected two or more")
        self._language_models = language_models

    @property
    def order(self) -> int:
        """The longest order of the models; 0 if a probability of one of them depends on all words."""
        orders = [model.order for model in self._language_models]
        return max(orders) if min(orders) else 0

    def get_start_state(self) -> MultiLanguageModelState:
        """Return the states of all models."""
        return MultiLanguageModelState([model.get_start_state() for model in self._language_models])

    def score_partial_token(self, partial_token: str) -> float:
        """Return the mean of the models' scores."""
        return float(np.mean([model.score_partial_token(partial_token) for model in self._language_models]))

    def score(
        self, prev_state: MultiLanguageModelState, word: str, is_last_word: bool = False
    ) -> tuple[float, MultiLanguageModelState]:
        """Return the mean of the models' scores, and their states."""
        [score], [state] = self.score_words([prev_state], [word], is_last_word)
        return score, state

    def score_words(
        self, states: Sequence[MultiLanguageModelState], words: Sequence[str | None], is_last: bool
    ) -> tuple[list[float], list[MultiLanguageModelState]]:
        """Implement `WordModel.score_words`."""
        results = [
            model.score_words([state.states[i] for state in states], words, is_last)
            for i, model in enumerate(self._language_models)
        ]
        sums = [sum(scores) for scores in zip(*(scores for scores, _ in results), strict=True)]
        after = [MultiLanguageModelState(list(own)) for own in zip(*(own for _, own in results), strict=True)]
        return [total / len(results) for total in sums], after


def load_unigram_set_from_arpa(arpa_path: str) -> set[str]:
    """Return the words of an ARPA file that have a backoff weight, as pyctcdecode takes them.

    Raises SettingError if none.
    """
    words: set[str] = set()
    with open(arpa_path, encoding="utf-8-sig") as file:
        is_unigrams = False
        for line in file:
            fields = line.strip().split("\t")
            if fields == ["\\2-grams:"]:
                break
            if is_unigrams and len(fields) == 3:
                words.add(fields[1])
            is_unigrams |= fields == ["\\1-grams:"]
    if not words:
        raise SettingError(f"{arpa_path}: has no unigrams with a backoff weight; is it an ARPA file?")
    return words
