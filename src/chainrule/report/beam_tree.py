"""The tree of a beam search: as JSON for programs, as an SVG, and as a page with its steps for people."""

from __future__ import annotations

import json
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from chainrule.base.json_numbers import finite
from chainrule.drawing.glyphs import legible
from chainrule.drawing.rendering import render
from chainrule.report.beam_boxes import (
    HEAD,
    HEAD_OF_PAGE,
    LETTER_OF_TEXT,
    LETTER_OF_TITLE,
    LINE,
    MARGIN,
    build_boxes,
    draw,
    shortened,
    width_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from chainrule.decoding.search_tree import SearchTree

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
    """One JSON object: the title, the prompt, and each node with its id, its parent's (null: the prompt), and its fate.

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
    """A drawing: time runs to the right; siblings are sorted downwards, the likeliest on the level of their parent.

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
    """A self-contained HTML page: the drawing with a box for each token, a slider through the steps, their lists.

    text: of the tokens of a hypothesis, perhaps with </s>.
    """
    depths = tree.depths()
    order = sorted(range(len(depths)), key=lambda i: _order(tree, i))
    steps = [
        [_hypothesis(tree, i, text) for i in order if depths[i] == step] for step in range(max(depths, default=-1) + 1)
    ]
    return render("beam_tree.html.j2", **_drawing(title, prompt, tree, name, is_page=True), steps=steps)


def compare_with_greedy(tree: SearchTree, name: Callable[[int], str]) -> str:
    """Where greedy search leaves the way to the best text, and what that costs, in a sentence."""
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
        f"Greedy search leaves the best text at step {fork + 1}: it takes “{legible(name(greedy.token))}” "
        f"({greedy.log_prob:.2f}), not “{legible(name(best.token))}” ({best.log_prob:.2f}); {outcome}."
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
        "title": shortened(title, int(letters * LETTER_OF_TEXT / LETTER_OF_TITLE)),
        "subtitle": subtitle,
        "finding": finding,
        "finding_lines": lines,
        "line_height": LINE,
        "legend": legend,
        "is_page": is_page,
        **draw(root, head=head, least=least),
    }


def _order(tree: SearchTree, i: int) -> tuple[bool, float]:
    """Those that go on or have ended first, the likelier before the others."""
    node = tree.nodes[i]
    return node.fate in ("pruned", "greedy"), -node.total


def _hypothesis(tree: SearchTree, i: int, text: Callable[[Sequence[int]], str]) -> dict[str, Any]:
    """A row of the list of a step."""
    tokens, node = [], tree.nodes[i]
    j = i
    while j >= 0:
        tokens.append(tree.nodes[j].token)
        j = tree.nodes[j].parent
    return {
        "text": legible(text(tokens[::-1])),
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
