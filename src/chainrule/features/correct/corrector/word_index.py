"""The words that a word may have meant, the likeliest first: close in letters, or in consonants.

Words within an edit distance are found without a scan of the vocabulary, by an index of deletions. Two texts within
distance d share a variant: what is left of each after deleting at most d characters. So the index holds the variants of
the words, and a query looks up its own (Garbe's SymSpell, 2012). Only the first characters make variants, which keeps
the index small; matches are exact, since the distance confirms each.
"""

from __future__ import annotations

import re
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.errors import SettingError
from chainrule.features.correct.channel.character_channel import concatenate
from chainrule.features.correct.channel.lexicon import WORD
from chainrule.features.correct.corrector.deletion_kernels import count_variants, store_variants, words_within
from chainrule.text.lookup import looked_up

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jaxtyping import Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.features.correct.corrector.error_models import ErrorModel

LONGEST = 60  # characters of a word or a text; longer ones match nothing
_ROOM = 1 << 16  # matches for which memory is allocated at once


class Matches(NamedTuple):
    """Words close to texts: those of text i are ends[i - 1] .. ends[i]."""

    words: Int32[ndarray, " matches"]
    distances: Int32[ndarray, " matches"]
    ends: Int64[ndarray, " texts"]

    def of(self, text: int) -> slice:
        return slice(self.ends[text - 1] if text else 0, self.ends[text])


class DeletionIndex:
    """Finds all words within a restricted Damerau-Levenshtein distance: a swap of neighbours counts as one error."""

    def __init__(self, words: Sequence[str], distance: int = 2) -> None:
        """Build the index. words: numbered in this order; those longer than LONGEST match nothing. distance: 0 to 2.

        Raises SettingError.
        """
        if not 0 <= distance <= 2:
            raise SettingError(f"distance is {distance}; expected 0, 1 or 2")
        self._distance = distance
        self._words, self._offsets = concatenate([word if len(word) <= LONGEST else "" for word in words])
        entries = len(words) * (1, 8, 29)[distance]
        bits = max(1, entries.bit_length())
        self._shift = 64 - bits
        begins = np.zeros((1 << bits) + 1, np.int64)
        count_variants(self._words, self._offsets, distance, self._shift, begins)
        self._begins = np.cumsum(begins)
        self._tags = np.empty(self._begins[-1], np.uint32)
        self._owners = np.empty(self._begins[-1], np.int32)
        store_variants(
            self._words, self._offsets, distance, self._shift, self._begins[:-1].copy(), self._tags, self._owners
        )

    def within(self, texts: Sequence[str], distances: Sequence[int] | Int64[ndarray, " texts"]) -> Matches:
        """Return the words within distances[i] of each text i, in no order; a word matches itself.

        Raises SettingError if a distance is larger than that of the index.
        """
        most = np.array(distances, np.int64)
        if most.size and not 0 <= most.min() <= most.max() <= self._distance:
            raise SettingError(f"the distance is {most.max()}; expected 0 to {self._distance}, that of the index")
        characters, offsets = concatenate([text if len(text) <= LONGEST else "" for text in texts])
        ends = np.zeros(len(texts), np.int64)
        words: list[Int32[ndarray, " matches"]] = []
        distances_of_words: list[Int32[ndarray, " matches"]] = []
        first, room = 0, _ROOM
        while first < len(texts):
            matches, near = np.empty(room, np.int32), np.empty(room, np.int32)
            tables = self._begins, self._tags, self._owners, self._words, self._offsets
            stopped = words_within(
                characters, offsets, most, self._distance, self._shift, *tables, first, matches, near, ends
            )
            filled = int(ends[stopped - 1]) if stopped > first else 0
            ends[first:stopped] += sum(part.size for part in words)
            words.append(matches[:filled])
            distances_of_words.append(near[:filled])
            first, room = stopped, room if stopped > first else 4 * room
        if not words:
            return Matches(np.empty(0, np.int32), np.empty(0, np.int32), ends)
        return Matches(np.concatenate(words), np.concatenate(distances_of_words), ends)


_SILENT = re.compile(r"[aeiouyh'’-]|\W")
_DOUBLED = re.compile(r"(.)\1+")
_WITHIN = 10.0  # nats: a context rarely favours a word by more
_LIKELY = 1e-3  # the least probability of a letter that counts as a word, as i and a do in English
_SHORTEST_SKELETON = 3  # consonants; shorter skeletons must be equal
_FAR_RARER = 5.0  # nats: a form of a word that is so much rarer than its most frequent one is taken for an error: i
_RARE = 1.0  # nats above the least likely word, up to which words are rare: in a vocabulary, those that were seen once


_AS_POSSESSIVE = -4.0  # nats of a noun's possessive that is not known, relative to the noun


def noun_of(word: str) -> str:
    """Return the noun of a possessive: dog's -> dog; another word unchanged."""
    return word[:-2] if word[-2:].lower() == "'s" else word


class CandidateWord(NamedTuple):
    """A word that may have been meant. log_prob: of the observed word given this one, in nats."""

    word: str
    log_prob: float

    def possessive(self) -> CandidateWord:
        """Return the same of a noun's possessive."""
        return CandidateWord(f"{self.word}'s", self.log_prob)


class WordIndex:
    """An index of words in lower case, each with its likeliest spelling in the vocabulary and the probability of all
    spellings.

    of_a_letter: those of one letter, without rare ones. added: those that it was extended by, in lower case.
    """

    def __init__(self, log_priors: Mapping[str, float], *, of_a_model: bool = False) -> None:
        """Build the index.

        log_priors: of words as they are written, in nats. of_a_model: whether they are a language model's own. Raises
        SettingError if there is no word.
        """
        self.of_a_model = of_a_model
        spellings: dict[str, list[tuple[float, str]]] = {}
        for word, log_prior in log_priors.items():
            form = looked_up(word)
            if len(form) <= LONGEST and WORD.fullmatch(form) and np.isfinite(log_prior):
                spellings.setdefault(form, []).append((log_prior, word))
        likeliest = ((form, max(ways)[1]) for form, ways in spellings.items() if of_a_model)
        self._spelled = {form: word for form, word in likeliest if word != form}  # as the model reads them
        by_lower: dict[str, list[tuple[float, str]]] = {}
        for form, ways in spellings.items():
            prior = ways[0][0] if len(ways) == 1 else float(np.logaddexp.reduce([prior for prior, _ in ways]))
            by_lower.setdefault(form.lower(), []).append((prior, form))
        if not by_lower:
            raise SettingError(
                "there are no words of letters with a count above 0 to correct by; name a lexicon that has some"
            )
        self._exact = frozenset(
            word for forms in by_lower.values() for prior, word in forms if prior > max(forms)[0] - _FAR_RARER
        )
        self._lower = list(by_lower)
        self._written = [lower if lower in self._exact else max(forms)[1] for lower, forms in by_lower.items()]
        self._usual = [max(forms)[1] for forms in by_lower.values()]
        self._priors = np.array([np.logaddexp.reduce([prior for prior, _ in forms]) for forms in by_lower.values()])
        self._known = {word: i for i, word in enumerate(self._lower)}
        self._is_rare = (self._priors < self._priors.min() + _RARE) & (np.ptp(self._priors) > _RARE)
        likely = self._priors > np.log(_LIKELY)
        self.of_a_letter = tuple(
            word for word, is_likely in zip(self._lower, likely, strict=True) if is_likely and len(word) == 1
        )
        self._near = DeletionIndex(self._lower, 2)
        self._alike = DeletionIndex([phonetic_key(word) for word in self._lower], 1)
        self._parts = [(0, self._near, self._alike)]  # with the number of each part's first word
        self.added: frozenset[str] = frozenset()

    def extended(self, words: Iterable[str]) -> WordIndex:
        """Return this index with further words, each a bit more frequent than its rarest."""
        forms = map(looked_up, words)
        written = {word.lower(): word for word in forms if len(word) <= LONGEST and WORD.fullmatch(word)}
        new = [lower for lower in written if lower not in self._known]
        if not new:
            return self
        other = copy(self)
        size = len(self._lower)
        other._exact = self._exact | {written[lower] for lower in new}
        other._lower = self._lower + new
        other._written, other._usual = (
            [*own, *(written[word] for word in new)] for own in (self._written, self._usual)
        )
        other._priors = np.append(self._priors, np.full(len(new), self._priors.min() + 2 * _RARE))
        other._known = self._known | {word: size + i for i, word in enumerate(new)}
        other.added = self.added | frozenset(new)
        other._is_rare = np.append(self._is_rare, np.zeros(len(new), np.bool_))
        parts = DeletionIndex(new, 2), DeletionIndex([phonetic_key(word) for word in new], 1)
        other._parts = [*self._parts, (size, *parts)]
        return other

    def __contains__(self, word: str) -> bool:
        return self._number(word.lower()) is not None

    def _number(self, word: str) -> int | None:
        """Return the number of a word in lower case; of a possessive that is not known, that of its noun."""
        return self._known.get(word, self._known.get(noun_of(word)))

    def is_trusted(self, word: str) -> bool:
        """Return whether a word is known, and not a rare one, which may be an error of the text that it comes from.

        A possessive that is not known is not: classe's.
        """
        i = self._known.get(word.lower())
        return i is not None and not self._is_rare[i]

    def log_prior(self, word: str) -> float:
        """Return log P of a word in lower case, without context, in nats; -inf if it is not known."""
        i = self._number(word)
        return -np.inf if i is None else float(self._priors[i]) + self.as_possessive(word)

    def as_possessive(self, word: str) -> float:
        """Return log P of a possessive, given its noun, in nats; 0 for words that are known themselves, and unknown
        ones.
        """
        lower = word.lower()
        return _AS_POSSESSIVE if lower not in self._known and noun_of(lower) in self._known else 0.0

    def log_ratio(self, word: str) -> float:
        """Return log P of a known word, less that under a plain model, which draws one letter after the other; in
        nats.
        """
        log_probs, end, other = self._letter_log_probs
        lower = word.lower()
        return self.log_prior(lower) - end - sum(log_probs.get(letter, other) for letter in lower)

    @cached_property
    def _letter_log_probs(self) -> tuple[dict[str, float], float, float]:
        """log P of each letter in the words, of a word's end, and of any other letter, in nats."""
        characters, offsets = concatenate(self._lower)
        weights = np.exp(self._priors - np.logaddexp.reduce(self._priors))
        codes, letters = np.unique(characters, return_inverse=True)
        shares = np.bincount(letters, np.repeat(weights, np.diff(offsets)))
        total = shares.sum() + 1
        log_probs = dict(zip(map(chr, codes.tolist()), np.log(shares / total).tolist(), strict=True))
        return log_probs, -float(np.log(total)), min(log_probs.values())

    def letters(self) -> frozenset[str]:
        """Return the characters of the words, in lower case, without those of rare words."""
        return frozenset().union(*(word for word, i in self._known.items() if not self._is_rare[i]))

    def lowered(self) -> Mapping[str, int]:
        """Return the words in lower case."""
        return self._known

    def written(self, word: str) -> str:
        """Return a known word with the capitals of the vocabulary: london -> London."""
        return self._form(word, self._written)

    def most_frequent_form(self, word: str) -> str:
        """Return a known word in its most frequent form in the vocabulary: i -> I."""
        return self._form(word, self._usual)

    def _form(self, word: str, forms: Sequence[str]) -> str:
        lower = word.lower()
        i = self._known.get(lower)
        return forms[i] if i is not None else forms[self._known[noun_of(lower)]] + lower[len(noun_of(lower)) :]

    def truecase(self, text: str, *, capitals: bool = False) -> str:
        """Return a text in looked-up form as the vocabulary writes its words: THE Dog -> the dog, i -> I.

        A missing capital is not supplied: london stays. A possessive that the vocabulary lacks is read as its noun.
        """

        def written(match: re.Match[str]) -> str:
            word = match.group()
            noun = noun_of(word)
            if noun.lower() in self._known and word.lower() not in self._known:
                word = noun
            if not (word in self._exact or word not in self or (capitals and word.islower())):
                word = self.written(word)
            return self._spelled.get(word, word)

        return WORD.sub(written, text)

    def candidates_for(self, observed: Sequence[str], errors: ErrorModel, most: int) -> list[list[CandidateWord]]:
        """Return, for each word in lower case, up to `most` others that may have been meant, by channel and prior
        together; for a possessive of an unknown noun, as many possessives, too.

        Known words are compared with those at distance 1, or with equal consonants; rare and unknown ones with those
        further away.
        """
        nouns = list(dict.fromkeys(noun_of(word) for word in observed if word not in self))
        meant = dict(zip(nouns, self._candidates(nouns, errors, most), strict=True))
        others = iter(self._candidates([word for word in observed if word not in meant], errors, most))
        rows = []
        for word in observed:
            noun = noun_of(word)
            row = meant[word] if word in meant else next(others)
            of_nouns = meant.get(noun, []) if noun != word else []
            rows.append([*row, *(one.possessive() for one in of_nouns if noun[-1] == "s" or one.word[-1] != "s")])
        return rows

    def _candidates(self, observed: Sequence[str], errors: ErrorModel, most: int) -> list[list[CandidateWord]]:
        """Return the same, of words of the index alone."""
        known = np.array([self.is_trusted(word) for word in observed], np.bool_)
        long = np.array([len(word) > 3 for word in observed], np.bool_)
        skeletons = [phonetic_key(word) for word in observed]
        loose = ~known & np.array([len(text) >= _SHORTEST_SKELETON for text in skeletons], np.bool_)
        size = len(self._lower)
        found: list[Int64[ndarray, " pairs"]] = []
        for first, near, alike in self._parts:
            by_letters = near.within(observed, np.where(known | ~long, 1, 2))
            for matches in (by_letters, alike.within(skeletons, loose.astype(np.int64))):
                owners = np.repeat(np.arange(len(observed)), np.diff(matches.ends, prepend=0))
                found.append(owners * size + first + matches.words)
        owners, words = np.divmod(np.unique(np.concatenate(found)), size)
        is_other = np.array(
            [self._lower[w] != observed[o] for o, w in zip(owners.tolist(), words.tolist(), strict=True)]
        )
        owners, words = (part[is_other.astype(np.bool_)] for part in (owners, words))
        log_probs = errors.log_probs([observed[o] for o in owners.tolist()], [self._lower[w] for w in words.tolist()])
        own = [self.log_prior(word) for word in observed]
        return self._best(np.array(own), owners, words, log_probs, most)

    def _best(
        self,
        own: Float64[ndarray, " observed"],
        owners: Int64[ndarray, " pairs"],
        words: Int64[ndarray, " pairs"],
        log_probs: Float64[ndarray, " pairs"],
        most: int,
    ) -> list[list[CandidateWord]]:
        """Return the best candidates; those far less likely than the best one, or than the observed word, are left out.

        own: log P of the observed words.
        """
        totals = log_probs + self._priors[words]
        best = own.copy()
        np.maximum.at(best, owners, totals)
        results: list[list[CandidateWord]] = [[] for _ in own]
        for i in np.lexsort((-totals, owners)).tolist():
            row = results[owners[i]]
            if len(row) < most and totals[i] > best[owners[i]] - _WITHIN:
                word = int(words[i])
                row.append(CandidateWord(self._written[word], float(log_probs[i])))
        return results


def phonetic_key(word: str) -> str:
    """Return a word without vowels, h, marks and doubled letters: fonetik -> fntk."""
    return _DOUBLED.sub(r"\1", _SILENT.sub("", word))
