"""Co-occurrences of words as users hold them: a matrix, a file, and what GloVe learns from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.base.files import compressing, replace_file
from chainrule.errors import OutputError
from chainrule.vectors.cooccurrence_kernels import UNIT
from chainrule.vectors.cooccurrences import RECORD, read_cooccurrences, vocabulary_path

if TYPE_CHECKING:
    import os
    from typing import BinaryIO

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.vectors.cooccurrences import Cooccurrences

_AT_ONCE = 1 << 18  # pairs


class Together(NamedTuple):
    """words: by falling frequency; occurrences: of each, 0 where a file does not tell; counted: which stands near
    which, and how often; record: what was counted, for JSON.
    """

    words: list[str]
    occurrences: list[int]
    counted: Cooccurrences
    record: dict[str, Any]

    @property
    def pairs(self) -> int:
        """That stand together at all."""
        return int(self.counted.columns.size)

    def matrix(self) -> Float64[ndarray, "words words"]:
        """A row a word, a column a context. For small vocabularies."""
        return self.counted.dense()

    @shows_progress
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, progress: ProgressOption = None) -> None:
        """Lines of word, context and count, with tabs between, compressed as the name says; or, where this ends in
        .bin, as GloVe's cooccur writes them, with its vocabulary in NAME.vocab.txt. Raises OutputError.
        """
        target, on_progress = Path(path), callback(progress)
        for path in files_of(target):
            if path.exists() and not overwrite:
                raise OutputError(f"{path}: exists already; use overwrite=True to replace it, or choose another name")
        if target.suffix != ".bin":
            with replace_file(target) as raw, compressing(raw, target) as file:
                self._write_lines(file, on_progress)
            return
        with replace_file(target) as file:
            for start in range(0, self.pairs, _AT_ONCE):
                part = self._records(start)
                part["word"] += 1
                part["context"] += 1
                file.write(part.data)
                on_progress("writing co-occurrences", start, self.pairs)
        with replace_file(vocabulary_path(target)) as file:
            for word, count in zip(self.words, self.occurrences, strict=True):
                file.write(f"{word} {count}\n".encode())

    def _write_lines(self, file: BinaryIO, progress: Progress) -> None:
        for start in range(0, self.pairs, _AT_ONCE):
            part = self._records(start)
            lines = (
                f"{self.words[word]}\t{self.words[context]}\t{count:.9g}\n" for word, context, count in part.tolist()
            )
            file.write("".join(lines).encode())
            progress("writing co-occurrences", start, self.pairs)

    def _records(self, start: int) -> ndarray:
        """Some of the pairs, from one on."""
        starts, stop = self.counted.starts, min(start + _AT_ONCE, self.pairs)
        first, last = np.searchsorted(starts, start, "right") - 1, np.searchsorted(starts, stop, "left")
        in_each = np.diff(np.clip(starts[first : last + 1], start, stop))
        part = np.empty(stop - start, RECORD)
        part["word"] = np.repeat(np.arange(first, last, dtype=np.int32), in_each)
        part["context"] = self.counted.columns[start:stop]
        part["count"] = self.counted.sums[start:stop] * (1 / UNIT)
        return part


def files_of(path: Path) -> list[Path]:
    """The files that co-occurrences saved under this name consist of."""
    return [path, vocabulary_path(path)] if path.suffix == ".bin" else [path]


@shows_progress
def read_together(path: str | os.PathLike[str], *, progress: ProgressOption = None) -> Together:
    """Co-occurrences from a file, as `Together.save` writes them, or GloVe's cooccur and vocab_count. Raises TextError.

    good:  chainrule.train_vectors(chainrule.read_together("together.bin"), chainrule.VectorsConfig(method="glove"))
    """
    read = read_cooccurrences(Path(path), callback(progress))
    words = [word.decode(errors="replace") for word in read.words]
    return Together(words, read.occurrences or len(words) * [0], read.counted, {"data": {str(path): read.digest}})
