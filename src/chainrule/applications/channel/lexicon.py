"""The words that may have been meant, with how likely each is without context."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.applications.channel.channel import joined
from chainrule.applications.channel.channel_kernels import meant_words
from chainrule.applications.channel.trie import Trie
from chainrule.errors import SettingError
from chainrule.protocol import END, UNKNOWN
from chainrule.text.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.applications.channel.channel import Channel
    from chainrule.evaluation.token_costs import Speller
    from chainrule.protocol import Scorer
    from chainrule.text.tokenizer import Tokenizer

    Prior = Callable[[Sequence[str]], Float64[ndarray, " words"]]

WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")  # letters and digits, apostrophes inside
LONGEST = 40  # characters of a word
_ROOM = 1 << 11  # words found for one text, with those found again


class Candidate(NamedTuple):
    """A word, or two with a space between, that may have been meant. Nats."""

    text: str
    channel: float  # log P(observed | text)
    prior: float  # log P(text)


class Lexicon:
    """Words in a trie: the nodes of one depth lie together, in the order of the words."""

    def __init__(self, words: Iterable[str], prior: Prior) -> None:
        """prior: the log-probabilities of words, whether they are in the lexicon or not.

        What is no word (see WORD), or longer than LONGEST, is left out. Raises SettingError where nothing is left.
        """
        kept = sorted({word for word in words if len(word) <= LONGEST and WORD.fullmatch(word)})
        if not kept:
            raise SettingError("there is no word among the tokens; name a list of words, or a model of words")
        self._prior = prior
        self.words = np.array(kept, dtype=object)
        self._priors = prior(kept)
        self._known = {word: i for i, word in enumerate(kept)}
        self._trie = Trie.of(kept)

    def __contains__(self, word: str) -> bool:
        return word in self._known

    def candidates(
        self, channel: Channel, observed: Sequence[str], errors: Sequence[int], most: int
    ) -> list[list[Candidate]]:
        """For each observed text, the words that may have been meant, the likeliest of both together first.

        errors: how many rules may have been at work in each. most: so many of them, the text itself added where it is
        a word and not among them.
        """
        characters, offsets = joined(observed)
        found = np.empty((len(observed), _ROOM), np.int32)
        counts = np.empty(len(observed), np.int64)
        meant_words(characters, offsets, np.array(errors, np.int64), *channel.by_observed, *self._trie, found, counts)
        kinds = [np.unique(row[:count]) for row, count in zip(found, counts.tolist(), strict=True)]
        owners = np.repeat(np.arange(len(observed)), [kind.size for kind in kinds])
        places = np.concatenate([np.empty(0, np.int32), *kinds])
        texts = self.words[places].tolist()
        log_probs = channel.log_probs([observed[owner] for owner in owners.tolist()], texts)
        totals = log_probs + self._priors[places]
        order = np.lexsort((-totals, owners))
        results: list[list[Candidate]] = [[] for _ in observed]
        for i in order.tolist():
            row = results[owners[i]]
            if len(row) < most and np.isfinite(totals[i]):
                row.append(Candidate(texts[i], float(log_probs[i]), float(self._priors[places[i]])))
        self._add_themselves(results, channel, observed)
        return results

    def priors(self, words: Sequence[str]) -> Float64[ndarray, " words"]:
        """log P of some words of the lexicon."""
        return self._priors[[self._known[word] for word in words]]

    def _add_themselves(self, results: list[list[Candidate]], channel: Channel, observed: Sequence[str]) -> None:
        lacking = [i for i, row in enumerate(results) if all(candidate.text != observed[i] for candidate in row)]
        lacking = [i for i in lacking if WORD.fullmatch(observed[i])]
        texts = [observed[i] for i in lacking]
        if texts:
            rows = zip(lacking, channel.log_probs(texts, texts).tolist(), self._prior(texts).tolist(), strict=True)
            for i, log_prob, prior in rows:
                results[i].append(Candidate(observed[i], log_prob, prior))


def prior_of(model: Scorer, tokenizer: Tokenizer, speller: Speller) -> Prior:
    """What a model thinks of words by themselves: log P after the unknown word, which tells it next to nothing.

    Of an n-gram model that has not seen <unk>, that is the unigram distribution. Unknown tokens cost their spelling.
    """
    unseen = np.log(max(speller.unseen_types, 1))
    context = np.array([UNKNOWN], np.int32)

    def prior(words: Sequence[str]) -> Float64[ndarray, " words"]:
        encoded = tokenizer.encode_texts(words)
        sequences = documents_of(encoded.ids)
        rows = model.score(sequences, prefixes=[context] * len(sequences), end=False)
        found = np.array([row.sum(dtype=np.float64) for row in rows])
        places = np.flatnonzero(encoded.ids == UNKNOWN)
        spelled = unseen + speller.log_probs([encoded.surface(place) for place in places.tolist()])
        owners = np.cumsum(encoded.ids == END)[places]  # the documents that end before a token are those before its own
        return found + np.bincount(owners, spelled, len(words))

    return prior
