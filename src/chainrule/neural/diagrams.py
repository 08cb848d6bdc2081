"""Diagrams of networks, from their configurations and the shapes of their parameters; a function for each kind.

Legend: V vocabulary, D width, H heads, B rows, T time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from chainrule.drawing.diagram import GAP, WIDTH, Box, Diagram

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chainrule.neural.config import FeedforwardConfig, RecurrentConfig, TransformerConfig

    Shapes = Mapping[str, Sequence[int]]

STEPS, WORDS = 3, 4  # time steps of an unrolled network; words of a window, at most


def draw_transformer(name: str, config: TransformerConfig, shapes: Shapes) -> Diagram:
    """Draw a Transformer: its blocks as one, in a frame."""
    diagram = titled_diagram(name, _kind(config), shapes)
    size, width = shapes["embedding.weight"]
    tokens = diagram.box(0, 0, "tokens", "(B, T)", kind="pruned")
    below = put_above(diagram, tokens, "vectors of tokens", f"V {size:,} × D {width:,}{_count(shapes, 'embedding.')}")
    if config.positions in ("learned", "sinusoidal"):
        note = f"{config.context:,} × {width:,}{_count(shapes, 'encoder.places.')}"
        below = put_above(diagram, below, f"+ {config.positions} positions", note, kind="finished")
    if config.embedding_norm:
        below = put_above(diagram, below, _norm(config.norm), "", kind="pruned")
    first = len(diagram.boxes)
    below = _block(diagram, below, config, shapes)
    blocks = f"{config.layers} block{'s' * (config.layers > 1)} of {_sum_of(shapes, 'encoder.blocks.0.'):,} parameters"
    diagram.frame(first, blocks, 20)
    gap, note = GAP + 36, _output_note(size, width, config.tied, shapes)  # with a place for the label of the frame
    if config.norm_place == "pre":
        below, gap = put_above(diagram, below, _norm(config.norm), "", kind="pruned", gap=gap), GAP
    output = put_above(diagram, below, "output", note, gap=gap)
    meaning = "P(masked token)" if config.is_masked else "P(next token)"
    put_above(diagram, output, f"softmax: {meaning}", f"(B, T, V {size:,})", kind="best")
    return diagram


def _block(diagram: Diagram, below: Box, config: TransformerConfig, shapes: Shapes) -> Box:
    """Return one block, with its sums beside the sub-layers."""
    heads = f"{config.heads} heads of {config.width_of_heads}"
    if config.key_heads != config.heads:
        heads += f" ({config.key_heads} of keys)"
    kind = "two-sided" if config.is_bidirectional else "causal"
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
            below = put_above(diagram, below, _norm(config.norm), "", kind="pruned", gap=GAP + 14)
        note += _count(shapes, f"encoder.blocks.0.{part}")
        below = put_above(diagram, below, text, note, gap=GAP if pre else GAP + 14)
        below = _sum(diagram, entry, below)
        if not pre:
            below = put_above(diagram, below, _norm(config.norm), "", kind="pruned", gap=12)
    return below


def _side_by_side(
    diagram: Diagram, below: Box, config: TransformerConfig, shapes: Shapes, parts: Sequence[tuple[str, str, str]]
) -> Box:
    """Return attention and feed-forward layer on the same input (parallel blocks: GPT-J, PaLM)."""
    entry, norm = below, put_above(diagram, below, _norm(config.norm), "", kind="pruned", gap=GAP + 14)
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


def draw_recurrent(name: str, config: RecurrentConfig, shapes: Shapes) -> Diagram:
    """Return three views: as a loop, unrolled over a few steps, and one cell."""
    diagram = titled_diagram(name, _kind(config), shapes)
    size, _ = shapes["embedding.weight"]
    across, wide = 140.0, 104.0
    cell = {"rnn_tanh": "tanh", "rnn_relu": "ReLU"}.get(config.cell, config.cell.upper())
    token = diagram.box(-wide - 82, 0, "w", "", width=wide, kind="pruned")
    below = put_above(diagram, token, "vector", f"{config.input_width}", width=wide)
    for layer in range(config.layers):
        below = put_above(diagram, below, f"{cell} {layer + 1}", f"state {config.width}", width=wide)
        _loop(diagram, below)
    output = put_above(diagram, below, "softmax", f"V {size:,}", width=wide, kind="best")
    put_above(diagram, output, "P(next word | ...)", "", width=wide + 40, kind="finished")
    diagram.frame(0, "as a loop", 18)
    unrolled = len(diagram.boxes)
    for step in range(STEPS):
        left = step * across
        token = diagram.box(left, 0, f"w{step + 1}", "", width=wide, kind="pruned")
        below = put_above(diagram, token, "vector", f"{config.input_width}", width=wide)
        for layer in range(config.layers):
            hint = f"layer {layer + 1}{size_of_each(shapes, f'encoder.layers.{layer}.')}"
            below = put_above(diagram, below, f"{cell} {layer + 1}", f"state {config.width}", width=wide, hint=hint)
            if step:
                diagram.arrow((left - across + wide, below.centre), (left, below.centre))
        output = put_above(diagram, below, "softmax", f"V {size:,}", width=wide, kind="best")
        put_above(diagram, output, f"P(w{step + 2} | ...)", "", width=wide, kind="finished")
    layers = "; ".join(f"layer {i + 1}{size_of_each(shapes, f'encoder.layers.{i}.')}" for i in range(config.layers))
    diagram.frame(unrolled, f"the same weights at each step: {layers}", 18)
    first, is_lstm = len(diagram.boxes), config.cell == "lstm"
    _cell(diagram, diagram.frames[0].left + (32 if is_lstm else 18), 330 if is_lstm else 250, config)
    past = f"; h and c are averages of its last {config.intra_attention} by attention" if config.intra_attention else ""
    diagram.frame(first, f"a cell: {cell}{past}", 18)
    return diagram


def _loop(diagram: Diagram, box: Box) -> None:
    """Draw an arrow from a box around it and back: its state goes into its next step."""
    right, left, above = box.left + box.width, box.left, box.top - 12
    around = ((right, box.centre), (right + 18, box.centre), (right + 18, above), (left - 18, above))
    diagram.arrow(*around, (left - 18, box.centre), (left, box.centre))


def _cell(diagram: Diagram, left: float, bottom: float, config: RecurrentConfig) -> None:
    """Draw the inside of a cell from this corner: gates, from x and h below to the new state on the right."""
    width = config.width
    gates = {
        "lstm": ("f: sigmoid", "i: sigmoid", "g: tanh", "o: sigmoid"),
        "gru": ("r: sigmoid", "z: sigmoid", "n: tanh"),
    }.get(config.cell, (f"{'tanh' if config.cell == 'rnn_tanh' else 'ReLU'}(W x + U h)",))
    wide = 92.0 if len(gates) > 1 else 150.0
    note, whole = f"{config.input_width} + {width}", len(gates) * (wide + 14) - 14
    inputs = diagram.box(left, bottom, "x, h", note, kind="pruned", width=whole)
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
        state = diagram.box(left, top, f"h' = {formula}" if formula else "h'", f"{width}", kind="best", width=whole)
        for box in boxes:
            diagram.arrow((box.middle, box.top), (box.middle, state.bottom))


def draw_feedforward(name: str, config: FeedforwardConfig, shapes: Shapes) -> Diagram:
    """Return the vectors of the window side by side, and the layers on them."""
    diagram = titled_diagram(name, _kind(config), shapes)
    size, _ = shapes["embedding.weight"]
    shown = min(config.window, WORDS)
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
        below = put_above(diagram, below, f"layer {layer + 1}: {config.activation}", note)
    output = put_above(diagram, below, "output", _output_note(size, config.output_width, config.tied, shapes))
    put_above(diagram, output, "softmax: P(next token)", f"V {size:,}", kind="best")
    return diagram


def put_above(diagram: Diagram, below: Box, text: str, note: str, *, gap: float = GAP, **looks: Any) -> Box:
    """Return a box above another one, with an arrow between them."""
    width = float(looks.get("width", WIDTH))
    box = diagram.box(below.middle - width / 2, below.top - gap, text, note, **looks)
    diagram.up(below, box)
    return box


def _sum(diagram: Diagram, entry: Box, below: Box) -> Box:
    """Return a plus above a sub-layer, to which its input comes past it."""
    plus = diagram.circle(below.middle, below.top - GAP, "+")
    diagram.up(below, plus)
    _residual(diagram, entry, plus, below.left - 14)
    return plus


def _residual(diagram: Diagram, entry: Box, plus: Box, left: float) -> None:
    turn = entry.top - 24  # below the first box of the block, so that the line stays in its frame
    diagram.arrow((entry.middle, turn), (left, turn), (left, plus.centre), (plus.left, plus.centre))


def _norm(norm: str) -> str:
    return {"layer": "LayerNorm", "rms": "RMSNorm"}.get(norm, norm)


def cell_note(part: str, recurrent: str) -> str:
    """Return what a layer of the encoder or the decoder consists of. recurrent: what to say of a recurrent one."""
    return {"transformer": "self-attention, feed-forward", "convolution": ""}.get(part, recurrent)


def layer_title(part: str) -> str:
    return {"transformer": "Transformer", "convolution": "convolution", "hierarchical": "hierarchical LSTM"}.get(
        part, part.upper()
    )


def count_layers(count: int) -> str:
    return f"{count} layer{'s' * (count > 1)}"


def _sum_of(shapes: Shapes, start: str) -> int:
    return sum(math.prod(shape) for name, shape in shapes.items() if name.startswith(start))


def _count(shapes: Shapes, start: str) -> str:
    total = _sum_of(shapes, start)
    return f" = {total:,}" if total else ""


def size_of_each(shapes: Shapes, start: str) -> str:
    total = _sum_of(shapes, start)
    return f": {total:,} parameters" if total else ""


def _output_note(size: int, width: int, tied: bool, shapes: Shapes) -> str:
    return f"D {width:,} → V {size:,}{', the vectors of tokens' if tied else _count(shapes, 'output.')}"


def draw_parts(name: str, config: Any, shapes: Shapes) -> Diagram:
    """Draw any other network: its modules in their order, with their shapes."""
    diagram = titled_diagram(name, _kind(config), shapes)
    below: Box | None = None
    for name, shape in shapes.items():
        if len(shape) < 2:  # biases are counted with their matrices
            continue
        note = f"{' × '.join(f'{size:,}' for size in shape)} = {math.prod(shape):,}"
        text = name.removesuffix(".weight").replace("_", " ")
        below = diagram.box(0, 0, text, note) if below is None else put_above(diagram, below, text, note)
    return diagram


def titled_diagram(name: str, kind: str, shapes: Shapes) -> Diagram:
    total = sum(math.prod(shape) for shape in shapes.values())
    return Diagram(name, f"{kind}, {total:,} parameters")


def _kind(config: object) -> str:
    """Return the name of a class of settings; that of opened checkpoints is drawn as the plain one of its family."""
    return type(config).__name__.removeprefix("Open").removesuffix("Config")
