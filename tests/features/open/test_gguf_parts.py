"""GGUF files in parts, as the package gguf cuts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gguf
import numpy as np
import pytest
from tiny_files import write_gguf, written_anew
from tiny_models import CAUSAL, shaken
from tiny_tokenizers import TEXTS, byte_level

import chainrule
from chainrule import ModelFormatError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """A tiny model in one file, and in parts, as the package gguf cuts it."""
    whole = write_gguf(tmp_path / "tiny.gguf", shaken(CAUSAL["llama"]), byte_level())
    writer = gguf.GGUFWriter(whole, "llama", split_max_tensors=8)
    written_anew(whole, writer, lambda tensor: (np.array(tensor.data), None))
    found = sorted(tmp_path.glob("tiny-*"))
    assert [path.name for path in found] == [f"tiny-{n:05}-of-{len(found):05}.gguf" for n in range(1, len(found) + 1)]
    assert len(found) == 3
    return found


def test_a_model_in_parts_is_that_in_one_file(parts: list[Path], tmp_path: Path) -> None:
    whole = chainrule.load(tmp_path / "tiny.gguf")
    for path in parts:
        np.testing.assert_array_equal(chainrule.load(path).score(TEXTS), whole.score(TEXTS))
    size = sum(path.stat().st_size for path in parts)
    assert chainrule.info(parts[0]).bytes == chainrule.info(parts[2]).bytes == size
    counted = chainrule.train(chainrule.Lines(TEXTS), chainrule.NGramConfig(order=2), tokenizer=str(parts[1]))
    assert counted.tokenizer.vocabulary_size == whole.tokenizer.vocabulary_size


def test_parts_that_do_not_belong_together_are_named(parts: list[Path], tmp_path: Path) -> None:
    moved = parts[1].rename(tmp_path / "part.gguf")
    with pytest.raises(
        ModelFormatError, match=r"part\.gguf: is part 2 of 3, .* expected one like model-00001-of-00003"
    ):
        chainrule.load(moved)
    with pytest.raises(
        ModelFormatError, match=r"00003\.gguf: is part 1 of 3, and tiny-00002-of-00003\.gguf is missing"
    ):
        chainrule.load(parts[0])
    data = parts[2].read_bytes()
    parts[1].write_bytes(data)
    with pytest.raises(
        ModelFormatError, match=r"tiny-00002-of-00003\.gguf: says that its split\.no is 2 of 3; expected 1"
    ):
        chainrule.load(parts[0])
    parts[0].unlink()
    with pytest.raises(
        ModelFormatError, match=r"is part 3 of 3, and tiny-00001-of-00003\.gguf is missing beside it; get"
    ):
        chainrule.load(parts[2])
