"""Trains small models for experiments: any family on made-up tokens, and seq2seq models that write letters backwards.

When a sequence is written backwards, every output depends on one input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.progress import silent
from chainrule.decoding.config import BeamConfig
from chainrule.features.seq2seq.network.config import Seq2SeqConfig
from chainrule.features.seq2seq.training import train_pairs
from chainrule.models.families.table import FAMILIES, family_of
from chainrule.protocol import END
from chainrule.text.parallel import Pairs
from chainrule.training.config import TrainingConfig
from chainrule.training.job import StreamOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import DataclassInstance
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.features.seq2seq.model import Seq2SeqModel
    from chainrule.protocol import LanguageModel
    from chainrule.training.config import Forcing

FIRST_WORD = 3  # the tokens before it are <unk>, <s> and </s>


def by_adamw(steps: int, seed: int) -> TrainingConfig:
    """Return settings for this many steps of 16 rows, with the same optimiser for all families."""
    return TrainingConfig(steps=steps, optimiser="adamw", batch=16, seed=seed, compile="no", learning_rate=5e-3)


def train_small(
    documents: Sequence[Sequence[int] | Int32[ndarray, " T"]],
    vocabulary_size: int,
    config: DataclassInstance,
    training: TrainingConfig,
) -> LanguageModel[Any]:
    """Return a model of documents of token ids. training: the settings for networks."""
    stream = np.concatenate([np.append(document, END).astype(np.int32) for document in documents])
    family = FAMILIES[family_of(config)]
    more = {"options": StreamOptions(training=training)} if family.trains_in_steps else {}
    model, _ = family.train(stream, vocabulary_size, config, silent, **more)
    return model


LETTERS = "abcdefghijklmnop"
SMALL = Seq2SeqConfig(
    encoder="lstm", decoder="lstm", encoder_layers=1, decoder_layers=1, width=64, dropout=0.0, attention="soft"
)


def draw_sources(rng: np.random.Generator, lengths: Sequence[int]) -> list[str]:
    """Return random letters of each length, separated by spaces."""
    return [" ".join(LETTERS[i] for i in rng.integers(len(LETTERS), size=length)) for length in lengths]


def backwards(source: str) -> str:
    return " ".join(reversed(source.split()))


def train_on_reversal(
    config: Seq2SeqConfig,
    sources: Sequence[str],
    *,
    steps: int,
    seed: int,
    learning_rate: float = 5e-3,
    forcing: Forcing = "teacher",
) -> Seq2SeqModel:
    """Return a model that was trained to write these sources backwards."""
    training = TrainingConfig(
        steps=steps,
        batch=32,
        seed=seed,
        compile="no",
        optimiser="adamw",
        learning_rate=learning_rate,
        forcing=forcing,
    )
    pairs = Pairs(list(sources), [backwards(source) for source in sources])
    return train_pairs(pairs, config, tokenizer="whitespace", training=training, progress=False)


def accuracy(model: Seq2SeqModel, sources: Sequence[str]) -> float:
    """Return the share of letters at the right positions, of what greedy search writes."""
    longest = max(len(source.split()) for source in sources)
    written = model.write(list(sources), BeamConfig(size=1), max_tokens=longest + 2, progress=False)
    shares = []
    for source, texts in zip(sources, written, strict=True):
        wanted, letters = backwards(source).split(), texts[0].text.split() if texts else []
        shares.append(np.mean([i < len(letters) and letters[i] == letter for i, letter in enumerate(wanted)]))
    return float(np.mean(shares))
