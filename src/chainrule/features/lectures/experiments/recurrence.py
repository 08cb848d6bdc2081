"""The experiments gradients, radius, saturation (why gradients vanish or explode) and memory (one bit kept for long).

Gradients: how the last loss depends on a vector k positions earlier. The networks are untrained. In a simple recurrent
network, the gradient is multiplied by the recurrent matrix at each position, so it vanishes or explodes if the spectral
radius of that matrix is below or above one (Bengio et al. 1994, Pascanu et al. 2013). Clipping scales an exploding
gradient down to a norm of one; it does not restore a vanished one.

Radius: a vector that is multiplied by the same matrix at each step, as gradients are in a recurrent network. Singular
values bound what one step does; the spectral radius, the largest absolute eigenvalue, decides what becomes of it after
many (Pascanu et al. 2013, section 2). For a rotation times a number they agree; in general they do not.

Saturation: tanh and the sigmoid are flat away from 0, so that almost no gradient passes through them there.

Memory: strings of A and B whose last letter is B exactly if a B came before. At most one B comes before, anywhere, so a
model has to remember one bit over the length of the string. It has to prefer a string with the right last letter to one
with the wrong letter: chance level is one half.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.features.lectures.experiments.findings import Findings, in_turn
from chainrule.features.lectures.experiments.small_models import by_adamw, train_small
from chainrule.neural.build import build
from chainrule.neural.config import (
    BagConfig,
    BilinearConfig,
    ConvolutionConfig,
    FeedforwardConfig,
    RecurrentConfig,
    TransformerConfig,
)
from chainrule.ngram.config import NGramConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import DataclassInstance
    from jaxtyping import Float, Float64, Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.network import Network
    from chainrule.protocol import LanguageModel

_VOCABULARY = 64
_CLIP = 1.0
_LSTM, _RNN = RecurrentConfig(layers=1, width=64), RecurrentConfig(cell="rnn_tanh", layers=1, width=64)
_TRANSFORMER = TransformerConfig(layers=2, width=64, heads=4, zero_projections=False)


def gradients(
    *,
    seed: int = 0,
    progress: Progress = silent,
    length: int = 64,
    rows: int = 64,
    radii: tuple[float, float] = (0.8, 2.0),
) -> Findings:
    """Return the norm of the gradient by distance, for simple recurrent networks of two radii, LSTMs and a Transformer.

    rows: how many random texts of that length the norms are averaged over.
    """
    low, high = radii
    networks: dict[str, tuple[NetworkConfig, float | None]] = {
        f"RNN, radius {low:g}": (_RNN, low),
        f"RNN, radius {high:g}": (_RNN, high),
        "LSTM": (_LSTM, None),
        "LSTM, forget bias 4": (replace(_LSTM, forget_bias=4.0), None),
        "Transformer": (_TRANSFORMER, None),
    }
    distances = list(range(length))
    lines = []
    for i, (label, (config, radius)) in enumerate(networks.items()):
        progress("gradients", i, len(networks))
        torch.manual_seed(seed)
        norms = norms_by_distance(build_network(config, radius), torch.randint(3, _VOCABULARY, (rows, length + 1)))
        lines.append(Line(label=label, x=distances, y=norms.tolist()))
        total = float(norms.square().sum().sqrt())
        if total > _CLIP:
            lines.append(Line(label=f"{label}, clipped", x=distances, y=(norms * _CLIP / total).tolist()))
    progress("gradients", 1, 1)
    return Findings(
        title="How the last loss depends on earlier tokens, before training",
        x=Axis(label="distance in tokens"),
        y=Axis(label="norm of the gradient", log=True),
        lines=lines,
        says=[
            f"{line.label}: at distance {length - 1}, {line.y[-1] / line.y[0]:.1e} times the norm at distance 0"
            for line in lines
        ],
    )


def build_network(config: NetworkConfig, radius: float | None) -> Network:
    """Return an untrained network. radius: the spectral radius to scale recurrent matrices to; None not to scale
    them.
    """
    network = build(config, _VOCABULARY)
    if radius is not None:
        for name, weight in network.encoder.named_parameters():
            if "weight_hh" in name:
                largest = torch.linalg.eigvals(weight.detach()).abs().max()
                weight.data.mul_(radius / largest)
    return network.eval()


def norms_by_distance(network: Network, text: Int64[Tensor, "B T+1"]) -> Float[Tensor, " T"]:
    """Return the norm of d loss / d x_t by distance from the last position, averaged over rows.

    text: inputs and target.
    """
    x = network.embed(text[:, :-1]).detach().requires_grad_()
    hidden, _ = network.encoder(x, None, None)
    [gradient] = torch.autograd.grad(network.output.loss(hidden[:, -1], text[:, -1]), x)
    return gradient.norm(dim=2).mean(0).flip(0)


def radius(*, seed: int = 0, progress: Progress = silent, width: int = 6, products: int = 60) -> Findings:
    """Return the norm after each product with the matrix, for three matrices."""
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.normal(size=(width, width)))[0]
    matrices = {
        "all singular values 0.9": 0.9 * rotation,
        "all singular values 1.1": 1.1 * rotation,
        "spectral radius 0.7, a singular value of 1.3": 0.7 * np.eye(width) + 0.6 * np.eye(width, k=1),
    }
    start = np.ones(width) / width**0.5
    lines = [
        Line(label=label, x=list(range(products + 1)), y=norms_of_powers(matrix, start, products))
        for label, matrix in matrices.items()
    ]
    progress("radius", 1, 1)
    shrinking, growing, mixed = (line.y for line in lines)
    peak = int(np.argmax(mixed))
    return Findings(
        title="A vector multiplied by one matrix again and again",
        x=Axis(label="products with the matrix"),
        y=Axis(label="norm", log=True),
        lines=lines,
        finding=(
            f"After {products} products {shrinking[-1]:.1e} is left with singular values of 0.9, and {growing[-1]:.0f} "
            "with 1.1. With a spectral radius of 0.7 but a singular value of 1.3, the vector first grows to "
            f"{mixed[peak]:.1f} times its length, after {peak} products, and vanishes all the same."
        ),
        says=[
            f"{label}: largest singular value {np.linalg.norm(matrix, 2):.2f}, spectral radius {spectral(matrix):.2f}"
            for label, matrix in matrices.items()
        ],
    )


def norms_of_powers(matrix: Float64[ndarray, "D D"], vector: Float64[ndarray, " D"], count: int) -> list[float]:
    """Return the norms of v, M v, M² v, ..."""
    norms = [float(np.linalg.norm(vector))]
    for _ in range(count):
        vector = matrix @ vector
        norms.append(float(np.linalg.norm(vector)))
    return norms


def spectral(matrix: Float64[ndarray, "D D"]) -> float:
    """Return the largest absolute eigenvalue."""
    return float(np.abs(np.linalg.eigvals(matrix)).max())


def saturation(*, seed: int = 0, progress: Progress = silent, limit: float = 6.0, points: int = 25) -> Findings:
    """Return both functions and their slopes, from -limit to limit; the slopes come from automatic differentiation."""
    x = torch.linspace(-limit, limit, points, dtype=torch.float64, requires_grad=True)
    lines = []
    for name, function in (("tanh", torch.tanh), ("sigmoid", torch.sigmoid)):
        y = function(x)
        [slope] = torch.autograd.grad(y.sum(), x)
        lines += [Line(label=name, x=x.tolist(), y=y.tolist()), Line(label=f"{name}'", x=x.tolist(), y=slope.tolist())]
    progress("saturation", 1, 1)
    at = {label: 1 - math.tanh(label) ** 2 for label in (0, 2, 4)}
    return Findings(
        title="Activations and their slopes",
        x=Axis(label="x"),
        y=Axis(label="value"),
        lines=lines,
        finding=(
            f"The slope of tanh falls from {at[0]:.0f} at 0 to {at[2]:.2f} at 2 and {at[4]:.4f} at 4: a unit that is "
            "sure of itself hardly learns."
        ),
        says=[
            "tanh'(x) = 1 - tanh²(x), at most 1",
            "sigmoid'(x) = sigmoid(x) (1 - sigmoid(x)), at most 0.25: through ten sigmoids a gradient loses a factor "
            f"of a million at least (0.25^10 = {0.25**10:.1e})",
        ],
    )


A, B = 3, 4
_REMEMBERED_VOCABULARY = 5
_RELIABLE = 0.99  # share of right choices
_SMALL: dict[str, Any] = {"width": 32, "context": 64, "memory": "document"}

FAMILIES_COMPARED: dict[str, DataclassInstance] = {
    "6-gram": NGramConfig(order=6, smoothing="witten-bell"),
    "log-bilinear, window 8": BilinearConfig(window=8, **_SMALL),
    "feed-forward, window 8": FeedforwardConfig(window=8, **_SMALL),
    "convolution, reach 15": ConvolutionConfig(layers=3, **_SMALL),
    "bag of all": BagConfig(window=None, **_SMALL),
    "RNN": RecurrentConfig(cell="rnn_tanh", layers=1, **_SMALL),
    "LSTM": RecurrentConfig(layers=1, **_SMALL),
    "Transformer": TransformerConfig(layers=2, heads=2, **{**_SMALL, "context": 128}),
}


def memory(
    *,
    seed: int = 0,
    progress: Progress = silent,
    compared: dict[str, DataclassInstance] = FAMILIES_COMPARED,
    trained_to: int = 16,
    lengths: Sequence[int] = (2, 4, 8, 12, 16, 24, 32, 64),
    strings: int = 4000,
    tested: int = 200,
    steps: int = 400,
) -> Findings:
    """Return the share of right choices by length, with a line for each family.

    trained_to: the length of the longest training string. strings: how many to train on. tested: how many to test for
    each length. Raises SettingError.
    """
    rng = np.random.default_rng(seed)
    documents = draw(rng, rng.integers(2, trained_to + 1, strings))
    tests = [draw(rng, np.full(tested, length)) for length in lengths]
    lines = []
    for label, config in in_turn("memory", compared, progress):
        model = train_small(documents, _REMEMBERED_VOCABULARY, config, by_adamw(steps, seed))
        lines.append(
            Line(label=label, x=list(lengths), y=[accuracy(model, strings_of_length) for strings_of_length in tests])
        )
    return Findings(
        title=f"The last letter is B if any was B before; trained to length {trained_to}",
        x=Axis(label="length of the string", log=True),
        y=Axis(label="share of right choices"),
        lines=lines,
        says=[f"{line.label}: {_reach(line, lengths)}" for line in lines],
    )


def draw(rng: np.random.Generator, lengths: Sequence[int] | ndarray) -> list[Int32[ndarray, " length"]]:
    """Return a string of each length; half of them have a B somewhere before the last letter, and therefore
    there, too.
    """
    strings = []
    for length in map(int, lengths):
        string = np.full(length, A, np.int32)
        if rng.random() < 0.5:
            string[int(rng.integers(length - 1))] = string[-1] = B
        strings.append(string)
    return strings


def accuracy(model: LanguageModel[Any], strings: Sequence[Int32[ndarray, " length"]]) -> float:
    """Return the share of strings that are likelier than the same strings with the other last letter."""
    wrong = [np.append(string[:-1], A + B - string[-1]).astype(np.int32) for string in strings]
    right_scores, wrong_scores = (model.score(rows) for rows in (strings, wrong))
    return float(np.mean([a.sum() > b.sum() for a, b in zip(right_scores, wrong_scores, strict=True)]))


def _reach(line: Line, lengths: Sequence[int]) -> str:
    reliable = list(takewhile(lambda pair: pair[1] >= _RELIABLE, zip(lengths, line.y, strict=True)))
    return f"right up to length {reliable[-1][0]}" if reliable else f"wrong even at length {lengths[0]}"
