"""Corrects texts: builds a lattice of what may have been meant, and follows the best path through it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.applications.correction.chunks import chunks_of
from chainrule.applications.correction.lattice import Arc, Variant, best_paths
from chainrule.applications.correction.learned import with_rewritings
from chainrule.applications.correction.spelling import Spelling
from chainrule.applications.rescoring.features import IMPOSSIBLE
from chainrule.base.arguments import as_texts
from chainrule.errors import SettingError
from chainrule.protocol import UNKNOWN
from chainrule.text.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chainrule.applications.correction.chunks import Chunk
    from chainrule.applications.correction.errors import ErrorModel
    from chainrule.applications.correction.grammar import Grammar
    from chainrule.applications.correction.lattice import Path
    from chainrule.applications.correction.learned import LearnedCorrector
    from chainrule.applications.correction.word_index import WordIndex
    from chainrule.applications.rescoring.features import TextScorer
    from chainrule.evaluation.token_costs import Speller
    from chainrule.protocol import Scorer
    from chainrule.text.tokenizer import Tokenizer

_LEAST_KNOWN = 0.5  # share of known words below which a text is taken for another language
_FEW_WORDS = 8  # below which the language is not judged


@dataclass(frozen=True, kw_only=True)
class CorrectionConfig:
    """How texts are corrected.

    beam: the most paths kept at each position. candidates: the most candidates for each word. at_least: the least
    probability of a change. weight: of the language model, relative to the channel. learned_weight: of the learned
    corrector's log P(right | wrong), relative to the channel. rescore_weight: of the second model's log-probability.
    keep: words that are never changed.
    Raises SettingError.
    """

    beam: int = 4
    candidates: int = 6
    at_least: float = 0.5
    weight: float = 1.0
    learned_weight: float = 0.5
    rescore_weight: float = 0.5
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, least, most in (
            ("beam", 1, 1 << 10),
            ("candidates", 1, 1 << 10),
            ("at_least", 0.0, 1.0),
            ("weight", 0.0, 100.0),
            ("learned_weight", 0.0, 100.0),
            ("rescore_weight", 0.0, 100.0),
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
        *,
        grammar: Grammar | None = None,
        learned: LearnedCorrector | None = None,
        rescorer: TextScorer | None = None,
    ) -> None:
        """grammar: what it proposes joins the words of spelling. learned: so do its texts, and it weighs the best.

        rescorer: a second language model, which weighs the best, too.
        """
        self._model, self._speller = model, speller
        self._tokenizer = tokenizer.with_markers("keep")  # a literal </s> or <unk> is left alone
        self._words, self._config = words, config or CorrectionConfig()
        self._spelling = Spelling(words, errors, self._config.candidates)
        self._grammar, self._learned, self._rescorer = grammar, learned, rescorer
        self._keep = frozenset(word.lower() for word in self._config.keep)

    def correct(self, texts: Iterable[str]) -> list[Corrected]:
        """Corrects each text independently of the others. Raises TypeError if it is given a single text."""
        texts = as_texts(texts)
        parted = [chunks_of(text, self._keep) for text in texts]
        notes = [self._reason_to_keep(chunks) for chunks in parted]
        read = [i for i, note in enumerate(notes) if note is None and parted[i]]
        lattices = self._lattices([texts[i] for i in read], [parted[i] for i in read])
        config = self._config
        paths = best_paths(self._model, lattices, beam=config.beam, weight=config.weight)
        if self._learned is not None or self._rescorer is not None:
            paths = self._weighed([texts[i] for i in read], paths)
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

    def _weighed(self, texts: list[str], paths: list[list[Path]]) -> list[list[Path]]:
        """The paths of each text in the order that they have with the learned corrector and the second model."""
        written = [text for text, ways in zip(texts, paths, strict=True) for _ in ways]
        meant = [path.text() for ways in paths for path in ways]
        totals = np.zeros(len(meant))
        if self._learned is not None and meant:
            totals += self._config.learned_weight * self._learned.log_probs(written, meant)
        if self._rescorer is not None and meant:
            totals += self._config.rescore_weight * np.maximum(self._rescorer.log_probs(meant), IMPOSSIBLE)
        added = iter(totals.tolist())
        return [
            sorted(
                (path._replace(log_prob=path.log_prob + next(added)) for path in ways),
                key=lambda path: -path.log_prob,
            )
            for ways in paths
        ]

    def _changes(self, text: str, chunks: list[Chunk], paths: list[Path]) -> tuple[Change, ...]:
        """The changes of the best path that are probable enough, by all paths."""
        log_probs = np.array([path.log_prob for path in paths])
        probs = np.exp(log_probs - np.logaddexp.reduce(log_probs))
        shares: dict[tuple[int, int, str], float] = {}
        for path, prob in zip(paths, probs.tolist(), strict=True):
            for change in _differences(text, chunks, path):
                shares[change] = shares.get(change, 0.0) + prob
        return tuple(
            Change(start, stop, text[start:stop], after, min(1.0, shares[start, stop, after]))
            for start, stop, after in _differences(text, chunks, paths[0])
            if shares[start, stop, after] >= self._config.at_least
        )

    def _lattices(self, texts: list[str], parted: list[list[Chunk]]) -> list[list[list[Arc]]]:
        proposals = self._spelling.propose(texts, parted)
        if self._grammar is not None:
            proposals = [
                self._grammar.propose(text, chunks, rows)
                for text, chunks, rows in zip(texts, parted, proposals, strict=True)
            ]
        if self._learned is not None:
            rewritten = self._learned.propose(texts)
            proposals = [
                with_rewritings(chunks, rows, others)
                for chunks, rows, others in zip(parted, proposals, rewritten, strict=True)
            ]
        encoded = self._encoded(
            {_as_read(one.text, i) for rows in proposals for i, row in enumerate(rows) for one in row}
        )
        return [
            [
                [Arc(one.chunks, Variant(one.text, one.log_prob, *encoded[_as_read(one.text, i)])) for one in row]
                for i, row in enumerate(rows)
            ]
            for rows in proposals
        ]

    def _encoded(self, variants: set[str]) -> dict[str, tuple[tuple[int, ...], float]]:
        """The tokens of each variant, and the log-probability of the spelling of its unknown ones, in nats."""
        ordered = sorted(variants)
        capitals = self._grammar is not None  # which are then proposed, and must not be put there before
        encoded = self._tokenizer.encode_texts(
            [self._words.as_known(variant, capitals=capitals) for variant in ordered]
        )
        rows = [tuple(row.tolist()) for row in documents_of(encoded.ids)]
        costs = np.zeros(len(ordered))
        unknown = np.flatnonzero(encoded.ids == UNKNOWN)
        if unknown.size and self._speller is not None:
            ends = np.cumsum([len(row) + 1 for row in rows])
            owners = np.searchsorted(ends, unknown, side="right")
            spelled = self._speller.log_probs([encoded.surface(place) for place in unknown.tolist()])
            np.add.at(costs, owners, spelled + np.log(max(self._speller.unseen_types, 1)))
        return dict(zip(ordered, zip(rows, costs.tolist(), strict=True), strict=True))


def _as_read(text: str, position: int) -> str:
    """A variant with the space before it."""
    return f" {text}" if position and text else text


def _differences(text: str, chunks: list[Chunk], path: Path) -> list[tuple[int, int, str]]:
    """Where a path differs from a text: start, stop, and what it has there; words that both have are left out."""
    differences, first = [], 0
    for arc in path.arcs():
        start, stop = chunks[first].start, chunks[first + arc.chunks - 1].stop
        first += arc.chunks
        before, after = text[start:stop], arc.variant.text
        if before == after:
            continue
        if not after and start:
            start -= len(before_space := text[:start]) - len(before_space.rstrip())
        elif after.endswith(f" {before}"):
            stop, after = start, after[: -len(before)]
        elif before.endswith(f" {after}"):
            stop, after = stop - len(after), ""
        elif after.startswith(f"{before} "):
            start, after = stop, after[len(before) :]
        differences.append((start, stop, after))
    return differences
