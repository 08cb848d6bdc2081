"""Pictures as lines of text and back, and a model of such lines that draws pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

import chainrule
from chainrule.cli.main import run
from chainrule.errors import OutputError, SettingError, TextError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def folder_of(path: Path, pictures: Sequence[np.ndarray]) -> Path:
    path.mkdir()
    for i, pixels in enumerate(pictures):
        Image.fromarray(pixels).save(path / f"{i}.png")
    return path


def test_shades_are_equal_shares_of_grey_row_by_row(tmp_path: Path) -> None:
    pictures = folder_of(tmp_path / "own", [np.array([[0, 63], [64, 127], [128, 255]], np.uint8)])
    assert chainrule.write_pixels(pictures, tmp_path / "own.txt", size=(3, 2), levels=4, progress=False) == 1
    assert (tmp_path / "own.txt").read_text() == "0 0 1 1 2 3\n"


def test_lines_are_drawn_as_they_were(tmp_path: Path) -> None:
    """With all 256 shades nothing is lost; pictures stand side by side with a white pixel between them."""
    random = np.random.default_rng(1)
    own = [random.integers(0, 256, (4, 3), np.uint8) for _ in range(3)]
    chainrule.write_pixels(folder_of(tmp_path / "own", own), tmp_path / "own.txt", size=(4, 3), progress=False)
    assert chainrule.draw_pixels(tmp_path / "own.txt", tmp_path / "own.png", columns=3) == 3
    sheet = np.asarray(Image.open(tmp_path / "own.png"))
    assert sheet.shape == (9, 7)
    np.testing.assert_array_equal(sheet[:4, :3], own[0])
    np.testing.assert_array_equal(sheet[:4, 4:], own[1])
    np.testing.assert_array_equal(sheet[5:, :3], own[2])
    assert (sheet[4] == 255).all()


def test_a_line_that_ends_early_is_drawn_with_white_pixels(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("0 1 0 1\n")
    chainrule.draw_pixels(tmp_path / "own.txt", tmp_path / "own.png", columns=3, levels=2)
    assert np.asarray(Image.open(tmp_path / "own.png")).tolist() == [[0, 255, 0], [255, 255, 255]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1\n0 x\n", "line 2: found 'x'; expected the shades of pixels, 0 to 3"),
        ("0 4\n", "line 1: found '4'"),
        ("0 -1\n", "line 1: found '-1'"),
        ("\n\n", "no line of pixels"),
    ],
)
def test_lines_of_other_things_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "own.txt").write_text(text)
    with pytest.raises(TextError, match=message):
        chainrule.draw_pixels(tmp_path / "own.txt", tmp_path / "own.png", columns=2, levels=4)
    assert not (tmp_path / "own.png").exists()


def test_bad_settings_and_targets_that_exist_are_refused(tmp_path: Path) -> None:
    pictures = folder_of(tmp_path / "own", [np.zeros((2, 2), np.uint8)])
    with pytest.raises(SettingError, match="levels is 1; expected 2 to 256"):
        chainrule.write_pixels(pictures, tmp_path / "own.txt", levels=1)
    (tmp_path / "own.txt").write_text("kept")
    with pytest.raises(OutputError):
        chainrule.write_pixels(pictures, tmp_path / "own.txt")
    assert (tmp_path / "own.txt").read_text() == "kept"
    with pytest.raises(SettingError, match="must end in"):
        chainrule.draw_pixels(tmp_path / "own.txt", tmp_path / "own.gif")


def test_a_grid_learns_pictures_and_draws_new_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each picture has one column that is black in all rows: below the first row, all is known."""
    random = np.random.default_rng(2)
    pixels = np.full((80, 4, 3), 255, np.uint8)
    pixels[np.arange(80), :, random.integers(0, 3, 80)] = 0
    pictures = folder_of(tmp_path / "own", list(pixels))
    text, model = str(tmp_path / "own.txt"), str(tmp_path / "model")
    assert run(["pixels", str(pictures), "-o", text, "--size", "4", "3", "--levels", "2"]) == 0
    network = ["--columns", "3", "--width", "24", "--context", "39"]
    quick = ["--steps", "120", "--batch", "8", "--learning-rate", "0.02", "--optimiser", "adamw"]
    assert run(["train", "grid", text, "-o", model, "--tokenizer", "whitespace", *network, *quick]) == 0
    bits = -chainrule.load(model).evaluate(text).log_prob / 80 / np.log(2)  # of a picture
    assert 1.5 < bits < 4  # log2(3) = 1.58 bits say which column it is; pixels by themselves would cost 11
    capsys.readouterr()
    generate = ["generate", model, "-n", "9", "--seed", "1", "--max-tokens", "12", "--temperature", "0.5"]
    assert run(generate) == 0
    lines, drawn = tmp_path / "drawn.txt", tmp_path / "drawn.png"
    lines.write_text(capsys.readouterr().out)
    assert run(["pixels", str(lines), "-o", str(drawn), "--columns", "3", "--levels", "2"]) == 0
    sheet = np.asarray(Image.open(drawn))
    cells = [sheet[i : i + 4, j : j + 3] for i in (0, 5, 10) for j in (0, 4, 8)]
    assert sum((cell == cell[0]).all() and (cell[0] == 0).sum() == 1 for cell in cells) >= 6
    assert run(["pixels", str(lines), "-o", str(drawn), "--size", "4"]) == 2
