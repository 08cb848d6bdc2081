"""What may have been meant by the chunks of a text beyond spelling: other words and forms, words that were lost or put
in, punctuation, capital letters.

A word that was lost is proposed together with the chunk that it stood before, and one that was put in together with
the chunk after it: so a beam compares ways through the same chunks.
"""

from __future__ import annotations

from math import log, log1p
from typing import TYPE_CHECKING

from chainrule.applications.channel.grammar import MARKS, is_spaced
from chainrule.applications.correction.chunks import in_case_of
from chainrule.applications.correction.spelling import Proposal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chainrule.applications.channel.grammar import GrammarChannel
    from chainrule.applications.channel.inflections import Inflections
    from chainrule.applications.correction.chunks import Chunk
    from chainrule.applications.correction.word_index import WordIndex

_VARIANTS = 2  # of a chunk, the word itself among them, that other words are proposed with
_CLOSED = (".", "!", "?", ":", ";", ",", '"', "'", "”", "’", ")")


class Grammar:
    """Proposes what a channel of grammar could have made a text's chunks of."""

    def __init__(self, channel: GrammarChannel, inflections: Inflections, words: WordIndex) -> None:
        self.name = channel.name
        self._channel, self._words = channel, words
        self._inflections = inflections
        self._lost = channel.by_written.get("", [])
        self._added = {rule.written: log(rule.prob) for rule in channel.by_meant.get("", [])}

    def propose(self, text: str, chunks: Sequence[Chunk], rows: Sequence[Sequence[Proposal]]) -> list[list[Proposal]]:
        """rows: for each chunk, what spelling proposes, itself first. These, with the proposals of grammar."""
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
        """log P that what was meant stands there."""
        _, word, _ = _parts(chunk)
        changed = self._channel.changed(word.lower())
        if self._inflections.others(word.lower()):
            changed += self._channel.inflected
        return log1p(-min(changed, 0.99))

    def _other_words(self, chunk: Chunk, variants: Sequence[Proposal]) -> Iterator[Proposal]:
        """Words that are confused, other forms, and capital letters."""
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
            capital = word.capitalize() if begins else self._words.usual(word) if word in self._words else word
            if capital != word:
                yield Proposal(1, before + capital + after, log(self._channel.uncapitalised))

    def _with_a_lost_word(
        self, chunk: Chunk, variants: Sequence[Proposal], ends: tuple[bool, bool], *, spaced: bool
    ) -> Iterator[Proposal]:
        """A word before the chunk, or a mark. ends: whether the chunk is the text's first, and its last."""
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
        """The chunk after one that was put in; or without its mark."""
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
        """A text without the capital letter of a sentence's beginning, if its first word is known without."""
        word = text.split(" ", 1)[0]
        if word in self._words and self._words.written(word)[:1].islower() and not word[1:2].isupper():
            return text[:1].lower() + text[1:]
        return text


def _parts(chunk: Chunk) -> tuple[str, str, str]:
    """What stands before the chunk's only word, it, and what stands after it; a mark by itself is its word."""
    if len(chunk.words) == 1:
        [(a, b)] = chunk.words
        return chunk.text[:a], chunk.text[a:b], chunk.text[b:]
    return ("", chunk.text, "") if chunk.text in MARKS else ("", "", "")
