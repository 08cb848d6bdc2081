"""N-best lists in all formats: what is read, what is recognised, what is refused, and with which words."""

from __future__ import annotations

import gzip
import io
import json
import math
import sys
from typing import TYPE_CHECKING

import pytest

from chainrule.errors import SettingError, TextError
from chainrule.features.rescore.lists.nbest_files import (
    ReferenceFile,
    format_of,
    read_lists,
    with_own_references,
    with_references,
)
from chainrule.features.rescore.lists.nbest_formats import ScoreFiles

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.features.rescore.lists.nbest import NBestList

FILES = ScoreFiles({}, {})


def lists_in(path: Path, files: ScoreFiles = FILES) -> list[NBestList]:
    return list(read_lists(str(path), format_of(str(path), files), files))


def facts(found: NBestList) -> tuple[str, tuple[str, ...], dict[str, tuple[float, ...]]]:
    return found.id, found.texts, {name: tuple(round(value, 9) for value in row) for name, row in found.scores.items()}


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"id": "x", "hypotheses": [{"text": "a b", "score": -1}, {"text": "", "score": -2.5}], "reference": "a"}\n'
        "\n"
        '{"hypotheses": [{"text": "ć", "score": 0}], "more": 1}\n'
        '{"id": 7, "hypotheses": [{"text": "d", "score": 1e3}]}\n'
    )
    first, second, third = lists_in(path)
    assert facts(first) == ("x", ("a b", ""), {"score": (-1.0, -2.5)})
    assert (first.reference, second.reference) == ("a", None)
    assert facts(second) == ("3", ("ć",), {"score": (0.0,)})
    assert third.id == "7"
    assert first.place == f"{path}, line 1"


def test_json_lines_with_several_scores_compressed_and_without_a_telling_name(tmp_path: Path) -> None:
    record = {
        "hypotheses": [{"text": "a", "scores": {"am": -1, "lm": -2}}, {"text": "b", "scores": {"lm": 3, "am": 4}}]
    }
    path = tmp_path / "lists.gz"
    path.write_bytes(gzip.compress(json.dumps(record).encode()))
    assert facts(lists_in(path)[0]) == ("1", ("a", "b"), {"am": (-1.0, 4.0), "lm": (-2.0, 3.0)})


def test_moses(tmp_path: Path) -> None:
    path = tmp_path / "nbest"
    path.write_text(
        "0 ||| das ist ||| LM0= -10.5 TM= -1 -2 ||| -4.25\n"
        "0 ||| dies ist ||| LM0= -11 TM= -1 -3 ||| -5 ||| 0-0 1-1\n"
        "1 |||  ||| LM0= 0 TM= 0 0 ||| 0\n"
    )
    first, second = lists_in(path)
    assert facts(first) == ("0", ("das ist", "dies ist"), {"score": (-4.25, -5.0)})
    assert first.kept == ("LM0= -10.5 TM= -1 -2", "LM0= -11 TM= -1 -3|||0-0 1-1")
    assert facts(second) == ("1", ("",), {"score": (0.0,)})


def test_kaldi(tmp_path: Path) -> None:
    text, acoustic, cost = tmp_path / "text", tmp_path / "am", tmp_path / "cost"
    text.write_text("utt-1-1 so it goes\nutt-1-2 so it\nutt-2-1\n")
    acoustic.write_text("utt-1-1 -3\nutt-1-2 -4.5\nutt-2-1 -1\n")
    cost.write_text("utt-1-1 10\nutt-1-2 20\nutt-2-1 0\n")
    files = ScoreFiles({"am": str(acoustic)}, {"lm": str(cost)})
    first, second = lists_in(text, files)
    assert facts(first) == ("utt-1", ("so it goes", "so it"), {"am": (-3.0, -4.5), "lm": (-10.0, -20.0)})
    assert facts(second) == ("utt-2", ("",), {"am": (-1.0,), "lm": (0.0,)})


def test_espnet(tmp_path: Path) -> None:
    for rank, lines in (
        (1, {"u1": "so it goes", "u2": "yes", "u3": "a"}),
        (2, {"u1": "so it", "u3": "b"}),
        (10, {"u3": "c"}),
    ):
        folder = tmp_path / f"{rank}best_recog"
        folder.mkdir()
        (folder / "text").write_text("".join(f"{key} {text}\n" for key, text in lines.items()))
        (folder / "score").write_text("".join(f"{key} tensor(-{rank}.5)\n" for key in lines))
    assert [facts(found) for found in lists_in(tmp_path)] == [
        ("u1", ("so it goes", "so it"), {"score": (-1.5, -2.5)}),
        ("u2", ("yes",), {"score": (-1.5,)}),
        ("u3", ("a", "b", "c"), {"score": (-1.5, -2.5, -10.5)}),
    ]


def test_srilm(tmp_path: Path) -> None:
    (tmp_path / "u1.gz").write_bytes(gzip.compress(b"NBestList1.0\n(-420) <s> so it goes </s>\n(-430) so -pau- it\n"))
    details = "( st: 1 et: 2 g: -3 a: -4 )"
    (tmp_path / "u2").write_text(f"NBestList2.0\n(-10) so {details} it {details}\n")
    bytelog = 1024 * math.log(1.0001)
    assert [facts(found) for found in lists_in(tmp_path)] == [
        ("u1", ("so it goes", "so it"), {"score": (round(-420 * bytelog, 9), round(-430 * bytelog, 9))}),
        ("u2", ("so it",), {"score": (round(-10 * bytelog, 9),)}),
    ]
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / "u3.txt").write_text("-100.5 -10 3 so it goes\n-101 -9 2 so it\n")
    ten = math.log(10)
    assert [facts(found) for found in lists_in(tmp_path / "third")] == [
        (
            "u3",
            ("so it goes", "so it"),
            {
                "acoustic": (round(-100.5 * ten, 9), round(-101 * ten, 9)),
                "language": (round(-10 * ten, 9), round(-9 * ten, 9)),
            },
        )
    ]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('{"hypotheses": []}', "json"),
        ("0 ||| a ||| LM= 1 ||| 2", "moses"),
        ("utt1-1 so it goes", "kaldi"),
        ("NBestList2.0", "srilm"),
        ("-10.5 -3 2 so it", "srilm"),
    ],
)
def test_a_first_line_shows_the_format_and_standard_input_keeps_it(
    line: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lists"
    path.write_text(f"\n{line}\n")
    assert format_of(str(path)) == kind
    data = io.BufferedReader(io.BytesIO(f"{line}\n".encode()))  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data))
    assert format_of("-") == kind
    assert data.read() == f"{line}\n".encode()


GOOD = '{"hypotheses": [{"text": "a", "score": 1}]}\n'
NO_JSON = "expected one list of hypotheses a line"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "", "a.jsonl: has no n-best list; expected one or more"),
        ("a.jsonl", GOOD + "{", "a.jsonl, line 2: is not JSON: "),
        ("a.jsonl", GOOD + "[" * 9999, "a.jsonl, line 2: is "),
        ("a.jsonl", GOOD + "[]", "a.jsonl, line 2: has no list of hypotheses"),
        ("a.jsonl", GOOD + '{"hypotheses": []}', "a.jsonl, line 2: the list has no hypothesis"),
        ("a.jsonl", '{"hypotheses": ["a"]}', "a.jsonl, line 1: hypothesis 1 has no text"),
        ("a.jsonl", '{"hypotheses": [{"text": 1, "score": 1}]}', "line 1: the text of hypothesis 1 is not a string"),
        ("a.jsonl", '{"hypotheses": [{"text": "a\\nb", "score": 1}]}', "the text of hypothesis 1 has a line end"),
        ("a.jsonl", '{"hypotheses": [{"text": "\\ud800", "score": 1}]}', "has half of a surrogate pair"),
        ("a.jsonl", '{"hypotheses": [{"text": "a"}]}', "line 1: hypothesis 1 has no score"),
        (
            "a.jsonl",
            '{"hypotheses": [{"text": "a", "score": NaN}]}',
            "line 1: the score of hypothesis 1 is nan; expected",
        ),
        (
            "a.jsonl",
            '{"hypotheses": [{"text": "a", "score": -Infinity}]}',
            "the score of hypothesis 1 is -inf; expected",
        ),
        ("a.jsonl", '{"hypotheses": [{"text": "a", "score": 1e999}]}', "the score of hypothesis 1 is inf; expected"),
        (
            "a.jsonl",
            '{"hypotheses": [{"text": "a", "score": null}]}',
            "the score of hypothesis 1 is null, which means probability 0",
        ),
        ("a.jsonl", '{"hypotheses": [{"text": "a", "score": true}]}', "the score of hypothesis 1 is True; expected"),
        ("a.jsonl", '{"hypotheses": [{"text": "a", "scores": 3}]}', "the scores of hypothesis 1 are not an object"),
        (
            "a.jsonl",
            '{"hypotheses": [{"text": "a", "scores": {"x": 1, "y": 2}}, {"text": "a", "scores": {"x": 1}}]}',
            "line 1: hypothesis 2 has no score 'y', which hypothesis 1 has; give it to all",
        ),
        (
            "a.jsonl",
            GOOD + '{"hypotheses": [{"text": "a", "scores": {"x": 1}}]}',
            "a.jsonl, line 2: the scores are 'x', but in a.jsonl, line 1 'score'; expected the same",
        ),
        ("a.jsonl", '{"id": "a b", "hypotheses": [{"text": "a", "score": 1}]}', "line 1: the id is 'a b'; expected"),
        ("a", "0 ||| a ||| LM= 1 ||| 2\n0 ||| a\n", "a, line 2: has 2 of the fields"),
        ("a", "0 ||| a ||| LM= 1 ||| x\n", "a, line 1: the score is 'x'; expected a number"),
        ("a", "0 ||| a ||| LM= 1 ||| nan\n", "a, line 1: the score is nan; expected a finite number"),
        ("a", "0||| a |||| 1\n1||||||||| 1\n0 ||| a ||| ||| 2\n", "a, line 1: has 3 of the fields"),
        ("a", "0|||a||||||1\n1|||||||||1\n0 ||| a ||| ||| 2\n", "a, line 3: the list 0 occurs again after others"),
        ("a", "", "a: has no n-best list; expected one or more"),
        ("a", "so it goes\n", "a: is in no known format of n-best lists"),
        ("a", "utt-1 so it goes\n", "a: has no scores; give the files that hold them as scores or costs"),
        ("a", "NBestList1.0\n", "a: the list has no hypothesis"),
        ("a", "NBestList1.0\n(-1) a\n-2 b\n", "a, line 3: expected (score) and words"),
        ("a", "NBestList1.0\n(x) a\n", "a, line 2: the score is 'x'; expected a number"),
        ("a", "-1 -2 1 a\n-1 -2\n", "a, line 2: expected an acoustic score"),
        ("a", "-1 -2 1 a\n-1 inf 1 a\n", "a, line 2: the language model's score is inf; expected a finite"),
        ("a", "-1 -2 1 a\n-1 -2 x a\n", "a, line 2: the number of words is 'x'"),
        ("a", b"\x80{}\n", "a, line 1: byte 0x80 at offset 0 is not UTF-8"),
    ],
)
def test_what_is_refused(name: str, content: str | bytes, message: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TextError) as error:
        list(read_lists(name, format_of(name)))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "scores", "message"),
    [
        ("u-1 a\nu-2 b\n", "u-1 1\n", "scores: ends before u-2, which text, line 2 has"),
        ("u-1 a\n", "u-1 1\nu-2 2\n", "text: ends before u-2, which scores, line 2 has"),
        (
            "u-1 a\nu-2 b\n",
            "u-1 1\nu-3 2\n",
            "scores, line 2: the key is u-3, but text, line 2 has u-2; keys must agree",
        ),
        ("u-1 a\n", "u-1 x\n", "scores, line 1: the am of u-1 is 'x'; expected a number"),
        ("u-1 a\nv-1 b\nu-2 c\n", "u-1 1\nv-1 1\nu-2 1\n", "text, line 3: u occurs again after others"),
        ("u a\n", "u 1\n", "text, line 1: the key is u; expected an utterance and the number of a hypothesis"),
    ],
)
def test_what_is_refused_of_kaldis_files(text: str, scores: str, message: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text(text)
    (tmp_path / "scores").write_text(scores)
    files = ScoreFiles({"am": "scores"}, {})
    with pytest.raises(TextError) as error:
        list(read_lists("text", "kaldi", files))
    assert message in str(error.value)


def test_utterances_that_only_later_folders_have_are_refused(tmp_path: Path) -> None:
    for rank, keys in ((1, ["u1"]), (2, ["u1", "u9"])):
        folder = tmp_path / f"{rank}best_recog"
        folder.mkdir()
        (folder / "text").write_text("".join(f"{key} a\n" for key in keys))
        (folder / "score").write_text("".join(f"{key} 1\n" for key in keys))
    with pytest.raises(TextError, match=r"2best_recog/text, line 2: u9 is not in .*1best_recog/text"):
        list(read_lists(str(tmp_path), "espnet"))


def test_folders_of_srilm_need_files_with_ids_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(TextError, match="the folder has no file"):
        lists_in(tmp_path)
    for name in ("u1", "u1.gz"):
        data = b"NBestList1.0\n(-1) a\n"
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    with pytest.raises(TextError, match=r"u1\.gz: has the same id, u1, as .*u1"):
        lists_in(tmp_path)


@pytest.mark.parametrize("name", ["a/b", "text", "", "a b"])
def test_scores_need_names_that_files_can_have(name: str) -> None:
    with pytest.raises(SettingError, match="a score cannot be named"):
        ScoreFiles({name: "file"}, {})


def referred(tmp_path: Path, references: str, ids: list[str], *, always_keyed: bool = False) -> list[str | None]:
    (tmp_path / "refs").write_text(references)
    records = [{"id": key, "hypotheses": [{"text": "a", "score": 1}]} for key in ids]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    source = ReferenceFile(str(tmp_path / "refs"), always_keyed=always_keyed)
    return [found.reference for found in with_references(lists_in(tmp_path / "a.jsonl"), source)]


def test_references_are_a_line_a_list_or_keyed(tmp_path: Path) -> None:
    assert referred(tmp_path, "x y\n\n", ["1", "2"]) == ["x y", ""]
    assert referred(tmp_path, "1 dog\n2 cats\n", ["1", "2"]) == ["1 dog", "2 cats"]  # numbers are no keys by themselves
    assert referred(tmp_path, "1 dog\n2 cats\n", ["1", "2"], always_keyed=True) == ["dog", "cats"]
    assert referred(tmp_path, "u1 dog\nu2\n", ["u1", "u2"]) == ["dog", ""]
    assert referred(tmp_path, "u2\nu1 big  dog\n", ["u2", "u1"]) == ["", "big  dog"]
    assert referred(tmp_path, "u2 b\nu1 a\n", ["u1", "u2"], always_keyed=True) == ["a", "b"]


@pytest.mark.parametrize(
    ("references", "ids", "message"),
    [
        ("", ["u1"], "refs: has no reference"),
        ("a\n", ["u1", "u2"], "refs: has 1 lines, but there are more lists: "),
        ("a\nb\nc\n", ["u1", "u2"], "refs: has 3 lines for 2 lists"),
        ("u1 a\nu3 b\n", ["u1", "u2"], "refs: has no reference for u2, the list at "),
        ("u1 a\nu2 b\n", ["u1"], "refs, line 2: no list has the id u2"),
        ("u1 a\nu1 b\n", ["u1"], "refs, line 2: the id u1 occurs twice"),
    ],
)
def test_references_that_do_not_fit(references: str, ids: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(TextError) as error:
        referred(tmp_path, references, ids)
    assert message in str(error.value)


def test_all_lists_hold_their_reference_or_none(tmp_path: Path) -> None:
    record = {"hypotheses": [{"text": "a", "score": 1}]}
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({**record, "reference": "a"}) + "\n" + json.dumps(record) + "\n")
    with pytest.raises(TextError, match=r"a\.jsonl, line 2: the list has no reference"):
        list(with_own_references(lists_in(path)))
