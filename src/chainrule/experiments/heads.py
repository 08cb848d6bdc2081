"""Heads: what each head of a small Transformer looks at, after it has learned sentences whose verbs agree.

the key near the cars from the houses is lost: when the verb is to be predicted, the subject is what matters, and the
nouns that stand nearer mislead (Clark et al. 2019 ask the same of BERT).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.datasets.chance import Chance
from chainrule.datasets.minimal_pairs import LEARNED, agreement_at_a_distance
from chainrule.drawing.plots import Axis, Line
from chainrule.experiments.findings import Findings
from chainrule.experiments.train_small import FIRST_WORD, train_small
from chainrule.neural.attention_maps import maps_of_text
from chainrule.neural.config import TransformerConfig
from chainrule.training.config import TrainingConfig

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy import ndarray

_VERBS = {"is", "are", "was", "were", "has", "have"}
_SUBJECT = 2  # its position, after </s> and `the`


class Habits(NamedTuple):
    """Mean weights of a head: the largest of each query; on the query's own word, the word before it and the first
    token; and, where a verb is to be predicted, on its subject. distance: the mean distance in words.
    """

    largest: float
    own: float
    previous: float
    first: float
    subject: float
    distance: float


def heads(
    *,
    seed: int = 0,
    progress: Progress = silent,
    layers: int = 2,
    width: int = 64,
    sentences: int = 4000,
    tested: int = 100,
    steps: int = 400,
) -> Findings:
    """The habits of each head, with a line for each. Raises SettingError."""
    chance = Chance(seed, "heads")
    texts = [chance.choice(LEARNED)(chance).good.split() for _ in range(sentences)]
    tests = [agreement_at_a_distance(chance).good.split() for _ in range(tested)]
    words = sorted({word for text in (*texts, *tests) for word in text})
    ids = {word: FIRST_WORD + i for i, word in enumerate(words)}
    config = TransformerConfig(layers=layers, heads=4, width=width, context=32, memory="document")
    training = TrainingConfig(steps=steps, batch=32, seed=seed, compile="no")
    progress("heads: training", 0, 2)
    model = train_small([[ids[word] for word in text] for text in texts], FIRST_WORD + len(words), config, training)
    progress("heads: looking", 1, 2)
    by_head: dict[str, list[Habits]] = {}
    for text in tests:
        verb = next(i for i, word in enumerate(text) if word in _VERBS)
        _, maps = maps_of_text(model, np.array([ids[word] for word in text[:verb]], np.int32))
        for layer in maps:
            for head, weights in enumerate(layer.weights):
                by_head.setdefault(f"layer {layer.layer}, head {head + 1}", []).append(habits(np.asarray(weights)))
    progress("heads", 2, 2)
    means = {label: Habits(*np.mean(own, axis=0).tolist()) for label, own in by_head.items()}
    subject, previous = (max(means, key=lambda label: getattr(means[label], what)) for what in ("subject", "previous"))
    return Findings(
        title="What heads look at",
        x=Axis(
            label="attention",
            categories=["largest weight", "own word", "word before", "first token", "verb to subject"],
        ),
        y=Axis(label="mean weight"),
        lines=[Line(label=label, x=list(range(5)), y=list(own[:5])) for label, own in means.items()],
        finding=(
            f"Where the verb is to be predicted, {subject} puts {means[subject].subject:.0%} of its weight on the "
            f"subject, across misleading nouns; {previous} looks at the word before ({means[previous].previous:.0%})."
        ),
        says=[f"{label}: looks back {own.distance:.1f} words on average" for label, own in means.items()],
    )


def habits(weights: Float[ndarray, "T T"]) -> Habits:
    """Of one head, for one text that ends before its verb. The first query, which has no choice, does not count."""
    positions = np.arange(len(weights))
    later = weights[1:]
    distances = positions[1:, None] - positions[None, :]
    return Habits(
        largest=float(later.max(axis=1).mean()),
        own=float(np.diagonal(weights)[1:].mean()),
        previous=float(np.diagonal(weights, -1).mean()),
        first=float(later[:, 0].mean()),
        subject=float(weights[-1, _SUBJECT]),
        distance=float((later * distances).sum(axis=1).mean()),
    )
