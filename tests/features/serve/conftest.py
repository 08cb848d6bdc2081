"""Tiny models of several families, and a server with all of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from running import Running, running

import chainrule

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = Path(__file__).parents[2] / "fixtures"
_SMALL = {"layers": 1, "width": 16}


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models by family, each of its own folder."""
    home, text = tmp_path_factory.mktemp("models"), FIXTURES / "train.txt"
    options = {"training": chainrule.TrainingConfig(steps=1, compile="no")}
    trigram = chainrule.train(text, chainrule.NGramConfig(order=3), tokenizer="whitespace")
    models = {
        "ngram": trigram,
        "likelihood": chainrule.train(
            text, chainrule.NGramConfig(order=3, smoothing="maximum-likelihood"), tokenizer="whitespace"
        ),
        "mixture": chainrule.mix(
            [trigram, chainrule.train(text, chainrule.NGramConfig(order=1), tokenizer="whitespace")],
            chainrule.MixtureConfig(kind="log-linear"),
        ),
        "bytes": chainrule.train(text, chainrule.NGramConfig(order=4), tokenizer="byte"),
        "lstm": chainrule.train(text, chainrule.RecurrentConfig(**_SMALL), tokenizer="byte", **options),
        "transformer": chainrule.train(
            text, chainrule.TransformerConfig(**_SMALL, heads=2, context=16), tokenizer="byte", **options
        ),
    }
    for name, model in models.items():
        model.save(home / name)
    return {name: home / name for name in models}


@pytest.fixture(scope="session")
def served(folders: dict[str, Path]) -> Iterator[Running]:
    with running(folders) as server:
        yield server
