"""Every verb that prints rows writes the same rows as JSON and as tables of all kinds."""

from __future__ import annotations

import csv
import json
import os
import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from PIL import Image
from verb_examples import examples, write_files

from chainrule.cli.main import run
from chainrule.cli.verbs import VERBS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from command_line import Result

    Rows = list[dict[str, Any]]

# The verbs that print no rows of a table, and why.
WITHOUT_ROWS = {
    "train": "writes a model",
    "adapt": "writes a model",
    "finetune": "writes a model",
    "mix": "writes a model",
    "prune": "writes a model",
    "convert": "writes a model or a file for another program",
    "lmplz": "writes an ARPA file",
    "count": "writes counts",
    "filter": "writes the documents that it keeps",
    "noise": "writes texts and lists",
    "rescore": "writes texts and lists",
    "data": "writes a data set",
    "pixels": "writes a text or a picture",
    "map": "draws a page",
    "draw": "draws a picture",
    "attend": "draws a page",
    "inspect": "draws a page",
    "plugins": "lists what is installed, which is nothing here; tests of plug-ins read it",
    "info": "prints one card of a model",
    "complete": "answers each line while one types",
    "chat": "talks",
    "lsp": "talks to editors",
    "serve": "serves",
    "shard-serve": "serves",
    "explore": "serves",
    "harness": "is the command line of another program",
}


def as_they_are(printed: list[Any]) -> Rows:
    return printed


def of_a_list(printed: list[Any]) -> Rows:
    return printed[0]


def inside(name: str, beside: str) -> Callable[[list[Any]], Rows]:
    """The rows of objects that have a list of them under a name. beside: another name, which each row has, too."""
    return lambda printed: [{beside: one[beside], **row} for one in printed for row in one[name]]


def of_words(printed: list[Any]) -> Rows:
    return [
        {"text": number, "word": word, "label": label, "probabilities": shares}
        for number, one in enumerate(printed, 1)
        for word, label, shares in zip(one["words"], one["labels"], one["probabilities"], strict=True)
    ]


def of_pixels(printed: list[Any]) -> Rows:
    rows = []
    for one in printed:
        labels = [one["names"][index] for row in one["labels"] for index in row]
        shares = {label: labels.count(label) / len(labels) for label in labels}
        rows += [
            {"picture": one["picture"], "label": label, "share": share}
            for share, label in sorted(((share, label) for label, share in shares.items()), reverse=True)
        ]
    return rows


class Case(NamedTuple):
    """A command, and how its JSON becomes rows; None where JSON has other figures than the table."""

    arguments: str
    rows: Callable[[list[Any]], Rows] | None = as_they_are


WITH_ROWS = {
    "evaluate": [
        Case("lm/ heldout.txt", None),
        Case("lm/ --minimal-pairs minimal.jsonl", None),
        Case("labels/ labelled.tsv", None),
        Case("mt/ --pairs train.tsv", None),
        Case("words/ --analogies questions.txt", None),
    ],
    "score": [Case("lm/ heldout.txt --words", None), Case("lm/ heldout.txt", None)],
    "next": [Case("lm/ 'I visited San' --top 5", of_a_list)],
    "generate": [Case("lm/ 'I visited San' -n 3 --seed 1"), Case("lm/ I -n 2 --beam 3 --max-tokens 4")],
    "fill": [
        Case(
            "masked/ 'the [MASK] bit the [MASK]'",
            lambda printed: [{"gap": gap, **row} for gap, rows in enumerate(printed, 1) for row in rows],
        )
    ],
    "prompt": [Case("lm/ --template '{text} Overall, it was' --choices good=1 bad=0 --data reviews.tsv", None)],
    "detect": [
        Case(
            "lm/ heldout.txt",
            lambda printed: [{"text": n, **row} for n, one in enumerate(printed, 1) for row in one["ranked"]],
        ),
        Case("lm/ heldout.txt --machine corpus.txt"),
    ],
    "rank": [Case("lm/ --queries queries.txt --documents documents.jsonl")],
    "classify": [
        Case("labels/ heldout.txt"),
        Case("words-of-texts/ heldout.txt", of_words),
        Case("network/ colours/", as_they_are),
        Case("pixels-of-pictures/ pixels/", of_pixels),
        Case("labels/ --data labelled.tsv", None),
    ],
    "embed": [Case("masked/ heldout.txt"), Case("masked/ heldout.txt --words"), Case("labels/ heldout.txt")],
    "nearest": [
        Case("masked/ 'the [bank] of the river' heldout.txt"),
        Case("words/ king"),
        Case("words/ king --contexts"),
    ],
    "analogy": [Case("words/ man king woman")],
    "odd": [Case("words/ breakfast lunch table dinner")],
    "translate": [Case("mt/ test.de", inside("texts", "line")), Case("mt/ test.de --nbest 2", inside("texts", "line"))],
    "caption": [Case("captioner/ pictures/ --beam 5 --nbest 2", inside("captions", "picture"))],
    "compare": [
        Case("lm/ transformer/ --text heldout.txt", None),
        Case("corpus.txt --smoothing kneser-ney --order 2", None),
        Case("labelled.tsv --labels labelled.tsv --networks bag", None),
    ],
    "reading": [Case("times.tsv lm/ --text words.tsv --frequencies lexicon.tsv", None)],
    "experiment": [
        Case(
            "saturation",
            lambda printed: [
                {"line": line["label"], "x": x, "y": y}
                for line in printed[0]["lines"]
                for x, y in zip(line["x"], line["y"], strict=True)
            ],
        )
    ],
    "transcribe": [Case("speech/ hello.wav --lm lm/")],
    "ctc": [Case("logits.npz lm/ --labels vocab.json")],
    "correct": [
        Case(
            "lm/ heldout.txt",
            lambda printed: [{"text": one["corrected"]} for one in printed],
        )
    ],
    "split": [Case("corpus.txt --into train.txt=0.9 test.txt=0.1", of_a_list)],
    "verify": [Case("lm/"), Case("lm/ --distribution", inside("checks", "model"))],
}
CASES = [(verb, case) for verb, cases in WITH_ROWS.items() for case in cases]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the files and the models of the examples in the verbs' help."""
    path = tmp_path_factory.mktemp("rows")
    write_files(path)
    (path / "tagged.tsv").write_text("the\tD\ndog\tN\n\na\tD\nriver\tN\n\n" * 10)
    (path / "minimal.jsonl").write_text('{"sentence_good": "the dog bit the man", "sentence_bad": "dog the bit"}\n')
    (path / "questions.txt").write_text(": words\nman woman king queen\n")
    (path / "pixels").mkdir()
    random, lines = np.random.default_rng(1), []
    for i in range(40):
        values = random.integers(0, 2, (4, 6), np.uint8)
        Image.fromarray(values * np.uint8(250)).save(path / "pixels" / f"{i}.png")
        Image.fromarray(values).save(path / f"{i}-labels.png")
        lines.append({"picture": f"pixels/{i}.png", "labels": f"{i}-labels.png", "names": ["dark", "bright"]})
    (path / "pixels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    before = Path.cwd()
    os.chdir(path)
    commands = [arguments for verb, arguments in examples() if verb.startswith("train ") and verb.split()[1] in _NEEDED]
    commands += [["train", "classifier", *shlex.split(rest)] for rest in _CLASSIFIERS]
    with redirect_stdout(StringIO()):
        for arguments in commands:
            assert run(arguments) == 0, arguments
    yield path
    os.chdir(before)


_CLASSIFIERS = (
    "tagged.tsv -o words-of-texts --unit word --network lstm --epochs 1 --width 8",
    "pixels.jsonl -o pixels-of-pictures --unit pixel --network grid --size 4 6 --epochs 8 --batch 4 --width 16",
)
_NEEDED = ("ngram", "transformer", "masked", "seq2seq", "caption", "speech", "classifier", "vectors")


def test_every_verb_is_in_one_of_both_lists() -> None:
    assert {*VERBS, "train"} == {*WITH_ROWS, *WITHOUT_ROWS}
    assert not {*WITH_ROWS} & {*WITHOUT_ROWS}


@pytest.mark.parametrize(("verb", "case"), CASES, ids=[f"{verb} {case.arguments}" for verb, case in CASES])
def test_json_and_all_tables_have_the_same_rows(
    verb: str, case: Case, folder: Path, chainrule: Callable[..., Result]
) -> None:
    command = [verb, *shlex.split(case.arguments)]
    for part in ("train.txt", "test.txt"):  # of split
        Path(part).unlink(missing_ok=True)
    printed = chainrule(*command, *([] if verb == "embed" else ["--json"]))  # embed prints JSON alone
    assert printed.status == 0, printed.err
    objects = [json.loads(line, parse_constant=pytest.fail) for line in printed.lines]
    assert objects
    for suffix in (".jsonl", ".csv", ".tsv", ".parquet"):
        written = chainrule(*command, "-o", f"rows{suffix}", "--overwrite")
        assert written.status == 0, written.err
    rows = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    assert rows
    if case.rows is not None:
        assert rows == case.rows(objects)
    cells = {name for row in rows for name in row if "seconds" in name}  # which differ from run to run
    rows = [without(row, cells) for row in rows]
    for suffix, delimiter in ((".csv", ","), (".tsv", "\t")):
        with Path(f"rows{suffix}").open(newline="") as file:
            table = [without(row, cells) for row in csv.DictReader(file, delimiter=delimiter)]
        assert [*map(list, table)] == [*map(list, rows)]
        for own, expected in zip(table, rows, strict=True):
            assert {name: read(cell, expected[name]) for name, cell in own.items()} == expected
    parquet = pytest.importorskip("pyarrow.parquet")
    assert [without(row, cells) for row in parquet.read_table("rows.parquet").to_pylist()] == rows
    again = chainrule(*command, "-o", "rows.csv")
    assert (again.status, "exists already; use --overwrite" in again.error) == (1, True)


def test_a_table_that_cannot_be_written_is_refused_before_the_work(
    folder: Path, chainrule: Callable[..., Result]
) -> None:
    for name, message in (
        ("rows.xls", "rows.xls: the name of a table ends in .csv, .tsv, .jsonl or .parquet"),
        (".csv", ".csv: the name of a table ends in .csv, .tsv, .jsonl or .parquet, after a name"),
        ("none/rows.csv", "none/rows.csv: there is no folder none to write it in; create it first"),
        ("queries.txt.csv", "queries.txt.csv: is one of the files to read; choose another name"),
    ):
        Path("queries.txt.csv").write_text("the river\n")
        command = ("rank", "nowhere/", "--queries", "queries.txt.csv", "--documents", "documents.jsonl")
        assert chainrule(*command, "-o", name, "--overwrite").error == message
        assert chainrule("evaluate", "nowhere/", "queries.txt.csv", "-o", name, "--overwrite").error == message
    both = chainrule("next", "lm/", "--json", "-o", "rows.csv")
    assert (both.status, "Give either --output or --json" in both.error) == (2, True)


def test_a_table_of_no_rows_is_one_that_opens(folder: Path, chainrule: Callable[..., Result]) -> None:
    from pyarrow import parquet

    assert chainrule("plugins", "-o", "none.parquet").status == 0
    assert parquet.read_table("none.parquet").num_rows == 0


def without(row: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def read(cell: str, expected: Any) -> Any:
    """A cell of CSV as a value of the type that it is expected to have."""
    if isinstance(expected, bool):
        return {"TRUE": True, "FALSE": False}[cell]
    if isinstance(expected, str):
        return cell
    if expected is None:
        return None if cell in ("", "inf", "-inf", "nan") else cell
    return json.loads(cell)
