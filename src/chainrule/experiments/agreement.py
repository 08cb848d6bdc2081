"""Agreement: a verb that agrees with its subject, across more and more words.

    the flights [from this city near that town ...] were late         number
    in France   [near this river from that town ...] I spoke French   country and language

The words between say nothing. A model is right where it finds the right word likelier than the others that could stand
there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.experiments.findings import Findings
from chainrule.experiments.train_small import FIRST_WORD, by_adamw, train_small
from chainrule.neural.config import FeedforwardConfig, RecurrentConfig, TransformerConfig
from chainrule.ngram.config import NGramConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import DataclassInstance

    from chainrule.protocol import LanguageModel

# What stands at the beginning, with the word that has to come at the end; in groups that are easily confused.
AGREEING = (
    (("the", "flight", "was"), ("the", "flights", "were")),
    (("in", "France", "French"), ("in", "Spain", "Spanish"), ("in", "Greece", "Greek"), ("in", "Finland", "Finnish")),
)
_BETWEEN = (("from", "near", "behind", "over"), ("this", "that", "a"), ("city", "town", "river", "garden", "station"))
WORDS = sorted({word for group in (*AGREEING, _BETWEEN) for row in group for word in row})
_SMALL: dict[str, Any] = {"width": 32, "context": 64, "memory": "document"}

COMPARED: dict[str, DataclassInstance] = {
    "5-gram": NGramConfig(order=5, smoothing="witten-bell"),
    "feed-forward, window 8": FeedforwardConfig(window=8, **_SMALL),
    "RNN": RecurrentConfig(cell="rnn_tanh", layers=1, **_SMALL),
    "LSTM": RecurrentConfig(layers=1, **_SMALL),
    "Transformer": TransformerConfig(layers=2, heads=2, **_SMALL),
}


def agreement(
    *,
    seed: int = 0,
    progress: Progress = silent,
    compared: dict[str, DataclassInstance] = COMPARED,
    phrases: Sequence[int] = (0, 1, 2, 3, 4, 6, 8),
    trained_to: int = 4,
    sentences: int = 4000,
    tested: int = 200,
    steps: int = 400,
) -> Findings:
    """The share of right verbs and languages by the number of words between, with a line for each family.

    phrases: of three words, that stand between. trained_to: the most of them in training. Raises SettingError.
    """
    rng = np.random.default_rng(seed)
    documents = [ids_of(draw_sentence(rng, int(rng.integers(trained_to + 1)))) for _ in range(sentences)]
    tests = [[draw_sentence(rng, count) for _ in range(tested)] for count in phrases]
    lines = []
    for i, (label, config) in enumerate(compared.items()):
        progress(f"agreement: {label}", i, len(compared))
        model = train_small(documents, FIRST_WORD + len(WORDS), config, by_adamw(steps, seed))
        lines.append(Line(label=label, x=[3 * count for count in phrases], y=[accuracy(model, test) for test in tests]))
    progress("agreement", 1, 1)
    longest = 3 * trained_to
    best = [line.label for line in lines if line.y[list(line.x).index(longest)] >= 0.95]
    return Findings(
        title=f"Agreement across other words; trained with up to {longest} of them",
        x=Axis(label="words between"),
        y=Axis(label="share of right words"),
        lines=lines,
        finding=f"Right across {longest} words (95 % or more): {', '.join(best) or 'none of them'}.",
        says=[
            f"{line.label}: {line.y[0]:.0%} side by side, {line.y[-1]:.0%} across {line.x[-1]:g} words"
            for line in lines
        ],
    )


def draw_sentence(rng: np.random.Generator, phrases: int) -> list[str]:
    """A sentence with so many phrases of three words between its beginning and the word that agrees with that."""
    group = AGREEING[rng.integers(len(AGREEING))]
    *start, end = group[rng.integers(len(group))]
    between = [row[rng.integers(len(row))] for _ in range(phrases) for row in _BETWEEN]
    return [*start, *between, end]


def ids_of(sentence: Sequence[str]) -> list[int]:
    return [FIRST_WORD + WORDS.index(word) for word in sentence]


def accuracy(model: LanguageModel[Any], sentences: Sequence[Sequence[str]]) -> float:
    """The share of sentences that are likelier than the same ones with any other ending of their group."""
    right = []
    for sentence in sentences:
        endings = next([row[-1] for row in group] for group in AGREEING if sentence[-1] in {row[-1] for row in group})
        endings.sort(key=lambda ending: ending != sentence[-1])  # the right one first
        rows = [np.array(ids_of([*sentence[:-1], ending]), np.int32) for ending in endings]
        scores = [float(row.sum()) for row in model.score(rows)]
        right.append(scores[0] > max(scores[1:]))
    return float(np.mean(right))
