"""chainrule correct and chainrule train channel: the same as from Python, and what they refuse."""

from __future__ import annotations

import gzip
import io
import json
from typing import TYPE_CHECKING

import pytest

from chainrule import Lines, NGramConfig, correct, load, train

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from command_line import Result

LINES = ["the dog bit the man", "I received the letter from my friend", "there is something wrong"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("correct")
    train(Lines(LINES * 9), NGramConfig(order=3)).save(folder / "lm")
    (folder / "bad.txt").write_text(
        "teh dog bit the man\nI recieved the letter form my freind\nthere is something wrong\n"
    )
    (folder / "right.txt").write_text("".join(f"{line}\n" for line in LINES))
    (folder / "pairs.tsv").write_text("teh\tthe\t3\nrecieve\treceive\nfrom\tfrom\na lot\talot\nform\tfrom\n")
    return folder


def test_what_is_printed_is_what_python_gives(folder: Path, chainrule: Callable[..., Result]) -> None:
    done = chainrule("train", "channel", folder / "pairs.tsv", "-o", folder / "c.json", "--overwrite")
    assert done.status == 0, done.err
    assert "1 pair left out" in done.err
    assert "4 pairs" in done.out  # a lot, which is one word in two, among them
    channel = folder / "c.json"
    expected = list(correct(folder / "bad.txt", load(folder / "lm"), channel=channel))
    assert [one.corrected for one in expected] == LINES
    plain = chainrule("correct", folder / "lm", folder / "bad.txt", "--channel", channel)
    assert plain.out.splitlines() == LINES
    records = chainrule("correct", folder / "lm", folder / "bad.txt", "--channel", channel, "--json").out.splitlines()
    assert [len(json.loads(record)["changes"]) for record in records] == [1, 3, 0]
    shown = chainrule("correct", folder / "lm", folder / "bad.txt", "--diff").out
    assert shown.splitlines()[0] == "1: [-teh-]{+the+} dog bit the man"


def test_measures_against_references(folder: Path, chainrule: Callable[..., Result]) -> None:
    out = chainrule("correct", folder / "lm", folder / "bad.txt", "--references", folder / "right.txt").out
    assert "100.00 %" in out  # of the wrong words are fixed
    several = chainrule(
        "correct", folder / "lm", folder / "bad.txt", "--references", folder / "right.txt", folder / "bad.txt"
    )
    assert "GLEU" in several.out
    assert "32 words" in several.out  # of both references
    wrong = chainrule("correct", folder / "lm", folder / "bad.txt", "--references", folder / "pairs.tsv")
    assert wrong.status == 2
    assert "3 texts and 5 references" in wrong.err


def test_each_change_can_be_refused(
    folder: Path, chainrule: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\nwhat\ny\nq\n"))
    done = chainrule("correct", folder / "lm", folder / "bad.txt", "--interactive", "-o", tmp_path / "out.txt")
    assert done.status == 0, done.err
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert lines == ["teh dog bit the man", "I received the letter form my freind", LINES[2]]


def test_differences_and_records_go_to_the_file(folder: Path, chainrule: Callable[..., Result], tmp_path: Path) -> None:
    for option, name in (("--diff", "c.txt"), ("--json", "c.jsonl"), ("--diff", "c.txt.gz")):
        screen = chainrule("correct", folder / "lm", folder / "bad.txt", option).out
        done = chainrule("correct", folder / "lm", folder / "bad.txt", option, "-o", tmp_path / name)
        assert (done.status, done.out) == (0, ""), done.err
        data = (tmp_path / name).read_bytes()
        assert (gzip.decompress(data) if name.endswith(".gz") else data).decode() == screen


def test_lost_fields_of_records_are_noted(folder: Path, chainrule: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"id": 7, "text": "teh dog bit the man"}\n')
    done = chainrule("correct", folder / "lm", tmp_path / "in.jsonl", "-o", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text() == "the dog bit the man\n"
    assert "only the field text of the records was written" in done.err


def test_records_keep_their_fields(folder: Path, chainrule: Callable[..., Result], tmp_path: Path) -> None:
    lines = [
        '{"id": 123456789012345678901, "text": "teh dog\\nbit teh man", "more": {"a": [1, 2.5, null, "\\ud800"]}}',
        "",
        '{"text": "there is something wrong", "é": true}',
    ]
    (tmp_path / "in.jsonl").write_text("".join(f"{line}\n" for line in lines))
    done = chainrule("correct", folder / "lm", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl.gz")
    assert (done.status, done.out) == (0, "")
    rate, few = done.err.splitlines()
    assert "as if 8.4% of the words were wrong, an estimate from the first texts" in rate
    assert "only 14 words are known" in few
    written = gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()).decode().splitlines()
    assert [json.loads(line) for line in written] == [
        json.loads(lines[0].replace("teh", "the")),
        json.loads(lines[2]),
    ]
    assert list(json.loads(written[0])) == ["id", "text", "more"]
    named = '{"body": "teh dog bit the man", "id": 1}\n'
    (tmp_path / "in.jsonl").write_text(named)
    done = chainrule("correct", folder / "lm", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl", "--field", "body")
    assert (tmp_path / "out.jsonl").read_text() == named.replace("teh", "the"), done.err


def test_fields_of_tables_and_of_json_stay_beside_the_corrections(
    folder: Path, chainrule: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "in.csv").write_text("id,text\n7,teh dog bit the man\n")
    done = chainrule("correct", folder / "lm", tmp_path / "in.csv", "-o", tmp_path / "out.jsonl")
    assert json.loads((tmp_path / "out.jsonl").read_text()) == {"id": "7", "text": "the dog bit the man"}, done.err
    done = chainrule("correct", folder / "lm", tmp_path / "in.csv", "-o", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "id,text\n7,the dog bit the man\n", done.err
    (tmp_path / "in.jsonl").write_text('{"id": 7, "body": "teh dog bit the man", "changes": NaN}\n')
    done = chainrule("correct", folder / "lm", tmp_path / "in.jsonl", "--field", "body", "--json")
    record = json.loads(done.out, parse_constant=pytest.fail)
    assert list(record) == ["id", "record_changes", "body", "text", "corrected", "changes"]
    assert (record["id"], record["record_changes"], record["corrected"]) == (7, None, "the dog bit the man")


def test_lines_become_records(folder: Path, chainrule: Callable[..., Result], tmp_path: Path) -> None:
    done = chainrule("correct", folder / "lm", folder / "bad.txt", "-o", tmp_path / "out.jsonl")
    assert done.status == 0, done.err
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == [
        {"text": line} for line in LINES
    ]


def test_a_page_keeps_its_lines(folder: Path, chainrule: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "page.txt").write_text("I recieved teh let-\nter form\n\nmy freind\n")
    done = chainrule("correct", folder / "lm", tmp_path / "page.txt", "--document", "file")
    assert done.out.rstrip("\n") == "I received the let-\nter from\n\nmy friend", done.err
    (tmp_path / "in.jsonl").write_text('{"text": "teh dog\\nbit teh man"}\n')
    done = chainrule("correct", folder / "lm", tmp_path / "in.jsonl", "-o", tmp_path / "out.txt")
    assert (done.status, "a record has several lines" in done.error) == (1, True)
    assert not (tmp_path / "out.txt").exists()


def test_settings_are_tuned_and_used(folder: Path, chainrule: Callable[..., Result], tmp_path: Path) -> None:
    arguments = ["correct", folder / "lm", folder / "bad.txt"]
    done = chainrule(*arguments, "--references", folder / "right.txt", "--tune", tmp_path / "tuned.json")
    assert done.status == 0, done.err
    assert [row.split() for row in done.out.splitlines() if "tuned" in row] == [["before", "tuned"]]
    assert "F0.5 of changes" in done.out
    assert "they do less well" in done.err
    assert json.loads((tmp_path / "tuned.json").read_text())["settings"]["at_least"] > 0
    assert chainrule(*arguments, "--settings", tmp_path / "tuned.json").out.splitlines() == LINES
    nothing = chainrule(*arguments, "--settings", tmp_path / "tuned.json", "--at-least", "1.0", "--rate", "0.000001")
    assert nothing.out == (folder / "bad.txt").read_text()
    again = chainrule(*arguments, "--references", folder / "right.txt", "--tune", tmp_path / "tuned.json")
    assert (again.status, "--overwrite" in again.error) == (1, True)
    table = chainrule(*arguments, "--references", folder / "right.txt", "--at-least", "0").out
    assert "of probability 0." in table


def test_literal_markers_are_left_alone(folder: Path, chainrule: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("teh dog </s> bit teh man <unk>\n<s>\n")
    done = chainrule("correct", folder / "lm", tmp_path / "in.txt")
    assert done.out == "the dog </s> bit the man <unk>\n<s>\n", done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--channel", "radio"], "radio"),
        (["--rate", "0"], "rate"),
        (["--json", "--diff"], "Choose one"),
        (["--interactive"], "--output"),
        (["--grammar", "german"], "german"),
        (["--grammar-rate", "0.1"], "grammar"),
        (["--grammar", "english", "--inflections", "nothing.txt"], "nothing.txt"),
        (["--corrector", "nothing"], "nothing"),
        (["--errant"], "--references"),
        (["--keep", "nothing.txt"], "nothing.txt: cannot be read: No such file"),
        (["--keep", "latin.txt"], "latin.txt, line 1: byte 0xff at offset 1 is not UTF-8"),
        (["--references", "right.txt", "-o", "c.txt"], "--references measures"),
        (["--tune", "t.json"], "--tune needs --references"),
        (["--tune", "t.json", "--references", "right.txt", "--settings", "t.json"], "leave out --settings"),
        (["--tune", "bad.txt", "--references", "right.txt"], "bad.txt"),
        (["--settings", "right.txt"], "right.txt: is not JSON"),
        (["--settings", "nothing.json"], "nothing.json: cannot be read"),
        (["--lexicon", "nothing.txt"], "nothing.txt"),
        (["--lexicon", "nan.txt"], "nan.txt, line 2: 'nan' is not a count; expected a number, 0 or more"),
        (["--lexicon", "minus.txt"], "minus.txt, line 2: '-5' is not a count"),
        (["--lexicon", "huge.txt"], "huge.txt, line 2: '1e400' is not a count"),
        (["--lexicon", "zero.txt"], "a count above 0"),
        (["--corrector-weight", "0.5"], "--corrector-weight needs --corrector."),
        (["--rescore-weight", "9"], "--rescore-weight needs --rescore-by."),
        (
            ["--corrector-weight", "nan", "--corrector", "c"],
            "--corrector-weight is nan; expected a finite number, 0 to",
        ),
        (["--field", "nosuch"], "bad.txt, line 1: is not JSON"),
    ],
)
def test_wrong_options_are_clear_errors(
    folder: Path, chainrule: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, arguments, message: str
) -> None:
    (folder / "latin.txt").write_bytes(b"x\xff\n")
    for name, count in (("nan", "nan"), ("minus", "-5"), ("huge", "1e400")):
        (folder / f"{name}.txt").write_text(f"dog 2\nthe\t{count}\n")
    (folder / "zero.txt").write_text("the 0\n")
    monkeypatch.chdir(folder)
    done = chainrule("correct", "lm", "bad.txt", *arguments)
    assert done.status in (1, 2)
    assert message in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "content", ["", "teh the\n", "a\tb\tc\td\n", "a\tb\t-1\n", "a\tb\tx\n", "the\tthe\n", b"\xff\tthe\n"]
)
def test_wrong_pairs_are_named(folder: Path, chainrule: Callable[..., Result], tmp_path: Path, content) -> None:
    (tmp_path / "p.tsv").write_bytes(content if isinstance(content, bytes) else content.encode())
    done = chainrule("train", "channel", tmp_path / "p.tsv", "-o", tmp_path / "c.json")
    assert done.status == 1
    assert "p.tsv" in done.err
    assert not (tmp_path / "c.json").exists()


def test_grammar_is_corrected_and_learnt(folder: Path, chainrule: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "wrong.txt").write_text("there is something wrong\nthe dogs bit man\n")
    (tmp_path / "pairs.tsv").write_text("the dogs bit man\tthe dog bit the man\n" * 3)
    done = chainrule("train", "channel", tmp_path / "pairs.tsv", "--grammar", "-o", tmp_path / "g.json")
    assert "a channel of grammar with" in done.out, done.err
    for grammar in (["english", "--grammar-rate", "0.2"], [tmp_path / "g.json"]):
        done = chainrule("correct", folder / "lm", tmp_path / "wrong.txt", "--grammar", *grammar)
        assert done.out.splitlines() == ["there is something wrong", "the dog bit the man"], done.err
    for arguments in (["--rounds", "3", "--grammar"], ["--inflections", tmp_path / "wrong.txt"]):
        done = chainrule("train", "channel", tmp_path / "pairs.tsv", "-o", tmp_path / "h.json", *arguments)
        assert done.status == 2
        assert "--grammar" in done.err


def test_a_binary_file_overwrites_nothing(folder: Path, chainrule: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 99)
    (tmp_path / "kept.txt").write_text("kept")
    done = chainrule("correct", folder / "lm", tmp_path / "binary", "-o", tmp_path / "kept.txt", "--overwrite")
    assert done.status != 0
    assert "not UTF-8" in done.err
    assert (tmp_path / "kept.txt").read_text() == "kept"


def test_a_file_keeps_what_is_no_prose(folder: Path, chainrule: Callable[..., Result], tmp_path: Path) -> None:
    text = "# Teh dog\n\nSee `teh` and **teh** man\n\n```\nteh\n\nteh\n```\n"
    (tmp_path / "a.md").write_text(text)
    meant = text.replace("# Teh", "# The").replace("**teh", "**the")
    plain = ("correct", folder / "lm", tmp_path / "a.md", "--rate", "0.2")
    assert chainrule(*plain, "-o", tmp_path / "b.md").status == 0
    assert (tmp_path / "b.md").read_text() == meant
    assert chainrule(*plain, "--format", "markdown").out == meant
    assert chainrule(*plain, "--format", "text").out == meant.replace("teh", "the")
    refused = chainrule(*plain, "--format", "markdown", "--references", tmp_path / "a.md")
    assert (refused.status, "leave out --format" in refused.err) == (2, True)
    (tmp_path / "a").write_text(text)
    unknown = chainrule("correct", folder / "lm", tmp_path / "a", "--format", "code")
    assert (unknown.status, "such as .py" in unknown.err) == (1, True)
