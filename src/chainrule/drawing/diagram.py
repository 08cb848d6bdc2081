"""Block diagrams as SVG: boxes with a note, arrows between them, and frames around what repeats.

Coordinates are pixels, y downwards. A diagram is built from the bottom up, as papers draw networks, so its y are
negative; `svg` shifts everything into the picture.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from textwrap import wrap

from rich.cells import cell_len

from chainrule.drawing.pages import render

WIDTH, HEIGHT, GAP = 264.0, 42.0, 24.0  # of a box, and between boxes
_MARGIN, _HEAD, _LETTER = 24.0, 70.0, 7.2
_SMALL, _LINE = 6.2, 15.0  # of labels of frames: the width of a letter, and from one line to the next


@dataclass(frozen=True)
class Box:
    """A box of a diagram. left, top: its corner. kind: the name of its colours. hint: the tooltip."""

    left: float
    top: float
    width: float
    text: str
    note: str = ""
    kind: str = "kept"
    hint: str = ""
    height: float = HEIGHT

    @property
    def middle(self) -> float:
        return self.left + self.width / 2

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def centre(self) -> float:
        return self.top + self.height / 2


@dataclass(frozen=True)
class Frame:
    """A dashed frame, with a label above its upper left corner."""

    left: float
    top: float
    width: float
    height: float
    label: str


@dataclass
class Diagram:
    """A drawing to which parts are added. arrows: the points that each arrow goes through."""

    title: str
    subtitle: str = ""
    boxes: list[Box] = field(default_factory=list)
    arrows: list[tuple[tuple[float, float], ...]] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)

    def box(self, left: float, bottom: float, text: str, note: str = "", **looks: float | str) -> Box:
        """Add a box that stands on `bottom`. looks: width, height, kind, hint."""
        height = float(looks.pop("height", HEIGHT if note else 26.0))
        width = float(looks.pop("width", WIDTH))
        kind, hint = str(looks.pop("kind", "kept")), str(looks.pop("hint", ""))
        made = Box(left, bottom - height, width, text, note, kind, hint, height)
        self.boxes.append(made)
        return made

    def circle(self, middle: float, centre: float, text: str) -> Box:
        """Add a small round box for an operation, such as + or ×."""
        made = Box(middle - 10, centre - 10, 20, text, kind="pruned", height=20)
        self.boxes.append(made)
        return made

    def arrow(self, *points: tuple[float, float]) -> None:
        self.arrows.append(points)

    def up(self, below: Box, above: Box) -> None:
        """Draw an arrow from the top of a box to the bottom of the next."""
        self.arrow((below.middle, below.top), (above.middle, above.bottom))

    def frame(self, first: int, label: str, padding: float = 14.0) -> None:
        """Draw a frame around all boxes from the first-th on."""
        inside = self.boxes[first:]
        left, top = min(box.left for box in inside) - padding, min(box.top for box in inside) - padding
        right, bottom = max(box.left + box.width for box in inside), max(box.bottom for box in inside)
        self.frames.append(Frame(left, top, right + padding - left, bottom + padding - top, label))

    def label_lines(self, frame: Frame) -> list[str]:
        """Return the label of a frame in lines that end before an arrow which goes up through its upper side."""
        up = [
            x
            for arrow in self.arrows
            for (x, one), (_, other) in pairwise(arrow)
            if min(one, other) < frame.top < max(one, other) and x > frame.left
        ]
        return wrap(frame.label, max(12, int((min([*up, frame.left + frame.width]) - frame.left - 8) / _SMALL)))

    def svg(self) -> str:
        """Return the drawing as an SVG for light and dark mode."""
        points = [point for arrow in self.arrows for point in arrow]
        parts: tuple[Box | Frame, ...] = (*self.boxes, *self.frames)
        for part in parts:
            points += [(part.left, part.top), (part.left + part.width, part.top + part.height)]
        labels = [self.label_lines(frame) for frame in self.frames]
        for frame, lines in zip(self.frames, labels, strict=True):
            points.append((frame.left + _SMALL * max(map(cell_len, lines)), frame.top - _LINE * len(lines)))
        xs, ys = zip(*points, strict=True)
        across, down = _MARGIN - min(xs), _HEAD - min(ys)
        words = max(cell_len(self.title) * 1.25, cell_len(self.subtitle)) * _LETTER
        return render(
            "diagram.svg.j2",
            title=self.title,
            subtitle=self.subtitle,
            width=max(max(xs) + across, words + _MARGIN) + _MARGIN,
            height=max(ys) + down + _MARGIN,
            across=across,
            down=down,
            boxes=self.boxes,
            frames=list(zip(self.frames, labels, strict=True)),
            paths=["M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) for points in self.arrows],
            kinds=sorted({box.kind for box in self.boxes}),
        )
