"""Corrects texts: builds a lattice of proposals for what may have been meant, and follows the best path through it.

What a LearnedCorrector, a seq2seq model trained on pairs of texts, writes joins the proposals.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Protocol

import numpy as np

from chainrule.base.arguments import as_texts
from chainrule.features.correct.corrector.candidates import Proposal, Spelling
from chainrule.features.correct.corrector.config import CorrectionConfig
from chainrule.features.correct.corrector.formats import read_as
from chainrule.features.correct.corrector.lattice import NOTHING, Arc, Variant, Variants, best_paths, local_log_probs
from chainrule.features.correct.corrector.spans import (
    Change,
    Corrected,
    apply_changes,
    chunks_of,
    in_lines,
    in_source,
    running_texts,
)
from chainrule.features.correct.corrector.word_index import noun_of
from chainrule.features.correct.measures import calibrate
from chainrule.features.rescore.features import IMPOSSIBLE
from chainrule.protocol import END, UNKNOWN
from chainrule.text.lookup import looked_up

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.evaluation.token_scores import Speller
    from chainrule.features.correct.corrector.candidates import Grammar
    from chainrule.features.correct.corrector.error_models import ErrorModel
    from chainrule.features.correct.corrector.lattice import Path
    from chainrule.features.correct.corrector.spans import Chunk, RunningText
    from chainrule.features.correct.corrector.word_index import WordIndex
    from chainrule.features.correct.options import TextFormat
    from chainrule.features.rescore.features import TextScorer
    from chainrule.protocol import Scorer
    from chainrule.text.lookup import Reading
    from chainrule.text.tokenization.tokenizer import Tokenizer

_WAYS = 8  # proposals for a chunk that the beam follows, of the many that grammar makes
_MANY_WORDS = 10_000  # a model that knows fewer expects many new ones already
_PROPOSED = -4.0  # log P(written | a proposal that only the learned corrector made)
_LONGEST = 4  # chunks that a proposal takes
_ATTACHED = re.compile(r"""(?<=\w)(?=[,.;:?!)\]"”»]+(?:\s|$))|(?<=[(\["“«])(?=\w)""")

_COMPOUND = re.compile(r"(?<![^\W_'’])[^\W_]+(?:-[^\W_]+)+(?![^\W_'’])")


class LearnedCorrector(Protocol):
    """P(right text | wrong text)."""

    def propose(self, texts: Sequence[str]) -> list[list[str]]:
        """Return, for each text, texts that may have been meant by it."""

    def log_probs(self, texts: Sequence[str], meant: Sequence[str]) -> Float64[ndarray, " texts"]:
        """Return log P(meant | text) of each pair, in nats."""


def add_rewrites(
    chunks: Sequence[Chunk], rows: Sequence[Sequence[Proposal]], rewritings: Sequence[str]
) -> list[list[Proposal]]:
    """Return the proposals for each chunk, with the parts of other texts that differ from the chunk, if these are
    short.
    """
    given = [chunk.text for chunk in chunks]
    best: list[dict[tuple[int, str], float]] = [{(one.chunks, one.text): one.log_prob for one in row} for row in rows]
    for rewriting in rewritings:
        if not (words := rewriting.split()):
            continue
        for kind, i, j, a, b in SequenceMatcher(None, given, words, autojunk=False).get_opcodes():
            if kind == "equal":
                continue
            if i == j:  # something was lost: it stands before the next chunk, or after the last one
                is_end = i == len(given)
                i, j, a, b = (i - 1, j, a - 1, b) if is_end else (i, j + 1, a, b + 1)
            elif a == b and j < len(given):  # something was put in
                j, b = j + 1, b + 1
            if j - i <= _LONGEST and i >= 0 and a >= 0 and not any(chunk.kept and chunk.words for chunk in chunks[i:j]):
                best[i].setdefault((j - i, " ".join(words[a:b])), _PROPOSED)
    return [[Proposal(*key, log_prob) for key, log_prob in row.items()] for row in best]


# A text is taken for one in another language if its words are likelier by their letters alone than as the model's. In
# nats: what an unknown word says, which may be misspelled; what each word must say; how unlikely another language is.
_OF_UNKNOWN, _OF_EACH, _OF_OTHERS = -2.0, 1.5, 10.0
_TOO_FEW_WORDS = 4  # below which a text is not judged


def _of_paragraphs(
    source: str, reading: Reading, paragraphs: list[RunningText], corrected: Iterator[Corrected]
) -> Corrected:
    """Return a text corrected as its paragraphs are, whose corrections are taken from an iterator."""
    text = reading.text
    changes: list[Change] = []
    note = None
    for paragraph in paragraphs:
        one = next(corrected)
        changes += [in_lines(change, paragraph, text) for change in one.changes] if "\n" in text else one.changes
        note = note or one.note
    own = tuple(change for one in changes if (change := in_source(one, reading, source)) is not None)
    return Corrected(source, apply_changes(source, own), own, note)


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
        estimated_rate: float | None = None,
        text_format: TextFormat = "auto",
        supplies_capitals: bool = True,
    ) -> None:
        """Store the models, and prepare the proposals.

        grammar: its proposals join the words of spelling. learned: so do its texts, and it rescores the best paths.
        rescorer: a second language model, which rescores the best paths, too. estimated_rate: the share of wrong words,
        if that of `errors` was estimated, for those who ask. text_format: which parts of a text are prose.
        supplies_capitals: whether i becomes I.
        """
        self._format = text_format
        self._model, self._speller = model, speller
        self._tokenizer = tokenizer.with_markers("keep")  # a literal </s> or <unk> is left alone
        self.estimated_rate = estimated_rate
        self.known_words = len(words.lowered()) - len(words.added)
        self._letters = words.letters()
        self._words, self._config = words, config or CorrectionConfig()
        self._share = min(1.0, self.known_words / _MANY_WORDS)
        self._new_word = self._config.new_word * self._share
        self._spelling = Spelling(words, errors, self._config.candidates, supplies_capitals=supplies_capitals)
        self._grammar, self._learned, self._rescorer = grammar, learned, rescorer
        self._keep = frozenset(looked_up(word).lower() for word in self._config.keep)
        alone, attached = (self._tokenizer.encode_texts([text]).ids for text in (",", "a,"))
        self._detaches = UNKNOWN not in alone and UNKNOWN in attached  # the model's own text has spaces before marks
        hyphen, compound = (self._tokenizer.encode_texts([text]).ids for text in ("-", "a-a"))
        self._hyphen = "-" if UNKNOWN not in compound else " " if UNKNOWN in hyphen else " - "

    def correct(self, texts: Iterable[str], files: Sequence[str] | None = None) -> list[Corrected]:
        """Correct each text independently of the others. Raises TypeError if it is given a single text.

        A text of several lines is read as running text, and keeps its lines; see `running_text`. files: the name of the
        file of each text, whose suffix may say its format. Raises SettingError for a program in an unknown language.
        """
        texts = as_texts(texts)
        readings = [self._read(*both) for both in zip(texts, files or [""] * len(texts), strict=True)]
        paragraphs = [running_texts(reading.text, self._words.__contains__) for reading in readings]
        lines = [(one.text, reading.names) for reading, row in zip(readings, paragraphs, strict=True) for one in row]
        corrected = iter(self._correct_lines([text for text, _ in lines], [names for _, names in lines]))
        return [_of_paragraphs(*parts, corrected) for parts in zip(texts, readings, paragraphs, strict=True)]

    def _read(self, text: str, file: str = "") -> Reading:
        return read_as(text, self._format, file, is_scanned=self._spelling.knows_marks)

    def _correct_lines(self, texts: list[str], names: list[frozenset[str]]) -> list[Corrected]:
        parted = [self._chunks(text, right) for text, right in zip(texts, names, strict=True)]
        notes = [self._reason_to_keep(chunks) for chunks in parted]
        read = [i for i, note in enumerate(notes) if note is None and parted[i]]
        lattices = self._lattices([texts[i] for i in read], [parted[i] for i in read])
        paths = self._best_paths(lattices)
        if self._learned is not None or self._rescorer is not None:
            paths = self._weighed([texts[i] for i in read], paths)
        results = [Corrected(text, text, (), note) for text, note in zip(texts, notes, strict=True)]
        for i, ways in zip(read, paths, strict=True):
            changes = self._changes(texts[i], parted[i], ways)
            results[i] = Corrected(texts[i], apply_changes(texts[i], changes), changes)
        return results

    def _best_paths(self, lattices: list[list[list[Arc]]]) -> list[list[Path]]:
        """Return the best paths through each lattice.

        A word by itself, as in a list of words, is no sentence: it has the probability that it has without context.
        """
        paths: list[list[Path]] = [[] for _ in lattices]
        for is_word, begin in ((True, (UNKNOWN,)), (False, ())):
            group = [i for i, lattice in enumerate(lattices) if (len(lattice) == 1) == is_word]
            best = best_paths(
                self._model,
                [lattices[i] for i in group],
                beam=self._config.beam,
                weight=self._config.weight,
                begin=begin,
                end=not is_word,
            )
            for i, ways in zip(group, best, strict=True):
                paths[i] = ways
        return paths

    def correct_last_word(self, text: str) -> Change | None:
        """Return the correction of the last word of a text that is being typed, given the words before it.

        None if it is right. Only spelling is corrected, without grammar, a learned corrector or a second model, so that
        it is fast enough for every key press.
        """
        begin = text.rfind("\n", 0, len(text.rstrip())) + 1
        source = text[begin:]
        reading = self._read(source)
        line = reading.text
        chunks = self._chunks(line)
        if not chunks or chunks[-1].kept:
            return None
        chunks = [*(chunk._replace(kept=True) for chunk in chunks[:-1]), chunks[-1]]
        lattices = self._arcs(self._spelling.propose([line], [chunks]))
        [paths] = best_paths(self._model, lattices, beam=self._config.beam, weight=self._config.weight, end=False)
        changes = self._changes(line, chunks, paths)
        change = in_source(changes[0], reading, source) if changes else None
        return change._replace(start=change.start + begin, stop=change.stop + begin) if change else None

    def _chunks(self, text: str, names: frozenset[str] = frozenset()) -> list[Chunk]:
        return chunks_of(text, self._keep | names, is_scanned=self._spelling.knows_marks)

    def _reason_to_keep(self, chunks: list[Chunk]) -> str | None:
        written = [(chunk, a, chunk.text[a:b]) for chunk in chunks if not chunk.kept for a, b in chunk.words]
        words = [word for _, _, word in written]
        judged = [word for chunk, a, word in written if word in self._words or not chunk.is_name(a)]
        total = sum(map(self._log_ratio, judged)) - _OF_EACH * len(judged)
        if len(words) >= _TOO_FEW_WORDS and total < -_OF_OTHERS:
            known = [word for word in words if word in self._words]
            rare = len(known) - sum(map(self._words.is_trusted, known))
            return (
                f"another language: the model knows {len(known)} of {len(words)} words, {rare} of them rare, "
                "and together they are likelier by their letters alone; nothing was changed"
            )
        strange = sum(word.isalpha() and self._letters.isdisjoint(word.lower()) for word in words)
        if strange > len(words) / 2:
            return f"{strange} of {len(words)} words are in another script than the model's; nothing was changed"
        return None

    def _log_ratio(self, word: str) -> float:
        """Return by how much a word is likelier as one of the model's than by its letters alone, in nats.

        A rare word counts as an unknown one if the model knows many words.
        """
        if word not in self._words:
            return _OF_UNKNOWN
        ratio = self._words.log_ratio(word)
        return ratio if self._words.is_trusted(noun_of(word)) else ratio + self._share * (_OF_UNKNOWN - ratio)

    def _weighed(self, texts: list[str], paths: list[list[Path]]) -> list[list[Path]]:
        """Return the paths of each text, reordered by the learned corrector and the second model."""
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
        """Return the changes of the best path that are probable enough, by all paths."""
        log_probs = np.array([path.log_prob for path in paths])
        probs = np.exp(log_probs - np.logaddexp.reduce(log_probs))
        shares: dict[tuple[int, int, str], float] = {}
        for path, prob in zip(paths, probs.tolist(), strict=True):
            for change in _differences(text, chunks, path):
                shares[change] = shares.get(change, 0.0) + prob
        best = _differences(text, chunks, paths[0])
        right = calibrate(np.array([min(1.0, shares[change]) for change in best]), *self._config.calibration)
        return tuple(
            Change(start, stop, text[start:stop], after, prob)
            for (start, stop, after), prob in zip(best, right.tolist(), strict=True)
            if prob >= self._config.at_least
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
                add_rewrites(chunks, rows, others)
                for chunks, rows, others in zip(parted, proposals, rewritten, strict=True)
            ]
        return self._arcs(proposals)

    def _arcs(self, proposals: list[list[list[Proposal]]]) -> list[list[list[Arc]]]:
        """Return the lattices of proposals, with their tokens."""
        variants = self._encoded(
            {_as_read(one.text, i) for rows in proposals for i, row in enumerate(rows) for one in row}
        )
        if self._grammar is not None and getattr(self._model, "order", None) is not None:
            proposals = self._likeliest(proposals, variants)

        def arc(one: Proposal, i: int, new_word: float) -> Arc:
            tokens, cost = variants.of(_as_read(one.text, i))
            new_word *= self._hyphen == "-" or not _COMPOUND.search(one.text)  # whose parts are rarely new
            return Arc(one.chunks, Variant(one.text, one.log_prob, tokens, cost + new_word * tokens.count(UNKNOWN)))

        new_words = [0.0 if len(rows) == 1 else self._new_word for rows in proposals]
        return [
            [[arc(one, i, new_word) for one in row] for i, row in enumerate(rows)]
            for rows, new_word in zip(proposals, new_words, strict=True)
        ]

    def _likeliest(self, proposals: list[list[list[Proposal]]], variants: Variants) -> list[list[list[Proposal]]]:
        """Return the proposals; of long rows, without those that fit worst between the chunks around them."""
        long = [
            (rows, i) for rows in proposals for i, row in enumerate(rows) if sum(one.chunks == 1 for one in row) > _WAYS
        ]
        if not long:
            return proposals
        sizes = [len(rows[i]) for rows, i in long]
        before = [variants.numbers[_as_read(rows[i - 1][0].text, i - 1)] if i else NOTHING for rows, i in long]
        after = [
            variants.numbers[_as_read(rows[i + 1][0].text, i + 1)] if i + 1 < len(rows) else NOTHING for rows, i in long
        ]
        middle = [variants.numbers[_as_read(one.text, i)] for rows, i in long for one in rows[i]]
        totals = local_log_probs(self._model, variants, np.repeat(before, sizes), middle, np.repeat(after, sizes))
        totals = self._config.weight * totals + [one.log_prob for rows, i in long for one in rows[i]]
        totals[[one.chunks > 1 for rows, i in long for one in rows[i]]] = np.inf  # of which there are few
        totals[np.cumsum(sizes) - sizes] = np.inf  # the chunk as it stands
        kept = {}
        for (rows, i), scores in zip(long, np.split(totals, np.cumsum(sizes)[:-1]), strict=True):
            most = max(_WAYS, int((scores == np.inf).sum()))
            kept[id(rows), i] = [rows[i][k] for k in np.sort(np.argsort(-scores, kind="stable")[:most]).tolist()]
        return [[kept.get((id(rows), i), row) for i, row in enumerate(rows)] for rows in proposals]

    def _encoded(self, texts: set[str]) -> Variants:
        """Return the tokens of each variant, and the log-probability of the spelling of its unknown ones, in nats."""
        ordered = sorted(texts)
        capitals = self._grammar is not None  # which are then proposed, and must not be put there before
        read = [self._words.truecase(variant, capitals=capitals) for variant in ordered]
        if self._detaches:
            read = [_ATTACHED.sub(" ", text) for text in read]
        if self._hyphen != "-":
            read = [_COMPOUND.sub(self._parted, text) if "-" in text else text for text in read]
        encoded = self._tokenizer.encode_texts(read)
        ends = np.flatnonzero(encoded.ids == END)
        costs = np.zeros(len(ordered))
        unknown = np.flatnonzero(encoded.ids == UNKNOWN)
        if unknown.size and self._speller is not None:
            owners = np.searchsorted(ends, unknown, side="right")
            surfaces = [encoded.surface(place) for place in unknown.tolist()]
            spelled = self._speller.log_probs(surfaces)
            if self._keep:  # which are as likely, one and all, as every other new word
                is_kept = [surface.decode("utf-8", "replace").lower() in self._keep for surface in surfaces]
                spelled = np.where(is_kept, np.maximum(spelled, -np.log(2 * len(self._keep))), spelled)
            np.add.at(costs, owners, spelled + np.log(max(self._speller.unseen_types, 1)))
        return Variants({text: i for i, text in enumerate(ordered)}, encoded.ids, ends, costs)

    def _parted(self, compound: re.Match[str]) -> str:
        """Return a compound; one that the model does not know as its words, between which its own text has hyphens or
        not.
        """
        word = compound.group()
        is_known = self._tokenizer.vocabulary.id_of(word) != UNKNOWN
        return word if is_known else word.replace("-", self._hyphen)


def _as_read(text: str, position: int) -> str:
    """Return a variant with the space before it."""
    return f" {text}" if position and text else text


def _differences(text: str, chunks: list[Chunk], path: Path) -> list[tuple[int, int, str]]:
    """Return the parts where a path differs from a text: start, stop, the path's text; words that both have are left
    out.
    """
    differences, first = [], 0
    for arc in path.arcs():
        start, stop = chunks[first].start, chunks[first + arc.chunks - 1].stop
        first += arc.chunks
        before, after = text[start:stop], arc.variant.text
        if before == after:
            continue
        if not after and start:
            start -= len(before_space := text[:start]) - len(before_space.rstrip())
        elif not after:
            stop += len(after_space := text[stop:]) - len(after_space.lstrip())
        elif after.endswith(f" {before}"):
            stop, after = start, after[: -len(before)]
        elif before.endswith(f" {after}"):
            stop, after = stop - len(after), ""
        elif after.startswith(f"{before} "):
            start, after = stop, after[len(before) :]
        differences.append((start, stop, after))
    return differences
