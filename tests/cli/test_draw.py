"""Drawings of models: their numbers are those of the network, and nothing lies on anything else."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest

import chainrule as library
from chainrule.errors import SettingError
from chainrule.features.seq2seq.network.config import Seq2SeqConfig
from chainrule.features.seq2seq.network.network import build_seq2seq
from chainrule.neural.build import build
from chainrule.neural.config import (
    BagConfig,
    FeedforwardConfig,
    MaskedConfig,
    NetworkConfig,
    RecurrentConfig,
    TransformerConfig,
)
from chainrule.neural.layers.positions import position_vectors
from chainrule.verbs.draw import network_diagram

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.drawing.diagram import Diagram

SIZE = 50
NETWORKS: dict[str, NetworkConfig] = {
    "transformer": TransformerConfig(),
    "gpt2": library.preset("gpt2"),
    "palm": library.preset("palm"),
    "vaswani": library.preset("vaswani", layers=2),
    "masked": MaskedConfig(layers=1),
    "lstm": RecurrentConfig(layers=2, width=32),
    "lstmn": RecurrentConfig(layers=1, width=32, intra_attention=8),
    "gru": RecurrentConfig(layers=1, width=32, cell="gru"),
    "rnn": RecurrentConfig(layers=1, width=32, cell="rnn_tanh"),
    "feedforward": FeedforwardConfig(layers=2, width=32),
    "bag": BagConfig(width=32),
}
PAIRS = {
    "transformers": Seq2SeqConfig(width=32),
    "lstms": Seq2SeqConfig(width=32, encoder="lstm", decoder="lstm", score="additive"),
    "no attention": Seq2SeqConfig(width=32, encoder="gru", decoder="gru", attention="none"),
    "no encoder": Seq2SeqConfig(width=32, encoder="none"),
    "convolutions": Seq2SeqConfig(width=32, encoder="convolution", decoder="convolution"),
}


def drawn(name: str) -> tuple[Diagram, int]:
    """The diagram of a network, and how many parameters it has."""
    network = build_seq2seq(PAIRS[name], SIZE, SIZE) if name in PAIRS else build(NETWORKS[name], SIZE)
    shapes = {own: tuple(tensor.shape) for own, tensor in network.named_parameters()}
    config = PAIRS.get(name) or NETWORKS[name]
    return network_diagram(name, config, shapes), sum(tensor.numel() for tensor in network.parameters())


@pytest.mark.parametrize("name", [*NETWORKS, *PAIRS])
def test_a_diagram_is_legible(name: str) -> None:
    diagram, parameters = drawn(name)
    assert f"{parameters:,} parameters" in diagram.subtitle
    for i, one in enumerate(diagram.boxes):
        for text, letter in ((one.text, 7.4), (one.note, 6.3)):
            assert letter * len(text) < one.width + 4, text
        for other in diagram.boxes[:i]:
            apart = one.bottom <= other.top or other.bottom <= one.top
            apart |= one.left + one.width <= other.left or other.left + other.width <= one.left
            assert apart, (one, other)
    root = ElementTree.fromstring(diagram.svg())
    assert root.tag.endswith("svg")
    assert len(root.findall(".//{*}rect")) == 1 + len(diagram.boxes) + len(diagram.frames)


@pytest.mark.parametrize("name", [*NETWORKS, *PAIRS])
def test_no_arrow_crosses_a_label_of_a_frame(name: str) -> None:
    diagram, _ = drawn(name)
    for frame in diagram.frames:
        lines = diagram.label_lines(frame)
        right, top = frame.left + 6.2 * max(map(len, lines)), frame.top - 15 * len(lines)
        for arrow in diagram.arrows:
            for (x1, y1), (x2, y2) in pairwise(arrow):
                beside = max(x1, x2) < frame.left or min(x1, x2) > right
                assert beside or max(y1, y2) <= top or min(y1, y2) >= frame.top, (frame.label, arrow)
        assert not any(
            box.left < right and frame.left < box.left + box.width and top < box.bottom and box.top < frame.top
            for box in diagram.boxes
        )


@pytest.mark.parametrize("name", ["transformer", "gpt2", "palm", "vaswani", "masked"])
def test_a_residual_line_stays_in_its_block(name: str) -> None:
    diagram, _ = drawn(name)
    [frame] = diagram.frames
    residuals = [arrow for arrow in diagram.arrows if len(arrow) == 4]
    assert residuals
    for x, y in [point for arrow in residuals for point in arrow]:
        assert frame.left < x < frame.left + frame.width
        assert frame.top < y < frame.top + frame.height


@pytest.mark.parametrize("name", ["lstm", "lstmn", "gru"])
def test_a_recurrent_network_fits_a_page(name: str) -> None:
    assert float(ElementTree.fromstring(drawn(name)[0].svg()).get("width") or 0) < 700


@pytest.mark.parametrize("name", ["transformer", "gpt2", "palm", "vaswani"])
def test_the_numbers_of_a_transformer_add_up(name: str) -> None:
    diagram, parameters = drawn(name)
    config = NETWORKS[name]
    [frame] = diagram.frames
    block = int(re.search(r"of ([\d,]+) parameters", frame.label)[1].replace(",", ""))  # type: ignore[index]
    inside = {"self-attention", "feed-forward"}
    counted = [(box.text.split(":")[0], re.search(r"= ([\d,]+)$", box.note)) for box in diagram.boxes]
    numbers = [(text, int(match[1].replace(",", ""))) for text, match in counted if match]
    outside = sum(number for text, number in numbers if text not in inside)
    norms = parameters - outside - config.layers * block  # type: ignore[attr-defined]
    assert 0 <= norms <= 4 * config.width  # type: ignore[attr-defined]
    in_block = sum(number for text, number in numbers if text in inside)
    assert 0 <= block - in_block <= 4 * config.width  # type: ignore[attr-defined]


def test_a_recurrent_network_has_three_views_a_loop_a_column_for_each_step_and_a_cell() -> None:
    """The loop was missing."""
    diagram, _ = drawn("lstm")
    texts = [box.text for box in diagram.boxes]
    assert texts.count("LSTM 1") == texts.count("LSTM 2") == 1 + 3
    for name in ("LSTM 1", "LSTM 2"):
        box = next(box for box in diagram.boxes if box.text == name)
        loops = [
            points
            for points in diagram.arrows
            if (points[0], points[-1]) == ((box.left + box.width, box.centre), (box.left, box.centre))
        ]
        assert len(loops) == 1
        assert max(x for x, _ in loops[0]) > box.left + box.width
        assert min(x for x, _ in loops[0]) < box.left
        assert min(y for _, y in loops[0]) < box.top
    assert diagram.frames[0].label == "as a loop"
    assert {"f: sigmoid", "i: sigmoid", "g: tanh", "o: sigmoid"} <= set(texts)
    assert [frame.label for frame in diagram.frames][2] == "a cell: LSTM"
    assert drawn("lstmn")[0].frames[2].label == "a cell: LSTM; h and c are averages of its last 8 by attention"


def test_what_a_network_lacks_is_not_drawn() -> None:
    diagram, _ = drawn("no encoder")
    assert not any("NONE" in box.text for box in diagram.boxes)
    assert [frame.label.split(",")[0] for frame in diagram.frames] == ["decoder"]


def test_positions_are_those_of_the_formulas() -> None:
    network = build(TransformerConfig(layers=1, width=8, heads=2, context=20, positions="sinusoidal"), SIZE)
    vectors = position_vectors(network)
    assert vectors.shape == (20, 8)
    assert vectors[7, 2] == pytest.approx(math.sin(7 / 10_000 ** (2 / 8)), abs=1e-6)
    assert vectors[7, 3] == pytest.approx(math.cos(7 / 10_000 ** (2 / 8)), abs=1e-6)
    network = build(TransformerConfig(layers=1, width=8, heads=2, context=20, positions="rotary"), SIZE)
    vectors = position_vectors(network)
    by_distance = [2 * (math.cos(k) + math.cos(k / 100)) for k in range(20)]  # two pairs, 10000^0 and 10000^(-1/2)
    np.testing.assert_allclose(vectors @ vectors[0], by_distance, atol=1e-4)
    learned = build(TransformerConfig(layers=1, width=8, heads=2, context=20, positions="learned"), SIZE)
    assert position_vectors(learned).shape == (20, 8)
    alibi = build(TransformerConfig(layers=1, width=8, heads=2, positions="alibi"), SIZE)
    with pytest.raises(SettingError, match="alibi positions have no vectors to draw"):
        position_vectors(alibi)


def test_models_are_drawn_and_what_is_none_is_refused(chainrule, tmp_path: Path) -> None:
    text = library.Lines(20 * ["the dog bit the man", "the man saw a dog"])
    config = TransformerConfig(layers=1, width=16, heads=2, context=16)
    network = library.train(text, config, training=library.TrainingConfig(steps=1, batch=2, compile="no"))
    network.save(tmp_path / "network")
    library.train(text, library.NGramConfig(order=2)).save(tmp_path / "bigram")
    for show, name in (("network", "n.svg"), ("positions", "p.svg"), ("positions", "p.png")):
        result = chainrule("draw", tmp_path / "network", "-o", tmp_path / name, "--show", show)
        assert (result.status, result.out) == (0, f"wrote {tmp_path / name}\n"), result.err
    both = (tmp_path / "network", tmp_path / "bigram")
    assert chainrule("draw", *both, "-o", tmp_path / "s.svg", "--show", "sizes").status == 0
    assert "bigram" in (tmp_path / "s.svg").read_text()
    assert library.draw(network)._repr_html_().lstrip().startswith("<svg")
    refused = {
        (tmp_path / "bigram", "-o", tmp_path / "b.svg"): "a model of family 'ngram' has no network to draw",
        (tmp_path / "network", "-o", tmp_path / "n.png"): "the name of a drawing of a network must end in .svg",
        (tmp_path / "network", "-o", tmp_path / "n.svg"): "exists already; use --overwrite",
        (*both, "-o", tmp_path / "x.svg"): "--show network draws one model; 2 are given",
    }
    for arguments, message in refused.items():
        assert message in chainrule("draw", *arguments).error
