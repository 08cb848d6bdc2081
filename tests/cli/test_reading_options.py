"""The options that say how texts are read have an effect wherever they are given, or are refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from verb_options import READING, VERBS

import chainrule as library

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from command_line import Result

TEXTS = ["the cat sat on the mat", "a dog ran fast", "the dog sat on a mat"] * 9


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same texts as lines, and as records with the field sentence; and a model of them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    records = "".join(json.dumps({"id": i, "sentence": text}) + "\n" for i, text in enumerate(TEXTS))
    for name in ("records.jsonl", "records.txt", "records"):
        (tmp_path / name).write_text(records)
    rows = "".join(f"{i}\t{text}\n" for i, text in enumerate(TEXTS))
    (tmp_path / "table.tsv").write_text("id\tsentence\n" + rows)
    (tmp_path / "table.csv").write_text("id,sentence\n" + rows.replace("\t", ","))
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/a.md").write_text("a dog ran\n")
    library.train(library.Lines(TEXTS), library.NGramConfig(order=2)).save(tmp_path / "lm")
    return tmp_path


@pytest.mark.parametrize("name", ["records.jsonl", "records.txt", "records", "table.tsv", "table.csv", "-"])
def test_a_field_makes_every_input_records(
    folder: Path, chainrule: Callable[..., Result], stdin: Callable[[bytes], None], name: str
) -> None:
    if name == "-":
        stdin((folder / "records.jsonl").read_bytes())
    read = ("--field", "sentence")
    expected = chainrule("score", "lm", "plain.txt").out
    assert chainrule("score", "lm", name, *read).out == expected
    assert len(expected.splitlines()) == len(TEXTS)
    if name == "-":
        return
    measured, plain = (chainrule("evaluate", "lm", *text, "--json") for text in ((name, *read), ("plain.txt",)))
    assert json.loads(measured.out)["log_prob"] == json.loads(plain.out)["log_prob"]
    assert chainrule("filter", name, *read, "--model", "lm", "--keep", "0.5", "-o", "kept.txt").status == 0
    assert chainrule("filter", "plain.txt", "--model", "lm", "--keep", "0.5", "-o", "kept_plain.txt").status == 0
    assert (folder / "kept.txt").read_text() == (folder / "kept_plain.txt").read_text()
    assert chainrule("train", "ngram", name, *read, "-o", "again", "--order", "2").status == 0
    assert chainrule("score", "again", "plain.txt").out == expected
    corpus = library.Corpus.of(name, library.Reading(field="sentence"))
    assert [text for block in corpus.blocks() for text in block.documents()] == TEXTS
    assert corpus.documents == ("record",)
    assert corpus.reading.record["field"] == "sentence"


@pytest.mark.parametrize("name", ["records.txt", "table.tsv", "-"])
@pytest.mark.parametrize(
    "verb", [("score", "lm"), ("evaluate", "lm"), ("train", "uniform", "-o", "new"), ("count", "-o", "c")]
)
def test_a_field_that_is_not_there_is_an_error(
    folder: Path, chainrule: Callable[..., Result], stdin: Callable[[bytes], None], verb: tuple[str, ...], name: str
) -> None:
    stdin((folder / "records.jsonl").read_bytes())
    error = chainrule(*verb, name, "--field", "nosuch").error
    assert "'nosuch'" in error
    assert "'id', 'sentence'; choose one with --field" in error


def test_plain_text_with_a_field_is_not_scored_as_text(folder: Path, chainrule: Callable[..., Result]) -> None:
    error = chainrule("score", "lm", "plain.txt", "--field", "text").error
    assert "plain.txt, line 1: is not JSON" in error
    assert "it is read as JSON lines because of --field text" in error
    assert "because of --document record" in chainrule("score", "lm", "plain.txt", "--document", "record").error


def test_lines_of_records_are_documents_of_a_table_too(folder: Path, chainrule: Callable[..., Result]) -> None:
    records = [json.dumps({"sentence": "a dog\nran fast"}), json.dumps({"sentence": "the mat"})]
    (folder / "lines.txt").write_text("".join(record + "\n" for record in records))
    done = chainrule("score", "lm", "lines.txt", "--field", "sentence", "--document", "line")
    assert [line.split("\t")[-1] for line in done.out.splitlines()] == ["a dog", "ran fast", "the mat"]


# An invocation of each verb with the reading options, in which they have no effect.
ON_A_FILE = {
    "train recurrent": ("train", "recurrent", "plain.txt", "-o", "new"),
    "train masked": ("train", "masked", "plain.txt", "-o", "new"),
    "train ngram": ("train", "ngram", "plain.txt", "-o", "new", "--tune", "records.txt"),
    "train uniform": ("train", "uniform", "--mix", "plain.txt=1", "-o", "new"),
    "train vectors": ("train", "vectors", "plain.txt", "-o", "new"),
    "evaluate": ("evaluate", "lm", "plain.txt"),
    "score": ("score", "lm", "plain.txt"),
    "detect": ("detect", "lm", "plain.txt", "--machine", "plain.txt"),
    "compare": ("compare", "plain.txt", "--heldout", "records.txt"),
    "filter": ("filter", "plain.txt", "--model", "lm", "--keep", "0.5", "-o", "new.txt"),
    "correct": ("correct", "lm", "plain.txt"),
    "noise": ("noise", "plain.txt", "--model", "lm"),
    "mix": ("mix", "lm", "lm", "-o", "new", "--tune", "plain.txt"),
    "prune": ("prune", "lm", "-o", "new", "--for-text", "plain.txt"),
    "count": ("count", "plain.txt", "-o", "new"),
    "split": ("split", "plain.txt", "--into", "a.txt=1"),
    "embed": ("embed", "lm", "plain.txt"),
    "nearest": ("nearest", "lm", "a [dog]", "plain.txt"),
    "translate": ("translate", "lm", "plain.txt"),
}
OF_NETWORKS = {verb for verb in VERBS if verb.startswith("train ")} - set(ON_A_FILE)
NOT_TRIED = OF_NETWORKS | {"adapt", "classify"}  # which open their model first


def test_all_verbs_that_read_texts_are_tried() -> None:
    assert set(ON_A_FILE) | NOT_TRIED >= {verb for verb, flags in VERBS.items() if flags >= READING}


@pytest.mark.spread(6)
@pytest.mark.parametrize("verb", ON_A_FILE)
def test_suffixes_are_for_folders(folder: Path, chainrule: Callable[..., Result], verb: str) -> None:
    error = chainrule(*ON_A_FILE[verb], "--suffixes", ".md").error
    assert "--suffixes chooses files of folders; found no folder: " in error
    assert "plain.txt" in error


def test_suffixes_of_a_second_text_are_no_error(folder: Path, chainrule: Callable[..., Result]) -> None:
    done = chainrule("detect", "lm", "plain.txt", "--machine", "texts", "--suffixes", ".md")
    assert done.status == 0, done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("score", "lm", "table.tsv", "--field", "sentence", "--document", "file"), "--field is for records"),
        (("score", "lm", "plain.txt", "--document", "tree", "--field", "x"), "--field is for lines, files and records"),
        (("score", "lm", "plain.txt", "--document", "tree", "--encoding", "latin-1"), "--encoding is for lines"),
        (("score", "lm", "plain.txt", "--document", "tree", "--encoding-errors", "skip"), "--encoding-errors is for"),
        (("score", "lm", "x.parquet", "--encoding", "latin-1"), "--encoding has no effect on x.parquet: Parquet is"),
        (("prune", "lm", "--to-ngrams", "9", "-o", "new", "--field", "x"), "are for --for-text, or a text as --hist"),
        (("mix", "lm", "lm", "-o", "new", "--field", "x"), "are for --tune, which is missing"),
        (("train", "ngram", "--counts", "c.txt", "-o", "new", "--field", "x"), "for TEXTS and --tune, not --counts"),
        (("adapt", "lm", "--preferred", "p.jsonl", "-o", "new", "--field", "x"), "not for --preferred"),
        (("evaluate", "lm", "--minimal-pairs", "p.jsonl", "--label-field", "x"), "not for --minimal-pairs"),
        (("evaluate", "lm", "--similarity", "p.tsv", "--label-field", "x"), "--similarity is for word vectors"),
        (("evaluate", "lm", "--pairs", "p.tsv", "--label-field", "x"), "--pairs is for a seq2seq model"),
        (
            ("train", "seq2seq", "--pairs", "p.tsv", "-o", "new", "--source-field", "x"),
            "no columns are called 'x' and 'target'",
        ),
        (
            ("train", "seq2seq", "--pairs", "talks.jsonl", "-o", "new", "--source-field", "x"),
            "talks.jsonl, line 1: the field 'x' is missing",
        ),
    ],
)
def test_options_without_effect_are_refused(
    folder: Path, chainrule: Callable[..., Result], arguments: tuple[str, ...], message: str
) -> None:
    (folder / "p.tsv").write_text("a\tb\n" * 9)
    (folder / "x.parquet").write_text("")
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    (folder / "talks.jsonl").write_text(json.dumps({"messages": turns}) + "\n")
    assert message in chainrule(*arguments).error
