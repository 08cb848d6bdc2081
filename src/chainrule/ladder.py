"""The ladder: every model trained on the same text with the same tokens, and measured on the same held-out text."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import EstimationError
from chainrule.evaluation.comparison import Comparison, Contender
from chainrule.model import Model
from chainrule.ngram.config import NGramConfig
from chainrule.progress import Progress, silent
from chainrule.protocol import END
from chainrule.trained import learnt_speller, tokenized
from chainrule.uniform import UniformConfig, UniformModel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.evaluation.likelihood import Measurement
    from chainrule.text.corpus import Source
    from chainrule.text.learning import Tokenized
    from chainrule.text.tokenizer_config import TokenizerConfig
    from chainrule.text.vocabulary import Markers

NAMES = {1: "unigram", 2: "bigram", 3: "trigram"}


def climb(
    train: Source,
    heldout: Source,
    *,
    order: int = 5,
    tokenizer: TokenizerConfig | str = "word",
    markers: Markers = "error",
    progress: Progress = silent,
) -> Comparison:
    """Uniform, then n-grams of orders 1 .. order, in one table.

    Each model is trained from the token ids on by itself, so that its seconds are its own, and measured before the next
    one is trained, so that no more than two are held at once. Raises TextError, SettingError, EstimationError.
    """
    configs = [NGramConfig(order=n) for n in range(1, NGramConfig(order=order).order + 1)]
    tokens = tokenized(train, tokenizer, markers, progress)
    _compile_kernels()
    contenders: list[Contender] = []
    for name, model, seconds in _rungs(tokens, configs, progress):
        measurement = model.evaluate(heldout, progress)
        check_overlap(measurement, heldout)
        size = sum(model.record.get("ngrams", []))
        contenders.append(Contender(name=name, measurement=measurement, train_seconds=seconds, parameters=size))
    return Comparison(contenders)


def check_overlap(measurement: Measurement, heldout: Source) -> None:
    """Raises EstimationError where the training text has none of a held-out text's tokens: nothing is compared then."""
    if measurement.oov == measurement.tokens - measurement.documents:
        raise EstimationError(
            f"{', '.join(heldout.sources)}: the text that was trained on has none of its tokens, so no models can be "
            "compared on it"
        )


def _rungs(tokens: Tokenized, configs: list[NGramConfig], progress: Progress) -> Iterator[tuple[str, Model, float]]:
    """Each model with its name and the seconds that its training took."""
    from chainrule.ngram.training import train_ngram

    learner, stream, left_out = tokens
    speller = learnt_speller(learner, stream, UniformConfig(), left_out)  # the same for every rung
    yield "uniform", Model("uniform", UniformModel(learner.vocabulary_size), learner, speller=speller), 0.0
    for config in configs:
        began = time.perf_counter()
        language_model, record = train_ngram(stream, learner.vocabulary_size, config, progress)
        seconds = time.perf_counter() - began
        model = Model("ngram", language_model, learner, record, speller)
        yield NAMES.get(config.order, f"{config.order}-gram"), model, seconds


def _compile_kernels() -> None:
    """Trains and asks the smallest model, so that no row of the table pays for compiling or loading kernels."""
    from chainrule.ngram.training import train_ngram

    stream = np.array([3, END], np.int32)
    model, _ = train_ngram(stream, 4, NGramConfig(order=2))
    model.score([stream[:1]])
