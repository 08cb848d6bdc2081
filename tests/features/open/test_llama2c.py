"""A file of llama2.c gives what transformers gives on the same weights, and cuts text as its own program does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tiny_files import llama_of_512, write_llama2c

import chainrule
from chainrule import ModelFormatError
from chainrule.models.files.origin import TokenIdMap

if TYPE_CHECKING:
    from pathlib import Path

# What llama2.c's own encoder gives with the tokenizer of aidreams260K (tests/fixtures/tok512.bin), 1 being <s>.
ENCODINGS = {
    "The dream began.": [1, 368, 430, 281, 269, 435, 447, 294, 430, 442, 287, 448],
    "naïve €": [1, 324, 435, 198, 178, 339, 429, 229, 133, 175],
}


@pytest.fixture(scope="module")
def theirs() -> Any:
    return llama_of_512()


def test_a_file_gives_what_transformers_gives(theirs: Any, tmp_path: Path, fixtures: Path) -> None:
    (tmp_path / "tok512.bin").write_bytes((fixtures / "tok512.bin").read_bytes())
    ours = chainrule.load(write_llama2c(tmp_path / "tiny.bin", theirs))
    numbering = TokenIdMap(**ours.record["hugging_face"]["tokens"])
    for text, ids in ENCODINGS.items():
        encoded = ours.tokenizer.encode_texts([text]).ids[:-1]
        assert numbering.theirs()[encoded].tolist() == ids[1:]
        assert ours.tokenizer.decode(encoded) == text
        with torch.no_grad():
            logits = theirs(torch.tensor([ids])).logits[0, :-1].double()
        tolerance = 1e-5 * float(logits.abs().max())
        logits[:, 1] = -torch.inf
        expected = logits.log_softmax(-1)[torch.arange(len(ids) - 1), ids[1:]].numpy()
        np.testing.assert_allclose(ours.language_model.score([encoded], end=False)[0], expected, atol=tolerance, rtol=0)


def test_its_tokenizer_may_be_named_and_is_asked_for(theirs: Any, tmp_path: Path, fixtures: Path) -> None:
    path = write_llama2c(tmp_path / "tiny.bin", theirs)
    with pytest.raises(
        ModelFormatError, match=r"its tokenizer is missing: put tokenizer\.bin or tok512\.bin beside it"
    ):
        chainrule.load(path)
    assert chainrule.load(path, tokenizer=str(fixtures / "tok512.bin")).vocabulary_size == 512
    tokenizer = (fixtures / "tok512.bin").read_bytes()
    for size in (0, 2, 4, 3000, len(tokenizer) - 1):
        (tmp_path / "tokenizer.bin").write_bytes(tokenizer[:size])
        with pytest.raises(ModelFormatError, match=r"tokenizer\.bin: ends before its 512 tokens do; it was cut off"):
            chainrule.load(path)


def test_a_file_that_is_cut_off_says_so(theirs: Any, tmp_path: Path) -> None:
    path = write_llama2c(tmp_path / "tiny.bin", theirs)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ModelFormatError, match=r"tiny\.bin: has [\d,]+ bytes; .* llama2\.c, .* was cut off"):
        chainrule.load(path)
    path.write_bytes(bytes(range(1, 200)))
    with pytest.raises(ModelFormatError, match=r"tiny\.bin: a model is a folder, .* one of llama2\.c, "):
        chainrule.load(path)
