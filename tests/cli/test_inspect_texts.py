"""The verb inspect, of texts."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule as library

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ["the movie was not great", "a dog ran", "the dog was great", "a movie"] * 3


def test_a_page_and_a_file_of_numbers(chainrule, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("".join(line + "\n" for line in TEXTS))
    tiny = ["--width", 8, "--layers", 1, "--context", 8, "--steps", 2, "--tokenizer", "whitespace", "--compile", "no"]
    assert chainrule("train", "recurrent", text, "-o", tmp_path / "lm", *tiny).status == 0
    given = ["inspect", tmp_path / "lm", "the <b>movie"]
    result = chainrule(*given, "-o", tmp_path / "a.html", "--unit", 3)
    assert result.out.endswith("1 layer, 3 tokens\n"), result.err
    page = (tmp_path / "a.html").read_text()
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert "<script" not in page
    assert page.count("<image") == 6
    assert re.findall(r"Unit (\d+) along the text", page) == ["3"]
    assert chainrule(*given, "-o", tmp_path / "a.json").status == 0
    numbers = json.loads((tmp_path / "a.json").read_text())
    inside = library.inspect(library.load(tmp_path / "lm"), "the <b>movie")
    assert numbers["tokens"] == inside.tokens
    np.testing.assert_allclose(numbers["layers"][0]["f"], inside.layers[0].values["f"], atol=1e-6)
    np.testing.assert_allclose(inside.unit(3)["c"], inside.layers[0].values["c"][:, 3])
    assert "there is no unit 8; expected 0 to 7" in chainrule(*given, "-o", tmp_path / "b.html", "--unit", 8).error
    assert "exists already" in chainrule(*given, "-o", tmp_path / "a.html").error
    assert "--patches is for networks" in chainrule(*given, "-o", tmp_path / "b.html", "--patches", 3).error
    with pytest.raises(library.SettingError, match="layer is 2; expected 1 to 1"):
        inside.unit(0, layer=2)
