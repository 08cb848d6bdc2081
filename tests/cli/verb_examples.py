"""The examples in the help of all verbs: the files that they read, and their commands in an order in which they run.

It imports neither pytest nor what extras install: `make dist` runs the examples from an installed wheel, too.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import shlex
import struct
import sys
import zlib
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np

from chainrule.cli.main import app
from chainrule.cli.verbs import FAMILIES, VERBS
from chainrule.features.speech.sounds.sound import encode_wav

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def write_files(folder: Path) -> None:
    """Writes into a folder what the examples read."""
    lines = [sentence + "\n" for sentence in SENTENCES]
    corpus = [*(FIXTURES / "train.txt").read_text().splitlines(keepends=True), *(10 * lines)]
    corpus += 10 * ["the king saw the queen\n", "the man saw the woman\n", "breakfast lunch table dinner\n"]
    for name, text in {"corpus.txt": corpus, "letters.txt": corpus, "heldout.txt": lines, "test.de": lines}.items():
        (folder / name).write_text("".join(text))
    (folder / "train.tsv").write_text("".join(f"{sentence}\t{sentence}\n" for sentence in 10 * SENTENCES))
    tree = "1\tShe\t_\tPRON\t_\t_\t2\t_\t_\t_\n2\tsleeps\t_\tVERB\t_\t_\t0\t_\t_\t_\n\n"
    (folder / "trees.conllu").write_text(40 * tree)
    (folder / "pairs.tsv").write_text("teh\tthe\n")
    (folder / "labelled.tsv").write_text("the dog\tanimal\nthe river\twater\n" * 10)
    (folder / "pictures").mkdir()
    colours = {"teal": (0, 128, 128), "white": (255, 255, 255)}
    for colour in colours:
        (folder / "colours" / colour).mkdir(parents=True)
        (folder / "colours" / colour / "1.png").write_bytes(_png(colours[colour]))
    (folder / "pictures" / "1.png").write_bytes(_png(colours["teal"]))
    (folder / "captions.jsonl").write_text('{"image": "pictures/1.png", "captions": ["a teal square"]}\n' * 40)
    boxes = '"boxes": [{"box": [0, 0, 8, 8], "label": "square", "phrase": "a teal square"}]'
    line = f'{{"image": "pictures/1.png", "captions": ["a square . it is teal ."], {boxes}}}\n'
    (folder / "scenes.jsonl").write_text(40 * line)
    (folder / "queries.txt").write_text("the river\n")
    (folder / "documents.jsonl").write_text('{"text": "the bank of the river"}\n{"text": "the dog bit the man"}\n')
    (folder / "talk.jinja").write_text("{% for message in messages %}{{ message.content }} {% endfor %}")
    (folder / "vocab.json").write_text('["<pad>", "|", "a", "b"]')
    np.savez(folder / "logits.npz", first=np.eye(4)[[2, 3, 1, 2]])
    said = np.random.default_rng(0).normal(0, 3000, 16_000).astype(np.int16)
    for name in ("hello.wav", "spoken/1.wav"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(encode_wav(said, 16_000))
    (folder / "spoken" / "train.tsv").write_text("1.wav\tthe dog\n" * 40)
    (folder / "reviews.tsv").write_text("text\tlabel\na good film\t1\nno fun\t0\n")
    names = sorted({word for sentence in SENTENCES for word in sentence.split()})
    keys = [(names[place * (3 + story) % len(names)], story, place) for story in range(3) for place in range(40)]
    words = "".join(f"{word}\t{story}\t{place}\n" for word, story, place in keys)
    (folder / "words.tsv").write_text("word\titem\tzone\n" + words)
    times = "".join(f"{word}\t{story}\t{place}\t{300 + (place**2 + story) % 37}\n" for word, story, place in keys)
    (folder / "times.tsv").write_text("word\titem\tzone\ttime\n" + times)
    (folder / "lexicon.tsv").write_text("".join(f"{word}\t{1 + i * i % 11}\n" for i, word in enumerate(names)))


def _png(colour: tuple[int, int, int], size: int = 8) -> bytes:
    """A square of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    rows = zlib.compress(size * (b"\0" + size * bytes(colour)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def examples() -> Iterator[tuple[str, list[str]]]:
    """Each verb with the arguments of its example, and before them what else the examples of others read."""
    labels = ["train", "classifier"]
    yield "train classifier", [*labels, *shlex.split("colours/ -o network --network lenet --epochs 1")]
    yield "train classifier", [*labels, *shlex.split("scenes.jsonl -o detector --network lenet --unit box --epochs 1")]
    for verb in dict.fromkeys(IN_ORDER):
        example = re.search(rf"^ *\$ chainrule ({verb}(?: .*)?)$", help_of(verb), re.MULTILINE)
        assert example, f"the help of {verb} has no example"
        if verb == "train":  # names that of a family
            continue
        if verb == "shard-serve":
            yield "convert", ["convert", "lm/", "big/", "--shards", "4"]
        quick = example[1].replace("--minutes 5", QUICKLY if verb == "adapt" else f"{QUICKLY} --width 8")
        yield verb, shlex.split(f"{quick} {SMALLER.get(verb, '')}")


# Servers, which have no end: the module, and what stands in for what in it.
_SERVERS = {
    "chainrule.features.serve.server": ("run_server", lambda *server, **more: asyncio.sleep(0)),
    "chainrule.features.serve.editors.shell": ("_run", lambda server: None),
    "chainrule.features.serve.shards": ("ShardServer.serve_forever", lambda self: None),
}


@contextmanager
def ending_at_once() -> Iterator[list[str]]:
    """Servers end when they start; gives a list that a stand-in for lm-evaluation-harness fills with its arguments."""
    arguments: list[str] = []
    stand_in = ModuleType("lm_eval.__main__")
    stand_in.cli_evaluate = lambda: arguments.extend(sys.argv[1:])  # type: ignore[attr-defined]
    names = ("lm_eval", "lm_eval.__main__", "chainrule.features.prompt.lm_eval_model")
    with ExitStack() as stack:
        for name in names:  # not patch.dict, which would forget all modules that are imported meanwhile
            if (before := sys.modules.get(name)) is None:
                stack.callback(sys.modules.pop, name, None)
            else:
                stack.callback(sys.modules.__setitem__, name, before)
            sys.modules[name] = stand_in
        stack.enter_context(patch("chainrule.features.prompt.harness.check_lm_eval", lambda: None))
        for module, (name, ends) in _SERVERS.items():
            with suppress(ModuleNotFoundError):  # without extras, the verb says so before it serves
                import_module(module)
                stack.enter_context(patch(f"{module}.{name}", ends))
        yield arguments
