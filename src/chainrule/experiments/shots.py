"""Shots: learning from the examples in a prompt, with no change of any weight.

Every document has a code of its own, drawn at random: each of four letters stands for one of four others. It is
written out pair by pair, a X c Y a X ..., so that a letter's code can be known only from the pairs before it. A model
that has learned to look them up gets better with every example that it is shown (Brown et al. 2020; Olsson et
al. 2022).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.experiments.findings import Findings
from chainrule.experiments.train_small import FIRST_WORD, train_small
from chainrule.neural.config import RecurrentConfig, TransformerConfig
from chainrule.ngram.config import NGramConfig
from chainrule.training.config import TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import DataclassInstance
    from jaxtyping import Float64, Int32
    from numpy import ndarray

    from chainrule.protocol import LanguageModel

LETTERS = 4
_VOCABULARY = FIRST_WORD + 2 * LETTERS
_FEW_SHOT: dict[str, Any] = {"width": 64, "context": 64, "memory": "document"}

FEW_SHOT_NETWORKS: dict[str, DataclassInstance] = {
    "3-gram": NGramConfig(order=3, smoothing="witten-bell"),
    "LSTM": RecurrentConfig(layers=1, **_FEW_SHOT),
    "Transformer": TransformerConfig(layers=2, heads=4, **_FEW_SHOT),
}


def shots(
    *,
    seed: int = 0,
    progress: Progress = silent,
    compared: dict[str, DataclassInstance] = FEW_SHOT_NETWORKS,
    examples: int = 12,
    documents: int = 6000,
    tested: int = 500,
    steps: int = 800,
) -> Findings:
    """The share of right answers by the number of examples before the question, with a line for each family.

    examples: in each document. The last line is that of a reader who forgets nothing. Raises SettingError.
    """
    rng = np.random.default_rng(seed)
    train = [draw_document(rng, examples) for _ in range(documents)]
    test = [draw_document(rng, examples) for _ in range(tested)]
    before = list(range(examples))
    training = TrainingConfig(steps=steps, batch=32, seed=seed, compile="no")
    lines = []
    for i, (label, config) in enumerate(compared.items()):
        progress(f"shots: {label}", i, len(compared))
        model = train_small(train, _VOCABULARY, config, training)
        lines.append(Line(label=label, x=before, y=accuracies(model, test).tolist()))
    lines.append(Line(label="perfect memory", x=before, y=[expected_accuracy(shown) for shown in before]))
    progress("shots", 1, 1)
    return Findings(
        title="Answers from the examples in the prompt",
        x=Axis(label="examples before the question"),
        y=Axis(label="share of right answers"),
        lines=lines,
        finding="From no example to {}: {}.".format(
            examples - 1, "; ".join(f"{line.label} {line.y[0]:.0%} to {line.y[-1]:.0%}" for line in lines)
        ),
    )


def draw_document(rng: np.random.Generator, examples: int) -> Int32[ndarray, " T"]:
    """Letters, each followed by its code."""
    code = rng.permutation(LETTERS)
    letters = rng.integers(LETTERS, size=examples)
    return (FIRST_WORD + np.stack([letters, LETTERS + code[letters]], 1).ravel()).astype(np.int32)


def accuracies(model: LanguageModel[Any], documents: Sequence[Int32[ndarray, " T"]]) -> Float64[ndarray, " examples"]:
    """The share of documents, by example, in which the right code is the likeliest of all."""
    state = model.start([document[:0] for document in documents])
    right = []
    tokens = np.stack(documents)
    for position in range(tokens.shape[1]):
        if position % 2:
            codes = model.next_log_probs(state)[:, FIRST_WORD + LETTERS :]
            right.append((codes.argmax(1) + FIRST_WORD + LETTERS == tokens[:, position]).mean())
        state = model.advance(state, tokens[:, position])
    return np.array(right)


def expected_accuracy(shown: int) -> float:
    """Of a reader who remembers all pairs shown, and otherwise guesses among the codes that are left.

    With k of the letters seen, the next one is among them with probability k / 4; if it is not, 1 / (4 - k) of guesses
    are right. P(k seen after n draws) follows from drawing one letter after the other.
    """
    seen = np.zeros(LETTERS + 1)
    seen[0] = 1
    for _ in range(shown):
        kept = seen * np.arange(LETTERS + 1) / LETTERS
        kept[1:] += (seen * (1 - np.arange(LETTERS + 1) / LETTERS))[:-1]
        seen = kept
    known = np.arange(LETTERS) / LETTERS
    return float((seen[:-1] * (known + (1 - known) / (LETTERS - np.arange(LETTERS)))).sum() + seen[-1])
