"""The experiments agreement (a verb agrees across more and more words) and shots (learning from examples in a prompt).

Agreement: the words between say nothing. A model is right where it finds the right word likelier than the others that
could stand there.

    the flights [from this city near that town ...] were late         number
    in France   [near this river from that town ...] I spoke French   country and language

Shots: no weight changes. Every document has a code of its own, drawn at random: each of four letters stands for one of
four others. It is written out pair by pair, a X c Y a X ..., so that a letter's code can be known only from the pairs
before it. A model that has learned to look them up gets better with every example that it is shown (Brown et al. 2020;
Olsson et al. 2022).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.features.lectures.experiments.findings import Findings, in_turn
from chainrule.features.lectures.experiments.small_models import FIRST_WORD, by_adamw, train_small
from chainrule.neural.config import FeedforwardConfig, RecurrentConfig, TransformerConfig
from chainrule.ngram.config import NGramConfig
from chainrule.training.config import TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import DataclassInstance
    from jaxtyping import Float64, Int32
    from numpy import ndarray

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
    """Return the share of right verbs and languages by the number of words between, with a line for each family.

    phrases: the numbers of phrases of three words between the two. trained_to: the most of them in training. Raises
    SettingError.
    """
    rng = np.random.default_rng(seed)
    documents = [ids_of(draw_sentence(rng, int(rng.integers(trained_to + 1)))) for _ in range(sentences)]
    tests = [[draw_sentence(rng, count) for _ in range(tested)] for count in phrases]
    lines = []
    for label, config in in_turn("agreement", compared, progress):
        model = train_small(documents, FIRST_WORD + len(WORDS), config, by_adamw(steps, seed))
        lines.append(Line(label=label, x=[3 * count for count in phrases], y=[accuracy(model, test) for test in tests]))
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
    """Return a sentence with this many phrases of three words between its beginning and the word that agrees with
    it.
    """
    group = AGREEING[rng.integers(len(AGREEING))]
    *start, end = group[rng.integers(len(group))]
    between = [row[rng.integers(len(row))] for _ in range(phrases) for row in _BETWEEN]
    return [*start, *between, end]


def ids_of(sentence: Sequence[str]) -> list[int]:
    return [FIRST_WORD + WORDS.index(word) for word in sentence]


def accuracy(model: LanguageModel[Any], sentences: Sequence[Sequence[str]]) -> float:
    """Return the share of sentences that are likelier than the same ones with any other ending of their group."""
    right = []
    for sentence in sentences:
        endings = next([row[-1] for row in group] for group in AGREEING if sentence[-1] in {row[-1] for row in group})
        endings.sort(key=lambda ending: ending != sentence[-1])  # the right one first
        rows = [np.array(ids_of([*sentence[:-1], ending]), np.int32) for ending in endings]
        scores = [float(row.sum()) for row in model.score(rows)]
        right.append(scores[0] > max(scores[1:]))
    return float(np.mean(right))


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
    """Return the share of right answers by the number of examples before the question, with a line for each family.

    examples: how many are in each document. The last line is that of an ideal reader, who remembers everything. Raises
    SettingError.
    """
    rng = np.random.default_rng(seed)
    train = [draw_document(rng, examples) for _ in range(documents)]
    test = [draw_document(rng, examples) for _ in range(tested)]
    before = list(range(examples))
    training = TrainingConfig(steps=steps, batch=32, seed=seed, compile="no")
    lines = []
    for label, config in in_turn("shots", compared, progress):
        model = train_small(train, _VOCABULARY, config, training)
        lines.append(Line(label=label, x=before, y=accuracies(model, test).tolist()))
    lines.append(Line(label="perfect memory", x=before, y=[expected_accuracy(shown) for shown in before]))
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
    """Return letters, each followed by its code."""
    code = rng.permutation(LETTERS)
    letters = rng.integers(LETTERS, size=examples)
    return (FIRST_WORD + np.stack([letters, LETTERS + code[letters]], 1).ravel()).astype(np.int32)


def accuracies(model: LanguageModel[Any], documents: Sequence[Int32[ndarray, " T"]]) -> Float64[ndarray, " examples"]:
    """Return the share of documents, by example, in which the right code is the likeliest of all."""
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
    """Return the expected accuracy of a reader who remembers all pairs shown, and otherwise guesses among the remaining
    codes.

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
