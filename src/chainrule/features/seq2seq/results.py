"""How texts that were written from sources show themselves, and how like their references they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.base.json import finite_figures
from chainrule.base.results import Shown
from chainrule.base.tables import count_of, printable
from chainrule.errors import TextError
from chainrule.evaluation.texts.text_scores import measure_translations
from chainrule.features.seq2seq.generation import GeneratedText

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chainrule.base.progress import Progress
    from chainrule.evaluation.texts.text_scores import TextScores
    from chainrule.text.corpus.corpus import Corpus

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
        """source: the source text, to check that it has as many lines; None where it can be read only once. Raises
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
        """Adds the texts that were written for the next line; none if the line was empty. Raises TextError."""
        if self.lines >= len(self.references):
            raise self._mismatch("more")
        reference = self.references[self.lines]
        self.lines += 1
        if texts and reference.strip():
            self.written.append(texts[0].text)
            self.measured.append(reference)

    def beside(self, written: Iterable[list[GeneratedText]]) -> Iterator[list[GeneratedText]]:
        """The texts of each line, which are added as they pass. Raises TextError."""
        for texts in written:
            self.add(texts)
            yield texts

    @property
    def left_out(self) -> int:
        """How many lines do not count."""
        return self.lines - len(self.written)

    def scores(self) -> TextScores:
        """BLEU, chrF and the length ratio. Raises TextError."""
        self._check(self.lines)
        return measure_translations(self.written, self.measured)

    def _check(self, lines: int) -> None:
        """Raises TextError unless there is a reference for each line."""
        if lines != len(self.references):
            raise self._mismatch(f"{lines:,}")

    def _mismatch(self, lines: str) -> TextError:
        own = count_of(len(self.references), "line")
        return TextError(f"{self.name}: has {own}, but the source has {lines}; expected a reference for each line")


def _lines(corpus: Corpus, progress: Progress) -> Iterator[str]:
    for block in corpus.blocks(progress, "reading"):
        yield from block.documents()


def scores_as_json(scores: TextScores) -> dict[str, Any]:
    """Scores for JSON, with null for NaN and infinity, and the variant of each."""
    variants = {score.name: score.variant for score in scores.scores}
    return {"scores": finite_figures(scores.to_dict()) | {"variants": variants}}
