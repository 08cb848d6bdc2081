"""Draws networks: their layers with shapes, their position encodings, or several models by their size.

Diagrams follow from configurations and the shapes of parameters; each function draws one kind.
Legend: V vocabulary, D width, H heads, B rows, T time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from chainrule.api.models.load_model import load
from chainrule.api.models.model import Model, check_model
from chainrule.api.opening import info
from chainrule.api.seq2seq.seq2seq_model import Seq2SeqModel, is_seq2seq, load_pairs
from chainrule.base.files import check_new_file, replace_file
from chainrule.drawing.charts import bar_chart, heat_map_with_line
from chainrule.drawing.diagram import GAP, WIDTH, Box, Diagram
from chainrule.drawing.plots import check_plot_name, svg_of, write_plot
from chainrule.errors import SettingError
from chainrule.neural.config import FeedforwardConfig, MaskedConfig, RecurrentConfig, TransformerConfig
from chainrule.neural.config.seq2seq import Seq2SeqConfig

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    Shapes = Mapping[str, Sequence[int]]

STEPS = 4  # time steps that an unrolled network is drawn with


def network_diagram(name: str, config: Any, shapes: Shapes) -> Diagram:
    """The diagram of a network. name: the model's name. shapes: the shapes of its parameters, by parameter name."""
    total = sum(math.prod(shape) for shape in shapes.values())
    kind = "Encoder and decoder" if isinstance(config, Seq2SeqConfig) else type(config).__name__.removesuffix("Config")
    diagram = Diagram(name, f"{kind}, {total:,} parameters")
    if isinstance(config, Seq2SeqConfig):
        _pairs(diagram, config, shapes)
    elif isinstance(config, TransformerConfig):
        _transformer(diagram, config, shapes)
    elif isinstance(config, RecurrentConfig):
        _recurrent(diagram, config, shapes)
    elif isinstance(config, FeedforwardConfig):
        _feedforward(diagram, config, shapes)
    else:
        _parts(diagram, shapes)
    return diagram


def _transformer(diagram: Diagram, config: TransformerConfig, shapes: Shapes) -> None:
    size, width = shapes["embedding.weight"]
    tokens = diagram.box(0, 0, "tokens", "(B, T)", kind="pruned")
    below = _above(diagram, tokens, "vectors of tokens", f"V {size:,} × D {width:,}{_count(shapes, 'embedding.')}")
    if config.positions in ("learned", "sinusoidal"):
        note = f"{config.context:,} × {width:,}{_count(shapes, 'encoder.places.')}"
        below = _above(diagram, below, f"+ {config.positions} positions", note, kind="finished")
    if config.embedding_norm:
        below = _above(diagram, below, _norm(config.norm), "", kind="pruned")
    first = len(diagram.boxes)
    below = _block(diagram, below, config, shapes)
    blocks = f"{config.layers} block{'s' * (config.layers > 1)} of {_sum_of(shapes, 'encoder.blocks.0.'):,} parameters"
    diagram.frame(first, blocks, 20)
    if config.norm_place == "pre":
        below = _above(diagram, below, _norm(config.norm), "", kind="pruned", gap=GAP + 26)
    is_masked = isinstance(config, MaskedConfig)
    output = _above(diagram, below, "output", _output_note(size, width, config.tied, shapes), gap=GAP + 20)
    meaning = "P(masked token)" if is_masked else "P(next token)"
    _above(diagram, output, f"softmax: {meaning}", f"(B, T, V {size:,})", kind="best")


def _block(diagram: Diagram, below: Box, config: TransformerConfig, shapes: Shapes) -> Box:
    """One block, with its sums beside the sub-layers."""
    heads = f"{config.heads} heads of {config.width_of_heads}"
    if config.key_heads != config.heads:
        heads += f" ({config.key_heads} of keys)"
    kind = "two-sided" if isinstance(config, MaskedConfig) else "causal"
    if config.window is not None:
        kind += f", window {config.window}"
    positions = f", {config.positions}" if config.positions in ("rotary", "relative", "alibi") else ""
    attention = (f"self-attention: {kind}{positions}", heads, "attention.")
    gate = "gated, " if config.is_gated else ""
    feed_forward = (
        f"feed-forward: {config.feed_forward}".replace("_", " "),
        f"{gate}D {config.width:,} → {config.hidden_width:,} → {config.width:,}",
        "feed_forward.",
    )
    pre = config.norm_place == "pre"
    if config.parallel:
        return _side_by_side(diagram, below, config, shapes, (attention, feed_forward))
    for text, note, part in (attention, feed_forward):
        entry = below
        if pre:
            below = _above(diagram, below, _norm(config.norm), "", kind="pruned", gap=GAP + 14)
        note += _count(shapes, f"encoder.blocks.0.{part}")
        below = _above(diagram, below, text, note, gap=GAP if pre else GAP + 14)
        below = _sum(diagram, entry, below)
        if not pre:
            below = _above(diagram, below, _norm(config.norm), "", kind="pruned", gap=12)
    return below


def _side_by_side(
    diagram: Diagram, below: Box, config: TransformerConfig, shapes: Shapes, parts: Sequence[tuple[str, str, str]]
) -> Box:
    """Attention and feed-forward layer on the same input (parallel blocks: GPT-J, PaLM)."""
    entry, norm = below, _above(diagram, below, _norm(config.norm), "", kind="pruned", gap=GAP + 14)
    bottom = norm.top - GAP - 10
    drawn = []
    for left, (text, note, part) in zip((-(WIDTH + 20) / 2, (WIDTH + 20) / 2), parts, strict=True):
        note += _count(shapes, f"encoder.blocks.0.{part}")
        drawn.append(diagram.box(left, bottom, text, note))
        diagram.arrow((norm.middle, norm.top), (drawn[-1].middle, drawn[-1].bottom))
    plus = diagram.circle(norm.middle, drawn[0].top - GAP - 10, "+")
    for box in drawn:
        diagram.arrow((box.middle, box.top), (plus.middle + (-10 if box.middle < plus.middle else 10), plus.centre))
    _residual(diagram, entry, plus, min(box.left for box in drawn) - 12)
    return plus


def _recurrent(diagram: Diagram, config: RecurrentConfig, shapes: Shapes) -> None:
    """Unrolled over a few steps, and one cell beside it."""
    size, _ = shapes["embedding.weight"]
    across, wide = 150.0, 104.0
    cell = {"rnn_tanh": "tanh", "rnn_relu": "ReLU"}.get(config.cell, config.cell.upper())
    for step in range(STEPS):
        left = step * across
        token = diagram.box(left, 0, f"w{step + 1}", "", width=wide, kind="pruned")
        below = _above(diagram, token, "vector", f"{config.input_width}", width=wide)
        for layer in range(config.layers):
            hint = f"layer {layer + 1}{_each(shapes, f'encoder.layers.{layer}.')}"
            below = _above(diagram, below, f"{cell} {layer + 1}", f"state {config.width}", width=wide, hint=hint)
            if step:
                diagram.arrow((left - across + wide, below.centre), (left, below.centre))
        output = _above(diagram, below, "softmax", f"V {size:,}", width=wide, kind="best")
        _above(diagram, output, f"P(w{step + 2} | ...)", "", width=wide, kind="finished")
    layers = "; ".join(f"layer {i + 1}{_each(shapes, f'encoder.layers.{i}.')}" for i in range(config.layers))
    diagram.frame(0, f"the same weights at each step: {layers}", 18)
    first = len(diagram.boxes)
    _cell(diagram, STEPS * across + 90, config)
    past = f"; h and c are averages of its last {config.intra_attention} by attention" if config.intra_attention else ""
    diagram.frame(first, f"a cell: {cell}{past}", 18)


def _cell(diagram: Diagram, left: float, config: RecurrentConfig) -> None:
    """The inside of a cell: gates, from x and h below to the new state on the right."""
    width = config.width
    gates = {
        "lstm": ("f: sigmoid", "i: sigmoid", "g: tanh", "o: sigmoid"),
        "gru": ("r: sigmoid", "z: sigmoid", "n: tanh"),
    }.get(config.cell, (f"{'tanh' if config.cell == 'rnn_tanh' else 'ReLU'}(W x + U h)",))
    wide = 92.0 if len(gates) > 1 else 150.0
    inputs = diagram.box(
        left, 0, "x, h", f"{config.input_width} + {width}", kind="pruned", width=len(gates) * (wide + 14) - 14
    )
    boxes = []
    for i, gate in enumerate(gates):
        boxes.append(diagram.box(left + i * (wide + 14), inputs.top - GAP, gate, f"{width}", width=wide))
        diagram.arrow((boxes[-1].middle, inputs.top), (boxes[-1].middle, boxes[-1].bottom))
    top = boxes[0].top - GAP
    if config.cell == "lstm":
        line = top - 44
        times = [diagram.circle(boxes[0].middle, line, "×"), diagram.circle(boxes[2].middle, top - 6, "×")]
        plus = diagram.circle(boxes[2].middle, line, "+")
        diagram.up(boxes[0], times[0])
        diagram.arrow(
            (boxes[1].middle, boxes[1].top), (boxes[1].middle, times[1].centre), (times[1].left, times[1].centre)
        )
        diagram.up(boxes[2], times[1])
        diagram.up(times[1], plus)
        memory = diagram.box(left - 14, line - 34, "c", f"memory, {width}", kind="finished", width=84)
        diagram.arrow((memory.middle, memory.bottom), (memory.middle, line), (times[0].left, line))
        diagram.arrow((times[0].left + 20, line), (plus.left, line))
        tanh = diagram.box(boxes[3].left, line + 13, "tanh", "", width=wide, kind="pruned")
        diagram.arrow((plus.left + 20, line), (tanh.left, tanh.centre))
        out = diagram.circle(boxes[3].left + wide + 30, boxes[3].centre, "×")
        diagram.arrow((tanh.left + wide, tanh.centre), (out.middle, tanh.centre), (out.middle, out.top))
        diagram.arrow((boxes[3].left + wide, boxes[3].centre), (out.left, out.centre))
        state = diagram.box(out.left - 32, line - 34, "h' and c'", f"{width} each", kind="best", width=84)
        diagram.arrow((plus.middle, plus.top), (plus.middle, state.centre), (state.left, state.centre))
        diagram.arrow((out.left + 20, out.centre), (out.left + 38, out.centre), (out.left + 38, state.bottom))
    else:
        formula = "(1 - z) n + z h" if config.cell == "gru" else ""
        state = diagram.box(
            left, top, f"h' = {formula}" if formula else "h'", f"{width}", kind="best", width=inputs.width
        )
        for box in boxes:
            diagram.arrow((box.middle, box.top), (box.middle, state.bottom))


def _feedforward(diagram: Diagram, config: FeedforwardConfig, shapes: Shapes) -> None:
    size, _ = shapes["embedding.weight"]
    shown = min(config.window, STEPS)
    wide = (WIDTH - 12 * (shown - 1)) / shown
    names = [f"w{i - shown}" if i - shown else "" for i in range(shown)]
    if config.window > shown:
        names[0] = f"w-{config.window} ..."
    vectors = []
    for i, name in enumerate(names):
        token = diagram.box(i * (wide + 12), 0, name, "", width=wide, kind="pruned")
        vectors.append(diagram.box(token.left, token.top - GAP, f"{config.input_width}", "", width=wide))
        diagram.up(token, vectors[-1])
    note = f"{config.window} × {config.input_width} = {config.window * config.input_width:,}"
    joined = diagram.box(0, vectors[0].top - GAP, "the vectors, one after the other", note, kind="pruned")
    for box in vectors:
        diagram.arrow((box.middle, box.top), (box.middle, joined.bottom))
    below = joined
    for layer in range(config.layers):
        read = config.width if layer else config.window * config.input_width
        note = f"{read:,} → {config.width:,}"
        below = _above(diagram, below, f"layer {layer + 1}: {config.activation}", note)
    output = _above(diagram, below, "output", _output_note(size, config.output_width, config.tied, shapes))
    _above(diagram, output, "softmax: P(next token)", f"V {size:,}", kind="best")


def _pairs(diagram: Diagram, config: Seq2SeqConfig, shapes: Shapes) -> None:
    """The encoder on the left, the decoder on the right, and what the one gives to the other."""
    width, right = config.width, WIDTH + 130
    left = diagram.box(0, 0, "source tokens", "", kind="pruned")
    below = _above(diagram, left, "vectors of source tokens", f"D {width:,}")
    encoder = below
    if config.encoder != "none":
        first = len(diagram.boxes)
        inside = _inside(config.encoder, "in both directions")
        encoder = _above(diagram, below, f"{_layer(config.encoder)} layer", inside, gap=GAP + 16)
        diagram.frame(first, f"encoder, {_layers(config.encoder_layers)}{_each(shapes, 'reader.')}", 14)
    target = diagram.box(right, 0, "target tokens so far", "", kind="pruned")
    above = _above(diagram, target, "vectors of target tokens", f"D {width:,}")
    first = len(diagram.boxes)
    decoder = f"{_layer(config.decoder)} layer"
    layer = _above(diagram, above, decoder, _inside(config.decoder, ""), gap=GAP + 16)
    if config.attention == "none":
        diagram.arrow((encoder.left + WIDTH, encoder.centre), (layer.left, layer.centre))
        top = layer
    else:
        what = f"{config.attention} attention to the source"
        top = _above(diagram, layer, what, f"score: {config.score}".replace("_", " "), kind="finished")
        diagram.arrow(
            (encoder.left + WIDTH, encoder.centre),
            (right - 40, encoder.centre),
            (right - 40, top.centre),
            (right, top.centre),
        )
    diagram.frame(first, f"decoder, {_layers(config.decoder_layers)}{_each(shapes, 'decoder.')}", 14)
    size = next((shape[0] for name, shape in shapes.items() if name.startswith("output") and len(shape) == 2), 0)
    output = _above(diagram, top, "output", f"D {width:,} → V {size:,}" if size else "", gap=GAP + 26)
    _above(diagram, output, "softmax: P(next target token)", "", kind="best")


def _parts(diagram: Diagram, shapes: Shapes) -> None:
    """The diagram of any other network: its modules in their order, with their shapes."""
    below: Box | None = None
    for name, shape in shapes.items():
        if len(shape) < 2:  # biases are counted with their matrices
            continue
        note = f"{' × '.join(f'{size:,}' for size in shape)} = {math.prod(shape):,}"
        text = name.removesuffix(".weight").replace("_", " ")
        below = diagram.box(0, 0, text, note) if below is None else _above(diagram, below, text, note)


def _above(diagram: Diagram, below: Box, text: str, note: str, *, gap: float = GAP, **looks: Any) -> Box:
    """A box above another one, with an arrow between them."""
    width = float(looks.get("width", WIDTH))
    box = diagram.box(below.middle - width / 2, below.top - gap, text, note, **looks)
    diagram.up(below, box)
    return box


def _sum(diagram: Diagram, entry: Box, below: Box) -> Box:
    """A plus above a sub-layer, which its input also reaches by a line around the sub-layer."""
    plus = diagram.circle(below.middle, below.top - GAP, "+")
    diagram.up(below, plus)
    _residual(diagram, entry, plus, below.left - 14)
    return plus


def _residual(diagram: Diagram, entry: Box, plus: Box, left: float) -> None:
    turn = entry.top - 8
    diagram.arrow((entry.middle, turn), (left, turn), (left, plus.centre), (plus.left, plus.centre))


def _norm(norm: str) -> str:
    return {"layer": "LayerNorm", "rms": "RMSNorm"}[norm]


def _inside(part: str, recurrent: str) -> str:
    """The parts of a layer of the encoder or the decoder. recurrent: the words for a recurrent one."""
    return {"transformer": "self-attention, feed-forward", "convolution": ""}.get(part, recurrent)


def _layer(part: str) -> str:
    return {"transformer": "Transformer", "convolution": "convolution", "hierarchical": "hierarchical LSTM"}.get(
        part, part.upper()
    )


def _layers(count: int) -> str:
    return f"{count} layer{'s' * (count > 1)}"


def _sum_of(shapes: Shapes, start: str) -> int:
    return sum(math.prod(shape) for name, shape in shapes.items() if name.startswith(start))


def _count(shapes: Shapes, start: str) -> str:
    total = _sum_of(shapes, start)
    return f" = {total:,}" if total else ""


def _each(shapes: Shapes, start: str) -> str:
    total = _sum_of(shapes, start)
    return f": {total:,} parameters" if total else ""


def _output_note(size: int, width: int, tied: bool, shapes: Shapes) -> str:
    return f"D {width:,} → V {size:,}{', the vectors of tokens' if tied else _count(shapes, 'output.')}"


What = Literal["network", "positions", "sizes"]


@dataclass(frozen=True)
class Drawing:
    """A drawing of a model: a diagram, or a plot."""

    drawn: Diagram | Figure

    def _repr_html_(self) -> str:
        return self._svg()

    def _svg(self) -> str:
        return self.drawn.svg() if isinstance(self.drawn, Diagram) else svg_of(self.drawn)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes a diagram as .svg, a plot as .svg, .pdf or .png. Raises OutputError, SettingError."""
        target = Path(path)
        check_drawing_target(target, is_diagram=isinstance(self.drawn, Diagram), overwrite=overwrite)
        if isinstance(self.drawn, Diagram):
            with replace_file(target) as file:
                file.write(self.drawn.svg().encode())
        else:
            write_plot(self.drawn, target)


def check_drawing_target(path: Path, *, is_diagram: bool, overwrite: bool) -> None:
    """Checks, before the work, that a drawing may be written. Raises OutputError, SettingError."""
    if is_diagram and path.suffix.lower() != ".svg":
        raise SettingError(f"{path}: the name of the drawing of a network ends in .svg")
    check_plot_name(path)
    check_new_file(path, overwrite=overwrite)


def draw(model: Model | Seq2SeqModel | str | os.PathLike[str], what: What = "network") -> Drawing:
    """Draws a network: its layers with shapes and numbers of parameters, or the vectors of its positions.

    model: one that was opened, or its folder. what: network, or positions: a heat map of the vectors of all positions,
    and the dot products of the first with all others. Raises SettingError if the model is not a network, or has no such
    vectors; ModelFormatError.

    good:  chainrule.draw("lm/").save("lm.svg")
    """
    if isinstance(model, Model | Seq2SeqModel):
        opened, name = model, "model"
    else:
        path, name = Path(model), Path(model).name or str(model)
        opened = load_pairs(path) if is_seq2seq(path) else load(path)
    check_model(opened, Model, Seq2SeqModel)
    network = getattr(opened.model if isinstance(opened, Seq2SeqModel) else opened.engine, "network", None)
    config = getattr(network, "config", None)
    if network is None or config is None:
        family = "a model of pairs" if isinstance(opened, Seq2SeqModel) else f"a model of family {opened.family!r}"
        raise SettingError(f"{name}: {family} has no network to draw; expected a network")
    if what == "positions":
        return Drawing(_positions(name, network))
    if what != "network":
        raise SettingError(f"what is {what!r}; expected network or positions; draw_sizes draws several models")
    shapes = {own: tuple(tensor.shape) for own, tensor in network.named_parameters()}
    return Drawing(network_diagram(name, config, shapes))


def draw_sizes(models: Sequence[str | os.PathLike[str]]) -> Drawing:
    """Draws models by their number of parameters, or n-grams, as their model cards say.

    Raises SettingError where a model says neither; ModelFormatError.
    """
    sizes: dict[str, float] = {}
    for path in models:
        known = info(path)
        size = known.parameters or sum(known.ngrams or ())
        if not size:
            raise SettingError(f"{path}: its model card has no number of parameters or n-grams")
        sizes[f"{path}"] = size
    return Drawing(bar_chart("Models by size", sizes, "parameters, or n-grams"))


def _positions(name: str, network: object) -> Figure:
    from chainrule.neural.layers.positions import position_vectors

    vectors = position_vectors(network)  # type: ignore[arg-type]
    return heat_map_with_line(
        f"{name}: the vectors of {len(vectors):,} positions",
        vectors,
        ("position", "element of the vector"),
        (vectors @ vectors[0]).tolist(),
        ("distance from the first position", "dot product with its vector"),
    )
