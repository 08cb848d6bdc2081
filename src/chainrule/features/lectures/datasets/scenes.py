"""Pictures of a circle, a square or a triangle, and scenes of one to three of these, with captions.

A shape has any size and colour, and is anywhere on a ground of another colour. A scene has a caption, a paragraph, and
a phrase for the box of each shape. In the harder forms shapes overlap: a picture is of the shape in front of another
one, in noise, and a place of a scene may have one shape in front of another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, UInt8
    from numpy import ndarray

    from chainrule.features.lectures.datasets.random import Random

SHAPES = ("circle", "square", "triangle")
SIDE = 32  # pixels
_SMALLEST, _LARGEST = 6, 13  # half of the width of a shape
_LEAST_CONTRAST = 200  # sum of the differences of red, green and blue


def shape(chance: Random, name: str) -> UInt8[ndarray, "row column channel"]:
    """Return a picture of a shape."""
    half = _SMALLEST + chance.below(_LARGEST - _SMALLEST + 1)
    x, y = (half + chance.below(SIDE - 2 * half) for _ in range(2))
    ground, colour = _colour(chance), _colour(chance)
    while np.abs(ground - colour).sum() < _LEAST_CONTRAST:
        colour = _colour(chance)
    picture = np.where(coverage(name, x, y, half)[:, :, None], colour, ground)
    return picture.astype(np.uint8)


_SHADES = (20, 90, 180)  # the darkest of the ground, the shape behind and the one in front
_NOISE = 20  # the most by which a pixel of a harder picture is lighter or darker


def hard_shape(chance: Random, name: str) -> UInt8[ndarray, "row column channel"]:
    """Return a picture of a shape in front of a larger, darker one of another kind, in noise."""
    other = chance.choice([shape for shape in SHAPES if shape != name])
    large = 10 + chance.below(4)
    x, y = (large + chance.below(SIDE - 2 * large) for _ in range(2))
    half = 6 + chance.below(3)
    right, down = (min(SIDE - half - 1, max(half, place + chance.below(13) - 6)) for place in (x, y))
    ground, behind, colour = (np.array([low + chance.below(60) for _ in range(3)]) for low in _SHADES)
    picture = np.where(coverage(other, x, y, large)[:, :, None], behind, ground)
    picture = np.where(coverage(name, right, down, half)[:, :, None], colour, picture)
    noise = np.array([chance.below(2 * _NOISE + 1) - _NOISE for _ in range(SIDE * SIDE)])
    return (picture + noise.reshape(SIDE, SIDE, 1)).clip(0, 255).astype(np.uint8)


def _colour(chance: Random) -> ndarray:
    return np.array([chance.below(256) for _ in range(3)])


def coverage(name: str, x: int, y: int, half: int) -> Bool[ndarray, "row column"]:
    """Return which pixels a shape covers. x, y: its centre. half: half of its width."""
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
    """Return one to three shapes, from left to right."""
    places = [place for place in range(len(PLACES)) if chance.below(_EMPTY)] or [chance.below(len(PLACES))]
    return tuple(_thing(chance, place) for place in places)


def _thing(chance: Random, place: int) -> Shape:
    size = chance.choice(tuple(SIZES))
    least, most = SIZES[size]
    half = least + chance.below(most - least + 1)
    x, y = (half + chance.below(SIDE - 2 * half) for _ in range(2))
    return Shape(place, size, chance.choice(tuple(COLOURS)), chance.choice(SHAPES), x, y, half)


def hard_scene(chance: Random) -> Scene:
    """Return shapes in one to three places, most of them behind a smaller one, which follows in the scene."""
    shapes = []
    for behind in scene(chance):
        front = None
        while chance.below(4) and (front is None or front.phrase == behind.phrase):
            front = _thing(chance, behind.place)
        if front is None:
            shapes.append(behind)
            continue
        half = 10 + chance.below(3)
        x, y = (half + chance.below(SIDE - 2 * half) for _ in range(2))
        shapes.append(behind._replace(size="large", half=half, x=x, y=y))
        half = 4 + chance.below(3)
        x, y = (min(SIDE - half - 1, max(half, place + chance.below(15) - 7)) for place in (x, y))
        colour = chance.choice([colour for colour in COLOURS if colour != behind.colour])
        shapes.append(front._replace(size="small", half=half, x=x, y=y, colour=colour))
    return tuple(shapes)


def caption(scene: Scene) -> str:
    """Return one sentence: a red circle on the left and a blue square in front of a green circle on the right."""
    *first, last = (
        f"{' in front of '.join(f'a {shape.colour} {shape.shape}' for shape in shapes)} {PLACES[shapes[0].place]}"
        for shapes in _by_place(scene)
    )
    return f"{' , '.join(first)} and {last}" if first else last


def paragraph(scene: Scene) -> str:
    """Return a sentence for each place: on the left is a large red circle ."""
    return " ".join(
        f"{PLACES[shapes[0].place]} is {' in front of '.join(shape.phrase for shape in shapes)} ."
        for shapes in _by_place(scene)
    )


def _by_place(scene: Scene) -> list[list[Shape]]:
    """Return the shapes of each place, what is in front first."""
    return [[shape for shape in scene[::-1] if shape.place == place] for place in dict.fromkeys(s.place for s in scene)]


def draw_scene(scene: Scene) -> UInt8[ndarray, "row column channel"]:
    """Return the picture of a scene."""
    picture = np.full((SIDE, SIDE * len(PLACES), 3), GROUND, np.uint8)
    for thing in scene:
        own = picture[:, thing.place * SIDE : (thing.place + 1) * SIDE]
        own[coverage(thing.shape, thing.x, thing.y, thing.half)] = COLOURS[thing.colour]
    return picture
