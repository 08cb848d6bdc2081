"""Pictures from folders to a network, its labels, vectors and a page; and what is wrong with files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule as library
from chainrule.features.vision.pictures.codec import encode_png

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from command_line import Result

SMALL = ("--network", "resnet", "--size", "16", "--width", "8", "--blocks", "1", "1", "--learning-rate", "0.01")


def written(folder: Path, seed: int) -> Path:
    """Twelve bright pictures and twelve dark ones."""
    random = np.random.default_rng(seed)
    for i in range(24):
        label = ("bright", "dark")[i % 2]
        pixels = random.integers(0, 100, (16, 20, 3), np.uint8) + np.uint8(150 * (label == "bright"))
        path = folder / label / f"{i:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_png(pixels))
    return folder


def test_pictures_are_learned_labelled_measured_embedded_and_drawn(
    chainrule: Callable[..., Result], tmp_path: Path
) -> None:
    data, test, model = written(tmp_path / "train", 0), written(tmp_path / "test", 1), tmp_path / "model"
    (test / "dark" / "broken.png").write_bytes(b"broken")
    trained = chainrule("train", "classifier", data, "-o", model, *SMALL, "--epochs", 4, "--test", test)
    assert trained.status == 0
    assert "broken.png: is not a JPEG or PNG" in trained.err
    measured = chainrule("evaluate", model, test, "--json").json
    assert measured["examples"] == 24
    assert measured["accuracy"] > 0.9
    assert np.array(measured["confusion"]).sum() == 24
    assert "broken.png" in chainrule("evaluate", model, test, "--bad-records", "stop").error
    (test / "dark" / "broken.png").unlink()

    paths = sorted(test.rglob("*.png"))
    lines = chainrule("classify", model, test).lines
    assert [line.split("\t")[2] for line in lines] == [str(path) for path in paths]
    one = json.loads(chainrule("classify", model, paths[0], "--json").out)
    assert one["picture"] == str(paths[0])
    assert lines[0].startswith(f"{one['label']}\t{one['probabilities'][one['label']]:.6f}\t")

    loaded = library.load(model, library.ClassifierModel)
    assert chainrule("embed", model, test, "-o", tmp_path / "v.npy").status == 0
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), loaded.embed(paths), atol=1e-6)
    assert chainrule("inspect", model, test, "-o", tmp_path / "verb.html", "--units", 2).status == 0
    numbers = chainrule("inspect", model, tmp_path / "missing", "-o", tmp_path / "verb.json").error
    assert "the name of a page must end in .html" in numbers  # before the pictures are read
    library.inspect(loaded, paths, units=2, progress=False).save(tmp_path / "function.html")
    assert (tmp_path / "verb.html").read_text() == (tmp_path / "function.html").read_text()


def test_bad_pictures_and_settings_are_one_line(chainrule: Callable[..., Result], tmp_path: Path) -> None:
    data, model = written(tmp_path / "train", 0), tmp_path / "model"

    def train(folder: Path, *options: object) -> str:
        return chainrule("train", "classifier", folder, "-o", model, *options).error

    assert "--depth is not a setting of --network lenet" in train(data, "--network", "lenet", "--depth", 18)
    assert "pictures of 8 x 8 pixels are too small" in train(data, "--network", "lenet", "--size", 8)
    (tmp_path / "empty").mkdir()
    assert "there is no labelled picture in it" in train(tmp_path / "empty", "--network", "lenet")
    assert "has no label; put it into a folder" in train(data / "dark", "--network", "lenet")
    (data / "dark" / "zz.jpg").write_bytes(b"\xff\xd8\xff")
    assert "zz.jpg: " in train(data, "--network", "lenet")
    assert not model.exists()


def test_a_texts_classifier_is_not_inspected(chainrule: Callable[..., Result], tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    file.write_text("a\tx\nb\ty\n" * 4)
    assert chainrule("train", "classifier", file, "-o", tmp_path / "m", "--network", "bag", "--epochs", 1).status == 0
    failed = chainrule("inspect", tmp_path / "m", tmp_path, "-o", tmp_path / "p.html")
    assert "this network has no gates to show; expected a recurrent language model" in failed.err
    with pytest.raises(library.SettingError, match="inspect takes one of pictures"):
        library.inspect(library.load(tmp_path / "m"), [])
