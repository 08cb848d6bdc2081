"""Cost: the time of one layer against the length of the text, n, and its width, d (Vaswani 2017, table 1).

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
from chainrule.neural.attention import attend, causal_mask
from chainrule.neural.config import ConvolutionConfig
from chainrule.neural.encoders.convolution import Layer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    Run = Callable[[Tensor], object]

_WINDOW, _KERNEL = 64, 3


class Kind(NamedTuple):
    """A layer. make: of a width. powers: of n and of d in its cost."""

    make: Callable[[int], Run]
    formula: str
    powers: tuple[int, int]


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
    """Seconds for a layer by length, at this width, one text at a time; and its growth with length and with width.

    seconds: for each measurement at least; the quickest of its repetitions counts.
    """
    torch.manual_seed(seed)
    lines, says = [], []
    for number, (label, kind) in enumerate(KINDS.items()):
        progress(f"cost: {label}", number, len(KINDS))
        by_length = [timed(kind.make(width), n, width, seconds) for n in lengths]
        by_width = [timed(kind.make(d), length, d, seconds) for d in widths]
        lines.append(Line(label=f"{label}: {kind.formula}", x=list(lengths), y=by_length))
        growth = growth_of(lengths, by_length), growth_of(widths, by_width)
        says.append(
            f"{label}: time grows with n to the {growth[0]:.2f} (by {kind.formula}, {kind.powers[0]}) "
            f"and with d to the {growth[1]:.2f} ({kind.powers[1]})"
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
    """The power of the size that fits the seconds best: the slope of a line through their logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


@torch.inference_mode()
def timed(run: Run, length: int, width: int, seconds: float) -> float:
    """The quickest of several runs on one random text."""
    x = torch.randn(1, length, width)
    run(x)
    best, end = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < end or math.isinf(best):
        began = time.perf_counter()
        run(x)
        best = min(best, time.perf_counter() - began)
    return best


def _attention(window: int | None) -> Callable[[int], Run]:
    def run(x: Tensor) -> Tensor:
        heads = x[:, None]  # one
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
