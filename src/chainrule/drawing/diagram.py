"""Block diagrams as SVG: boxes with a note, arrows between them, and frames around what repeats.

Coordinates are pixels, y downwards. A diagram is built from the bottom up, as papers draw networks, so its y are
negative; `svg` shifts everything into the picture.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.cells import cell_len

from chainrule.drawing.pages import render

WIDTH, HEIGHT, GAP = 264.0, 42.0, 24.0  # of a box, and between boxes
_MARGIN, _HEAD, _LETTER = 24.0, 70.0, 7.2


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

    def svg(self) -> str:
        """Return the drawing as an SVG for light and dark mode."""
        lefts = [box.left for box in self.boxes] + [frame.left for frame in self.frames]
        lefts += [x for arrow in self.arrows for x, _ in arrow]
        tops = [box.top for box in self.boxes] + [frame.top - 16 for frame in self.frames]
        tops += [y for arrow in self.arrows for _, y in arrow]
        rights = [box.left + box.width for box in self.boxes]
        rights += [max(frame.left + frame.width, frame.left + 6.2 * cell_len(frame.label)) for frame in self.frames]
        rights += [x for arrow in self.arrows for x, _ in arrow]
        bottoms = [box.bottom for box in self.boxes] + [frame.top + frame.height for frame in self.frames]
        across, down = _MARGIN - min(lefts), _HEAD - min(tops)
        words = max(cell_len(self.title) * 1.25, cell_len(self.subtitle)) * _LETTER
        return render(
            "diagram.svg.j2",
            title=self.title,
            subtitle=self.subtitle,
            width=max(max(rights) + across, words + _MARGIN) + _MARGIN,
            height=max(bottoms) + down + _MARGIN,
            across=across,
            down=down,
            boxes=self.boxes,
            frames=self.frames,
            paths=["M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) for points in self.arrows],
            kinds=sorted({box.kind for box in self.boxes}),
        )
