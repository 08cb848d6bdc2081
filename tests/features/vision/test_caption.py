"""The verbs of captions: training, captions by file, folder and stream, measures, pages; and what is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from command_line import Result

NETWORK = ("--encoder", "resnet", "--encoder-size", "8", "--encoder-width", "4", "--encoder-blocks", "1")
QUICKLY = ("--width", "8", "--steps", "2", "--compile", "no", "--batch", "8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty pictures of two colours with captions."""
    folder = tmp_path_factory.mktemp("pictures")
    lines = []
    for i in range(20):
        colour = ("teal", "white")[i % 2]
        Image.new("RGB", (8, 8), colour).save(folder / f"{i:02d}.png")
        lines.append({"image": f"{i:02d}.png", "captions": [f"a {colour} square", f"{colour} all over"]})
    (folder / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_pictures_are_captioned_measured_and_drawn(
    chainrule: Callable[..., Result], stdin: Callable[[bytes], None], folder: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    trained = chainrule("train", "caption", "--pictures", folder / "captions.jsonl", *NETWORK, *QUICKLY, "-o", model)
    assert trained.status == 0, trained.err
    assert "8 x 8 places" in trained.lines[0]
    again = chainrule(
        "train", "caption", "--pictures", folder / "captions.jsonl", *NETWORK, *QUICKLY, "-o", model, "--resume"
    )
    assert "the run has ended, after 2 steps" in again.err
    others = [*QUICKLY, "--attention", "none", "-o", model, "--resume"]
    changed = chainrule("train", "caption", "--pictures", folder / "captions.jsonl", *NETWORK, *others)
    assert "attention was soft and is none" in changed.error

    lines = chainrule("caption", model, folder, "--max-tokens", 5).lines
    assert [line.split("\t")[1] for line in lines] == [str(path) for path in sorted(folder.glob("*.png"))]
    stdin(f"{folder / '03.png'}\n\n{folder / '04.png'}\n".encode())
    assert chainrule("caption", model, "-", "--max-tokens", 5).lines == lines[3:5]
    several = [folder / name for name in ("07.png", "01.png", "02.png")]
    assert chainrule("caption", model, *several, "--max-tokens", 5).lines == [lines[7], lines[1], lines[2]]
    for option in ("--tree", "--paragraph"):
        refused = chainrule("caption", model, *several, option, tmp_path / "drawn.svg")
        assert f"{option} draws the se" in refused.error
        assert "name a single one" in refused.error
    best = chainrule("caption", model, folder / "00.png", "--nbest", 3, "--max-tokens", 5).lines
    assert len(best) == 3
    narrow = chainrule("caption", model, folder / "00.png", "--beam", 2, "--nbest", 3)
    assert "a beam of 2 cannot return the 3 best" in narrow.error
    assert best[0].startswith("0 ||| ")
    [record] = [json.loads(line) for line in chainrule("caption", model, folder / "00.png", "--json").lines]
    [written] = record["captions"]
    steps = len(written["tokens"]) + (written["ending"] == "end")
    assert np.array(written["attention"]).shape == (steps, 8, 8)
    tree = tmp_path / "tree.svg"
    assert chainrule("caption", model, folder / "00.png", "--tree", tree, "--max-tokens", 4).status == 0
    assert tree.read_text().startswith("<svg")
    assert "draws the search of one picture" in chainrule("caption", model, folder, "--tree", tmp_path / "t.svg").error

    measured = chainrule("evaluate", model, "--pictures", folder / "captions.jsonl", "--json").json
    assert measured["pictures"] == 20
    assert {"CIDEr-D", "BLEU-4", "METEOR", "ROUGE-L", "perplexity"} <= measured.keys()
    page = tmp_path / "page.html"
    drawn = chainrule("attend", model, folder / "00.png", "a teal square", "-o", page, "--beside", model)
    assert drawn.lines == [f"{page}: 1 caption"]  # named by their folders, which are one
    assert "captions pictures; measure it with --pictures" in chainrule("evaluate", model, folder / "t.txt").error
    assert "a captioner takes no markers" in chainrule("lsp", model).error
    other = ["--pictures", folder / "captions.jsonl", "--encoder", model, "-o", tmp_path / "other"]
    assert "is not a picture classifier, which an encoder must be" in chainrule("train", "paragraph", *other).error
    arpa = chainrule("convert", model, tmp_path / "model.arpa")
    assert "is the name of a file of n-grams" in arpa.error
    assert chainrule("verify", model).status == 0
    assert "family         caption" in chainrule("info", model).out


def test_what_does_not_go_together_is_said(chainrule: Callable[..., Result], folder: Path, tmp_path: Path) -> None:
    start = ["train", "caption", "--pictures", folder / "captions.jsonl", "-o", tmp_path / "model", *QUICKLY]
    for more, message in [
        (["--encoder", "resnet", "--encoder-patch", 4], "--encoder-patch is not a setting of --encoder resnet"),
        (["--encoder", folder, "--encoder-width", 4], "--encoder-width is a setting of a new encoder"),
        (["--encoder", "lstm"], "there is no encoder 'lstm'"),
        ([*NETWORK, "--no-tuned"], "has no trained weights to keep"),
        ([*NETWORK, "--attention", "hard", "--decoder", "transformer"], "has soft attention only"),
    ]:
        assert message in chainrule(*start, *more).error
    assert not (tmp_path / "model").exists()
    (folder / "bad.jsonl").write_text('{"image": "00.png"}\n')
    bad = chainrule("train", "caption", "--pictures", folder / "bad.jsonl", *start[4:])
    assert "bad.jsonl, line 1: the picture has no caption" in bad.error
    alone = chainrule("evaluate", tmp_path / "model", "--vectors", folder / "v.npy")
    assert "--vectors needs --pictures" in alone.err
