"""Writes texts for the lines of a source, some lines at a time; how these texts show themselves, and how like their
references they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.base.results import Shown, finite_figures
from chainrule.base.tables import count_of, printable
from chainrule.errors import SettingError, TextError
from chainrule.features.metrics.text_scores import measure_translations
from chainrule.features.seq2seq.generation import GeneratedText
from chainrule.protocol import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from chainrule.base.progress import Progress
    from chainrule.features.metrics.text_scores import TextScores
    from chainrule.features.seq2seq.model import Seq2SeqModel
    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.corpus import Corpus

    Generate = Callable[[list[str], int], list[list[GeneratedText]]]  # lines, and the number of the first

_AT_ONCE = 1024  # lines, which are sorted by length


class Translations:
    """The texts of each line, in order; iterating over it writes them.

    sources: the lines that are not empty, if there may only be one of them.
    """

    def __init__(
        self, model: Seq2SeqModel, source: Corpus, generate: Generate, progress: Progress, *, is_single: bool = False
    ) -> None:
        """Store the model and the source; iterating writes the texts.

        generate: what writes the texts of some lines. is_single: whether more than one line is an error.
        """
        self._model, self._source, self._generate, self._progress = model, source, generate, progress
        self._is_single = is_single
        self._number = self._unknown = self._shortened = 0
        self.sources: list[str] = []

    def __iter__(self) -> Iterator[list[GeneratedText]]:
        """Yield the texts of each line.

        Raises SettingError, which names the line, after the texts of the lines before it; TextError.
        """
        for block in self._source.blocks_as_they_come(self._progress, "translating"):
            documents = block.documents()
            for first in range(0, len(documents), _AT_ONCE):
                lines = documents[first : first + _AT_ONCE]
                if self._is_single:
                    self.sources += [line for line in lines if line.strip()]
                    if len(self.sources) > 1:
                        raise SettingError(
                            "a tree is that of one search, but there are several lines to translate; give one"
                        )
                read = self._model.generator.shorten(lines)
                self._shortened += read.shortened
                self._unknown += sum(int((ids == UNKNOWN).sum()) for ids in read.rows)
                for texts in self._generated(lines, block, first):
                    self._number += 1
                    yield texts

    def _generated(self, lines: list[str], block: Block, first: int) -> Iterator[list[GeneratedText]]:
        """Yield the texts of some lines. first: the index of the first line in the block."""
        number = self._number
        try:
            yield from self._generate(lines, number)
        except SettingError:
            for i, line in enumerate(lines):
                try:
                    [texts] = self._generate([line], number + i)
                except SettingError as error:
                    raise SettingError(f"{block.locate(first + i + 1)}: {error}") from error
                yield texts

    def notes(self) -> Iterator[str]:
        """Yield how much of the sources was not read."""
        if self._shortened:
            long = count_of(self._shortened, "source")
            yield f"{long} longer than the model reads; see long_sources in what chainrule info prints"
        if self._unknown:
            yield f"the model does not know {count_of(self._unknown, 'token')} of the sources; each counts as <unk>"


_EMPTY = GeneratedText("", 0.0, 0.0, "end", [], [], None)  # of an empty line, so that no line is missing


def shown_texts(number: int, texts: list[GeneratedText], nbest: int, *, alignments: bool) -> Shown:
    """Return what was written for a line. number: of the line, from 0. nbest: more than 1, in the format of Moses.

    alignments: whether the line has, after a tab, the source token that each token attended to most.
    """
    written = texts or [_EMPTY]
    if nbest > 1:
        shown = "\n".join(
            f"{number} ||| {printable(text.text)} ||| log_prob= {text.log_prob:.4f} ||| {text.score:.4f}"
            for text in written
        )
    else:
        shown = printable(written[0].text) + (f"\t{_alignment(written[0])}" if alignments else "")
    rows = [text.as_json() for text in written]
    return Shown(shown, {"line": number, "texts": rows if texts else []}, [{"line": number, **row} for row in rows])


def _alignment(written: GeneratedText) -> str:
    if written.attention is None:
        return ""
    best = written.attention[: len(written.tokens), : len(written.source_tokens)].argmax(1)
    return " ".join(f"{target}-{source}" for target, source in enumerate(best.tolist()))


class References:
    """The references of all lines, and the texts that were written for them. Lines with an empty side do not count."""

    def __init__(self, references: Corpus, source: Corpus | None, progress: Progress) -> None:
        """Read the references.

        source: the source text, to check that it has as many lines; None where it can be read only once. Raises
        TextError.
        """
        self.name = ", ".join(references.sources)
        self.references = list(_lines(references, progress))
        self.written: list[str] = []
        self.measured: list[str] = []  # their references
        self.lines = 0
        if source is not None:
            self._check(sum(1 for _ in _lines(source, progress)))

    def add(self, texts: list[GeneratedText]) -> None:
        """Add the texts that were written for the next line; none if the line was empty. Raises TextError."""
        if self.lines >= len(self.references):
            raise self._mismatch("more")
        reference = self.references[self.lines]
        self.lines += 1
        if texts and reference.strip():
            self.written.append(texts[0].text)
            self.measured.append(reference)

    def beside(self, written: Iterable[list[GeneratedText]]) -> Iterator[list[GeneratedText]]:
        """Yield the texts of each line, which are added as they pass. Raises TextError."""
        for texts in written:
            self.add(texts)
            yield texts

    @property
    def left_out(self) -> int:
        """How many lines do not count."""
        return self.lines - len(self.written)

    def scores(self) -> TextScores:
        """Return BLEU, chrF and the length ratio. Raises TextError."""
        self._check(self.lines)
        return measure_translations(self.written, self.measured)

    def _check(self, lines: int) -> None:
        """Raise TextError unless there is a reference for each line."""
        if lines != len(self.references):
            raise self._mismatch(f"{lines:,}")

    def _mismatch(self, lines: str) -> TextError:
        own = count_of(len(self.references), "line")
        return TextError(f"{self.name}: has {own}, but the source has {lines}; expected a reference for each line")


def _lines(corpus: Corpus, progress: Progress) -> Iterator[str]:
    for block in corpus.blocks(progress, "reading"):
        yield from block.documents()


def scores_as_json(scores: TextScores) -> dict[str, Any]:
    """Return the scores for JSON, with null for NaN and infinity, and the variant of each."""
    variants = {score.name: score.variant for score in scores.scores}
    return {"scores": finite_figures(scores.to_dict()) | {"variants": variants}}
