"""Every verb's help has an example, and all of them run, one after the other, in one folder."""

from __future__ import annotations

import asyncio
import inspect
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from chainrule.cli.main import app
from chainrule.cli.verbs import FAMILIES, VERBS
from chainrule.sounds.sound import encode_wav

if TYPE_CHECKING:
    from collections.abc import Callable

    from command_line import Result

FIXTURES = Path(__file__).parents[1] / "fixtures"
SENTENCES = (
    "the dog bit the man",
    "the man saw a dog",
    "I visited San Francisco",
    "I visited San Diego",
    "the bank of the river",
    "a river ran by the bank",
)
# In the order in which one example reads what another has written: models, and lists of hypotheses.
IN_ORDER = (*(f"train {family}" for family in FAMILIES), "train", "finetune", "noise", *VERBS)
# In place of the minutes that a network trains for, and of other defaults.
QUICKLY = "--steps 2 --batch 2 --compile no"
SMALLER = {"train vectors": "--epochs 1 --dimensions 8", "train classifier": "--epochs 1", "finetune": "--epochs 1"}


def help_of(verb: str) -> str:
    here = app
    for name in verb.split():
        here = here[name]
    return here.help if verb == "train" else inspect.getdoc(here.default_command) or ""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the texts that the examples name; the current one."""
    lines = [sentence + "\n" for sentence in SENTENCES]
    corpus = [*(FIXTURES / "train.txt").read_text().splitlines(keepends=True), *(10 * lines)]
    corpus += 10 * ["the king saw the queen\n", "the man saw the woman\n", "breakfast lunch table dinner\n"]
    for name, text in {"corpus.txt": corpus, "letters.txt": corpus, "heldout.txt": lines, "test.de": lines}.items():
        (tmp_path / name).write_text("".join(text))
    (tmp_path / "train.tsv").write_text("".join(f"{sentence}\t{sentence}\n" for sentence in 10 * SENTENCES))
    tree = "1\tShe\t_\tPRON\t_\t_\t2\t_\t_\t_\n2\tsleeps\t_\tVERB\t_\t_\t0\t_\t_\t_\n\n"
    (tmp_path / "trees.conllu").write_text(40 * tree)
    (tmp_path / "pairs.tsv").write_text("teh\tthe\n")
    (tmp_path / "labelled.tsv").write_text("the dog\tanimal\nthe river\twater\n" * 10)
    (tmp_path / "pictures").mkdir()
    for colour in ("teal", "white"):
        (tmp_path / "colours" / colour).mkdir(parents=True)
        Image.new("RGB", (8, 8), colour).save(tmp_path / "colours" / colour / "1.png")
    Image.new("RGB", (8, 8), "teal").save(tmp_path / "pictures" / "1.png")
    (tmp_path / "captions.jsonl").write_text('{"image": "pictures/1.png", "captions": ["a teal square"]}\n' * 40)
    boxes = '"boxes": [{"box": [0, 0, 8, 8], "label": "square", "phrase": "a teal square"}]'
    line = f'{{"image": "pictures/1.png", "captions": ["a square . it is teal ."], {boxes}}}\n'
    (tmp_path / "scenes.jsonl").write_text(40 * line)
    (tmp_path / "queries.txt").write_text("the river\n")
    (tmp_path / "documents.jsonl").write_text('{"text": "the bank of the river"}\n{"text": "the dog bit the man"}\n')
    (tmp_path / "talk.jinja").write_text("{% for message in messages %}{{ message.content }} {% endfor %}")
    (tmp_path / "vocab.json").write_text('["<pad>", "|", "a", "b"]')
    np.savez(tmp_path / "logits.npz", first=np.eye(4)[[2, 3, 1, 2]])
    said = np.random.default_rng(0).normal(0, 3000, 16_000).astype(np.int16)
    for name in ("hello.wav", "spoken/1.wav"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(encode_wav(said, 16_000))
    (tmp_path / "spoken" / "train.tsv").write_text("1.wav\tthe dog\n" * 40)
    (tmp_path / "reviews.tsv").write_text("text\tlabel\na good film\t1\nno fun\t0\n")
    names = sorted({word for sentence in SENTENCES for word in sentence.split()})
    keys = [(names[place * (3 + story) % len(names)], story, place) for story in range(3) for place in range(40)]
    words = "".join(f"{word}\t{story}\t{place}\n" for word, story, place in keys)
    (tmp_path / "words.tsv").write_text("word\titem\tzone\n" + words)
    times = "".join(f"{story}\t{place}\t{300 + (place * place + story) % 37}\n" for _, story, place in keys)
    (tmp_path / "times.tsv").write_text("item\tzone\ttime\n" + times)
    (tmp_path / "lexicon.tsv").write_text("".join(f"{word}\t{1 + i * i % 11}\n" for i, word in enumerate(names)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def lm_eval(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A stand-in for lm-evaluation-harness, which would fetch its tasks; it fills this list with its arguments."""
    arguments: list[str] = []
    stand_in = ModuleType("lm_eval.__main__")
    stand_in.cli_evaluate = lambda: arguments.extend(sys.argv[1:])  # type: ignore[attr-defined]
    for name in ("lm_eval", "lm_eval.__main__", "chainrule.api.texts.lm_eval_model"):
        monkeypatch.setitem(sys.modules, name, stand_in)
    monkeypatch.setattr("chainrule.api.texts.harness.check_lm_eval", lambda: None)
    return arguments


@pytest.mark.usefixtures("folder")
def test_the_example_in_the_help_of_every_verb_runs(
    chainrule: Callable[..., Result],
    stdin: Callable[[bytes], None],
    lm_eval: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chainrule.serving.server.run_server", lambda *server, **more: asyncio.sleep(0))  # no end
    monkeypatch.setattr("chainrule.cli.use.complete._run", lambda server: None)
    labels_pictures = ["colours/", "-o", "network", "--network", "lenet", "--epochs", 1]
    assert chainrule("train", "classifier", *labels_pictures).status == 0
    finds_boxes = ["scenes.jsonl", "-o", "detector", "--network", "lenet", "--unit", "box", "--epochs", 1]
    assert chainrule("train", "classifier", *finds_boxes).status == 0
    monkeypatch.setattr("chainrule.serving.shards.ShardServer.serve_forever", lambda self: None)
    for verb in dict.fromkeys(IN_ORDER):
        example = re.search(rf"^ *\$ chainrule ({verb} .*)$", help_of(verb), re.MULTILINE)
        assert example, verb
        if verb == "train":  # names that of a family
            continue
        if verb == "shard-serve":
            assert chainrule("convert", "lm/", "big/", "--shards", 4).status == 0
        stdin(b"I visited S\n")
        quick = example[1].replace("--minutes 5", QUICKLY if verb == "adapt" else f"{QUICKLY} --width 8")
        result = chainrule(*shlex.split(f"{quick} {SMALLER.get(verb, '')}"))
        assert result.status == 0, f"{example[1]}\n{result.err}"
    assert lm_eval[-2:] == ["--model", "chainrule"]
