"""Model folders: what is saved comes back, and nothing else is touched."""

import hashlib
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_folders import ARRAYS, OTHER_ARRAYS, TEXTS, contents, rewrite_config, save, with_texts

import chainrule
from chainrule.errors import EstimationError, ModelFormatError, OutputError
from chainrule.models.language_models import CausalNetwork
from chainrule.storage.config_json import TokenizerEntry
from chainrule.storage.model_folder import check_target, open_model, save_model, verify_model


def test_what_was_saved_is_opened_and_verified(folder: Path) -> None:
    entry, arrays, *_ = open_model(folder)
    assert (entry.family, entry.settings, entry.record) == ("ngram", {"order": 3, "discounts": None}, {"note": "first"})
    assert entry.tokenizer.model_dump() == {"kind": "word", "markers": "skip", "normalise": (), "unicode": "14.0.0"}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
    assert verify_model(folder) == entry


def test_a_folder_holds_a_config_a_card_and_one_data_file_named_by_its_content(folder: Path) -> None:
    entry, *_ = open_model(folder)
    data = entry.files["arrays.safetensors"]
    assert sorted(contents(folder)) == sorted(["README.md", "config.json", f"arrays-{data.sha256[:16]}.safetensors"])
    digest = hashlib.sha256(b"# A card\n").hexdigest()
    assert (folder / "README.md").read_text() == f"# A card\n\n<!-- SHA-256 of the above: {digest} -->\n"
    assert (folder / data.name).stat().st_size == data.bytes


@pytest.mark.parametrize(
    "value",
    [math.inf, [1, 2.5, None, True], {"ä": "日本\n"}, 2**60, "\0", ""],
    ids=["infinity", "list", "object", "large", "nul", "empty"],
)
def test_a_record_comes_back_as_it_was(tmp_path: Path, value: Any) -> None:
    save(tmp_path / "lm", value=value)
    assert open_model(tmp_path / "lm")[0].record == {"value": value}


def test_a_file_name_that_is_no_utf8_can_be_recorded(tmp_path: Path) -> None:
    save(tmp_path / "lm", command=[os.fsdecode(b"caf\xe9.txt")])
    assert verify_model(tmp_path / "lm").record == {"command": ["caf?.txt"]}


def test_missing_parent_folders_are_created(tmp_path: Path) -> None:
    save(tmp_path / "a" / "b" / "lm", value=1)
    assert verify_model(tmp_path / "a" / "b" / "lm").record == {"value": 1}


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "lm").mkdir()
    save(tmp_path / "lm", value=1)
    assert verify_model(tmp_path / "lm").record == {"value": 1}


def test_a_model_is_not_replaced_without_overwrite(folder: Path) -> None:
    before = contents(folder)
    with pytest.raises(OutputError, match="there is a model already; use overwrite=True"):
        save(folder, OTHER_ARRAYS)
    assert contents(folder) == before


@pytest.mark.parametrize("content", ['{"model_type": "gpt2"}', '{"a": 1}', "[1]"])
def test_a_config_of_another_program_is_not_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(OutputError, match=r"its config\.json is of another program"):
        save(tmp_path, overwrite=True)
    assert contents(tmp_path) == {"config.json": content.encode()}


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="this folder holds other files and no model"):
        save(tmp_path, overwrite=overwrite)
    assert contents(tmp_path) == {"thesis.tex": b"years of work"}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["file", "file/lm"])
def test_a_file_in_the_way_is_left_alone(tmp_path: Path, overwrite: bool, name: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="file"):
        save(tmp_path / name, overwrite=overwrite)
    assert contents(tmp_path) == {"file": b"x"}


def test_a_folder_that_may_not_be_written_to_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as for anyone but root
    with pytest.raises(OutputError, match=f"lm: cannot be written: no permission to write to {tmp_path}"):
        check_target(tmp_path / "a" / "lm", overwrite=False)


def test_an_impossible_folder_name_is_an_output_error(tmp_path: Path) -> None:
    name = tmp_path / ("x" * 300)
    with pytest.raises(OutputError, match="File name too long"):
        check_target(name, overwrite=False)
    with pytest.raises(ModelFormatError, match="there is no such folder"):
        open_model(name)


@pytest.mark.parametrize("arrays", [ARRAYS, OTHER_ARRAYS], ids=["same", "other"])
def test_overwriting_leaves_the_new_model_alone_in_its_folder(folder: Path, arrays: dict[str, np.ndarray]) -> None:
    (folder / "notes.txt").write_text("mine")
    save(folder, arrays, overwrite=True, note="second")
    entry, found, *_ = open_model(folder)
    assert entry.record == {"note": "second"}
    assert found.keys() == arrays.keys()
    assert sorted(contents(folder)) == sorted(
        ["README.md", "config.json", "notes.txt", entry.files["arrays.safetensors"].name]
    )


def test_arrays_that_are_in_use_can_be_overwritten_by_themselves(folder: Path) -> None:
    _, arrays, *_ = open_model(folder)
    save(folder, arrays, overwrite=True)
    verify_model(folder)
    np.testing.assert_array_equal(arrays["numbers"], ARRAYS["numbers"])


def test_further_data_files_come_back_and_are_named_by_their_content(tmp_path: Path) -> None:
    folder = with_texts(tmp_path / "lm")
    entry, _, texts, _ = open_model(folder)
    assert texts == TEXTS
    digest = hashlib.sha256(TEXTS["tokenizer.json"]).hexdigest()
    assert entry.files["tokenizer.json"].name == f"tokenizer-{digest[:16]}.json"
    assert len(contents(folder)) == 4
    with_texts(folder, OTHER_ARRAYS, overwrite=True)
    assert len(contents(folder)) == 4
    save(folder, overwrite=True)  # by a model that needs no such file
    assert len(contents(folder)) == 3
    assert open_model(folder)[2] == {}


def test_a_data_file_that_a_model_folder_does_not_have_is_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ValueError, match=r"no data files \['merges.txt'\]"):
        save_model(
            tmp_path / "new",
            family="ngram",
            settings={},
            tokenizer=TokenizerEntry(kind="word", markers="skip", unicode="14.0.0"),
            arrays=ARRAYS,
            record={},
            card="",
            texts={"merges.txt": b""},
        )
    assert not (tmp_path / "new").exists()
    rewrite_config(folder, lambda config: config["files"].update(more=config["files"]["arrays.safetensors"]))
    with pytest.raises(ModelFormatError, match=r"files\.more is unknown; expected arrays\.safetensors or"):
        open_model(folder)


def test_nan_is_not_saved(tmp_path: Path) -> None:
    """Of any family: n-grams hide their numbers in records."""
    from random_networks import MODERN, random_model

    ngrams = chainrule.train(chainrule.Lines(["a b", "b a"]), chainrule.NGramConfig(order=2))
    ngrams.language_model.table.nodes["log_prob"][4] = np.nan
    network = random_model(MODERN, ngrams.vocabulary_size)
    network.network.embedding.weight.data[3, 3] = np.nan
    neural = CausalNetwork("transformer", network, ngrams.tokenizer, {}, ngrams.speller)
    for model in (ngrams, neural):
        with pytest.raises(EstimationError, match=r"has NaN in its .* not saved"):
            model.save(tmp_path / "lm")
    assert not (tmp_path / "lm").exists()
