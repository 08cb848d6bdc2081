"""Pages and pictures of attention: whole, offline, and with nothing in a token taken for markup."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest

from chainrule.drawing.attention import AttentionMap, attention_page, attention_svg

NASTY = ["</s>", "<script>alert(1)</script>", '"&amp;', "x" * 40, "\x00\x1b", "naïve"]


def a_map(tokens: list[str], heads: int = 2) -> AttentionMap:
    weights = np.random.default_rng(0).dirichlet(np.ones(len(tokens)), (heads, len(tokens))).astype(np.float32)
    return AttentionMap(title="text, layer <1>", rows=tokens, columns=tokens, weights=weights)


@pytest.mark.parametrize("size", [1, 8, 80])
def test_all_tokens_are_there_as_text(size: int) -> None:
    tokens = [*NASTY, *(f"word{i}" for i in range(80))][:size]
    for text in (attention_page("a <b>", [a_map(tokens)]), attention_svg("a <b>", [a_map(tokens)])):
        pictures = re.findall(r'<svg [^>]*aria-label="text, layer &lt;1&gt;, head \d".*?</svg>', text, re.DOTALL)
        assert len(pictures) == 2
        for picture in pictures:
            root = ElementTree.fromstring(picture)
            labels = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
            for token in tokens:
                shown = token.replace("\x00", "�").replace("\x1b", "�")
                assert sum(shown in label for label in labels) >= 2, token  # whole, in a hint where it is cut
        assert "<script" not in text
        assert "<b>" not in text
        assert not re.search(r'(?:href|src)="(?!data:image/png;base64,)', text)


def test_colours_are_the_weights() -> None:
    weights = np.array([[[1.0, 0.0], [0.25, 0.75]]], np.float32)
    given = AttentionMap(title="t", rows=["a", "b"], columns=["c", "d"], weights=weights)
    [data] = re.findall(r"base64,([^\"]+)", attention_svg("h", [given]))
    png = base64.b64decode(data)
    assert struct.unpack(">II", png[16:24]) == (2, 2)
    length = struct.unpack(">I", png[33:37])[0]
    pixels = np.frombuffer(zlib.decompress(png[41 : 41 + length]), np.uint8).reshape(2, 7)[:, 1:].reshape(2, 2, 3)
    assert pixels[0, 1].tolist() == [255, 255, 255]
    darkness = 255 - pixels[..., 0].astype(int)
    assert darkness[0, 0] > darkness[1, 1] > darkness[1, 0] > darkness[0, 1] == 0
    assert ">.75<" in attention_svg("h", [given])
