"""Proposals for the chunks of a text: other words by spelling, other marks, and corrections of grammar.

    Spelling  other words, one word for two that a space broke, two words for one
    Marks     other marks of punctuation around a word, or none, by a channel of errors in marks: a scan shows signs
              where there is nothing, and a comma for a full stop
    Grammar   other words and forms, words that were lost or put in, punctuation, capital letters

A word that was lost is proposed together with the chunk that it stood before, and one that was put in together with
the chunk after it: so a beam compares paths through the same chunks.
"""

from __future__ import annotations

from math import log, log1p
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.features.correct.channel.word_channel import MARKS, is_spaced
from chainrule.features.correct.corrector.spans import in_case_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from chainrule.features.correct.channel.inflections import Inflections
    from chainrule.features.correct.channel.word_channel import WordChannel
    from chainrule.features.correct.corrector.error_models import ErrorModel
    from chainrule.features.correct.corrector.spans import Chunk
    from chainrule.features.correct.corrector.word_index import WordIndex

_MARKS = ".,;:!?'\"-"
_MOST = 4  # alternatives for the marks on one side
_LONGEST = 4  # marks; more are left alone
_WITHIN = 8.0  # nats: a context rarely favours other marks by more
_EACH = 2.5  # nats that a mark costs without a context: about one word in twelve has it


class Marks:
    """The likeliest alternatives for marks, remembered."""

    def __init__(self, errors: ErrorModel) -> None:
        self._errors = errors
        self._known: dict[str, list[tuple[str, float]]] = {}

    def alternatives(self, marks: str) -> list[tuple[str, float]]:
        """Return other marks that may have been meant, each with log P(marks | other) - log P(marks | marks), in
        nats.
        """
        if marks not in self._known:
            self._known[marks] = self._best(marks)
        return self._known[marks]

    def _best(self, marks: str) -> list[tuple[str, float]]:
        if len(marks) > _LONGEST:
            return []
        others = sorted(set(_within_one_edit(marks)) - {marks})
        log_probs = self._errors.log_probs_of_marks([marks] * (len(others) + 1), [*others, marks])
        more = log_probs[:-1] - log_probs[-1]
        scores = more - _EACH * np.array([len(other) - len(marks) for other in others])
        best = np.argsort(-scores, kind="stable")[:_MOST].tolist()
        return [(others[i], float(more[i])) for i in best if scores[i] > -_WITHIN]


def _within_one_edit(marks: str) -> Iterable[str]:
    """Yield marks with one mark less; and, if all are usual ones, with one more, or with one replaced."""
    usual = _MARKS if all(mark in _MARKS for mark in marks) else ""
    for i in range(len(marks) + 1):
        yield from (marks[:i] + mark + marks[i:] for mark in usual)
        if i < len(marks):
            yield marks[:i] + marks[i + 1 :]
            yield from (marks[:i] + mark + marks[i + 1 :] for mark in usual)


_CLITICS = {"m", "ll", "ve", "d"}  # of I
# Nats that a word with a capital letter inside a sentence has for being a name and no other word; if it is not known,
# for being no word without a capital letter, and, beside a rare name, for being a name that is new.
_NAME, _NO_NAME, _RARE_NAME = 3.0, 9.0, 6.0
_FREQUENT_NAME, _TIMES_RARER = -12.0, 3.0  # log P of a name that is not rare; nats for each nat that one is rarer
_SMALL_LETTER = 4.0  # nats that the small letter of a word such as i has for being an error, and for being the only one
_FUNCTION_WORD = -6.0  # log P from which on a word is so frequent that the next one is often written with it: alot
_RUN_TOGETHER = 4.0  # nats by which a space after such a word is lost more often
_REAL_WORD = 3.0  # nats that a known word costs in whose place another one is put: most errors make no words
_ADDED = 3.0  # further nats for a known word that is new to the language model, so that any other fits better
_WITH_MARKS = 3  # variants of an unknown chunk, itself among them, that other marks are proposed with
_TWICE = -7.0  # log P that such a word is written twice
_REMEMBERED = 1 << 18  # words whose options are kept


class Proposal(NamedTuple):
    """A text that may have been meant by some chunks from one on. log_prob: log P(what was written | this), in nats."""

    chunks: int
    text: str
    log_prob: float


class _Options(NamedTuple):
    """The options for a word in lower case: log P(word | word), and its candidates, each with log P(word |
    candidate).
    """

    itself: float
    others: list[tuple[str, float]]


class Spelling:
    """Proposes words by a channel and an index of known words."""

    def __init__(self, words: WordIndex, errors: ErrorModel, most: int, *, supplies_capitals: bool = True) -> None:
        """Start without remembered words. most: the most candidates for a word. supplies_capitals: whether i
        becomes I.
        """
        self._words, self._errors, self._most, self._supplies_capitals = words, errors, most, supplies_capitals
        self._marks = Marks(errors)
        self._options: dict[str, _Options] = {}

    @property
    def knows_marks(self) -> bool:
        """Whether the channel rewrites marks, too, as a channel for scans does."""
        return self._errors.knows_marks

    def propose(self, texts: Sequence[str], parted: Sequence[list[Chunk]]) -> list[list[list[Proposal]]]:
        """Return the proposals for each chunk of each text; the chunk itself comes first."""
        self._look_up(
            {chunk.text[a:b].lower() for chunks in parted for chunk in chunks if not chunk.kept for a, b in chunk.words}
        )
        return [
            [
                [Proposal(1, *variant) for variant in self._variants(chunk, is_alone=len(chunks) == 1)]
                + self._of_two(text, chunks, i)
                for i, chunk in enumerate(chunks)
            ]
            for text, chunks in zip(texts, parted, strict=True)
        ]

    def _look_up(self, words: set[str]) -> None:
        """Find candidates for new words, in lower case."""
        if len(self._options) > _REMEMBERED:
            self._options.clear()
        new = sorted(words - self._options.keys())
        meant = self._words.candidates_for(new, self._errors, self._most)
        itself = self._errors.log_probs(new, new).tolist()
        split = self._split([word for word in new if not self._words.is_trusted(word)])
        for word, others, log_prob in zip(new, meant, itself, strict=True):
            known = [(one.word, one.log_prob + self._words.as_possessive(one.word)) for one in others]
            self._options[word] = _Options(log_prob + self._words.as_possessive(word), known + split.get(word, []))

    def _variants(self, chunk: Chunk, *, is_alone: bool) -> list[tuple[str, float]]:
        """Return variants that a chunk may have meant, with log P(chunk | variant); itself first.

        Variants differ in one word. is_alone: whether the chunk is the whole text, as in a list of words.
        """
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
            is_capitalised = chunk.is_name(a) and not word.isupper()
            is_known = self._words.is_trusted(word)
            right = is_known * _REAL_WORD + (word.lower() in self._words.added) * _ADDED
            if (capital := self._pronoun(chunk, a, b)) != word:
                right += _SMALL_LETTER
                if self._supplies_capitals:
                    variants[chunk.text[:a] + capital + chunk.text[b:]] = same
                    variants[chunk.text] -= _SMALL_LETTER
            for other, log_prob in one.others:
                cased = in_case_of(other if word.isalpha() else self._alone(other), word, begins_sentence=begins)
                variant = chunk.text[:a] + cased + chunk.text[b:]
                name = 0.0
                if is_capitalised:
                    name = _NAME if is_known or other[:1].isupper() else _NO_NAME
                if not (is_known or is_alone) and word[:1].isupper() and other[:1].isupper():
                    rarity = _FREQUENT_NAME - self._words.log_prior(other.lower())
                    name += min(_RARE_NAME, max(0.0, _TIMES_RARER * rarity))
                total = same - one.itself + log_prob - name - right
                if variants.get(variant, -np.inf) < total and variant != chunk.text:
                    variants[variant] = total
        if self.knows_marks:
            self._add_marks(chunk, variants)
        return list(variants.items())

    def _add_marks(self, chunk: Chunk, variants: dict[str, float]) -> None:
        """Add the likeliest variants with other marks before, between or after their words; or none, for a single mark.

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
        """Return unknown words as two known ones whose space was lost, with log P(word | both).

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
                is_frequent = self._words.log_prior(pair.split(" ")[0].lower()) > _FUNCTION_WORD
                split.setdefault(word, []).append((pair, log_prob + is_frequent * _RUN_TOGETHER))
        return split

    def _alone(self, word: str) -> str:
        """Return a known word of one letter in its most frequent form (i -> I); other words unchanged."""
        return self._words.most_frequent_form(word) if len(word) == 1 and word in self._words else word

    def _pronoun(self, chunk: Chunk, a: int, b: int) -> str:
        """Return the only word of a chunk as I or I'm, where it is i or i'm and I is more frequent; not in i.e.
        or (i).
        """
        letter, mark, clitic = chunk.text[a:b].partition("'")
        is_pronoun = letter == "i" and letter in self._words and (not mark or clitic in _CLITICS)
        if not is_pronoun or len(chunk.words) > 1 or (chunk.text[a - 1 : a] == "(" and chunk.text[b : b + 1] == ")"):
            return chunk.text[a:b]
        return self._words.most_frequent_form(letter) + mark + clitic

    def _of_two(self, text: str, chunks: list[Chunk], i: int) -> list[Proposal]:
        """Return a chunk and the next one as one word: broken by a space, or written twice."""
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
        if left.lower() == right.text[:end].lower():  # other words than frequent ones are repeated on purpose
            is_frequent = self._words.log_prior(left.lower()) > _FUNCTION_WORD
            return [Proposal(2, left + after, _TWICE)] if is_frequent else []
        if word not in self._words or (left in self._words and right.text[:end] in self._words and len(word) < 4):
            return []
        log_prob = self._errors.log_probs([f"{left} {right.text[:end]}".lower()], [word.lower()])[0]
        return [Proposal(2, word + after, float(log_prob))] if np.isfinite(log_prob) else []


_VARIANTS = 2  # of a chunk, the word itself among them, that other words are proposed with
_CLOSED = (".", "!", "?", ":", ";", ",", '"', "'", "”", "’", ")")


class Grammar:
    """Proposes texts that a channel of grammar could have turned into a text's chunks."""

    def __init__(self, channel: WordChannel, inflections: Inflections, words: WordIndex) -> None:
        self.name = channel.name
        self._channel, self._words = channel, words
        self._inflections = inflections
        self._lost = channel.by_written.get("", [])
        self._added = {rule.written: log(rule.prob) for rule in channel.by_meant.get("", [])}

    def propose(self, text: str, chunks: Sequence[Chunk], rows: Sequence[Sequence[Proposal]]) -> list[list[Proposal]]:
        """Return the proposals of spelling with those of grammar.

        rows: for each chunk, the proposals of spelling, itself first.
        """
        spaced = is_spaced(text)
        kept_probs = [self._unchanged(chunk) for chunk in chunks]
        singles = [
            [one._replace(log_prob=one.log_prob + kept) for one in row if one.chunks == 1]
            for row, kept in zip(rows, kept_probs, strict=True)
        ]
        proposed = []
        for i, (chunk, row) in enumerate(zip(chunks, rows, strict=True)):
            best: dict[tuple[int, str], float] = {}
            ways = [*singles[i], *(one for one in row if one.chunks > 1), *self._other_words(chunk, singles[i])]
            ends = (not i, i + 1 == len(chunks))
            ways += self._with_a_lost_word(chunk, singles[i], ends, spaced=spaced)
            ways += self._without_an_added_word(chunks, singles, i, spaced=spaced)
            for way in ways:
                key = way.chunks, way.text
                if key not in best or best[key] < way.log_prob:
                    best[key] = way.log_prob
            proposed.append([Proposal(*key, log_prob) for key, log_prob in best.items()])
        return proposed

    def _unchanged(self, chunk: Chunk) -> float:
        """Return log P that the text is as it was meant."""
        _, word, _ = _parts(chunk)
        changed = self._channel.changed(word.lower())
        if self._inflections.others(word.lower()):
            changed += self._channel.inflected
        return log1p(-min(changed, 0.99))

    def _other_words(self, chunk: Chunk, variants: Sequence[Proposal]) -> Iterator[Proposal]:
        """Yield words that are confused, other forms, and capital letters."""
        before, word, after = _parts(chunk)
        if not word or (chunk.kept and word not in MARKS):
            return
        lower, begins = word.lower(), chunk.begins_sentence and not before

        def instead(other: str, log_prob: float) -> Proposal:
            return Proposal(1, before + in_case_of(other, word, begins_sentence=begins) + after, log_prob)

        for rule in self._channel.by_written.get(lower, ()):
            if rule.meant and word != "I":
                yield instead(rule.meant, log(rule.prob))
        if self._channel.inflected:
            forms = [Proposal(1, word, 0.0)]
            if word not in self._words:
                spelled = variants[1 : 1 + _VARIANTS]
                forms += [one._replace(text=one.text.removeprefix(before).removesuffix(after)) for one in spelled]
            for form in forms:
                for other in self._inflections.others(form.text.lower()):
                    share = self._channel.inflected / max(1, len(self._inflections.others(other)))
                    yield instead(other, form.log_prob + log(share))
        if self._channel.uncapitalised and word[:1].islower():
            capital = (
                word.capitalize() if begins else self._words.most_frequent_form(word) if word in self._words else word
            )
            if capital != word:
                yield Proposal(1, before + capital + after, log(self._channel.uncapitalised))

    def _with_a_lost_word(
        self, chunk: Chunk, variants: Sequence[Proposal], ends: tuple[bool, bool], *, spaced: bool
    ) -> Iterator[Proposal]:
        """Yield a word before the chunk, or a mark. ends: whether the chunk is the text's first, and its last."""
        is_first, is_last = ends
        known = chunk.kept or not chunk.words or chunk.text[slice(*chunk.words[0])] in self._words
        for variant in variants[: 1 if known else _VARIANTS]:
            is_word = variant.text[:1].isalnum()
            for meant, _, prob in self._lost:
                log_prob = variant.log_prob + log(prob)
                if meant in MARKS:
                    is_end = meant in ".!?"
                    if chunk.text.endswith(_CLOSED) or (is_end and not is_last):
                        continue
                    if is_end or not spaced:
                        if not is_last or is_end:
                            yield Proposal(1, f"{variant.text}{' ' if spaced else ''}{meant}", log_prob)
                    elif not is_first and is_word:
                        yield Proposal(1, f"{meant} {variant.text}", log_prob)
                elif is_word and chunk.begins_sentence:
                    yield Proposal(1, f"{meant.capitalize()} {self._uncapitalised(variant.text)}", log_prob)
                elif is_word or not spaced:
                    yield Proposal(1, f"{meant} {variant.text}", log_prob)

    def _without_an_added_word(
        self, chunks: Sequence[Chunk], variants: Sequence[Sequence[Proposal]], i: int, *, spaced: bool
    ) -> Iterator[Proposal]:
        """Yield the chunk after an inserted word, without that word; or the chunk without its mark."""
        chunk = chunks[i]
        log_prob = self._added.get(chunk.text.lower())
        if log_prob is not None and i + 1 < len(chunks):
            for variant in variants[i + 1][:_VARIANTS]:
                text = variant.text
                if chunk.text[:1].isupper() and chunk.begins_sentence:
                    text = text[:1].upper() + text[1:]
                yield Proposal(2, text, log_prob + variant.log_prob)
        mark = chunk.text[-1]
        if not spaced and len(chunk.text) > 1 and mark in self._added and mark in MARKS and i + 1 < len(chunks):
            for variant in variants[i][:_VARIANTS]:
                yield Proposal(1, variant.text[:-1], self._added[mark] + variant.log_prob)

    def _uncapitalised(self, text: str) -> str:
        """Return a text without the capital letter of a sentence's beginning, if its first word is known without."""
        word = text.split(" ", 1)[0]
        if word in self._words and self._words.written(word)[:1].islower() and not word[1:2].isupper():
            return text[:1].lower() + text[1:]
        return text


def _parts(chunk: Chunk) -> tuple[str, str, str]:
    """Return the text before the chunk's only word, the word, and the text after it; a mark by itself counts as the
    word.
    """
    if len(chunk.words) == 1:
        [(a, b)] = chunk.words
        return chunk.text[:a], chunk.text[a:b], chunk.text[b:]
    return ("", chunk.text, "") if chunk.text in MARKS else ("", "", "")
