"""Corrects texts: builds a lattice of what may have been meant, and follows the best path through it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.applications.correction.chunks import chunks_of, in_case_of
from chainrule.applications.correction.lattice import Arc, Variant, best_paths
from chainrule.errors import SettingError
from chainrule.protocol import UNKNOWN
from chainrule.text.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chainrule.applications.correction.chunks import Chunk
    from chainrule.applications.correction.errors import ErrorModel
    from chainrule.applications.correction.lattice import Path
    from chainrule.applications.correction.word_index import WordIndex
    from chainrule.evaluation.token_costs import Speller
    from chainrule.protocol import Scorer
    from chainrule.text.tokenizer import Tokenizer

_NAME = 3.0  # nats against correcting an unknown word that may be a name: it has a capital inside a sentence
_LEAST_KNOWN = 0.5  # share of known words below which a text is taken for another language
_REMEMBERED = 1 << 18  # words whose options are kept
_FEW_WORDS = 8  # below which the language is not judged


@dataclass(frozen=True, kw_only=True)
class CorrectionConfig:
    """How texts are corrected.

    beam: the most paths kept at each position. candidates: the most candidates for each word. at_least: the least
    probability of a change. weight: of the language model, relative to the channel. keep: words that are never changed.
    Raises SettingError.
    """

    beam: int = 4
    candidates: int = 6
    at_least: float = 0.5
    weight: float = 1.0
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, least, most in (
            ("beam", 1, 1 << 10),
            ("candidates", 1, 1 << 10),
            ("at_least", 0.0, 1.0),
            ("weight", 0.0, 100.0),
        ):
            if not least <= (value := getattr(self, name)) <= most:
                raise SettingError(f"{name} is {value}; expected {least} to {most}")


class Change(NamedTuple):
    """A correction of a part of a text. start, stop: in characters of the original text."""

    start: int
    stop: int
    before: str
    after: str
    prob: float  # of this change, among the paths that the beam kept


class Corrected(NamedTuple):
    """A text, its correction, and where they differ. note: the reason why nothing was changed, if there is one."""

    text: str
    corrected: str
    changes: tuple[Change, ...]
    note: str | None = None

    def with_changes(self, changes: Iterable[Change]) -> str:
        """The text with only these changes applied."""
        return apply_changes(self.text, changes)


def apply_changes(text: str, changes: Iterable[Change]) -> str:
    """A text with changes applied. changes: in the order of the text."""
    parts, end = [], 0
    for change in changes:
        parts += [text[end : change.start], change.after]
        end = change.stop
    return "".join([*parts, text[end:]])


class _Options(NamedTuple):
    """For a word in lower case: log P(word | word), and its candidates, each with log P(word | candidate)."""

    itself: float
    others: list[tuple[str, float]]


class Corrector:
    """Corrects texts with a language model, an error model and a list of words."""

    def __init__(
        self,
        model: Scorer,
        tokenizer: Tokenizer,
        speller: Speller | None,
        words: WordIndex,
        errors: ErrorModel,
        config: CorrectionConfig | None = None,
    ) -> None:
        self._model, self._tokenizer, self._speller = model, tokenizer, speller
        self._words, self._errors, self._config = words, errors, config or CorrectionConfig()
        self._options: dict[str, _Options] = {}
        self._keep = frozenset(word.lower() for word in self._config.keep)

    def correct(self, texts: Sequence[str]) -> list[Corrected]:
        """Corrects each text independently of the others."""
        parted = [chunks_of(text, self._keep) for text in texts]
        notes = [self._reason_to_keep(chunks) for chunks in parted]
        read = [i for i, note in enumerate(notes) if note is None and parted[i]]
        lattices = self._lattices([texts[i] for i in read], [parted[i] for i in read])
        config = self._config
        paths = best_paths(self._model, lattices, beam=config.beam, weight=config.weight)
        results = [Corrected(text, text, (), note) for text, note in zip(texts, notes, strict=True)]
        for i, ways in zip(read, paths, strict=True):
            changes = self._changes(texts[i], parted[i], ways)
            results[i] = Corrected(texts[i], apply_changes(texts[i], changes), changes)
        return results

    def _reason_to_keep(self, chunks: list[Chunk]) -> str | None:
        words = [chunk.text[a:b] for chunk in chunks if not chunk.kept for a, b in chunk.words]
        known = sum(word in self._words for word in words)
        if len(words) >= _FEW_WORDS and known < _LEAST_KNOWN * len(words):
            return f"the model knows {known} of {len(words)} words, too few for its language; nothing was changed"
        return None

    def _changes(self, text: str, chunks: list[Chunk], paths: list[Path]) -> tuple[Change, ...]:
        """The changes of the best path that are probable enough, by all paths."""
        log_probs = np.array([path.log_prob for path in paths])
        probs = np.exp(log_probs - np.logaddexp.reduce(log_probs))
        taken: dict[tuple[int, int, str], float] = {}
        for path, prob in zip(paths, probs.tolist(), strict=True):
            for first, arc in _placed(path):
                key = first, arc.chunks, arc.variant.text
                taken[key] = taken.get(key, 0.0) + prob
        changes = []
        for first, arc in _placed(paths[0]):
            start, stop = chunks[first].start, chunks[first + arc.chunks - 1].stop
            prob = min(1.0, taken[first, arc.chunks, arc.variant.text])
            if arc.variant.text != text[start:stop] and prob >= self._config.at_least:
                changes.append(Change(start, stop, text[start:stop], arc.variant.text, prob))
        return tuple(changes)

    def _lattices(self, texts: list[str], parted: list[list[Chunk]]) -> list[list[list[Arc]]]:
        self._look_up(
            {chunk.text[a:b].lower() for chunks in parted for chunk in chunks if not chunk.kept for a, b in chunk.words}
        )
        options: list[list[list[tuple[int, str, float]]]] = []
        for text, chunks in zip(texts, parted, strict=True):
            rows = []
            for i, chunk in enumerate(chunks):
                row = [(1, variant, log_prob) for variant, log_prob in self._variants(chunk)]
                row += self._joined(text, chunks, i)
                rows.append([(n, f" {variant}" if i else variant, log_prob) for n, variant, log_prob in row])
            options.append(rows)
        encoded = self._encoded({variant for rows in options for row in rows for _, variant, _ in row})
        return [
            [
                [
                    Arc(n, Variant(variant[1:] if i else variant, log_prob, *encoded[variant]))
                    for n, variant, log_prob in row
                ]
                for i, row in enumerate(rows)
            ]
            for rows in options
        ]

    def _look_up(self, words: set[str]) -> None:
        """Finds candidates for new words, in lower case."""
        if len(self._options) > _REMEMBERED:
            self._options.clear()
        new = sorted(words - self._options.keys())
        meant = self._words.meant_by(new, self._errors, self._config.candidates)
        itself = self._errors.log_probs(new, new).tolist()
        split = self._split([word for word in new if word not in self._words])
        for word, others, log_prob in zip(new, meant, itself, strict=True):
            self._options[word] = _Options(log_prob, [(one.word, one.log_prob) for one in others] + split.get(word, []))

    def _variants(self, chunk: Chunk) -> list[tuple[str, float]]:
        """What a chunk may have meant, with log P(chunk | variant); itself first. Variants differ in one word."""
        if chunk.kept or not chunk.words:
            return [(chunk.text, 0.0)]
        options = [self._options[chunk.text[a:b].lower()] for a, b in chunk.words]
        same = sum(one.itself for one in options)
        variants = {chunk.text: same}
        for (a, b), one in zip(chunk.words, options, strict=True):
            word = chunk.text[a:b]
            begins = chunk.begins_sentence and a == chunk.words[0][0]
            is_name = word[:1].isupper() and not begins and not word.isupper() and word not in self._words
            for other, log_prob in one.others:
                variant = chunk.text[:a] + in_case_of(other, word, begins_sentence=begins) + chunk.text[b:]
                total = same - one.itself + log_prob - (_NAME if is_name else 0.0)
                if variants.get(variant, -np.inf) < total and variant != chunk.text:
                    variants[variant] = total
        return list(variants.items())

    def _split(self, words: list[str]) -> dict[str, list[tuple[str, float]]]:
        """Unknown words as two known ones whose space was lost, with log P(word | both)."""
        cuts = [
            (word, f"{word[:cut]} {word[cut:]}")
            for word in words
            for cut in range(1, len(word))
            if word[:cut] in self._words and word[cut:] in self._words
        ]
        log_probs = self._errors.log_probs([word for word, _ in cuts], [pair for _, pair in cuts]).tolist()
        split: dict[str, list[tuple[str, float]]] = {}
        for (word, pair), log_prob in zip(cuts, log_probs, strict=True):
            if np.isfinite(log_prob):
                split.setdefault(word, []).append((pair, log_prob))
        return split

    def _joined(self, text: str, chunks: list[Chunk], i: int) -> list[tuple[int, str, float]]:
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
        return [(2, word + after, float(log_prob))] if np.isfinite(log_prob) else []

    def _encoded(self, variants: set[str]) -> dict[str, tuple[tuple[int, ...], float]]:
        """The tokens of each variant, and the log-probability of the spelling of its unknown ones, in nats."""
        ordered = sorted(variants)
        encoded = self._tokenizer.encode_texts([self._words.as_known(variant) for variant in ordered])
        rows = [tuple(row.tolist()) for row in documents_of(encoded.ids)]
        costs = np.zeros(len(ordered))
        unknown = np.flatnonzero(encoded.ids == UNKNOWN)
        if unknown.size and self._speller is not None:
            ends = np.cumsum([len(row) + 1 for row in rows])
            owners = np.searchsorted(ends, unknown, side="right")
            spelled = self._speller.log_probs([encoded.surface(place) for place in unknown.tolist()])
            np.add.at(costs, owners, spelled + np.log(max(self._speller.unseen_types, 1)))
        return dict(zip(ordered, zip(rows, costs.tolist(), strict=True), strict=True))


def _placed(path: Path) -> list[tuple[int, Arc]]:
    """A path's arcs, each with the index of its first chunk."""
    placed, first = [], 0
    for arc in path.arcs():
        placed.append((first, arc))
        first += arc.chunks
    return placed
