"""Pictures of labelled pixels from a file to a model, its labels, and a page."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from chainrule.cli.main import run
from chainrule.drawing.colours import LINES

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["dark", "bright"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """40 pictures of 6 x 4 pixels, each pixel labelled by its brightness."""
    random, lines = np.random.default_rng(1), []
    for i in range(40):
        values = random.integers(0, 2, (4, 6), np.uint8)
        Image.fromarray(values * np.uint8(250)).save(tmp_path / f"{i}.png")
        Image.fromarray(values).save(tmp_path / f"{i}-labels.png")
        lines.append(json.dumps({"picture": f"{i}.png", "labels": f"{i}-labels.png", "names": NAMES}))
    (tmp_path / "data.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path / "data.jsonl"


def test_pixels_from_a_file_to_a_page(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, page, picture = data.parent / "model", data.parent / "page.html", data.parent / "0.png"
    quick = ["--epochs", "8", "--batch", "4", "--learning-rate", "0.03", "--width", "16", "--test", str(data)]
    train = ["train", "classifier", str(data), "-o", str(model), "--network", "grid", "--unit", "pixel"]
    assert run([*train, "--size", "4", "6", *quick]) == 0
    assert run(["evaluate", str(model), str(data), "--json"]) == 0
    capsys.readouterr()
    assert run(["classify", str(model), str(picture), "--page", str(page)]) == 0
    truth = np.asarray(Image.open(data.parent / "0-labels.png"))
    share = truth.mean()
    shown = sorted([(share, f"bright {share:.1%}"), (1 - share, f"dark {1 - share:.1%}")], reverse=True)
    assert capsys.readouterr().out == f"{shown[0][1]}, {shown[1][1]}\t{picture}\n"
    assert run(["classify", str(model), str(picture), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["names"] == ["bright", "dark"]
    assert found["labels"] == (1 - truth).tolist()

    html = page.read_text()
    images = re.findall(r'src="data:image/png;base64,([^"]*)"', html)
    own, laid, certainty = (np.asarray(Image.open(BytesIO(b64decode(image)))) for image in images)
    np.testing.assert_array_equal(own[..., 0], truth * 250)
    assert LINES[0].light in html
    assert len(np.unique(laid[truth == 1], axis=0)) == len(np.unique(laid[truth == 0], axis=0)) == 1
    assert certainty.min() > 127
    assert "http" not in html.replace("http-equiv", "")


def test_a_network_of_whole_pictures_is_no_network_of_pixels(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "classifier", str(data), "-o", str(data.parent / "m"), "--network", "lenet", "--unit", "pixel"]
    assert run([*command, "--size", "4", "6"]) == 1
    assert "lenet labels whole pictures, not pixels" in capsys.readouterr().err
    grid = [*command[:6], "grid", *command[7:]]
    assert run(grid) == 1
    assert "0.png: has 6 x 4 pixels, but the network reads 32 x 32" in capsys.readouterr().err
