"""chainrule convert: model folders and ARPA files, in both directions."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
from oracles import parsed_arpa

import chainrule as library

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", ["model.arpa", "model.arpa.gz"])
def test_a_folder_becomes_the_arpa_file_that_lmplz_writes(
    name: str, chainrule, model: Path, fixtures: Path, tmp_path: Path
) -> None:
    assert chainrule("convert", model, tmp_path / name) == (0, "", "")
    if name == "model.arpa":
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    ours, theirs = parsed_arpa(tmp_path / "model.arpa.gz"), parsed_arpa(fixtures / "order3.arpa.gz")
    assert ours.keys() == theirs.keys()
    del ours["<s>",], theirs["<s>",]  # what stands for the probability of what is never predicted differs
    for ngram, values in theirs.items():
        assert ours[ngram] == pytest.approx(values, abs=1e-5)


def test_there_and_back_changes_no_score(chainrule, model: Path, heldout: Path, tmp_path: Path) -> None:
    assert chainrule("convert", model, tmp_path / "model.arpa.gz").status == 0
    assert chainrule("convert", tmp_path / "model.arpa.gz", tmp_path / "back").status == 0
    assert chainrule("verify", tmp_path / "back").status == 0
    expected = chainrule("evaluate", model, heldout, "--json").json
    for path in (tmp_path / "model.arpa.gz", tmp_path / "back"):
        found = chainrule("evaluate", path, heldout, "--json").json
        assert found["log_prob"] == pytest.approx(expected["log_prob"], rel=1e-6)
        assert found["signature"].partition("|unseen:")[0] == expected["signature"].partition("|unseen:")[0]


def test_capitals_in_a_file_s_name_change_nothing(chainrule, model: Path, tmp_path: Path) -> None:
    """As some systems write names: a file, compressed where its name says so, that is read again."""
    for name in ("SMALL.ARPA", "Small.Arpa.GZ", "SMALL.FST.TXT", "small.COMBINED"):
        assert chainrule("convert", model, tmp_path / name).status == 0
        assert (tmp_path / name).is_file()
        assert ((tmp_path / name).read_bytes()[:2] == b"\x1f\x8b") == name.endswith("GZ")
    assert (tmp_path / "SMALL.syms").is_file()
    written, packed = (library.load(tmp_path / name) for name in ("SMALL.ARPA", "Small.Arpa.GZ"))
    assert written.score(["a b", "b"]).tolist() == packed.score(["a b", "b"]).tolist()


def test_the_tokenizer_of_an_arpa_file_is_the_one_that_was_named(chainrule, fixtures: Path, tmp_path: Path) -> None:
    source = fixtures / "order1.arpa.gz"
    assert chainrule("convert", source, tmp_path / "plain").status == 0
    assert chainrule("convert", source, tmp_path / "word", "--tokenizer", "word").status == 0
    names = [library.load(tmp_path / name).tokenizer.name for name in ("plain", "word")]
    assert names == ["whitespace", "word"]


def test_what_is_odd_in_an_arpa_file_is_noted(chainrule, tmp_path: Path) -> None:
    lines = ["\\data\\", "ngram 1=3", "", "\\1-grams:", "0\t<s>", "-0.3\t</s>", "-0.3\ta", "", "\\end\\", ""]
    (tmp_path / "odd.arpa").write_text("\n".join(lines))
    result = chainrule("convert", tmp_path / "odd.arpa", tmp_path / "lm")
    assert result.status == 0
    assert result.err.startswith("note: ")
    assert "<unk>" in result.err


@pytest.mark.parametrize("name", ["taken.arpa", "taken"])
def test_a_target_is_replaced_only_when_asked(
    name: str, chainrule, model: Path, fixtures: Path, tmp_path: Path
) -> None:
    target = tmp_path / name
    assert chainrule("convert", fixtures / "order1.arpa.gz", target).status == 0
    result = chainrule("convert", model, target)
    assert result.status == 1
    assert "--overwrite" in result.error
    assert library.load(target).language_model.table.order == 1
    assert chainrule("convert", model, target, "--overwrite") == (0, "", "")
    assert library.load(target).language_model.table.order == 3


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("folder.arpa", "is a folder; an ARPA model is a file"),
        ("missing/new.arpa", "create it first"),
        ("file.txt", "a file is in the way"),
        ("new.gz", "a model is a folder, and this is the name of a file; leave out .gz"),
        ("file.txt/new.arpa", "there is no folder"),
    ],
)
def test_an_impossible_target_is_an_error_before_the_work(
    target: str, message: str, chainrule, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "folder.arpa").mkdir()
    (tmp_path / "file.txt").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    result = chainrule("convert", model, tmp_path / target)
    assert result.status == 1
    assert result.error.startswith(f"{tmp_path / target}: ")
    assert message in result.error
    assert sorted(tmp_path.rglob("*")) == before


def test_shards_are_not_an_arpa_file(chainrule, model: Path, tmp_path: Path) -> None:
    result = chainrule("convert", model, tmp_path / "big.arpa", "--shards", "2")
    assert result.status == 2
    assert f"{tmp_path / 'big.arpa'} is the name of an ARPA file; name a folder." in result.error


def test_a_model_without_n_grams_cannot_be_arpa(chainrule, corpus: Path, tmp_path: Path) -> None:
    chainrule("train", "uniform", corpus, "-o", tmp_path / "uniform")
    result = chainrule("convert", tmp_path / "uniform", tmp_path / "uniform.arpa")
    assert result.status == 1
    assert "'uniform' cannot be written as ARPA" in result.error
    assert not (tmp_path / "uniform.arpa").exists()


def test_a_folder_becomes_a_compact_one_and_a_fast_one_again(
    chainrule, model: Path, heldout: Path, tmp_path: Path
) -> None:
    small, fast = tmp_path / "small", tmp_path / "fast"
    assert chainrule("convert", model, small, "--compact") == (0, "", "")
    assert chainrule("verify", small).status == 0
    back = chainrule("convert", small, fast)
    assert (back.status, back.out) == (0, "")
    assert back.err == f"note: {small}: was quantised when it was compacted, and stays so\n"
    layouts = [library.load(path).layout for path in (model, small, fast)]
    assert layouts == ["fast", "compact", "fast"]
    exact, quantised, unpacked = (chainrule("evaluate", path, heldout, "--json").json for path in (model, small, fast))
    assert quantised["perplexity"] == pytest.approx(exact["perplexity"], rel=0.01)
    assert unpacked["log_prob"] == pytest.approx(quantised["log_prob"], rel=1e-6)
    for figures in (exact, quantised, unpacked):
        assert figures["mean_row_sum"] == pytest.approx(1, abs=1e-5)


def test_a_compact_model_is_written_as_an_arpa_file(chainrule, model: Path, heldout: Path, tmp_path: Path) -> None:
    small, arpa = tmp_path / "small", tmp_path / "small.arpa"
    assert chainrule("convert", model, small, "--compact").status == 0
    assert chainrule("convert", small, arpa).status == 0
    assert chainrule("convert", arpa, tmp_path / "again", "--compact").status == 0
    expected = chainrule("evaluate", small, heldout, "--json").json["log_prob"]
    for path in (arpa, tmp_path / "again"):
        assert chainrule("evaluate", path, heldout, "--json").json["log_prob"] == pytest.approx(expected, rel=1e-3)


def test_a_network_becomes_compact_and_wide_again(chainrule, fixtures: Path, heldout: Path, tmp_path: Path) -> None:
    config = library.TransformerConfig(layers=1, width=64, heads=2, context=32)
    training = library.TrainingConfig(steps=2, batch=2)
    library.train(fixtures / "train.txt", config=config, training=training).save(tmp_path / "lm")
    small, wide = tmp_path / "small", tmp_path / "wide"
    result = chainrule("convert", tmp_path / "lm", small, "--compact")
    assert (
        result.err
        == f"note: {small}: its weights are in int8; its figures differ a little from those of {tmp_path / 'lm'}\n"
    )
    assert "weights:int8" in chainrule("info", small).out
    assert (
        chainrule("convert", small, wide).err == f"note: {small}: was quantised when it was compacted, and stays so\n"
    )
    bits = [chainrule("evaluate", path, heldout, "--json").json["bits_per_byte"] for path in (small, wide)]
    assert bits[0] == pytest.approx(bits[1], rel=1e-5)


def test_models_without_a_compact_form_are_an_error(chainrule, model: Path, fixtures: Path, tmp_path: Path) -> None:
    assert "an ARPA file has no compact form" in chainrule("convert", model, tmp_path / "lm.arpa", "--compact").error
    assert chainrule("train", "uniform", fixtures / "train.txt", "-o", tmp_path / "flat").status == 0
    told = chainrule("convert", tmp_path / "flat", tmp_path / "small", "--compact").error
    assert "'uniform' has no compact form" in told
    assert not (tmp_path / "small").exists()


def test_fewer_shards_than_were_asked_for_are_told(chainrule, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat\nthe dog\n")
    assert chainrule("train", "ngram", text, "-o", tmp_path / "one", "--order", "1").status == 0
    result = chainrule("convert", tmp_path / "one", tmp_path / "cut", "--shards", "5")
    assert result.status == 0
    assert "1 of 5 shards" in result.err


def test_a_folder_of_shards_is_copied_with_a_note(chainrule, model: Path, tmp_path: Path) -> None:
    assert chainrule("convert", model, tmp_path / "big", "--shards", 2).status == 0
    result = chainrule("convert", tmp_path / "big", tmp_path / "whole")
    assert result.status == 0
    assert f"{tmp_path / 'whole'}: a folder of shards, as {tmp_path / 'big'} is; for one file, name it" in result.err
