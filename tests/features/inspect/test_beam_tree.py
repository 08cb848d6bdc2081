from __future__ import annotations

import json
import math
import re
from xml.etree import ElementTree

import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from chainrule.decoding.beam import SearchTree, TreeNode
from chainrule.features.inspect.beam_tree import MANY, compare_with_greedy, tree_json, tree_page, tree_svg

NAMES = ["<unk>", "<s>", "</s>", "a & b", "<c>", "d\x01"]
TREE = [
    TreeNode(-1, 3, math.log(0.5), math.log(0.5), "kept"),
    TreeNode(-1, 4, math.log(0.25), math.log(0.25), "kept"),
    TreeNode(-1, 5, -math.inf, -math.inf, "pruned"),
    TreeNode(0, 2, math.log(0.001), math.log(0.0005), "end", -7.6),
    TreeNode(1, 2, math.log(0.9), math.log(0.225), "end", -1.5),
]
BEST, GREEDY = (1, 4), (0, 3)  # greedy search takes a & b, and then has nothing likely left


def of(nodes: list[TreeNode]) -> SearchTree:
    """A tree whose best text and greedy text are those of TREE, or nothing."""
    is_longer = nodes[: len(TREE)] == TREE
    return SearchTree(nodes, BEST if is_longer else (), -1.5, GREEDY if is_longer else (), -7.6)


SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_json_has_every_node_with_its_parent() -> None:
    tree = json.loads(tree_json("title", "é", of(TREE), NAMES.__getitem__))
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
    assert (tree["title"], tree["best"], tree["greedy"]) == ("title", [1, 4], [0, 3])


def test_where_greedy_search_goes_wrong_is_said_in_a_sentence() -> None:
    assert compare_with_greedy(of(TREE), NAMES.__getitem__) == (
        "Greedy search leaves the best text at step 1: it takes “a & b” (−0.69), not “<c>” (−1.39); "
        "its text has −7.60 nats and the score −7.600; the best one has −1.49 and −1.500."
    )
    same = SearchTree(TREE, BEST, -1.5, BEST, -1.5)
    assert compare_with_greedy(same, NAMES.__getitem__) == "Greedy search finds the same text."


def test_a_page_has_the_steps_with_their_hypotheses_and_works_offline() -> None:
    page = tree_page(
        "a title", "my <prompt>", of(TREE), NAMES.__getitem__, lambda tokens: " ".join(NAMES[token] for token in tokens)
    )
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    lists = re.findall(r'data-list="(\d)">(.*?)</section>', page, re.DOTALL)
    assert [step for step, _ in lists] == ["1", "2"]
    rows = [re.findall(r"<td>(.*?)</td>", rows) for _, rows in lists]
    assert rows[0][:4] == ["a &amp; b", "-0.69", "-0.69", "kept, greedy"]
    assert rows[0][-1] == "dropped"
    assert rows[1][:4] == ["&lt;c&gt; &lt;/s&gt;", "-0.11", "-1.49", "finished"]  # the likelier first
    svg = page[page.index("<svg") : page.index("</svg>") + 6]
    steps = [group.get("data-step") for group in ElementTree.fromstring(svg).iter(f"{SVG}g")]
    assert sorted(steps) == ["0", "1", "1", "1", "2", "2"]  # a box for each token, none joined


def test_a_picture_has_every_token_with_its_log_probability_and_the_total() -> None:
    shown = texts(tree_svg("a title", "my <prompt>", of(TREE), NAMES.__getitem__))
    for text in ("a title", "my <prompt>", "a & b", "−0.69", "<c> </s>", "−1.49", "</s>", "−6.91", "−7.60"):
        assert text in shown  # ln 0.5; ln 0.25 + ln 0.9; ln 0.001; ln 0.5 + ln 0.001
    assert "d\N{REPLACEMENT CHARACTER}" in shown
    assert shown.count("−∞") == 2
    assert any(text.startswith("5 hypotheses scored. In a box:") for text in shown)


def test_a_small_picture_has_room_for_its_sentences() -> None:
    """In DejaVu Sans, a wide font."""
    svg = tree_svg("a title of many words " * 9, "the", of(TREE), NAMES.__getitem__)
    width = float(ElementTree.fromstring(svg).attrib["width"])
    lines = []
    for element in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        if element.attrib.get("text-anchor") != "end" and element.text:
            size, weight = float(element.attrib.get("font-size", 13)), element.attrib.get("font-weight", 400)
            font = FontProperties(family="DejaVu Sans", size=size, weight=int(weight))
            drawn = TextPath((0, 0), element.text, prop=font).get_extents().width
            assert float(element.attrib["x"]) + drawn < width, element.text
            lines.append(element.text)
    assert compare_with_greedy(of(TREE), NAMES.__getitem__) in " ".join(lines)


def test_the_way_to_the_best_text_has_a_colour_of_its_own() -> None:
    svg = tree_svg("", "", of(TREE), NAMES.__getitem__)
    filled = [
        group.find(f"{SVG}title").text.split(":")[0]  # type: ignore[union-attr]
        for group in ElementTree.fromstring(svg).iter(f"{SVG}g")
        if group.find(f"{SVG}rect").get("fill") == "#1d4ed8"  # type: ignore[union-attr]
    ]
    assert filled == ["<c> </s>"]
    edges = [
        group.find(f"{SVG}title").text.split(":")[0]  # type: ignore[union-attr]
        for group in ElementTree.fromstring(svg).iter(f"{SVG}g")
        if group.find(f"{SVG}rect").get("stroke") == "#ea580c"  # type: ignore[union-attr]
    ]
    assert edges == ["a & b", "</s>"]


def test_a_run_without_forks_is_one_box_with_its_probability_and_total() -> None:
    letters = [*"to␠a␊", "</s>", "b"]
    half = math.log(0.5)
    tree = [TreeNode(place - 1, place, half, half * (place + 1), "kept") for place in range(5)]
    tree += [TreeNode(4, 5, half, half * 6, "end", -1.0), TreeNode(1, 6, 2 * half, 4 * half, "kept")]
    drawn = SearchTree(tree, tuple(range(6)), -1.0, (), 0.0)
    titles = [
        title.text
        for title in ElementTree.fromstring(tree_svg("", "x", drawn, letters.__getitem__)).iter(f"{SVG}title")
    ]
    assert titles == [
        "x",
        "to: 25% here (-1.386 nats), -1.386 nats since the prompt",
        "·a¶</s>: 6.2% here (-2.773 nats), -4.159 nats since the prompt",  # 0.5 ** 4, and 0.5 ** 6 in all
        "b: 25% here (-1.386 nats), -2.773 nats since the prompt",
    ]


def test_boxes_do_not_overlap() -> None:
    svg = tree_svg("", "prompt", of(TREE), NAMES.__getitem__)
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
    svg = tree_svg("", "", of(tree), NAMES.__getitem__)
    tops = [float(group.find(f"{SVG}rect").get("y") or 0) for group in ElementTree.fromstring(svg).iter(f"{SVG}g")]  # type: ignore[union-attr]
    assert len(tops) == 61
    assert len(set(tops)) == 2


@pytest.mark.parametrize("pruned", [MANY - len(TREE), MANY])
def test_what_was_pruned_is_left_out_of_large_trees(pruned: int) -> None:
    tree = [*TREE, *[TreeNode(-1, 3, -1.0, -1.0, "pruned")] * pruned]
    shown = texts(tree_svg("", "", of(tree), NAMES.__getitem__))
    is_large = len(tree) > MANY
    assert shown.count("a & b") == (1 if is_large else 1 + pruned)
    assert any("pruned hypotheses are left out" in text for text in shown) == is_large
