"""A page that shows a network that reads pictures from the inside; it opens without a network connection."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chainrule.drawing.rendering import render

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class Image:
    """A PNG file, its size in pixels, and what it shows."""

    png: bytes
    height: int
    width: int
    hint: str = ""

    @property
    def address(self) -> str:
        """The picture itself, as an address in a page."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


@dataclass(frozen=True, kw_only=True)
class ShownUnit:
    """A channel of a layer: its map of the shown picture, and the patches that excite it most."""

    number: int
    map: Image
    patches: Sequence[Image]


@dataclass(frozen=True, kw_only=True)
class ShownLayer:
    """box: what the strongest unit sees of the shown picture, at its strongest place: top, left, bottom, right."""

    name: str
    channels: int
    height: int
    width: int
    strongest: int
    box: tuple[int, int, int, int]
    units: Sequence[ShownUnit]


def inside_page(
    heading: str, picture: Image, pictures: int, filters: Sequence[Image], layers: Sequence[ShownLayer]
) -> str:
    """A self-contained HTML page without scripts. pictures: how many were looked at for patches."""
    return render(
        "inside_pictures.html.j2", title=heading, picture=picture, pictures=pictures, filters=filters, layers=layers
    )
