"""Trains small models of any family on a stream of made-up tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.progress import silent
from chainrule.families.table import FAMILIES, family_of
from chainrule.protocol import END
from chainrule.training.config import TrainingConfig
from chainrule.training.job import StreamOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import DataclassInstance
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.protocol import LanguageModel


FIRST_WORD = 3  # the tokens before it are <unk>, <s> and </s>


def by_adamw(steps: int, seed: int) -> TrainingConfig:
    """So many steps of 16 rows, the same optimiser for all families."""
    return TrainingConfig(steps=steps, optimiser="adamw", batch=16, seed=seed, compile="no", learning_rate=5e-3)


def train_small(
    documents: Sequence[Sequence[int] | Int32[ndarray, " T"]],
    vocabulary_size: int,
    config: DataclassInstance,
    training: TrainingConfig,
) -> LanguageModel[Any]:
    """A model of documents of token ids. training: of networks."""
    stream = np.concatenate([np.append(document, END).astype(np.int32) for document in documents])
    family = FAMILIES[family_of(config)]
    more = {"options": StreamOptions(training=training)} if family.trains_in_steps else {}
    model, _ = family.train(stream, vocabulary_size, config, silent, **more)
    return model
