"""The ladder: every model trained on the same text with the same tokens, and measured on the same held-out text."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from chainrule.evaluation.comparison import Comparison, Contender
from chainrule.model import Model, encoded_stream
from chainrule.ngram.config import NGramConfig
from chainrule.progress import Progress, silent
from chainrule.protocol import END
from chainrule.text.tokenizer import Tokenizer
from chainrule.uniform import UniformModel

if TYPE_CHECKING:
    from chainrule.text.corpus import Source
    from chainrule.text.vocabulary import Markers

NAMES = {1: "unigram", 2: "bigram", 3: "trigram"}


def climb(
    train: Source,
    heldout: Source,
    *,
    order: int = 5,
    tokenizer: str = "word",
    markers: Markers = "error",
    progress: Progress = silent,
) -> tuple[Comparison, Model]:
    """Uniform, then n-grams of orders 1 .. order; the table, and the best model of it.

    Each model is trained from the token ids on by itself, so that its seconds are its own. Raises TextError.
    """
    from chainrule.ngram.training import train_ngram

    learner = Tokenizer.untrained(tokenizer, markers)
    stream = encoded_stream(learner, train, progress, grow=True)
    size = learner.vocabulary_size
    _compile_kernels()
    models = {"uniform": Model("uniform", UniformModel(size), learner)}
    seconds, parameters = {"uniform": 0.0}, {"uniform": 0}
    for n in range(1, order + 1):
        name = NAMES.get(n, f"{n}-gram")
        began = time.perf_counter()
        language_model, record = train_ngram(stream, size, NGramConfig(order=n), progress)
        seconds[name] = time.perf_counter() - began
        parameters[name] = sum(record["ngrams"])
        models[name] = Model("ngram", language_model, learner, record)
    contenders = [
        Contender(
            name=name,
            measurement=model.evaluate(heldout, progress),
            train_seconds=seconds[name],
            parameters=parameters[name],
        )
        for name, model in models.items()
    ]
    comparison = Comparison(contenders)
    return comparison, models[comparison.best.name]


def _compile_kernels() -> None:
    """Trains and asks the smallest model, so that no row of the table pays for compiling or loading kernels."""
    from chainrule.ngram.training import train_ngram

    stream = np.array([3, END], np.int32)
    model, _ = train_ngram(stream, 4, NGramConfig(order=2))
    model.score([stream[:1]])
