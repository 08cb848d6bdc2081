"""chainrule embed and nearest: the same vectors as the library's, to files and screens; and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from random_networks import MODERN, random_model

from chainrule.decoding.options import EmbeddingConfig
from chainrule.models.language_models import CausalNetwork
from chainrule.text.tokenization.tokenizer import Tokenizer
from chainrule.text.vector_files import read_vectors

if TYPE_CHECKING:
    from pathlib import Path

LINES = ["the bank of the river", "a bank", "", "the river"]


@pytest.fixture(scope="module")
def model() -> CausalNetwork:
    tokenizer = Tokenizer.untrained("word")
    tokenizer.encode(np.frombuffer(bytearray("\n".join([*LINES, ""]).encode()), np.uint8), grow=True)
    return CausalNetwork("transformer", random_model(MODERN, tokenizer.vocabulary_size), tokenizer)


@pytest.fixture(scope="module")
def network(model: CausalNetwork, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("network") / "lm"
    model.save(path)
    return path


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(line + "\n" for line in LINES))
    return path


def test_texts_go_to_a_file_of_numpy(
    chainrule, model: CausalNetwork, network: Path, text: Path, tmp_path: Path
) -> None:
    result = chainrule("embed", network, text, "-o", tmp_path / "v.npy")
    assert result == (0, "", "")
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), model.embed(LINES), atol=1e-6)
    assert "exists already" in chainrule("embed", network, text, "-o", tmp_path / "v.npy").error


def test_words_are_lines_of_json(chainrule, stdin, model: CausalNetwork, network: Path) -> None:
    stdin("".join(line + "\n" for line in LINES).encode())
    result = chainrule("embed", network, "--words", "--layer", "1", "--pooling", "last")
    records = [json.loads(line) for line in result.lines]
    found = model.embed_units(LINES, EmbeddingConfig(unit="word", layer=1, pooling="last"))
    for record, expected in zip(records, found, strict=True):
        assert (record["text"], record["words"]) == (expected.text, expected.units)
        vectors = np.array(record["vectors"]).reshape(expected.vectors.shape)
        np.testing.assert_allclose(vectors, expected.vectors, atol=1e-6)


def test_the_vocabulary_has_a_row_for_each_token(
    chainrule, model: CausalNetwork, network: Path, tmp_path: Path
) -> None:
    assert chainrule("embed", network, "--vocabulary", "-o", tmp_path / "v.jsonl").status == 0
    records = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    assert [record["text"].encode() for record in records] == model.tokenizer.vocabulary.tokens()
    np.testing.assert_allclose([record["vector"] for record in records], model.embedder.static_vectors(), atol=1e-6)


def test_the_vocabulary_is_written_as_word2vec_does(
    chainrule, model: CausalNetwork, network: Path, tmp_path: Path
) -> None:
    assert chainrule("embed", network, "--vocabulary", "-o", tmp_path / "v.vec").status == 0
    found = read_vectors(str(tmp_path / "v.vec"), model.tokenizer.vocabulary.tokens())
    np.testing.assert_array_equal(found.rows[np.argsort(found.ids)], model.embedder.static_vectors())


def test_the_nearest_word_of_a_text_is_itself_in_the_same_sentence(chainrule, network: Path, text: Path) -> None:
    lines = chainrule("nearest", network, "the [bank] of the river", text, "--top", 3).lines
    assert lines[0] == "1.0000\tthe [bank] of the river"
    assert len(lines) == 3
    best, _ = (json.loads(line) for line in chainrule("nearest", network, "[river]", "--top", 2, "--json").lines)
    assert best["word"] == "river"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("embed NETWORK TEXT --words --tokens", 2, "Choose one of --words"),
        ("embed NETWORK TEXT -o vectors.txt", 2, "its name must end in .npy, .csv, .tsv, .jsonl or .parquet"),
        ("embed NETWORK TEXT -o vectors.vec", 2, "its name must end in .npy, .csv, .tsv, .jsonl or .parquet"),
        (
            "embed NETWORK --vocabulary -o vectors.txt",
            2,
            "its name must end in .npy, .csv, .tsv, .jsonl, .parquet or .vec",
        ),
        ("embed NETWORK TEXT --layer 8", 1, "there is no layer 8"),
        ("embed NETWORK TEXT --pooling sum", 2, "--pooling"),
        ("embed NETWORK TEXT --vocabulary", 2, "--vocabulary reads no text"),
        ("embed NETWORK --vocabulary --layer 1", 2, "--vocabulary reads no text"),
        ("nearest NETWORK [river] --layer 1", 2, "need a TEXT, which is missing"),
        ("embed NETWORK missing.txt", 1, "missing.txt"),
        ("nearest NETWORK river TEXT", 1, "put one of its words in brackets"),
        ("nearest NETWORK [river] TEXT --top 0", 1, "top is 0"),
    ],
)
def test_bad_options_are_errors(
    arguments: str, status: int, message: str, chainrule, network: Path, text: Path
) -> None:
    names = {"NETWORK": network, "TEXT": text}
    result = chainrule(*(names.get(argument, argument) for argument in arguments.split()))
    assert result.status == status
    assert message in result.error
