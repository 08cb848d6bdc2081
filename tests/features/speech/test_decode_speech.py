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
    rows = [line.rpartition(" ") for line in times.read_text().splitlines()]
    assert [row for row, _, _ in rows] == ["one 1 0.000 1.000 ab", "one 1 1.500 1.000 ba", "other 1 0.000 2.500 aab"]
    assert all(0 < float(confidence) <= 1 for _, _, confidence in rows)
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
    share = np.exp(6) / (np.exp(6) + 3)  # of a, then of b: two frames have one alignment of them
    [word] = printed[0]["words"]
    assert word == {"word": "ab", "start": 0, "end": 2, "confidence": pytest.approx(share**2, abs=1e-4)}
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


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        (["-", "|", "a", "b"], {}),  # torchaudio
        (["<blank>", "<space>", "a", "b"], {}),  # ESPnet
        (["<blk>", " ", "a", "b"], {}),  # icefall
        (["[PAD]", "|", "a", "b"], {}),  # transformers
        (["<blank>", "|", "a", "b", "<pad>"], {}),
        (["nil", "#", "a", "b"], {"blank": "nil", "space": "#"}),
    ],
)
def test_blanks_and_spaces_are_known_by_name_or_named(labels: list[str], named: dict[str, str]) -> None:
    logits = np.pad(logits_of("a-ab|-ba"), [(0, 0), (0, len(labels) - 4)])
    [heard] = decode_ctc([logits], None, labels=labels, **named)
    assert heard.text == "aab ba"


def test_a_hyphen_beside_another_blank_is_a_hyphen() -> None:
    [heard] = decode_ctc([logits_of("-|b")], None, labels=["-", "a", "<pad>", "b"])
    assert heard.text == "-ab"


def test_a_blank_that_is_no_label_is_refused(folder: Path, refused: Callable[..., str]) -> None:
    command = ["ctc", folder / "two.npz", "--labels", folder / "vocab.json", "--blank", "nil"]
    assert "--blank is 'nil', which is none of the labels '<pad>', '|', 'a', 'b'" in refused(1, command)


def test_special_tokens_of_a_vocabulary_give_no_warning(
    folder: Path, tmp_path: Path, chainrule: Callable[..., Result]
) -> None:
    np.save(tmp_path / "one.npy", np.zeros((1, 7)))
    for label, warning in (("a", ""), ("ab", "note: some labels have several characters")):
        (tmp_path / "labels.json").write_text(json.dumps(["<pad>", "<s>", "</s>", "<unk>", "|", label, "b"]))
        told = chainrule("ctc", tmp_path / "one.npy", "--labels", tmp_path / "labels.json").err
        assert told.startswith(warning)
        assert bool(told) == bool(warning)


def test_words_that_the_labels_cannot_spell_are_refused(
    folder: Path, tmp_path: Path, refused: Callable[..., str], chainrule: Callable[..., Result]
) -> None:
    """Labels in capitals, and a model, words or hotwords in small letters."""
    capitals, hot = tmp_path / "capitals.txt", tmp_path / "hot.txt"
    capitals.write_text("<pad>\n|\nA\nB\n")
    hot.write_text("ab\nox\n")
    spelled = "the labels can spell 0 of 2 {}; the labels are capitals: write lists of words in capitals"
    base = ["ctc", folder / "two.npz"]
    told = refused(1, [*base, folder / "lm", "--labels", capitals])
    assert spelled.format("words of the language model") in told
    letters = train(folder / "train.txt", NGramConfig(order=2), tokenizer="character")
    with pytest.raises(SettingError, match="0 of 2 tokens of the language model"):
        list(decode_ctc([logits_of("ab")], letters, labels=["<pad>", "|", "A", "B"]))
    heard = chainrule(*base, "--labels", folder / "vocab.json", "--hotwords", hot)
    assert heard.lines == ["ab ba", "aab"]
    assert "note: the labels can spell 1 of 2 hotwords; the characters that most of the others lack are" in heard.err
    hot.write_text("xx\n")
    told = refused(1, [*base, "--labels", capitals, "--hotwords", hot])
    assert "can spell 0 of 1 hotwords; the characters that most of the others lack are x" in told
