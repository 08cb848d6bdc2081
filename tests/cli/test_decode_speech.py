"""chainrule ctc: texts, lists and times; what is wrong with a matrix is said, and the others go on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from chainrule import NGramConfig, decode_ctc, load, train
from chainrule.errors import SettingError, TextError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from command_line import Result

LABELS = ["<pad>", "|", "a", "b"]


def logits_of(path: str) -> np.ndarray:
    """Logits of labels, one a frame: - is the blank."""
    return 6.0 * np.eye(4)[["-|ab".index(letter) for letter in path]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ctc")
    (folder / "train.txt").write_text("ab ba\nba ab\nab ab ba\n" * 20)
    train(folder / "train.txt", NGramConfig(order=2), tokenizer="whitespace").save(folder / "lm")
    (folder / "vocab.json").write_text(json.dumps({label: i for i, label in enumerate(LABELS)}))
    np.savez(folder / "two.npz", one=logits_of("ab|ba"), other=logits_of("a-aab-"))
    return folder


def test_texts_lists_and_times(folder: Path, tmp_path: Path, chainrule: Callable[..., Result]) -> None:
    lists, times = tmp_path / "nbest.jsonl", tmp_path / "words.ctm"
    command = ("ctc", folder / "two.npz", folder / "lm", "--labels", folder / "vocab.json")
    result = chainrule(*command, "--nbest-out", lists, "--nbest", "3", "--times", times, "--frame", "0.5")
    assert result.out.splitlines() == ["ab ba", "aab"]
    records = [json.loads(line) for line in lists.read_text().splitlines()]
    assert [record["id"] for record in records] == ["one", "other"]
    assert all(1 <= len(record["hypotheses"]) <= 3 for record in records)
    assert times.read_text().splitlines() == ["one 1 0.000 1.000 ab", "one 1 1.500 1.000 ba", "other 1 0.000 2.500 aab"]
    decoded = [*decode_ctc(str(folder / "two.npz"), load(folder / "lm"), labels=LABELS)]
    assert [utterance.to_dict(3) for utterance in decoded] == records
    rescored = chainrule("rescore", lists, "--model", folder / "lm")
    assert rescored.out.splitlines() == ["ab ba", records[1]["hypotheses"][0]["text"]]
    again = chainrule(*command, "--nbest-out", lists)
    assert again.status == 1
    assert "exists already" in again.err


def test_what_is_wrong_is_said_and_the_others_go_on(
    folder: Path, tmp_path: Path, chainrule: Callable[..., Result]
) -> None:
    good = logits_of("ab")
    probs = np.exp(good) / np.exp(good).sum(axis=1, keepdims=True)
    lines = [
        {"id": "good", "logits": good.tolist(), "reference": "ab"},
        {"id": "wide", "logits": [[0, 1, 2, 3, 4]]},
        {"id": "nan", "logits": [[0, 1, 2, float("nan")]]},
        {"id": "empty", "logits": np.zeros((0, 4)).tolist()},
        {"id": "ragged", "logits": [[0, 1], [2]]},
        {"id": "none"},
        {"id": "a b", "logits": good.tolist()},
        probs.tolist(),
    ]
    path = tmp_path / "outputs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "no json\n")
    result = chainrule("ctc", path, "--labels", folder / "vocab.json", "--json")
    printed = [json.loads(line) for line in result.out.splitlines()]
    assert [(record["id"], record["text"]) for record in printed] == [("good", "ab"), ("8", "ab")]
    assert printed[0]["words"] == [{"word": "ab", "start": 0, "end": 2}]
    assert result.status == 1
    for message in (
        "line 2: the outputs have 5 columns, and there are 4 labels",
        "line 3: frame 0 has nan in column 3",
        "line 4: there are no frames",
        "line 5: the logits are no numbers in rows of the same length",
        "line 6: has no logits",
        "line 7: the id is 'a b'",
        "line 9: is not JSON",
        "8: holds probabilities, of which the logarithms were taken",
        "7 of 9 matrices could not be decoded",
    ):
        assert message in " ".join(result.err.split()), message


def test_labels(folder: Path, tmp_path: Path, chainrule: Callable[..., Result]) -> None:
    np.save(tmp_path / "one.npy", logits_of("ab"))
    (tmp_path / "list.txt").write_text("<pad>\n|\na\nb\n")
    assert chainrule("ctc", tmp_path / "one.npy", "--labels", tmp_path / "list.txt").out == "ab\n"
    (tmp_path / "no-blank.json").write_text('["x", "|", "a", "b"]')
    result = chainrule("ctc", tmp_path / "one.npy", "--labels", tmp_path / "no-blank.json")
    assert "none of the 4 labels is CTC's blank" in " ".join(result.err.split())
    assert "there are no labels" in chainrule("ctc", tmp_path / "one.npy").err
    assert "no such file" in chainrule("ctc", tmp_path / "none.npy").err
    (tmp_path / "bad.npy").write_bytes(b"no array")
    assert "no file of NumPy's" in " ".join(chainrule("ctc", tmp_path / "bad.npy").err.split())
    np.savez(tmp_path / "own.npz", labels=np.array(LABELS), first=logits_of("ab"))
    assert chainrule("ctc", tmp_path / "own.npz").out == "ab\n"
    (tmp_path / "holes.json").write_text('{"a": 0, "b": 2}')
    with pytest.raises(TextError, match="are not 0, 1 and so on"):
        [*decode_ctc(logits_of("ab"), None, labels=tmp_path / "holes.json")]


def test_from_python(folder: Path) -> None:
    stack = np.stack([logits_of("ab-b"), logits_of("b|aa")])
    model = load(folder / "lm")
    both = [*decode_ctc(stack, model, labels=LABELS)]
    assert [utterance.text for utterance in both] == ["abb", "b a"]
    [alone] = decode_ctc(stack[1], model, labels=LABELS)
    assert alone.nbest == both[1].nbest
    assert both[0].kind == "logits"
    hot = decode_ctc(stack[1], model, labels=LABELS, hotwords=("a",), hotword_weight=3.0)
    assert next(hot).nbest[0].lm == pytest.approx(alone.nbest[0].lm + 3)
    with pytest.raises(SettingError, match="matrix 1: there are no labels"):
        next(decode_ctc(stack, None))
    with pytest.raises(SettingError, match="words limit what a language model knows"):
        next(decode_ctc(stack, None, labels=LABELS, words=("ab",)))


def test_what_is_no_output_of_a_network_is_refused(folder: Path, tmp_path: Path) -> None:
    """Costs and half probabilities would decode to nonsense, as logits."""
    good = logits_of("ab")
    probs = np.exp(good) / np.exp(good).sum(axis=1, keepdims=True)
    for outputs, message in (
        (-np.log(probs), "these are costs"),
        (probs / 2, "all numbers are from 0 to 1"),
        (good + 1j, "they are complex"),
    ):
        with pytest.raises(SettingError, match=message):
            next(decode_ctc(outputs, None, labels=LABELS))
    for name, content in (("cut", (folder / "two.npz").read_bytes()[:300]), ("junk", b"PK\003\004junk")):
        path = tmp_path / f"{name}.npz"
        path.write_bytes(content)
        with pytest.raises(TextError, match="is no file of NumPy's that can be read"):
            next(decode_ctc(str(path), None, labels=LABELS))
