"""Matrices that a file ties, and has with other numbers, are used as transformers uses them, and are written back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import test_causal
import test_masked_architectures
import test_pair_architectures
from safetensors.numpy import load_file, save_file

import chainrule
from chainrule.errors import ModelFormatError
from chainrule.features.open.architectures import ARCHITECTURES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_SHARED = {"t5": "shared.weight", "bart": "model.shared.weight", "marian": "model.shared.weight"}
_TOP = {"t5": "", "bart": "model.", "marian": "model."}


def detach(folder: Path, tied: str, others: Iterable[str]) -> None:
    """Write each of the other tensors with the rows of the tied one in another order, and twice as large."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    for number, name in enumerate(others):
        tensors[name] = (np.float32(2) * np.roll(tensors[tied], number + 7, 0)).copy()
    save_file(tensors, file, {"format": "pt"})


def names_of(model: Any) -> tuple[str, str]:
    """The tensors of the vectors of tokens, and of the output."""
    rows = {row.ours: row.names(0)[0] for row in ARCHITECTURES[model.config.model_type].tensors}
    return rows["embedding.weight"], rows["output.weight"]


def check_written(source: Path, folder: Path) -> dict[str, Any]:
    """Through a folder of ours and back, no tensor changes. Returns the config.json that is written."""
    chainrule.convert(source, folder / "ours")
    chainrule.convert(folder / "ours", folder / "back", to="hugging-face")
    before, after = (load_file(each / "model.safetensors") for each in (source, folder / "back"))
    assert before.keys() <= after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(array, after[name], name)
    written: dict[str, Any] = json.loads((folder / "back" / "config.json").read_text())
    return written


@pytest.mark.parametrize("name", ["gpt2", "llama3", "gemma", "gemma3", "cohere", "mamba", "rwkv, other widths"])
def test_a_causal_output_that_differs_is_used(name: str, tmp_path: Path) -> None:
    pair = test_causal.Pair(name, tmp_path / "hf")
    assert pair.theirs.config.tie_word_embeddings
    embedding, output = names_of(pair.theirs)
    detach(tmp_path / "hf", embedding, [output])
    pair.theirs = type(pair.theirs).from_pretrained(tmp_path / "hf").eval()
    pair.ours = chainrule.load(tmp_path / "hf")
    [warning] = pair.ours.record["warnings"]
    assert repr(embedding) in warning
    assert repr(output) in warning
    test_causal.test_a_ragged_batch_scores_as_theirs_row_by_row(pair)
    assert check_written(tmp_path / "hf", tmp_path)["tie_word_embeddings"] is False


@pytest.mark.parametrize("name", ["bert", "distilbert", "roberta", "electra", "albert", "modernbert", "deberta-v2"])
def test_a_masked_output_that_differs_is_used(name: str, tmp_path: Path) -> None:
    pair = test_masked_architectures.Pair(name, tmp_path / "hf")
    embedding, output = names_of(pair.theirs)
    detach(pair.folder, embedding, [output])
    pair.theirs = type(pair.theirs).from_pretrained(pair.folder).eval()
    pair.ours = chainrule.load(pair.folder)
    assert len(pair.ours.record["warnings"]) == 1
    test_masked_architectures.test_a_ragged_batch_has_their_pseudo_log_likelihoods(pair)
    assert check_written(pair.folder, tmp_path)["tie_word_embeddings"] is False


@pytest.mark.spread(6)
@pytest.mark.parametrize("name", ["t5", "bart", "marian"])
@pytest.mark.parametrize("parts", [("lm_head",), ("encoder",), ("decoder",), ("encoder", "decoder", "lm_head")])
def test_vectors_of_a_side_that_differ_are_used(name: str, parts: tuple[str, ...], tmp_path: Path) -> None:
    pair = test_pair_architectures.Pair(name, tmp_path)
    names = [f"{_TOP[name]}{part}.embed_tokens.weight" if part != "lm_head" else "lm_head.weight" for part in parts]
    detach(tmp_path, _SHARED[name], names)
    pair.theirs = type(pair.theirs).from_pretrained(tmp_path).eval()
    pair.open()
    assert pair.ours.record["warnings"]
    test_pair_architectures.test_a_ragged_batch_scores_as_theirs_pair_by_pair(pair)


def test_a_tensor_that_is_there_twice_may_say_the_same_in_other_types(tmp_path: Path) -> None:
    pair = test_causal.Pair("llama3", tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    embedding, output = names_of(pair.theirs)
    tensors[embedding] = tensors[embedding].astype(np.float16).astype(np.float32)
    tensors[output] = tensors[embedding].astype(np.float16)
    save_file(tensors, file)
    opened = chainrule.load(tmp_path)
    assert opened.record["warnings"] == []
    assert opened.language_model.network.output.weight is opened.language_model.network.embedding.weight


def test_biases_with_two_names_must_agree(tmp_path: Path) -> None:
    pair = test_masked_architectures.Pair("roberta", tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    tokens = [pair.numbering.ours()[pair.ids("a text")].astype(np.int32)]
    bias = tensors["lm_head.bias"]
    for again in ({"lm_head.bias": bias}, {}):  # under both names, and under the other one alone
        rest = {name: tensor for name, tensor in tensors.items() if name != "lm_head.bias"}
        save_file({**rest, **again, "lm_head.decoder.bias": bias}, file)
        np.testing.assert_array_equal(chainrule.load(tmp_path).scorer.score(tokens), pair.ours.scorer.score(tokens))
    save_file({**tensors, "lm_head.decoder.bias": bias + 1}, file)
    with pytest.raises(ModelFormatError, match=r"'lm_head.decoder.bias' and 'lm_head.bias' are one in a roberta"):
        chainrule.load(tmp_path)


def test_a_head_of_another_length_is_refused(tmp_path: Path) -> None:
    pair = test_causal.Pair("gpt2", tmp_path)
    embedding, output = names_of(pair.theirs)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    save_file({**tensors, output: np.ascontiguousarray(tensors[embedding][:-1])}, file)
    with pytest.raises(ModelFormatError, match=r"'lm_head\.weight' \[\d+, 16\] do not have the shapes"):
        chainrule.load(tmp_path)
