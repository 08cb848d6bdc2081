"""The diagram of a seq2seq network, from its configuration and the shapes of its parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.drawing.diagram import GAP, WIDTH
from chainrule.neural.diagrams import cell_note, count_layers, layer_title, put_above, size_of_each, titled_diagram

if TYPE_CHECKING:
    from chainrule.drawing.diagram import Diagram
    from chainrule.features.seq2seq.network.config import Seq2SeqConfig
    from chainrule.neural.diagrams import Shapes


def draw_seq2seq(name: str, config: Seq2SeqConfig, shapes: Shapes) -> Diagram:
    """Return the encoder on the left, the decoder on the right, and what the one gives to the other."""
    diagram = titled_diagram(name, "Encoder and decoder", shapes)
    width, right = config.width, WIDTH + 130
    left = diagram.box(0, 0, "source tokens", "", kind="pruned")
    below = put_above(diagram, left, "vectors of source tokens", f"D {width:,}")
    encoder = below
    if config.encoder != "none":
        first = len(diagram.boxes)
        inside = cell_note(config.encoder, "in both directions")
        encoder = put_above(diagram, below, f"{layer_title(config.encoder)} layer", inside, gap=GAP + 16)
        diagram.frame(first, f"encoder, {count_layers(config.encoder_layers)}{size_of_each(shapes, 'reader.')}", 14)
    target = diagram.box(right, 0, "target tokens so far", "", kind="pruned")
    above = put_above(diagram, target, "vectors of target tokens", f"D {width:,}")
    first = len(diagram.boxes)
    decoder = f"{layer_title(config.decoder)} layer"
    layer = put_above(diagram, above, decoder, cell_note(config.decoder, ""), gap=GAP + 16)
    if config.attention == "none":
        diagram.arrow((encoder.left + WIDTH, encoder.centre), (layer.left, layer.centre))
        top = layer
    else:
        what = f"{config.attention} attention to the source"
        top = put_above(diagram, layer, what, f"score: {config.score}".replace("_", " "), kind="finished")
        diagram.arrow(
            (encoder.left + WIDTH, encoder.centre),
            (right - 40, encoder.centre),
            (right - 40, top.centre),
            (right, top.centre),
        )
    diagram.frame(first, f"decoder, {count_layers(config.decoder_layers)}{size_of_each(shapes, 'decoder.')}", 14)
    size = next((shape[0] for name, shape in shapes.items() if name.startswith("output") and len(shape) == 2), 0)
    output = put_above(diagram, top, "output", f"D {width:,} → V {size:,}" if size else "", gap=GAP + 36)
    put_above(diagram, output, "softmax: P(next target token)", "", kind="best")
    return diagram
