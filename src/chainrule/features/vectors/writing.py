"""Word vectors written to the files of word2vec and GloVe, which `text/vector_files.py` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from chainrule.base.files import compressing, replace_file
from chainrule.base.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jaxtyping import Float32
    from numpy import ndarray

FileLayout = Literal["word2vec", "binary", "glove"]
_REPORT_EVERY = 1 << 12  # rows


def write_vectors(
    path: Path,
    tokens: Sequence[bytes],
    rows: Float32[ndarray, "V D"],
    progress: Progress = silent,
    *,
    layout: FileLayout = "word2vec",
) -> None:
    """Write word2vec's text format, its binary one, or GloVe's, compressed according to the suffix.

    Raises OutputError.
    """
    with replace_file(path) as raw, compressing(raw, path) as file:
        if layout != "glove":
            file.write(b"%d %d\n" % rows.shape)
        for i, (token, row) in enumerate(zip(tokens, rows, strict=True)):
            if i % _REPORT_EVERY == 0:
                progress("writing word vectors", i, len(tokens))
            if layout == "binary":
                file.write(token + b" " + row.astype("<f4").tobytes() + b"\n")
            else:
                file.write(b"%s %s\n" % (token, " ".join(map(str, row)).encode()))
