"""Figures of panels: names that are longer than a panel are wide go on in the next line."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np

from chainrule.drawing.plots import svg_of
from chainrule.features.vision.attention_page import Panel, panels_figure


def test_long_names_are_broken_into_lines() -> None:
    pixels = np.zeros((10, 30, 3), np.uint8)
    sentence = "the left box has a blue circle , a black triangle and a yellow circle ."
    figure = panels_figure("a picture", [(sentence * 3, [Panel(sentence, pixels), Panel("<b>", pixels)])])
    short = panels_figure("a picture", [("short", [Panel("a", pixels), Panel("<b>", pixels)])])
    [_, title, name, other] = [text.get_text() for text in figure.texts]
    assert " ".join(name.split()) == sentence
    assert max(map(len, name.split("\n"))) <= 22  # 1.5 inches of 15 letters
    assert "\n" in title
    assert other == "<b>"
    assert figure.get_figheight() > short.get_figheight() + 0.4


def test_photographs_keep_their_colours_in_the_dark() -> None:
    pixels = np.zeros((10, 30, 3), np.uint8)
    svg = svg_of(panels_figure("a picture", [("row", [Panel("a", pixels), Panel("b", pixels)])]))
    images = ElementTree.fromstring(svg).findall(".//{*}image")
    assert [image.get("class") for image in images] == ["photograph"] * 2
    assert ".drawing image:not(.photograph) { filter: invert" in svg
