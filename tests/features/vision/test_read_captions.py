"""Files of pictures with captions: what is wrong with a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

import chainrule
from chainrule.errors import TextError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"image": "0.png"}, "line 1: the picture has no caption"),
        ({"image": "0.png", "captions": []}, r"line 1: the captions are \[\]"),
        ({"image": "0.png", "captions": ["a", " "]}, r"line 1: the captions are \['a', ' '\]"),
        ({"image": "0.png", "caption": 3}, "line 1: the captions are 3"),
        ({"captions": ["a dog"]}, "line 1: the captions have no picture"),
        ({"image": 7, "captions": ["a dog"]}, "line 1: image is 7"),
        ({"image": "gone.png", "captions": ["a dog"]}, r"line 1: .*gone\.png: there is no such file"),
        ({"image": "bad.png", "captions": ["a dog"]}, r"line 1: .*bad\.png: is not a JPEG or PNG"),
        ([1], "line 1: found a list"),
    ],
)
def test_a_bad_line_is_named(line: Any, message: str, tmp_path: Path) -> None:
    Image.new("RGB", (2, 2)).save(tmp_path / "0.png")
    (tmp_path / "bad.png").write_bytes(b"broken")
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(line) + "\n")
    with pytest.raises(TextError, match=message):
        chainrule.read_captions(path)
    problems: list[TextError] = []
    good = {"picture": "0.png", "caption": " a  dog\t"}
    path.write_text(json.dumps(line) + "\n" + json.dumps(good) + "\n")
    [read] = chainrule.read_captions(path, on_bad=problems.append)
    assert (read.captions, len(problems)) == (("a dog",), 1)
