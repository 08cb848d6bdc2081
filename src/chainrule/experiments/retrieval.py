"""Retrieval: documents ranked by the probability of a query, and what smoothing has to do with it.

The documents are Python's docstrings without their first line, the queries these first lines (Ponte and Croft 1998;
Zhai and Lafferty 2004, who smooth more for long queries).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.api.tokenizers import tokenized
from chainrule.applications.retrieval import DocumentIndex, RankConfig
from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.errors import TextError
from chainrule.experiments.findings import Findings
from chainrule.text.corpus.corpus import Lines
from chainrule.text.corpus.sample import sample_docstrings
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """The mean reciprocal rank of a query's own document, by the share of the collection in the mixture, lambda.

    pairs: queries with their documents; by default from Python's docstrings. queries: how many are asked, of each
    length. Raises TextError.
    """
    pairs = list(docstrings() if pairs is None else pairs)
    if len(pairs) < 2:
        raise TextError(f"there are {len(pairs)} documents to rank; expected two or more")
    asked, documents = ([pair[side].lower() for pair in pairs] for side in (0, 1))
    text = tokenized(Lines([*asked, *documents]), "word", progress=silent)
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
    """The first line of each docstring, and the rest of it, where that is long enough."""
    parts = (docstring.strip().partition("\n") for _, docstring in sample_docstrings())
    return [(first, " ".join(rest.split())) for first, _, rest in parts if len(rest.split()) >= _FEWEST_WORDS]


def mean_reciprocal_rank(
    index: DocumentIndex, queries: Sequence[np.ndarray], chosen: Sequence[int], config: RankConfig
) -> float:
    """The mean of 1 / the rank of the i-th document for the i-th query; of equal scores, the worst rank."""
    reciprocal = []
    for i in chosen:
        scores = index.scores(queries[i], config)
        reciprocal.append(1 / int((scores >= scores[i]).sum()))
    return float(np.mean(reciprocal))


def _best(line: Line) -> str:
    best = max(range(len(line.y)), key=line.y.__getitem__)
    return f"{line.label} do best with lambda = {line.x[best]:g}, a mean reciprocal rank of {line.y[best]:.2f}"
