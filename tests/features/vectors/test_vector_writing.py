"""Word vectors that are written to files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from chainrule.features.vectors.writing import FileLayout, write_vectors
from chainrule.text.vector_files import read_vectors

if TYPE_CHECKING:
    from pathlib import Path

TOKENS = [b"<unk>", b"<s>", b"</s>", b"cat", "\N{HALFWIDTH BLACK SQUARE},".encode(), "naïve".encode(), b",", b"dog"]


@pytest.mark.parametrize(("name", "layout"), [("a.vec", "word2vec"), ("a.vec.gz", "word2vec"), ("a.bin", "binary")])
def test_what_is_written_is_read_again(name: str, layout: FileLayout, tmp_path: Path) -> None:
    rows = np.random.default_rng(1).standard_normal((len(TOKENS), 5)).astype(np.float32)
    write_vectors(tmp_path / name, TOKENS, rows, layout=layout)
    vectors = read_vectors(str(tmp_path / name), TOKENS)
    np.testing.assert_array_equal(vectors.rows[np.argsort(vectors.ids)], rows)
