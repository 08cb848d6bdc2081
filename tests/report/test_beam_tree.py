from __future__ import annotations

import json
import math
import re
from xml.etree import ElementTree

import pytest

from chainrule.decoding.beam import TreeNode
from chainrule.report.beam_tree import MANY, tree_json, tree_svg

NAMES = ["<unk>", "<s>", "</s>", "a & b", "<c>", "d\x01"]
TREE = [
    TreeNode(-1, 3, math.log(0.5), math.log(0.5), "kept"),
    TreeNode(-1, 4, math.log(0.25), math.log(0.25), "kept"),
    TreeNode(-1, 5, -math.inf, -math.inf, "pruned"),
    TreeNode(0, 2, math.log(0.001), math.log(0.0005), "end", -7.6),
    TreeNode(1, 2, math.log(0.9), math.log(0.225), "end", -1.5),
]
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_json_has_every_node_with_its_parent() -> None:
    tree = json.loads(tree_json("é", TREE, NAMES.__getitem__))
    assert tree["prompt"] == "é"
    assert tree["nodes"][0] == {
        "id": 0,
        "parent": None,
        "token": "a & b",
        "log_prob": math.log(0.5),
        "total": math.log(0.5),
        "fate": "kept",
        "score": None,
    }
    assert tree["nodes"][2]["log_prob"] is None
    assert [(node["parent"], node["score"]) for node in tree["nodes"][3:]] == [(0, -7.6), (1, -1.5)]


def test_a_picture_has_every_token_and_its_probability() -> None:
    shown = texts(tree_svg("my <prompt>", TREE, NAMES.__getitem__))
    for text in ("my <prompt>", "a & b", "50%", "<c> </s>", "22%", "</s>", "0.1%", "d\N{REPLACEMENT CHARACTER}"):
        assert text in shown
    assert "5 hypotheses scored" in shown


def test_the_way_to_the_best_text_has_a_colour_of_its_own() -> None:
    svg = tree_svg("", TREE, NAMES.__getitem__)
    filled = [
        group.find(f"{SVG}title").text.split(":")[0]  # type: ignore[union-attr]
        for group in ElementTree.fromstring(svg).iter(f"{SVG}g")
        if group.find(f"{SVG}rect").get("fill") == "#1d4ed8"  # type: ignore[union-attr]
    ]
    assert filled == ["<c> </s>"]


def test_a_run_without_forks_is_one_box_with_its_probability_and_total() -> None:
    letters = [*"to␠a␊", "</s>", "b"]
    half = math.log(0.5)
    tree = [TreeNode(place - 1, place, half, half * (place + 1), "kept") for place in range(5)]
    tree += [TreeNode(4, 5, half, half * 6, "end", -1.0), TreeNode(1, 6, 2 * half, 4 * half, "kept")]
    titles = [
        title.text for title in ElementTree.fromstring(tree_svg("x", tree, letters.__getitem__)).iter(f"{SVG}title")
    ]
    assert titles == [
        "x",
        "to: 25% here (-1.386 nats), -1.386 nats since the prompt",
        "·a¶</s>: 6.2% here (-2.773 nats), -4.159 nats since the prompt",  # 0.5 ** 4, and 0.5 ** 6 in all
        "b: 25% here (-1.386 nats), -2.773 nats since the prompt",
    ]


def test_boxes_do_not_overlap() -> None:
    svg = tree_svg("prompt", TREE, NAMES.__getitem__)
    boxes = [
        tuple(float(group.find(f"{SVG}rect").get(name) or 0) for name in ("x", "y", "width", "height"))  # type: ignore[union-attr]
        for group in ElementTree.fromstring(svg).iter(f"{SVG}g")
    ]
    assert len(boxes) == len(TREE)  # the root, and one for two of the nodes
    for i, (x, y, width, height) in enumerate(boxes):
        for other_x, other_y, other_width, other_height in boxes[:i]:
            assert (
                x >= other_x + other_width
                or other_x >= x + width
                or y >= other_y + other_height
                or other_y >= y + height
            )
    [width, height] = re.findall(r'<svg [^>]*width="(\d+)" height="(\d+)"', svg)[0]
    assert all(x + box_width < int(width) and y + box_height < int(height) for x, y, box_width, box_height in boxes)


def test_a_long_text_with_a_fork_at_each_token_takes_few_rows() -> None:
    tree = []
    for _ in range(30):
        parent = len(tree) - 2 if tree else -1
        tree += [TreeNode(parent, 3, -0.1, -0.1, "kept"), TreeNode(parent, 4, -2.0, -2.0, "kept")]
    svg = tree_svg("", tree, NAMES.__getitem__)
    tops = [float(group.find(f"{SVG}rect").get("y") or 0) for group in ElementTree.fromstring(svg).iter(f"{SVG}g")]  # type: ignore[union-attr]
    assert len(tops) == 61
    assert len(set(tops)) == 2


@pytest.mark.parametrize("pruned", [MANY - len(TREE), MANY])
def test_what_was_pruned_is_left_out_of_large_trees(pruned: int) -> None:
    tree = [*TREE, *[TreeNode(-1, 3, -1.0, -1.0, "pruned")] * pruned]
    shown = texts(tree_svg("", tree, NAMES.__getitem__))
    is_large = len(tree) > MANY
    assert shown.count("a & b") == (1 if is_large else 1 + pruned)
    assert any("pruned hypotheses are left out" in text for text in shown) == is_large
