"""Radius: a vector that is multiplied by the same matrix at each step, as gradients are in a recurrent network.

Singular values bound what one step does; the spectral radius, the largest absolute eigenvalue, decides what becomes of
it after many (Pascanu et al. 2013, section 2). For a rotation times a number they agree; in general they do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.experiments.findings import Findings

if TYPE_CHECKING:
    from jaxtyping import Float64
    from numpy import ndarray


def radius(*, seed: int = 0, progress: Progress = silent, width: int = 6, products: int = 60) -> Findings:
    """The norm after each product with the matrix, for three matrices."""
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
    """The norms of v, M v, M² v, ..."""
    norms = [float(np.linalg.norm(vector))]
    for _ in range(count):
        vector = matrix @ vector
        norms.append(float(np.linalg.norm(vector)))
    return norms


def spectral(matrix: Float64[ndarray, "D D"]) -> float:
    """The largest absolute eigenvalue."""
    return float(np.abs(np.linalg.eigvals(matrix)).max())
