"""Pictures of a circle, a square or a triangle, and scenes of one to three of these, with captions.

A shape has any size and colour, and is anywhere on a ground of another colour. A scene has a caption, a paragraph, and
a phrase for the box of each shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, UInt8
    from numpy import ndarray

    from chainrule.datasets.random import Random

SHAPES = ("circle", "square", "triangle")
SIDE = 32  # pixels
_SMALLEST, _LARGEST = 6, 13  # half of the width of a shape
_LEAST_CONTRAST = 200  # sum of the differences of red, green and blue


def shape(chance: Random, name: str) -> UInt8[ndarray, "row column channel"]:
    """A picture of a shape."""
    half = _SMALLEST + chance.below(_LARGEST - _SMALLEST + 1)
    x, y = (half + chance.below(SIDE - 2 * half) for _ in range(2))
    ground, colour = _colour(chance), _colour(chance)
    while np.abs(ground - colour).sum() < _LEAST_CONTRAST:
        colour = _colour(chance)
    picture = np.where(coverage(name, x, y, half)[:, :, None], colour, ground)
    return picture.astype(np.uint8)


def _colour(chance: Random) -> ndarray:
    return np.array([chance.below(256) for _ in range(3)])


def coverage(name: str, x: int, y: int, half: int) -> Bool[ndarray, "row column"]:
    """Which pixels a shape covers. x, y: its centre. half: half of its width."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    down, right = rows - y, columns - x
    if name == "circle":
        return down**2 + right**2 <= half**2
    within = np.abs(down) <= half
    if name == "square":
        return within & (np.abs(right) <= half)
    return within & (2 * np.abs(right) <= down + half)  # a triangle, its tip above


PLACES = ("on the left", "in the middle", "on the right")
COLOURS = {"red": (220, 30, 30), "green": (20, 150, 60), "blue": (40, 70, 220), "yellow": (230, 190, 30)}
SIZES = {"small": (4, 6), "large": (10, 12)}  # half of the width of a shape: least and most
GROUND = 240
_EMPTY = 3  # one in this many places is empty


class Shape(NamedTuple):
    """A shape.

    place: one of `PLACES`. x, y: its centre within the place, in pixels. half: half of its width, in pixels.
    """

    place: int
    size: str
    colour: str
    shape: str
    x: int
    y: int
    half: int

    @property
    def phrase(self) -> str:
        return f"a {self.size} {self.colour} {self.shape}"

    @property
    def box(self) -> list[int]:
        """Left, top, right and bottom in pixels of the scene."""
        x = self.place * SIDE + self.x
        return [x - self.half, self.y - self.half, x + self.half + 1, self.y + self.half + 1]


Scene = tuple[Shape, ...]


def scene(chance: Random) -> Scene:
    """One to three shapes, from left to right."""
    places = [place for place in range(len(PLACES)) if chance.below(_EMPTY)] or [chance.below(len(PLACES))]
    return tuple(_thing(chance, place) for place in places)


def _thing(chance: Random, place: int) -> Shape:
    size = chance.choice(tuple(SIZES))
    least, most = SIZES[size]
    half = least + chance.below(most - least + 1)
    x, y = (half + chance.below(SIDE - 2 * half) for _ in range(2))
    return Shape(place, size, chance.choice(tuple(COLOURS)), chance.choice(SHAPES), x, y, half)


def caption(scene: Scene) -> str:
    """One sentence: a red circle on the left and a blue square on the right."""
    *first, last = (f"a {thing.colour} {thing.shape} {PLACES[thing.place]}" for thing in scene)
    return f"{' , '.join(first)} and {last}" if first else last


def paragraph(scene: Scene) -> str:
    """A sentence for each shape: on the left is a large red circle ."""
    return " ".join(f"{PLACES[thing.place]} is {thing.phrase} ." for thing in scene)


def draw_scene(scene: Scene) -> UInt8[ndarray, "row column channel"]:
    """The picture of a scene."""
    picture = np.full((SIDE, SIDE * len(PLACES), 3), GROUND, np.uint8)
    for thing in scene:
        own = picture[:, thing.place * SIDE : (thing.place + 1) * SIDE]
        own[coverage(thing.shape, thing.x, thing.y, thing.half)] = COLOURS[thing.colour]
    return picture
