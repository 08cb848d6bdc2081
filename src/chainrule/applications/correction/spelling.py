"""What may have been meant by the chunks of a text: other words, one word for two that a space broke, two for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.applications.correction.chunks import in_case_of
from chainrule.applications.correction.punctuation import Marks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.applications.correction.chunks import Chunk
    from chainrule.applications.correction.errors import ErrorModel
    from chainrule.applications.correction.word_index import WordIndex

# Nats that an unknown word with a capital letter inside a sentence has for being a name: another one, or no known one.
_NAME, _NEW_NAME = 3.0, 9.0
_WITH_MARKS = 3  # variants of an unknown chunk, itself among them, that other marks are proposed with
_REMEMBERED = 1 << 18  # words whose options are kept


class Proposal(NamedTuple):
    """What may have been meant by some chunks, from one on. log_prob: of what was written, given this. Nats."""

    chunks: int
    text: str
    log_prob: float


class _Options(NamedTuple):
    """For a word in lower case: log P(word | word), and its candidates, each with log P(word | candidate)."""

    itself: float
    others: list[tuple[str, float]]


class Spelling:
    """Proposes words by a channel and the words that there are."""

    def __init__(self, words: WordIndex, errors: ErrorModel, most: int) -> None:
        """most: proposals for a word."""
        self._words, self._errors, self._most = words, errors, most
        self._marks = Marks(errors)
        self._options: dict[str, _Options] = {}

    @property
    def knows_marks(self) -> bool:
        """Whether the channel rewrites marks, too, as that of a scan does."""
        return self._errors.knows_marks

    def propose(self, texts: Sequence[str], parted: Sequence[list[Chunk]]) -> list[list[list[Proposal]]]:
        """For each chunk of each text, itself first."""
        self._look_up(
            {chunk.text[a:b].lower() for chunks in parted for chunk in chunks if not chunk.kept for a, b in chunk.words}
        )
        return [
            [
                [Proposal(1, *variant) for variant in self._variants(chunk)] + self._joined(text, chunks, i)
                for i, chunk in enumerate(chunks)
            ]
            for text, chunks in zip(texts, parted, strict=True)
        ]

    def _look_up(self, words: set[str]) -> None:
        """Finds candidates for new words, in lower case."""
        if len(self._options) > _REMEMBERED:
            self._options.clear()
        new = sorted(words - self._options.keys())
        meant = self._words.meant_by(new, self._errors, self._most)
        itself = self._errors.log_probs(new, new).tolist()
        split = self._split([word for word in new if word not in self._words])
        for word, others, log_prob in zip(new, meant, itself, strict=True):
            self._options[word] = _Options(log_prob, [(one.word, one.log_prob) for one in others] + split.get(word, []))

    def _variants(self, chunk: Chunk) -> list[tuple[str, float]]:
        """What a chunk may have meant, with log P(chunk | variant); itself first. Variants differ in one word."""
        if chunk.kept:
            return [(chunk.text, 0.0)]
        if not chunk.words:
            return [(chunk.text, 0.0), *(self._marks.alternatives(chunk.text) if self.knows_marks else ())]
        options = [self._options[chunk.text[a:b].lower()] for a, b in chunk.words]
        same = sum(one.itself for one in options)
        variants = {chunk.text: same}
        for (a, b), one in zip(chunk.words, options, strict=True):
            word = chunk.text[a:b]
            begins = chunk.begins_sentence and a == chunk.words[0][0]
            is_name = word[:1].isupper() and not begins and not word.isupper() and word not in self._words
            for other, log_prob in one.others:
                cased = in_case_of(other if word.isalpha() else self._alone(other), word, begins_sentence=begins)
                variant = chunk.text[:a] + cased + chunk.text[b:]
                total = same - one.itself + log_prob - is_name * (_NAME if other[:1].isupper() else _NEW_NAME)
                if variants.get(variant, -np.inf) < total and variant != chunk.text:
                    variants[variant] = total
        if self.knows_marks:
            self._add_marks(chunk, variants)
        return list(variants.items())

    def _add_marks(self, chunk: Chunk, variants: dict[str, float]) -> None:
        """Adds the likeliest variants with other marks before, between or after their words; or none, for a lone sign.

        Known words keep their letters if their marks change.
        """
        written = chunk.text
        edges = [0, *(edge for word in chunk.words for edge in word), len(written)]
        gaps = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b or a in (0, len(written))]
        is_known = all(written[a:b] in self._words for a, b in chunk.words)
        for text, log_prob in list(variants.items())[: 1 if is_known else _WITH_MARKS]:
            longer = len(text) - len(written)  # in one word, which stands before a gap or after it
            for a, b in gaps:
                shift = 0 if b < len(written) and text.startswith(written[:b]) else longer
                for other, more in self._marks.alternatives(written[a:b]):
                    variants.setdefault(text[: a + shift] + other + text[b + shift :], log_prob + more)
        if len(written) == 1 and not written.isalnum():
            for other, more in self._marks.alternatives(written):
                variants.setdefault(other, more)

    def _split(self, words: list[str]) -> dict[str, list[tuple[str, float]]]:
        """Unknown words as two known ones whose space was lost, with log P(word | both).

        In a scan, a first word of one letter may be misread, too: Thave -> I have.
        """
        letters = self._words.of_a_letter if self.knows_marks else ()
        cuts = [
            (word, f"{self._alone(left)} {self._alone(word[cut:])}")
            for word in words
            for cut in range(1, len(word))
            if word[cut:] in self._words
            for left in dict.fromkeys((word[:cut], *letters) if cut == 1 else (word[:cut],))
            if left in self._words
        ]
        log_probs = self._errors.log_probs([word for word, _ in cuts], [pair.lower() for _, pair in cuts]).tolist()
        split: dict[str, list[tuple[str, float]]] = {}
        for (word, pair), log_prob in zip(cuts, log_probs, strict=True):
            if np.isfinite(log_prob):
                split.setdefault(word, []).append((pair, log_prob))
        return split

    def _alone(self, word: str) -> str:
        """A known word of one letter as it is most often: i -> I. Others as they are."""
        return self._words.usual(word) if len(word) == 1 and word in self._words else word

    def _joined(self, text: str, chunks: list[Chunk], i: int) -> list[Proposal]:
        """Two chunks that may be one known word, broken by a space."""
        if i + 1 >= len(chunks) or chunks[i].kept or chunks[i + 1].kept:
            return []
        left, right = chunks[i].text, chunks[i + 1]
        if (
            len(right.words) != 1
            or not left.isalpha()
            or right.words[0][0] != 0
            or text[chunks[i].stop : right.start] != " "
        ):
            return []
        end = right.words[0][1]
        word, after = left + right.text[:end], right.text[end:]
        if word not in self._words or (left in self._words and right.text[:end] in self._words and len(word) < 4):
            return []
        log_prob = self._errors.log_probs([f"{left} {right.text[:end]}".lower()], [word.lower()])[0]
        return [Proposal(2, word + after, float(log_prob))] if np.isfinite(log_prob) else []
