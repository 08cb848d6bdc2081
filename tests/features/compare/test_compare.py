"""chainrule compare: one table of all models, on screen and on disk."""

from __future__ import annotations

import math
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest
from command_line import strict_json

import chainrule as library

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["uniform", "unigram", "bigram", "trigram"]


def test_every_row_is_what_train_and_evaluate_give(chainrule, corpus: Path, heldout: Path) -> None:
    result = chainrule("compare", corpus, "--heldout", heldout, "--order", 3, "--tokenizer", "whitespace", "--json")
    assert (result.status, result.err) == (0, "")
    assert [row["model"] for row in result.json] == NAMES
    configs = [library.UniformConfig(), *(library.NGramConfig(order=n) for n in (1, 2, 3))]
    for row, config in zip(result.json, configs, strict=True):
        measurement = library.train(corpus, config, tokenizer="whitespace").evaluate(heldout)
        for name in ("tokens", "oov", "bytes", "perplexity", "perplexity_without_oov", "bits_per_byte", "signature"):
            assert row[name] == pytest.approx(getattr(measurement, name)), name
    assert [row["parameters"] for row in result.json] == [0, 338, 338 + 4259, 338 + 4259 + 9628]


def test_every_tenth_line_of_a_short_text_is_held_out(chainrule, tmp_path: Path) -> None:
    lines = [f"{word} so" for word in "abcdefghijklmnopqrstuvwxyz"]
    (tmp_path / "text").write_text("".join(line + "\n" for line in lines))
    (tmp_path / "train").write_text("".join(line + "\n" for i, line in enumerate(lines) if i not in (9, 19)))
    (tmp_path / "heldout").write_text("j so\nt so\n")
    split = chainrule("compare", tmp_path / "text", "--order", 2, "--json").json
    apart = chainrule("compare", tmp_path / "train", "--heldout", tmp_path / "heldout", "--order", 2, "--json").json
    assert [row["bits_per_byte"] for row in split] == [row["bits_per_byte"] for row in apart]
    assert split[0]["signature"] == apart[0]["signature"]


def test_the_text_says_what_was_measured_and_which_is_best(chainrule, corpus: Path, heldout: Path) -> None:
    result = chainrule("compare", corpus, "--heldout", heldout, "--order", 3)
    rows = chainrule("compare", corpus, "--heldout", heldout, "--order", 3, "--json").json
    assert result.lines[0] == f"trained on {corpus}; measured on {heldout}"
    assert [line.split()[:2] for line in result.lines[3:7]] == [
        [row["model"], f"{row['bits_per_byte']:.4f}"] for row in rows
    ]
    best = min(rows, key=lambda row: row["bits_per_byte"])
    assert result.lines[-2:] == [f"best by bits per byte: {best['model']}", f"signature  {best['signature']}"]


def test_a_report_is_written_and_replaced_only_when_asked(chainrule, corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "report"
    result = chainrule("compare", corpus, "--order", 1, "-o", f"{folder}/")
    assert result.status == 0
    names = ["table.md", "table.json", "index.html", "by-position.svg", "by-frequency.svg"]
    assert result.err == f"{folder}: {', '.join(names)}\n"
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    figures = strict_json((folder / "table.json").read_text())
    assert [row["model"] for row in figures] == NAMES[:2]
    page = (folder / "table.md").read_text()
    assert f"trained on nine tenths of {corpus}" in page
    assert figures[1]["signature"] in page
    assert f"| unigram | {figures[1]['bits_per_byte']:.4f} |" in page

    refused = chainrule("compare", corpus, "--order", 2, "-o", folder)
    assert refused.status == 1
    assert refused.error == (
        f"{folder / 'table.md'}: exists already; use --overwrite to replace it, or choose another folder"
    )
    assert (folder / "table.md").read_text() == page
    assert chainrule("compare", corpus, "--order", 2, "-o", folder, "--overwrite", "--json").status == 0
    assert len(strict_json((folder / "table.json").read_text())) == 3
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    (folder / "notes.svg").write_text("mine")
    assert chainrule("compare", corpus, "--smoothing", "laplace", "-o", folder, "--overwrite").status == 0
    assert sorted(path.name for path in folder.iterdir()) == ["notes.svg", "table.json", "table.md"]


def test_a_plot_for_a_paper(chainrule, corpus: Path, tmp_path: Path) -> None:
    path = tmp_path / "bits.pdf"
    result = chainrule("compare", corpus, "--order", 2, "--plot", path)
    assert (result.status, result.err) == (0, f"wrote {path}: bits per byte by position in the document\n")
    assert path.read_bytes().startswith(b"%PDF-")
    assert "exists already; use --overwrite" in chainrule("compare", corpus, "--order", 2, "--plot", path).error
    wrong = chainrule("compare", corpus, "--plot", tmp_path / "bits.gif")
    assert (wrong.status, "its name must end in .pdf, .png or .svg." in wrong.error) == (2, True)
    refused = chainrule("compare", corpus, "--smoothing", "laplace", "--plot", path)
    assert (refused.status, "there is only a table" in refused.error) == (2, True)


def test_without_matplotlib_a_report_has_no_plots(
    chainrule, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = chainrule("compare", corpus, "--order", 1, "-o", tmp_path / "report")
    assert result.status == 0
    assert "note: the page has tables instead of plots, which need pip install 'chainrule[report]'" in result.err
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == ["index.html", "table.json", "table.md"]
    refused = chainrule("compare", corpus, "--order", 1, "--plot", tmp_path / "bits.svg")
    assert refused.error == "plots need matplotlib, which is not installed: pip install 'chainrule[report]'"


def test_a_report_is_not_written_under_the_name_of_a_page(chainrule, corpus: Path, tmp_path: Path) -> None:
    result = chainrule("compare", corpus, "-o", tmp_path / "report.html")
    assert result.status == 1
    assert "a report is a folder with index.html in it; leave .html out" in result.error
    assert not (tmp_path / "report.html").exists()


def test_other_things_in_a_report_folder_are_left_alone(chainrule, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert chainrule("compare", corpus, "--order", 1, "-o", tmp_path).status == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b\n" * 9, "has 9 documents; at least 10 are needed for a share of 1/10"),
        ("a b\n" * 11 + "c <s>\n" + "a b\n" * 8, "line 12: <s> occurs in the text"),  # in the part to train on
        ("a b\n" * 19 + "c <s>\n", "line 20: <s> occurs in the text"),  # in the part held out
    ],
)
def test_an_error_names_the_place_in_the_whole_text_and_leaves_no_folder(
    text: str, message: str, chainrule, tmp_path: Path
) -> None:
    path = tmp_path / "text"
    path.write_text(text)
    result = chainrule("compare", path, "-o", tmp_path / "report")
    assert result.status == 1
    assert str(path) in result.error
    assert message in result.error
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize("order", [-1, 0, 25, 100])
def test_an_impossible_order_is_an_error_before_the_work(order: int, chainrule, corpus: Path, tmp_path: Path) -> None:
    result = chainrule("compare", corpus, "--order", order, "-o", tmp_path / "report")
    assert result.status == 1
    assert result.error == f"order {order} is not possible: an n-gram model has an order of 1 to 24"
    assert not (tmp_path / "report").exists()


def test_a_report_that_cannot_be_written_leaves_nothing(
    chainrule, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    result = chainrule("compare", corpus, "--order", 1, "-o", tmp_path / "report")
    assert result.status == 1
    assert result.error.endswith("by-frequency.svg: cannot be written: No space left on device; nothing was changed")
    assert not (tmp_path / "report").exists()


def test_measuring_on_the_training_text_is_noted(chainrule, corpus: Path) -> None:
    result = chainrule("compare", corpus, "--heldout", corpus, "--order", 1)
    assert result.status == 0
    assert result.err == f"note: {corpus}: is also trained on, so the figures will be too good\n"


def test_pythons_own_documentation_is_there_without_any_file(chainrule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "chainrule.features.compare.compare.sample_lines", lambda progress: 10 * ["a line of it", "another"]
    )
    result = chainrule("compare", "--order", 2)
    assert result.status == 0
    assert result.lines[0] == (
        "trained on nine tenths of Python's own documentation; measured on one tenth of Python's own documentation"
    )
    uniform, unigram, bigram = [float(line.split()[1]) for line in result.lines[3:6]]
    assert uniform > unigram > bigram > 0


def test_networks_are_compared_within_their_minutes(chainrule, tmp_path: Path) -> None:
    lines = [f"{first} {second}" for first in "abcdefgh" for second in "abcdefgh"]
    (tmp_path / "text").write_text("".join(line + "\n" for line in lines * 20))
    report = tmp_path / "report"
    families = ["--families", "uniform", "ngram", "recurrent", "transformer"]  # all: tests of the ladder
    asked = ["compare", tmp_path / "text", "--order", 1, "--minutes", 0.001, "-o", report]
    result = chainrule(*asked, *families)
    assert result.status == 0
    assert result.lines[0] == (
        f"trained on 85.5 % of {tmp_path / 'text'}; 4.5 % of it chose the networks' best weights and the mixture; "
        "measured on the other 10 %; 0.001 min for each network, which is short for a network: try --minutes 10"
    )
    assert any(line.endswith("no better than a unigram model's") for line in result.lines)
    rows = strict_json((report / "table.json").read_text())
    assert [row["model"] for row in rows][:2] == ["uniform", "unigram"]
    assert {"LSTM", "transformer", "mixture"} <= {row["model"] for row in rows}
    assert all(len(row["samples"]) == 3 for row in rows)
    page = (report / "index.html").read_text()
    assert all(f">{str(row['bits_per_byte'])[:5]}" in page for row in rows)  # with as many digits as tell them apart
    assert "How to reproduce this" in page


def test_without_torch_the_error_says_what_to_install(
    chainrule, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "chainrule.training.objectives.stream", raising=False)
    result = chainrule("compare", corpus, "--order", 1, "--minutes", 1, "-o", tmp_path / "report")
    assert (result.status, result.error) == (
        1,
        "networks need torch, which is not installed: pip install 'chainrule[neural]'",
    )
    assert not (tmp_path / "report").exists()


def test_zero_minutes_is_an_error(chainrule, corpus: Path, tmp_path: Path) -> None:
    result = chainrule("compare", corpus, "--minutes", 0, "-o", tmp_path / "report")
    assert (result.status, result.error) == (1, "--minutes is 0.0; expected more than 0")
    assert not (tmp_path / "report").exists()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, fixtures: Path) -> Path:
    """Models of train.txt: two that cut it at white space, one of them an ARPA file, and one that cuts characters."""
    folder = tmp_path_factory.mktemp("saved")
    for name, order, tokenizer in (("two", 2, "whitespace"), ("one.arpa", 1, "whitespace"), ("chars", 3, "character")):
        library.train(fixtures / "train.txt", library.NGramConfig(order=order), tokenizer=tokenizer).save(folder / name)
    return folder


def test_saved_models_stand_in_one_table(chainrule, saved: Path, heldout: Path) -> None:
    paths = [saved / name for name in ("two", "one.arpa", "chars")]
    result = chainrule("compare", *paths, "--text", heldout)
    assert (result.status, result.err) == (0, "")
    assert result.lines[0] == f"measured on {heldout}"
    rows = chainrule("compare", *paths, "--text", heldout, "--json").json
    for path, row, line in zip(paths, rows, result.lines[3:6], strict=True):
        found = library.load(path).evaluate(heldout)
        assert row["model"] == str(path)
        assert row["bits_per_byte"] == found.bits_per_byte
        assert row["signature"] == found.signature
        assert line.split()[:2] == [str(path), f"{found.bits_per_byte:.4f}"]
    without = chainrule("compare", *paths, "--text", heldout, "--no-ends", "--json").json
    found = [library.load(path).evaluate(heldout, ends=False).bits_per_byte for path in paths]
    assert [row["bits_per_byte"] for row in without] == found
    assert "--no-ends needs --text" in chainrule("compare", heldout, "--no-ends").error
    assert "word perplexity" in result.lines[2]  # since perplexities per token of other tokens cannot be compared
    assert rows[0]["to_best"] is None
    assert rows[1]["to_best"]["p_value"] < 0.001
    assert 0 < rows[1]["to_best"]["low"] < rows[1]["to_best"]["bits_per_byte"] < rows[1]["to_best"]["high"]


def test_models_that_normalise_the_text_differently_have_columns_of_their_own(
    chainrule, saved: Path, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("ka  vi\nnin\n")
    result = chainrule("compare", saved / "two", saved / "chars", "--text", tmp_path / "text")
    assert result.status == 0
    assert "bits/byte [1]" in result.lines[2]
    assert "bits/byte [2]" in result.lines[2]
    assert "cannot share a column" in result.lines[-1]


def test_models_that_differ_by_their_seeds_alone_show_their_spread(
    chainrule, corpus: Path, heldout: Path, tmp_path: Path
) -> None:
    """No other does: of another text, read otherwise, trained for longer, pruned, or a copy."""
    config, report = library.BagConfig(width=4, context=8), tmp_path / "report"
    whole = library.Corpus.of(corpus, library.Reading(document="file"))
    runs: dict[str, tuple[Any, dict[str, int]]] = {
        "zero": (corpus, {"seed": 0}),
        "one": (corpus, {"seed": 1}),
        "whole": (whole, {"seed": 2}),
        "other": (heldout, {"seed": 3}),
        "longer": (corpus, {"seed": 4, "steps": 2}),
    }
    for name, (source, settings) in runs.items():
        training = library.TrainingConfig(**{"steps": 1, "batch": 2, **settings})
        library.train(source, config, training=training).save(tmp_path / name)
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    models = [tmp_path / name for name in [*runs, "copy"]]
    result = chainrule("compare", *models, "--text", heldout, "--document", "line", "-o", report)
    rows = strict_json((report / "table.json").read_text())
    bits = [row["bits_per_byte"] for row in rows[:2]]
    mean, deviation = sum(bits) / 2, abs(bits[0] - bits[1]) / math.sqrt(2)
    assert result.lines[-1] == (
        f"2 models that differ only in their seeds: {mean:.4f} bits per byte on average, "
        f"standard deviation {deviation:.4f} ({models[0]}, {models[1]})"
    )
    assert [row["spread"] and row["spread"]["models"] for row in rows] == [[*map(str, models[:2])]] * 2 + [None] * 4


def test_pruned_and_copied_models_are_no_spread(chainrule, saved: Path, heldout: Path, tmp_path: Path) -> None:
    pruned, copy = tmp_path / "pruned", shutil.copytree(saved / "two", tmp_path / "copy")
    assert chainrule("prune", saved / "two", "--to-ngrams", 400, "-o", pruned).status == 0
    rows = chainrule("compare", saved / "two", pruned, copy, "--text", heldout, "--json").json
    assert [row["spread"] for row in rows] == [None] * 3


def test_a_tokenizer_is_for_arpa_files_alone(chainrule, saved: Path, heldout: Path) -> None:
    refused = chainrule("compare", saved / "two", saved / "chars", "--text", heldout, "--tokenizer", "byte")
    assert refused.status == 1
    assert refused.error == chainrule("evaluate", saved / "two", heldout, "--tokenizer", "byte").error
    result = chainrule("compare", saved / "chars", saved / "one.arpa", "--text", heldout, "--tokenizer", "whitespace")
    assert (result.status, result.err) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--text", "text"], "MODELS are missing"),
        (["two", "chars", "--text", "-"], "can be read only once"),
        (["two", "--text", "text", "--order", "2"], "--order is for training models"),
        (["two", "--text", "text", "--minutes", "1"], "--minutes is for training models"),
        (
            ["text", "--smoothing", "all", "--minutes", "1"],
            "--smoothing compares n-gram models alone; leave",
        ),
        (["text", "--smoothing", "all", "--families", "ngram"], "leave out --families"),
        (["two", "--text", "text", "--heldout", "text"], "--heldout is for training models"),
        (["two"], "two is a model; give the text"),
        (["two", "chars", "two", "--text", "text"], "MODELS name two twice; a model is compared with others."),
        (["two", "chars", "./two/", "--text", "text"], "MODELS name two twice, also as ./two/; a model"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(
    arguments: list[str], message: str, chainrule, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saved)
    result = chainrule("compare", *arguments)
    assert result.status == 2
    assert message in result.error


def test_a_text_in_place_of_a_model_is_an_error(chainrule, saved: Path, heldout: Path) -> None:
    result = chainrule("compare", saved / "two", heldout, "--text", heldout)
    assert result.status == 1
    assert "a model is a folder" in result.error


def test_what_is_not_utf8_is_noted_once(chainrule, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"caf\xe9 noir\n" * 20)
    result = chainrule("compare", path, "--order", 2, "--encoding-errors", "replace")
    assert result.err == f"note: {path}: not UTF-8 in 20 places, replaced or skipped as you asked\n"


@pytest.mark.parametrize("smoothing", [[], ["--smoothing", "kneser-ney"]])
def test_a_heldout_text_without_a_known_word_is_refused(
    smoothing: list[str], chainrule, heldout: Path, tmp_path: Path
) -> None:
    (tmp_path / "other.txt").write_text("qqqq xxxx\nvvvv\n")
    say = ["compare", heldout, "--heldout", tmp_path / "other.txt", "--order", 2, "-o", tmp_path / "report"]
    result = chainrule(*say, *smoothing)
    assert result.status == 1
    assert "other.txt: none of its tokens occurs in the training text, so models cannot be compared" in result.err
    assert not (tmp_path / "report").exists()
