"""The experiments cost (a layer's time by length and width), throughput (tokens a second of whole networks, by length)
and paths (sequential steps, distance to the first token).

Cost: how the time of one layer grows with the text's length, n, and the width, d (Vaswani et al. 2017, table 1).
Attention is measured without the projections around it, which cost n d^2 as well.

    self-attention            n^2 d
    attention in a window     r n d      r: the window
    recurrence                n d^2
    convolution               k n d^2    k: the kernel

Throughput: an LSTM reads a text word by word, also where it is known, as in training; a Transformer reads all of it at
once. Where texts are written, both go word by word, and the Transformer looks back at all words before.

Paths: how many steps must follow one another in a layer, and how far the first token is from the last prediction. Both
are counted on the graph of what reads what, not taken from a formula (Vaswani et al. 2017, table 1). A node is a
position of a layer; layer 0 holds the tokens.

                            sequential steps    longest path
    self-attention          1                   1
    attention in a window   1                   n / r
    recurrence              n                   n
    convolution, dilated    1                   log_k n
"""

from __future__ import annotations

import math
import time
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.features.lectures.experiments.findings import Findings, in_turn
from chainrule.features.lectures.experiments.small_models import FIRST_WORD
from chainrule.neural.build import build
from chainrule.neural.config import ConvolutionConfig, RecurrentConfig, TransformerConfig
from chainrule.neural.encoders.convolution import Layer
from chainrule.neural.language_model import NeuralModel
from chainrule.neural.layers.attention import attend
from chainrule.neural.layers.masks import causal_mask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torch import Tensor

    from chainrule.neural.language_model import Reading
    from chainrule.neural.network import Network

    Run = Callable[[Tensor], object]

_WINDOW, _KERNEL = 64, 3


class Kind(NamedTuple):
    """A kind of layer."""

    build: Callable[[int], Run]  # for a width
    formula: str
    powers: tuple[int, int]  # of n and of d in the formula


def cost(
    *,
    seed: int = 0,
    progress: Progress = silent,
    lengths: Sequence[int] = (512, 1024, 2048, 4096, 8192),
    widths: Sequence[int] = (64, 128, 256, 512, 1024),
    length: int = 1024,
    width: int = 64,
    seconds: float = 0.15,
) -> Findings:
    """Return seconds for a layer by length, for one text at a time, and how they grow with length and width.

    length, width: the value of each while the other varies. seconds: the least time of a measurement; the fastest of
    its repetitions counts.
    """
    torch.manual_seed(seed)
    lines, says = [], []
    for label, kind in in_turn("cost", KINDS, progress):
        by_length = [time_layer(kind.build(width), n, width, seconds) for n in lengths]
        by_width = [time_layer(kind.build(d), length, d, seconds) for d in widths]
        lines.append(Line(label=f"{label}: {kind.formula}", x=list(lengths), y=by_length))
        growth = growth_of(lengths, by_length), growth_of(widths, by_width)
        says.append(
            f"{label}: time grows as n^{growth[0]:.2f} d^{growth[1]:.2f} "
            f"(in theory {kind.formula}: n^{kind.powers[0]} d^{kind.powers[1]})"
        )
    return Findings(
        title=f"Time of one layer of width {width}",
        x=Axis(label="n, tokens", log=True),
        y=Axis(label="seconds", log=True),
        lines=lines,
        says=says,
    )


def growth_of(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the exponent of the power law that fits best: the slope of the line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


@torch.inference_mode()
def time_layer(run: Run, length: int, width: int, seconds: float) -> float:
    """Return the fastest of several runs on one random text."""
    x = torch.randn(1, length, width)
    run(x)
    best, end = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < end or math.isinf(best):
        start = time.perf_counter()
        run(x)
        best = min(best, time.perf_counter() - start)
    return best


def _attention(window: int | None) -> Callable[[int], Run]:
    def run(x: Tensor) -> Tensor:
        heads = x[:, None]  # (B, 1, T, d)
        mask = causal_mask(x.shape[1], x.device, window=window, bias=None, documents=None)
        return attend(heads, heads, heads, mask)

    return lambda width: run


def _recurrence(width: int) -> Run:
    return torch.nn.RNN(width, width, batch_first=True)


def _convolution(width: int) -> Run:
    layer = Layer(ConvolutionConfig(width=width, kernel=_KERNEL), 1).eval()
    return lambda x: layer(x, x.new_zeros(1, _KERNEL - 1, width), None)


KINDS = {
    "self-attention": Kind(_attention(None), "n² d", (2, 1)),
    f"attention in a window of {_WINDOW}": Kind(_attention(_WINDOW), "r n d", (1, 1)),
    "recurrence": Kind(_recurrence, "n d²", (1, 2)),
    f"convolution of {_KERNEL}": Kind(_convolution, "k n d²", (1, 2)),
}

_WRITTEN = 16  # tokens after a text, in each measurement


def throughput(
    *,
    seed: int = 0,
    progress: Progress = silent,
    lengths: Sequence[int] = (32, 128, 512, 2048),
    width: int = 128,
    tokens: int = 2048,
    seconds: float = 0.5,
) -> Findings:
    """Return tokens a second by the length of a text, read in training and written, of two networks of the same width.

    tokens: of a training step, in one or more texts. seconds: of processor time, the least of a measurement; the
    fastest of its repetitions counts.
    """
    rng = np.random.default_rng(seed)
    configs = {
        "LSTM": RecurrentConfig(layers=2, width=width, context=max(lengths), dropout=0.0),
        "Transformer": TransformerConfig(layers=2, heads=4, width=width, context=2 * max(lengths)),
    }
    lines = []
    for label, config in in_turn("throughput", configs, progress):
        network = build(config, _VOCABULARY)
        model = NeuralModel(network)
        for what in ("read", "written"):
            speeds = []
            for length in lengths:
                rows = rng.integers(FIRST_WORD, _VOCABULARY, (max(1, tokens // length), length))
                if what == "read":
                    ids = torch.from_numpy(rows)
                    run, count = partial(_train_once, network, ids), ids.numel()
                else:
                    run, count = partial(_write, model, model.start([rows[0].astype(np.int32)])), _WRITTEN
                speeds.append(count / processor_seconds(run, seconds))
            lines.append(Line(label=f"{label}, {what}", x=list(lengths), y=speeds))
    read, _, at_once, written = (line.y for line in lines)
    return Findings(
        title=f"Tokens a second of processor time, width {width}",
        x=Axis(label="tokens of a text", log=True),
        y=Axis(label="tokens a second", log=True),
        lines=lines,
        finding=(
            f"In training, texts of {lengths[0]} to {lengths[-1]:,} tokens are read at {read[0]:,.0f} to "
            f"{read[-1]:,.0f} tokens a second by the LSTM, {lengths[-1]:,} steps one after the other, and at "
            f"{at_once[0]:,.0f} to {at_once[-1]:,.0f} by the Transformer, in one step a layer; after {lengths[-1]:,} "
            f"tokens, the Transformer writes at {written[-1] / written[0]:.0%} of its speed after {lengths[0]}."
        ),
        says=["processor time of all threads; next to other programs these speeds are noise"],
    )


_VOCABULARY = 256


def _train_once(network: Network, ids: Tensor) -> None:
    """Compute the gradients of the loss, as a training step without an optimiser does."""
    network.train()
    network.zero_grad()
    hidden, _ = network(ids)
    (-network.output.log_probs(hidden).mean()).backward()  # type: ignore[no-untyped-call]
    network.eval()


def _write(model: NeuralModel, state: Reading) -> None:
    """Write some tokens after a text."""
    for _ in range(_WRITTEN):
        state = model.advance(state, np.array([FIRST_WORD], np.int32))
        model.next_log_probs(state)


def processor_seconds(run: Callable[[], object], seconds: float) -> float:
    """Return the processor time of the fastest of several runs."""
    run()
    best, spent = math.inf, 0.0
    while spent < seconds or math.isinf(best):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
        spent += time.process_time() - start
    return best


_PATH_WINDOW, _PATH_KERNEL = 8, 3


class Node(NamedTuple):
    layer: int
    position: int


class Wiring(NamedTuple):
    """How the nodes of a kind of layer are connected.

    reads: the nodes that a node reads, of the layer below or of the same one. steps, path: the formulas.
    """

    reads: Callable[[Node], Iterable[Node]]
    steps: str
    path: str


def paths(
    *, seed: int = 0, progress: Progress = silent, lengths: Sequence[int] = (4, 8, 16, 32, 64, 128, 256)
) -> Findings:
    """Return the longest path by length, for four kinds of layers, stacked until the last position sees the first."""
    lines, says = [], []
    for label, kind in in_turn("paths", WIRINGS, progress):
        lines.append(Line(label=label, x=list(lengths), y=[longest_path(kind.reads, n) for n in lengths]))
        n = lengths[-1]
        says.append(
            f"{label}: at n = {n}, {sequential_steps(kind.reads, n)} sequential steps in a layer ({kind.steps}), a "
            f"longest path of {lines[-1].y[-1]} ({kind.path})"
        )
    return Findings(
        title="Layers and steps between the first token and the last prediction",
        x=Axis(label="n, tokens", log=True),
        y=Axis(label="longest path", log=True),
        lines=lines,
        finding=(
            f"Over {lengths[-1]} tokens a signal passes 1 layer of self-attention, "
            f"{lines[3].y[-1]} of dilated convolutions, {lines[1].y[-1]} of attention in a window, and "
            f"{lines[2].y[-1]} steps of a recurrence."
        ),
        says=says,
    )


def longest_path(reads: Callable[[Node], Iterable[Node]], length: int) -> int:
    """Return the fewest edges from the last position to the first token, with as many layers as it takes."""
    for layers in count(1):
        reached, edges = {Node(layers, length - 1)}, 0
        while reached:
            if Node(0, 0) in reached:
                return edges
            reached = {node for above in reached if above.layer for node in reads(above)}
            edges += 1
    raise AssertionError  # every kind of layer reaches the first token


def sequential_steps(reads: Callable[[Node], Iterable[Node]], length: int) -> int:
    """Return the longest chain of positions of one layer in which each needs the one before it."""
    chain: dict[int, int] = {}
    for position in range(length):
        chain[position] = 1 + max(
            (chain[node.position] for node in reads(Node(1, position)) if node.layer == 1), default=0
        )
    return max(chain.values())


def _attention_reads(node: Node) -> Iterable[Node]:
    return (Node(node.layer - 1, position) for position in range(node.position + 1))


def _window(node: Node) -> Iterable[Node]:
    first = max(0, node.position - _PATH_WINDOW + 1)
    return (Node(node.layer - 1, position) for position in range(first, node.position + 1))


def _recurrence_reads(node: Node) -> Iterable[Node]:
    yield Node(node.layer - 1, node.position)
    if node.position:
        yield Node(node.layer, node.position - 1)


def _convolution_reads(node: Node) -> Iterable[Node]:
    dilation = _PATH_KERNEL ** (node.layer - 1)
    positions = (node.position - i * dilation for i in range(_PATH_KERNEL))
    return (Node(node.layer - 1, position) for position in positions if position >= 0)


WIRINGS = {
    "self-attention": Wiring(_attention_reads, "1", "1"),
    f"attention in a window of {_PATH_WINDOW}": Wiring(_window, "1", "n / r"),
    "recurrence": Wiring(_recurrence_reads, "n", "n"),
    f"dilated convolution of {_PATH_KERNEL}": Wiring(_convolution_reads, "1", "log_k n"),
}
