"""The output of `chainrule translate`: texts with their scores and alignments, and how close they are to references."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from chainrule.base.tables import printable
from chainrule.cli.shared.screen import count_of, finite, note, print_json
from chainrule.errors import TextError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.api.seq2seq.generation import Written
    from chainrule.base.progress import Progress
    from chainrule.text.corpus.corpus import Corpus


def print_texts(number: int, texts: list[Written], nbest: int, *, alignments: bool, json: bool) -> None:
    """Prints what was written for a line. number: of the line, from 0."""
    if json:
        print_json({"line": number, "texts": [_as_json(text) for text in texts]})
        return
    if nbest > 1:
        for text in texts:
            print(f"{number} ||| {printable(text.text)} ||| log_prob= {text.log_prob:.4f} ||| {text.score:.4f}")
        if not texts:  # an empty line has one empty text, so that no list is missing
            print(f"{number} |||  ||| log_prob= 0.0000 ||| 0.0000")
        return
    line = printable(texts[0].text) if texts else ""
    print(f"{line}\t{_alignment(texts[0]) if texts else ''}" if alignments else line)


def _alignment(written: Written) -> str:
    if written.attention is None:
        return ""
    best = written.attention[: len(written.tokens), : len(written.source_tokens)].argmax(1)
    return " ".join(f"{target}-{source}" for target, source in enumerate(best.tolist()))


def _as_json(written: Written) -> dict[str, object]:
    attention = written.attention
    return {
        **{name: value for name, value in written._asdict().items() if name != "attention"},
        "attention": None if attention is None else [[round(float(x), 4) for x in row] for row in attention],
    }


class References:
    """The references of all lines, and the texts that were written for them. Lines with an empty side do not count."""

    def __init__(self, references: Corpus, source: Corpus | None, progress: Progress) -> None:
        """source: to check that it has as many lines; None: it can be read only once. Raises TextError."""
        self.name = ", ".join(references.sources)
        self.references = list(_lines(references, progress))
        self.written: list[str] = []
        self.measured: list[str] = []  # their references
        self.lines = 0
        if source is not None:
            self._check(sum(1 for _ in _lines(source, progress)))

    def add(self, texts: list[Written]) -> None:
        """Adds what was written for the next line; no texts: the line was empty. Raises TextError."""
        if self.lines >= len(self.references):
            raise self._mismatch("more")
        reference = self.references[self.lines]
        self.lines += 1
        if texts and reference.strip():
            self.written.append(texts[0].text)
            self.measured.append(reference)

    def print_scores(self, *, json: bool) -> None:
        """Prints BLEU, chrF and the length ratio, to standard error, or as a last line of JSON. Raises TextError."""
        from chainrule.evaluation.texts.text_scores import measure_translations

        self._check(self.lines)
        left_out = self.lines - len(self.written)
        if left_out:
            note(f"{count_of(left_out, 'line')} not measured, since the source or the reference is empty")
        scores = measure_translations(self.written, self.measured)
        if json:
            figures: dict[str, Any] = {name: finite(value) for name, value in scores.to_dict().items()}
            print_json({"scores": figures | {"variants": {score.name: score.variant for score in scores.scores}}})
        else:
            sys.stdout.flush()
            print(f"\n{count_of(scores.texts, 'line')} measured against {self.name}\n{scores}", file=sys.stderr)

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
