"""Balance: a longer context makes an n-gram model fit its text better (less bias) and others worse (more variance).

Additive smoothing, which does not fall back on shorter contexts, shows it; what interpolation does about it is drawn
beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.api.training.train import train
from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.experiments.findings import Findings
from chainrule.ngram.config import NGramConfig
from chainrule.text.corpus.corpus import Lines
from chainrule.text.corpus.sample import sample_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

_PSEUDOCOUNT = 1e-4
_HELD_OUT = 10  # a line in so many


def balance(
    *,
    seed: int = 0,
    progress: Progress = silent,
    lines: Sequence[str] | None = None,
    orders: Sequence[int] = (1, 2, 3, 4, 5),
) -> Findings:
    """Perplexity on the training text and on a held-out one by order; parameters, and the share of unseen n-grams.

    lines: a text; by default the built-in one, of which every tenth line is held out. Raises TextError.
    """
    lines = list(lines or sample_lines(progress))
    heldout = [line for i, line in enumerate(lines) if i % _HELD_OUT == _HELD_OUT - 1]
    training = [line for i, line in enumerate(lines) if i % _HELD_OUT != _HELD_OUT - 1]
    curves: dict[str, list[float]] = {"training text": [], "held-out text": [], "held-out text, interpolated": []}
    says = []
    unseen_shares = []
    for i, order in enumerate(orders):
        progress(f"balance: order {order}", i, len(orders))
        additive = NGramConfig(order=order, smoothing="lidstone", pseudocount=_PSEUDOCOUNT)
        model = train(Lines(training), additive, progress=False)
        smooth = train(Lines(training), NGramConfig(order=order, smoothing="witten-bell"), progress=False)
        curves["training text"].append(model.perplexity(Lines(training)))
        curves["held-out text"].append(model.perplexity(Lines(heldout)))
        curves["held-out text, interpolated"].append(smooth.perplexity(Lines(heldout)))
        unseen_shares.append(unseen_share(training, heldout, order))
        size = model.record["ngrams"][-1]
        says.append(
            f"order {order}: {size:,} n-grams of that order; {unseen_shares[-1]:.1%} of the held-out ones are unseen"
        )
    progress("balance", 1, 1)
    best = orders[curves["held-out text"].index(min(curves["held-out text"]))]
    return Findings(
        title="Bias and variance of n-gram models",
        x=Axis(label="order"),
        y=Axis(label="perplexity", log=True),
        lines=[Line(label=label, x=list(orders), y=values) for label, values in curves.items()],
        finding=(
            f"From order {orders[0]} to {orders[-1]} the perplexity of the training text falls from "
            f"{curves['training text'][0]:.0f} to {curves['training text'][-1]:.1f}; that of the held-out text is "
            f"lowest at order {best}, since {unseen_shares[-1]:.0%} of its {orders[-1]}-grams were never seen."
        ),
        says=says,
    )


def unseen_share(training: Sequence[str], heldout: Sequence[str], order: int) -> float:
    """The share of a text's n-grams of words, each as often as it occurs, that another text does not have."""
    seen = {ngram for line in training for ngram in _ngrams(line, order)}
    asked = [ngram for line in heldout for ngram in _ngrams(line, order)]
    return sum(ngram not in seen for ngram in asked) / max(1, len(asked))


def _ngrams(line: str, order: int) -> zip[tuple[str, ...]]:
    words = ["<s>", *line.split(), "</s>"]
    return zip(*(words[i:] for i in range(order)), strict=False)
