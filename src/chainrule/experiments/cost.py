"""Cost: how the time of one layer grows with the text's length, n, and the width, d (Vaswani et al. 2017, table 1).

    self-attention            n^2 d
    attention in a window     r n d      r: the window
    recurrence                n d^2
    convolution               k n d^2    k: the kernel

Attention is measured without the projections around it, which cost n d^2 as well.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.experiments.findings import Findings
from chainrule.neural.config import ConvolutionConfig
from chainrule.neural.encoders.convolution import Layer
from chainrule.neural.layers.attention import attend, causal_mask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

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
    """Seconds for a layer by length, for one text at a time, and how they grow with length and width.

    length, width: what stays fixed while the other varies. seconds: the least time of a measurement; the fastest of its
    repetitions counts.
    """
    torch.manual_seed(seed)
    lines, says = [], []
    for i, (label, kind) in enumerate(KINDS.items()):
        progress(f"cost: {label}", i, len(KINDS))
        by_length = [time_layer(kind.build(width), n, width, seconds) for n in lengths]
        by_width = [time_layer(kind.build(d), length, d, seconds) for d in widths]
        lines.append(Line(label=f"{label}: {kind.formula}", x=list(lengths), y=by_length))
        growth = growth_of(lengths, by_length), growth_of(widths, by_width)
        says.append(
            f"{label}: time grows as n^{growth[0]:.2f} d^{growth[1]:.2f} "
            f"(in theory {kind.formula}: n^{kind.powers[0]} d^{kind.powers[1]})"
        )
    progress("cost", 1, 1)
    return Findings(
        title=f"Time of one layer of width {width}",
        x=Axis(label="n, tokens", log=True),
        y=Axis(label="seconds", log=True),
        lines=lines,
        says=says,
    )


def growth_of(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The exponent of the power law that fits best: the slope of the line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


@torch.inference_mode()
def time_layer(run: Run, length: int, width: int, seconds: float) -> float:
    """The fastest of several runs on one random text."""
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
