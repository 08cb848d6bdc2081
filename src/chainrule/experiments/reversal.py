"""The task of writing a sequence of letters backwards, for models of pairs: every output looks at one input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.api.training.train_pairs import train_pairs
from chainrule.decoding.config import BeamConfig
from chainrule.neural.config.seq2seq import ConditionalConfig
from chainrule.text.parallel import Pairs
from chainrule.training.config import TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.api.conditional.pair_model import TextPairModel

LETTERS = "abcdefghijklmnop"
SMALL = ConditionalConfig(
    encoder="lstm", decoder="lstm", encoder_layers=1, decoder_layers=1, width=64, dropout=0.0, attention="soft"
)


def draw_sources(rng: np.random.Generator, lengths: Sequence[int]) -> list[str]:
    """Random letters of each length, separated by spaces."""
    return [" ".join(LETTERS[i] for i in rng.integers(len(LETTERS), size=length)) for length in lengths]


def backwards(source: str) -> str:
    return " ".join(reversed(source.split()))


def train_on_reversal(
    config: ConditionalConfig, sources: Sequence[str], *, steps: int, seed: int, learning_rate: float = 5e-3
) -> TextPairModel:
    """A model that was trained to write these sources backwards."""
    training = TrainingConfig(
        steps=steps, batch=32, seed=seed, compile="no", optimiser="adamw", learning_rate=learning_rate
    )
    pairs = Pairs(list(sources), [backwards(source) for source in sources])
    return train_pairs(pairs, config, tokenizer="whitespace", training=training, progress=False)


def accuracy(model: TextPairModel, sources: Sequence[str]) -> float:
    """The share of letters at the right positions, of what greedy search writes."""
    longest = max(len(source.split()) for source in sources)
    written = model.write(list(sources), BeamConfig(size=1), max_tokens=longest + 2, progress=False)
    shares = []
    for source, texts in zip(sources, written, strict=True):
        wanted, letters = backwards(source).split(), texts[0].text.split() if texts else []
        shares.append(np.mean([i < len(letters) and letters[i] == letter for i, letter in enumerate(wanted)]))
    return float(np.mean(shares))
