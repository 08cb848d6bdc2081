"""The tree of a beam search: as JSON for programs, and as a picture (SVG) of one that is not too large."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from chainrule.drawing.glyphs import legible
from chainrule.drawing.rendering import render
from chainrule.text.vocabulary import MARKER_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from chainrule.decoding.beam import TreeNode

MANY = 150  # nodes; of larger trees the picture leaves out what was pruned
ROW, GAP, MARGIN, HEAD = 26, 46, 24, 76  # pixels
LETTER = 7.3  # the width of a letter of 13 pixels
CAPITAL = 0.25  # how much wider a capital is
LONGEST, LONGEST_RUN = 24, 60  # letters of a token, and of several, that are shown

LEGEND = (
    ("best", "the best text"),
    ("finished", "another finished text"),
    ("kept", "kept in the beam"),
    ("pruned", "looked at and pruned"),
)


def tree_json(prompt: str, tree: Sequence[TreeNode], name: Callable[[int], str]) -> str:
    """One JSON object: the prompt, and every node with its place, its parent's (null: the prompt), and its fate.

    Log-probabilities are in nats, those without a finite value null.
    """
    nodes = [
        {
            "id": place,
            "parent": node.parent if node.parent >= 0 else None,
            "token": name(node.token),
            "log_prob": _finite(node.log_prob),
            "total": _finite(node.total),
            "fate": node.fate,
            "score": None if node.score is None else _finite(node.score),
        }
        for place, node in enumerate(tree)
    ]
    return json.dumps({"prompt": prompt, "nodes": nodes}, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def tree_svg(prompt: str, tree: Sequence[TreeNode], name: Callable[[int], str]) -> str:
    """A picture: time runs to the right, the likelier of two siblings stands above, the likeliest beside its parent.

    Each box has a token and its probability after what stands to its left, or a run of tokens that nothing else went on
    from; the thicker a line, the more probable all that leads there. In large trees what was pruned is left out.
    """
    shown = [node.fate != "pruned" or len(tree) <= MANY for node in tree]
    boxes = [_Box([prompt or "<s>"], "kept")]  # the root; the box of a node stands one place after it
    best = _way_to_the_best(tree)
    for place, node in enumerate(tree):
        kind = "best" if place in best else node.fate if node.fate in ("kept", "pruned") else "finished"
        boxes.append(_Box([name(node.token)], kind, node.log_prob, node.total))
        if shown[place]:
            boxes[node.parent + 1].children.append(boxes[-1])
    _join_runs(boxes[0])
    _place(boxes[0])
    visible = list(_walk(boxes[0]))
    columns = max(box.column for box in visible) + 1
    widths = [max(box.width for box in visible if box.column == column) for column in range(columns)]
    lefts = [MARGIN + sum(widths[:column]) + GAP * column for column in range(columns)]
    width = max(lefts[-1] + widths[-1] + MARGIN, 640)
    height = HEAD + ROW * (max(box.row for box in visible) + 1) + MARGIN
    left_out = "" if all(shown) else f"; {shown.count(False):,} pruned hypotheses are left out"
    return render(
        "beam_tree.svg.j2",
        width=width,
        height=height,
        margin=MARGIN,
        title=f"Beam search after “{_short(prompt, 60) or '<s>'}”",
        subtitle=f"{len(tree):,} hypotheses looked at{left_out}",
        legend=list(_legend()),
        lines=[_line(box, child, lefts) for box in visible for child in reversed(box.children)],
        boxes=[_drawn(box, lefts) for box in visible],
    )


@dataclass(eq=False)
class _Box:
    tokens: list[str]
    kind: str
    log_prob: float | None = None  # of all its tokens together; None: of the root
    total: float = 0.0
    children: list[_Box] = field(default_factory=list)
    column: int = 0
    row: int = 0

    @property
    def label(self) -> str:
        """The tokens; those of one character each without spaces between."""
        are_characters = all(len(token) == 1 or token in MARKER_TOKENS for token in self.tokens)
        return legible(("" if are_characters else " ").join(self.tokens))

    @property
    def shown(self) -> str:
        return _short(self.label, LONGEST if len(self.tokens) == 1 else LONGEST_RUN)

    @property
    def probability(self) -> str:
        return "" if self.log_prob is None else _percent(self.log_prob)

    @property
    def width(self) -> float:
        gap = 2 if self.probability else 0
        letters = cell_len(self.shown) + CAPITAL * sum(map(str.isupper, self.shown))
        return LETTER * (letters + gap + 0.85 * len(self.probability)) + 22


def _join_runs(root: _Box) -> None:
    """Boxes of one kind that follow each other without a fork become one; siblings are put in order, likelier first."""
    ways = [root]
    while ways:
        box = ways.pop()
        while box is not root and len(box.children) == 1 and box.children[0].kind == box.kind:
            [only] = box.children
            box.tokens += only.tokens
            box.log_prob, box.total, box.children = (
                (box.log_prob or 0) + (only.log_prob or 0),
                only.total,
                only.children,
            )
        box.children.sort(key=lambda child: -child.total)
        ways.extend(box.children)


def _way_to_the_best(tree: Sequence[TreeNode]) -> set[int]:
    """The places of the nodes of the finished text that is ranked first."""
    scores = {place: node.score for place, node in enumerate(tree) if node.score is not None}
    place = max(scores, key=lambda place: scores[place], default=-1)
    way = set()
    while place >= 0:
        way.add(place)
        place = tree[place].parent
    return way


def _place(root: _Box) -> None:
    """Gives every box its column and row: the first free one that is not above its parent.

    Rows grow in a column in the order of the walk, as their parents' do, so no two lines cross.
    """
    free: dict[int, int] = {}  # the next row of each column
    for box in _walk(root):
        box.row = max(box.row, free.get(box.column, 0))
        free[box.column] = box.row + 1
        for child in box.children:
            child.column, child.row = box.column + 1, box.row


def _walk(root: _Box) -> Iterator[_Box]:
    ways = [root]
    while ways:
        box = ways.pop()
        yield box
        ways.extend(reversed(box.children))


def _middle(box: _Box) -> float:
    return HEAD + ROW * (box.row + 0.5)


def _line(parent: _Box, child: _Box, lefts: list[float]) -> dict[str, Any]:
    left, right = lefts[parent.column] + parent.width, lefts[child.column]
    edge = right - GAP  # of the parent's column: up to it the line stays in its row, where no other box is
    bend = (edge + right) / 2
    above, below = _middle(parent), _middle(child)
    path = f"M{left:.1f} {above:.1f}H{edge:.1f}C{bend:.1f} {above:.1f} {bend:.1f} {below:.1f} {right:.1f} {below:.1f}"
    return {"kind": child.kind, "path": path, "thickness": 1 + 3 * math.exp(max(child.total, -50) / 6)}


def _drawn(box: _Box, lefts: list[float]) -> dict[str, Any]:
    hint = box.label
    if box.log_prob is not None:
        hint += f": {box.probability} here ({box.log_prob:.3f} nats), {box.total:.3f} nats since the prompt"
    return {
        "kind": box.kind,
        "hint": hint,
        "text": box.shown,
        "probability": box.probability,
        "left": lefts[box.column],
        "middle": _middle(box),
        "width": box.width,
    }


def _legend() -> Iterator[dict[str, Any]]:
    left = float(MARGIN)
    for kind, label in LEGEND:
        yield {"kind": kind, "label": label, "left": left}
        left += 20 + 6.4 * len(label) + 22


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _percent(log_prob: float) -> str:
    share = 100 * math.exp(log_prob)
    return f"{share:.0f}%" if share >= 9.5 else f"{share:.1f}%" if share >= 0.095 else "<0.1%"


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
