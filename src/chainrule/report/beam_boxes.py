"""The boxes of a beam's tree: which tokens each has, and where it stands."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from chainrule.drawing.glyphs import legible
from chainrule.text.vocabulary import MARKER_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from chainrule.decoding.search_tree import SearchTree

ROW, GAP, MARGIN, HEAD, HEAD_OF_PAGE = 26, 46, 24, 92, 50  # pixels
LETTER = 7.3  # the width of a letter of 13 pixels
LETTER_OF_TEXT, LETTER_OF_TITLE, LINE = 7.0, 11.0, 16  # of 12 pixels, of 16 and bold; the height of a line of text
CAPITAL = 0.25  # the extra width of a capital, in letters
LONGEST, LONGEST_RUN = 24, 60  # the most letters of a token, and of a run of tokens


@dataclass(eq=False)
class Box:
    """A token, or a run of tokens without a fork. step: of its last token, from 1; 0 for the root."""

    tokens: list[str]
    kind: str
    is_greedy: bool = False
    step: int = 0
    log_prob: float | None = None  # of all its tokens; None for the root
    total: float = 0.0
    children: list[Box] = field(default_factory=list)
    column: int = 0
    row: int = 0

    @property
    def label(self) -> str:
        """The tokens, with spaces between them unless they are single characters."""
        are_characters = all(len(token) == 1 or token in MARKER_TOKENS for token in self.tokens)
        return legible(("" if are_characters else " ").join(self.tokens))

    @property
    def shown(self) -> str:
        return shortened(self.label, LONGEST if len(self.tokens) == 1 else LONGEST_RUN)

    @property
    def numbers(self) -> tuple[str, str]:
        """The log-probability and the total, as they stand in the box; nothing in the root."""
        return ("", "") if self.log_prob is None else (_nats(self.log_prob), _nats(self.total))

    @property
    def total_width(self) -> float:
        """Of the total and the space before it, in pixels."""
        return 0.9 * LETTER * len(self.numbers[1]) + 10 if self.numbers[1] else 0

    @property
    def width(self) -> float:
        letters = cell_len(self.shown) + CAPITAL * sum(map(str.isupper, self.shown))
        log_prob = 0.85 * LETTER * len(self.numbers[0]) + 12 if self.numbers[0] else 0
        return LETTER * letters + log_prob + self.total_width + 20


def build_boxes(root: str, tree: SearchTree, name: Callable[[int], str], shown: Sequence[bool], *, joined: bool) -> Box:
    """The root of the boxes of the nodes to show, all with their place. joined: whether runs share a box."""
    best, greedy, depths = set(tree.best), set(tree.greedy), tree.depths()
    boxes = [Box([root or "<s>"], "kept")]  # the root; the box of node i is boxes[i + 1]
    for i, node in enumerate(tree.nodes):
        kind = "best" if i in best else node.fate if node.fate in ("kept", "pruned", "greedy") else "finished"
        boxes.append(Box([name(node.token)], kind, i in greedy, depths[i] + 1, node.log_prob, node.total))
        if shown[i]:
            boxes[node.parent + 1].children.append(boxes[-1])
    for box in boxes:
        box.children.sort(key=lambda child: -child.total)
    if joined:
        _join_runs(boxes[0])
    _arrange(boxes[0])
    return boxes[0]


def walk(root: Box) -> Iterator[Box]:
    """The boxes, parents before children."""
    stack = [root]
    while stack:
        box = stack.pop()
        yield box
        stack.extend(reversed(box.children))


def width_of(root: Box) -> float:
    """Of all boxes with their margins, in pixels."""
    widths = _column_widths(root)
    return sum(widths) + GAP * (len(widths) - 1) + 2 * MARGIN


def draw(root: Box, head: float, least: float) -> dict[str, Any]:
    """The boxes and lines with their positions, and the size of the drawing, in pixels.

    head: above the boxes. least: the width of a drawing whose boxes take less.
    """
    visible, widths = list(walk(root)), _column_widths(root)
    lefts = [MARGIN + sum(widths[:column]) + GAP * column for column in range(len(widths))]
    return {
        "width": max(width_of(root), least),
        "head": head,
        "height": head + ROW * (max(box.row for box in visible) + 1) + MARGIN,
        "margin": MARGIN,
        "lines": [_line(box, child, lefts, head) for box in visible for child in reversed(box.children)],
        "boxes": [_drawn(box, lefts, head) for box in visible],
    }


def _column_widths(root: Box) -> list[float]:
    """The width of the widest box of each column."""
    widths: dict[int, float] = {}
    for box in walk(root):
        widths[box.column] = max(box.width, widths.get(box.column, 0))
    return [widths[column] for column in sorted(widths)]


def shortened(text: str, longest: int) -> str:
    """The text, cut to a number of letters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _join_runs(root: Box) -> None:
    """Merges boxes of one kind that follow each other without a fork."""
    stack = [root]
    while stack:
        box = stack.pop()
        while box is not root and len(box.children) == 1 and _are_alike(box, box.children[0]):
            [only] = box.children
            box.tokens += only.tokens
            box.log_prob = (box.log_prob or 0) + (only.log_prob or 0)
            box.total, box.step, box.children = only.total, only.step, only.children
        stack.extend(box.children)


def _are_alike(box: Box, child: Box) -> bool:
    return (box.kind, box.is_greedy) == (child.kind, child.is_greedy)


def _arrange(root: Box) -> None:
    """Gives every box its column and its row, the first free one that is not above its parent.

    Rows grow in a column in the order of the walk, as their parents' do, so no two lines cross.
    """
    free: dict[int, int] = {}  # the next row of each column
    for box in walk(root):
        box.row = max(box.row, free.get(box.column, 0))
        free[box.column] = box.row + 1
        for child in box.children:
            child.column, child.row = box.column + 1, box.row


def _middle(box: Box, head: float) -> float:
    return head + ROW * (box.row + 0.5)


def _line(parent: Box, child: Box, lefts: list[float], head: float) -> dict[str, Any]:
    left, right = lefts[parent.column] + parent.width, lefts[child.column]
    edge = right - GAP  # of the parent's column: up to it, the line runs straight, since its row has no other box
    bend = (edge + right) / 2
    above, below = _middle(parent, head), _middle(child, head)
    curve = f"C{bend:.1f} {above:.1f} {bend:.1f} {below:.1f} {right:.1f} {below:.1f}"
    return {
        "edge": _edge(child),
        "step": child.step,
        "path": f"M{left:.1f} {above:.1f}H{edge:.1f}{curve}",
        "thickness": 1 + 3 * math.exp(max(child.total, -50) / 6),
    }


def _drawn(box: Box, lefts: list[float], head: float) -> dict[str, Any]:
    hint = box.label
    if box.log_prob is not None:
        hint += f": {_percent(box.log_prob)} here ({box.log_prob:.3f} nats), {box.total:.3f} nats since the prompt"
    log_prob, total = box.numbers
    left = lefts[box.column]
    return {
        "kind": box.kind,
        "edge": _edge(box),
        "is_greedy": box.is_greedy,
        "step": box.step,
        "hint": hint,
        "text": box.shown,
        "log_prob": log_prob,
        "total": total,
        "left": left,
        "middle": _middle(box, head),
        "width": box.width,
        "log_prob_right": left + box.width - 9 - box.total_width,
    }


def _edge(box: Box) -> str:
    return "greedy-edge" if box.is_greedy else f"{box.kind}-edge"


def _nats(log_prob: float) -> str:
    return f"{log_prob:.2f}".replace("-", "−") if math.isfinite(log_prob) else "−∞"


def _percent(log_prob: float) -> str:
    share = 100 * math.exp(log_prob)
    return f"{share:.0f}%" if share >= 9.5 else f"{share:.1f}%" if share >= 0.095 else "<0.1%"
