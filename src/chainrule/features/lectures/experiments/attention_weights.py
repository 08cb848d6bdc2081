"""The experiments softmax, projections, dilution and lookups: what weights of attention can do, before any training.

Softmax: the largest of the weights of random queries over random keys, by their width. A sum of d products has a
variance of d, so that the softmax puts nearly all weight on one key; division by sqrt(d) keeps it soft (Vaswani et al.
2017, section 3.2.1).

Projections: which word a word looks at most, where its query and its key come from one matrix W, or are the word
itself: its score with itself is a square, and so the largest. Two matrices, W^Q and W^K, leave it free.

Dilution: the weight of one key whose score is higher than all others', by the number of keys: e^s / (e^s + n - 1). To
keep it, the score must grow with log n.

Lookups: how many words a query can fetch from elsewhere at once. Words have random values; each query asks for k of
them, by position, and wants their values apart. A head returns one weighted mean, so it fetches one; k words need k
heads. Networks of nothing but attention, whose scores are learned, are trained to.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.features.lectures.experiments.findings import Findings, in_turn, share_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float
    from numpy import ndarray
    from torch import Tensor


def softmax(
    *,
    seed: int = 0,
    progress: Progress = silent,
    widths: Sequence[int] = (1, 4, 16, 64, 256, 1024),
    keys: int = 16,
    queries: int = 2000,
) -> Findings:
    """Return the mean of the largest weight by width, for random queries and keys, with and without division by
    sqrt(d).
    """
    rng = np.random.default_rng(seed)
    largest: dict[str, list[float]] = {"q · k": [], "q · k / √d": []}
    halves = []
    for _, width in in_turn("softmax", list(widths), progress):
        query, key = rng.normal(size=(queries, width)), rng.normal(size=(queries, keys, width))
        scores = np.einsum("qd,qkd->qk", query, key)
        for label, scaled in (("q · k", scores), ("q · k / √d", scores / math.sqrt(width))):
            top = weights_of(scaled).max(1)
            largest[label].append(float(top.mean()))
            halves.append(1.96 * float(top.std(ddof=1)) / math.sqrt(queries))
    plain, divided = largest.values()
    return Findings(
        title=f"The largest weight of attention over {keys} random keys",
        x=Axis(label="width d", log=True),
        y=Axis(label="largest weight"),
        lines=[Line(label=label, x=list(widths), y=values) for label, values in largest.items()],
        finding=(
            f"From d = {widths[0]} to {widths[-1]}, the largest weight goes from {plain[0]:.2f} to {plain[-1]:.2f} for "
            f"sums of d products, and from {divided[0]:.2f} to {divided[-1]:.2f} where they are divided by √d."
        ),
        says=[f"the 95 % intervals of these means are within ±{max(halves):.3f}; even weights would be {1 / keys:.2f}"],
    )


def weights_of(scores: Float[ndarray, "*rows keys"]) -> Float[ndarray, "*rows keys"]:
    """Return the softmax of scores over the keys."""
    return torch.from_numpy(scores).softmax(-1).numpy()


def projections(
    *,
    seed: int = 0,
    progress: Progress = silent,
    widths: Sequence[int] = (4, 16, 64, 256),
    words: int = 16,
    sentences: int = 100,
) -> Findings:
    """Return the share of words that look at themselves most by width, with one matrix for queries and keys, and with
    two.
    """
    rng = np.random.default_rng(seed)
    shares: dict[str, list[float]] = {"identity": [], "one matrix": [], "two matrices": []}
    for _, width in in_turn("projections", list(widths), progress):
        right: dict[str, list[float]] = {label: [] for label in shares}
        for _ in range(sentences):
            vectors = rng.normal(size=(words, width))
            first, second = rng.normal(size=(2, width, width))
            for label, of_query, of_key in (
                ("identity", vectors, vectors),
                ("one matrix", vectors @ first, vectors @ first),
                ("two matrices", vectors @ first, vectors @ second),
            ):
                right[label].append(float(((of_query @ of_key.T).argmax(1) == np.arange(words)).mean()))
        for label, values in right.items():
            shares[label].append(float(np.mean(values)))
    told = ", ".join(f"{share_of(values[-1], words * sentences)} with {label}" for label, values in shares.items())
    return Findings(
        title=f"Words that look at themselves most, of {words}",
        x=Axis(label="width d", log=True),
        y=Axis(label="share of words"),
        lines=[Line(label=label, x=list(widths), y=values) for label, values in shares.items()],
        finding=(
            f"At d = {widths[-1]}, the share of words that look at themselves most is {told}; by chance it would be "
            f"{1 / words:.0%}."
        ),
    )


def dilution(
    *,
    seed: int = 0,
    progress: Progress = silent,
    lengths: Sequence[int] = (4, 16, 64, 256, 1000),
    score: float = 1.0,
    boosted: float = 10.0,
    noise: float = 0.5,
    queries: int = 2000,
) -> Findings:
    """Return the weight of the key that a query looks for, by the number of keys, at two scores of it; the others have
    0.

    noise: the standard deviation of the others' scores, of a third line.
    """
    progress("dilution", 0, 1)
    rng = np.random.default_rng(seed)

    def weight(own: float, count: int) -> float:
        return math.exp(own) / (math.exp(own) + count - 1)

    noisy = []
    for count in lengths:
        scores = rng.normal(scale=noise, size=(queries, count))
        scores[:, 0] = score
        noisy.append(float(weights_of(scores)[:, 0].mean()))
    lines = [
        Line(label=f"score {score:g}", x=list(lengths), y=[weight(score, count) for count in lengths]),
        Line(label=f"score {score:g}, others ±{noise:g}", x=list(lengths), y=noisy),
        Line(label=f"score {boosted:g}", x=list(lengths), y=[weight(boosted, count) for count in lengths]),
    ]
    progress("dilution", 1, 1)
    plain, _, high = (line.y for line in lines)
    needed = math.log(lengths[-1] - 1)
    return Findings(
        title="The weight of the one key that matters",
        x=Axis(label="keys", log=True),
        y=Axis(label="weight"),
        lines=lines,
        finding=(
            f"From {lengths[0]} to {lengths[-1]:,} keys, the weight of a key with score {score:g} among zeros falls "
            f"from {plain[0]:.3f} to {plain[-1]:.3f}; with score {boosted:g} it is still {high[-1]:.3f}."
        ),
        says=[
            f"for a weight of one half among {lengths[-1]:,} keys, the score must be {needed:.2f}, which is log(n - 1)"
        ],
    )


def lookups(
    *,
    seed: int = 0,
    progress: Progress = silent,
    heads: Sequence[int] = (1, 2, 3),
    asked: Sequence[int] = (1, 2, 3),
    words: int = 8,
    steps: int = 300,
) -> Findings:
    """Return the explained share of the variance of k looked-up values, by k, with a line for each number of heads."""
    lines = []
    for label, count in in_turn("lookups", {_head_label(count): count for count in heads}, progress):
        explained = [explained_share(count, k, words=words, steps=steps, seed=seed) for k in asked]
        lines.append(Line(label=label, x=list(asked), y=explained))
    at = max(k for k in asked if k > min(heads)) if any(k > min(heads) for k in asked) else asked[-1]
    place = list(asked).index(at)
    told = ", ".join(f"{line.label} {line.y[place]:.0%}" for line in lines)
    return Findings(
        title="Values of k words fetched at once",
        x=Axis(label="words asked for"),
        y=Axis(label="explained share of the variance"),
        lines=lines,
        finding=f"Asked for the values of {at} words, this share is explained: {told}. A head fetches one word.",
    )


def _head_label(count: int) -> str:
    return "1 head" if count == 1 else f"{count} heads"


def explained_share(heads: int, asked: int, *, words: int, steps: int, seed: int) -> float:
    """Return the share that one layer of attention explains, after training, of the values of the words that its
    queries ask for.
    """
    generator = torch.Generator().manual_seed(seed)
    scores = torch.zeros(heads, asked, words, words).normal_(0, 0.1, generator=generator).requires_grad_()
    output = torch.zeros(heads, asked).normal_(0, 0.5, generator=generator).requires_grad_()
    optimiser = torch.optim.Adam([scores, output], lr=0.1)

    def draw(rows: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the positions asked for, (rows, k), all values, (rows, words), and those asked for, (rows, k)."""
        places = torch.rand(rows, words, generator=generator).argsort(1)[:, :asked]
        values = torch.randn(rows, words, generator=generator)
        return places, values, values.gather(1, places)

    def predict(places: Tensor, values: Tensor) -> Tensor:
        query = F.one_hot(places, words).float().flatten(1)  # (rows, k words)
        own = query @ scores.flatten(1, 2)  # (heads, rows, words)
        fetched = (own.softmax(-1) * values).sum(-1)  # (heads, rows)
        return fetched.T @ output

    for _ in range(steps):
        places, values, targets = draw(128)
        optimiser.zero_grad()
        F.mse_loss(predict(places, values), targets).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    with torch.inference_mode():
        places, values, targets = draw(4000)
        return 1 - float(F.mse_loss(predict(places, values), targets) / targets.var())
