"""Every version of the format that a release has written opens, and its models say what they said then."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import chainrule
from chainrule.storage.config_json import FORMAT

FOLDERS = Path(__file__).parents[1] / "fixtures" / "folders"
SENTENCE = "the man bit a dog"  # of make_folders.py
MODELS = sorted(path.parent for path in FOLDERS.glob("*/*/config.json"))


def test_every_version_has_models() -> None:
    assert sorted(int(path.name) for path in FOLDERS.iterdir()) == list(range(1, FORMAT + 1))
    assert len(MODELS) >= 10


@pytest.mark.parametrize("path", MODELS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_folder_of_each_version_opens_and_scores_as_then(path: Path) -> None:
    assert json.loads((path / "config.json").read_text(encoding="utf-8"))["format"] == int(path.parent.name)
    chainrule.verify(path)
    if path.name == "vectors":
        assert chainrule.load_vectors(path).words
        return
    model = chainrule.load(path)
    then = json.loads((path.parent / "log_probs.json").read_text())
    assert (path.name in then) is isinstance(model, chainrule.ScoringModel)
    if path.name in then:
        assert float(model.score([SENTENCE])[0]) == pytest.approx(then[path.name], rel=1e-4)  # type: ignore[union-attr]


def test_a_newer_version_is_said_to_be_newer(tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDERS / "1" / "uniform", tmp_path / "lm")
    config = (folder / "config.json").read_text(encoding="utf-8")
    newer = config.replace('"format": 1', f'"format": {FORMAT + 1}').replace('"record"', '"new_field": 1, "record"')
    (folder / "config.json").write_text(newer, encoding="utf-8")
    with pytest.raises(chainrule.ModelFormatError, match=rf"format {FORMAT + 1}, which a newer chainrule writes"):
        chainrule.load(folder)


@pytest.mark.parametrize("folder", sorted(FOLDERS.iterdir()), ids=lambda path: path.name)
def test_a_channel_of_each_version_corrects(folder: Path) -> None:
    model = chainrule.load(folder / "ngram", chainrule.CausalModel)
    [corrected] = chainrule.correct(chainrule.Lines(["teh dog bit the man"]), model, channel=folder / "channel.json")
    assert corrected.corrected == "the dog bit the man"
