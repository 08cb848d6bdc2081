"""The tree of a beam search, as JSON for programs and as an SVG for people."""

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

MANY = 150  # nodes; in larger trees, the picture leaves out pruned hypotheses
ROW, GAP, MARGIN, HEAD = 26, 46, 24, 76  # pixels
LETTER = 7.3  # the width of a letter of 13 pixels
CAPITAL = 0.25  # the extra width of a capital, in letters
LONGEST, LONGEST_RUN = 24, 60  # the most letters of a token, and of a run of tokens

LEGEND = (
    ("best", "the best text"),
    ("finished", "another finished text"),
    ("kept", "kept in the beam"),
    ("pruned", "scored and pruned"),
)


def tree_json(prompt: str, tree: Sequence[TreeNode], name: Callable[[int], str]) -> str:
    """One JSON object: the prompt, and every node with its id, its parent's id (null: the prompt), and its fate.

    Log-probabilities are in nats; null if not finite.
    """
    nodes = [
        {
            "id": i,
            "parent": node.parent if node.parent >= 0 else None,
            "token": name(node.token),
            "log_prob": _finite(node.log_prob),
            "total": _finite(node.total),
            "fate": node.fate,
            "score": None if node.score is None else _finite(node.score),
        }
        for i, node in enumerate(tree)
    ]
    return json.dumps({"prompt": prompt, "nodes": nodes}, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def tree_svg(prompt: str, tree: Sequence[TreeNode], name: Callable[[int], str]) -> str:
    """A drawing: time runs to the right; siblings are sorted downwards, the likeliest on the level of their parent.

    Each box has a token with its probability given what is to its left, or a run of tokens without a fork; a thicker
    line means a more probable path. Large trees are drawn without pruned hypotheses.
    """
    shown = [node.fate != "pruned" or len(tree) <= MANY for node in tree]
    boxes = [_Box([prompt or "<s>"], "kept")]  # the root; the box of node i is boxes[i + 1]
    best = _best_path(tree)
    for i, node in enumerate(tree):
        kind = "best" if i in best else node.fate if node.fate in ("kept", "pruned") else "finished"
        boxes.append(_Box([name(node.token)], kind, node.log_prob, node.total))
        if shown[i]:
            boxes[node.parent + 1].children.append(boxes[-1])
    _join_runs(boxes[0])
    _arrange(boxes[0])
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
        subtitle=f"{len(tree):,} hypotheses scored{left_out}",
        legend=list(_legend()),
        lines=[_line(box, child, lefts) for box in visible for child in reversed(box.children)],
        boxes=[_drawn(box, lefts) for box in visible],
    )


@dataclass(eq=False)
class _Box:
    tokens: list[str]
    kind: str
    log_prob: float | None = None  # of all its tokens; None for the root
    total: float = 0.0
    children: list[_Box] = field(default_factory=list)
    column: int = 0
    row: int = 0

    @property
    def label(self) -> str:
        """The tokens, with spaces between them unless they are single characters."""
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
    """Merges boxes of one kind that follow each other without a fork, and sorts siblings, likelier first."""
    stack = [root]
    while stack:
        box = stack.pop()
        while box is not root and len(box.children) == 1 and box.children[0].kind == box.kind:
            [only] = box.children
            box.tokens += only.tokens
            box.log_prob, box.total, box.children = (
                (box.log_prob or 0) + (only.log_prob or 0),
                only.total,
                only.children,
            )
        box.children.sort(key=lambda child: -child.total)
        stack.extend(box.children)


def _best_path(tree: Sequence[TreeNode]) -> set[int]:
    """The indices of the nodes of the best finished text."""
    scores = {i: node.score for i, node in enumerate(tree) if node.score is not None}
    i = max(scores, key=lambda i: scores[i], default=-1)
    path = set()
    while i >= 0:
        path.add(i)
        i = tree[i].parent
    return path


def _arrange(root: _Box) -> None:
    """Gives every box its column and its row, the first free one that is not above its parent.

    Rows grow in a column in the order of the walk, as their parents' do, so no two lines cross.
    """
    free: dict[int, int] = {}  # the next row of each column
    for box in _walk(root):
        box.row = max(box.row, free.get(box.column, 0))
        free[box.column] = box.row + 1
        for child in box.children:
            child.column, child.row = box.column + 1, box.row


def _walk(root: _Box) -> Iterator[_Box]:
    stack = [root]
    while stack:
        box = stack.pop()
        yield box
        stack.extend(reversed(box.children))


def _middle(box: _Box) -> float:
    return HEAD + ROW * (box.row + 0.5)


def _line(parent: _Box, child: _Box, lefts: list[float]) -> dict[str, Any]:
    left, right = lefts[parent.column] + parent.width, lefts[child.column]
    edge = right - GAP  # of the parent's column: up to it, the line runs straight, since its row has no other box
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
