"""The tree of a beam search: as JSON for programs, as an SVG, and as a page with its steps for people."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from chainrule.base.results import finite
from chainrule.drawing.pages import render, shorten, show_whitespace
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from chainrule.decoding.beam import SearchTree

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
        return show_whitespace(("" if are_characters else " ").join(self.tokens))

    @property
    def shown(self) -> str:
        return shorten(self.label, LONGEST if len(self.tokens) == 1 else LONGEST_RUN)

    @property
    def numbers(self) -> tuple[str, str]:
        """The log-probability and the total, as they stand in the box; nothing in the root."""
        return ("", "") if self.log_prob is None else (_nats(self.log_prob), _nats(self.total))

    @property
    def total_width(self) -> float:
        """The width of the total and the space before it, in pixels."""
        return 0.9 * LETTER * len(self.numbers[1]) + 10 if self.numbers[1] else 0

    @property
    def width(self) -> float:
        letters = cell_len(self.shown) + CAPITAL * sum(map(str.isupper, self.shown))
        log_prob = 0.85 * LETTER * len(self.numbers[0]) + 12 if self.numbers[0] else 0
        return LETTER * letters + log_prob + self.total_width + 20


def build_boxes(root: str, tree: SearchTree, name: Callable[[int], str], shown: Sequence[bool], *, joined: bool) -> Box:
    """Return the root of the boxes of the nodes to show, all with their place. joined: whether runs share a box."""
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
    """Yield the boxes, parents before children."""
    stack = [root]
    while stack:
        box = stack.pop()
        yield box
        stack.extend(reversed(box.children))


def width_of(root: Box) -> float:
    """Return the width of all boxes with their margins, in pixels."""
    widths = _column_widths(root)
    return sum(widths) + GAP * (len(widths) - 1) + 2 * MARGIN


def draw(root: Box, head: float, least: float) -> dict[str, Any]:
    """Return the boxes and lines with their positions, and the size of the drawing, in pixels.

    head: the height above the boxes, in pixels. least: the least width of a drawing, in pixels.
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
    """Return the width of the widest box of each column."""
    widths: dict[int, float] = {}
    for box in walk(root):
        widths[box.column] = max(box.width, widths.get(box.column, 0))
    return [widths[column] for column in sorted(widths)]


def _join_runs(root: Box) -> None:
    """Merge boxes of one kind that follow each other without a fork."""
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
    """Give every box its column and its row, the first free one that is not above its parent.

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


MANY = 150  # nodes; in larger trees, the drawing leaves out pruned hypotheses

LEGEND = (
    ("best", "the best text"),
    ("finished", "another finished text"),
    ("kept", "kept in the beam"),
    ("pruned", "scored and pruned"),
    ("greedy", "greedy search, its boxes and lines in this colour"),
)
FATES = {"kept": "kept", "pruned": "dropped", "end": "finished", "length": "cut at the limit", "stop": "stopped"}


def tree_json(title: str, prompt: str, tree: SearchTree, name: Callable[[int], str]) -> str:
    """Return one JSON object: the title, the prompt, and each node with its id, its parent's (null: the prompt), and
    its fate.

    best, greedy: the ids of the nodes of the best text and of greedy search. Log-probabilities are in nats; null if not
    finite.
    """
    nodes = [
        {
            "id": i,
            "parent": node.parent if node.parent >= 0 else None,
            "token": name(node.token),
            "log_prob": finite(node.log_prob),
            "total": finite(node.total),
            "fate": node.fate,
            "score": None if node.score is None else finite(node.score),
        }
        for i, node in enumerate(tree.nodes)
    ]
    whole = {"title": title, "prompt": prompt, "best": tree.best, "greedy": tree.greedy, "nodes": nodes}
    return json.dumps(whole, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def tree_svg(title: str, prompt: str, tree: SearchTree, name: Callable[[int], str], *, in_page: bool = False) -> str:
    """Return a drawing: time runs to the right; siblings are sorted downwards, the likeliest on the level of their
    parent.

    Each box has a token, or a run of tokens without a fork, with its log-probability given what is to its left and the
    total since the prompt; a thicker line means a more probable path. Large trees are drawn without pruned hypotheses.
    in_page: without a heading, and with a box for each token; data-step is the number of the step that adds a part.
    """
    return render("beam_tree.svg.j2", **_drawing(title, prompt, tree, name, is_page=in_page))


def tree_page(
    title: str,
    prompt: str,
    tree: SearchTree,
    name: Callable[[int], str],
    text: Callable[[Sequence[int]], str],
) -> str:
    """Return a self-contained HTML page: the drawing with a box for each token, a slider through the steps, their
    lists.

    text: a function that gives the text of a hypothesis' tokens, perhaps with </s>.
    """
    depths = tree.depths()
    order = sorted(range(len(depths)), key=lambda i: _order(tree, i))
    steps = [
        [_hypothesis(tree, i, text) for i in order if depths[i] == step] for step in range(max(depths, default=-1) + 1)
    ]
    return render("beam_tree.html.j2", **_drawing(title, prompt, tree, name, is_page=True), steps=steps)


def compare_with_greedy(tree: SearchTree, name: Callable[[int], str]) -> str:
    """Return a sentence that says where greedy search leaves the path to the best text, and what that costs."""
    fork = tree.fork
    if not tree.best or not tree.greedy:
        return "The search found no text."
    if fork is None:
        return "Greedy search finds the same text."
    ends = tree.nodes[tree.best[-1]].total, tree.nodes[tree.greedy[-1]].total
    outcome = (
        f"its text has {ends[1]:.2f} nats and the score {tree.greedy_score:.3f}; "
        f"the best one has {ends[0]:.2f} and {tree.score:.3f}"
    )
    if fork >= min(len(tree.best), len(tree.greedy)):
        return f"Greedy search ends elsewhere on the same way: {outcome}."
    best, greedy = tree.nodes[tree.best[fork]], tree.nodes[tree.greedy[fork]]
    sentence = (
        f"Greedy search leaves the best text at step {fork + 1}: it takes “{show_whitespace(name(greedy.token))}” "
        f"({greedy.log_prob:.2f}), not “{show_whitespace(name(best.token))}” ({best.log_prob:.2f}); {outcome}."
    )
    return sentence.replace("-", "−") if "-" not in name(greedy.token) + name(best.token) else sentence


def _drawing(title: str, prompt: str, tree: SearchTree, name: Callable[[int], str], *, is_page: bool) -> dict[str, Any]:
    scored = [node.fate != "greedy" for node in tree.nodes]
    greedy = set(tree.greedy)
    shown = [len(tree.nodes) <= MANY or node.fate != "pruned" or i in greedy for i, node in enumerate(tree.nodes)]
    left_out = "" if all(shown) else f"; {shown.count(False):,} pruned hypotheses are left out"
    subtitle = (
        f"{scored.count(True):,} hypotheses scored{left_out}. "
        "In a box: the token, its log-probability, and the total so far, in nats."
    )
    finding = compare_with_greedy(tree, name)
    legend = list(_legend())
    root, least = build_boxes(prompt, tree, name, shown, joined=not is_page), legend[-1]["end"] + MARGIN
    letters = int((max(width_of(root), least) - 2 * MARGIN) / LETTER_OF_TEXT)
    lines = wrap(finding, letters)
    head = HEAD_OF_PAGE if is_page else HEAD + LINE * (len(lines) - 1)
    return {
        "title": shorten(title, int(letters * LETTER_OF_TEXT / LETTER_OF_TITLE)),
        "subtitle": subtitle,
        "finding": finding,
        "finding_lines": lines,
        "line_height": LINE,
        "legend": legend,
        "is_page": is_page,
        **draw(root, head=head, least=least),
    }


def _order(tree: SearchTree, i: int) -> tuple[bool, float]:
    """Return the order of nodes: those that continue or have ended first, the likelier before the others."""
    node = tree.nodes[i]
    return node.fate in ("pruned", "greedy"), -node.total


def _hypothesis(tree: SearchTree, i: int, text: Callable[[Sequence[int]], str]) -> dict[str, Any]:
    """Return a row of the list of a step."""
    tokens, node = [], tree.nodes[i]
    j = i
    while j >= 0:
        tokens.append(tree.nodes[j].token)
        j = tree.nodes[j].parent
    return {
        "text": show_whitespace(text(tokens[::-1])),
        "log_prob": f"{node.log_prob:.2f}",
        "total": f"{node.total:.2f}",
        "fate": FATES.get(node.fate, "not in the beam"),
        "is_kept": node.fate not in ("pruned", "greedy"),
        "is_greedy": i in tree.greedy,
    }


def _legend() -> Iterator[dict[str, Any]]:
    left = float(MARGIN)
    for kind, label in LEGEND:
        end = left + 20 + LETTER_OF_TEXT * len(label)
        yield {"kind": kind, "label": label, "left": left, "end": end}
        left = end + 22
