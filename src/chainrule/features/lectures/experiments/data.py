"""The experiments balance (bias and variance by context), scaling (loss by size and tokens), retrieval (smoothing).

Balance: a longer context makes an n-gram model fit its text better (less bias) and others worse (more variance).
Additive smoothing, which does not fall back on shorter contexts, shows it; what interpolation does about it is drawn
beside it.

Scaling: the loss of Transformers by size and by training tokens, with a power law through each (Kaplan et al. 2020).
Small networks that read characters of the built-in text are trained for several numbers of steps.

Retrieval: documents ranked by the probability of a query, and what smoothing has to do with it. The documents are
Python's docstrings without their first line, the queries these first lines (Ponte and Croft 1998; Zhai and Lafferty
2004, who smooth more for long queries).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.errors import TextError
from chainrule.features.corpus.options import RankConfig
from chainrule.features.corpus.retrieval import DocumentIndex
from chainrule.features.lectures.experiments.findings import Findings
from chainrule.models.families.table import FAMILIES
from chainrule.models.files.tokenizers import tokenize_source
from chainrule.neural.config import TransformerConfig
from chainrule.ngram.config import NGramConfig
from chainrule.text.corpus.corpus import Lines
from chainrule.text.corpus.sample import sample_docstrings, sample_lines
from chainrule.text.tokenization.tokenizer import documents_of
from chainrule.training.config import TrainingConfig
from chainrule.training.job import StreamOptions
from chainrule.verbs.training.train import train

if TYPE_CHECKING:
    from collections.abc import Sequence

_PSEUDOCOUNT = 1e-4
_HELD_OUT = 10  # one in this many lines


def balance(
    *,
    seed: int = 0,
    progress: Progress = silent,
    lines: Sequence[str] | None = None,
    orders: Sequence[int] = (1, 2, 3, 4, 5),
) -> Findings:
    """Return perplexity on the training text and on a held-out one by order; parameters, and the share of unseen
    n-grams.

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
    """Return the share of a text's n-grams of words, each as often as it occurs, that another text does not have."""
    seen = {ngram for line in training for ngram in _ngrams(line, order)}
    asked = [ngram for line in heldout for ngram in _ngrams(line, order)]
    return sum(ngram not in seen for ngram in asked) / max(1, len(asked))


def _ngrams(line: str, order: int) -> zip[tuple[str, ...]]:
    words = ["<s>", *line.split(), "</s>"]
    return zip(*(words[i:] for i in range(order)), strict=False)


_CONTEXT, _BATCH = 64, 16
_RESAMPLINGS = 1000


class PowerLaw(NamedTuple):
    """loss = factor * tokens^-exponent. low, high: a 95 % interval of the exponent, from resampled residuals."""

    factor: float
    exponent: float
    low: float
    high: float


def scaling(
    *,
    seed: int = 0,
    progress: Progress = silent,
    lines: Sequence[str] | None = None,
    widths: Sequence[int] = (16, 32, 64),
    steps: Sequence[int] = (50, 100, 200, 400),
) -> Findings:
    """Return the held-out loss of a character by training tokens, with a line for each width.

    lines: a text; by default the built-in one. Raises TextError.
    """
    tokenizer, stream, *_ = tokenize_source(Lines(lines or sample_lines(progress)), "character", progress=silent)
    cut = int(0.95 * len(stream))
    heldout = [stream[i : i + _CONTEXT] for i in range(cut, len(stream) - _CONTEXT, 4 * _CONTEXT)][:200]
    tokens = [float(count * _CONTEXT * _BATCH) for count in steps]
    curves, says, runs = [], [], 0
    for width in widths:
        losses = []
        config = TransformerConfig(layers=2, heads=2, width=width, context=_CONTEXT)
        for count in steps:
            progress(f"scaling: width {width}, {count:,} steps", runs, len(widths) * len(steps))
            training = TrainingConfig(steps=count, batch=_BATCH, seed=seed, compile="no")
            model, _ = FAMILIES["transformer"].train(
                stream[:cut], tokenizer.vocabulary_size, config, silent, options=StreamOptions(training=training)
            )
            scores = np.concatenate(model.score(heldout, end=False))
            losses.append(-float(scores.mean()))
            runs += 1
        size = 2 * 12 * width**2
        curves.append(Line(label=f"{size:,} parameters in blocks", x=tokens, y=losses))
        law = fit_power_law(np.array(tokens), np.array(losses), seed)
        says.append(
            f"{size:,} parameters: loss = {law.factor:.2f} · tokens^-{law.exponent:.3f} "
            f"(exponent {law.low:.3f} to {law.high:.3f})"
        )
    progress("scaling", 1, 1)
    return Findings(
        title="The loss of Transformers by size and training",
        x=Axis(label="training tokens", log=True),
        y=Axis(label="loss of a character, nats", log=True),
        lines=curves,
        finding=(
            f"{tokens[-1] / tokens[0]:.0f} times the tokens and {(widths[-1] / widths[0]) ** 2:.0f} times the "
            f"parameters take the loss from {curves[0].y[0]:.2f} to {curves[-1].y[-1]:.2f} nats."
        ),
        says=says,
    )


def fit_power_law(x: np.ndarray, y: np.ndarray, seed: int = 0) -> PowerLaw:
    """Return the line through the logarithms; the interval from residuals drawn with replacement."""
    slope, intercept = np.polyfit(np.log(x), np.log(y), 1)
    fitted = intercept + slope * np.log(x)
    residuals = np.log(y) - fitted
    rng = np.random.default_rng(seed)
    slopes = [np.polyfit(np.log(x), fitted + rng.choice(residuals, len(x)), 1)[0] for _ in range(_RESAMPLINGS)]
    low, high = np.quantile(slopes, [0.025, 0.975])
    return PowerLaw(float(np.exp(intercept)), -float(slope), -float(high), -float(low))


_FEWEST_WORDS = 20  # of a document
_SHORT, _LONG = 6, 10  # tokens of a query: at most, at least


def retrieval(
    *,
    seed: int = 0,
    progress: Progress = silent,
    pairs: Sequence[tuple[str, str]] | None = None,
    shares: Sequence[float] = (0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99),
    queries: int = 150,
) -> Findings:
    """Return the mean reciprocal rank of a query's own document, by the share of the collection in the mixture, lambda.

    pairs: queries with their documents; by default from Python's docstrings. queries: how many are asked, of each
    length. Raises TextError.
    """
    pairs = list(docstrings() if pairs is None else pairs)
    if len(pairs) < 2:
        raise TextError(f"there are {len(pairs)} documents to rank; expected two or more")
    asked, documents = ([pair[side].lower() for pair in pairs] for side in (0, 1))
    text = tokenize_source(Lines([*asked, *documents]), "word", progress=silent)
    rows = documents_of(text.stream)
    asked_rows, index = rows[: len(pairs)], DocumentIndex(rows[len(pairs) :], text.tokenizer.vocabulary_size)
    rng = np.random.default_rng(seed)
    groups = {
        f"queries of {_SHORT} tokens or fewer": [i for i, row in enumerate(asked_rows) if row.size <= _SHORT],
        f"queries of {_LONG} tokens or more": [i for i, row in enumerate(asked_rows) if row.size >= _LONG],
    }
    lines = []
    for i, (label, members) in enumerate(groups.items()):
        if not members:
            continue
        chosen = rng.permutation(members)[:queries].tolist()
        progress(f"retrieval: {label}", i, len(groups))
        ranks = [
            mean_reciprocal_rank(index, asked_rows, chosen, RankConfig(smoothing="jelinek-mercer", share=s))
            for s in shares
        ]
        lines.append(Line(label=label, x=list(shares), y=ranks))
    progress("retrieval", 1, 1)
    complete = np.mean([set(row.tolist()) <= set(rows[len(pairs) + i].tolist()) for i, row in enumerate(asked_rows)])
    return Findings(
        title=f"Finding one of {len(pairs):,} documents by the probability of a query",
        x=Axis(label="lambda: the share of the collection"),
        y=Axis(label="mean reciprocal rank"),
        lines=lines,
        finding=(
            f"Only {complete:.0%} of the documents have all words of their query: without smoothing, the others would "
            "have probability 0. " + "; ".join(_best(line) for line in lines) + "."
        ),
    )


def docstrings() -> list[tuple[str, str]]:
    """Return the first line of each docstring, and the rest of it, where that is long enough."""
    parts = (docstring.strip().partition("\n") for _, docstring in sample_docstrings())
    return [(first, " ".join(rest.split())) for first, _, rest in parts if len(rest.split()) >= _FEWEST_WORDS]


def mean_reciprocal_rank(
    index: DocumentIndex, queries: Sequence[np.ndarray], chosen: Sequence[int], config: RankConfig
) -> float:
    """Return the mean of 1 / the rank of the i-th document for the i-th query; of equal scores, the worst rank."""
    reciprocal = []
    for i in chosen:
        scores = index.scores(queries[i], config)
        reciprocal.append(1 / int((scores >= scores[i]).sum()))
    return float(np.mean(reciprocal))


def _best(line: Line) -> str:
    best = max(range(len(line.y)), key=line.y.__getitem__)
    return f"{line.label} do best with lambda = {line.x[best]:g}, a mean reciprocal rank of {line.y[best]:.2f}"
