"""Writes texts for the lines of a source, some lines at a time, and counts what the model could not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.base.tables import count_of
from chainrule.errors import SettingError
from chainrule.protocol import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chainrule.base.progress import Progress
    from chainrule.features.seq2seq.generation import GeneratedText
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
        """generate: what writes the texts of some lines. is_single: whether more than one line is an error."""
        self._model, self._source, self._generate, self._progress = model, source, generate, progress
        self._is_single = is_single
        self._number = self._unknown = self._shortened = 0
        self.sources: list[str] = []

    def __iter__(self) -> Iterator[list[GeneratedText]]:
        """Raises SettingError, which names the line, after the texts of the lines before it; TextError."""
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
        """first: the index of the first line in the block."""
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
        """How much of the sources was not read."""
        if self._shortened:
            long = count_of(self._shortened, "source")
            yield f"{long} longer than the model reads; see long_sources in what chainrule info prints"
        if self._unknown:
            yield f"the model does not know {count_of(self._unknown, 'token')} of the sources; each counts as <unk>"
