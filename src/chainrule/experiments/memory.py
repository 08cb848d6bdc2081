"""Memory: strings of A and B whose last letter is B exactly if a B came before.

At most one B comes before, anywhere, so a model has to remember one bit over the length of the string. It has to prefer
a string with the right last letter to one with the wrong letter: chance level is one half.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.drawing.plots import Axis, Line
from chainrule.experiments.findings import Findings
from chainrule.experiments.train_small import by_adamw, train_small
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
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.protocol import LanguageModel

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
    """The share of right choices by length, with a line for each family.

    trained_to: the length of the longest training string. strings: how many to train on. tested: how many to test for
    each length. Raises SettingError.
    """
    rng = np.random.default_rng(seed)
    documents = draw(rng, rng.integers(2, trained_to + 1, strings))
    tests = [draw(rng, np.full(tested, length)) for length in lengths]
    lines = []
    for i, (label, config) in enumerate(compared.items()):
        progress(f"memory: {label}", i, len(compared))
        model = train_small(documents, _REMEMBERED_VOCABULARY, config, by_adamw(steps, seed))
        lines.append(
            Line(label=label, x=list(lengths), y=[accuracy(model, strings_of_length) for strings_of_length in tests])
        )
    progress("memory", 1, 1)
    return Findings(
        title=f"The last letter is B if any was B before; trained to length {trained_to}",
        x=Axis(label="length of the string", log=True),
        y=Axis(label="share of right choices"),
        lines=lines,
        says=[f"{line.label}: {_reach(line, lengths)}" for line in lines],
    )


def draw(rng: np.random.Generator, lengths: Sequence[int] | ndarray) -> list[Int32[ndarray, " length"]]:
    """A string of each length; half of them have a B somewhere before the last letter, and therefore there, too."""
    strings = []
    for length in map(int, lengths):
        string = np.full(length, A, np.int32)
        if rng.random() < 0.5:
            string[int(rng.integers(length - 1))] = string[-1] = B
        strings.append(string)
    return strings


def accuracy(model: LanguageModel[Any], strings: Sequence[Int32[ndarray, " length"]]) -> float:
    """The share of strings that are likelier than the same strings with the other last letter."""
    wrong = [np.append(string[:-1], A + B - string[-1]).astype(np.int32) for string in strings]
    right_scores, wrong_scores = (model.score(rows) for rows in (strings, wrong))
    return float(np.mean([a.sum() > b.sum() for a, b in zip(right_scores, wrong_scores, strict=True)]))


def _reach(line: Line, lengths: Sequence[int]) -> str:
    reliable = list(takewhile(lambda pair: pair[1] >= _RELIABLE, zip(lengths, line.y, strict=True)))
    return f"right up to length {reliable[-1][0]}" if reliable else f"wrong even at length {lengths[0]}"
