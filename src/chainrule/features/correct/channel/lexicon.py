"""The words that may have been meant, with their probabilities without context; as a trie of arrays.

In the trie, the nodes of one depth lie together, in the order of the words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.errors import SettingError
from chainrule.features.correct.channel.channel_kernels import NO_WORD, meant_words
from chainrule.features.correct.channel.character_channel import concatenate
from chainrule.protocol import END, UNKNOWN
from chainrule.text.lookup import APOSTROPHES
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtyping import Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.evaluation.token_scores import Speller
    from chainrule.features.correct.channel.character_channel import Channel
    from chainrule.protocol import Scorer
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Prior = Callable[[Sequence[str]], Float64[ndarray, " words"]]


class Trie(NamedTuple):
    """characters[n]: the code point that leads to node n. children[n] .. children[n + 1]: the nodes after it, by
    character.

    words[n]: the word that ends at node n, or NO_WORD. Node 0 is the root.
    """

    characters: Int32[ndarray, " nodes"]
    children: Int64[ndarray, " nodes+1"]
    words: Int64[ndarray, " nodes"]

    @classmethod
    def of(cls, words: Sequence[str]) -> Trie:
        """Return the trie of sorted, distinct words that are not empty."""
        codes = np.array(words).view(np.uint32).reshape(len(words), -1).astype(np.int32)  # (words, longest), 0 after
        differs = np.ones(codes.shape, np.bool_)
        differs[1:] = np.logical_or.accumulate(codes[1:] != codes[:-1], axis=1)
        lengths = np.array([len(word) for word in words])
        characters, parents, ends = [np.zeros(1, np.int32)], [], [np.full(1, NO_WORD, np.int64)]
        above, size = np.zeros(len(words), np.int64), 1
        for depth in range(codes.shape[1]):
            is_node = differs[:, depth] & (lengths > depth)
            ids = size + np.cumsum(is_node) - 1
            end = np.full(int(is_node.sum()), NO_WORD, np.int64)
            is_end = lengths == depth + 1
            end[ids[is_end] - size] = np.flatnonzero(is_end)
            characters.append(codes[is_node, depth])
            parents.append(above[is_node])
            ends.append(end)
            above, size = ids, size + end.size
        counts = np.bincount(np.concatenate(parents), minlength=size)
        return cls(np.concatenate(characters), np.concatenate([[1], 1 + np.cumsum(counts)]), np.concatenate(ends))


WORD = re.compile(rf"[^\W_]+(?:[{APOSTROPHES}][^\W_]+)*")  # letters and digits, apostrophes inside
LONGEST = 40  # characters of a word
_MOST_MATCHES = 1 << 11  # of one text, repeated words included


class Candidate(NamedTuple):
    """A word, or two with a space between, that may have been meant. Nats."""

    text: str
    channel: float  # log P(observed | text)
    prior: float  # log P(text)


class Lexicon:
    """Words in a trie, with their probabilities."""

    def __init__(self, words: Iterable[str], prior: Prior) -> None:
        """Build a trie of the words. prior: the log-probabilities of words, whether they are in the lexicon or not.

        What is not a word (see WORD), or longer than LONGEST, is left out. Raises SettingError if nothing is left.
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
        """Return, for each observed text, the words that may have been meant, by descending P(observed | word) P(word).

        errors: the most rules that may have been applied to each. most: the most words for each text; the text itself
        is added if it is a word and not among them.
        """
        characters, offsets = concatenate(observed)
        matches = np.empty((len(observed), _MOST_MATCHES), np.int32)
        counts = np.empty(len(observed), np.int64)
        meant_words(characters, offsets, np.array(errors, np.int64), *channel.by_observed, *self._trie, matches, counts)
        distinct = [np.unique(row[:count]) for row, count in zip(matches, counts.tolist(), strict=True)]
        owners = np.repeat(np.arange(len(observed)), [words.size for words in distinct])
        words = np.concatenate([np.empty(0, np.int32), *distinct])
        texts = self.words[words].tolist()
        log_probs = channel.log_probs([observed[owner] for owner in owners.tolist()], texts)
        totals = log_probs + self._priors[words]
        order = np.lexsort((-totals, owners))
        results: list[list[Candidate]] = [[] for _ in observed]
        for i in order.tolist():
            row = results[owners[i]]
            if len(row) < most and np.isfinite(totals[i]):
                row.append(Candidate(texts[i], float(log_probs[i]), float(self._priors[words[i]])))
        self._add_themselves(results, channel, observed)
        return results

    def priors(self, words: Sequence[str]) -> Float64[ndarray, " words"]:
        """Return log P of some words of the lexicon."""
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
    """Return a model's log P of words without context: after the unknown word, which tells it next to nothing.

    For an n-gram model that has not seen <unk>, that is the unigram distribution. Unknown tokens cost their spelling.
    """
    unseen = np.log(max(speller.unseen_types, 1))
    context = np.array([UNKNOWN], np.int32)

    def prior(words: Sequence[str]) -> Float64[ndarray, " words"]:
        encoded = tokenizer.encode_texts(words)
        sequences = documents_of(encoded.ids)
        rows = model.score(sequences, prefixes=[context] * len(sequences), end=False)
        log_probs = np.array([row.sum(dtype=np.float64) for row in rows])
        positions = np.flatnonzero(encoded.ids == UNKNOWN)
        spelled = unseen + speller.log_probs([encoded.surface(position) for position in positions.tolist()])
        owners = np.cumsum(encoded.ids == END)[positions]  # a token's document: the number of those that ended before
        return log_probs + np.bincount(owners, spelled, len(words))

    return prior
